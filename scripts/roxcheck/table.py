# SPDX-License-Identifier: GPL-2.0
"""The table of runs: which group runs on which kernel, in which form and time, in which tier."""

from dataclasses import replace

from roxvm import debugkernel, foreign, kernels as cache

from .row import ALL, CHECK, CLOCKED, CLOCKS, VIRTUAL, Row

# "check" is the gate: what a change breaks first, in 11 to 30 minutes on two CPUs, in virtual time
# where a group can have it. "all" is everything and may take a night; what needs CPUs at the same moment is
# there, in the host's time. What takes seconds comes first, then what takes longest, so that none runs
# alone at the end; before the end also what waits in the host's time: rox-run.
ROWS = (
    Row("lint", "host"),
    Row("unit", "host"),

    Row("pair", "newest", CHECK, "core", VIRTUAL, card="virtio"),
    Row("pair", "newest", CHECK, "core", VIRTUAL, card="e1000e"),
    Row("life", "newest", CHECK, "core", VIRTUAL),
    Row("net", "newest", CHECK, "core", VIRTUAL),
    Row("verbs", "newest", CHECK, "core", VIRTUAL),
    Row("apps", "newest", CHECK, "core", VIRTUAL),
    Row("wire", "uml", CHECK, "core", VIRTUAL),
    Row("kunit", "uml", clock=VIRTUAL),
    Row("run", "uml", CHECK, "core"),
    Row("verbs", "older", CHECK, "core", VIRTUAL),
    Row("install", "host", CHECK, "core"),
    Row("kusers", "newest", CHECK, "core", VIRTUAL),
    Row("stacks", "newest", CHECK, "core", VIRTUAL),
    Row("interop", "newest", CHECK, "core", VIRTUAL),
    Row("tools", "newest", CHECK, "core", VIRTUAL),
    Row("hostile", "newest", CHECK, "core", VIRTUAL),
    Row("apps", "older", CHECK, "core", VIRTUAL),
    Row("wire", "newest", CHECK, clock=VIRTUAL),

    Row("life", "newest", ALL),
    Row("life", "older", ALL),
    Row("life", "6.12-rt", ALL),
    Row("life", "newest", ALL, "brief", cpus=4),
    Row("life", "newest", ALL, "brief", cpus=8),
    Row("life", "kcsan", ALL, "brief", cpus=4),
    Row("life", "uml", ALL, "brief"),
    Row("life", "7.3", ALL, "core"),
    Row("life", "7.3-rt", ALL, "core"),
    Row("life", "6.12-arm64", ALL, "core"),
    Row("net", "newest", ALL),
    Row("net", "older", ALL),
    Row("net", "7.3", ALL, "core"),
    Row("apps", "newest", ALL),
    Row("apps", "older", ALL),
    Row("apps", "6.12-rt", ALL, "core"),
    Row("apps", "7.3", ALL, "core"),
    Row("apps", "7.3-rt", ALL, "core"),
    Row("apps", "7.3-cloud", ALL, "core"),
    Row("apps", "6.12-arm64", ALL, "core"),
    Row("verbs", "newest", ALL),
    Row("verbs", "older", ALL),
    Row("verbs", "6.12-rt", ALL),
    Row("verbs", "7.3", ALL, "core"),
    Row("verbs", "7.3-rt", ALL, "core"),
    Row("verbs", "6.12-arm64", ALL, "core"),
    Row("verbs", "6.12-arm64-16k", ALL, "core"),
    Row("verbs", "arm64-64k", ALL, "core"),
    Row("verbs", "newest", ALL, "core", cpus=4),
    Row("verbs", "newest", ALL, "core", cpus=8),
    Row("verbs", "debug", ALL),
    Row("verbs", "debug-rt", ALL, "core"),
    Row("verbs", "kcsan", ALL, cpus=4),
    Row("pair", "newest", ALL, card="virtio"),
    Row("pair", "older", ALL, card="virtio"),
    Row("pair", "newest", ALL, "core", card="virtio", peer="6.12-arm64"),
    Row("pair", "7.3", ALL, "core", card="virtio"),
    Row("pair", "newest", ALL, card="e1000e"),
    Row("pair", "older", ALL, card="e1000e"),
    Row("stacks", "newest", ALL),
    Row("stacks", "older", ALL),
    Row("stacks", "7.3", ALL, "core"),
    Row("kusers", "newest", ALL, card="virtio"),
    Row("kusers", "older", ALL, card="virtio"),
    Row("kusers", "7.3", ALL, card="virtio"),
    Row("kusers", "newest", ALL, clock=VIRTUAL, card="virtio"),
    Row("interop", "newest", ALL),
    Row("interop", "older", ALL),
    Row("interop", "7.3", ALL, "core"),
    Row("install", "host", ALL),
    Row("roots", "host", ALL),
    Row("packages", "host", ALL),
    Row("run", "host", ALL),
    Row("tools", "newest", ALL),
    Row("tools", "older", ALL),
    Row("tools", "7.3", ALL),
    Row("wire", "newest", ALL),
    Row("wire", "uml", ALL),
    Row("wire", "older", ALL),
    Row("wire", "6.12-rt", ALL),
    Row("wire", "7.3", ALL),
    Row("wire", "uml-7.3", ALL),
    Row("wire", "6.12-arm64", ALL),
    Row("wire", "6.12-arm64-16k", ALL),
    Row("wire", "arm64-64k", ALL),
    Row("wire", "newest", ALL, cpus=4),
    Row("wire", "newest", ALL, cpus=8),
    Row("wire", "debug", ALL),
    Row("wire", "debug-rt", ALL),
    Row("wire", "kcsan", ALL, cpus=4),
    Row("hostile", "newest", ALL),
    Row("hostile", "older", ALL),
    Row("hostile", "7.3", ALL),
    Row("hostile", "debug", ALL),
    Row("hostile", "uml", ALL),
    Row("hostile", "6.12-arm64", ALL),
    Row("kunit", "debug", ALL),
    Row("kunit", "arm64-64k", ALL),
    Row("kunit", "uml-7.3", ALL),
    Row("kunit", "uml-small", ALL),
    Row("apps", "uml-small", ALL, "core"),

    *(Row(group, "newest", ALL, clock=clock) for group in CLOCKED for clock in CLOCKS),
)

GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))


def is_usual(kernel):
    """True for the kernels that this machine's Debian has, without a flavour."""
    return kernel not in debugkernel.NAMES and not cache.flavour(kernel) and not foreign.release_of(kernel)


def select(groups, kernels, tier, form="", cpus=None):
    """The rows to run, in the table's order, with actual kernels instead of "newest" and "older".

    `form` and `cpus` replace those of the table, if given. Then the rows of "all" in virtual time are left
    out; with 0 `cpus` also those for more CPUs than usual, but for kernels that have no other.
    """
    rows = [row for row in ROWS if row.group in groups and tier in row.tiers]
    if cpus is not None:
        rows = [row for row in rows if row.clock is None or "check" in row.tiers]
    if cpus == 0:
        rows = [row for row in rows if not row.cpus or row.kernel not in ("newest", "older")]
    if len(kernels) == 1 and not is_usual(kernels[0]):
        chosen = on_one_special(rows, kernels[0])
    else:
        usual = [kernel for kernel in kernels if is_usual(kernel)]
        chosen = [replace(row, kernel=kernel) for row in rows for kernel in kernels_of(row, kernels, usual)]
    if form:
        chosen = [replace(row, form=form) for row in chosen]
    if cpus:
        chosen = [replace(row, cpus=cpus) for row in chosen if not row.kernel.startswith(("host", "uml"))]
    return list({(row.label, row.form, row.clock): row for row in chosen}.values())


def kernels_of(row, kernels, usual):
    """The kernels of a row that were named."""
    if row.kernel == "host":
        return ["host"]
    if row.peer and row.peer not in kernels:
        return []
    if row.kernel == "newest":
        return usual[-1:]
    if row.kernel == "older":
        return usual[:-1]
    return [row.kernel] if row.kernel in kernels else []


def on_one_special(rows, kernel):
    """The rows if only one special kernel was named: its own rows, or the groups in full."""
    own = [row for row in rows if row.kernel == kernel]
    groups = {row.group for row in own}
    return own + [row if row.kernel == "host" else replace(row, kernel=kernel) for row in rows
                  if row.kernel == "host"
                  or row.kernel == "newest" and not (row.cpus or row.peer) and row.clock is None
                  and row.group not in groups]
