# SPDX-License-Identifier: GPL-2.0
"""Which groups there are, how each is run, and the run of all."""

import argparse
import os
import shlex
import subprocess
import sys
import time

from roxvm.paths import BUILD, REPO

from .results import Results

# How a group runs: where ("host", "vm", or a card that joins two guests), the
# seconds it may take, and its memory in MiB. What runs on the host and needs
# no kernel runs once; the others run on every kernel.
GROUPS = {
    "unit": [("unit", "host", 900, 0)],
    "install": [("install", "host", 1200, 0)],
    "verbs": [("verbs", "vm", 1800, 3072)],
    "apps": [("apps", "vm", 2400, 3072)],
    "interop": [("interop", "vm", 900, 2048)],
    "pair": [("pair", "virtio", 1200, 1536), ("pair", "e1000e", 1200, 1536)],
    "life": [("life", "vm", 2400, 2048)],
}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__)
    parser.add_argument("--kernels", default="6.1 6.12", help='default "6.1 6.12"')
    parser.add_argument("--quick", action="store_true", help="only the core of each group")
    parser.add_argument("--no-build", action="store_true", help="take what is built already")
    parser.add_argument("groups", nargs="+", choices=sorted(GROUPS), metavar="GROUP",
                        help=", ".join(GROUPS))
    return parser.parse_args(arguments)


def build(groups, kernels):
    """Everything that the groups need, before the first one runs."""
    wanted = []
    if set(groups) - {"unit"}:
        wanted += [["provider"], *(["module", f"KVER={kernel}"] for kernel in kernels)]
    programs = [g for g in groups if (REPO / "tests" / g / "Makefile").exists()]
    if programs:
        wanted.append(["tests", f"TESTS={' '.join(programs)}"])
    for targets in wanted:
        command = ["make", "--no-print-directory", "-C", str(REPO), *targets]
        print("+", shlex.join(command), flush=True)
        if subprocess.run(command, check=False).returncode:
            return False
    return True


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
    values = dict(os.environ, ROX_BUILD=str(BUILD), ROX_KERNELS=" ".join(kernels))
    values.pop("ROX_QUICK", None)
    if options.quick:
        values["ROX_QUICK"] = "1"
    return values


def run_group(label, command, seconds, values):
    """Run one group, pass its output on, count its cases."""
    print(f"\n=== {label}: {shlex.join(command)}", flush=True)
    results = Results(label)
    began = time.monotonic()
    # scripts/vm watches the time by itself; this is for what runs on the host.
    process = subprocess.Popen(["timeout", "-k", "30", str(seconds + 60), *command], cwd=REPO,
                               env=values, stdout=subprocess.PIPE, text=True, errors="replace")
    for text in process.stdout:
        sys.stdout.write(text)
        sys.stdout.flush()
        results.line(text.rstrip("\n"))
    results.finish(process.wait())
    print(f"=== {label}: {summary([results])}, {time.monotonic() - began:.0f} s", flush=True)
    return results


def plan(options):
    """The runs to make: (label, command, seconds)."""
    for name in options.groups:
        for group, where, seconds, memory in GROUPS[name]:
            for kernel in [None] if where == "host" else options.kernels.split():
                label = " ".join(filter(None, (
                    group, where if where not in ("host", "vm") else None, kernel)))
                yield label, command_of(group, where, seconds, memory, kernel), seconds


def summary(results):
    skipped = sum(len(r.skipped) for r in results)
    text = f"{sum(r.passed for r in results)} passed, {sum(len(r.failed) for r in results)} failed"
    return f"{text}, {skipped} skipped" if skipped else text


def finish(results, began):
    print()
    for result in results:
        for name in result.skipped:
            print(f"skipped: {name}")
    for result in results:
        for name in result.failed:
            print(f"FAILED: {name}")
    print(f"{(time.monotonic() - began) / 60:.1f} minutes")
    print(summary(results), flush=True)
    return 1 if any(r.failed for r in results) else 0


def main(arguments):
    options = parse(arguments)
    began = time.monotonic()
    kernels = options.kernels.split()
    results = []
    if not options.no_build and not build(options.groups, kernels):
        failed = Results("build")
        failed.fail("make failed")
        return finish([failed], began)
    values = environment(options, kernels)
    for label, command, seconds in plan(options):
        results.append(run_group(label, command, seconds, values))
    return finish(results, began)
