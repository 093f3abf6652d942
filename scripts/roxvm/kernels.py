# SPDX-License-Identifier: GPL-2.0
"""Debian's kernels, unpacked from their packages into the cache folder.

A kernel is named by its series ("6.1", "6.12"), by series and flavour ("6.12-rt",
which has PREEMPT_RT), with "-arm64" behind it for another processor, "-arm64-16k" with
pages of 16 KiB, or by its full version, which is what `uname -r` prints
("6.1.0-56-amd64", "6.12.95+deb12-rt-amd64"). "debug", "uml" and others are our own
builds (debugkernel.py). Nothing outside of the cache folder is written. Packages
come through apt, as this machine configures it.
"""

import fcntl
import functools
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from . import foreign, ninep
from .paths import KERNELS, HarnessError

SERIES = ("6.1", "6.12")
ELF = b"\x7fELF"
USAGE = """usage: scripts/kernels fetch [--latest] VERSION...
       scripts/kernels kver VERSION    print the full version that VERSION stands for
       scripts/kernels kdir VERSION    print the folder of the headers to build a module against
       scripts/kernels path VERSION    print its folder in the cache
       scripts/kernels build VERSION FOLDER [MAKE ARGUMENTS...]    rox, in the root of the kernel's release
       scripts/kernels kbuild VERSION FOLDER [MAKE ARGUMENTS...]   a module there, of the sources in the folder
       scripts/kernels list
       scripts/kernels missing VERSION...    print those that are not in the cache"""


class Kernel:
    """One unpacked kernel. A `user_mode` one is a program of the host, and needs no QEMU."""

    user_mode = False
    smp = True

    def __init__(self, kver):
        self.kver = kver
        self.root = KERNELS / kver

    @property
    def modules(self):
        return self.root / "lib/modules" / self.kver

    @property
    def arch(self):
        """Debian's name of its processor."""
        return foreign.processor(self.kver) or architecture()

    @property
    def headers(self):
        if foreign.release_of(self.kver):
            return foreign.headers_of(self.kver)
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


def flavour(name):
    """The flavour in a version or after a series: "rt", "cloud", "16k"; "" for the usual kernel."""
    match = re.search(rf"-({foreign.PAGES})$", name) or re.search(r"-([a-z]+)(?:-[a-z0-9]+)?$", name)
    return match[1] if match and match[1] != architecture() else ""


def in_series(kver, series):
    """True if it is a kernel of that series and flavour."""
    wanted = numbers(series.partition("-")[0])
    return (numbers(kver)[: len(wanted)] == wanted and flavour(kver) == flavour(series)
            and foreign.processor(kver) == foreign.processor(series))


def is_series(name):
    """True if the name is that of a series, with or without a flavour and a processor."""
    return re.fullmatch(rf"\d+\.\d+(-[a-z]+)?(-({'|'.join(foreign.PROCESSORS)})(-{foreign.PAGES})?)?", name) is not None


def allowed_to_fetch():
    """`make deps`, `make demo` and `make check` download kernels that are missing; others do not."""
    return bool(os.environ.get("ROX_INSTALL"))


def full_version(name):
    """The full version that a name stands for."""
    from . import debugkernel  # pylint: disable=import-outside-toplevel,cyclic-import
    return find(name, may_fetch=allowed_to_fetch()).kver if is_series(name) or name in debugkernel.NAMES else name


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


@functools.cache
def architecture():
    """Debian's name of this machine's architecture."""
    return run("dpkg", "--print-architecture", stdout=subprocess.PIPE, text=True).stdout.strip()


def records(package):
    """Every version of a package that apt knows, as dictionaries."""
    shown = subprocess.run(
        ["apt-cache", "show", "--all-versions", package],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout
    return parse_records(shown)


def parse_records(shown):
    """What `apt-cache show` printed, as a dictionary for each version."""
    found = [dict(re.findall(r"^([A-Za-z-]+): *(.*)$", block, re.M)) for block in shown.split("\n\n")]
    return [fields for fields in found if "Version" in fields]


def resolve_series(series):
    """The newest full version that apt offers for a series."""
    if foreign.release_of(series):
        return foreign.resolve(series)
    found = []
    package = "-".join(filter(None, ("linux-image", flavour(series), architecture())))
    for fields in records(package):
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
    wanted += [f"{name}={version}" for name, version in header_parts(newest, records)]
    return wanted


def header_parts(fields, offered):
    """Names and versions of the packages that have the rest of a kernel's headers.

    @offered gives the records of a package. While the archive takes in a new version of the kernel, it has only newer
    ones of some packages: these will do where the dependency says so.
    """
    for dependency in re.split(r"[,|]", fields["Depends"]):
        match = re.match(r"\s*(linux-(?:headers-\S+-common(?:-\w+)?|kbuild-[^\s:]+))\S*(?: \((\S+))?", dependency)
        if match:
            version, versions = fields["Version"], [f["Version"] for f in offered(match[1])]
            if match[2] == ">=" and versions and version not in versions:
                version = max(versions, key=numbers)
            yield match[1], version


def download(packages, folder):
    """Downloads packages with apt, which needs no root rights."""
    print("downloading", *packages, file=sys.stderr, flush=True)
    run("apt-get", "-q", "-o", "APT::Sandbox::User=", "download", *packages,
        cwd=folder, stdout=sys.stderr)


def relocate_headers(root):
    """Replaces the absolute paths in the makefiles of Debian's headers."""
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
    """Decompresses the image, to save each guest seconds of its boot.

    An unknown payload is no error: the compressed image boots, too.
    """
    data = (root / f"boot/vmlinuz-{kernel.kver}").read_bytes()
    plain = plain_image(data)
    if plain is not data:
        (root / "boot/vmlinux").write_bytes(plain)


def plain_image(data):
    """The ELF image that a compressed one has in it, or the same bytes."""
    if data[:4] == ELF:
        return data
    return next((payload for payload in payloads(data) if payload[:4] == ELF), data)


def payloads(data):
    start = data.find(b"\xfd7zXZ\0")
    if start >= 0:
        try:
            yield lzma.LZMADecompressor().decompress(data[start:])
        except lzma.LZMAError:
            pass
    start = data.find(b"\x28\xb5\x2f\xfd")
    if start >= 0 and shutil.which("zstd"):
        # zstd fails at the bytes after the payload, but its output is complete.
        yield subprocess.run(["zstd", "-dcq"], input=data[start:], check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def unpack(kernel, debs, root):
    for deb in debs:
        run("dpkg-deb", "-x", deb, root)
    modules = root / "lib/modules" / kernel.kver
    if not modules.is_dir() and (root / "usr/lib/modules" / kernel.kver).is_dir():
        (root / "lib").symlink_to("usr/lib")
    expand_modules(modules)
    if ninep.is_missing(modules):
        ninep.build(kernel.kver, modules)
    depmod = shutil.which("depmod", path="/usr/sbin:/sbin:" + os.environ.get("PATH", ""))
    run(depmod or "depmod", "-b", root, kernel.kver)
    if not (root / f"boot/vmlinuz-{kernel.kver}").exists():
        (root / "boot").mkdir(exist_ok=True)
        (modules / "vmlinuz").rename(root / f"boot/vmlinuz-{kernel.kver}")
    if kernel.arch == architecture():
        extract_image(kernel, root)
    shutil.rmtree(root / "usr/share", ignore_errors=True)


def install(kernel):
    """Downloads and unpacks one kernel. An incomplete folder is never used."""
    KERNELS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=KERNELS) as folder:
        if foreign.release_of(kernel.kver):
            foreign.download(kernel.kver, folder)
        else:
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
    """The kernel that a name stands for, fetched or built if necessary."""
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
    """Headers for a version: those of the running system, or else of the cache."""
    from . import debugkernel  # pylint: disable=import-outside-toplevel,cyclic-import
    for folder in (Path(f"/lib/modules/{name}/build"),
                   Path(f"/usr/src/linux-headers-{name}")):
        if (folder / "Makefile").exists():
            return folder
    if not (allowed_to_fetch() or Kernel(name).unpacked() or debugkernel.recipe_of(name)):
        raise HarnessError(f"there are no headers for kernel {name}: install linux-headers-{name} "
                           f"(Fedora: kernel-devel-{name})")
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
        elif verb == "missing" and names:
            for name in names:
                if not any(in_series(kernel.kver, name) for kernel in cached()):
                    print(name)
        elif verb == "fetch" and names:
            for name in names:
                print(find(name, latest=latest).kver)
        elif verb == "kver" and len(names) == 1:
            print(full_version(names[0]))
        elif verb == "kdir" and len(names) == 1:
            print(headers_for(names[0]))
        elif verb == "build" and len(names) > 1:
            return foreign.build_module(names[0], names[1], names[2:])
        elif verb == "kbuild" and len(names) > 1:
            return foreign.kbuild(names[0], names[1], names[2:])
        elif verb == "path" and len(names) == 1:
            print(find(names[0]).root)
        else:
            print(USAGE, file=sys.stderr)
            return 2
    except HarnessError as error:
        print(f"scripts/kernels: {error}", file=sys.stderr)
        return 1
    return 0
