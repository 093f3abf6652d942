# SPDX-License-Identifier: GPL-2.0
"""Paths of the repository, its build folder and the cache folder."""

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ROX_BUILD") or REPO / "build")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rox"
KERNELS = CACHE / "kernels"
LOGS = BUILD / "vm"


class HarnessError(Exception):
    """An error that the command under test has not caused."""
