# SPDX-License-Identifier: GPL-2.0
"""Kernels that this machine's apt does not have: those of a newer Debian release, and of another processor.

Their names are "7.3", "7.3-rt", "7.3-cloud", "6.12-arm64", "6.12-arm64-16k". Image and headers come from the apt lists
of a root of their release (scripts/roxmatrix), in which the module is compiled, too. The image is in the cache
folder beside the kernels of this machine; the headers stay in the root.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from .paths import REPO, HarnessError

# The series of newer releases. A kernel for another processor is of the release that has the root to boot.
RELEASES = {"7.2": "trixie", "7.3": "trixie"}
PROCESSORS = {"arm64": "trixie"}
# The flavour that Debian writes behind the processor: the size of pages.
PAGES = "16k"
# What `make check-all` boots.
NAMES = ("7.3", "7.3-rt", "7.3-cloud", "6.12-arm64", "6.12-arm64-16k")


def processor(name):
    """The processor in a name or a version, if it is not this machine's; else ""."""
    match = re.search(rf"(?:^|-)({'|'.join(PROCESSORS)})(?:-\d+k)?(?:-[0-9a-f]{{10}})?$", name)
    return match[1] if match else ""


def release_of(name):
    """The release that a kernel is taken from, by its name; "" for a kernel of this machine, or built here."""
    if "-rox-" in name:
        return ""
    match = re.match(r"\d+\.\d+", name)
    other = PROCESSORS.get(processor(name), "")
    return other or (RELEASES.get(match[0], "") if match else "")


def build_root(release):
    from roxmatrix.roots import Root  # pylint: disable=import-outside-toplevel,cyclic-import
    return Root(release)


def records(root, package):
    """Every version of a package that the root's apt knows, as dictionaries."""
    from roxmatrix import headers  # pylint: disable=import-outside-toplevel,cyclic-import
    if not (root.path / ".lists").exists():
        root.update()
    return headers.records(root, package)


def parts(name):
    """Series, flavour and architecture of a name or a version."""
    from .kernels import architecture, flavour  # pylint: disable=import-outside-toplevel,cyclic-import
    return re.match(r"\d+\.\d+", name)[0], flavour(name), processor(name) or architecture()


def resolve(name):
    """The full version that a name stands for; its headers are unpacked in the root."""
    from roxmatrix import headers  # pylint: disable=import-outside-toplevel,cyclic-import
    root = build_root(release_of(name))
    root.ensure()
    kver = headers.ensure(root, *parts(name))
    if not kver:
        raise HarnessError(f"{root.release} has no kernel {name}")
    return kver


def headers_of(kver):
    """Where the headers are, as this machine sees the folder."""
    return build_root(release_of(kver)).path / f"usr/src/linux-headers-{kver}"


def download(kver, folder):
    """Downloads the packages of the image. In newer kernels it is spread over several."""
    from roxmatrix import headers  # pylint: disable=import-outside-toplevel,cyclic-import
    root, arch = build_root(release_of(kver)), parts(kver)[2]
    root.update()
    found = headers.records(root, f"linux-image-{kver}:{arch}")
    if not found:
        raise HarnessError(f"{root.release} has no package linux-image-{kver}")
    wanted = [f"linux-image-{kver}:{arch}"]
    wanted += [f"{name}:{arch}" for name in re.findall(r"\blinux-(?:modules|binary|base)-[^\s,(]+",
                                                       found[0].get("Depends", ""))]
    print("downloading", *wanted, file=sys.stderr, flush=True)
    root.apt("apt-get", "download", *wanted, cwd=folder, stdout=subprocess.DEVNULL)


def in_root(kver, folder, command):
    """Runs a command that compiles, in the root of the kernel's release, with `folder` as /rox/build there; returns
    the exit status."""
    from roxmatrix import build  # pylint: disable=import-outside-toplevel,cyclic-import
    root, folder = build_root(release_of(kver)), Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    build.CCACHE.mkdir(parents=True, exist_ok=True)
    return root.execute(["env", "DEBIAN_KERNEL_USE_CCACHE=yes", *command, *build.cross(parts(kver)[2])],
                        {"repo": REPO, "build": folder, "ccache": build.CCACHE}, None).returncode


def build_module(kver, folder, arguments):
    """Compiles rox in the folder; returns the exit status."""
    return in_root(kver, folder, ["/rox/repo/scripts/build-module", kver, f"/usr/src/linux-headers-{kver}",
                                  "/rox/build", *arguments])


def kbuild(kver, folder, arguments):
    """Runs kbuild for a module whose sources are in the folder; returns the exit status."""
    return in_root(kver, folder, ["make", "--no-print-directory", "-s", "-C", f"/usr/src/linux-headers-{kver}",
                                  "M=/rox/build", *arguments, "modules"])
