# SPDX-License-Identifier: GPL-2.0
"""The debug kernel: built from Debian's linux-source with scripts/debug.config.

It lies in the cache folder like the kernels that Debian has built, in a folder
named after its version, which ends in a hash of all that it was made from: the
source package's version, the configuration, the compiler. What is there under
that name is what would be built again.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import kernels
from .paths import CACHE, REPO, HarnessError

NAME = "debug"
SERIES = "6.12"
MARK = "-rox-debug-"
PACKAGE = f"linux-source-{SERIES}"
CONFIG = REPO / "scripts/debug.config"
FOLDER = CACHE / "debug"
# What is left of the build tree is what modules are built against.
OBJECTS = (".o", ".a", ".cmd", ".mod.c")


class DebugKernel(kernels.Kernel):
    """One debug kernel in the cache folder."""

    def __init__(self, kver):
        super().__init__(kver)
        self.root = FOLDER / kver

    @property
    def headers(self):
        return self.root / "build"


def is_debug(name):
    return name == NAME or MARK in name


def cached():
    if not FOLDER.is_dir():
        return []
    return [k for k in map(DebugKernel, sorted(d.name for d in FOLDER.iterdir()))
            if k.unpacked()]


def source_version():
    """The newest version of the source package that apt offers."""
    found = [r["Version"] for r in kernels.records(PACKAGE)]
    if not found:
        raise HarnessError(f"apt offers no {PACKAGE}: run `make deps`")
    return max(found, key=kernels.numbers)


def fingerprint(version):
    compiler = subprocess.run(["gcc", "-dumpfullversion"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    digest = hashlib.sha256("\0".join((version, compiler, CONFIG.read_text())).encode())
    return digest.hexdigest()[:10]


def find(name=NAME):
    """The kernel of that name, or the present one, built if need be."""
    if name != NAME:
        kernel = DebugKernel(name)
        if not kernel.unpacked():
            raise HarnessError(f"{name} is not in {FOLDER}: run `make kernel-debug`")
        return kernel
    version = source_version()
    mark = MARK + fingerprint(version)
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for kernel in cached():
            if kernel.kver.endswith(mark):
                return kernel
        return build(version, mark)


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def unpack_source(version):
    """The source tree, which modules are built against as well."""
    tree = CACHE / "src" / f"linux-source-{version.partition('~')[0]}"
    if (tree / ".complete").exists():
        return tree
    say(f"unpacking {PACKAGE} {version} into {tree}")
    tree.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".source-", dir=tree.parent) as folder:
        kernels.download([f"{PACKAGE}={version}"], folder)
        package = next(Path(folder).glob("*.deb"))
        kernels.run("dpkg-deb", "-x", package, folder)
        archive = next(Path(folder).glob("usr/src/*.tar.*"))
        kernels.run("tar", "-xf", archive, "-C", folder)
        (Path(folder) / PACKAGE).rename(tree)
    (tree / ".complete").touch()
    return tree


def make(tree, output, *arguments, log=None):
    # The build folder has a name of its own each time; the source is always as far from it.
    environment = dict(os.environ, CCACHE_DIR=str(CACHE / "ccache"), CCACHE_BASEDIR=str(CACHE),
                       CCACHE_NOHASHDIR="1", KBUILD_BUILD_USER="rox", KBUILD_BUILD_HOST="rox",
                       KBUILD_BUILD_TIMESTAMP="1970-01-01")
    # Ours are for the module, not for the kernel.
    for name in ("MAKEFLAGS", "MFLAGS", "KVER", "KDIR"):
        environment.pop(name, None)
    command = ["make", "-s", "-C", str(tree), f"O={output}", "CC=ccache gcc", *arguments]
    result = subprocess.run(command, env=environment, stdout=log or sys.stderr,
                            stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        where = f", see {log.name}" if log else ""
        raise HarnessError(f"`make {' '.join(arguments)}` of the debug kernel failed{where}")


def configure(tree, output, mark):
    """tinyconfig with ours over it; every line of ours must have come through."""
    with open(output / "config.log", "w", encoding="utf-8") as log:
        make(tree, output, "tinyconfig", log=log)
        wanted = CONFIG.read_text()
        with open(output / ".config", "a", encoding="utf-8") as config:
            config.write(f'{wanted}\nCONFIG_LOCALVERSION="{mark}"\n')
        make(tree, output, "olddefconfig", log=log)
    got = set((output / ".config").read_text().splitlines())
    lost = [line for line in wanted.splitlines()
            if line.startswith(("CONFIG_", "# CONFIG_")) and line not in got
            and not (line.endswith(" is not set") and line.split()[1] + "=y" not in got)]
    if lost:
        raise HarnessError("the debug kernel's configuration lost: " + ", ".join(lost))


def prune(output):
    """Forgets what was only needed to link the kernel: some hundred MiB."""
    keep = {"scripts", "tools", "include"}
    for folder, _, names in os.walk(output):
        top = Path(folder).relative_to(output).parts[:1]
        if top and top[0] in keep:
            continue
        for name in names:
            if name.endswith(OBJECTS):
                os.unlink(os.path.join(folder, name))


def build(version, mark):
    tree = unpack_source(version)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".build-", dir=FOLDER) as name:
        root = Path(name)
        output = root / "build"
        output.mkdir()
        configure(tree, output, mark)
        say(f"building the debug kernel (log: {root}/build.log)")
        with open(root / "build.log", "w", encoding="utf-8") as log:
            make(tree, output, f"-j{os.cpu_count()}", "vmlinux", "modules", log=log)
            make(tree, output, f"INSTALL_MOD_PATH={root}", "modules_install", log=log)
        kver = (output / "include/config/kernel.release").read_text().strip()
        (root / "boot").mkdir()
        kernels.run("strip", "-o", root / "boot/vmlinux", output / "vmlinux")
        (output / "vmlinux").unlink()
        prune(output)
        kernel = DebugKernel(kver)
        shutil.rmtree(kernel.root, ignore_errors=True)
        # The build tree names itself in its makefile.
        makefile = output / "Makefile"
        makefile.write_text(makefile.read_text().replace(str(output), str(kernel.headers)))
        root.rename(kernel.root)
        root.mkdir()                    # for the clean-up of the temporary folder
    (kernel.root / ".complete").touch()
    say(f"built {kver} in {time.monotonic() - began:.0f} s")
    forget_others(kernel)
    return kernel


def forget_others(kernel, keep=2):
    """Old ones go, but not the one of another checkout that is in use today."""
    others = [k for k in cached() if k.kver != kernel.kver]
    others.sort(key=lambda k: (k.root / ".complete").stat().st_mtime)
    for old in others[:-keep or None]:
        shutil.rmtree(old.root, ignore_errors=True)
