# SPDX-License-Identifier: GPL-2.0
"""Build everything, run groups of tests, and report their results."""

import argparse
import os
import re
import time
from concurrent.futures import ThreadPoolExecutor

from . import again, features, record, sources, table
from .results import Results
from .runs import Output, Places, build_all, environment, summary, with_kernels


def pattern(text):
    try:
        return re.compile(text)
    except re.error as wrong:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {wrong}") from None


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
    add("--cpus", type=int, metavar="N",
        help="CPUs of each guest, instead of the table's; 0: only the usual number")
    add("--rows", metavar="PATTERN", default="", type=pattern,
        help="only rows whose line of --list has this regular expression")
    add("--jobs", type=int, default=os.cpu_count() or 1, help="guests at the same time (one a CPU)")
    add("--no-build", action="store_true", help="use what is already built")
    add("--resume", action="store_true",
        help="leave out what has passed before with the same files (build/results)")
    add("--stop-early", action="store_true", default=bool(os.environ.get("ROX_STOP_EARLY")),
        help="begin no further row once the gate is red whatever comes (or ROX_STOP_EARLY=1)")
    add("--changed", metavar="BASE", help="only groups that the changes since that commit can break")
    add("--list", action="store_true", help="only print what would run")
    add("--record", action="store_true",
        help="run nothing; add the results in build/results to Documentation/results.md")
    add("groups", nargs="*", metavar="GROUP", help=f"all if none is named: {', '.join(table.GROUPS)}")
    options = parser.parse_args(arguments)
    unknown = set(options.groups) - set(table.GROUPS)
    if unknown:
        parser.error(f"no such group: {' '.join(sorted(unknown))}")
    return options


def repeats(results, unsteady=()):
    """How many programs, cases and guests were repeated. Shown even if all cases have passed."""
    return (f"{sum(r.repeated for r in results) + len(unsteady)} repeated, "
            f"{sum(r.booted_again for r in results)} guests booted again")


def finish(runs, results, unsteady, began, rest=()):
    """Prints the results, with what is needed to understand a failure in the last lines.

    `rest` are the lines about rows that have not been run, or not to their end.
    """
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
    print(*rest, sep="\n", end="\n" if rest else "")
    for result, name in failed:
        lines = [f"FAILED: {name}", result.reason(name)]
        if id(result) in by_result:
            lines.append(f"alone: {again.alone(by_result[id(result)], result, name)}")
        print("\n    ".join(filter(None, lines)))
    print(f"{(time.monotonic() - began) / 60:.1f} minutes, of CPUs {sum(r.cpu for r in results) / 60:.1f}")
    print(repeats(results, unsteady))
    print(summary(results), flush=True)
    return 1 if failed else 0


def finish_early(reason, began):
    failed = Results("check")
    failed.fail(reason)
    return finish([], [failed], [], began)


def main(arguments):
    options = parse(arguments)
    if options.record:
        return record.write_table()
    began = time.monotonic()
    kernels = options.kernels.split()
    if options.changed:
        options.groups = sources.broken_since(options.changed)
        print("groups:", *options.groups, flush=True)
    chosen = table.select(options.groups or table.GROUPS, kernels, options.tier, options.form, options.cpus)
    named = [row for row in chosen if options.rows.search(line_of(row))]
    before = record.passed_before() if options.resume else set()
    rows = [row for row in named if record.name_of(row) not in before]
    if options.list:
        print(*map(line_of, rows), sep="\n")
        return 0
    if len(rows) < len(named):
        print(f"{len(named) - len(rows)} runs have passed before with these files")
    if not rows:
        return finish_early(f"there is nothing to run on {options.kernels}", began)
    return run_rows(options, rows, len(rows) == len(chosen), began)


def line_of(row):
    """What --list prints of a row."""
    return f"{row.label} ({row.form}{', virtual time' if row.clock is not None else ''})"


def run_rows(options, rows, whole, began):
    """Builds, runs, judges. `whole`: nothing of what was chosen has been left out."""
    kernels = [kernel for kernel in options.kernels.split() if any(kernel in (row.kernel, row.peer) for row in rows)]
    with ThreadPoolExecutor(1) as builder:
        runs = with_kernels(rows, kernels, None if options.no_build else builder)
        if not options.no_build and not build_all({row.group for row in rows}, kernels):
            builder.shutdown(cancel_futures=True)
            return finish_early("make failed", began)
        values, output, log = environment(options.kernels.split()), Output(), record.Log()
        results, unsteady = run_all(options, runs, values, output, log)
    rest = [f"not run: {run.row.label}: the gate is red already" for run in runs if run not in results]
    rest += [f"ended early: {run.row.label}: the gate is red already" for run in results if run.ended]
    return finish(list(results), [*results.values(), *judged(options, results, whole and not rest)], unsteady, began,
                  rest)


def run_all(options, runs, values, output, log):
    """The results by run, and the unsteady cases. Of the gate the log gets what holds after all were tried again."""
    places = Places(options.jobs)
    if options.tier != "check":
        return places.run_all(runs, lambda run: logged(run, run(values, output), log)), []
    if options.stop_early:
        results, unsteady = again.until_red(runs, places, values, output)
    else:
        results = places.run_all(runs, lambda run: run(values, output))
        unsteady = again.try_again(results.keys(), results.values(), values, output)
    for run, result in results.items():
        if not run.ended:
            logged(run, result, log)
    return results, unsteady


def logged(run, result, log):
    log.add(run, result)
    return result


def judged(options, results, whole):
    """What the results say about the README's features."""
    if options.groups or options.form or not whole:
        return []
    if options.tier == "check":
        return [features.judge_gate(results.values())]
    cores = [result for run, result in results.items() if run.row.form == "core"]
    return [features.judge([result for result in results.values() if result not in cores], cores)]
