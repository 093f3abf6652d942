# SPDX-License-Identifier: GPL-2.0
"""The table of runs: group, kernel, number of CPUs, tier."""

from dataclasses import dataclass, replace

from roxvm import debugkernel, foreign, kernels as cache

# The seconds that a run may take, and the memory of a guest in MiB.
LIMITS = {
    "life": (3600, 2048),
    "net": (3600, 2048),
    "apps": (3600, 3072),
    "verbs": (2700, 3072),
    "pair": (1800, 1536),
    "stacks": (1800, 3072),
    "kusers": (1800, 2048),
    "interop": (1800, 2048),
    "install": (1200, 0),
    "roots": (7200, 0),
    "packages": (3600, 0),
    "wire": (900, 2048),
    "tools": (1800, 2048),
    "hostile": (1500, 2048),
    "unit": (900, 0),
    "lint": (600, 0),
    "kunit": (900, 2048),
}

# Groups whose guests need another number of CPUs than the default: completion vectors are CPUs.
CPUS = {"kusers": 2}
# Additions to the kernel command line. With these, slab caches count objects exactly (tests/life/lib.sh).
APPEND = {"life": "slub_debug=FU,kmalloc-*"}

# Factors for time limits: kernels that check every access are slow, and so are more CPUs than an
# emulating host has.
PATIENCE = {"debug": 3, "debug-rt": 4, "kcsan": 4, "uml": 2, "6.12-arm64": 3}
MANY_CPUS_PATIENCE = 2


@dataclass(frozen=True)
class Row:
    """One run.

    `kernel` is a name for scripts/vm, or "newest" (the last named one of Debian's usual kernels),
    "older" (each of the others), or "host" (no guest). `cpus` is the number of CPUs of a guest; 0 is
    scripts/vm's default. `form` is "full", "brief" (without the longest cases: ROX_BRIEF) or "core"
    (ROX_QUICK). `card` is the network card between two guests.
    """

    group: str
    kernel: str
    tiers: tuple = ("check", "all")
    form: str = "full"
    cpus: int = 0
    card: str = ""

    @property
    def label(self):
        cpus = f"cpus={self.cpus}" if self.cpus else ""
        kernel = self.kernel if self.kernel != "host" else ""
        return " ".join(filter(None, (self.group, self.card, kernel, cpus)))

    @property
    def limit(self):
        seconds = LIMITS[self.group][0] * PATIENCE.get(self.kernel, 1)
        return seconds * (MANY_CPUS_PATIENCE if self.cpus > 2 else 1)


CHECK = ("check",)
ALL = ("all",)

# "check" must end within 45 minutes on two CPUs, "all" may take a night. "all" has no run in two forms.
# Long runs come first, so that none runs alone at the end.
ROWS = (
    Row("life", "newest", CHECK, "brief"),
    Row("life", "newest", ALL),
    Row("life", "older", ALL),
    Row("life", "6.12-rt", ALL),
    Row("life", "newest", ALL, "brief", cpus=4),
    Row("life", "newest", ALL, "brief", cpus=8),
    Row("life", "kcsan", ALL, "brief", cpus=4),
    Row("life", "uml", ALL, "brief"),
    Row("net", "newest", CHECK, "brief"),
    Row("net", "newest", ALL),
    Row("net", "older", ALL),
    Row("apps", "newest", CHECK, "brief"),
    Row("apps", "newest", ALL),
    Row("apps", "older", ALL),
    Row("apps", "6.12-rt", ALL, "core"),
    Row("apps", "7.3", ALL, "core"),
    Row("apps", "7.3-cloud", ALL, "core"),
    Row("verbs", "newest"),
    Row("verbs", "older", CHECK, "core"),
    Row("verbs", "older", ALL),
    Row("verbs", "6.12-rt", ALL),
    Row("verbs", "7.3", ALL, "core"),
    Row("verbs", "6.12-arm64", ALL, "core"),
    Row("verbs", "newest", ALL, "core", cpus=4),
    Row("verbs", "newest", ALL, "core", cpus=8),
    Row("verbs", "debug", ALL),
    Row("verbs", "debug-rt", ALL, "core"),
    Row("verbs", "kcsan", ALL, "core", cpus=4),
    Row("pair", "newest", card="virtio"),
    Row("pair", "older", ALL, card="virtio"),
    Row("pair", "newest", CHECK, "core", card="e1000e"),
    Row("pair", "newest", ALL, card="e1000e"),
    Row("pair", "older", ALL, card="e1000e"),
    Row("stacks", "newest"),
    Row("stacks", "older", ALL),
    Row("kusers", "newest", CHECK, "brief", card="virtio"),
    Row("kusers", "newest", ALL, card="virtio"),
    Row("kusers", "older", ALL, card="virtio"),
    Row("interop", "newest"),
    Row("interop", "older", ALL),
    Row("install", "host"),
    Row("roots", "host", ALL),
    Row("packages", "host", ALL),
    Row("tools", "newest", ALL),
    Row("tools", "older", ALL),
    Row("wire", "newest"),
    Row("wire", "older"),
    Row("wire", "6.12-rt"),
    Row("wire", "7.3", ALL),
    Row("wire", "6.12-arm64", ALL),
    Row("wire", "newest", ALL, cpus=4),
    Row("wire", "newest", ALL, cpus=8),
    Row("wire", "debug", ALL),
    Row("wire", "debug-rt", ALL),
    Row("wire", "kcsan", ALL, cpus=4),
    Row("wire", "uml", ALL),
    Row("hostile", "newest"),
    Row("hostile", "older"),
    Row("hostile", "debug", ALL),
    Row("hostile", "uml"),
    Row("unit", "host"),
    Row("lint", "host"),
    Row("kunit", "debug", ALL),
    Row("kunit", "uml"),
)

GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))


def is_usual(kernel):
    """True for the kernels that this machine's Debian has, without a flavour."""
    return kernel not in debugkernel.NAMES and not cache.flavour(kernel) and not foreign.release_of(kernel)


def select(groups, kernels, tier, form="", cpus=0):
    """The rows to run, in the table's order, with actual kernels instead of "newest" and "older".

    `form` and `cpus` replace those of the table, if given.
    """
    rows = [row for row in ROWS if row.group in groups]
    if len(kernels) == 1 and not is_usual(kernels[0]):
        chosen = on_one_special(rows, kernels[0])
    else:
        usual = [kernel for kernel in kernels if is_usual(kernel)]
        if len(groups) == 1:
            rows = in_full(rows)
        chosen = [replace(row, kernel=kernel) for row in rows if tier in tiers_of(row, rows)
                  for kernel in kernels_of(row, kernels, usual)]
    if form:
        chosen = [replace(row, form=form) for row in chosen]
    if cpus:
        chosen = [replace(row, cpus=cpus) for row in chosen if row.kernel not in ("host", "uml")]
    return list({(row.label, row.form): row for row in chosen}.values())


def elsewhere(tier, kernels):
    """The groups that another tier runs on some of Debian's usual kernels, and this one does not: (group, kernel).

    A tier that runs only the core of a group counts as one that does not: much is not in it.
    """
    usual = [kernel for kernel in kernels if is_usual(kernel)]
    named = [((row.group, kernel), row) for row in ROWS for kernel in kernels_of(row, usual, usual)]
    return {pair for pair, _ in named} - {pair for pair, row in named if tier in row.tiers and row.form != "core"}


def tiers_of(row, rows):
    """The tiers of a row. A kernel without any row in "check" runs its rows of "all" there, too."""
    if any("check" in other.tiers for other in rows if other.kernel == row.kernel):
        return row.tiers
    return ("check", "all")


def kernels_of(row, kernels, usual):
    """The kernels of a row that were named."""
    if row.kernel == "host":
        return ["host"]
    if row.kernel == "newest":
        return usual[-1:]
    if row.kernel == "older":
        return usual[:-1]
    return [row.kernel] if row.kernel in kernels else []


def in_full(rows):
    """The rows if only one group was named: it runs in full on all usual kernels."""
    usual = ("older", "newest")
    return [replace(row, tiers=("check", "all")) if row.kernel in usual and not row.cpus else row
            for row in rows if row.kernel not in usual or "all" in row.tiers]


def on_one_special(rows, kernel):
    """The rows if only one special kernel was named: its rows in "all", or the groups in full."""
    own = [row for row in rows if row.kernel == kernel and "all" in row.tiers]
    groups = {row.group for row in own}
    return own + [row if row.kernel == "host" else replace(row, kernel=kernel) for row in rows
                  if row.kernel == "host"
                  or row.kernel == "newest" and "all" in row.tiers and not row.cpus and row.group not in groups]
