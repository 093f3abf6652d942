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


def worth_it(results):
    """True if all that failed can be tried again, and is not too much."""
    failed = [result for result in results if result.failed]
    return (bool(failed) and all(result.can_try_again() for result in failed)
            and sum(len(result.failed) for result in failed) <= MOST)


def passes(case, row, values, output):
    """True if the case passes by itself, TRIES times, and nothing else fails with it."""
    for _ in range(TRIES):
        results = Run(row, case=case)(values, output)
        if results.failed or results.complained or case.name not in results.passed_names:
            return False
    return True


def try_again(runs, results, values, output):
    """Tries what has failed again; what has passed counts as passed. Returns the unsteady cases."""
    unsteady = []
    if not worth_it(results):
        return unsteady
    for run, result in zip(runs, results):
        for case in list(result.cases):
            if not passes(case, run.row, values, output):
                return unsteady
            unsteady.append(Unsteady(f"{result.group}: {case.name}", result.forgive(case)))
    return unsteady


def alone(run, result, name):
    """The command that runs a failed case by itself, or else its group."""
    case = next((case for case in result.cases if name == f"{result.group}: {case.name}"), None)
    return shlex.join(command_of(run.row, case))
