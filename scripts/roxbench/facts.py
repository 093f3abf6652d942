# SPDX-License-Identifier: GPL-2.0
"""What figures belong to: the machine, the commit, the time."""

import os
import platform
import subprocess
import time

from roxvm import accel, kernels
from roxvm.paths import REPO


def git(*arguments):
    return subprocess.run(["git", "-C", str(REPO), *arguments], stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL, check=False).stdout.strip()


def host():
    """Facts about the machine that the guests run on."""
    model = ""
    with open("/proc/cpuinfo", encoding="utf-8") as info:
        for line in info:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    qemu = subprocess.run(["qemu-system-x86_64", "--version"], stdout=subprocess.PIPE, text=True,
                          check=False).stdout.partition("\n")[0]
    return {"cpu": model, "cpus": os.cpu_count(), "kernel": platform.release(), "qemu": qemu,
            "accel": accel.choose(kernels.find("6.12"))}


def version():
    """The commit that is measured, and the time."""
    return {"when": time.strftime("%Y-%m-%d %H:%M:%S%z"), "commit": git("rev-parse", "HEAD"),
            "changed": bool(git("status", "--porcelain", "--untracked-files=no")),
            "load": os.getloadavg()[0]}
