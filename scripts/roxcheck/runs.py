# SPDX-License-Identifier: GPL-2.0
"""Run rows of the table, no more guests at once than the host has CPUs."""

import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

from roxvm import debugkernel, foreign
from roxvm.paths import BUILD, REPO

from . import table
from .results import Results, is_report
from .row import APPEND, CPUS, LIMITS, VIRTUAL_APPEND

# The providers that libibverbs finds in guests (scripts/roxvm/guest/stage2), and the groups that have
# all of rdma-core's providers, as users do.
PROVIDERS = "rox rxe siw"
ALL_PROVIDERS = {"stacks"}
# A module that was built before of the same sources is taken as it is (scripts/build-module).
KEEP = {"ROX_KEEP_MODULES": "1"}
# Groups that start their kernels themselves, which are programs of the host.
ON_HOST = {"run"}
# The variables that tell a group its form in the table.
FORMS = {"brief": "ROX_BRIEF=1", "core": "ROX_QUICK=1"}
# Factors for time limits within the tests (tests/lib.sh); with two CPUs it is 3.
PATIENCE_WITH_MANY_CPUS = "ROX_PATIENCE=6"
# A guest in virtual time leaps also while it waits for the host's files, so a limit is reached early if the host
# is slow. A long one costs nothing there.
PATIENCE_IN_VIRTUAL_TIME = "ROX_PATIENCE=30"
RACES = re.compile(r"^scripts/vm: KCSAN: (\d+) races ")


def command_of(row, case=None):
    """The command that runs a row of the table, or of it only a case that has failed (results.Failed)."""
    script = f"tests/{row.group}/run"
    if row.kernel == "host" or row.group in ON_HOST:
        command = [script]
    else:
        command = ["scripts/vm", "--kernel", row.kernel, "--timeout", str(row.limit),
                   "--mem", str(LIMITS[row.group][1])]
        command += ["--icount", str(row.clock)] if row.clock is not None else []
        cpus = row.cpus or CPUS.get(row.group, 0)
        command += ["--cpus", str(cpus)] if cpus else []
        command += ["--pair", row.card] if row.card else []
        if row.peer:
            # The same programs at both ends.
            command += ["--peer", row.peer, "--root", foreign.PROCESSORS[foreign.processor(row.peer)]]
        more = [VIRTUAL_APPEND] if row.clock is not None else []
        if row.group in APPEND and row.kernel not in debugkernel.NAMES:
            more.append(APPEND[row.group])
        command += ["--append", " ".join(more)] if more else []
        command += ["--", script]
    variables = [FORMS[row.form]] if row.form in FORMS else []
    if row.group in ON_HOST and row.kernel != "host":
        variables.append(f"ROX_RUN_KERNEL={row.kernel}")
    if row.clock is not None:
        variables.append(PATIENCE_IN_VIRTUAL_TIME)
    elif row.cpus > 2 and row.kernel not in debugkernel.NAMES:
        variables.append(PATIENCE_WITH_MANY_CPUS)
    if row.group in ALL_PROVIDERS:
        variables.append("ROX_VM_PROVIDERS=")
    if case:
        variables += [f"ROX_PART={case.part}", f"ROX_CASE={case.name}"]
    return ["env", *variables, *command] if variables else command


def environment(kernels):
    usual = " ".join(kernel for kernel in kernels if table.is_usual(kernel))
    values = dict(os.environ, ROX_BUILD=str(BUILD), ROX_KERNELS=usual, ROX_VM_PROVIDERS=PROVIDERS, **KEEP)
    for name in ("ROX_QUICK", "ROX_BRIEF", "ROX_PART", "ROX_CASE"):
        values.pop(name, None)
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
        """Shows the line if `run` is the one that is shown at once, else keeps it."""
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
    """A run of one row of the table, or of one case of it.

    `ready`, if any, is a future to wait for first; its result is an error or None.
    """

    def __init__(self, row, ready=None, case=None):
        self.row = row
        self.command = command_of(row, case)
        self.ready = ready
        self.seconds = 0.0              # duration
        self.races = None               # data races in the rest of Linux, with KCSAN
        self.watch = lambda: None       # called after each line once a case has failed, and at the end
        self.results = None             # as far as it has come
        self.ended = False              # before its end: end()
        self._pid = None                # of the process, while it writes
        self._over = False
        self._lock = threading.Lock()
        self.kept = []                  # output that is not shown yet

    def __call__(self, values, output):
        """Runs the group, shows its output, counts its cases. What never began is run once more."""
        error = self._wait_for_kernel()
        if self.ended:
            return Results(self.row.label)
        if error:
            self.results = results = Results(self.row.label)
            output.end(self, error)
            results.fail("its kernel, or the module for it, could not be built")
            return results
        results = self._once(values, output)
        if results.never_began and not self.ended:
            before, results = results, self._once(values, output)
            results.booted_again += before.booted_again + 1
            results.cpu += before.cpu
        self.results = results
        self.watch()
        return results

    def _once(self, values, output):
        self.results = results = Results(self.row.label)
        began = time.monotonic()
        output.begin(self, f"\n=== {results.group}: {shlex.join(self.command)}\n")
        # For groups on the host; scripts/vm has a limit of its own.
        process = subprocess.Popen(
            ["timeout", "-k", "30", str(self.row.limit + 60), *self.command], cwd=REPO,
            env=values, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace")
        with self._lock:
            self._pid, self._over = process.pid, False
            if self.ended:
                process.terminate()
        for text in process.stdout:
            if not is_report(text):
                output.line(self, text)
            results.line(text.rstrip("\n"))
            if results.failed:
                self.watch()
            races = RACES.match(text)
            self.races = int(races[1]) if races else self.races
        with self._lock:
            self._pid, self._over = None, True
        _, status, usage = os.wait4(process.pid, 0)
        # Nobody is to see a failure of what is run once more.
        self.results = None
        if not self.ended:
            results.finish(os.waitstatus_to_exitcode(status))
        results.cpu = usage.ru_utime + usage.ru_stime
        self.seconds = time.monotonic() - began
        output.end(self, f"=== {results.group}: {summary([results])}, {self.seconds:.0f} s, "
                         f"of a CPU {results.cpu:.0f} s\n")
        return results

    def end(self):
        """Ends it where it is, called by another thread: what it would find changes nothing any more."""
        with self._lock:
            if self._over or self.ended:
                return
            self.ended = True
            if self._pid:
                os.kill(self._pid, signal.SIGTERM)

    def _wait_for_kernel(self):
        """The output if it could not be built."""
        while self.ready and not self.ended:
            with suppress(TimeoutError):
                return self.ready.result(1)
        return None


def summary(results):
    return (f"{sum(r.passed for r in results)} passed, {sum(len(r.failed) for r in results)} failed, "
            f"{sum(len(r.skipped) for r in results)} skipped")


class Places:
    """The host's CPUs. Who needs two of them, or all, waits until they are free; a run that fits goes first."""

    def __init__(self, count):
        self._count = max(count, 1)
        self._free = self._count
        self._changed = threading.Condition()

    def run_all(self, runs, call, stop=lambda: False):
        """The results of call(run) for the runs, in their order; begun in that order as far as they fit.

        None is begun any more when stop() is true: those are not in the results, a dictionary.
        """
        results = {}
        waiting = list(runs)
        threads = []
        while waiting:
            with self._changed:
                run = self._fitting(waiting)
                while run is None:
                    self._changed.wait()
                    run = self._fitting(waiting)
                if stop():
                    break
                self._free -= self._needs(run)
            waiting.remove(run)
            threads.append(threading.Thread(target=self._one, args=(run, call, results)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        return {run: results[run] for run in runs if run in results}

    def _needs(self, run):
        return min(run.row.guests, self._count)

    def _fitting(self, waiting):
        """The first run that is ready and fits; if none is ready, the first that fits."""
        fits = [run for run in waiting if self._needs(run) <= self._free]
        ready = [run for run in fits if run.ready is None or run.ready.done()]
        return next(iter(ready or (fits if len(fits) == len(waiting) else [])), None)

    def _one(self, run, call, results):
        try:
            results[run] = call(run)
        finally:
            with self._changed:
                self._free += self._needs(run)
                self._changed.notify()


def is_built_beside(kernel, kernels):
    """True if the module for it is built while groups run on other kernels: all but the newest of Debian's."""
    return kernel in debugkernel.NAMES or \
        table.is_usual(kernel) and any(table.is_usual(later) for later in kernels[kernels.index(kernel) + 1:])


def build_all(groups, kernels):
    """Builds everything that the groups need, but for kernels and what is built beside them."""
    wanted = []
    if groups - {"unit", "lint"}:
        wanted += [["provider"], *(["module", f"KVER={k}"] for k in kernels if not is_built_beside(k, kernels))]
    programs = [g for g in sorted(groups) if (REPO / "tests" / g / "Makefile").exists()]
    if not foreign_built(groups, kernels):
        return False
    if programs:
        wanted.append(["tests", f"TESTS={' '.join(programs)}", f"KERNELS={' '.join(with_kernel_user(kernels))}"])
    for targets in wanted:
        print("+ make", shlex.join(targets), flush=True)
        if subprocess.run(make(*targets), env=compiler_cache(), check=False).returncode:
            return False
    return True


def with_kernel_user(kernels):
    """Those that the group kusers may boot: a module of its own is built for each."""
    booted = {row.kernel for row in table.ROWS if row.group == "kusers"}
    return [kernel for kernel in kernels if table.is_usual(kernel) or kernel in booted]


def foreign_built(groups, kernels):
    """What kernels of other releases and processors need: their roots, provider and tests of the processor."""
    if not any(foreign.release_of(kernel) for kernel in kernels):
        return True
    commands = [["scripts/deps", "--quick", "matrix"]]
    for arch, release in foreign.PROCESSORS.items():
        named = [kernel for kernel in kernels if foreign.processor(kernel) == arch]
        booted = {row.group for row in table.ROWS if {row.kernel, row.peer} & set(named)} & groups
        if booted:
            programs = sorted(group for group in booted if (REPO / "tests" / group / "Makefile").exists())
            commands += [["scripts/deps", "--quick", arch], ["scripts/roots", "build", f"{release}-{arch}", *programs]]
    for command in commands:
        print("+", shlex.join(command), flush=True)
        if subprocess.run(command, cwd=REPO, check=False).returncode:
            return False
    return True


def make(*targets):
    return ["make", f"-j{os.cpu_count() or 1}", "--no-print-directory", "-C", str(REPO), *targets]


def compiler_cache():
    """The environment for make. Modules are kept, and where there is ccache, what was compiled from the same text in
    any folder."""
    links = "/usr/lib/ccache"
    kept = {**os.environ, **KEEP}
    if not os.path.isdir(links):
        return kept
    return {**kept, "PATH": f"{links}:{os.environ['PATH']}", **debugkernel.ccache_settings(REPO),
            "CCACHE_SLOPPINESS": "pch_defines,time_macros"}     # GoogleTest's header is precompiled


def build_kernel(name):
    """Builds the module for a kernel, while groups run on other kernels, and before that one of ours itself.

    Returns the output if the build failed.
    """
    ours = [make(f"kernel-{name}")] if name in debugkernel.NAMES else []
    for command in (*ours, make("module", f"KVER={name}")):
        result = subprocess.run(command, env=compiler_cache(), stdin=subprocess.DEVNULL, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            return result.stdout
    return None


def with_kernels(rows, kernels, builder):
    """The runs of rows, which wait for what is built beside them. `builder`, if any, has one thread."""
    ready = {}
    beside = [kernel for kernel in kernels if is_built_beside(kernel, kernels)] if builder else []
    # Those that take minutes come last.
    for kernel in sorted(beside, key=lambda kernel: kernel in debugkernel.NAMES):
        ready[kernel] = builder.submit(build_kernel, kernel)
    usual = [future for kernel, future in ready.items() if table.is_usual(kernel)]
    if usual:
        # It installs the modules of all of Debian's kernels.
        ready["install"] = builder.submit(lambda: next(filter(None, (future.result() for future in usual)), None))
    return [Run(row, ready.get(row.group if row.group == "install" else row.kernel)) for row in rows]
