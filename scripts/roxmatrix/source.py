# SPDX-License-Identifier: GPL-2.0
"""Kernels without headers of Debian: a tree of Debian's linux-source, configured and not built.

The module is compiled there by a cross compiler of this machine. Nothing says which symbols the kernel
exports, so it is not known whether the module could be loaded.
"""

import re

from roxvm import debugkernel
from roxvm.debugkernel import Recipe

RECIPES = {"arm64": debugkernel.recipe_of("arm64-64k"),
           "s390x": Recipe("s390x", "s390", base=debugkernel.DEBUG, cross="s390x-linux-gnu-")}


def prepare(row):
    """The folder to compile in, and the arguments of make."""
    recipe = RECIPES[row.arch]
    settings = debugkernel.settings_of_make(recipe)
    arguments = [f"{name}={value}" for name, value in settings.items()]
    return debugkernel.configured(recipe), [*arguments, f"CC=ccache {recipe.cross}gcc", "KBUILD_MODPOST_WARN=1"]


def version(folder):
    """What the kernel would be called."""
    return (folder / "include/config/kernel.release").read_text(encoding="ascii").strip()


def without_unknown_symbols(output):
    """What was said, but for the symbols that the kernel would export if it were built."""
    return re.sub(r"^WARNING: modpost: (.* undefined!|suppressed .* unresolved symbol warnings.*)\n", "", output,
                  flags=re.M)
