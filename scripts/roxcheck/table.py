# SPDX-License-Identifier: GPL-2.0
"""The table of runs: which group runs on which kernel, in which form and time, in which tier."""

from dataclasses import dataclass, replace

from roxvm import debugkernel, foreign, kernels as cache

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
    "roots": (7200, 0),
    "packages": (7200, 0),
    "run": (3600, 0),
    "wire": (1800, 2048),
    "tools": (1800, 2048),
    "hostile": (1500, 2048),
    "unit": (900, 0),
    "lint": (900, 0),
    "kunit": (900, 2048),
}

# Groups whose guests need another number of CPUs than the default: completion vectors are CPUs.
CPUS = {"kusers": 2}
# Groups that need a host to themselves, by kernel: cases in which several CPUs must run at the same moment, where the
# kernel is slow or has threads that run before others; and builds that would take longer than they may.
ALONE = {"kcsan": ("life", "verbs", "wire"), "6.12-rt": ("verbs",), "debug-rt": ("verbs",), "host": ("packages",)}
EVERY_CPU = 1 << 16
# Additions to the kernel command line. With these, slab caches count objects exactly (tests/life/lib.sh).
# Not on debug kernels: kmemleak checks every object there. Persistent memory is for verbs: dax.
APPEND = {"life": "slub_debug=FU,kmalloc-*", "verbs": "memmap=64M!1G"}
# For guests in virtual time: zeros in each new page take a fifth of such a guest's CPU time, and the kernel's tests of
# its own ciphers nearly half of the instructions of a boot.
VIRTUAL_APPEND = "init_on_alloc=0 cryptomgr.notests=1"

# Factors for time limits: kernels that check every access are slow, and so are more CPUs than an
# emulating host has.
PATIENCE = {"debug": 3, "debug-rt": 4, "kcsan": 4, "uml": 2, "uml-7.3": 2, "6.12-arm64": 3, "6.12-arm64-16k": 3}
MANY_CPUS_PATIENCE = 2
# Virtual time goes on with what the host has left over, beside whatever load. What hangs there leaps to the limits of
# the tests, so only a kernel that hangs reaches this one; the gate has a limit as a whole.
VIRTUAL_PATIENCE = 4

# The nanoseconds of an instruction in virtual time, as a power of two: see scripts/vm --icount. The others are
# a machine twice as fast, as users with KVM have it, and one that is sixteen times slower.
VIRTUAL = 1
CLOCKS = (0, VIRTUAL, 5)
CLOCKED = ("life", "net", "apps", "verbs", "stacks", "interop", "hostile", "wire")


@dataclass(frozen=True)
class Row:
    """One run.

    `kernel` is a name for scripts/vm, or "newest" (the last named one of Debian's usual kernels),
    "older" (each of the others), or "host" (no guest). `form` is "full", "brief" (without the longest
    cases: ROX_BRIEF) or "core" (ROX_QUICK). `clock` is the shift of virtual time, or None: the host's
    time, with all CPUs of a guest at once. `cpus` is the number of CPUs of a guest; 0 is scripts/vm's
    default. `card` is the network card between two guests, `peer` the kernel of the other one, if it is
    of another processor.
    """

    group: str
    kernel: str
    tiers: tuple = ("check", "all")
    form: str = "full"
    clock: int | None = None
    cpus: int = 0
    card: str = ""
    peer: str = ""

    @property
    def label(self):
        cpus = f"cpus={self.cpus}" if self.cpus else ""
        clock = f"clock={self.clock}" if self.clock not in (None, VIRTUAL) else ""
        kernel = self.kernel if self.kernel != "host" else ""
        return " ".join(filter(None, (self.group, self.card, kernel, self.peer, cpus, clock)))

    @property
    def limit(self):
        seconds = LIMITS[self.group][0] * PATIENCE.get(self.peer or self.kernel, 1)
        seconds *= MANY_CPUS_PATIENCE if self.cpus > 2 else 1
        return seconds * (VIRTUAL_PATIENCE if self.clock is not None and self.tiers == ALL else 1)

    @property
    def guests(self):
        """How many of the host's CPUs it keeps busy."""
        if self.group in ALONE.get(self.kernel, ()):
            return EVERY_CPU
        return 2 if self.card else 1


CHECK = ("check",)
ALL = ("all",)

# "check" is the gate: what a change breaks first, within a quarter of an hour on two CPUs, in virtual time
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
    Row("net", "newest", ALL),
    Row("net", "older", ALL),
    Row("apps", "newest", ALL),
    Row("apps", "older", ALL),
    Row("apps", "6.12-rt", ALL, "core"),
    Row("apps", "7.3", ALL, "core"),
    Row("apps", "7.3-cloud", ALL, "core"),
    Row("verbs", "newest", ALL),
    Row("verbs", "older", ALL),
    Row("verbs", "6.12-rt", ALL),
    Row("verbs", "7.3", ALL, "core"),
    Row("verbs", "uml-7.3", ALL, "core"),
    Row("verbs", "6.12-arm64", ALL, "core"),
    Row("verbs", "6.12-arm64-16k", ALL, "core"),
    Row("verbs", "newest", ALL, "core", cpus=4),
    Row("verbs", "newest", ALL, "core", cpus=8),
    Row("verbs", "debug", ALL),
    Row("verbs", "debug-rt", ALL, "core"),
    Row("verbs", "kcsan", ALL, cpus=4),
    Row("pair", "newest", ALL, card="virtio"),
    Row("pair", "older", ALL, card="virtio"),
    Row("pair", "newest", ALL, "core", card="virtio", peer="6.12-arm64"),
    Row("pair", "newest", ALL, card="e1000e"),
    Row("pair", "older", ALL, card="e1000e"),
    Row("stacks", "newest", ALL),
    Row("stacks", "older", ALL),
    Row("kusers", "newest", ALL, card="virtio"),
    Row("kusers", "older", ALL, card="virtio"),
    Row("kusers", "newest", ALL, clock=VIRTUAL, card="virtio"),
    Row("interop", "newest", ALL),
    Row("interop", "older", ALL),
    Row("install", "host", ALL),
    Row("roots", "host", ALL),
    Row("packages", "host", ALL),
    Row("run", "host", ALL),
    Row("tools", "newest", ALL),
    Row("tools", "older", ALL),
    Row("wire", "newest", ALL),
    Row("wire", "uml", ALL),
    Row("wire", "older", ALL),
    Row("wire", "6.12-rt", ALL),
    Row("wire", "7.3", ALL),
    Row("wire", "uml-7.3", ALL),
    Row("wire", "6.12-arm64", ALL),
    Row("wire", "6.12-arm64-16k", ALL),
    Row("wire", "newest", ALL, cpus=4),
    Row("wire", "newest", ALL, cpus=8),
    Row("wire", "debug", ALL),
    Row("wire", "debug-rt", ALL),
    Row("wire", "kcsan", ALL, cpus=4),
    Row("hostile", "newest", ALL),
    Row("hostile", "older", ALL),
    Row("hostile", "debug", ALL),
    Row("hostile", "uml", ALL),
    Row("kunit", "debug", ALL),
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
