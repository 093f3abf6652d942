# SPDX-License-Identifier: GPL-2.0
"""The kernels that find bugs, built from Debian's linux-source.

"debug" is for x86 machines (scripts/debug.config); "uml" is User Mode Linux, a
kernel that is a program of its host (scripts/uml.config): smaller, built in
about half of the time, not emulated, with one CPU.

They lie in the cache folder like the kernels that Debian has built, in a folder
named after their version, which ends in a hash of all that they were made from:
the source package's version, the configuration, the compiler. What is there
under that name is what would be built again.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import kernels
from .paths import CACHE, REPO, HarnessError

SERIES = "6.12"
PACKAGE = f"linux-source-{SERIES}"
# What User Mode Linux has room for of a process' registers, of which 6.12 lays aside 2696 bytes: a
# host with AMX has 11008 and refuses to set a part of them.
REGISTER_BYTES = 12288
# What is left of the build tree is what modules are built against.
OBJECTS = (".o", ".a", ".cmd", ".mod.c")


class Recipe:
    """How one of them is made. `arch` is the kernel's name of an architecture, if not the host's."""

    def __init__(self, name, arch=None):
        self.name = name
        self.arch = arch
        self.mark = f"-rox-{name}-"
        self.config = REPO / f"scripts/{name}.config"
        self.folder = CACHE / name

    def cached(self):
        if not self.folder.is_dir():
            return []
        return [k for k in (BuiltKernel(self, d.name) for d in sorted(self.folder.iterdir()))
                if k.unpacked()]


class BuiltKernel(kernels.Kernel):
    """One of them in the cache folder."""

    def __init__(self, recipe, kver):
        super().__init__(kver)
        self.root = recipe.folder / kver
        self.user_mode = recipe.arch == "um"

    @property
    def headers(self):
        return self.root / "build"


RECIPES = (Recipe("debug"), Recipe("uml", "um"))
NAMES = tuple(recipe.name for recipe in RECIPES)


def recipe_of(name):
    """The recipe of what has that name or version; None if it is none of ours."""
    return next((r for r in RECIPES if name == r.name or r.mark in name), None)


def source_version():
    """The newest version of the source package that apt offers."""
    found = [r["Version"] for r in kernels.records(PACKAGE)]
    if not found:
        raise HarnessError(f"apt offers no {PACKAGE}: run `make deps`")
    return max(found, key=kernels.numbers)


def fingerprint(recipe, version):
    compiler = subprocess.run(["gcc", "-dumpfullversion"], stdout=subprocess.PIPE, text=True,
                              check=True).stdout
    parts = [version, compiler, recipe.config.read_text()]
    if recipe.arch == "um":
        parts.append(str(REGISTER_BYTES))
    digest = hashlib.sha256("\0".join(parts).encode())
    return digest.hexdigest()[:10]


def find(name):
    """The kernel of that version, or of that name as it is now, built if need be."""
    recipe = recipe_of(name)
    if name != recipe.name:
        kernel = BuiltKernel(recipe, name)
        if not kernel.unpacked():
            raise HarnessError(
                f"{name} is not in {recipe.folder}: run `make kernel-{recipe.name}`")
        return kernel
    version = source_version()
    mark = recipe.mark + fingerprint(recipe, version)
    recipe.folder.mkdir(parents=True, exist_ok=True)
    with open(recipe.folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for kernel in recipe.cached():
            if kernel.kver.endswith(mark):
                return kernel
        return build(recipe, version, mark)


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def unpack_source(version):
    """The source tree, which modules are built against as well."""
    tree = CACHE / "src" / f"linux-source-{version.partition('~')[0]}"
    tree.parent.mkdir(parents=True, exist_ok=True)
    with open(tree.parent / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / ".complete").exists():
            unpack_into(tree, version)
    return tree


def unpack_into(tree, version):
    say(f"unpacking {PACKAGE} {version} into {tree}")
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".source-", dir=tree.parent) as folder:
        kernels.download([f"{PACKAGE}={version}"], folder)
        package = next(Path(folder).glob("*.deb"))
        kernels.run("dpkg-deb", "-x", package, folder)
        archive = next(Path(folder).glob("usr/src/*.tar.*"))
        kernels.run("tar", "-xf", archive, "-C", folder)
        (Path(folder) / PACKAGE).rename(tree)
    (tree / ".complete").touch()


def make(recipe, tree, output, *arguments, log=None):
    # The build folder has a name of its own each time; the source is always as far from it.
    environment = dict(os.environ, CCACHE_DIR=str(CACHE / "ccache"), CCACHE_BASEDIR=str(CACHE),
                       CCACHE_NOHASHDIR="1", KBUILD_BUILD_USER="rox", KBUILD_BUILD_HOST="rox",
                       KBUILD_BUILD_TIMESTAMP="1970-01-01")
    # Ours are for the module, not for the kernel.
    for name in ("MAKEFLAGS", "MFLAGS", "KVER", "KDIR"):
        environment.pop(name, None)
    command = ["make", "-s", "-C", str(tree), f"O={output}", "CC=ccache gcc", *arguments]
    if recipe.arch:
        command.append(f"ARCH={recipe.arch}")
    result = subprocess.run(command, env=environment, stdout=log or sys.stderr,
                            stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        where = f", see {log.name}" if log else ""
        raise HarnessError(f"`make {' '.join(arguments)}` of kernel {recipe.name} failed{where}")


def configure(recipe, tree, output, mark):
    """tinyconfig with ours over it; every line of ours must have come through."""
    with open(output / "config.log", "w", encoding="utf-8") as log:
        make(recipe, tree, output, "tinyconfig", log=log)
        wanted = recipe.config.read_text()
        with open(output / ".config", "a", encoding="utf-8") as config:
            config.write(f'{wanted}\nCONFIG_LOCALVERSION="{mark}"\n')
        make(recipe, tree, output, "olddefconfig", log=log)
    got = set((output / ".config").read_text().splitlines())
    lost = [line for line in wanted.splitlines()
            if line.startswith(("CONFIG_", "# CONFIG_")) and line not in got
            and not (line.endswith(" is not set") and line.split()[1] + "=y" not in got)]
    if lost:
        raise HarnessError(f"the configuration of {recipe.name} lost: {', '.join(lost)}")


def widen_registers(recipe, tree, output, log):
    """Makes room for the host's registers, where the kernel's sources have a number for it."""
    make(recipe, tree, output, "prepare", log=log)
    listing = output / "arch/x86/um/user-offsets.s"
    listing.write_text(re.sub(r"(->HOST_FP_SIZE \$)\d+", rf"\g<1>{REGISTER_BYTES // 8}",
                              listing.read_text()))
    make(recipe, tree, output, "prepare", log=log)
    made = (output / "include/generated/user_constants.h").read_text()
    if not re.search(rf"^#define HOST_FP_SIZE {REGISTER_BYTES // 8}\b", made, re.M):
        raise HarnessError("User Mode Linux has not got room for the host's registers")


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


def build(recipe, version, mark):
    tree = unpack_source(version)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=".build-", dir=recipe.folder) as name:
        root = Path(name)
        output = root / "build"
        output.mkdir()
        configure(recipe, tree, output, mark)
        say(f"building kernel {recipe.name} (log: {root}/build.log)")
        with open(root / "build.log", "w", encoding="utf-8") as log:
            if recipe.arch == "um":
                widen_registers(recipe, tree, output, log)
            make(recipe, tree, output, f"-j{os.cpu_count()}", "vmlinux", "modules", log=log)
            make(recipe, tree, output, f"INSTALL_MOD_PATH={root}", "modules_install", log=log)
        kver = (output / "include/config/kernel.release").read_text().strip()
        (root / "boot").mkdir()
        kernels.run("strip", "-o", root / "boot/vmlinux", output / "vmlinux")
        (output / "vmlinux").unlink()
        prune(output)
        kernel = BuiltKernel(recipe, kver)
        shutil.rmtree(kernel.root, ignore_errors=True)
        # The build tree names itself in its makefile; whoever builds with it need not know for what.
        makefile = output / "Makefile"
        text = makefile.read_text().replace(str(output), str(kernel.headers))
        makefile.write_text((f"export ARCH := {recipe.arch}\n" if recipe.arch else "") + text)
        root.rename(kernel.root)
        root.mkdir()                    # for the clean-up of the temporary folder
    (kernel.root / ".complete").touch()
    say(f"built {kver} in {time.monotonic() - began:.0f} s")
    forget_others(recipe, kernel)
    return kernel


def forget_others(recipe, kernel, keep=2):
    """Old ones go, but not the one of another checkout that is in use today."""
    others = [k for k in recipe.cached() if k.kver != kernel.kver]
    others.sort(key=lambda k: (k.root / ".complete").stat().st_mtime)
    for old in others[:-keep or None]:
        shutil.rmtree(old.root, ignore_errors=True)
