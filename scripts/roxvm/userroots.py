# SPDX-License-Identifier: GPL-2.0
"""Roots of Debian releases that guests boot: user spaces with an rdma-core of their own.

A root is made once (debroot.py), with the packages that `scripts/deps --names root` prints. It is made anew when that list changes. The provider and the test programs
are built inside the root, against its libibverbs, into build/<release>/.

A root of another processor ("trixie-arm64") is only unpacked: no program of it runs on this machine, so no
maintainer script does. Its provider and tests come from the cross compiler of the release's other root
(scripts/roxmatrix/roots.py), with this root as the compiler's system.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from . import debroot, foreign
from .kernels import run
from .paths import BUILD, KERNELS, REPO, HarnessError

RELEASES = ("bookworm", "trixie", "forky", "trixie-arm64")
# mmdebstrap brings these by itself only where it also configures them.
ESSENTIAL = ("base-files", "base-passwd", "bash", "bsdutils", "coreutils", "dash", "debianutils", "diffutils",
             "findutils", "grep", "gzip", "hostname", "libc-bin", "login", "mawk", "ncurses-base", "ncurses-bin",
             "perl-base", "sed", "sysvinit-utils", "tar", "util-linux", "mount")
# Changes of how a root is made; part of its stamp.
FORMAT = 2


def packages():
    """The packages of a root."""
    listed = run(REPO / "scripts/deps", "--names", "root", stdout=subprocess.PIPE, text=True).stdout
    return listed.split()


class UserRoot:
    """The root of one release. Made by root, it is a system; else its files belong to the caller."""

    def __init__(self, release):
        if release not in RELEASES:
            raise HarnessError(f"no root is named {release}: {', '.join(RELEASES)}")
        self.release, _, self.arch = release.partition("-")
        self.name = release
        self.path = debroot.ROOTS / f"user-{release}"
        self.build = BUILD / release

    def stamp(self, names):
        """What the file .complete has if the root was made with these packages."""
        return hashlib.sha256(f"{FORMAT} {self.name} {' '.join(sorted(names))}".encode()).hexdigest()

    def complete(self, names):
        marker = self.path / ".complete"
        return marker.exists() and marker.read_text(encoding="ascii").strip() == self.stamp(names)

    def ensure(self):
        """Makes the root if there is none with these packages. One that is not complete is never used."""
        names = packages()
        with debroot.locked(f"user-{self.name}"):
            if not self.complete(names):
                self.make(names)
        return self

    def make(self, names):
        stamp = self.stamp(names)
        kind = ["--variant=apt"]
        if self.arch:
            kind = ["--variant=extract", f"--architectures={self.arch}"]
            names = [*names, *ESSENTIAL]

        def finish(top):
            if self.arch:
                settle(top)
            # Debian's installer writes it. Without it libfabric finds no address.
            hosts = top / "etc/hosts"
            if not hosts.exists():
                hosts.write_text("127.0.0.1 localhost\n::1 localhost\n", encoding="ascii")
            (top / ".complete").write_text(f"{stamp}\n", encoding="ascii")

        debroot.make(self.path, self.release, names, *kind, owners=os.geteuid() == 0, finish=finish)

    def execute(self, *command, **options):
        """Runs a command in the root, with the repository and its build folder in their usual places."""
        places = {str(place): place for place in (REPO, BUILD)}
        for place in places:
            (self.path / place.lstrip("/")).mkdir(parents=True, exist_ok=True)
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "HOME": "/root",
                       **{name: value for name, value in os.environ.items() if name in ("MAKEFLAGS",)}}
        return debroot.execute(self.path, command, places, env=environment, **options)

    def make_target(self, folder, *arguments, **options):
        """Runs make in a folder of the repository, inside the root."""
        BUILD.mkdir(parents=True, exist_ok=True)
        if self.arch:
            return self.cross_make(folder, *arguments, **options)
        return self.execute("make", "-s", "--no-print-directory", "-C", REPO / folder, *arguments, **options)

    def cross_make(self, folder, *arguments, **options):
        """The same with a cross compiler. The build folder has another name there."""
        from roxmatrix import build, roots  # pylint: disable=import-outside-toplevel,cyclic-import
        root = foreign.build_root(self.release)
        root.ensure()
        build.CCACHE.mkdir(parents=True, exist_ok=True)
        compiler = f"{roots.TRIPLETS[self.arch]}-g++ --sysroot=/rox/sysroot"
        return root.execute(
            ["make", "-s", "--no-print-directory", "-C", f"/rox/repo/{folder}", f"CXX={compiler}",
             *(str(argument).replace(str(BUILD), "/rox/build") for argument in arguments)],
            {"repo": REPO, "build": BUILD, "ccache": build.CCACHE, "sysroot": self.path},
            options.get("stdout"), options.get("text"))

    def build_provider(self, **options):
        return self.make_target("userspace", f"OUT={self.build}/userspace", "all", **options)

    def build_tests(self, groups, **options):
        # gcc 14 warns of what it has inlined from its own library.
        return self.make_target("tests", f"BUILD={self.build}/tests", "CXXFLAGS=-O1 -Wno-error=array-bounds",
                                "-j2", *groups, **options)

    def installer(self, folder):
        """A function that installs the provider of this root into a folder outside of it.

        ROX_VM_PROVIDER is another file to install in its place, which may be of another root.
        """
        def install(**options):
            staged = self.build / "stage"
            shutil.rmtree(staged, ignore_errors=True)
            result = self.make_target("userspace", f"OUT={self.build}/userspace", f"DESTDIR={staged}", "install",
                                      **options)
            if result.returncode == 0:
                other = os.environ.get("ROX_VM_PROVIDER")
                for installed in staged.rglob("librox-*.so") if other else ():
                    installed.unlink()
                    shutil.copy(other, installed.parent)
                shutil.copytree(staged, folder, dirs_exist_ok=True)
            return result
        return install

    @staticmethod
    def shared(kernel):
        """Folders of the host that a guest with this kernel has in the same place."""
        found = []
        for folder in (REPO, BUILD, KERNELS, kernel.root):
            if not any(folder.is_relative_to(other) for other in found):
                found.append(folder)
        return tuple(found)


def settle(top):
    """What maintainer scripts would have done, as far as the tests need it."""
    for name in ("passwd", "group"):
        shutil.copy(top / f"usr/share/base-passwd/{name}.master", top / "etc" / name)
    for link, target in (("awk", "mawk"), ("sh", "dash")):
        if not os.path.lexists(top / "usr/bin" / link):
            (top / "usr/bin" / link).symlink_to(target)


USAGE = f"""usage: scripts/roots make RELEASE...              make a root if it is missing or its packages have changed
       scripts/roots build RELEASE [GROUP...]    the provider and the test programs of groups into build/RELEASE/
       scripts/roots run RELEASE COMMAND...      a command in the root, in the repository's folder
       scripts/roots path RELEASE
       scripts/roots bare RELEASE FOLDER [PACKAGE...]    a root for scripts/deb, with nothing else in it

RELEASE is one of {', '.join(RELEASES)}."""


def main(arguments):
    if len(arguments) < 2:
        print(USAGE, file=sys.stderr)
        return 2
    verb, names = arguments[0], arguments[1:]
    try:
        if verb == "make":
            for name in names:
                UserRoot(name).ensure()
            return 0
        if verb == "bare" and len(names) > 1:
            debroot.make(Path(names[1]), names[0], names[2:], "--mode=root", "--variant=apt", backports=False,
                         finish=lambda top: (top / ".complete").touch())
            return 0
        root = UserRoot(names[0])
        if verb == "path":
            print(root.path)
            return 0
        root.ensure()
        if verb == "build":
            status = root.build_provider().returncode
            return status or (root.build_tests(names[1:]).returncode if names[1:] else 0)
        if verb == "run":
            script = 'cd "$1" && shift && exec "$@"'
            return root.execute("sh", "-c", script, "sh", REPO, *names[1:]).returncode
    except HarnessError as error:
        print(f"scripts/roots: {error}", file=sys.stderr)
        return 1
    print(USAGE, file=sys.stderr)
    return 2
