# SPDX-License-Identifier: GPL-2.0
"""The counters that the plugin has written: by function, by side, copying and summing apart."""

import bisect
import re

SIDES = ("client", "server", "other", "idle", "wait")
# Loops that only move bytes, or only sum them up.
COPY = re.compile(r"(__)?mem(cpy|move)(_orig|_erms)?|rep_movs_alternative|copy_user_generic_\w+|copy_user_enhanced_\w+|"
                  r"__copy_user_\w+|copy_mc_\w+|__memcpy_flushcache|copy_page(_regs)?|_copy_mc_\w+")
SUM = re.compile(r"crc32c?_(le|be)(_base|_generic\w*)?|__crc32c_le\w*|crc32_body\w*|crc32c?_pclmul\w*|"
                 r"crc32c_intel_le_hw\w*|crc_pcl|csum_partial\w*|do_csum\w*|rox_crc32_sparse|rox_sparse_\w+")
# The loop of an idle CPU, which is no work for a message.
IDLE = re.compile(r"do_idle|cpu_idle_poll|default_idle\w*|acpi_\w*idle\w*|cpuidle_\w+|arch_cpu_idle\w*|"
                  r"native_(safe_)?halt|pv_native_safe_halt|intel_idle\w*|haltpoll_\w+|menu_\w+|teo_\w+|"
                  r"tick_nohz_\w+|schedule_idle|need_update|rcu_(idle|dynticks|nohz)\w*|ct_(idle|kernel)\w*|"
                  r"nohz_\w+|quiet_vmstat|arch_cpu_idle_enter|ct_idle_\w+|tsc_verify_tsc_adjust")
USER_END = 1 << 63
PROGRAMS = "(programs)"
# Functions to watch: class (0 copies, 1 sums up) and the register that has the length (marks.h).
RSI, RDX, RCX = 1, 2, 3
WATCH = {
    **{name: (0, RDX) for name in ("memcpy", "__memcpy", "memmove", "__memmove", "copy_user_generic_unrolled",
                                   "copy_user_generic_string", "__copy_user_nocache", "copy_mc_fragile",
                                   "__memcpy_flushcache")},
    "rep_movs_alternative": (0, RCX),
    **{name: (1, RDX) for name in ("crc32_le", "crc32_le_base", "__crc32c_le", "__crc32c_le_base",
                                   "crc32c_intel_le_hw", "rox_crc32_sparse")},
    **{name: (1, RSI) for name in ("csum_partial", "crc32_pclmul_le_16", "crc_pcl")},
    "__switch_to": (2, 0),
    "do_idle": (3, 0),
}


class Symbols:
    """Finds the function at an address."""

    def __init__(self, text):
        rows = sorted((int(row.split()[0], 16), row.split()[1]) for row in text.splitlines())
        self.addresses = [row[0] for row in rows]
        self.names = [row[1] for row in rows]

    def find(self, address):
        at = bisect.bisect_right(self.addresses, address) - 1
        return self.names[at] if at >= 0 else "?"


def kind_of(name):
    if COPY.fullmatch(name):
        return "copy"
    if SUM.fullmatch(name):
        return "sum"
    if name == PROGRAMS:
        return "user"
    return "idle" if IDLE.fullmatch(name) else "rest"


class Run:
    """The counters of one run."""

    def __init__(self):
        self.functions = {}             # name -> instructions of each side
        self.locked = [0] * len(SIDES)
        self.locked_in = {}             # name -> locked instructions
        self.calls = {0: [0] * len(SIDES), 1: [0] * len(SIDES)}
        self.bytes = {0: [0] * len(SIDES), 1: [0] * len(SIDES)}

    def block(self, words, symbols):
        address, instructions, locked = int(words[0], 16), int(words[1]), int(words[2])
        name = PROGRAMS if address < USER_END else symbols.find(address)
        mine = self.functions.setdefault(name, [0] * len(SIDES))
        for side, count in enumerate(map(int, words[3:])):
            mine[side] += count * instructions
            self.locked[side] += count * locked
            self.locked_in[name] = self.locked_in.get(name, 0) + count * locked

    def watch(self, words):
        what, numbers = int(words[1]), list(map(int, words[2:]))
        for side in range(len(SIDES)):
            self.calls[what][side] += numbers[side]
            self.bytes[what][side] += numbers[len(SIDES) + side]


def parse(lines, symbols):
    """The runs in the plugin's file, by their numbers. A run that has not ended is left out."""
    found, run = {}, None
    for line in lines:
        word, *words = line.split()
        if word == "run":
            run = Run()
        elif word == "block":
            run.block(words, symbols)
        elif word == "bytes":
            run.watch(words)
        elif word == "end":
            found[int(words[0])] = run
    return found


def joined(server, client):
    """The counters of a run whose ends were in two guests: what each of them did for it is one side's."""
    run = Run()
    for side, guest in ((SIDES.index("server"), server), (SIDES.index("client"), client)):
        for name, counts in guest.functions.items():
            left_out = {"idle": "idle", "user": "wait"}.get(kind_of(name))
            mine = run.functions.setdefault(name, [0] * len(SIDES))
            mine[side] += sum(count for where, count in zip(SIDES, counts) if where != left_out)
        run.locked[side] += sum(guest.locked)
        for name, count in guest.locked_in.items():
            run.locked_in[name] = run.locked_in.get(name, 0) + count
        for what in run.calls:
            run.calls[what][side] += sum(guest.calls[what])
            run.bytes[what][side] += sum(guest.bytes[what])
    return run


def figures(run, messages):
    """The counters of a run for each message: of each side, and all together.

    What a program does while it polls in vain is left out, and so is the loop of an idle CPU. What interrupts do
    meanwhile counts.
    """
    def each(value):
        return round(value / messages, 2)

    sides = {}
    for side, name in enumerate(SIDES):
        kinds = {kind: sum(counts[side] for function, counts in run.functions.items()
                           if kind_of(function) == kind) for kind in ("rest", "user", "copy", "sum", "idle")}
        user = 0 if name == "wait" else kinds["user"]
        sides[name] = {
            "instructions": each(kinds["rest"] + user + (kinds["idle"] if name != "idle" else 0)),
            "user": each(user), "copy": each(kinds["copy"]), "sum": each(kinds["sum"]),
            "locked": each(run.locked[side]), "copied": each(run.bytes[0][side]),
            "summed": each(run.bytes[1][side])}
    total = {key: round(sum(side[key] for side in sides.values()), 2) for key in sides["client"]}
    return {"all": total, **sides}


def functions(run, messages, most):
    """The functions with the most instructions for a message, and all with a locked one in two messages."""
    rows = sorted(run.functions.items(), key=lambda row: -sum(row[1]))
    rows = [row for at, row in enumerate(rows) if at < most or run.locked_in[row[0]] * 2 > messages]
    return [{"name": name, "kind": kind_of(name), "instructions": round(sum(counts) / messages, 2),
             "locked": round(run.locked_in[name] / messages, 2),
             **{side: round(count / messages, 2) for side, count in zip(SIDES, counts)}}
            for name, counts in rows]
