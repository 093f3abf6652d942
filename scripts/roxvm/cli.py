# SPDX-License-Identifier: GPL-2.0
"""The command line of scripts/vm: starts guests, follows them, and judges the result."""

import argparse
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from . import accel, foreign, initramfs, kcsan, kernels, kernlog, taps, userroots
from .machine import Machine, Settings, Streams
from .paths import BUILD, LOGS, REPO, HarnessError
from .pauses import Pauses
from .usermode import UserModeMachine

EXIT_TIMEOUT = 124
EXIT_HARNESS = 125          # the guest did not boot or could not be set up
EXIT_DIRTY_LOG = 70         # the command succeeded, the kernel complained
EXIT_CRASH = 71             # the guest ended before the command did
BOOT_SECONDS = 150          # on a busy host; with KASAN twice as long
BOOT_TRIES = 3              # QEMU may abort, or lose an interrupt
PASSED_ON = ("ROX_", "GTEST_")
# scripts/check counts these lines.
BOOTED_AGAIN = "the guest did not boot; once more"

EPILOG = f"""exit status: that of the command; {EXIT_DIRTY_LOG} if that was 0 but the kernel log has a
report; {EXIT_CRASH} if the guest crashed; {EXIT_TIMEOUT} after --timeout; {EXIT_HARNESS} if it did
not boot. Variables that begin with {' or '.join(PASSED_ON)} are passed on."""


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/vm", epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Run a command as root in a virtual machine with this machine's files.")
    add = parser.add_argument
    add("--kernel", default="6.12", metavar="VERSION",
        help="6.1, 6.12 (default), 6.12-rt, 7.3, 6.12-arm64, debug, debug-rt, kcsan, uml, uml-7.3 or `uname -r`")
    add("--root", choices=userroots.RELEASES, metavar="RELEASE",
        help="a root of that Debian release, not this machine's files: "
             f"{', '.join(userroots.RELEASES)}")
    add("--cpus", type=int, metavar="N", help="default 2; with --pair 1 each")
    add("--mem", type=int, default=2048, metavar="MIB", help="memory of each guest (2048)")
    add("--cpu", default="", metavar="FLAGS",
        help="QEMU CPU model, or flags to add (--cpu=-pclmulqdq)")
    add("--accel", choices=("kvm", "tcg"), help="default: KVM if it is known to work")
    add("--timeout", type=float, default=600, metavar="SEC", help="limit for the whole run (600)")
    add("--append", default="", metavar="CMDLINE", help="added to the kernel command line")
    add("--overlay-size", default="70%", metavar="SIZE", help="size of the tmpfs for writes")
    add("--pair", choices=("virtio", "e1000e"), help="two guests joined by this card")
    add("--peer", metavar="VERSION", help="with --pair: the kernel of guest 1, if it is another one")
    add("--tap", type=int, default=0, metavar="QUEUES",
        help="join them by tap devices with so many queues, not by a socket (needs CAP_NET_ADMIN)")
    add("--mtu", type=int, default=1500, help="MTU of the network card of --pair (1500)")
    add("--pause", type=Pauses.parse, metavar="EVERY,SEC",
        help="every EVERY seconds, stop one guest for SEC seconds")
    add("--plugin", default="", metavar="FILE,ARGUMENTS",
        help="load a plugin into QEMU (which emulates); with --pair .0 or .1 is added to it")
    add("--icount", type=int, nargs="?", const=1, metavar="SHIFT",
        help="virtual time: the guest's clock counts its instructions, each of 2^SHIFT ns (1), whatever the host does; "
             "User Mode Linux leaps over idle time, and computes in the host's")
    add("--log", metavar="FILE", help="file for the kernel log (default: in build/vm/)")
    add("--no-unload", action="store_true", help="do not unload rox at the end")
    add("--no-rox", action="store_true", help="do not install rox in the guest")
    add("--shell", action="store_true", help="the command is interactive (default: bash)")
    add("command", nargs=argparse.REMAINDER, help="-- command and its arguments")
    options = parser.parse_args(arguments)
    if options.command[:1] == ["--"]:
        options.command = options.command[1:]
    if not options.command:
        if not options.shell:
            parser.error("no command (or --shell)")
        options.command = ["bash", "-i"]
    if options.shell and options.pair:
        parser.error("--shell and --pair exclude each other")
    if options.peer and not options.pair:
        parser.error("--peer needs --pair")
    if options.tap and options.pair != "virtio":
        parser.error("--tap needs --pair virtio")
    return options


def installer(kernel, root, folder):
    """Functions that install what was built for a kernel, if anything was, into a folder."""
    if not (BUILD / kernel.kver / "rox.ko").exists():
        return []

    def install(**options):
        command = ["make", "-s", "-C", str(REPO), "install-module" if root else "install",
                   f"DESTDIR={folder}", f"KVER={kernel.kver}"]
        return subprocess.run(command, check=False, **options)
    return [install, root.installer(folder)] if root else [install]


def log_path(options, kernel, role):
    suffix = "" if role is None else f".{role}"
    if options.log:
        return Path(options.log + suffix).absolute()
    LOGS.mkdir(parents=True, exist_ok=True)
    forget_old_logs()
    stamp = time.strftime("%Y%m%d-%H%M%S")
    return LOGS / f"{stamp}-{os.getpid()}-{kernel.kver}{suffix}.log"


def forget_old_logs(keep=200):
    for path in sorted(LOGS.glob("*.log"))[:-keep]:
        path.unlink(missing_ok=True)


def passed_environment(options, root):
    wanted = {k: v for k, v in os.environ.items() if k.startswith(PASSED_ON)}
    # Of the locale only the characters: each other part is two files more for a program to look for.
    wanted.update(HOME="/root", LC_CTYPE="C.UTF-8", USER="root",
                  TERM=os.environ.get("TERM", "dumb") if options.shell else "dumb",
                  ROX_VM_ROOT=str(REPO),
                  ROX_BUILD=str(root.build if root else BUILD))
    if options.shell:
        size = shutil.get_terminal_size()
        wanted.update(ROX_VM_ROWS=size.lines, ROX_VM_COLUMNS=size.columns)
    return wanted


def pair_settings(options, role, socket):
    """QEMU's arguments and the guest's environment for one of two guests."""
    model = {"virtio": "virtio-net-pci", "e1000e": "e1000e"}[options.pair]
    end = (f"stream,id=net,server=on,addr.type=unix,addr.path={socket}" if role == 0 else
           f"stream,id=net,server=off,addr.type=unix,addr.path={socket}")
    more = ""
    if options.tap:
        end, more = taps.arguments(role, options.tap)
    card = f"{model},netdev=net,romfile=,mac=52:54:00:00:00:0{role + 1}{more}"
    if options.pair == "virtio":
        card += f",host_mtu={max(options.mtu, 1500)}"
    environment = {
        "ROX_VM_NIC": options.pair, "ROX_VM_MTU": options.mtu,
        "ROX_VM_NIC_MODULE": {"virtio": "virtio_net", "e1000e": "e1000e"}[options.pair],
        "ROX_VM_ADDR": f"10.0.0.{role + 1}", "ROX_VM_PEER": f"10.0.0.{2 - role}",
        "ROX_VM_ADDR6": f"fd00::{role + 1}", "ROX_VM_PEER6": f"fd00::{2 - role}",
    }
    return ["-netdev", end, "-device", card], environment


def wait_for_socket(path, owner, seconds=20):
    """The second guest connects to the first one's socket as it starts."""
    until = time.monotonic() + seconds
    while not path.exists() and owner.running() and time.monotonic() < until:
        time.sleep(0.02)


def virtual_time(options, kernel):
    """QEMU's -icount. Alone, a guest leaps over the time in which it has nothing to do; two wait for each other.

    User Mode Linux only leaps: while it computes, its clock is the host's. With several CPUs it cannot.
    """
    if options.icount is None or kernel.user_mode and kernel.smp:
        return ""
    if kernel.user_mode:
        return "time-travel"
    return f"shift={options.icount},sleep={'on' if options.pair else 'off'}"


def root_of(options, kernel):
    """The root that is named, or None; for a kernel of another processor that processor's one."""
    other = "" if kernel.user_mode else foreign.processor(kernel.kver)
    name = options.root or (foreign.PROCESSORS[other] if other else "")
    if other and not foreign.processor(name):
        name += f"-{other}"
    if foreign.processor(name) != other:
        raise HarnessError(f"{kernel.kver} cannot run the programs of {name}")
    return userroots.UserRoot(name) if name else None


def system_of(options, kernel, stage):
    """The settings of a guest that depend on its kernel."""
    if kernel.user_mode and (options.pair or not kernel.smp and (options.cpus or 1) > 1):
        raise HarnessError(f"{kernel.kver} runs alone" + ("" if kernel.smp else " and with one CPU"))
    root = root_of(options, kernel)
    if root:
        root.ensure()
    initramfs.stage(kernel, stage, [] if options.no_rox else installer(kernel, root, stage))
    icount = virtual_time(options, kernel)
    return {
        "accel": "tcg" if options.plugin or icount else options.accel or accel.choose(kernel),
        "icount": icount, "stage": str(stage), "root": str(root.path) if root else "/",
        "foreign": bool(root and root.arch), "shared": root.shared(kernel) if root else (),
        "environment": passed_environment(options, root),
    }


def make_machines(options, found, folder):
    """The guests, whose kernels are `found`: one, or the two of a pair, which may be the same."""
    common = {
        "cpus": options.cpus or (1 if options.pair else 2), "plugin": options.plugin, "mem": options.mem,
        "cpu": options.cpu, "append": options.append, "overlay": options.overlay_size,
        "shell": options.shell, "keep": options.no_unload, "command": options.command, "cwd": os.getcwd(),
    }
    systems = {kver: system_of(options, kernel, folder / f"stage-{kver}")
               for kver, kernel in {kernel.kver: kernel for kernel in found}.items()}
    machines = []
    for role, kernel in enumerate(found) if options.pair else ((None, found[0]),):
        network, system = [], dict(systems[kernel.kver])
        if options.pair:
            network, more = pair_settings(options, role, folder / "net")
            system["environment"] = {**system["environment"], **more}
        own = folder / f"vm{role or 0}"
        own.mkdir()
        kind = UserModeMachine if kernel.user_mode else Machine
        machines.append(kind(Settings(kernel, role=role, network=network, log=log_path(options, kernel, role),
                                      **common, **system), own))
    return machines


def boot_seconds(machine):
    """Seconds that a guest may take to boot. In virtual time no interrupt is lost, so only a slow host takes long."""
    if machine.settings.icount:
        return 4 * BOOT_SECONDS
    many = 2 if machine.settings.cpus > 2 else 1
    slow = "-rox-" in machine.settings.kernel.kver or machine.settings.foreign
    return BOOT_SECONDS * many * (2 if slow else 1)


def follow(machines, deadline, pauses):
    """Copies output until all machines have ended. Returns None, or why it stopped earlier."""
    streams = Streams(machines, sys.stdout.buffer)
    booting = list(machines)
    while any(m.running() for m in machines) or streams.open():
        streams.pump(0.5 if streams.open() else 0)
        if not streams.open():
            time.sleep(0.02)
        booting = [m for m in booting if m.running() and not m.is_up()]
        if pauses:
            pauses.tick(machines)
        now = time.monotonic()
        if booting and now > booting[0].started + boot_seconds(booting[0]):
            return "boot" if len(booting) == len(machines) else "half"
        if now > deadline and any(m.running() for m in machines):
            for machine in machines:
                if machine.running():
                    machine.dump_tasks()
            return "timeout"
        if len(machines) > 1 and partner_lost(machines):
            return "partner"
        if emulator_broke(machines):
            break
    return "emulator" if emulator_broke(machines) else None


def emulator_broke(machines):
    """True if an assertion of QEMU failed before any command began (10.0.2 sometimes does that while
    firmware and kernel set up PCI). Nothing was tested yet."""
    return any(m.aborted() for m in machines) and not any(m.is_up() for m in machines)


def partner_lost(machines, grace=20):
    """Gives the other guest some time to end after one has failed."""
    ended = [m for m in machines if not m.running()]
    failed = [m for m in ended if m.status() != 0]
    if not failed or len(ended) == len(machines):
        return False
    since = max(m.control.stat().st_mtime for m in failed)
    return time.time() > since + grace


def verdict(machine, cut):
    """Judge one machine: print what is wrong, return an exit status."""
    log = machine.log_text() if machine.settings.log.exists() else ""
    name = "" if machine.settings.role is None else f" (guest {machine.settings.role})"
    status = machine.status()
    code = status
    if status is None:
        if not machine.is_up():
            code, why = EXIT_HARNESS, "the guest did not come up"
            log += machine.errors.read_text(errors="replace")
        elif cut == "timeout":
            code, why = EXIT_TIMEOUT, "time limit reached"
        elif cut == "partner":
            code, why = EXIT_CRASH, "ended because the other guest failed"
        else:
            code, why = EXIT_CRASH, "the guest ended before the command did"
        shown = kernlog.at_time_limit(log) if cut == "timeout" else kernlog.tail(log)
        say(f"scripts/vm: {why}{name}; from {machine.settings.log}:", shown)
    if kcsan.ran(log):
        watches = machine.control_words().get("watches", "an unknown number of")
        say(f"scripts/vm: KCSAN: {kcsan.sift(log)[1]} races of the rest of Linux "
            f"in {watches} watches{name}")
    complaints = kernlog.report(log)
    if complaints:
        say(f"scripts/vm: the kernel complained{name}, see {machine.settings.log}:", complaints)
        code = code or EXIT_DIRTY_LOG
    if status is not None:
        bad = tainted(machine, log)
        if bad:
            say(f"scripts/vm: {bad}{name}, see {machine.settings.log}")
            code = code or EXIT_DIRTY_LOG
    return code


def tainted(machine, log):
    """Complaints about the kernel's state at the end of a run."""
    mask = machine.control_words().get("taint")
    if mask is None:
        return "the guest has not said whether its kernel is tainted"
    letters = kernlog.taints(int(mask), log)
    return f"the kernel is tainted: {letters}" if letters else None


def say(*lines):
    sys.stdout.flush()
    print(*lines, sep="\n", file=sys.stderr, flush=True)


def boot(options, folder, machines, deadline):
    """Starts them and follows them to their end. Returns what follow() does."""
    try:
        for machine in machines:
            if machine.settings.role == 1 and not options.tap:
                wait_for_socket(folder / "net", machines[0])
            machine.start()
        return follow(machines, deadline, options.pause)
    finally:
        if options.pause:
            options.pause.end()
            say(f"scripts/vm: {options.pause.count} pauses")
        for machine in machines:
            machine.kill()


def run(options):
    deadline = time.monotonic() + options.timeout
    found = [kernels.find(options.kernel)]
    if options.pair:
        found.append(kernels.find(options.peer) if options.peer else found[0])
    if options.tap:
        taps.make(options.mtu, options.tap)
    for tries in itertools.count(1):
        with tempfile.TemporaryDirectory(prefix="rox-vm-") as name:
            folder = Path(name)
            machines = make_machines(options, found, folder)
            cut = boot(options, folder, machines, deadline)
            if cut not in ("emulator", "boot") or tries == BOOT_TRIES:
                codes = [verdict(machine, cut) for machine in machines]
                return next((code for code in codes if code), 0)
            # Nothing was tested yet, so a new boot hides no failure. (An emulated CPU may lose its timer.)
            say(f"scripts/vm: {BOOTED_AGAIN}. QEMU and the kernel said:",
                *(m.errors.read_text(errors="replace").strip() for m in machines),
                *(kernlog.tail(m.log_text(), 5) for m in machines if m.settings.log.exists()))


def interrupted(number, _frame):
    raise KeyboardInterrupt(number)


def main(arguments):
    options = parse(arguments)
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGHUP, interrupted)
    if options.shell and shutil.which("stty"):
        print("leave the guest with `exit`", file=sys.stderr)
    try:
        return run(options)
    except HarnessError as error:
        say(f"scripts/vm: {error}")
        return EXIT_HARNESS
    except BrokenPipeError:
        return EXIT_HARNESS
    except KeyboardInterrupt:
        return 130
