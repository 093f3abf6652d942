# SPDX-License-Identifier: GPL-2.0
"""The kernel of rox-run: User Mode Linux with rox built in.

It is built in the cache folder, from a copy of Debian's linux-source (hard links) in which
kernel/ is drivers/infiniband/sw/rox, and tools/run/kernel is in arch/um/drivers. What was built
is kept there: after a change of rox only what depends on it is built again. scripts/run.config is the
configuration, scripts/run-7.3.config comes on top; ROX_RUN_SERIES=6.12 chooses that kernel, which has one CPU.
ROX_LINUX_SOURCE is the archive of an installed linux-source, which is taken in place of the one that apt has.
ROX_RUN_VM_KERNEL is the version of an installed kernel for --vm, which is taken in place of that of the cache folder.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import debugkernel, initramfs, kernels
from .paths import BUILD, CACHE, REPO, HarnessError

SERIES = os.environ.get("ROX_RUN_SERIES", "7.3")
# Of these folders only Kconfig is needed, and of other architectures.
KCONFIG_ONLY = ("Documentation", "samples")
ARCHES = ("um", "x86")
# `make rox-run` builds it.
FIRST_PROCESS = BUILD / "tools/rox-run-init"
# What the first process loads into a kernel that has it not built in.
MODULES = ("ib_uverbs", "rdma_ucm", "ib_umad", "udp_tunnel", "ip6_udp_tunnel", "dummy", "veth", "bridge", "sch_netem",
           "macvlan", "tun", "8021q")
# What the first process lays over a file system that has them not.
PROGRAMS = ("ip", "rdma")
# Where it puts them.
PROGRAMS_PLACE = "/run/rox-run/programs"
# The kernel of the virtual machine, and what its first process loads before: what reaches rox-run and the host's
# files. The kernel has the rest of MODULES as modules, too.
VIRTUAL_SERIES = "6.12"
VIRTUAL_MODULES = (*initramfs.BOOT_MODULES, "virtio_rng", "crc32_pclmul", *MODULES)


class RunRecipe(debugkernel.Recipe):
    """How to make this kernel."""

    def __init__(self, more=""):
        super().__init__("run", "um", series=SERIES)
        self.of_series = REPO / f"scripts/run-{SERIES}.config"
        self.more = more

    def settings(self):
        return super().settings() + (self.of_series.read_text() if self.of_series.exists() else "") + self.more


def copy_or_link(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def link_tree(source, target):
    """A copy of the source, by hard links where the file system allows it."""
    def ignore(folder, names):
        place = Path(folder).relative_to(source).parts
        foreign = place[:1] == ("arch",) and len(place) > 1 and place[1] not in ARCHES
        if foreign or place[:1] and place[0] in KCONFIG_ONLY:
            return [n for n in names if not n.startswith("Kconfig") and not os.path.isdir(f"{folder}/{n}")]
        return []

    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True, ignore=ignore, copy_function=copy_or_link)
    (target / ".complete").touch()


def put(text, path):
    """Writes a file of the tree, if it is not so already. A file that is linked is replaced, not changed."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.rename(path)


def replaced(text, pattern, by, what):
    """The text with that replaced, which has to be there once."""
    text, times = re.subn(pattern, by, text, flags=re.M)
    if times != 1:
        raise HarnessError(f"the source of Linux {SERIES} has no place for {what}")
    return text


def change(tree, source, path, what, by):
    """Puts a file of Linux into the tree, with each pattern replaced."""
    text = (source / path).read_text()
    for pattern, replacement in by.items():
        text = replaced(text, pattern, replacement, what)
    put(text, tree / path)


def add_rox(tree, source):
    """Puts kernel/ into the tree."""
    room = tree / "drivers/infiniband/sw/rox"
    ours = {p.relative_to(REPO / "kernel") for p in (REPO / "kernel").rglob("*") if p.is_file()}
    for path in ours:
        put((REPO / "kernel" / path).read_text(), room / path)
    for path in [p for p in room.rglob("*") if p.is_file() and p.relative_to(room) not in ours]:
        path.unlink()
    put((REPO / "include/uapi/rdma/rox-abi.h").read_text(), tree / "include/uapi/rdma/rox-abi.h")
    menu = (source / "drivers/infiniband/Kconfig").read_text()
    line = 'source "drivers/infiniband/sw/rxe/Kconfig"\n'
    put(replaced(menu, line, line + line.replace("rxe", "rox"), "rox"), tree / "drivers/infiniband/Kconfig")
    put((source / "drivers/infiniband/sw/Makefile").read_text() + "obj-$(CONFIG_INFINIBAND_ROX) += rox/\n",
        tree / "drivers/infiniband/sw/Makefile")


def add_pipes(tree, source):
    """Puts the pipes to the host into the tree."""
    ours = REPO / "tools/run/kernel"
    drivers = Path("arch/um/drivers")
    put((ours / "hostpipe.c").read_text(), tree / drivers / "hostpipe.c")
    menu = (source / drivers / "Kconfig").read_text()
    choices = (ours / "Kconfig").read_text().partition("\n")[2]
    put(replaced(menu, '^config UML_SOUND$', choices + "\nconfig UML_SOUND", "hostpipe"),
        tree / drivers / "Kconfig")
    rules = (source / drivers / "Makefile").read_text()
    put(replaced(rules, r"^obj-\$\(CONFIG_NULL_CHAN\)", r"obj-$(CONFIG_HOSTPIPE) += hostpipe.o\n\g<0>",
                 "hostpipe"), tree / drivers / "Makefile")


def leave_nothing(tree, source):
    """Makes the kernel leave no file on the host, whenever it is killed.

    Its memory has no name (memfd_create). So it needs no folder either that has room for it and from which code
    may be executed. It has no folder for its process id.
    """
    change(tree, source, "arch/um/os-Linux/mem.c", "a memory file", {
        r"make_tempfile\(TEMPNAME_TEMPLATE\)": 'syscall(SYS_memfd_create, "rox-run", 0)',
        "^static int __init make_tempfile": "static int __init __attribute__((unused)) make_tempfile",
        r"^#include <sys/vfs.h>\n": r"\g<0>#include <sys/syscall.h>\n"})
    change(tree, source, "arch/um/os-Linux/umid.c", "its name", {
        r"^__initcall\((make_umid_init)\);": r"static int (*unused_init)(void) __attribute__((unused)) = \1;",
        r"^__uml_exitcall\((remove_umid_dir)\);": r"static void (*unused_exit)(void) __attribute__((unused)) = \1;"})


def bear_stops(tree, source):
    """Makes the kernel bear that the host stops and continues all its processes, as schedulers of jobs do it.

    A traced process is stopped already when it gets SIGSTOP, so SIGCONT takes that back, and is all that the kernel
    sees. It would take that for a crash of the process.
    """
    change(tree, source, "arch/um/os-Linux/skas/process.c", "signals that do not matter", {
        r"^(#define STUB_SIG_MASK \().*(\(1 << SIGWINCH\)\))$":
            r"\1(1 << SIGALRM) | (1 << SIGSTOP) | (1 << SIGCONT) | \2",
        r"^(\t+)case SIGALRM:\n(\t+break;)$": r"\1case SIGALRM:\n\1case SIGSTOP:\n\1case SIGCONT:\n\2"})


def defer_ipis(tree, source):
    """Makes interrupts between CPUs wait without a system call of the host, as those of timers do.

    A kernel that can have several CPUs blocks their signal each time it disables interrupts: two system calls for
    each lock that disables them, also on one CPU. Here the signal comes, and is noted if interrupts are disabled.
    """
    if not (source / "arch/um/os-Linux/smp.c").exists():
        return
    folder = "arch/um/os-Linux/"
    change(tree, source, folder + "internal.h", "prototypes", {
        r"^int timer_alarm_pending\(void\);": r"\g<0>\nvoid ipi_is_pending(void);",
        r"^#define IPI_SIGNAL\tSIGRTMIN": r"\g<0>\nvoid run_pending_ipis(void);"})
    change(tree, source, folder + "signal.c", "deferred interrupts", {
        r"^static __thread unsigned int signals_pending;":
            r"\g<0>\n#define IPI_MASK (1 << 3)\n\nvoid ipi_is_pending(void)\n{\n\tsignals_pending |= IPI_MASK;\n}",
        r"return !!\(signals_pending & SIGALRM_MASK\);": "return !!(signals_pending & (SIGALRM_MASK | IPI_MASK));",
        r"^\tos_local_ipi_disable\(\);\n\tbarrier\(\);\n": "",
        r"^\tbarrier\(\);\n\tos_local_ipi_enable\(\);\n": "",
        r"^(\t+)if \(save_pending & SIGIO_MASK\)\n": r"\1if (save_pending & IPI_MASK)\n\1\trun_pending_ipis();\n\n\g<0>"})
    change(tree, source, folder + "smp.c", "deferred interrupts", {
        r"^\tsigaddset\(&data->sigset, IPI_SIGNAL\);\n": "",
        r"^static void ipi_sig_handler\(":
            "static __thread unsigned int pending_ipis;\n\nvoid run_pending_ipis(void)\n{\n"
            "\tunsigned int vectors = __atomic_exchange_n(&pending_ipis, 0, __ATOMIC_SEQ_CST);\n\tint vector;\n\n"
            "\tfor (vector = 0; vectors; vector++, vectors >>= 1)\n"
            "\t\tif (vectors & 1)\n\t\t\tuml_ipi_handler(vector);\n}\n\n\\g<0>",
        r"^(\tint save_errno = errno;\n)(\n\tsignals_enabled = 0;)":
            r"\1\n\tif (!signals_enabled) {\n"
            r"\t\t__atomic_fetch_or(&pending_ipis, 1u << si->si_value.sival_int, __ATOMIC_SEQ_CST);\n"
            r"\t\tipi_is_pending();\n\t\treturn;\n\t}\n\2"})
    change(tree, source, folder + "time.c", "an idle CPU", {
        r"^(\tsigaddset\(&set, SIGALRM\);\n)(\tsigprocmask\(SIG_BLOCK, &set, NULL\);)":
            r"\1\tsigaddset(&set, IPI_SIGNAL);\n\2"})


def prepare(source, tree):
    if not (tree / ".complete").exists() or (tree / ".of").read_text() != str(source):
        debugkernel.say(f"linking {source} to {tree}")
        link_tree(source, tree)
        (tree / ".of").write_text(str(source))
    add_rox(tree, source)
    add_pipes(tree, source)
    leave_nothing(tree, source)
    bear_stops(tree, source)
    defer_ipis(tree, source)


def configure(recipe, tree, output):
    """Configures anew only if the configuration has changed."""
    wanted = recipe.settings() + (tree / ".of").read_text()
    stamp = output / ".wanted"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    debugkernel.configure(recipe, tree, output, "-rox-run")
    stamp.write_text(wanted)


def linux_source(recipe):
    """The tree of Linux as Debian has it."""
    archive = os.environ.get("ROX_LINUX_SOURCE")
    if archive:
        return debugkernel.unpack_archive(archive)
    return debugkernel.unpack_source(recipe, debugkernel.source_version(recipe))


def build(name="run", more=""):
    """Builds the kernel, whose configuration has these lines more, into build/NAME/linux and returns its path."""
    folder, room = BUILD / name, CACHE / "run"
    output = room / f"kernel-{SERIES}{name.removeprefix('run')}"
    tree = room / f"source-{SERIES}"
    folder.mkdir(parents=True, exist_ok=True)
    output.mkdir(parents=True, exist_ok=True)
    with open(room / f".lock-{SERIES}", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        recipe = RunRecipe(more)
        prepare(linux_source(recipe), tree)
        configure(recipe, tree, output)
        with open(output / "build.log", "w", encoding="utf-8") as log:
            if not (output / "vmlinux").exists():
                debugkernel.say(f"building the kernel of rox-run (log: {log.name})")
                if "HOST_FP_SIZE" in (tree / "arch/x86/um/user-offsets.c").read_text():
                    debugkernel.widen_registers(recipe, tree, output, log)
            debugkernel.make(recipe, tree, output, f"-j{os.cpu_count()}", "vmlinux", log=log)
        image = folder / "linux"
        made = output / "vmlinux"
        if not image.exists() or image.stat().st_mtime != made.stat().st_mtime:
            kernels.run("strip", "-p", "-o", image, made)
    return image


def pack(modules=()):
    """The first root file system: the first process, and modules for a kernel that has them not built in."""
    archive = initramfs.Archive()
    archive.folder("dev")
    archive.character_device("dev/console", 5, 1)
    archive.file("init", FIRST_PROCESS.read_bytes(), 0o755)
    if modules:
        archive.folder("modules")
        read = [initramfs.read_module(path) for path in modules]
        for name, data in read:
            archive.file(f"modules/{name}", data)
        archive.file("modules/order", "".join(f"{name}\n" for name, _ in read).encode())
    return archive.finish()


def write(path, data):
    """Writes a file that may be in use."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(data)
    fresh.rename(path)


def pipes_module(kernel, folder):
    """hostpipe.ko for a kernel that has it not built in."""
    room = folder / "hostpipe"
    room.mkdir(parents=True, exist_ok=True)
    put((REPO / "tools/run/kernel/hostpipe.c").read_text(), room / "hostpipe.c")
    put("obj-m := hostpipe.o\n", room / "Kbuild")
    kernels.run("make", "-s", "-C", str(kernel.headers), f"M={room}", "modules")
    return room / "hostpipe.ko"


def write_cpus(folder, settings):
    """Says how many CPUs the kernel of that configuration can have, if not one."""
    most = re.search(r"^CONFIG_NR_CPUS=(\d+)$", settings, re.M)
    (folder / "cpus").unlink(missing_ok=True)
    if most:
        write(folder / "cpus", f"{most[1]}\n".encode())


def rox_module(kernel):
    """The module that was built for the kernel."""
    rox = BUILD / kernel.kver / "rox.ko"
    if not rox.exists():
        raise HarnessError(f"{rox} is not there: run `make KVER={kernel.kver} module`")
    return rox


def debug_image(name):
    """An image of a debug kernel of User Mode Linux, with the module rox that `make KVER=NAME module` has built."""
    kernel = debugkernel.find(name)
    folder = BUILD / f"run-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    modules = initramfs.module_closure(kernel, MODULES)
    write(folder / "init.cpio", pack([pipes_module(kernel, folder), *modules, rox_module(kernel)]))
    # It wants a folder for its process id; the small kernel has none.
    write(folder / "arguments", f"uml_dir={folder}/ids/\n".encode())
    write_cpus(folder, debugkernel.recipe_of(name).settings())
    kernels.run("cp", "--remove-destination", kernel.image, folder / "linux")
    return folder


def virtual_kernel():
    """The kernel of the virtual machine: of the cache, or that which ROX_RUN_VM_KERNEL names and is installed here."""
    installed = os.environ.get("ROX_RUN_VM_KERNEL")
    if not installed:
        return kernels.find(VIRTUAL_SERIES)
    kernel = kernels.Kernel(installed)
    kernel.root = Path("/")
    return kernel


def virtual_image():
    """What rox-run --vm starts, in build/run/vm, with the module rox that `make KVER=6.12 module` has built."""
    kernel = virtual_kernel()
    folder = BUILD / "run/vm"
    folder.mkdir(parents=True, exist_ok=True)
    rox = folder / "rox.ko"
    kernels.run("strip", "--strip-debug", "-o", rox, rox_module(kernel))
    write(folder / "init.cpio", pack([*initramfs.module_closure(kernel, VIRTUAL_MODULES), rox]))
    write(folder / "linux", kernels.plain_image(kernel.image.read_bytes()))
    return folder


def libraries_of(program):
    """What the dynamic linker loads for a program, and the linker itself."""
    shown = kernels.run("ldd", program, stdout=subprocess.PIPE, text=True).stdout
    return [Path(path) for path in re.findall(r"(/\S+) \(0x", shown)]


def programs_image():
    """ip and rdma of this machine, in build/run/programs, with all libraries: they need none of the file system's."""
    folder = BUILD / "run/programs"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in PROGRAMS:
        program = shutil.which(name, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if not program:
            raise HarnessError(f"{name} is not there: install iproute2")
        libraries = libraries_of(program)
        for path in (Path(program), *libraries):
            shutil.copy(path, folder / path.name)
        linker = next(path.name for path in libraries if path.name.startswith("ld-"))
        kernels.run("patchelf", "--set-interpreter", f"{PROGRAMS_PLACE}/{linker}", "--force-rpath", "--set-rpath",
                    PROGRAMS_PLACE, folder / name)
    return folder


def image(*named):
    """The image of rox-run, in build/run; or with another name and more lines of configuration: see build()."""
    linux = build(*named)
    write_cpus(linux.parent, RunRecipe().settings())
    write(linux.parent / "init.cpio", pack())
    return linux.parent


def providers(own_only):
    """The providers, by their file names: one for each of libibverbs' private interfaces, or this machine's only.

    A provider works with all versions of rdma-core that have the interface's number.
    """
    target, folder, found = ("all", "userspace", "") if own_only else ("each", "providers", "*/")
    kernels.run("make", "-s", "--no-print-directory", "-C", REPO / "userspace", f"OUT={BUILD / folder}", target,
                stdout=sys.stderr)
    return {path.name: path for path in (BUILD / folder).glob(f"{found}librox-rdmav*.so")}


def put_providers(folder, own_only=False):
    """Writes the providers into an image, and removes others."""
    found = providers(own_only)
    for name, path in found.items():
        fresh = folder / f"{name}.new"
        kernels.run("strip", "--strip-debug", "-o", fresh, path)
        fresh.rename(folder / name)
    for path in folder.glob("librox-rdmav*.so"):
        if path.name not in found:
            path.unlink()


def main(arguments):
    try:
        others = {"vm": virtual_image, "programs": programs_image}
        if arguments and arguments[0] in others:
            print(others[arguments[0]]())
            return 0
        if arguments == ["bench"]:
            folder = image("run-bench", "CONFIG_RDMA_RXE=y\n")
        else:
            folder = debug_image(arguments[0]) if arguments else image()
        put_providers(folder, own_only=bool(arguments))
        print(folder)
    except HarnessError as error:
        print(f"run-image: {error}", file=sys.stderr)
        return 1
    return 0
