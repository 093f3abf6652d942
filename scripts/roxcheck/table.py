# SPDX-License-Identifier: GPL-2.0
"""The table of runs: which group runs on which kernel, in which form and time, in which tier."""

from dataclasses import dataclass, replace

from roxvm import debugkernel

# The seconds that a run may take on the host's clock, and the memory of a guest in MiB.
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
    "wire": (1800, 2048),
    "hostile": (1500, 2048),
    "unit": (900, 0),
    "lint": (900, 0),
    "kunit": (900, 2048),
}

# Additions to the kernel command line. With these, slab caches count objects exactly (tests/life/lib.sh); not
# where kmemleak looks at every object.
APPEND = {"life": "slub_debug=FU,kmalloc-*"}

# Factors for time limits: kernels that check every access are slow.
PATIENCE = {"debug": 3, "uml": 2}

# The nanoseconds of an instruction in virtual time, as a power of two: see scripts/vm --icount.
VIRTUAL = 1


@dataclass(frozen=True)
class Row:
    """One run.

    `kernel` is a name for scripts/vm, or "newest" (the last named one of Debian's kernels), "older"
    (each of the others), or "host" (no guest). `form` is "full", "brief" (without the longest cases:
    ROX_BRIEF) or "core" (ROX_QUICK). `clock` is the shift of virtual time, or None: the host's time,
    with all CPUs of a guest at once. `card` is the network card between two guests.
    """

    group: str
    kernel: str
    tiers: tuple = ("check", "all")
    form: str = "full"
    clock: int | None = None
    card: str = ""

    @property
    def label(self):
        return " ".join(filter(None, (self.group, self.card, self.kernel if self.kernel != "host" else "")))

    @property
    def limit(self):
        return LIMITS[self.group][0] * PATIENCE.get(self.kernel, 1)

    @property
    def guests(self):
        """How many of the host's CPUs it keeps busy."""
        return 2 if self.card else 1


CHECK = ("check",)
ALL = ("all",)

# "check" is the gate: what a change breaks first, within a quarter of an hour on two CPUs, in virtual time
# where a group can have it. "all" is everything; what needs CPUs at the same moment is there, in the host's
# time. What takes seconds comes first, then what takes longest, so that none runs alone at the end.
ROWS = (
    Row("lint", "host"),
    Row("unit", "host"),
    Row("pair", "newest", CHECK, "core", VIRTUAL, card="virtio"),
    Row("pair", "newest", CHECK, "core", VIRTUAL, card="e1000e"),
    Row("life", "newest", CHECK, "core", VIRTUAL),
    Row("net", "newest", CHECK, "core", VIRTUAL),
    Row("verbs", "newest", CHECK, "core", VIRTUAL),
    Row("apps", "newest", CHECK, "core", VIRTUAL),
    Row("verbs", "older", CHECK, "core", VIRTUAL),
    Row("install", "host", CHECK, "core"),
    Row("kusers", "newest", CHECK, "core", VIRTUAL),
    Row("stacks", "newest", CHECK, "core", VIRTUAL),
    Row("interop", "newest", CHECK, "core", VIRTUAL),
    Row("hostile", "newest", CHECK, clock=VIRTUAL),
    Row("apps", "older", CHECK, "core", VIRTUAL),
    Row("wire", "newest", CHECK, clock=VIRTUAL),
    Row("kunit", "uml"),
    Row("wire", "uml"),

    Row("life", "newest", ALL),
    Row("life", "older", ALL),
    Row("net", "newest", ALL),
    Row("net", "older", ALL),
    Row("apps", "newest", ALL),
    Row("apps", "older", ALL),
    Row("verbs", "newest", ALL),
    Row("verbs", "older", ALL),
    Row("verbs", "debug", ALL),
    Row("kusers", "newest", ALL, card="virtio"),
    Row("kusers", "older", ALL, card="virtio"),
    Row("pair", "newest", ALL, card="virtio"),
    Row("pair", "older", ALL, card="virtio"),
    Row("pair", "newest", ALL, card="e1000e"),
    Row("pair", "older", ALL, card="e1000e"),
    Row("stacks", "newest", ALL),
    Row("stacks", "older", ALL),
    Row("interop", "newest", ALL),
    Row("interop", "older", ALL),
    Row("install", "host", ALL),
    Row("hostile", "newest", ALL),
    Row("hostile", "older", ALL),
    Row("hostile", "uml", ALL),
    Row("hostile", "debug", ALL),
    Row("wire", "newest", ALL),
    Row("wire", "older", ALL),
    Row("wire", "debug", ALL),
    Row("kunit", "debug", ALL),
)

GROUPS = tuple(dict.fromkeys(row.group for row in ROWS))


def is_usual(kernel):
    """True for Debian's kernels."""
    return kernel not in debugkernel.NAMES


def select(groups, kernels, tier):
    """The rows to run, in the table's order, with actual kernels instead of "newest" and "older"."""
    rows = [row for row in ROWS if row.group in groups and tier in row.tiers]
    usual = [kernel for kernel in kernels if is_usual(kernel)]
    chosen = [replace(row, kernel=kernel) for row in rows for kernel in kernels_of(row, kernels, usual)]
    if len(kernels) == 1 and not usual:
        # Only a kernel that finds bugs: all of its groups run there, whatever the table says.
        own = {row.group for row in chosen}
        chosen += [replace(row, kernel=kernels[0]) for row in rows
                   if row.kernel == "newest" and not row.card and row.group not in own]
    return list(dict.fromkeys(chosen))


def kernels_of(row, kernels, usual):
    """The kernels of a row that were named."""
    if row.kernel == "host":
        return ["host"]
    if row.kernel == "newest":
        return usual[-1:]
    if row.kernel == "older":
        return usual[:-1]
    return [row.kernel] if row.kernel in kernels else []
