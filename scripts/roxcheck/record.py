# SPDX-License-Identifier: GPL-2.0
"""Record the results of runs of scripts/check.

Each run leaves a JSON file in build/results. Documentation/results.md has a table of the last result of
each group on each kernel, to which `scripts/check --record` adds these files. From it comes the table of kernels
that were booted, in Documentation/kernels.md.
"""

import json
import os
import subprocess
import threading
import time
from pathlib import Path

from roxvm import debugkernel, kernels
from roxvm.paths import BUILD, REPO, HarnessError

from . import booted, sources, table
from .row import CPUS

FOLDER = BUILD / "results"
TABLE = REPO / "Documentation" / "results.md"
# Variables that scripts/check and `make` set themselves.
OURS = {"ROX_BUILD", "ROX_INSTALL", "ROX_KEEP_MODULES", "ROX_STOP_EARLY"}

HEAD = """# Results

The last run of each group, in each form, on each kernel. `scripts/check --record` writes this page from what
`make check`, `make check-all` and `make check-GROUP` leave in `build/results`.

- A commit with a `+` had changes that were not committed.
- The form "core" is a part of a group; "brief" leaves out the longest cases. Variables are those given to the run.
- Minutes are those of a run beside others.
- "Races" are KCSAN's reports about the rest of Linux. A report that has rox in it fails the run.
- "Files" is a hash of all files that the result can depend on. `make check-all RESUME=1` leaves out what has passed
  with the files as they are.

"""
COLUMNS = ("Group", "Kernel", "CPUs", "Form", "Date", "Commit", "Passed", "Failed", "Skipped", "Races",
           "Minutes", "CPU minutes", "Files", "Host CPU")
# These fields identify a run. Of two results of the same run the later one counts.
NAME = slice(0, 4)
DATE = COLUMNS.index("Date")


def output_of(*command):
    result = subprocess.run(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True, check=False)
    return result.stdout.strip()


def commit():
    """The tested commit, with a + if files were changed."""
    name = output_of("git", "rev-parse", "--short=10", "HEAD") or "unknown"
    return name + ("+" if output_of("git", "status", "--porcelain", "-uno") else "")


def host_cpu():
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return f"{os.cpu_count()} x {line.partition(':')[2].strip()}"
    return f"{os.cpu_count()} CPUs"


def version_of(kernel):
    """The full version of a kernel; its name if the version is unknown."""
    if kernel == "host":
        return output_of("uname", "-r")
    try:
        found = debugkernel.built(kernel) if kernel in debugkernel.NAMES else kernels.find(kernel)
    except HarnessError:
        found = None
    return found.kver if found else kernel


def variables():
    """The caller's variables for the tests."""
    return {name: value for name, value in sorted(os.environ.items())
            if name.startswith(("ROX_", "GTEST_")) and name not in OURS}


def cpus_of(row):
    if row.kernel == "host":
        return os.cpu_count()
    return row.cpus or CPUS.get(row.group) or (1 if row.card or row.kernel.startswith("uml") else 2)


class Log:
    """The results of one run of scripts/check, in a file after each group."""

    def __init__(self):
        stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
        self._path = FOLDER / f"{stamp}-{os.getpid()}.json"
        self._lock = threading.Lock()
        self._trees = sources.Trees()
        self._content = {"commit": commit(), "host_cpu": host_cpu(), "variables": variables(),
                         "runs": []}

    def add(self, run, results):
        """Adds the result of a run."""
        group, kernel, cpus, form = key_of(run.row)
        entry = {
            "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
            "group": group, "kernel": kernel, "version": version_of(kernel), "cpus": cpus, "form": form,
            "passed": results.passed, "failed": results.failed, "skipped": results.skipped,
            "races": run.races, "seconds": round(run.seconds), "cpu_seconds": round(results.cpu),
            "tree": self._trees.of(run.row.group, kernel), "clock": run.row.clock,
        }
        with self._lock:
            self._content["runs"].append(entry)
            FOLDER.mkdir(parents=True, exist_ok=True)
            new = self._path.with_suffix(".new")
            new.write_text(json.dumps(self._content, indent=1) + "\n", encoding="utf-8")
            new.rename(self._path)


def key_of(row):
    """What identifies the run of a row in the results."""
    group = " ".join(filter(None, (row.group, row.card, row.peer)))
    return group, row.kernel, cpus_of(row), row.form


def form_cell(form, clock, given):
    """The form of a run, with its clock and the variables that it was given."""
    words = [form, *(f"{name}={value}" for name, value in given.items())]
    return " ".join(words + ([] if clock is None else [f"virtual time {clock}"])).replace("|", "/")


def name_of(row):
    """What identifies a row in the table's lines, whichever version its kernel has."""
    group, kernel, cpus, form = key_of(row)
    return group, kernel, str(cpus), form_cell(form, row.clock, variables())


def passed_before():
    """The runs that have passed with the files as they are, here or as the table has it: name_of() each."""
    trees = sources.Trees()
    lines = [dict(zip(COLUMNS, line)) for line in last_lines()]
    return {(line["Group"], line["Kernel"].split()[0], line["CPUs"], line["Form"]) for line in lines
            if line["Passed"] != "0" and line["Failed"] == "0"
            and line["Files"] == trees.of(line["Group"].split()[0], line["Kernel"].split()[0])}


def cells(content, entry):
    """A line of the table."""
    kernel = entry["kernel"]
    if kernel not in (entry["version"], "host"):
        kernel += f" ({entry['version']})"
    form = form_cell(entry["form"], entry.get("clock"), content["variables"])
    values = (entry["group"], kernel, entry["cpus"], form, entry["date"], content["commit"],
              entry["passed"], len(entry["failed"]), len(entry["skipped"]),
              "" if entry["races"] is None else entry["races"], f"{entry['seconds'] / 60:.1f}",
              f"{entry['cpu_seconds'] / 60:.1f}" if "cpu_seconds" in entry else "", entry.get("tree", ""),
              content["host_cpu"])
    return tuple(str(value).replace("|", "/") for value in values)


def known(text):
    """The existing lines of the table."""
    for line in text.splitlines():
        found = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if len(found) == len(COLUMNS) - 1:
            # Older lines do not say which files.
            found = (*found[:-1], "", found[-1])
        if line.startswith("| ") and len(found) == len(COLUMNS) and found[0] not in (COLUMNS[0], "---"):
            yield found


def new_lines():
    for path in sorted(FOLDER.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        for entry in content["runs"]:
            yield cells(content, entry)


def same_run(line):
    """What lines of the same run have in common. A kernel that is built here is the same one after a change of how it
    is built, which its version has a hash of."""
    group, kernel, *rest = line[NAME]
    return group, kernel.split()[0] if "-rox-" in kernel else kernel, *rest


def last_lines():
    """The last result of each run, of those in the table and in build/results."""
    lines = [*known(TABLE.read_text(encoding="utf-8") if TABLE.exists() else ""), *new_lines()]
    return {same_run(line): line for line in sorted(lines, key=lambda line: line[DATE])}.values()


def write_table():
    """Adds the results in build/results to the table. Returns an exit status."""
    lines = sorted(last_lines())
    rows = [COLUMNS, ("---",) * len(COLUMNS), *lines]
    TABLE.write_text(HEAD + "".join(f"| {' | '.join(line)} |\n" for line in rows), encoding="utf-8")
    booted.write([tuple(line[COLUMNS.index(name)] for name in ("Group", "Kernel", "Form", "Date", "Passed", "Failed"))
                  for line in lines])
    print(f"{TABLE.relative_to(REPO)}: {len(lines)} results")
    return 0
