# SPDX-License-Identifier: GPL-2.0
"""Check the features that the README lists against the cases that passed.

tests/features.toml lists each feature with its proofs, "GROUP: PATTERN". GROUP is a group, or a group
on one kernel ("verbs", "verbs 6.12"), and PATTERN is a shell pattern for names of cases. The tables of
the README are made from that file (scripts/features).

In `make check-all` a proof must hold on each of Debian's kernels, unless it names one kernel. In the
gate each mark in the README's tables needs one proof that passed. Of a group whose core was run, cases that passed count; what
the core leaves out says nothing. Where it names one kernel, the feature's `only` says what is
tested on that kernel only, and the README shows it.
"""

import tomllib
from fnmatch import fnmatchcase

from roxvm import debugkernel
from roxvm.paths import REPO

from .results import Results

SOURCE = REPO / "tests" / "features.toml"
# The services in the README's table.
KERNELS = ("6.1", "6.12")
SERVICES = ("RC", "UC", "UD", "XRC")


def load():
    with SOURCE.open("rb") as file:
        return tomllib.load(file)


def proofs_of(feature):
    """All proofs of a feature, including those listed for a service."""
    proofs = list(feature.get("proof", []))
    for service in SERVICES:
        proofs += feature.get(service, [])
    return proofs


def split(proof):
    group, _, pattern = proof.partition(": ")
    return group.split(), pattern


def runs_of(proof, results):
    """The runs for a proof: those of its group on Debian's kernels, or on the kernel that it names."""
    words, _ = split(proof)
    return [r for r in results if r.group.split()[0] == words[0]
            and set(words) <= set(r.group.split())
            and not set(debugkernel.NAMES) & set(r.group.split())]


def kernels_of(words):
    """Debian's kernels among the words of a proof's or a run's group."""
    return set(KERNELS) & set(words)


def amiss(proof, run):
    """The reason why a run does not prove the feature; None if it does."""
    _, pattern = split(proof)
    if any(fnmatchcase(name, pattern) for name in run.passed_names):
        bad = [text for text in run.failed + run.skipped
               if fnmatchcase(text.partition(": ")[2], pattern)]
        return f"did not pass: {bad[0]}" if bad else None
    return f"no case of {run.group} that passed is called {pattern}"


NOT_RUN = "it was not looked for"


def unproved(proof, results, cores=()):
    """The reason why these results do not prove it, if any; NOT_RUN if they lack its group."""
    runs = runs_of(proof, results) + [run for run in runs_of(proof, cores) if not amiss(proof, run)]
    if not runs:
        return NOT_RUN
    for run in runs:
        reason = amiss(proof, run)
        if reason:
            return reason
    words, _ = split(proof)
    wanted = kernels_of(words) or set().union(*(kernels_of(r.group.split()) for r in results))
    ran = set().union(*(kernels_of(r.group.split()) for r in runs))
    # A group on the host has no kernel.
    lacking = sorted(wanted - ran) if ran else ()
    return f"{words[0]} has not run on {lacking[0]}, and no proof names a kernel" if lacking else None


def judge(results, cores=()):
    """Results with one case for each feature all of whose proofs belong to groups of this run.

    `cores` are the results of runs of the core of a group.
    """
    verdict = Results("features")
    for feature in load()["feature"]:
        reasons = [unproved(proof, results, cores) for proof in proofs_of(feature)]
        if NOT_RUN in reasons:
            continue
        reasons = [reason for reason in reasons if reason]
        if reasons:
            verdict.fail(f"{feature['name']}: {reasons[0]}")
        else:
            verdict.passed += 1
    return verdict


def judge_gate(results):
    """Results with one case for each feature: each of its marks in the README's tables has a proof that passed."""
    verdict = Results("features")
    for feature in load()["feature"]:
        reason = some_amiss(feature, results)
        if reason:
            verdict.fail(f"{feature['name']}: {reason}")
        else:
            verdict.passed += 1
    return verdict


def some_amiss(feature, results):
    """Why a mark of a feature is not proved by any of its proofs; None if all are."""
    for service in ("proof", *SERVICES):
        proofs = feature.get(service, [])
        if proofs and not any(amiss(proof, run) is None for proof in proofs for run in runs_of(proof, results)):
            mark = "it" if service == "proof" else service
            return f"no case that passed proves {mark}, such as {proofs[0]}"
    return None


def unsaid(features):
    """Features that have a proof on one kernel only but no `only`, or the other way round."""
    for feature in features:
        kernels = set().union(*(kernels_of(split(proof)[0]) for proof in proofs_of(feature)))
        if kernels != set(feature.get("only", {})):
            yield (f"{feature['name']}: proofs name {sorted(kernels)}, `only` has "
                   f"{sorted(feature.get('only', {}))}")


# -- the README's tables -----------------------------------------------------

def only(feature):
    """The README's remark about kernels at the end of a row."""
    parts = [f"shown on {kernel} only: {what}" if what else f"shown on {kernel} only"
             for kernel, what in feature.get("only", {}).items()]
    return f" ({'; '.join(parts)})" if parts else ""


def service_rows(features):
    yield "| | " + " | ".join(SERVICES) + " |"
    yield "|---|" + "---|" * len(SERVICES)
    for feature in features:
        if any(service in feature for service in SERVICES):
            marks = ("yes" if service in feature else "-" for service in SERVICES)
            yield f"| {feature['name']}{only(feature)} | {' | '.join(marks)} |"


def plain_rows(features):
    yield "| | |"
    yield "|---|---|"
    for feature in features:
        if "what" in feature:
            yield f"| {feature['name']} | {feature['what']}{only(feature)} |"


def tables():
    features = load()["feature"]
    return "\n".join([*service_rows(features), "", *plain_rows(features)])
