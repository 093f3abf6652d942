# SPDX-License-Identifier: GPL-2.0
"""Roots of Debian releases in the cache folder, in which modules are compiled.

The headers of a kernel need the compiler and the C library of the release that the kernel
was built for. mmdebstrap makes a root once, from the mirrors that this machine's apt
uses. The root's own apt lists are used to download headers, by this machine's apt.
"""

import contextlib
import fcntl
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from roxvm.kernels import architecture, run
from roxvm.paths import CACHE, HarnessError

ROOTS = CACHE / "roots"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# The architectures whose packages are looked for.
ARCHITECTURES = ("amd64", "arm64")
# Debian's architecture -> the name of its compiler.
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu", "s390x": "s390x-linux-gnu"}
# The suites of a release, and the label of the archive that has them.
SUITES = {
    "bookworm": (("bookworm", "Debian"), ("bookworm-backports", "Debian"),
                 ("bookworm-security", "Debian-Security")),
    "trixie": (("trixie", "Debian"), ("trixie-backports", "Debian"),
               ("trixie-security", "Debian-Security")),
    "forky": (("forky", "Debian"),),
}
# Folders of the host have these places in a root.
PLACES = ("repo", "build", "ccache", "sysroot")
OLD_LISTS = 24 * 3600


def mirrors():
    """The addresses of Debian's archives by their label, as apt has them configured."""
    shown = run("apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)",
                "Created-By: Packages", stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in shown.splitlines():
        label, _, uri = line.partition("|")
        found.setdefault(label, uri)
    return found


def sources(release, known):
    """The lines of sources.list. A suite whose archive apt does not know is left out."""
    return [f"deb {known[label]} {suite} main" for suite, label in SUITES[release] if label in known]


def acquire_options():
    """How this machine's apt reaches its mirrors, for the apt of a root."""
    shown = run("apt-config", "dump", "Acquire", stdout=subprocess.PIPE, text=True).stdout
    wanted = re.compile(r"Acquire::(Check-|Retries|https?::(Proxy|CA))", re.I)
    return [line for line in shown.splitlines() if wanted.match(line)]


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
        self.path = ROOTS / f"build-{release}"

    def complete(self):
        marker = self.path / ".complete"
        return marker.exists() and marker.read_text(encoding="ascii").split() == packages()

    @contextlib.contextmanager
    def locked(self):
        ROOTS.mkdir(parents=True, exist_ok=True)
        with open(ROOTS / f".lock-{self.release}", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def ensure(self):
        """Makes the root if there is none with these packages. One that is not complete is never used."""
        with self.locked():
            if not self.complete():
                self.make()

    def make(self):
        lines = sources(self.release, mirrors())
        if not lines:
            raise HarnessError("apt knows no mirror of Debian")
        print(f"making a root of {self.release} in {self.path}", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix=".make-", dir=ROOTS) as folder:
            top = Path(folder) / "root"
            archive = Path(folder) / "root.tar"
            options = Path(folder) / "apt.conf"
            options.write_text("\n".join(['Acquire::Languages "none";', *acquire_options(), ""]))
            keyring = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
            run("mmdebstrap", "--quiet", "--variant=apt", f"--include={','.join(packages())}",
                f"--architectures={','.join(self.architectures())}", f"--aptopt={options}",
                "--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-exclude=/usr/share/man/*",
                "--dpkgopt=path-exclude=/usr/share/locale/*", *keyring, self.release, archive, *lines,
                stdout=sys.stderr)
            top.mkdir()
            run("tar", "-xf", archive, "-C", top, "--exclude=./dev/*", "--no-same-owner")
            for place in PLACES:
                (top / "rox" / place).mkdir(parents=True)
            shutil.rmtree(self.path, ignore_errors=True)
            top.rename(self.path)
        (self.path / ".complete").write_text(" ".join(packages()) + "\n", encoding="ascii")

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
        """Runs a command in the root with folders of the host at /rox/<place>; returns what subprocess.run() does.

        The mounts are in a namespace of their own, and are gone with the command.
        """
        mounts = [("--rbind", f"/{name}", self.path / name) for name in ("dev", "proc")]
        mounts += [("--bind", path, self.path / "rox" / place) for place, path in places.items()]
        steps = [shlex.join(["mount", *map(str, mount)]) for mount in mounts]
        script = " && ".join([*steps, f'exec chroot {shlex.quote(str(self.path))} "$@"'])
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        environment = {"PATH": "/usr/lib/ccache:/usr/bin:/usr/sbin:/bin:/sbin", "LC_ALL": "C", "HOME": "/",
                       "CCACHE_DIR": "/rox/ccache", "CCACHE_NOHASHDIR": "1"}
        return subprocess.run(
            ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", script, "sh", *command],
            env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            check=False, text=text)
