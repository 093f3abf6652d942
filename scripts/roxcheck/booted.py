# SPDX-License-Identifier: GPL-2.0
"""The kernels that guests have booted: a table in Documentation/kernels.md, made from the results."""

import re

from roxmatrix import page
from roxvm import foreign, kernels

MARKS = ("<!-- booted: begin -->", "<!-- booted: end -->")
COLUMNS = ("Kernel", "Version", "Processor", "Root", "Cases that passed, by group", "Failed")


def table(lines):
    """The rows, from (group, kernel, form, date, passed, failed) of each result."""
    found = {}
    for group, kernel, form, date, passed, failed in lines:
        match = re.fullmatch(r"(\S+) \((\S+)\)", kernel)
        if kernel == "host" or not match and not re.match(r"\d", kernel):
            continue
        name, version = match.groups() if match else (kernel, kernel)
        groups = found.setdefault((name, version), {})
        # Of several numbers of CPUs and variables the last run counts.
        known = groups.get((group, form))
        if not known or known[0] <= date:
            groups[group, form] = (date, int(passed), int(failed))
    return [row(*kernel, found[kernel]) for kernel in sorted(found, key=lambda k: (kernels.numbers(k[1])[:2], k))]


def row(name, version, groups):
    arch = foreign.processor(version)
    root = f"{foreign.PROCESSORS[arch]}-{arch}" if arch else "this machine's files"
    passed = ", ".join(f"{group}{'' if form == 'full' else f' ({form})'} {counts[1]}"
                       for (group, form), counts in sorted(groups.items()))
    return name, version, arch or kernels.architecture(), root, passed, str(sum(c[2] for c in groups.values()))


def write(lines):
    """Writes the table into the page."""
    text = page.PAGE.read_text(encoding="utf-8")
    page.PAGE.write_text(page.write(text, table(lines), COLUMNS, MARKS), encoding="utf-8")
