# SPDX-License-Identifier: GPL-2.0
"""Build everything, run groups of tests, and report their results."""

import argparse
import os
import time
from concurrent.futures import ThreadPoolExecutor

from . import again, features, table
from .results import Results
from .runs import Output, Places, build_all, environment, summary, with_kernels


def parse(arguments):
    parser = argparse.ArgumentParser(prog="scripts/check", description=__doc__)
    add = parser.add_argument
    add("--kernels", default="6.1 6.12", help='default "6.1 6.12"')
    add("--tier", choices=("check", "all"), default="check", help="which rows of the table (table.py)")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="guests at the same time (one a CPU)")
    add("--no-build", action="store_true", help="use what is already built")
    add("--list", action="store_true", help="only print what would run")
    add("groups", nargs="*", metavar="GROUP", help=f"all if none is named: {', '.join(table.GROUPS)}")
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(table.GROUPS)
    if unknown:
        parser.error(f"no such group: {' '.join(sorted(unknown))}")
    return options


def finish(runs, results, unsteady, began):
    """Prints the results, with what is needed to understand a failure in the last lines."""
    print()
    for result in results:
        for name in result.skipped:
            print(f"skipped: {name}")
    for name, reason in unsteady:
        print(f"unsteady: {name}: {reason}")
    by_result = dict(zip(map(id, results), runs))
    failed = [(result, name) for result in results for name in result.failed]
    for result, name in failed:
        print(f"--- {name}", *result.details.get(name, ()), "", sep="\n")
    for result, name in failed:
        lines = [f"FAILED: {name}", result.reason(name)]
        if id(result) in by_result:
            lines.append(f"alone: {again.alone(by_result[id(result)], result, name)}")
        print("\n    ".join(filter(None, lines)))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, of CPUs {sum(r.cpu for r in results) / 60:.1f}")
    print(f"{sum(r.repeated for r in results) + len(unsteady)} repeated, "
          f"{sum(r.booted_again for r in results)} guests booted again")
    print(summary(results), flush=True)
    return 1 if failed else 0


def finish_early(reason, began):
    failed = Results("check")
    failed.fail(reason)
    return finish([], [failed], [], began)


def main(arguments):
    options = parse(arguments)
    began = time.monotonic()
    kernels = options.kernels.split()
    groups = options.groups or table.GROUPS
    rows = table.select(groups, kernels, options.tier)
    if options.list:
        print(*(f"{row.label} ({row.form})" for row in rows), sep="\n")
        return 0
    if not rows:
        return finish_early(f"there is nothing to run on {options.kernels}", began)
    with ThreadPoolExecutor(1) as builder:
        runs = with_kernels(rows, None if options.no_build else builder)
        if not options.no_build and not build_all({row.group for row in rows}, kernels):
            builder.shutdown(cancel_futures=True)
            return finish_early("make failed", began)
        values, output = environment(kernels), Output()
        results = Places(options.jobs).run_all(runs, lambda run: run(values, output))
    unsteady = again.try_again(runs, results, values, output) if options.tier == "check" else []
    judged = features.judge(results, some=options.tier == "check") if not options.groups else []
    return finish(runs, [*results, *judged], unsteady, began)
