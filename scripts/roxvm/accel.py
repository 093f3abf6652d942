# SPDX-License-Identifier: GPL-2.0
"""Choose KVM or emulation.

A host may have /dev/kvm and still fail to boot a kernel with it (nested virtualisation). So one guest
is started as a trial; the result is cached until the host's next boot.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

from .kernels import architecture
from .machine import Machine, Settings
from .paths import CACHE

SECONDS = 12


def boot_id():
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def choose(kernel):
    if kernel.user_mode:
        return None
    if kernel.arch != architecture() or not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    CACHE.mkdir(parents=True, exist_ok=True)
    memory = CACHE / "kvm-probe"
    known = memory.read_text(encoding="ascii").split() if memory.exists() else []
    if known[:1] != [boot_id()]:
        works = comes_up(kernel)
        print(f"scripts/vm: KVM {'works' if works else 'does not work, so emulation'}",
              file=sys.stderr)
        known = [boot_id(), "kvm" if works else "tcg"]
        memory.write_text(" ".join(known) + "\n", encoding="ascii")
    return known[1]


def comes_up(kernel):
    with tempfile.TemporaryDirectory(prefix="rox-vm-") as name:
        folder = Path(name)
        settings = Settings(kernel, accel="kvm", cpus=1, mem=1024, log=folder / "log",
                            stage=make_empty(folder / "stage"))
        machine = Machine(settings, folder)
        machine.start()
        deadline = time.monotonic() + SECONDS
        try:
            while machine.running() and time.monotonic() < deadline:
                if machine.is_up():
                    return True
                time.sleep(0.1)
            return machine.is_up()
        finally:
            machine.kill()
            os.close(machine.output)


def make_empty(folder):
    folder.mkdir()
    return str(folder)
