# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/bench, and a run from its start to its report."""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from roxvm import accel, kernels
from roxvm.paths import BUILD, REPO, HarnessError

from . import boots, plan, profile, report, stats, tables, targets

OUTPUT = BUILD / "bench"
# What the boot before, and the build, leave of the load of a minute.
BUSY = 3.0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure, write build/bench/results.json, print tables")
    run.add_argument("--quick", action="store_true", help="the core only, some minutes")
    run.add_argument("--check", action="store_true", help="status 1 if a target is not reached")
    run.add_argument("--no-build", action="store_true", help="take what is built already")
    run.add_argument("--boots", default="", metavar="NAMES", help="only these, see plan.py")
    run.add_argument("--only", default="", metavar="REGEX",
                     help="only measurements whose test or service matches (lat, cpu, UD)")
    run.add_argument("--keep", action="store_true", help="keep the other boots of the last run")
    run.add_argument("--rounds", type=int, metavar="N", help="no more than so many")
    profile.options_of(verbs.add_parser("profile", help="show where the time goes"))
    show = verbs.add_parser("show", help="print the tables of the last run again")
    show.add_argument("--check", action="store_true", help="status 1 if a target is not reached")
    verbs.add_parser("report", help="write Documentation/benchmarks.md from the last run")
    return parser.parse_args(arguments)


def git(*arguments):
    return subprocess.run(["git", "-C", str(REPO), *arguments], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False).stdout.strip()


def host():
    """The machine that the guests run on."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True,
                          check=False).stdout.partition("\n")[0]
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "qemu": qemu,
            "accel": accel.choose(kernels.find("6.12"))}


def version():
    """Of what a boot is measured, and when."""
    return {"when": time.strftime("%Y-%m-%d %H:%M:%S%z"), "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
            "load": os.getloadavg()[0]}


def measure(options):
    """Runs the boots; the data is written after each, so that none is lost."""
    OUTPUT.mkdir(parents=True, exist_ok=True)
    wanted = plan.boots(options.quick)
    if options.boots:
        wanted = [boot for boot in wanted if boot.name in options.boots.split()]
    wanted = [boot for boot in wanted if boot.limit_to(options.only)]
    if not wanted:
        sys.exit("scripts/bench: no such boots, or no such measurements in them")
    for boot in wanted:
        boot.rounds = [min(limit, options.rounds or limit) for limit in boot.rounds]
    if not options.no_build:
        boots.build(wanted)
    results = {"quick": options.quick, "machine": host(), "boots": []}
    if options.keep:
        names = [boot.name for boot in wanted]
        results["boots"] = [boot for boot in load()["boots"] if boot["name"] not in names]
    for boot in wanted:
        before = version()
        if before["load"] > BUSY:
            print(f"the machine is busy (load {before['load']:.1f}): figures will be wrong",
                  file=sys.stderr)
        results["boots"].append({**before, **boots.run(boot, OUTPUT)})
        finish(results)
    shown = OUTPUT / "report"
    shown.mkdir(exist_ok=True)
    report.write(results, shown)
    return results


def finish(results):
    """Adds what follows from the samples, and writes it all."""
    results["summary"] = stats.summary(results["boots"])
    results["failures"] = stats.failures(results["boots"])
    results["targets"] = targets.judge(results["summary"])
    path = OUTPUT / "results.json"
    part = Path(f"{path}.part")
    part.write_text(json.dumps(results, indent=1) + "\n")
    part.replace(path)


def load():
    path = OUTPUT / "results.json"
    if not path.exists():
        raise HarnessError(f"there is no {path}: run `make bench`")
    return json.loads(path.read_text())


def show(results, check):
    """Prints tables and verdicts; returns the exit status."""
    print()
    for line in tables.sections(results["summary"], results["boots"]):
        print(line)
    for line in targets.lines(results["targets"]):
        print(line)
    for text in results["failures"]:
        print(f"FAILED: {text}")
    seconds = sum(boot["seconds"] for boot in results["boots"])
    print(f"{seconds / 60:.1f} minutes; every sample is in {OUTPUT / 'results.json'}", flush=True)
    if results["failures"]:
        return 1
    return 1 if check and any(t["reached"] is False for t in results["targets"]) else 0


def main(arguments):
    options = parse(arguments)
    try:
        if options.verb == "profile":
            return profile.run(options, OUTPUT)
        if options.verb == "report":
            report.write(load(), REPO / "Documentation")
            return 0
        results = measure(options) if options.verb == "run" else load()
        return show(results, options.check)
    except HarnessError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
