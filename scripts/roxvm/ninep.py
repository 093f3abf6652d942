# SPDX-License-Identifier: GPL-2.0
"""The file system 9p for kernels without it, as those of Debian's cloud flavours: guests have their files from there.

Its modules are built from the source of the kernel's series, against its headers, in the root of its release.
"""

import re
import shutil
import tempfile
from pathlib import Path

from . import foreign
from .paths import CACHE, HarnessError

FOLDERS = ("net/9p", "fs/9p")
SETTINGS = ("CONFIG_NET_9P=m", "CONFIG_NET_9P_VIRTIO=m", "CONFIG_9P_FS=m")


def is_missing(modules):
    """Has the kernel with that folder of modules no 9p? Only newer ones have their configuration there."""
    config = modules / "config"
    return config.exists() and "# CONFIG_NET_9P is not set" in config.read_text()


def build(kver, modules):
    """Builds the modules, and adds them to the folder."""
    from . import debugkernel  # pylint: disable=import-outside-toplevel,cyclic-import
    recipe = debugkernel.Recipe("9p", series=re.match(r"\d+\.\d+", kver)[0])
    tree = debugkernel.unpack_source(recipe, debugkernel.source_version(recipe))
    with tempfile.TemporaryDirectory(prefix=".9p-", dir=CACHE / "src") as place:
        folder = Path(place)
        for name in FOLDERS:
            shutil.copytree(tree / name, folder / name)
        (folder / "Kbuild").write_text("".join(f"obj-m += {name}/\n" for name in FOLDERS))
        command = ["make", "-s", "-C", f"/usr/src/linux-headers-{kver}", "M=/rox/build", *SETTINGS, "modules"]
        root, ccache = foreign.build_root(foreign.release_of(kver)), CACHE / "ccache"
        ccache.mkdir(exist_ok=True)
        if root.execute(command, {"build": folder, "ccache": ccache}, None).returncode:
            raise HarnessError(f"9p cannot be built for {kver}")
        target = modules / "kernel/9p"
        target.mkdir(exist_ok=True)
        for module in folder.rglob("*.ko"):
            shutil.copy(module, target)
