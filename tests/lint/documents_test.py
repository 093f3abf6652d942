# SPDX-License-Identifier: GPL-2.0
"""The documents: links lead somewhere, and design.md names what there is in the code."""

import re
import subprocess
import unittest

from roxvm.paths import REPO

DOCUMENTS = REPO / "Documentation"
DESIGN = DOCUMENTS / "design.md"
PAGES = [*REPO.glob("*.md"), *DOCUMENTS.glob("*.md")]
# Pages with tables, most of which are written by scripts.
GENERATED = {"README.md", "results.md", "benchmarks.md", "review.md", "kernels.md", "reports.md"}
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
CODE = re.compile(r"`([^`]+)`")
WORDS = 2500
COLUMNS = 120


def section(text, title):
    """The text below a heading of the second level."""
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def missing_links(page):
    targets = [t for t in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in t]
    return [target for target in targets if not (page.parent / target).exists()]


def too_long(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > COLUMNS
            and not (page.name in GENERATED and line.startswith("|"))]


def places(name):
    """The files of the repository, or of kernel/, that a name or pattern of design.md means."""
    return [path for base in (REPO, REPO / "kernel") for path in base.glob(name.rstrip("/"))]


def is_path(name):
    return "/" in name or re.fullmatch(r"\w+\.(c|h|py|sh)", name) or name in ("Makefile", "Kbuild")


def is_defined(name, files):
    """Does one of these files, or one of the code, have a function, structure, enum or table of this name?"""
    word = name.removesuffix("()").removesuffix("[]").split()[-1]
    where = [str(path) for path in files] or ["kernel", "userspace", "include", "tests", "scripts"]
    return not subprocess.run(["grep", "-rqwF", "-e", word, *where], cwd=REPO, check=False).returncode


def rows(text):
    """Of the table of what to change: subject, and the code spans of the two columns behind it."""
    for line in section(text, "To change something").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and cells[0] != "To change":
            yield cells[0], CODE.findall(cells[1]), CODE.findall(cells[2])


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        for page in PAGES:
            with self.subTest(page.name):
                self.assertEqual(missing_links(page), [])

    def test_lines_are_not_too_long(self):
        for page in (REPO / "README.md", *DOCUMENTS.glob("*.md")):
            with self.subTest(page.name):
                self.assertEqual(too_long(page), [])

    def test_design_is_short(self):
        self.assertLessEqual(len(DESIGN.read_text(encoding="utf-8").split()), WORDS)

    def test_design_names_what_there_is(self):
        found = list(rows(DESIGN.read_text(encoding="utf-8")))
        self.assertGreaterEqual(len(found), 12)
        for subject, code, tests in found:
            with self.subTest(subject):
                files = [path for name in code if is_path(name) for path in places(name)]
                self.assertTrue(code and tests)
                for name in (*code, *tests):
                    command, *_ = name.split()
                    self.assertTrue(places(command) if is_path(command) else is_defined(name, files), name)

    def test_design_names_are_found(self):
        sources = {path.name for path in (REPO / "kernel").rglob("*.[ch]")}
        for name in CODE.findall(DESIGN.read_text(encoding="utf-8")):
            with self.subTest(name):
                if re.fullmatch(r"\w+\.[ch]", name):
                    self.assertIn(name, sources)
                elif re.fullmatch(r"(struct |enum )?rox_\w+(\(\))?", name):
                    self.assertTrue(is_defined(name, ()))


if __name__ == "__main__":
    unittest.main()
