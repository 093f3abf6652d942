# SPDX-License-Identifier: GPL-2.0
"""Parse the results of KUnit suites (KTAP, as in /sys/kernel/debug/kunit/SUITE/results).

usage: ktap.py FOLDER SUITE...

Prints a line for each case: the suite, the verdict (ok, not ok, skip) and the case's name, with tabs between them. A
parameterised case has a line for each parameter. All suites are for one process, because one more takes more than a
second where system calls are slow.
"""

import re
import sys
from pathlib import Path

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


def results(folder, suite):
    """The cases of a suite; one that has failed if there are no results."""
    try:
        return cases(suite, (folder / suite / "results").read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        return [("not ok", f"{suite}: its results can be read: {error.strerror}")]


def main(arguments):
    if len(arguments) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    for suite in arguments[1:]:
        for verdict, name in results(Path(arguments[0]), suite):
            print(suite, verdict, name, sep="\t")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
