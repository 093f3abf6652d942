# SPDX-License-Identifier: GPL-2.0
"""What the README says that works, held against the cases that passed.

tests/features.toml lists both: each feature with its proofs, "GROUP: PATTERN",
where GROUP is a group or a group on one kernel ("verbs", "verbs 6.12") and
PATTERN is a shell pattern of names of cases. The README's tables are made from
that file (scripts/features).
"""

import tomllib
from fnmatch import fnmatchcase

from roxvm import debugkernel
from roxvm.paths import REPO

from .results import Results

SOURCE = REPO / "tests" / "features.toml"
SERVICES = ("RC", "UC", "UD", "XRC")


def load():
    with SOURCE.open("rb") as file:
        return tomllib.load(file)


def proofs_of(feature):
    """All proofs of a feature; those of a service are under its name."""
    proofs = list(feature.get("proof", []))
    for service in SERVICES:
        proofs += feature.get(service, [])
    return proofs


def split(proof):
    group, _, pattern = proof.partition(": ")
    return group.split(), pattern


def runs_of(proof, results):
    """The runs that a proof is about: those of its group, on its kernel if it names one.

    What works is judged on Debian's kernels.
    """
    words, _ = split(proof)
    return [r for r in results if r.group.split()[0] == words[0]
            and set(words) <= set(r.group.split())
            and not set(debugkernel.NAMES) & set(r.group.split())]


def amiss(proof, run):
    """Why a run does not prove it; None if it does."""
    _, pattern = split(proof)
    if any(fnmatchcase(name, pattern) for name in run.passed_names):
        bad = [text for text in run.failed + run.skipped
               if fnmatchcase(text.partition(": ")[2], pattern)]
        return f"did not pass: {bad[0]}" if bad else None
    return f"no case of {run.group} that passed is called {pattern}"


def judge(results, some=False):
    """Results with one case for each feature: all that `make check-all` or, with `some`, the gate ran of it.

    Everything must hold that was looked for. In the gate each mark in the README's tables has at least one
    proof that was.
    """
    verdict = Results("features")
    for feature in load()["feature"]:
        reason = some_amiss(feature, results) if some else all_amiss(feature, results)
        if reason:
            verdict.fail(f"{feature['name']}: {reason}")
        else:
            verdict.passed += 1
    return [verdict]


def all_amiss(feature, results):
    """Why a feature is not proved by all of its proofs; None if it is."""
    for proof in proofs_of(feature):
        runs = runs_of(proof, results)
        reasons = [reason for run in runs if (reason := amiss(proof, run))]
        if reasons or not runs:
            return reasons[0] if reasons else f"{proof.partition(':')[0]} has not run"
    return None


def some_amiss(feature, results):
    """Why a mark of a feature is not proved by any of its proofs; None if all are."""
    for service in ("proof", *SERVICES):
        proofs = feature.get(service, [])
        if proofs and not any(amiss(proof, run) is None for proof in proofs for run in runs_of(proof, results)):
            mark = "it" if service == "proof" else service
            return f"no case that passed proves {mark}, such as {proofs[0]}"
    return None


# -- the README's tables -----------------------------------------------------

def service_rows(features):
    yield "| | " + " | ".join(SERVICES) + " |"
    yield "|---|" + "---|" * len(SERVICES)
    for feature in features:
        if any(service in feature for service in SERVICES):
            marks = ("yes" if service in feature else "-" for service in SERVICES)
            yield f"| {feature['name']} | {' | '.join(marks)} |"


def plain_rows(features):
    yield "| | |"
    yield "|---|---|"
    for feature in features:
        if "what" in feature:
            yield f"| {feature['name']} | {feature['what']} |"


def tables():
    features = load()["feature"]
    return "\n".join([*service_rows(features), "", *plain_rows(features)])
