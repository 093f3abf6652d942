# SPDX-License-Identifier: GPL-2.0
"""Build the module siw, which Debian's kernels do not have, from Debian's linux-source.

The result is in the cache folder, named by the versions of kernel and source.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from roxvm import debugkernel, kernels
from roxvm.paths import CACHE, HarnessError

FOLDER = "drivers/infiniband/sw/siw"


def find(kernel):
    """The path of siw.ko for a kernel, built if necessary."""
    version = debugkernel.source_version(debugkernel.DEBUG)
    home = CACHE / "siw" / kernel.kver
    module = home / version.partition("~")[0] / "siw.ko"
    if not module.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".build-", dir=home) as name:
            built = build(kernel, version, Path(name))
            module.parent.mkdir(exist_ok=True)
            built.rename(module)
    return module


def source(version, folder):
    """Copies siw's files into the folder, from the debug kernel's tree or the package."""
    tree = CACHE / "src" / f"linux-source-{version.partition('~')[0]}"
    if (tree / ".complete").exists():
        shutil.copytree(tree / FOLDER, folder)
        return
    with tempfile.TemporaryDirectory(prefix=".source-", dir=folder.parent) as name:
        kernels.download([f"{debugkernel.DEBUG.package}={version}"], name)
        kernels.run("dpkg-deb", "-x", next(Path(name).glob("*.deb")), name)
        kernels.run("tar", "-xf", next(Path(name).glob("usr/src/*.tar.*")), "-C", name,
                    "--wildcards", f"*/{FOLDER}/*")
        shutil.copytree(next(Path(name).glob(f"*/{FOLDER}")), folder)


def build(kernel, version, work):
    folder = work / "siw"
    source(version, folder)
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("MAKEFLAGS", "MFLAGS", "KVER", "KDIR")}
    result = subprocess.run(
        ["make", "-s", "-C", str(kernel.headers), f"M={folder}", "CONFIG_RDMA_SIW=m",
         f"-j{os.cpu_count()}", "modules"], env=environment, check=False, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if result.returncode:
        raise HarnessError(f"siw {version} does not build for {kernel.kver}:\n{result.stdout}")
    kernels.run("strip", "--strip-debug", folder / "siw.ko")
    return folder / "siw.ko"
