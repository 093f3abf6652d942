# SPDX-License-Identifier: GPL-2.0
"""The frequency of this machine's time stamp counter, which emulated guests use, too.

A guest calibrates the counter at boot against QEMU's timers. On a busy host these may stop for a while:
the guest then finds a frequency that is far too low, its clock runs too fast, and all time limits in it
expire at once. So scripts/vm passes the frequency on the kernel command line.
"""

import ctypes
import mmap
import platform
import time

# rdtsc; shl $32, %rdx; or %rdx, %rax; ret
CODE = bytes.fromhex("0f31" "48c1e220" "4809d0" "c3")
SECONDS = 0.1


class Counter:
    """Reads the counter."""

    def __init__(self):
        self._code = mmap.mmap(-1, mmap.PAGESIZE,
                               prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._code.write(CODE)
        self._place = ctypes.c_char.from_buffer(self._code)
        self.ticks = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(self._place))

    def moment(self):
        """Reads clock and counter together: (nanoseconds, ticks), from the fastest of several tries."""
        tries = []
        for _ in range(50):
            before = time.monotonic_ns()
            ticks = self.ticks()
            after = time.monotonic_ns()
            tries.append((after - before, (before + after) // 2, ticks))
        return min(tries)[1:]


def khz():
    """The frequency in kHz; None if there is no such counter or it cannot be read."""
    if platform.machine() != "x86_64":
        return None
    try:
        counter = Counter()
    except OSError:
        return None
    began, first = counter.moment()
    time.sleep(SECONDS)
    ended, last = counter.moment()
    return round((last - first) * 1_000_000 / (ended - began))
