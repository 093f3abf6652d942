# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/matrix."""

import argparse
import sys
import time

from roxcheck.record import commit
from roxvm.paths import HarnessError

from . import build, page, rows, small


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/matrix", description="Build the module for many kernels, without guests.",
        epilog="WORD is a series (7.3), a kernel (7.3-rt), a flavour (plain, rt, cloud, 16k), a processor (arm64), "
               "a release (trixie; source: without headers of Debian), or what is left out "
               "(no-IPv6; full: nothing). A row has to have all words.")
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--list", action="store_true", help="print the rows, build nothing")
    parser.add_argument("--latest", action="store_true", help="look for newer headers than those unpacked")
    return parser.parse_args(arguments)


def build_row(row, latest):
    """A row that cannot be built, because of the mirror say, fails without those behind it."""
    try:
        return build.build(row, latest)
    except HarnessError as error:
        return build.Result("", "", "failed", 0, 0, str(error).partition("\n")[0][:80])


def main(arguments):
    options = parse(arguments)
    every = rows.table(small.KINDS)
    chosen = rows.select(every, options.words)
    if not chosen:
        print(f"scripts/matrix: no row has {' '.join(options.words)}", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(row.label for row in chosen))
        return 0
    order = [tuple(page.cells(row, build.Result("", "", "", 0, 0), "", "")[page.NAME]) for row in every]
    failed = 0
    for row in chosen:
        began = commit()
        result = build_row(row, options.latest)
        failed += not result.good
        print(f"{row.label:40} {result.version:26} {result.compiler:7} {result.result:10} "
              f"{result.warnings:3} warnings {result.seconds:4} s {result.note}", flush=True)
        # Each at once: an interrupted run leaves what it has.
        page.record([page.cells(row, result, time.strftime("%Y-%m-%d"), began)], order)
    print(f"{len(chosen) - failed} of {len(chosen)} rows are good; logs are in {build.FOLDER}")
    return int(failed > 0)
