# SPDX-License-Identifier: GPL-2.0
"""Reports of the data race detector, separated into those about rox and all others.

Linux has many unmarked data races, which a strict detector reports in each run. These reports are only
counted. A report that names a function of rox fails the run.
"""

import re

BEGIN = re.compile(r"BUG: KCSAN: ")
RULE = re.compile(r"={40,}\s*$")
OURS = re.compile(r"\[rox\]|\brox_\w+")
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
    ours = any(OURS.search(line) and not TASK.search(line) for line in report)
    kept += report if ours else report[1:]
    return 0 if ours else 1


def ran(text):
    """True if the detector was active."""
    return "kcsan: enabled" in text
