# SPDX-License-Identifier: GPL-2.0
"""Builds one row of the matrix, and judges what the compiler said."""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from typing import NamedTuple

from roxvm.kernels import architecture, run
from roxvm.paths import BUILD, CACHE, REPO

from . import headers, rows, small, source
from .roots import TRIPLETS, Root

FOLDER = BUILD / "matrix"
# Nobody debugs these modules, and debug information takes a sixth of the time.
ARGUMENTS = ("W=1", "-k", "KCFLAGS=-g0")
CCACHE = CACHE / "ccache"
# "file.c:1:2: warning: ...", "WARNING: modpost: ...", but not make's or kbuild's notes about compilers.
WARNING = re.compile(r"^\S+:\d+(:\d+)?: warning: |^WARNING: modpost: ", re.M)
ERROR = re.compile(r"^.*(?:error: |ERROR: |\*\*\* rox).*$", re.M)


class Result(NamedTuple):
    """What became of a row. `result` is "built", "refused", "failed" or "no headers"."""

    version: str
    compiler: str
    result: str
    warnings: int
    seconds: int
    note: str = ""

    @property
    def good(self):
        return self.result in ("built", "refused") and not self.warnings


def judge(output, status, built, refusal=""):
    """Result, warnings and note of a build from its output, its exit status and whether there is a module."""
    warnings = len(set(line for line in output.splitlines() if WARNING.match(line)))
    errors = ERROR.findall(output)
    if refusal:
        refused = status != 0 and not built and refusal in output
        return ("refused" if refused else "failed"), warnings, ("" if refused else "it should have been refused")
    if status == 0 and built:
        return "built", warnings, ""
    return "failed", warnings, (errors[0].strip() if errors else f"exit status {status}")


def compiler_of(root, kver):
    """The compiler that the headers ask for."""
    text = (root.path / headers.folder(kver).lstrip("/") / ".kernelvariables").read_text(encoding="utf-8")
    match = re.search(r"\bgcc-[\d.]+", text)
    return match[0] if match else "gcc"


def cross(arch):
    """Arguments of make. The headers of 6.1 do not name the compiler for another processor themselves."""
    return [f"CROSS_COMPILE={TRIPLETS[arch]}-"] if arch != architecture() else []


class Place(NamedTuple):
    """Where and how a row is compiled. `compile` takes a file for what the compiler says, and returns a status."""

    version: str
    compiler: str
    compile: Callable


def with_headers(row, latest):
    """In a root, against Debian's headers. None if there are none."""
    root = Root(row.release)
    root.ensure()
    kver = headers.ensure(root, row.series, row.flavour, row.arch, latest)
    if not kver:
        return None
    kdir = small.prepare(root, kver, row.small) if row.small else headers.folder(kver)

    def compile_into(output):
        return root.execute(
            ["env", "DEBIAN_KERNEL_USE_CCACHE=yes", "/rox/repo/scripts/build-module", kver, kdir,
             f"/rox/build/{row.folder}", *ARGUMENTS, *cross(row.arch)],
            {"repo": REPO, "build": FOLDER, "ccache": CCACHE}, output).returncode
    return Place(kver, compiler_of(root, kver), compile_into)


def with_source(row):
    """On this machine, against a source tree that is only configured."""
    kdir, arguments = source.prepare(row)
    kver = source.version(kdir)
    environment = {**os.environ, "CCACHE_DIR": str(CCACHE), "CCACHE_NOHASHDIR": "1"}

    def compile_into(output):
        return subprocess.run(
            [REPO / "scripts/build-module", kver, kdir, FOLDER / row.folder, *ARGUMENTS, *arguments],
            env=environment, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    return Place(kver, "gcc-" + compiler_version(source.RECIPES[row.arch].cross), compile_into)


def compiler_version(prefix):
    return run(f"{prefix}gcc", "-dumpversion", stdout=subprocess.PIPE, text=True).stdout.strip()


def build(row, latest=False):
    place = with_source(row) if row.release == rows.SOURCE else with_headers(row, latest)
    if not place:
        return Result("", "", "no headers", 0, 0, f"{row.release} has no such headers")
    target = FOLDER / row.folder
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    CCACHE.mkdir(parents=True, exist_ok=True)
    log = FOLDER / f"{row.folder}.log"
    began = time.monotonic()
    with open(log, "w", encoding="utf-8") as output:
        status = place.compile(output)
    seconds = round(time.monotonic() - began)
    refusal = small.KINDS[row.small].refusal if row.small else ""
    said = log.read_text(encoding="utf-8", errors="replace")
    if row.release == rows.SOURCE:
        said = source.without_unknown_symbols(said)
    verdict = judge(said, status, (target / "rox.ko").exists(), refusal)
    if verdict[0] == "built" and not is_for(target / "rox.ko", row.arch):
        verdict = ("failed", verdict[1], f"the module is not for {row.arch}")
    # Objects take 100 MiB a row.
    shutil.rmtree(target / "src", ignore_errors=True)
    return Result(place.version, place.compiler, verdict[0], verdict[1], seconds, verdict[2])


def is_for(module, arch):
    """Is the module an ELF file of that architecture?"""
    machines = {"amd64": 62, "arm64": 183, "s390x": 22}
    head = module.read_bytes()[:20]
    order = "big" if head[5:6] == b"\x02" else "little"
    return head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], order) == machines[arch]
