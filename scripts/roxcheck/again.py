# SPDX-License-Identifier: GPL-2.0
"""Try cases again that have failed in the gate.

A case that passes twice more by itself, in a fresh guest with nothing beside it, is unsteady: the gate
passes and names it. Who fails once more has failed. Nothing else is ever tried again: no complaint of a
kernel, no crash, no time limit.
"""

import shlex
from collections import namedtuple

from .runs import Run, command_of

TRIES = 2
MOST = 5                                # unsteady cases

Unsteady = namedtuple("Unsteady", "name reason")


def hopeless(results, unsteady=()):
    """True if the gate is red whatever is tried again: something failed that cannot be, or too much has."""
    failed = [result for result in results if result.failed]
    return (any(not result.can_try_again() for result in failed)
            or sum(len(result.failed) for result in failed) + len(unsteady) > MOST)


def passes(case, row, values, output):
    """True if the case passes by itself, TRIES times, and nothing else fails with it."""
    for _ in range(TRIES):
        results = Run(row, case=case)(values, output)
        if results.failed or results.complained or case.name not in results.passed_names:
            return False
    return True


def try_again(runs, results, values, output, before=()):
    """Tries what has failed again; what has passed counts as passed. Returns the unsteady cases.

    `before` are unsteady cases that were found earlier.
    """
    unsteady = []
    if hopeless(results, before):
        return unsteady
    for run, result in zip(runs, results):
        for case in list(result.cases):
            if not passes(case, run.row, values, output):
                return unsteady
            unsteady.append(Unsteady(f"{result.group}: {case.name}", result.forgive(case)))
    return unsteady


def until_red(runs, places, values, output):
    """Runs rows until the gate is red whatever comes, and ends those under way then.

    A case that has failed is tried again before further rows begin, when the ones beside it have ended.
    Returns the results of the runs that were begun, by run, and the unsteady cases.
    """
    results, unsteady, waiting = {}, [], list(runs)

    def under_way():
        return [run.results for run in runs if run.results]

    def watch():
        if hopeless(under_way(), unsteady):
            for run in runs:
                run.end()

    # The results of a run that is at its end are not under way for a moment.
    def red():
        return any(run.ended for run in runs) or any(result.failed for result in under_way())

    for run in runs:
        run.watch = watch
    while waiting and not any(result.failed for result in results.values()):
        ended = places.run_all(waiting, lambda run: run(values, output), red)
        results.update(ended)
        waiting = [run for run in waiting if run not in ended]
        unsteady += try_again(ended.keys(), ended.values(), values, output, unsteady)
    return results, unsteady


def alone(run, result, name):
    """The command that runs a failed case by itself, or else its group."""
    case = next((case for case in result.cases if name == f"{result.group}: {case.name}"), None)
    return shlex.join(command_of(run.row, case))
