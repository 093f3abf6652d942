# SPDX-License-Identifier: GPL-2.0
"""The results of the matrix: build/matrix.json and the table in Documentation/kernels.md."""

import json

from roxvm.paths import BUILD, REPO

JSON = BUILD / "matrix.json"
PAGE = REPO / "Documentation" / "kernels.md"
BEGIN, END = "<!-- matrix: begin -->", "<!-- matrix: end -->"
COLUMNS = ("Kernel", "Processor", "Release", "Configuration", "Version", "Compiler", "Result", "Warnings",
           "Seconds", "Date", "Commit")
# These fields identify a row.
NAME = slice(0, 4)


def cells(row, result, date, commit):
    note = f"{result.result}: {result.note}" if result.note else result.result
    return [row.kernel, row.arch, row.release, row.small or "Debian's", result.version or "-",
            result.compiler or "-", note.replace("|", "/"), str(result.warnings), str(result.seconds), date, commit]


def parse(text):
    """The rows of the table on the page."""
    table = text.partition(BEGIN)[2].partition(END)[0]
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")]
            for line in table.splitlines() if line.startswith("| ")]
    return [row for row in rows if len(row) == len(COLUMNS) and tuple(row) != COLUMNS]


def merge(old, new, order):
    """Old rows of the page with the new ones in place of those of the same name, in the order of the matrix."""
    found = {tuple(row[NAME]): row for row in [*old, *new]}
    return [found[name] for name in order if name in found]


def write(text, rows, columns=COLUMNS, marks=(BEGIN, END)):
    """The page with these rows as the table between the marks."""
    begin, end = marks
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns),
             *(f"| {' | '.join(row)} |" for row in rows)]
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return "\n".join([before + begin, "", *lines, "", end + after])


def record(new, order):
    """Writes the new rows into both files."""
    JSON.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(JSON.read_text(encoding="utf-8")) if JSON.exists() else []
    old = [[row.get(column, "") for column in COLUMNS] for row in known]
    rows = merge(old, new, order)
    JSON.write_text(json.dumps([dict(zip(COLUMNS, row)) for row in rows], indent=1) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(write(text, merge(parse(text), new, order)), encoding="utf-8")
