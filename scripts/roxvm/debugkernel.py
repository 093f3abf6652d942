# SPDX-License-Identifier: GPL-2.0
"""Debug kernels, built from Debian's linux-source.

"debug" is for x86 machines (scripts/debug.config); "debug-rt" is the same with
PREEMPT_RT (scripts/debug-rt.config over it), and "kcsan" has the data race detector
instead of KASAN and lockdep (scripts/kcsan.config over it). "uml" is User Mode Linux,
a kernel that runs as a program of its host (scripts/uml.config): smaller, built in
about half of the time, not emulated, with one CPU. "uml-7.3" is that of a newer source
(scripts/uml-7.3.config over it), which has several CPUs. "uml-small" is "uml" without what rox
can do without, and without what finds bugs (scripts/uml-small.config over it).
"arm64-64k" has pages of 64 KiB (scripts/arm64-64k.config over that of "debug").

They are in the cache folder beside Debian's kernels. The name of a kernel's folder is its
version, which ends in a hash of what it was made from: the version of the source
package, the configuration, the compiler. So a kernel is built again only after a change.
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

from . import foreign, kernels
from .paths import CACHE, REPO, HarnessError

SERIES = "6.12"
# Bytes that User Mode Linux reserves for a process' registers. In 6.12 they are 2696, but a host with
# AMX has 11008 bytes of registers and refuses to set only a part of them.
REGISTER_BYTES = 12288
# Kept of the build tree, because modules are built against it.
OBJECTS = (".o", ".a", ".cmd", ".mod.c")


class Recipe:
    """How to make a kernel. `arch` is an architecture as the kernel names it, if not the host's; `base`
    is the recipe whose configuration this one extends; `series` is that of the source; `cross` is how
    names of a cross compiler begin."""

    def __init__(self, name, arch=None, base=None, series=SERIES, cross=""):
        self.name = name
        self.arch = arch
        self.base = base
        self.series = series
        self.package = f"linux-source-{series}"
        self.cross = cross
        self.mark = f"-rox-{name}-"
        self.config = REPO / f"scripts/{name}.config"
        self.folder = CACHE / name

    def settings(self):
        """The text of the configuration, in which of two lines about an option the later one counts."""
        return (self.base.settings() if self.base else "") + self.config.read_text()

    def cached(self):
        if not self.folder.is_dir():
            return []
        return [k for k in (BuiltKernel(self, d.name) for d in sorted(self.folder.iterdir()))
                if k.unpacked()]


class BuiltKernel(kernels.Kernel):
    """A debug kernel in the cache folder."""

    def __init__(self, recipe, kver):
        super().__init__(kver)
        self.root = recipe.folder / kver
        self.user_mode = recipe.arch == "um"
        self.smp = "\nCONFIG_SMP=y\n" in recipe.settings()
        self.stripped = not recipe.cross

    @property
    def headers(self):
        return self.root / "build"

    @property
    def image(self):
        """QEMU boots an ELF file on x86 only."""
        return self.root / "boot" / ("vmlinux" if self.stripped else "Image")


DEBUG, UML = Recipe("debug"), Recipe("uml", "um")
RECIPES = (DEBUG, Recipe("debug-rt", base=DEBUG), Recipe("kcsan", base=DEBUG), UML,
           Recipe("uml-7.3", "um", UML, "7.3"), Recipe("uml-small", "um", UML),
           Recipe("arm64-64k", "arm64", DEBUG, cross="aarch64-linux-gnu-"))
NAMES = tuple(recipe.name for recipe in RECIPES)


def recipe_of(name):
    """The recipe of the kernel with that name or version; None if it is not a debug kernel."""
    marked = re.search(r"-rox-(.+)-[0-9a-f]{10}$", name)
    return next((r for r in RECIPES if r.name in (name, marked and marked[1])), None)


def source_root(recipe):
    """The root whose apt has the source package, or None if this machine's has it."""
    release = foreign.release_of(recipe.series)
    if not release:
        return None
    root = foreign.build_root(release)
    root.ensure()
    return root


def source_version(recipe):
    """The newest version of the source package that apt offers."""
    root = source_root(recipe)
    found = foreign.records(root, recipe.package) if root else list(kernels.records(recipe.package))
    if not found:
        raise HarnessError(f"apt offers no {recipe.package}: run `make deps`")
    return max((fields["Version"] for fields in found), key=kernels.numbers)


def fingerprint(recipe, version):
    compiler = kernels.run(f"{recipe.cross}gcc", "-dumpfullversion", stdout=subprocess.PIPE, text=True).stdout
    parts = [version, compiler, recipe.settings()]
    if recipe.arch == "um":
        parts.append(str(REGISTER_BYTES))
    digest = hashlib.sha256("\0".join(parts).encode())
    return digest.hexdigest()[:10]


def find(name):
    """The kernel of that version, or the current one of that name, which is built if necessary."""
    recipe = recipe_of(name)
    if name != recipe.name:
        kernel = BuiltKernel(recipe, name)
        if not kernel.unpacked():
            raise HarnessError(
                f"{name} is not in {recipe.folder}: run `make kernel-{recipe.name}`")
        return kernel
    recipe.folder.mkdir(parents=True, exist_ok=True)
    with open(recipe.folder / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return built(name) or build(recipe, source_version(recipe))


def built(name):
    """The current kernel of that name, or None if it is not built."""
    recipe = recipe_of(name)
    mark = recipe.mark + fingerprint(recipe, source_version(recipe))
    return next((k for k in recipe.cached() if k.kver.endswith(mark)), None)


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def unpack_source(recipe, version):
    """The source tree. Modules are built against it, too."""
    tree = CACHE / "src" / f"linux-source-{version.partition('~')[0]}"
    tree.parent.mkdir(parents=True, exist_ok=True)
    with open(tree.parent / ".lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (tree / ".complete").exists():
            unpack_into(tree, recipe, version)
    return tree


def unpack_archive(archive):
    """The source tree of an installed linux-source package, whose archive that is.

    The archive has the same name in all versions of the package, so its time tells them apart.
    """
    archive = Path(archive)
    if not archive.exists():
        raise HarnessError(f"{archive} is not there")
    tree = CACHE / "src" / f"{archive.name.partition('.tar.')[0]}-{archive.stat().st_mtime_ns // 10**9}"
    if not (tree / ".complete").exists():
        say(f"unpacking {archive} into {tree}")
        shutil.rmtree(tree, ignore_errors=True)
        tree.mkdir(parents=True)
        kernels.run("tar", "-xf", archive, "-C", tree, "--strip-components=1")
        (tree / ".complete").touch()
    return tree


def unpack_into(tree, recipe, version):
    say(f"unpacking {recipe.package} {version} into {tree}")
    shutil.rmtree(tree, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=".source-", dir=tree.parent) as folder:
        wanted, root = f"{recipe.package}={version}", source_root(recipe)
        if root:
            root.apt("apt-get", "download", wanted, cwd=folder, stdout=subprocess.DEVNULL)
        else:
            kernels.download([wanted], folder)
        package = next(Path(folder).glob("*.deb"))
        kernels.run("dpkg-deb", "-x", package, folder)
        archive = next(Path(folder).glob("usr/src/*.tar.*"))
        kernels.run("tar", "-xf", archive, "-C", folder)
        (Path(folder) / recipe.package).rename(tree)
    (tree / ".complete").touch()


def settings_of_make(recipe):
    """Variables of make, with which modules are built, too."""
    return {name: value for name, value in (("ARCH", recipe.arch), ("CROSS_COMPILE", recipe.cross)) if value}


def ccache_settings(base):
    """Variables for ccache. The folder `base` may have another name the next time; paths within it stay the same."""
    return {"CCACHE_DIR": str(CACHE / "ccache"), "CCACHE_BASEDIR": str(base), "CCACHE_NOHASHDIR": "1"}


def make(recipe, tree, output, *arguments, log=None):
    environment = dict(os.environ, **ccache_settings(CACHE), KBUILD_BUILD_USER="rox", KBUILD_BUILD_HOST="rox",
                       KBUILD_BUILD_TIMESTAMP="1970-01-01")
    # The caller's variables are for the module and for programs, not for the kernel.
    for name in ("MAKEFLAGS", "MFLAGS", "KVER", "KDIR", "CFLAGS", "CPPFLAGS", "LDFLAGS"):
        environment.pop(name, None)
    compiler = f"{'ccache ' if shutil.which('ccache') else ''}{recipe.cross}gcc"
    command = ["make", "-s", "-C", str(tree), f"O={output}", f"CC={compiler}", *arguments]
    command += [f"{name}={value}" for name, value in settings_of_make(recipe).items()]
    result = subprocess.run(command, env=environment, stdout=log or sys.stderr,
                            stderr=subprocess.STDOUT, check=False)
    if result.returncode:
        where = f", see {log.name}" if log else ""
        raise HarnessError(f"`make {' '.join(arguments)}` of kernel {recipe.name} failed{where}")


def lines_that_count(text):
    """The lines of a configuration that no later line about the same option replaces."""
    options = {}
    for line in text.splitlines():
        match = re.match(r"(?:# )?(CONFIG_\w+)[= ]", line)
        if match:
            options[match[1]] = line
    return options.values()


def configure(recipe, tree, output, mark):
    """Configures with tinyconfig and our configuration. Fails if a line of ours has no effect."""
    with open(output / "config.log", "w", encoding="utf-8") as log:
        make(recipe, tree, output, "tinyconfig", log=log)
        wanted = recipe.settings()
        with open(output / ".config", "a", encoding="utf-8") as config:
            config.write(f'{wanted}\nCONFIG_LOCALVERSION="{mark}"\n')
        make(recipe, tree, output, "olddefconfig", log=log)
    got = set((output / ".config").read_text().splitlines())
    lost = [line for line in lines_that_count(wanted) if line not in got
            and not (line.endswith(" is not set") and line.split()[1] + "=y" not in got)]
    if lost:
        raise HarnessError(f"the configuration of {recipe.name} lost: {', '.join(lost)}")


def widen_registers(recipe, tree, output, log):
    """Reserves REGISTER_BYTES for registers, in the sources that have a constant for it. (Newer ones ask the host.)"""
    make(recipe, tree, output, "prepare", log=log)
    listing = output / "arch/x86/um/user-offsets.s"
    if "HOST_FP_SIZE" not in listing.read_text():
        return
    listing.write_text(re.sub(r"(->HOST_FP_SIZE \$)\d+", rf"\g<1>{REGISTER_BYTES // 8}",
                              listing.read_text()))
    make(recipe, tree, output, "prepare", log=log)
    made = (output / "include/generated/user_constants.h").read_text()
    if not re.search(rf"^#define HOST_FP_SIZE {REGISTER_BYTES // 8}\b", made, re.M):
        raise HarnessError("User Mode Linux has not got room for the host's registers")


def prune(output):
    """Deletes files that only linking the kernel needed: some hundred MiB."""
    keep = {"scripts", "tools", "include"}
    for folder, _, names in os.walk(output):
        top = Path(folder).relative_to(output).parts[:1]
        if top and top[0] in keep:
            continue
        for name in names:
            if name.endswith(OBJECTS):
                os.unlink(os.path.join(folder, name))


def install_image(kernel, recipe, output, target):
    """Takes what is booted out of the build tree."""
    if kernel.stripped:
        kernels.run("strip", "-o", target, output / "vmlinux")
    else:
        shutil.copy(output / f"arch/{recipe.arch}/boot/Image", target)
    (output / "vmlinux").unlink()


def build(recipe, version):
    tree = unpack_source(recipe, version)
    mark = recipe.mark + fingerprint(recipe, version)
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
            make(recipe, tree, output, f"-j{os.cpu_count()}", "Image" if recipe.cross else "vmlinux", "modules",
                 log=log)
            make(recipe, tree, output, f"INSTALL_MOD_PATH={root}", "modules_install", log=log)
        kver = (output / "include/config/kernel.release").read_text().strip()
        (root / "boot").mkdir()
        kernel = BuiltKernel(recipe, kver)
        install_image(kernel, recipe, output, root / "boot" / kernel.image.name)
        prune(output)
        shutil.rmtree(kernel.root, ignore_errors=True)
        # The makefile contains the path of the build tree. What modules are built with is set there.
        makefile = output / "Makefile"
        text = makefile.read_text().replace(str(output), str(kernel.headers))
        exports = "".join(f"export {name} := {value}\n" for name, value in settings_of_make(recipe).items())
        makefile.write_text(exports + text)
        root.rename(kernel.root)
        root.mkdir()                    # for the clean-up of the temporary folder
    (kernel.root / ".complete").touch()
    say(f"built {kver} in {time.monotonic() - began:.0f} s")
    forget_others(recipe, kernel)
    return kernel


def configured(recipe):
    """A folder with the configuration of a kernel that is not built: modules compile there, and are not linked."""
    version = source_version(recipe)
    output = CACHE / "configured" / f"{recipe.name}-{fingerprint(recipe, version)}"
    if not (output / ".complete").exists():
        tree = unpack_source(recipe, version)
        shutil.rmtree(output, ignore_errors=True)
        output.mkdir(parents=True)
        say(f"configuring kernel {recipe.name} in {output}")
        configure(recipe, tree, output, recipe.mark)
        with open(output / "build.log", "w", encoding="utf-8") as log:
            make(recipe, tree, output, f"-j{os.cpu_count()}", "modules_prepare", log=log)
        (output / ".complete").touch()
    return output


def forget_others(recipe, kernel, keep=2):
    """Deletes old kernels, but not those that another checkout has used today."""
    others = [k for k in recipe.cached() if k.kver != kernel.kver]
    others.sort(key=lambda k: (k.root / ".complete").stat().st_mtime)
    for old in others[:-keep or None]:
        shutil.rmtree(old.root, ignore_errors=True)
