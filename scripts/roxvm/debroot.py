# SPDX-License-Identifier: GPL-2.0
"""Roots of Debian releases: mmdebstrap makes them, from the mirrors that this machine's apt uses.

The roots in which modules are compiled (scripts/roxmatrix/roots.py), which guests boot (userroots.py), and in which
packages are built and installed (scripts/deb) are made and entered here.
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
from pathlib import Path

from .kernels import run
from .paths import CACHE, HarnessError

ROOTS = CACHE / "roots"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
# The suites of a release, and the label of the archive that has them.
SUITES = {
    "bookworm": (("bookworm", "Debian"), ("bookworm-backports", "Debian"),
                 ("bookworm-security", "Debian-Security")),
    "trixie": (("trixie", "Debian"), ("trixie-backports", "Debian"),
               ("trixie-security", "Debian-Security")),
    "forky": (("forky", "Debian"),),
}


def mirrors():
    """The addresses of Debian's archives by their label, as apt has them configured."""
    shown = run("apt-get", "indextargets", "--format", "$(LABEL)|$(REPO_URI)",
                "Created-By: Packages", stdout=subprocess.PIPE, text=True).stdout
    found = {}
    for line in shown.splitlines():
        label, _, uri = line.partition("|")
        found.setdefault(label, uri)
    return found


def sources(release, known, backports=True):
    """The lines of sources.list. A suite whose archive apt does not know is left out."""
    return [f"deb {known[label]} {suite} main" for suite, label in SUITES[release]
            if label in known and (backports or not suite.endswith("-backports"))]


def acquire_options():
    """How this machine's apt reaches its mirrors, for the apt of a root."""
    shown = run("apt-config", "dump", "Acquire", stdout=subprocess.PIPE, text=True).stdout
    wanted = re.compile(r"Acquire::(Check-|Retries|https?::(Proxy|CA))", re.I)
    return [line for line in shown.splitlines() if wanted.match(line)]


@contextlib.contextmanager
def locked(name, shared=False):
    """Holds the lock of a root."""
    ROOTS.mkdir(parents=True, exist_ok=True)
    with open(ROOTS / f".lock-{name}", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def make(path, release, packages, *options, backports=True, owners=True, finish=None):
    """Makes a root with these packages, in place of one that is there.

    `options` are for mmdebstrap. Without `owners` all files belong to the caller. `finish` is called with the folder
    of the root before it gets its place, so that none is seen that is not whole.
    """
    lines = sources(release, mirrors(), backports)
    if not lines:
        raise HarnessError("apt knows no mirror of Debian")
    print(f"making a root of {release} in {path}", file=sys.stderr, flush=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".make-", dir=path.parent) as folder:
        top = Path(folder) / "root"
        archive = Path(folder) / "root.tar"
        settings = Path(folder) / "apt.conf"
        settings.write_text("\n".join(['Acquire::Languages "none";', *acquire_options(), ""]))
        keyring = [f"--keyring={KEYRING}"] if KEYRING.exists() else []
        include = [f"--include={','.join(packages)}"] if packages else []
        run("mmdebstrap", "--quiet", *include, f"--aptopt={settings}", *options, *keyring, release, archive, *lines,
            stdout=sys.stderr)
        top.mkdir()
        run("tar", "-xf", archive, "-C", top, "--exclude=./dev/*", *([] if owners else ["--no-same-owner"]))
        if finish:
            finish(top)
        shutil.rmtree(path, ignore_errors=True)
        top.rename(path)


def execute(top, command, places, **options):
    """Runs a command in the root `top`; returns what subprocess.run() does, to which the options go.

    `places` has folders of the host by where they are in the root. The mounts are in a namespace of their own, and
    are gone with the command.
    """
    mounts = [("--rbind", f"/{name}", f"{top}/{name}") for name in ("dev", "proc")]
    mounts += [("--bind", path, f"{top}{place}") for place, path in places.items()]
    steps = [shlex.join(["mount", *map(str, mount)]) for mount in mounts]
    script = " && ".join([*steps, f'exec chroot {shlex.quote(str(top))} "$@"'])
    user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return subprocess.run(
        ["unshare", *user, "--mount", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)],
        stdin=subprocess.DEVNULL, check=False, **options)
