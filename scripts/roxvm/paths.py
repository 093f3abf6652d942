# SPDX-License-Identifier: GPL-2.0
"""Where things are: the repository, its build folder, the cache folder."""

import os
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ROX_BUILD") or REPO / "build")
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rox"
KERNELS = CACHE / "kernels"
LOGS = BUILD / "vm"


class HarnessError(Exception):
    """Something that is not the fault of the command under test."""
