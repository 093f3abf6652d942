# SPDX-License-Identifier: GPL-2.0
"""Debian's kernels, unpacked from their packages into the cache folder.

A kernel is named by its series ("6.1", "6.12") or by its full version, which
is what `uname -r` prints ("6.1.0-56-amd64"); "debug" and "uml" are those that we
build ourselves (debugkernel.py). Nothing outside of the cache folder is written;
packages come through apt as this machine configures it.
"""

import fcntl
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from .paths import KERNELS, HarnessError

SERIES = ("6.1", "6.12")
USAGE = """usage: scripts/kernels fetch [--latest] VERSION...
       scripts/kernels kver VERSION    the full version that VERSION means
       scripts/kernels kdir VERSION    headers to build a module against
       scripts/kernels path VERSION    the folder in the cache
       scripts/kernels list"""


class Kernel:
    """One unpacked kernel. A `user_mode` one is a program of the host, and needs no QEMU."""

    user_mode = False

    def __init__(self, kver):
        self.kver = kver
        self.root = KERNELS / kver

    @property
    def modules(self):
        return self.root / "lib/modules" / self.kver

    @property
    def headers(self):
        return self.root / "usr/src" / f"linux-headers-{self.kver}"

    @property
    def image(self):
        """What QEMU boots: the plain ELF image where it could be extracted."""
        plain = self.root / "boot/vmlinux"
        return plain if plain.exists() else self.root / f"boot/vmlinuz-{self.kver}"

    def unpacked(self):
        return (self.root / ".complete").exists()


def numbers(version):
    """A sort key for versions: "6.12.95+deb12" -> [6, 12, 95, 12]."""
    return [int(n) for n in re.findall(r"\d+", version)]


def in_series(kver, series):
    return numbers(kver)[: len(numbers(series))] == numbers(series)


def is_series(name):
    return re.fullmatch(r"\d+\.\d+", name) is not None


def full_version(name):
    """The full version that a name means."""
    from . import debugkernel  # pylint: disable=import-outside-toplevel,cyclic-import
    return find(name).kver if is_series(name) or name in debugkernel.NAMES else name


def cached():
    if not KERNELS.is_dir():
        return []
    found = [Kernel(d.name) for d in KERNELS.iterdir() if not d.name.startswith(".")]
    return sorted((k for k in found if k.unpacked()), key=lambda k: numbers(k.kver))


def run(*command, **options):
    try:
        return subprocess.run(command, check=True, **options)
    except FileNotFoundError as error:
        raise HarnessError(f"{command[0]} is not installed: run `make deps`") from error
    except subprocess.CalledProcessError as error:
        raise HarnessError(f"`{' '.join(map(str, command))}` failed") from error


def architecture():
    return run("dpkg", "--print-architecture", stdout=subprocess.PIPE, text=True).stdout.strip()


def records(package):
    """Every version of a package that apt knows, as dictionaries."""
    shown = subprocess.run(
        ["apt-cache", "show", "--all-versions", package],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    for block in shown.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): *(.*)$", block, re.M))
        if "Version" in fields:
            yield fields


def resolve_series(series):
    """The newest full version that apt offers for a series."""
    found = []
    for fields in records(f"linux-image-{architecture()}"):
        match = re.search(r"\blinux-image-(\S+)", fields.get("Depends", ""))
        if match and in_series(match.group(1), series):
            found.append(match.group(1))
    if not found:
        raise HarnessError(f"apt offers no kernel {series}: run `make deps`")
    return max(found, key=numbers)


def package_list(kver):
    """The packages of one kernel as apt names them: name=version."""
    wanted = []
    for name in (f"linux-image-{kver}", f"linux-headers-{kver}"):
        versions = list(records(name))
        if not versions:
            raise HarnessError(f"kernel {kver}: apt has no package {name}")
        newest = max(versions, key=lambda f: numbers(f["Version"]))
        wanted.append(f"{name}={newest['Version']}")
    # The headers of one version are spread over three packages.
    for dependency in re.split(r"[,|]", newest["Depends"]):
        match = re.match(r"\s*(linux-(?:headers-\S+-common|kbuild-\S+))", dependency)
        if match:
            wanted.append(f"{match.group(1)}={newest['Version']}")
    return wanted


def download(packages, folder):
    """Download packages with apt; the caller's user is enough for that."""
    print("downloading", *packages, file=sys.stderr, flush=True)
    run("apt-get", "-q", "-o", "APT::Sandbox::User=", "download", *packages,
        cwd=folder, stdout=sys.stderr)


def relocate_headers(root):
    """Debian's header makefiles name absolute paths; make them name ours."""
    for makefile in root.glob("usr/src/linux-headers-*/Makefile"):
        text = makefile.read_text()
        makefile.write_text(text.replace(" /usr/src/", f" {root}/usr/src/"))
    for link in root.glob("lib/modules/*/*"):
        if link.is_symlink() and os.readlink(link).startswith("/usr/src/"):
            target = os.readlink(link)
            link.unlink()
            link.symlink_to(f"{root}{target}")


def expand_modules(modules):
    """Keep the modules uncompressed: an emulated guest is slow at xz."""
    for packed in modules.rglob("*.ko.xz"):
        with lzma.open(packed) as source, open(packed.with_suffix(""), "wb") as target:
            shutil.copyfileobj(source, target)
        packed.unlink()


def extract_image(kernel, root):
    """Unpack the compressed image, which would cost a guest seconds a boot.

    Not finding a payload that we understand is no error: the compressed
    image boots as well.
    """
    data = (root / f"boot/vmlinuz-{kernel.kver}").read_bytes()
    target = root / "boot/vmlinux"
    for payload in payloads(data):
        if payload[:4] == b"\x7fELF":
            target.write_bytes(payload)
            return


def payloads(data):
    start = data.find(b"\xfd7zXZ\0")
    if start >= 0:
        try:
            yield lzma.LZMADecompressor().decompress(data[start:])
        except lzma.LZMAError:
            pass
    start = data.find(b"\x28\xb5\x2f\xfd")
    if start >= 0 and shutil.which("zstd"):
        # The bytes after the payload make zstd complain; what it wrote is whole.
        yield subprocess.run(["zstd", "-dcq"], input=data[start:], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def unpack(kernel, debs, root):
    for deb in debs:
        run("dpkg-deb", "-x", deb, root)
    modules = root / "lib/modules" / kernel.kver
    if not modules.is_dir() and (root / "usr/lib/modules" / kernel.kver).is_dir():
        (root / "lib").symlink_to("usr/lib")
    expand_modules(modules)
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    run(depmod or "depmod", "-b", root, kernel.kver)
    extract_image(kernel, root)
    shutil.rmtree(root / "usr/share", ignore_errors=True)


def install(kernel):
    """Download and unpack one kernel; a half-done folder is never used."""
    KERNELS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=KERNELS) as folder:
        download(package_list(kernel.kver), folder)
        root = Path(folder) / "root"
        root.mkdir()
        print(f"unpacking {kernel.kver} into {kernel.root}", file=sys.stderr, flush=True)
        unpack(kernel, sorted(Path(folder).glob("*.deb")), root)
        if kernel.root.exists():
            shutil.rmtree(kernel.root)
        root.rename(kernel.root)
    relocate_headers(kernel.root)
    (kernel.root / ".complete").touch()


def find(name, latest=False, may_fetch=True):
    """The kernel that a name means, fetched or built if need be."""
    from . import debugkernel  # pylint: disable=import-outside-toplevel,cyclic-import
    if debugkernel.recipe_of(name):
        return debugkernel.find(name)
    if is_series(name) and not latest:
        have = [k for k in cached() if in_series(k.kver, name)]
        if have:
            return have[-1]
    if not may_fetch:
        kernel = Kernel(name)
        if kernel.unpacked():
            return kernel
        raise HarnessError(f"kernel {name} is not in {KERNELS}: run `make deps`")
    kernel = Kernel(resolve_series(name) if is_series(name) else name)
    if not kernel.unpacked():
        KERNELS.mkdir(parents=True, exist_ok=True)
        with open(KERNELS / ".lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kernel.unpacked():
                install(kernel)
    return kernel


def headers_for(name):
    """Headers for a version: the running system's own first, then the cache."""
    for folder in (Path(f"/lib/modules/{name}/build"),
                   Path(f"/usr/src/linux-headers-{name}")):
        if (folder / "Makefile").exists():
            return folder
    return find(name).headers


def main(arguments):
    if not arguments:
        print(USAGE, file=sys.stderr)
        return 2
    verb, names = arguments[0], arguments[1:]
    latest = "--latest" in names
    names = [n for n in names if n != "--latest"]
    try:
        if verb == "list":
            for kernel in cached():
                print(kernel.kver)
        elif verb == "fetch" and names:
            for name in names:
                print(find(name, latest=latest).kver)
        elif verb == "kver" and len(names) == 1:
            print(full_version(names[0]))
        elif verb == "kdir" and len(names) == 1:
            print(headers_for(names[0]))
        elif verb == "path" and len(names) == 1:
            print(find(names[0]).root)
        else:
            print(USAGE, file=sys.stderr)
            return 2
    except HarnessError as error:
        print(f"scripts/kernels: {error}", file=sys.stderr)
        return 1
    return 0
