# SPDX-License-Identifier: GPL-2.0
"""Debian's header packages, unpacked in the root of their release."""

import subprocess
import sys
import tempfile
from pathlib import Path

from roxvm import debroot, foreign
from roxvm.kernels import architecture, flavour, header_parts, numbers, parse_records, run
from roxvm.paths import HarnessError

SOURCES = "usr/src"


def matches(kver, series, kind, arch):
    """Is "6.12.95+deb12-rt-amd64" of that series ("6.12"), kind ("rt") and architecture?"""
    wanted = numbers(series)
    found = "" if flavour(kver) == arch else flavour(kver)
    suffix = f"-{arch}-{kind}" if kind == foreign.PAGES else f"-{arch}"
    return kver.endswith(suffix) and found == kind and numbers(kver)[:len(wanted)] == wanted


def records(root, package):
    """Every version of a package that the root's apt knows, as dictionaries."""
    try:
        shown = root.apt("apt-cache", "show", "--all-versions", package, stdout=subprocess.PIPE,
                         stderr=subprocess.DEVNULL, text=True).stdout
    except HarnessError:
        return []
    return parse_records(shown)


def marker(root, kver):
    return root.path / SOURCES / f".complete-{kver}"


def folder(kver):
    """Where the headers are inside the root."""
    return f"/{SOURCES}/linux-headers-{kver}"


def cached(root, series, kind, arch):
    """The newest version whose headers are unpacked, or None."""
    names = (path.name.removeprefix(".complete-") for path in (root.path / SOURCES).glob(".complete-*"))
    return max((n for n in names if matches(n, series, kind, arch)), key=numbers, default=None)


def offered(root, series, kind, arch):
    """The newest version that the mirror has, and its packages, as apt names them; None if it has none."""
    names = root.apt("apt-cache", "pkgnames", f"linux-headers-{series}.", stdout=subprocess.PIPE,
                     text=True).stdout.split()
    versions = {name.removeprefix("linux-headers-").partition(":")[0] for name in names}
    for kver in sorted((v for v in versions if matches(v, series, kind, arch)), key=numbers, reverse=True):
        found = records(root, f"linux-headers-{kver}:{arch}")
        if found:
            return kver, package_list(root, kver, arch, max(found, key=lambda fields: numbers(fields["Version"])))
    return None


def package_list(root, kver, arch, fields):
    """The packages of the headers of one kernel. The programs of kbuild run here, whatever the kernel is for."""
    return [f"linux-headers-{kver}:{arch}={fields['Version']}"] + [
        f"{name}:{architecture()}={version}"
        for name, version in header_parts(fields, lambda package: records(root, package))]


def unpack(root, kver, packages):
    """Downloads and unpacks what is not there from another kernel of that version."""
    stamps = {package: root.path / SOURCES / f".package-{package}" for package in packages}
    missing = [package for package, stamp in stamps.items() if not stamp.exists()]
    print("downloading", *missing, file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix=".headers-", dir=root.path) as place:
        root.apt("apt-get", "download", *missing, cwd=place, stdout=subprocess.DEVNULL)
        for deb in sorted(Path(place).glob("*.deb")):
            with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as archive:
                run("tar", "-x", "-C", root.path, "--keep-directory-symlink", "--no-same-owner",
                    "./usr", stdin=archive.stdout)
            if archive.returncode:
                raise HarnessError(f"{deb.name} cannot be unpacked")
    for stamp in stamps.values():
        stamp.touch()
    marker(root, kver).touch()


def ensure(root, series, kind, arch, latest=False):
    """The version of the headers of a kernel, fetched if necessary; None if the mirror has none."""
    with debroot.locked(root.release):
        have = cached(root, series, kind, arch)
        if have and not latest:
            return have
        root.update()
        found = offered(root, series, kind, arch)
        if not found:
            return have
        kver, packages = found
        if not marker(root, kver).exists():
            unpack(root, kver, packages)
        return kver
