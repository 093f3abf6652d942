# SPDX-License-Identifier: GPL-2.0
"""Build the plugin of QEMU that counts instructions: tests/bench/plugin/count.c.

Its interface, qemu-plugin.h, is in no binary package. It is taken from the source package of the QEMU that is
installed, into the cache folder.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from roxvm import kernels
from roxvm.paths import BUILD, CACHE, REPO, HarnessError

PACKAGE = "qemu-system-x86"
HEADER = "qemu-plugin.h"
SOURCE = REPO / "tests/bench/plugin/count.c"
FLAGS = ("-O2", "-g", "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-fvisibility=hidden")


def output(*command):
    return kernels.run(*command, stdout=subprocess.PIPE, text=True).stdout.strip()


def installed():
    """The version of the package of QEMU, and that of its source."""
    version = output("dpkg-query", "-W", "-f", "${source:Version}", PACKAGE)
    name = output("dpkg-query", "-W", "-f", "${source:Package}", PACKAGE)
    return name, version


def sources():
    """Lines for apt: Debian's suites as this machine has them, as sources."""
    keyring = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
    options = f"[signed-by={keyring}] " if keyring.exists() else ""
    shown = output("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT) $(LABEL)",
                   "Created-By: Packages")
    found = re.findall(r"^(\S+) (\S+) (main) Debian( Backports)?$", shown, re.M)
    if not found:
        raise HarnessError("apt knows no Debian mirror: run `apt-get update`")
    return "".join(f"deb-src {options}{uri} {suite} {part}\n" for uri, suite, part, _ in found)


def fetch(name, version, folder):
    """Downloads the source package, with package lists of its own, and takes the header out of it."""
    (folder / "lists/partial").mkdir(parents=True)
    (folder / "sources.list").write_text(sources())
    apt = ("apt-get", "-q", "-o", f"Dir::Etc::SourceList={folder}/sources.list", "-o",
           "Dir::Etc::SourceParts=/dev/null", "-o", f"Dir::State::Lists={folder}/lists", "-o",
           f"Dir::Cache={folder}", "-o", "APT::Sandbox::User=")
    print(f"downloading the source of {name} {version} for {HEADER}", flush=True)
    kernels.run(*apt, "update", stdout=subprocess.DEVNULL)
    kernels.run(*apt, "source", "--download-only", "--tar-only", f"{name}={version}", cwd=folder,
                stdout=subprocess.DEVNULL)
    archive = next(folder.glob(f"{name}_*.orig.tar.*"))
    kernels.run("tar", "-xf", archive, "-C", folder, "--strip-components=3", "--wildcards",
                f"*/include/qemu/{HEADER}")


def header():
    """The folder with the header of the installed QEMU, fetched if it is not in the cache."""
    name, version = installed()
    home = CACHE / "qemu" / version.partition(":")[2].partition("~")[0]
    if not (home / HEADER).exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as work:
            fetch(name, version, Path(work))
            (Path(work) / HEADER).rename(home / HEADER)
    return home


def build():
    """Returns the path of the plugin."""
    library = BUILD / "bench/libcount.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    glib = output("pkg-config", "--cflags", "glib-2.0").split()
    kernels.run("gcc", *FLAGS, *glib, "-isystem", header(), "-o", f"{library}.part", SOURCE)
    Path(f"{library}.part").rename(library)
    return library
