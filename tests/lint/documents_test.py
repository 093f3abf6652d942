# SPDX-License-Identifier: GPL-2.0
"""The documents: links lead somewhere, design.md names what is in the code, review.md cases that there are."""

import fnmatch
import re
import subprocess
import unittest

from roxvm.paths import REPO

DOCUMENTS = REPO / "Documentation"
DESIGN = DOCUMENTS / "design.md"
REVIEW = DOCUMENTS / "review.md"
PAGES = [*REPO.glob("*.md"), *DOCUMENTS.glob("*.md")]
# Pages with tables, most of which are written by scripts.
GENERATED = {"README.md", "results.md", "benchmarks.md", "review.md", "kernels.md", "reports.md"}
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
CODE = re.compile(r"`([^`]+)`")
WORDS = 2500
COLUMNS = 120
GOOGLE_TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
KUNIT_SUITE = re.compile(r"\.name = \"(rox_\w+)\"")
KUNIT_CASE = re.compile(r"KUNIT_CASE\w*\((\w+)")
PYTHON_CASE = re.compile(r"^    def (test_\w+)", re.MULTILINE)


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


def texts(folder, *patterns):
    """The files of a folder that have names like these, with what is in them."""
    for pattern in patterns:
        for path in sorted((REPO / folder).rglob(pattern)):
            if path.is_file():
                yield path, path.read_text(encoding="utf-8", errors="replace")


def test_cases():
    """The names of all cases that are functions: suite, case, and both with a dot between them."""
    pairs = [pair for _path, text in texts("tests", "*_test.cc") for pair in GOOGLE_TEST.findall(text)]
    for _path, text in texts("kernel", "*_test.c"):
        pairs += [(suite, case) for suite in KUNIT_SUITE.findall(text) for case in KUNIT_CASE.findall(text)]
    for path, text in texts("tests/lint", "*_test.py"):
        pairs += [(path.stem, case) for case in PYTHON_CASE.findall(text)]
    return {name for suite, case in pairs for name in (suite, case, f"{suite}.{case}")}


def is_printed(name, scripts):
    """Do these scripts have a case that is this sentence? In the group net a subject is before it."""
    sentence = name.partition("*")[0].strip()
    subject, _colon, rest = sentence.partition(":")
    return sentence in scripts or (f"stage_begin {subject} " in scripts and rest.strip() in scripts)


def cited(text):
    """The code spans of the last columns of review.md, without functions, settings and commands."""
    for line in text.splitlines():
        if line.startswith("| ") and line.count(" | ") > 2:
            for name in CODE.findall(line.rpartition(" | ")[2]):
                if not name.endswith("()") and "=" not in name and not places(name.split()[0]):
                    yield name


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

    def test_review_names_cases_that_there_are(self):
        cases = test_cases()
        scripts = "".join(text for path, text in texts("tests", "*") if path.parent.name != "lint")
        found = set(cited(REVIEW.read_text(encoding="utf-8")))
        self.assertGreater(len(found), 80)
        for name in sorted(found):
            with self.subTest(name):
                if re.fullmatch(r"\w+(\.[\w*]+)?\*?", name):
                    self.assertTrue(fnmatch.filter(cases, name) or is_defined(name, ()), name)
                else:
                    self.assertTrue(is_printed(name, scripts), name)

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
