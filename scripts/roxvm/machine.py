# SPDX-License-Identifier: GPL-2.0
"""One QEMU process: its command line, its output, its end."""

import ctypes
import json
import os
import selectors
import shlex
import shutil
import signal
import socket
import subprocess
import time
from typing import NamedTuple

from . import initramfs, tsc
from .paths import HarnessError

BASE_CMDLINE = (
    "loglevel=7 panic=-1 oops=panic nokaslr random.trust_cpu=on mitigations=off net.ifnames=0 "
    "rcupdate.rcu_cpu_stall_timeout=60 ")


class Board(NamedTuple):
    """What QEMU emulates for an architecture."""

    program: str
    machine: str
    cpu: str            # where it is emulated
    cmdline: str


BOARDS = {
    # Without fast byte-wise string instructions, which emulation makes slow.
    "amd64": Board("qemu-system-x86_64", "q35", "max,-erms,-fsrm",
                   "console=ttyS0,115200 no_timer_check tsc=reliable clocksource=tsc "),
    # A CPU without pointer authentication, which emulation makes slow, with atomics and CRC instructions.
    "arm64": Board("qemu-system-aarch64", "virt,gic-version=3", "cortex-a76", "console=ttyAMA0 "),
}
# In virtual time a guest's clock counts its instructions, each of 2^SHIFT nanoseconds, on all of its CPUs,
# which run in turn; the time stamp counter counts these nanoseconds.
ICOUNT_KHZ = 1_000_000
PR_SET_PDEATHSIG = 1


class Settings:
    """The parameters of a machine, from the command line."""

    def __init__(self, kernel, **given):
        self.kernel = kernel
        self.accel = "tcg"
        self.cpus = 2
        self.mem = 2048
        self.cpu = ""
        self.append = ""
        self.overlay = "70%"
        self.shell = False
        self.keep = False
        self.role = None
        self.network = []
        self.icount = ""            # QEMU's -icount, or User Mode Linux' parameter, for a guest in virtual time
        self.plugin = ""
        self.environment = {}
        self.command = ["true"]
        self.cwd = "/"
        self.stage = ""
        self.root = "/"
        self.foreign = False        # the root is of another processor
        self.shared = ()
        self.log = None
        for name, value in given.items():
            setattr(self, name, value)


def board(settings):
    return BOARDS.get(getattr(settings.kernel, "arch", ""), BOARDS["amd64"])


def cpu_model(settings):
    base = board(settings).cpu if settings.accel == "tcg" else "host"
    if not settings.cpu:
        return base
    if settings.cpu[0] in "+-":
        return f"{base},{settings.cpu}"
    return settings.cpu


def cmdline(settings):
    """The kernel command line. With emulation it has the frequency of the host's time stamp counter."""
    khz = tsc.khz() if settings.accel == "tcg" and board(settings) == BOARDS["amd64"] else None
    if settings.icount:
        khz = ICOUNT_KHZ
    return f"{board(settings).cmdline}{BASE_CMDLINE} {f'tsc_early_khz={khz} ' if khz else ''}{settings.append}"


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class Machine:
    """A guest from its start to its power-off."""

    def __init__(self, settings, folder):
        self.settings = settings
        self.folder = folder
        self.process = None
        self.output = None
        self.control = folder / "control"
        self.errors = folder / "qemu.err"
        self.started = 0.0

    # -- start -----------------------------------------------------------

    def places(self):
        """The settings that the scripts in guest/ read."""
        return {"ROX_VM_FILES": "9p", "ROX_VM_TTY": "/dev/hvc0"}

    def job(self):
        s = self.settings
        settings = {
            **self.places(), "ROX_VM_OVERLAY": s.overlay, "ROX_VM_LOWER": s.root,
            "ROX_VM_SHARED": " ".join(map(str, s.shared)),
            "ROX_VM_SHELL": "1" if s.shell else "", "ROX_VM_KEEP": "1" if s.keep else "",
            "ROX_VM_ROLE": "" if s.role is None else str(s.role),
            "ROX_VM_LEAPS": "1" if s.icount.endswith("sleep=off") else "",
            **{k: v for k, v in s.environment.items() if k.startswith("ROX_VM_")},
        }
        command = ["umask 022", ". /run/rox-vm/environment", f"cd {shlex.quote(s.cwd)}",
                   "exec " + " ".join(map(shlex.quote, s.command))]
        return {
            "settings": exports(settings),
            "environment": exports({**settings, **s.environment}),
            "command": "\n".join(command) + "\n",
        }

    def arguments(self, output):
        s = self.settings
        accel = "kvm" if s.accel == "kvm" else f"tcg,thread={'single' if s.icount else 'multi'}"
        chars = [
            "-chardev", f"file,id=log,path={s.log}", "-serial", "chardev:log",
            "-device", "virtio-serial-pci",
            "-chardev", f"file,id=out,path=/proc/self/fd/{output}",
            "-device", "virtserialport,chardev=out,name=rox.out",
            "-chardev", f"file,id=ctl,path={self.control}",
            "-device", "virtserialport,chardev=ctl,name=rox.ctl",
        ]
        if s.shell:
            chars += ["-chardev", "stdio,id=tty,signal=off", "-device", "virtconsole,chardev=tty"]
        return [
            board(s).program, "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", board(s).machine, "-accel", accel, "-cpu", cpu_model(s),
            "-smp", str(s.cpus), "-m", str(s.mem), "-device", "virtio-rng-pci",
            "-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off",
            *files("root", s.root), *files("stage", s.stage), *(files("host", "/") if s.shared else []),
            "-kernel", str(s.kernel.image), "-initrd", str(self.folder / "initrd"),
            "-append", cmdline(s), *chars, *s.network, *self.counting(),
        ]

    def counting(self):
        """Arguments for a plugin, and for a clock that counts instructions."""
        arguments = ["-icount", self.settings.icount] if self.settings.icount else []
        if self.settings.plugin:
            role = f".{self.settings.role}" if self.settings.role is not None else ""
            arguments += ["-plugin", f"{self.settings.plugin}{role}"]
        return arguments

    def start(self):
        program = board(self.settings).program
        if shutil.which(program) is None:
            more = " FOR=arm64" if program == BOARDS["arm64"].program else ""
            raise HarnessError(f"{program} is not installed: run `make deps{more}`")
        (self.folder / "initrd").write_bytes(initramfs.build(
            self.settings.kernel, self.job(), self.settings.root if self.settings.foreign else "/",
            initramfs.at_hand() if self.settings.root == "/" else ()))
        self.control.touch()
        reader, writer = os.pipe()
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                self.arguments(writer), pass_fds=(writer,), preexec_fn=die_with_parent,
                stdin=None if self.settings.shell else subprocess.DEVNULL,
                stdout=None if self.settings.shell else errors, stderr=errors)
        os.close(writer)
        self.output = reader
        self.started = time.monotonic()

    # -- while it runs ---------------------------------------------------

    def running(self):
        return self.process is not None and self.process.poll() is None

    def aborted(self):
        """True if the emulator itself failed, not the guest."""
        return self.process is not None and self.process.poll() == -signal.SIGABRT

    def control_words(self):
        """The guest's reports: {"up": seconds, "status": number}."""
        words = (line.split() for line in self.control.read_text(errors="replace").splitlines())
        return {w[0]: w[1] for w in words if len(w) == 2}

    def is_up(self):
        return "up" in self.control_words()

    def log_text(self):
        return self.settings.log.read_text(errors="replace").replace("\r", "")

    def send(self, number):
        """Sends a signal to the machine's process."""
        if self.running():
            self.process.send_signal(number)

    def dump_tasks(self, seconds=8):
        """Makes the kernel log blocked tasks, CPUs and all tasks, by SysRq on its keyboard."""
        try:
            with Monitor(self.folder / "qmp") as monitor:
                for key in "wlt":
                    monitor.press("alt", "sysrq", key)
                    time.sleep(seconds / 4)
        except (OSError, ValueError):
            pass

    def kill(self):
        if self.running():
            self.process.kill()
        if self.process is not None:
            self.process.wait()

    # -- after its end ---------------------------------------------------

    def status(self):
        """The command's exit status, or None if the guest has not reported one."""
        word = self.control_words().get("status")
        return int(word) if word is not None else None


def files(name, path):
    """Arguments for a folder that the guest mounts as rox.<name>."""
    return ["-fsdev", f"local,id={name},path={path},security_model=none,readonly=on,multidevs=remap",
            "-device", f"virtio-9p-pci,fsdev={name},mount_tag=rox.{name}"]


def exports(values):
    return "".join(f"export {k}={shlex.quote(str(v))}\n" for k, v in values.items())


class Monitor:
    """A client of QEMU's machine protocol, for the few commands that are used here."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(5)
        self.socket.connect(str(path))
        self.stream = self.socket.makefile("rw")
        self.stream.readline()
        self.execute("qmp_capabilities")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.socket.close()

    def execute(self, name, **arguments):
        self.stream.write(json.dumps({"execute": name, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            answer = json.loads(self.stream.readline())
            if "return" in answer or "error" in answer:
                return answer

    def press(self, *keys):
        codes = [{"type": "qcode", "data": key} for key in keys]
        self.execute("send-key", keys=codes, **{"hold-time": 200})


class Streams:
    """Copies the output of the machines; line by line if there are several."""

    def __init__(self, machines, sink):
        self.selector = selectors.DefaultSelector()
        self.sink = sink
        self.prefixed = len(machines) > 1
        self.rest = {}
        for machine in machines:
            self.rest[machine] = b""
            self.selector.register(machine.output, selectors.EVENT_READ, machine)

    def open(self):
        return bool(self.selector.get_map())

    def pump(self, seconds):
        for key, _ in self.selector.select(seconds):
            data = os.read(key.fd, 65536)
            if not data:
                self.selector.unregister(key.fd)
                os.close(key.fd)
            self.write(key.data, data)

    def write(self, machine, data):
        if self.prefixed:
            lines = (self.rest[machine] + data).split(b"\n")
            self.rest[machine] = lines.pop() if data else b""
            label = f"{machine.settings.role}| ".encode()
            data = b"".join(label + line + b"\n" for line in lines if line or data)
        self.sink.write(data)
        self.sink.flush()
