# SPDX-License-Identifier: GPL-2.0
"""Find in a kernel log what must not be there."""

import re

# Each is a report of the kernel, or of this harness, about something broken.
BAD = re.compile("|".join((
    r"\bWARNING: ", r"\bBUG: ", r"kernel BUG at", r"\bOops\b", r"Kernel panic",
    r"general protection fault", r"unable to handle (kernel|page)",
    r"divide error", r"stack segment", r"invalid opcode:", r"double fault",
    r"INFO: task .* blocked for more than", r"soft lockup", r"hard LOCKUP",
    r"rcu.*(detected stalls|self-detected stall|stall on CPU)",
    r"possible (circular|recursive|irq) lock", r"inconsistent lock state",
    r"suspicious RCU usage", r"bad unlock balance", r"held lock freed",
    r"\bKASAN\b.*:", r"\bKCSAN\b.*:", r"\bUBSAN\b:", r"\bkmemleak: [1-9]",
    r"refcount_t: ", r"\bleaked\b", r"\bLEAK: ", r"waiting for .* to become free",
    r"detected leak of resources", r"restrack: ", r"[Ss]till (has objects|in use)",
    r"Objects remaining", r"scheduling while atomic", r"sleeping function called",
    r"Bad page state", r"Bad rss-counter", r"nonzero pgtables",
    r"list_(add|del) corruption", r"slab .* (corrupt|error|Redzone)",
    r"Out of memory: Killed", r"page allocation failure",
    r"ib_.*(not all|leak)", r"unpinned? .* leak", r"segfault at .* in lib(rox|ibverbs)",
)))

# What matches above and is none of our business.
HARMLESS = re.compile("|".join((
    r"RAS: ", r"KASAN: .*enabled", r"UBSAN: .*enabled",
    r"Command line: ", r"Kernel command line: ",
    # A page fault that an injected failure leaves without memory, and that Linux repeats.
    r"VM_FAULT_OOM leaked out to the #PF handler",
    # A program's own fault, which its exit status tells; it says "general protection fault", too.
    r"\btraps: .* ip:\S+ sp:\S+ error:\S+ in (?!lib(rox|ibverbs))",
)))

CONTEXT_BEFORE = 3
CONTEXT_AFTER = 40


def bad_lines(lines):
    """Indices of the lines that make a run fail."""
    return [i for i, line in enumerate(lines)
            if BAD.search(line) and not HARMLESS.search(line)]


def report(text):
    """The bad parts of a log with some lines around them; empty if clean."""
    lines = text.splitlines()
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
    """What a log says about a guest that did not end: its last lines, then
    the blocked tasks and what the CPUs do. The log has all tasks."""
    before, mark, after = text.partition("sysrq: Show Blocked State")
    if not mark:
        return tail(text)
    after = after.partition("sysrq: Show State")[0]
    lines = [line for line in (mark + after).splitlines()
             if not re.search(r"^\[[\d .]+\]   \.", line)]
    return tail(before, 20) + "\n" + "\n".join(f"  {line}" for line in lines[:200])


def tail(text, count=60):
    return "\n".join(f"  {line}" for line in text.splitlines()[-count:])
