# SPDX-License-Identifier: GPL-2.0
"""A small initramfs: busybox, the modules for 9p and overlay, and the job."""

import fcntl
import lzma
import os
import re
import shutil
import stat
import subprocess
from pathlib import Path

from .paths import BUILD, HarnessError

# Modules that the guest needs to reach the host's files.
BOOT_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
GUEST = Path(__file__).resolve().parent / "guest"

# Programs that tests start again and again. They, their libraries and these files are in the guest's memory: to open
# a file of the host is three requests to the host, and one more for each symbolic link on the way.
PROGRAMS = ("bash", "cat", "cut", "date", "dmesg", "grep", "ib_write_bw", "ibv_devinfo", "ip", "mkdir", "modprobe",
            "ps", "rdma", "rm", "rping", "sed", "sleep", "sysctl", "tail", "tc", "timeout")
FILES = ("/etc/ld.so.cache", "/etc/libnl/classid", "/usr/lib/locale/C.utf8/LC_CTYPE", "/usr/share/locale/locale.alias")


class Archive:
    """A cpio archive in the "newc" format, as the kernel unpacks it."""

    def __init__(self):
        self.parts = []
        self.entries = 0

    def _add(self, name, mode, data=b"", device=(0, 0)):
        self.entries += 1
        encoded = name.encode() + b"\0"
        fields = (self.entries, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(encoded), 0)
        header = b"070701" + b"".join(b"%08x" % f for f in fields) + encoded
        self.parts += [header, padding(header), data, padding(data)]

    def folder(self, name):
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name, data, mode=0o644):
        self._add(name, stat.S_IFREG | mode, data)

    def symlink(self, name, target):
        self._add(name, stat.S_IFLNK | 0o777, target.encode())

    def character_device(self, name, major, minor):
        self._add(name, stat.S_IFCHR | 0o600, device=(major, minor))

    def finish(self):
        self._add("TRAILER!!!", 0)
        return b"".join(self.parts)


def padding(data):
    return b"\0" * (-len(data) % 4)


def module_closure(kernel, names):
    """The files to load for these modules, in the order of loading."""
    depends = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, needs = line.partition(":")
        depends[path] = needs.split()
    by_name = {Path(path).name.partition(".")[0].replace("-", "_"): path for path in depends}
    ordered = []
    for name in names:
        path = by_name.get(name)
        if path is None:
            continue                    # built in
        # modules.dep lists dependencies in reverse order.
        for each in (*reversed(depends[path]), path):
            if each not in ordered:
                ordered.append(each)
    return [kernel.modules / path for path in ordered]


def read_module(path):
    """The name and the bytes of a module, which an installed kernel may have compressed."""
    if path.suffix == ".xz":
        return path.stem, lzma.decompress(path.read_bytes())
    return path.name, path.read_bytes()


def static_busybox(root):
    path = shutil.which("busybox", path=f"{root}/bin:{root}/usr/bin")
    if path is None:
        raise HarnessError("busybox-static is not installed: run `make deps`")
    data = Path(path).read_bytes()
    if b"/ld-linux" in data[:4096]:
        raise HarnessError("busybox is not static: install busybox-static (`make deps`)")
    return data


def at_hand():
    """The files for the guest's memory, as it opens them: programs, their libraries, FILES."""
    programs = list(filter(None, (shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") for name in PROGRAMS)))
    listed = subprocess.run(["ldd", *programs], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                            check=False).stdout
    libraries = re.findall(r"^\t(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE)
    return sorted({*programs, *libraries, *(name for name in FILES if os.path.exists(name))})


def copy_into(archive, folder, paths):
    """Adds files of this machine under a folder, with the symbolic links and folders on the way to each."""
    known = set()
    for path in paths:
        rest, place = path.strip("/").split("/"), ""
        while rest:
            place = os.path.normpath(f"{place}/{rest.pop(0)}")
            link = os.path.islink(place)
            if place not in known:
                known.add(place)
                if link:
                    archive.symlink(folder + place, os.readlink(place))
                elif os.path.isdir(place):
                    archive.folder(folder + place)
                else:
                    archive.file(folder + place, Path(place).read_bytes(), os.stat(place).st_mode & 0o7777)
            if link:
                target = os.path.normpath(os.path.join(os.path.dirname(place), os.readlink(place)))
                rest, place = target.strip("/").split("/") + rest, ""


def build(kernel, job, root="/", memory=()):
    """The initramfs for one run.

    `job` maps names of files to their text; busybox comes from `root`; `memory` has files of this machine that the
    guest is to have in its memory.
    """
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "modules", "job", "lower", "stage", "host", "rw", "newroot"):
        archive.folder(folder)
    archive.character_device("dev/console", 5, 1)
    archive.file("bin/busybox", static_busybox(root.rstrip("/")), 0o755)
    archive.file("init", (GUEST / "init").read_bytes(), 0o755)
    archive.file("job/stage2", (GUEST / "stage2").read_bytes(), 0o755)
    order = []
    for path in module_closure(kernel, BOOT_MODULES):
        archive.file(f"modules/{path.name}", path.read_bytes())
        order.append(path.name)
    archive.file("modules/order", "".join(f"{n}\n" for n in order).encode())
    for name, text in job.items():
        archive.file(f"job/{name}", text.encode(), 0o755)
    archive.folder("memory")
    copy_into(archive, "memory", memory)
    return archive.finish()


def stage(kernel, folder, install):
    """A file tree for an overlay of the guest's root: rox as `make install` installs it.

    `install` has the commands that install into the folder, or is empty when nothing has been built for
    this kernel. Each is a function that runs one, with options of subprocess.run(), and returns its result.
    """
    folder.mkdir()
    merged = Path("/lib").is_symlink()
    modules = folder / ("usr/lib" if merged else "lib") / "modules" / kernel.kver
    # Only one process at a time, because make may build something.
    with open(BUILD / ".install.lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for command in install:
            result = command(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if result.returncode:
                raise HarnessError(f"make install failed:\n{result.stdout}")
    if merged and (folder / "lib").is_dir():
        modules.parent.mkdir(parents=True, exist_ok=True)
        (folder / "lib/modules" / kernel.kver).rename(modules)
        shutil.rmtree(folder / "lib")
    modules.mkdir(parents=True, exist_ok=True)
    link_kernel_modules(kernel, modules)


def link_kernel_modules(kernel, modules):
    """Links the kernel's own modules beside ours and runs depmod for all of them."""
    for entry in kernel.modules.iterdir():
        mine = modules / entry.name
        if mine.exists() or entry.name in ("build", "source"):
            continue
        if entry.is_dir() or not (modules / "updates").is_dir():
            mine.symlink_to(entry)
        elif entry.name.startswith(("modules.builtin", "modules.order")):
            mine.symlink_to(entry)
    if (modules / "updates").is_dir():
        base = modules.parents[1] if modules.parents[1].name != "lib" else modules.parents[2]
        depmod(base, kernel.kver)


def depmod(base, kver):
    tool = shutil.which("depmod", path="/usr/sbin:/sbin:/usr/bin:/bin")
    if tool is None:
        raise HarnessError("depmod is not installed: run `make deps`")
    result = subprocess.run([tool, "-b", base, kver], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, check=False)
    if result.returncode:
        raise HarnessError(f"depmod failed:\n{result.stdout}")
