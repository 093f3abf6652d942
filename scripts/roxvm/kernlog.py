# SPDX-License-Identifier: GPL-2.0
"""Find complaints in a kernel log."""

import re

from . import kcsan

# Patterns of reports, of the kernel or of this harness, about something broken. Nearly all reports
# match the first line: they begin like that, or contain a backtrace.
BAD = re.compile("|".join((
    r"\bWARNING\b", r"\bBUG\b", r"\bINFO: ", r"\bCall Trace:", r"-\[ cut here \]-",
    r"\bOops\b", r"Kernel panic", r"general protection fault", r"unable to handle (kernel|page)",
    r"divide error", r"stack segment", r"invalid opcode:", r"double fault",
    r"soft lockup", r"hard LOCKUP", r"\brcu\b.*\b(stalls?|starved)\b",
    r"possible (circular|recursive|irq) lock", r"inconsistent lock state",
    r"suspicious RCU usage", r"bad unlock balance", r"held lock freed",
    r"\bKASAN\b.*:", r"\bKCSAN\b.*:", r"\bUBSAN\b:",
    r"\bkmemleak: ([1-9]|Cannot (?!allocate a scan area)|Kernel memory leak detector disabled|.*exceeded)",
    r"refcount_t: ", r"\bleaked\b", r"\bLEAK: ", r"waiting for .* to become free",
    r"detected leak of resources", r"restrack: ", r"[Ss]till (has objects|in use)",
    r"Objects remaining", r"scheduling while atomic", r"sleeping function called",
    r"Bad page state", r"Bad rss-counter", r"nonzero pgtables",
    r"list_(add|del) corruption", r"slab .* (corrupt|error|Redzone)",
    r"(Poison|Redzone|[Rr]ight [Rr]edzone|Left Redzone|Padding) overwritten",
    r"Out of memory: Killed", r"page allocation failure",
    r"ib_.*(not all|leak)", r"unpinned? .* leak", r"segfault at .* in lib(rox|ibverbs)",
)))

# Exceptions, which match a pattern above.
HARMLESS = re.compile("|".join((
    r"RAS: ", r"KASAN: .*enabled", r"UBSAN: .*enabled",
    r"Command line: ", r"Kernel command line: ",
    # A page fault that fails by fault injection; Linux repeats it.
    r"VM_FAULT_OOM leaked out to the #PF handler",
    # A program's own fault, which also changes its exit status.
    r"\btraps: .* ip:\S+ sp:\S+ error:\S+ in (?!lib(rox|ibverbs))",
)))

# The kernel prints a backtrace when it kills a program of a control group at its limit, which tests of
# hostile provoke. If the machine itself has no memory, it prints another line.
OUT_OF_MEMORY = re.compile(r"invoked oom-killer")
OUT_OF_MEMORY_LINES = 12
TRACE = re.compile(r"\bCall Trace:")

# The start of the backtraces of all tasks, which scripts/vm requests at the time limit.
ASKED = re.compile(r"sysrq: Show (Blocked )?State|sysrq: Show backtrace of all active CPUs")

# The bits of /proc/sys/kernel/tainted, as the letters that the kernel prints. rox is out of tree (O) and
# unsigned (E), and its KUnit suites set N.
TAINTS = "PFSRMBUDAWCIOELKXTN"
TAINTS_ALLOWED = set("OE")
SUITES = re.compile(r"# Subtest: rox_")

CONTEXT_BEFORE = 3
CONTEXT_AFTER = 40


def bad_lines(lines):
    """Indices of the lines that make a run fail."""
    last = next((i for i, line in enumerate(lines) if ASKED.search(line)), len(lines))
    return [i for i, line in enumerate(lines[:last])
            if BAD.search(line) and not HARMLESS.search(line) and not limit_reached(lines, i)]


def limit_reached(lines, index):
    """True if this is the backtrace of a program killed at its control group's memory limit."""
    before = lines[max(0, index - OUT_OF_MEMORY_LINES):index]
    return bool(TRACE.search(lines[index])) and any(map(OUT_OF_MEMORY.search, before))


def taints(mask, log):
    """The forbidden letters of a taint mask."""
    letters = {letter for bit, letter in enumerate(TAINTS) if mask >> bit & 1}
    letters |= {"?"} if mask >> len(TAINTS) else set()
    allowed = TAINTS_ALLOWED | ({"N"} if SUITES.search(log) else set())
    return "".join(sorted(letters - allowed))


def report(text):
    """The complaints in a log, with some lines of context; empty if there are none."""
    lines = kcsan.sift(text)[0].splitlines()
    keep = set()
    for index in bad_lines(lines):
        keep.update(range(max(0, index - CONTEXT_BEFORE),
                          min(len(lines), index + CONTEXT_AFTER + 1)))
    shown, previous = [], None
    for index in sorted(keep)[:400]:
        if previous is not None and index != previous + 1:
            shown.append("  ...")
        shown.append(f"  {lines[index]}")
        previous = index
    return "\n".join(shown)


def at_time_limit(text):
    """The parts of a log that tell why a guest did not end: the last lines, the blocked tasks, the
    backtraces of the CPUs. (The log itself has all tasks.)"""
    before, mark, after = text.partition("sysrq: Show Blocked State")
    if not mark:
        return tail(text)
    after = after.partition("sysrq: Show State")[0]
    lines = [line for line in (mark + after).splitlines()
             if not re.search(r"^\[[\d .]+\]   \.", line)]
    return tail(before, 20) + "\n" + "\n".join(f"  {line}" for line in lines[:200])


def tail(text, count=60):
    return "\n".join(f"  {line}" for line in text.splitlines()[-count:])
