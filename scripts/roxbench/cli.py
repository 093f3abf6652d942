# SPDX-License-Identifier: GPL-2.0
"""Measure rox beside rdma_rxe, siw and TCP in virtual machines, and report the figures."""

import argparse
import json
import sys
from pathlib import Path

from roxvm import taps
from roxvm.paths import BUILD, REPO, HarnessError

from . import boots, count, facts, plan, profile, report, stats, tables, targets

OUTPUT = BUILD / "bench"
# Load average that a build or the boot before may leave behind.
BUSY = 3.0


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/bench", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="measure, write build/bench/results.json, print tables")
    run.add_argument("--quick", action="store_true", help="the core only, some minutes")
    run.add_argument("--check", action="store_true", help="status 1 if a target is not reached, or was not measured")
    run.add_argument("--no-build", action="store_true", help="use what is already built")
    run.add_argument("--boots", default="", metavar="NAMES", help="only these, see plan.py")
    run.add_argument("--only", default="", metavar="REGEX",
                     help="only measurements whose test or service matches (lat, cpu, UD)")
    run.add_argument("--keep", action="store_true", help="keep the other boots of the last run")
    run.add_argument("--rounds", type=int, metavar="N", help="at most N rounds")
    profile.options_of(verbs.add_parser("profile", help="show where the time goes"))
    count.options_of(verbs.add_parser("count", help="count instructions of messages with a plugin of QEMU"))
    show = verbs.add_parser("show", help="print the tables of the last run again")
    show.add_argument("--check", action="store_true",
                      help="status 1 if a target is not reached, or was not measured")
    reported = verbs.add_parser("report", help="write Documentation/benchmarks.md from the last run")
    reported.add_argument("--counts", action="store_true", help="only its section about instructions")
    options = parser.parse_args(arguments)
    if options.verb == "run" and options.check and (options.quick or options.boots or options.only):
        parser.error("--check is about all targets, which needs a whole run")
    return options


def can_run(boot, results, missing=taps.missing):
    """False, and says so, if this machine cannot have the boot's tap devices."""
    why = missing() if boot.tap else None
    if why:
        print(f"boot {boot.name} is not run, as there can be no tap devices here: {why}", flush=True)
        results["not_run"].append(f"{boot.name}: no tap devices: {why}")
    return not why


def measure(options):
    """Runs the boots. Writes the data after each one, so that none is lost."""
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
    results = {"quick": options.quick, "machine": facts.host(), "boots": [], "not_run": []}
    if options.keep:
        names = [boot.name for boot in wanted]
        results["boots"] = [boot for boot in load()["boots"] if boot["name"] not in names]
    for boot in wanted:
        if not can_run(boot, results):
            continue
        before = facts.version()
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
    """Adds medians, ratios and verdicts to the samples, and writes everything."""
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
    results = json.loads(path.read_text())
    # By the targets of today.
    results["targets"] = targets.judge(results["summary"])
    return results


def show(results, check):
    """Prints tables and verdicts; returns the exit status."""
    print()
    for line in tables.sections(results["summary"], results["boots"]):
        print(line)
    for line in targets.lines(results["targets"]):
        print(line)
    for text in results.get("not_run", ()):
        print(f"NOT RUN: {text}")
    for text in results["failures"]:
        print(f"FAILED: {text}")
    seconds = sum(boot["seconds"] for boot in results["boots"])
    print(f"{seconds / 60:.1f} minutes; every sample is in {OUTPUT / 'results.json'}", flush=True)
    if results["failures"]:
        return 1
    missed = targets.missed(results["targets"]) if check else ()
    for row in missed:
        print(f"FAILED: {row}", flush=True)
    return 1 if missed else 0


def main(arguments):
    options = parse(arguments)
    try:
        if options.verb == "profile":
            return profile.run(options, OUTPUT)
        if options.verb == "count":
            return count.run(options, OUTPUT)
        if options.verb == "report":
            if options.counts:
                report.write_counts(REPO / "Documentation")
            else:
                report.write(load(), REPO / "Documentation")
            return 0
        results = measure(options) if options.verb == "run" else load()
        return show(results, options.check)
    except HarnessError as error:
        print(f"scripts/bench: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
