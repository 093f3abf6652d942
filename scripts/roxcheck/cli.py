# SPDX-License-Identifier: GPL-2.0
"""Which groups there are, how each is run, and the run of all."""

import argparse
import os
import shlex
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from roxvm.paths import BUILD, REPO

from . import features
from .results import Results

# How a group runs: where ("host", "vm", or a card that joins two guests), the
# seconds it may take, and its memory in MiB. What runs on the host and needs
# no kernel runs once; the others run on every kernel. The long ones come first,
# so that none of them is left to run alone at the end.
# On a kernel that we build ourselves to find bugs only those of BUILT run, unless it is
# the only kernel that was named; those of ONLY_BUILT run nowhere else. Among other groups
# the runs of LAST_ONLY are made on the last of Debian's kernels only: all has to end within an hour.
GROUPS = {
    "life": [("life", "vm", 3600, 2048)],
    "net": [("net", "vm", 1800, 2048)],
    "apps": [("apps", "vm", 3600, 3072)],
    "verbs": [("verbs", "vm", 2700, 3072)],
    "pair": [("pair", "virtio", 1800, 1536), ("pair", "e1000e", 1800, 1536)],
    "stacks": [("stacks", "vm", 1800, 3072)],
    "kusers": [("kusers", "virtio", 1800, 2048)],
    "interop": [("interop", "vm", 1800, 2048)],
    "install": [("install", "host", 1200, 0)],
    "wire": [("wire", "vm", 900, 2048)],
    "hostile": [("hostile", "vm", 1500, 2048)],
    "unit": [("unit", "host", 900, 0)],
    "kunit": [("kunit", "vm", 900, 2048)],
}

BUILT = {"debug": {"verbs", "wire", "hostile", "kunit"}, "uml": {"wire", "hostile", "kunit"}}
ONLY_BUILT = {"kunit"}
LAST_ONLY = {("net", "vm"), ("stacks", "vm"), ("pair", "e1000e"), ("interop", "vm")}
# Of these, the cases that take longest (tests/cases.sh) run on that kernel only, too.
BRIEF_BEFORE = {"apps", "life", "pair", "verbs"}
# What libibverbs finds in the guests (scripts/roxvm/guest/stage2), and who has all that rdma-core
# brings, as users do.
PROVIDERS = "rox rxe siw"
ALL_PROVIDERS = {"stacks"}
# A kernel that checks every access is slow.
PATIENCE = {"debug": 3, "uml": 2}

# Most of the cases wait for a large part of their time (perftest sleeps a second for its handshake):
# two guests of two CPUs keep half of two CPUs busy.
JOBS = min(8, 2 * (os.cpu_count() or 1))


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__)
    parser.add_argument("--kernels", default="6.1 6.12", help='default "6.1 6.12"')
    parser.add_argument("--quick", action="store_true", help="only the core of each group")
    parser.add_argument("--jobs", type=int, default=JOBS,
                        help=f"runs at the same time (default {JOBS})")
    parser.add_argument("--no-build", action="store_true", help="take what is built already")
    parser.add_argument("groups", nargs="+", choices=sorted(GROUPS), metavar="GROUP",
                        help=", ".join(GROUPS))
    return parser.parse_args(arguments)


def build(groups, kernels):
    """Everything that the groups need, before the first one runs."""
    wanted = []
    if set(groups) - {"unit"}:
        wanted += [["provider"], *(["module", f"KVER={k}"] for k in kernels if k not in BUILT)]
    programs = [g for g in groups if (REPO / "tests" / g / "Makefile").exists()]
    if programs:
        wanted.append(["tests", f"TESTS={' '.join(programs)}"])
    for targets in wanted:
        print("+ make", shlex.join(targets), flush=True)
        if subprocess.run(make(*targets), check=False).returncode:
            return False
    return True


def make(*targets):
    return ["make", f"-j{os.cpu_count() or 1}", "--no-print-directory", "-C", str(REPO), *targets]


def build_kernel(name):
    """One of BUILT, beside the runs on other kernels, which takes minutes, and the module for it.

    Returns what it has printed if it failed.
    """
    for command in (make(f"kernel-{name}"), make("module", f"KVER={name}")):
        result = subprocess.run(["nice", *command], stdin=subprocess.DEVNULL, check=False,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if result.returncode:
            return result.stdout
    return None


def command_of(group, where, seconds, memory, kernel):
    script = f"tests/{group}/run"
    if where == "host":
        return [script]
    command = ["scripts/vm", "--kernel", kernel, "--timeout", str(seconds),
               "--mem", str(memory)]
    if where != "vm":
        command += ["--pair", where]
    return [*command, "--", script]


def environment(options, kernels):
    stock = " ".join(kernel for kernel in kernels if kernel not in BUILT)
    values = dict(os.environ, ROX_BUILD=str(BUILD), ROX_KERNELS=stock, ROX_VM_PROVIDERS=PROVIDERS)
    values.pop("ROX_QUICK", None)
    if options.quick:
        values["ROX_QUICK"] = "1"
    return values


class Output:
    """Our output, shared by the runs: one is shown as it goes, the others when they have ended."""

    def __init__(self):
        self._lock = threading.Lock()
        self._live = None

    def begin(self, run, text):
        with self._lock:
            if self._live is None:
                self._live = run
            self._write(text)

    def line(self, run, text):
        """Show the line, if `run` is the one that is shown, or keep it."""
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
    """One group in one place. `ready`, if any, is waited for, and says what is amiss."""

    def __init__(self, label, command, seconds, ready=None):
        self.label = label
        self.command = command
        self.seconds = seconds
        self.ready = ready
        self.kept = []                  # output that is not shown yet

    def __call__(self, values, output):
        """Run it, pass its output on, count its cases."""
        results = Results(self.label)
        amiss = self.ready.result() if self.ready else None
        if amiss:
            output.end(self, amiss)
            results.fail("its kernel could not be built")
            return results
        began = time.monotonic()
        output.begin(self, f"\n=== {self.label}: {shlex.join(self.command)}\n")
        # scripts/vm watches the time by itself; this is for what runs on the host.
        process = subprocess.Popen(
            ["timeout", "-k", "30", str(self.seconds + 60), *self.command], cwd=REPO, env=values,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace")
        for text in process.stdout:
            output.line(self, text)
            results.line(text.rstrip("\n"))
        _, status, usage = os.wait4(process.pid, 0)
        results.finish(os.waitstatus_to_exitcode(status))
        output.end(self, f"=== {self.label}: {summary([results])}, "
                         f"{time.monotonic() - began:.0f} s, "
                         f"of a CPU {usage.ru_utime + usage.ru_stime:.0f} s\n")
        return results


def kernels_of(group, where, kernels, alone):
    """The kernels that a group runs on; [None] for the host's. `alone`: no other was asked for."""
    if where == "host":
        return [None]
    if len(kernels) == 1 and kernels[0] in BUILT:
        return kernels
    if (group, where) in LAST_ONLY and not alone:
        return [last_of(kernels)]
    return [k for k in kernels
            if (group in BUILT[k] if k in BUILT else group not in ONLY_BUILT)]


def last_of(kernels):
    """The last one of Debian's."""
    return next((k for k in reversed(kernels) if k not in BUILT), None)


def plan(options, kernels, builder):
    """The runs to make; those that wait for a kernel to be built at the end."""
    runs = list(all_runs(options, kernels, builder))
    return sorted(runs, key=lambda run: run.ready is not None)


def all_runs(options, kernels, builder):
    ready = {}
    last = last_of(kernels)
    alone = len(options.groups) == 1
    for name in sorted(options.groups, key=list(GROUPS).index):
        for group, where, seconds, memory in GROUPS[name]:
            for kernel in kernels_of(group, where, kernels, alone):
                label = " ".join(filter(None, (
                    group, where if where not in ("host", "vm") else None, kernel)))
                limit = seconds * PATIENCE.get(kernel, 1)
                if kernel in BUILT and kernel not in ready and not options.no_build:
                    ready[kernel] = builder.submit(build_kernel, kernel)
                command = command_of(group, where, limit, memory, kernel)
                if group in BRIEF_BEFORE and not alone and kernel != last:
                    command = ["env", "ROX_BRIEF=1", *command]
                if group in ALL_PROVIDERS:
                    command = ["env", "ROX_VM_PROVIDERS=", *command]
                yield Run(label, command, limit, ready.get(kernel))


def summary(results):
    skipped = sum(len(r.skipped) for r in results)
    text = f"{sum(r.passed for r in results)} passed, {sum(len(r.failed) for r in results)} failed"
    return f"{text}, {skipped} skipped" if skipped else text


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
    print(summary(results), flush=True)
    return 1 if any(r.failed for r in results) else 0


def main(arguments):
    options = parse(arguments)
    began = time.monotonic()
    kernels = options.kernels.split()
    if not options.no_build and not build(options.groups, kernels):
        failed = Results("build")
        failed.fail("make failed")
        return finish([failed], began)
    values = environment(options, kernels)
    output = Output()
    with ThreadPoolExecutor(1) as builder, ThreadPoolExecutor(options.jobs) as pool:
        runs = plan(options, kernels, builder)
        results = list(pool.map(lambda run: run(values, output), runs))
    if not options.quick:
        results.append(features.judge(results))
    return finish(results, began)
