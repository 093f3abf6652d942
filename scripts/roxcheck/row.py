# SPDX-License-Identifier: GPL-2.0
"""A row of the table of runs (table.py), and what guests of a group or a kernel get."""

from dataclasses import dataclass

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
ALONE = {"kcsan": ("life", "verbs", "wire"), "6.12-rt": ("verbs",), "7.3-rt": ("verbs",),
         "debug-rt": ("verbs",), "host": ("packages",)}
EVERY_CPU = 1 << 16
# Additions to the kernel command line. With these, slab caches count objects exactly (tests/life/lib.sh).
# Not on debug kernels: kmemleak checks every object there. Persistent memory is for verbs: dax.
APPEND = {"life": "slub_debug=FU,kmalloc-*", "verbs": "memmap=64M!1G"}
# For guests in virtual time: zeros in each new page take a fifth of such a guest's CPU time, and the kernel's tests of
# its own ciphers nearly half of the instructions of a boot.
VIRTUAL_APPEND = "init_on_alloc=0 cryptomgr.notests=1"

# Factors for time limits: kernels that check every access are slow, and so are more CPUs than an
# emulating host has.
PATIENCE = {"debug": 3, "debug-rt": 4, "kcsan": 4, "uml": 2, "uml-7.3": 2, "6.12-arm64": 3, "6.12-arm64-16k": 3,
            "arm64-64k": 3}
MANY_CPUS_PATIENCE = 2
# Virtual time goes on with what the host has left over, beside whatever load. What hangs there leaps to the limits of
# the tests, so only a kernel that hangs reaches this one; the gate has a limit as a whole.
VIRTUAL_PATIENCE = 4

# The nanoseconds of an instruction in virtual time, as a power of two: see scripts/vm --icount. The others are
# a machine twice as fast, as users with KVM have it, and one that is sixteen times slower.
VIRTUAL = 1
CLOCKS = (0, VIRTUAL, 5)
CLOCKED = ("life", "net", "apps", "verbs", "stacks", "interop", "hostile", "wire")

CHECK = ("check",)
ALL = ("all",)


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
