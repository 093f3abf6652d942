# SPDX-License-Identifier: GPL-2.0
"""Build everything, run groups of tests, and report their results."""

import argparse
import os
import re
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from roxvm import debugkernel, foreign
from roxvm.paths import BUILD, REPO

from . import features, record, table
from .results import Results, is_report

BUILT = debugkernel.NAMES

# The providers that libibverbs finds in guests (scripts/roxvm/guest/stage2), and the groups that have
# all of rdma-core's providers, as users do.
PROVIDERS = "rox rxe siw"
ALL_PROVIDERS = {"stacks"}
# The variables that tell a group its form in the table.
FORMS = {"brief": "ROX_BRIEF=1", "core": "ROX_QUICK=1"}
# Factors for time limits within the tests (tests/lib.sh); with two CPUs it is 3.
PATIENCE_WITH_MANY_CPUS = "ROX_PATIENCE=6"
RACES = re.compile(r"^scripts/vm: KCSAN: (\d+) races ")

# Two guests with two CPUs each use only half of two CPUs, because most cases wait a lot (perftest
# sleeps a second for its handshake). So more of them run at a time.
JOBS = min(8, 2 * (os.cpu_count() or 1))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__)
    add = parser.add_argument
    add("--kernels", default="6.1 6.12", help='default "6.1 6.12"')
    add("--tier", choices=("check", "all"), default="check", help="which rows of the table (table.py)")
    form = parser.add_mutually_exclusive_group().add_argument
    form("--quick", action="store_const", dest="form", const="core", default="",
         help="only the core of each group")
    form("--brief", action="store_const", dest="form", const="brief",
         help="each group without its longest cases")
    add("--cpus", type=int, default=0, metavar="N", help="CPUs of each guest, instead of the table's")
    add("--jobs", type=int, default=JOBS, help=f"runs at the same time (default {JOBS})")
    add("--no-build", action="store_true", help="use what is already built")
    add("--resume", action="store_true",
        help="leave out what has passed before with this commit (build/results)")
    add("--list", action="store_true", help="only print what would run")
    add("--record", action="store_true",
        help="run nothing; add the results in build/results to Documentation/results.md")
    add("groups", nargs="*", metavar="GROUP", help=", ".join(table.GROUPS))
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(table.GROUPS)
    if unknown or not (options.groups or options.record):
        parser.error(f"no such group: {' '.join(sorted(unknown))}" if unknown else "no group")
    return options


def build(groups, kernels):
    """Builds everything that the groups need."""
    wanted = []
    if groups - {"unit", "lint"}:
        wanted += [["provider"], *(["module", f"KVER={k}"] for k in kernels if k not in BUILT)]
    programs = [g for g in sorted(groups) if (REPO / "tests" / g / "Makefile").exists()]
    if not foreign_built(groups, kernels):
        return False
    if programs:
        wanted.append(["tests", f"TESTS={' '.join(programs)}"])
    for targets in wanted:
        print("+ make", shlex.join(targets), flush=True)
        if subprocess.run(make(*targets), check=False).returncode:
            return False
    return True


def foreign_built(groups, kernels):
    """What kernels of other releases and processors need: their roots, provider and tests of the processor."""
    if not any(foreign.release_of(kernel) for kernel in kernels):
        return True
    commands = [["scripts/deps", "--quick", "matrix"]]
    for arch, release in foreign.PROCESSORS.items():
        named = [kernel for kernel in kernels if foreign.processor(kernel) == arch]
        programs = sorted({row.group for row in table.ROWS if row.kernel in named} & groups)
        if programs:
            commands += [["scripts/deps", "--quick", arch], ["scripts/roots", "build", f"{release}-{arch}", *programs]]
    for command in commands:
        print("+", shlex.join(command), flush=True)
        if subprocess.run(command, cwd=REPO, check=False).returncode:
            return False
    return True


def make(*targets):
    return ["make", f"-j{os.cpu_count() or 1}", "--no-print-directory", "-C", str(REPO), *targets]


def build_kernel(name):
    """Builds one of the kernels in BUILT, and the module for it. That takes minutes, so it happens while
    groups run on other kernels.

    Returns the output if the build failed.
    """
    for command in (make(f"kernel-{name}"), make("module", f"KVER={name}")):
        result = subprocess.run(["nice", *command], stdin=subprocess.DEVNULL, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            return result.stdout
    return None


def command_of(row):
    """The command that runs a row of the table."""
    script = f"tests/{row.group}/run"
    if row.kernel == "host":
        command = [script]
    else:
        command = ["scripts/vm", "--kernel", row.kernel, "--timeout", str(row.limit),
                   "--mem", str(table.LIMITS[row.group][1])]
        cpus = row.cpus or table.CPUS.get(row.group, 0)
        command += ["--cpus", str(cpus)] if cpus else []
        command += ["--pair", row.card] if row.card else []
        # Not on debug kernels: kmemleak checks every object there.
        if row.group in table.APPEND and row.kernel not in BUILT:
            command += ["--append", table.APPEND[row.group]]
        command += ["--", script]
    variables = [FORMS[row.form]] if row.form in FORMS else []
    if row.cpus > 2 and row.kernel not in BUILT:
        variables.append(PATIENCE_WITH_MANY_CPUS)
    if row.group in ALL_PROVIDERS:
        variables.append("ROX_VM_PROVIDERS=")
    return ["env", *variables, *command] if variables else command


def environment(kernels):
    usual = " ".join(kernel for kernel in kernels if table.is_usual(kernel))
    values = dict(os.environ, ROX_BUILD=str(BUILD), ROX_KERNELS=usual, ROX_VM_PROVIDERS=PROVIDERS)
    values.pop("ROX_QUICK", None)
    return values


class Output:
    """The output, shared by several runs: one is shown at once, the others when they have ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self._live = None

    def begin(self, run, text):
        with self._lock:
            if self._live is None:
                self._live = run
            self._write(text)

    def line(self, run, text):
        """Shows the line if `run` is the one that is shown at once, else stores it."""
        with self._lock:
            if self._live is run:
                self._write("".join(run.kept) + text)
                run.kept.clear()
            else:
                run.kept.append(text)

    def end(self, run, text):
        with self._lock:
            self._write("".join(run.kept) + text)
            run.kept.clear()
            if self._live is run:
                self._live = None

    @staticmethod
    def _write(text):
        sys.stdout.write(text)
        sys.stdout.flush()


class Run:
    """A run of one row of the table. `ready`, if any, is a future to wait for first; its result is an
    error or None."""

    def __init__(self, row, ready=None):
        self.row = row
        self.label = row.label
        self.command = command_of(row)
        self.ready = ready
        self.seconds = 0.0              # duration
        self.races = None               # data races in the rest of Linux, with KCSAN
        self.kept = []                  # output that is not shown yet

    def __call__(self, values, output):
        """Runs the group, shows its output, counts its cases."""
        results = Results(self.label)
        error = self.ready.result() if self.ready else None
        if error:
            output.end(self, error)
            results.fail("its kernel could not be built")
            return results
        began = time.monotonic()
        output.begin(self, f"\n=== {self.label}: {shlex.join(self.command)}\n")
        # For groups on the host; scripts/vm has a limit of its own.
        process = subprocess.Popen(
            ["timeout", "-k", "30", str(self.row.limit + 60), *self.command], cwd=REPO,
            env=values, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        for text in process.stdout:
            if not is_report(text):
                output.line(self, text)
            results.line(text.rstrip("\n"))
            races = RACES.match(text)
            self.races = int(races[1]) if races else self.races
        _, status, usage = os.wait4(process.pid, 0)
        results.finish(os.waitstatus_to_exitcode(status))
        self.seconds = time.monotonic() - began
        output.end(self, f"=== {self.label}: {summary([results])}, {self.seconds:.0f} s, "
                         f"of a CPU {usage.ru_utime + usage.ru_stime:.0f} s\n")
        return results


def plan(options, rows, builder):
    """The runs, with those that need a kernel to be built at the end."""
    ready = {}
    for kernel in (row.kernel for row in rows):
        if kernel in BUILT and kernel not in ready and not options.no_build:
            ready[kernel] = builder.submit(build_kernel, kernel)
    runs = [Run(row, ready.get(row.kernel)) for row in rows]
    return sorted(runs, key=lambda run: run.ready is not None)


def summary(results):
    skipped = sum(len(r.skipped) for r in results)
    text = f"{sum(r.passed for r in results)} passed, {sum(len(r.failed) for r in results)} failed"
    return f"{text}, {skipped} skipped" if skipped else text


def again(results):
    """How many programs and guests were repeated. Shown even if all cases have passed."""
    return (f"{sum(r.repeated for r in results)} programs repeated, "
            f"{sum(r.booted_again for r in results)} guests booted again")


def finish(results, began):
    print()
    for result in results:
        for name in result.skipped:
            print(f"skipped: {name}")
    failed = [(result, name) for result in results for name in result.failed]
    for result, name in failed:
        print(f"--- {name}", *result.details.get(name, ()), "", sep="\n")
    for result, name in failed:
        print("\n    ".join(filter(None, (f"FAILED: {name}", result.reason(name)))))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    print(again(results))
    print(summary(results), flush=True)
    return 1 if any(r.failed for r in results) else 0


def main(arguments):
    options = parse(arguments)
    if options.record:
        return record.write_table()
    began = time.monotonic()
    kernels = options.kernels.split()
    chosen = table.select(options.groups, kernels, options.tier, options.form, options.cpus)
    before = record.passed_before() if options.resume else set()
    rows = [row for row in chosen if record.key_of(row) not in before]
    if options.list:
        print(*(f"{row.label} ({row.form})" for row in rows), sep="\n")
        return 0
    if len(rows) < len(chosen):
        print(f"{len(chosen) - len(rows)} runs have passed before with this commit")
    failed = Results("build")
    if not rows:
        failed.fail(f"there is nothing to run on {options.kernels}")
        return finish([failed], began)
    if not options.no_build and not build({row.group for row in rows}, used(rows)):
        failed.fail("make failed")
        return finish([failed], began)
    results, cores = run_all(options, rows, environment(kernels))
    # Proofs may be in what was left out.
    if options.form != "core" and len(rows) == len(chosen):
        whole = [each for each in results if each not in cores]
        results.append(features.judge(whole, table.elsewhere(options.tier, kernels), cores))
    return finish(results, began)


def used(rows):
    """The kernels of the rows, in their order."""
    return list(dict.fromkeys(row.kernel for row in rows if row.kernel != "host"))


def run_all(options, rows, values):
    """The results of all runs, and of those of the form "core" among them."""
    output, log = Output(), record.Log()

    def one(run):
        results = run(values, output)
        log.add(run, results)
        return results

    with ThreadPoolExecutor(1) as builder, ThreadPoolExecutor(options.jobs) as pool:
        runs = plan(options, rows, builder)
        results = list(pool.map(one, runs))
    return results, [r for run, r in zip(runs, results) if run.row.form == "core"]
