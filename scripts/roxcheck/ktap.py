# SPDX-License-Identifier: GPL-2.0
"""Parse the results of a KUnit suite (KTAP, as in /sys/kernel/debug/kunit/SUITE/results).

usage: ktap.py SUITE FILE

Prints a line for each case: the verdict (ok, not ok, skip), a tab, and the case's name. A parameterised
case has a line for each parameter.
"""

import re
import sys

LINE = re.compile(r"^( *)(not )?ok \d+ (?:- )?(.*?)(?:\s*# *SKIP\b.*)?$")
SKIP = re.compile(r"# *SKIP\b")
PLAN = re.compile(r"^ {4}1\.\.(\d+)$")
BLANKS = 4                              # indentation of each level: suite, case, parameter


def cases(suite, text):
    """(verdict, name) of each case. Missing results count as a failed case."""
    found, values = [], []
    planned = seen = 0
    whole = None
    for line in text.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = int(plan.group(1))
        match = LINE.match(line)
        if not match:
            continue
        blanks, bad, name = match.groups()
        verdict = "not ok" if bad else "skip" if SKIP.search(line) else "ok"
        level = len(blanks) // BLANKS
        if level >= 2:
            values.append((verdict, name))
        elif level == 1:
            seen += 1
            found += [(of, f"{suite}.{name}: {value}") for of, value in values]
            # A case may also fail after all its parameters have passed.
            if not values or verdict == "not ok" and all(of != "not ok" for of, _ in values):
                found.append((verdict, f"{suite}.{name}"))
            values = []
        else:
            whole = verdict
    if not seen or seen != planned:
        found.append(("not ok", f"{suite}: {seen} cases ended, {planned} were planned"))
    if whole is None or whole == "not ok" and all(of != "not ok" for of, _ in found):
        found.append(("not ok", f"{suite}: the suite itself"))
    return found


def main(arguments):
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    with open(arguments[1], encoding="utf-8", errors="replace") as file:
        for verdict, name in cases(arguments[0], file.read()):
            print(f"{verdict}\t{name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
