# SPDX-License-Identifier: GPL-2.0
"""Reports of the data race detector, separated into those about rox and all others.

Linux has many unmarked data races, which a strict detector reports in each run. These reports are only
counted. A report that names a function of rox fails the run, unless rox was only interrupted, or the race is
one of those within a facility of the kernel that were judged (JUDGED).
"""

import re

BEGIN = re.compile(r"BUG: KCSAN: ")
RULE = re.compile(r"={40,}\s*$")
OURS = re.compile(r"\[rox\]|\brox_\w+")
# An access begins. Its first line names where it was; its callers follow.
ACCESS = re.compile(r"\b(read|write|read-write)( \(\w+\))? to 0x[0-9a-f]+ of \d+ bytes by ")
# What is below in a backtrace was interrupted, and has no part in the access.
INTERRUPT = re.compile(r"\basm_(sysvec_\w+|common_interrupt)\+")
# The compiler adds to names of functions: "x.constprop.0".
RACE = re.compile(r"BUG: KCSAN: data-race in (\w+)(?:\.[\w.]+)? / (\w+)(?:\.[\w.]+)?\s*$")
# Races between functions of the kernel which their callers cannot avoid, and why they do no harm.
JUDGED = {
    frozenset(("hrtimer_wakeup", "schedule_hrtimeout_range_clock")):
        "a thread looks whether its timer has fired; it does so after it has set its state, and the timer wakes it",
    frozenset(("poll_schedule_timeout", "pollwake")):
        "a thread in poll() looks whether it was woken; it does so after it has set its state, and is woken then",
    frozenset(("percpu_counter_add_batch", "zap_page_range_single")):
        "statistics of a process's memory",
    frozenset(("do_task_stat", "handle_mm_fault")):
        "a process's page faults, which /proc shows while they are counted",
    frozenset(("__mmu_notifier_invalidate_range_start", "mmu_interval_read_begin")):
        "the reader only waits for a change; mmu_interval_read_retry() decides, under the caller's lock",
    frozenset(("xas_load", "xas_store")):
        "a reader under RCU finds an entry or the head of the array before or after it is replaced",
    frozenset(("process_one_work", "queue_work_on")):
        "whoever sets the bit that a work is pending owns the word, and the worker clears it with a barrier",
    frozenset(("move_linked_works", "queue_work_on")):
        "the worker reads another bit of that word, which changes only under the lock of its pool",
    frozenset(("__might_fault", "__skb_checksum")):
        "a task looks whether page faults are disabled, which an interrupt has done meanwhile, and has undone",
}
# The line at the end of a report that names the current task. It may name a work item of ours that
# began or ended during the race.
TASK = re.compile(r"\] (Workqueue|CPU): ")
# Another message in the middle of a report may replace its last line.
LONGEST = 200


def sift(text):
    """The log without the first lines of reports about the rest of Linux, and the number of these reports.

    Their other lines are kept, because other messages may be among them.
    """
    kept, report, others = [], None, 0
    for line in text.splitlines():
        if report is None:
            if not BEGIN.search(line):
                kept.append(line)
                continue
            report = []
        elif BEGIN.search(line):
            others += judge(report, kept)
            report = []
        report.append(line)
        if RULE.search(line) or len(report) == LONGEST:
            others += judge(report, kept)
            report = None
    if report:
        others += judge(report, kept)
    return "\n".join(kept), others


def judge(report, kept):
    """Appends a report to `kept`, without its first line if it does not name rox. Returns 1 in that
    case, else 0."""
    ours = is_ours(report)
    kept += report if ours else report[1:]
    return 0 if ours else 1


def is_ours(report):
    """True if a function of rox made one of the accesses, or called what made it."""
    race = RACE.search(report[0])
    if race and frozenset(race.groups()) in JUDGED:
        return False
    interrupted = False
    for line in report:
        if ACCESS.search(line):
            interrupted = False
        elif INTERRUPT.search(line):
            interrupted = True
        elif OURS.search(line) and not interrupted and not TASK.search(line):
            return True
    return False


def ran(text):
    """True if the detector was active."""
    return "kcsan: enabled" in text
