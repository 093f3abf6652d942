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

from . import initramfs, tsc
from .paths import HarnessError

BASE_CMDLINE = (
    "console=ttyS0,115200 loglevel=7 panic=-1 oops=panic nokaslr "
    "random.trust_cpu=on mitigations=off no_timer_check net.ifnames=0 "
    "tsc=reliable clocksource=tsc rcupdate.rcu_cpu_stall_timeout=60 ")
# Byte-wise string instructions are far slower than the rest when emulated.
EMULATED_CPU = "max,-erms,-fsrm"
# In virtual time a guest's clock counts its instructions, each of 2^SHIFT nanoseconds, on all of its CPUs,
# which run in turn; the time stamp counter counts these nanoseconds.
ICOUNT_KHZ = 1_000_000
PR_SET_PDEATHSIG = 1


class Settings:
    """How a machine is to be built. Plain data, filled by the command line."""

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
        self.icount = ""            # QEMU's -icount, for a guest in virtual time
        self.environment = {}
        self.command = ["true"]
        self.cwd = "/"
        self.stage = ""
        self.log = None
        for name, value in given.items():
            setattr(self, name, value)


def cpu_model(settings):
    base = EMULATED_CPU if settings.accel == "tcg" else "host"
    if not settings.cpu:
        return base
    if settings.cpu[0] in "+-":
        return f"{base},{settings.cpu}"
    return settings.cpu


def cmdline(settings):
    """The kernel's, with the speed of its clock where that is the host's."""
    khz = ICOUNT_KHZ if settings.icount else tsc.khz() if settings.accel == "tcg" else None
    return f"{BASE_CMDLINE} {f'tsc_early_khz={khz} ' if khz else ''}{settings.append}"


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
        """Where the guest finds what it needs; see guest/."""
        return {"ROX_VM_FILES": "9p", "ROX_VM_TTY": "/dev/hvc0"}

    def job(self):
        s = self.settings
        settings = {
            **self.places(), "ROX_VM_OVERLAY": s.overlay,
            "ROX_VM_SHELL": "1" if s.shell else "", "ROX_VM_KEEP": "1" if s.keep else "",
            "ROX_VM_ROLE": "" if s.role is None else str(s.role),
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
            "qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none",
            "-no-reboot", "-machine", "q35", "-accel", accel, "-cpu", cpu_model(s),
            "-smp", str(s.cpus), "-m", str(s.mem), "-device", "virtio-rng-pci",
            "-qmp", f"unix:{self.folder / 'qmp'},server=on,wait=off",
            "-fsdev", "local,id=root,path=/,security_model=none,readonly=on,multidevs=remap",
            "-device", "virtio-9p-pci,fsdev=root,mount_tag=rox.root",
            "-fsdev", f"local,id=stage,path={s.stage},security_model=none,readonly=on",
            "-device", "virtio-9p-pci,fsdev=stage,mount_tag=rox.stage",
            "-kernel", str(s.kernel.image), "-initrd", str(self.folder / "initrd"),
            "-append", cmdline(s), *chars, *s.network, *(("-icount", s.icount) if s.icount else ()),
        ]

    def start(self):
        if shutil.which("qemu-system-x86_64") is None:
            raise HarnessError("qemu-system-x86_64 is not installed: run `make deps`")
        (self.folder / "initrd").write_bytes(initramfs.build(self.settings.kernel, self.job()))
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
        """Did the emulator, not the guest, give up?"""
        return self.process is not None and self.process.poll() == -signal.SIGABRT

    def control_words(self):
        """What the guest has said: {"up": seconds, "status": number}."""
        words = (line.split() for line in self.control.read_text(errors="replace").splitlines())
        return {w[0]: w[1] for w in words if len(w) == 2}

    def is_up(self):
        return "up" in self.control_words()

    def log_text(self):
        return self.settings.log.read_text(errors="replace").replace("\r", "")

    def send(self, number):
        """A signal to the process that is the machine."""
        if self.running():
            self.process.send_signal(number)

    def dump_tasks(self, seconds=8):
        """Ask the kernel by its keyboard to log blocked tasks, CPUs and all tasks."""
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

    # -- after it --------------------------------------------------------

    def status(self):
        """The command's exit status, or None if the guest did not get there."""
        word = self.control_words().get("status")
        return int(word) if word is not None else None


def exports(values):
    return "".join(f"export {k}={shlex.quote(str(v))}\n" for k, v in values.items())


class Monitor:
    """QEMU's machine protocol, as much of it as we use."""

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
    """Copies the machines' output to ours, whole lines if there are several."""

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
