# SPDX-License-Identifier: GPL-2.0
"""How fast this machine's time stamp counter is, which is an emulated guest's as well.

A guest measures that while it boots, against timers of QEMU's. On a busy host these stand still for a
while: one has found 97 MHz instead of 2445, and its clock ran 25 times too fast from then on, so
that every time limit in it was over at once. So it is told.
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
        """(nanoseconds, ticks) of one moment: of several tries the one that took the shortest time."""
        tries = []
        for _ in range(50):
            before = time.monotonic_ns()
            ticks = self.ticks()
            after = time.monotonic_ns()
            tries.append((after - before, (before + after) // 2, ticks))
        return min(tries)[1:]


def khz():
    """Its frequency in kHz; None if there is no such counter, or this may not read it."""
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
