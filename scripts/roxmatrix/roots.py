# SPDX-License-Identifier: GPL-2.0
"""Roots of Debian releases in the cache folder, in which modules are compiled.

The headers of a kernel need the compiler and the C library of the release that the kernel
was built for. A root is made once (roxvm/debroot.py). Its own apt lists are used to download
headers, by this machine's apt.
"""

import subprocess
import sys
import time

from roxvm import debroot
from roxvm.kernels import architecture, run

# The architectures whose packages are looked for.
ARCHITECTURES = ("amd64", "arm64")
# Debian's architecture -> the name of its compiler.
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "s390x": "s390x-linux-gnu"}
# Folders of the host have these places in a root.
PLACES = ("repo", "build", "ccache", "sysroot")
OLD_LISTS = 24 * 3600


def packages():
    others = [name for arch, name in TRIPLETS.items() if arch != architecture()]
    compilers = [f"gcc-{name.replace('_', '-')}" for name in others]
    # For the provider and the tests of a guest of that processor (scripts/roxvm/userroots.py).
    compilers += [f"g++-{TRIPLETS[arch]}" for arch in ARCHITECTURES if arch != architecture()]
    return ["gcc", "make", "ccache", "pahole", "sparse", *compilers]


class Root:
    """The root of one release. Its files belong to the caller, who needs no root rights."""

    def __init__(self, release):
        self.release = release
        self.path = debroot.ROOTS / f"build-{release}"

    def complete(self):
        marker = self.path / ".complete"
        return marker.exists() and marker.read_text(encoding="ascii").split() == packages()

    def ensure(self):
        """Makes the root if there is none with these packages. One that is not complete is never used."""
        with debroot.locked(self.release):
            if not self.complete():
                self.make()

    def make(self):
        without = [f"--dpkgopt=path-exclude=/usr/share/{folder}/*" for folder in ("doc", "man", "locale")]
        debroot.make(self.path, self.release, packages(), "--variant=apt",
                     f"--architectures={','.join(self.architectures())}", *without, owners=False, finish=self.finish)

    @staticmethod
    def finish(top):
        for place in PLACES:
            (top / "rox" / place).mkdir(parents=True)
        (top / ".complete").write_text(" ".join(packages()) + "\n", encoding="ascii")

    @staticmethod
    def architectures():
        """This machine's architecture comes first: it is that of the root."""
        return sorted(ARCHITECTURES, key=lambda arch: arch != architecture())

    def apt(self, program, *arguments, **options):
        """Runs a program of this machine's apt over the root's lists."""
        command = [program, "-q", "-o", f"Dir={self.path}", "-o", "APT::Sandbox::User=",
                   "-o", f"Dir::State::status={self.path}/var/lib/dpkg/status",
                   "-o", f"APT::Architectures={','.join(self.architectures())}",
                   "-o", "Acquire::Languages=none", "-o", "Acquire::Retries=3"]
        return run(*command, *arguments, **options)

    def update(self):
        """Fetches the package lists, if they are older than a day."""
        stamp = self.path / ".lists"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < OLD_LISTS:
            return
        self.apt("apt-get", "update", stdout=sys.stderr)
        stamp.touch()

    def execute(self, command, places, log, text=None):
        """Runs a command in the root with folders of the host at /rox/<place>."""
        environment = {"PATH": "/usr/lib/ccache:/usr/bin:/usr/sbin:/bin:/sbin", "LC_ALL": "C", "HOME": "/",
                       "CCACHE_DIR": "/rox/ccache", "CCACHE_NOHASHDIR": "1"}
        return debroot.execute(self.path, command, {f"/rox/{place}": path for place, path in places.items()},
                               env=environment, stdout=log, stderr=subprocess.STDOUT, text=text)
