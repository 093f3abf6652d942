# SPDX-License-Identifier: GPL-2.0
"""A guest without a virtual machine: a User Mode Linux kernel, which runs as a program.

Its files are the host's, over hostfs. Instead of QEMU's serial ports it has serial
lines connected to file descriptors: a file for the kernel log, so that nothing is lost,
and sockets for the console, the command's output, and the guest's reports.
"""

import os
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

from . import initramfs
from .machine import Machine, die_with_parent

# No "panic=": with it User Mode Linux would restart after a panic instead of ending.
CMDLINE = ("loglevel=7 oops=panic printk.devkmsg=on rcupdate.rcu_cpu_stall_timeout=60 "
           "console=ttyS3 console=tty0 con=null ssl=null")
MCONSOLE_MAGIC, MCONSOLE_VERSION, MCONSOLE_DATA = 0xCAFEBABE, 2, 512


def memory_folder(folder, mem):
    """The folder for the file that is the guest's memory: a tmpfs with room, if code may run there."""
    shared = os.statvfs("/dev/shm")
    fits = shared.f_bavail * shared.f_frsize >= mem << 20
    return "/dev/shm" if fits and not shared.f_flag & os.ST_NOEXEC else str(folder)


def before_exec():
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


class UserModeMachine(Machine):
    """A User Mode Linux kernel from its start to its end."""

    def __init__(self, settings, folder):
        super().__init__(settings, folder)
        self.copiers = []

    def places(self):
        places = {"ROX_VM_FILES": "hostfs", "ROX_VM_STAGE": self.settings.stage,
                  "ROX_VM_TTY": "/dev/tty1",
                  "ROX_VM_OUT": "/dev/ttyS0", "ROX_VM_CTL": "/dev/ttyS1"}
        return {**super().places(), **places}

    def processors(self):
        """Several CPUs need programs that are not traced: a filter makes their system calls signals."""
        return ["seccomp=on", f"ncpus={self.settings.cpus}"] if self.settings.kernel.smp else []

    def command(self, console, output, control, log):
        s = self.settings
        lines = [f"con0=fd:{console}", f"ssl0=fd:{output}", f"ssl1=fd:{control}",
                 f"ssl3=fd:{log}"]
        if s.shell:
            lines.append("con1=fd:0,fd:1")
        return [str(s.kernel.image), f"mem={s.mem}M", f"initrd={self.folder / 'initrd'}",
                f"uml_dir={self.folder}", "umid=guest", *self.processors(), *lines, *CMDLINE.split(),
                *s.icount.split(), *s.append.split()]

    def start(self):
        (self.folder / "initrd").write_bytes(initramfs.build(self.settings.kernel, self.job()))
        self.control.touch()
        pairs = {name: socket.socketpair() for name in ("console", "output", "control")}
        ours = {name: pair[0].detach() for name, pair in pairs.items()}
        theirs = {name: pair[1].detach() for name, pair in pairs.items()}
        theirs["log"] = os.open(self.settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                self.command(**theirs), pass_fds=theirs.values(), preexec_fn=before_exec,
                env=dict(os.environ, TMPDIR=memory_folder(self.folder, self.settings.mem)),
                stdin=None if self.settings.shell else subprocess.DEVNULL,
                stdout=None if self.settings.shell else errors, stderr=errors)
        for descriptor in theirs.values():
            os.close(descriptor)
        for name, path in (("console", self.errors), ("control", self.control)):
            self.copiers.append(threading.Thread(target=copy, args=(ours[name], path), daemon=True))
            self.copiers[-1].start()
        self.output = ours["output"]
        self.started = time.monotonic()

    def running(self):
        if super().running():
            return True
        self.settle()
        return False

    def aborted(self):
        return False  # there is no emulator

    def settle(self):
        """Ends what is left of the guest and waits until its last output is copied."""
        if self.process is not None and self.copiers:
            # Some threads may have survived the process and keep its serial lines open.
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            for copier in self.copiers:
                copier.join(10)
            self.copiers = []

    def kill(self):
        super().kill()
        self.settle()

    def dump_tasks(self, seconds=8):
        """Makes the kernel log blocked tasks and all tasks, by its management console."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as console:
            console.bind(str(self.folder / "asking"))
            for key in "wt":
                data = f"sysrq {key}".encode()
                try:
                    console.sendto(struct.pack(f"III{MCONSOLE_DATA}s", MCONSOLE_MAGIC,
                                               MCONSOLE_VERSION, len(data), data),
                                   str(self.folder / "guest/mconsole"))
                except OSError:
                    return
                time.sleep(seconds / 4)


def copy(descriptor, path):
    with open(descriptor, "rb", buffering=0) as source, open(path, "ab", buffering=0) as target:
        while data := source.read(65536):
            target.write(data)
