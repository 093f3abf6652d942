#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0
"""rox-run on a terminal: the size, a resize, Ctrl-C, Ctrl-Z and the shell's own job control.

usage: terminal.py COMMAND...    the command that starts rox-run, without rox-run's arguments
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

LIMIT = 300


class Session:
    """A command on a terminal of its own, as the leader of a job in the foreground."""

    def __init__(self, command, rows=33, columns=101):
        self.seen = ""
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            self.set_size(0, rows, columns)
            os.execvp(command[0], command)

    @staticmethod
    def set_size(fd, rows, columns):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def send(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern):
        """Waits until the terminal shows that, and returns the match."""
        end = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.seen)):
            readable = select.select([self.master], [], [], 1)[0]
            if time.monotonic() > end or not readable and self.ended():
                raise SystemExit(f"not seen: {pattern}\nseen:\n{self.seen}")
            if not readable:
                continue
            try:
                self.seen += os.read(self.master, 4096).decode(errors="replace")
            except OSError:
                raise SystemExit(f"ended before: {pattern}\nseen:\n{self.seen}") from None
        self.seen = self.seen[match.end():]
        return match

    def await_raw(self):
        """Waits until rox-run has the terminal: what is typed before is shown by both terminals."""
        end = time.monotonic() + LIMIT
        while termios.tcgetattr(self.master)[3] & (termios.ICANON | termios.ECHO):
            if time.monotonic() > end:
                raise SystemExit(f"the terminal does not become raw; seen:\n{self.seen}")
            time.sleep(0.05)

    def ended(self):
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def status(self):
        end = time.monotonic() + LIMIT
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    pass
        raise SystemExit(f"it does not end; seen:\n{self.seen}")


def equal(expected, got, what):
    if expected != got:
        raise SystemExit(f"{what}: expected {expected}, but it is {got}")


def sizes(rox_run):
    session = Session([*rox_run, "--", "sh", "-c",
                       "stty size; trap 'stty size; exit 4' WINCH; echo ready; while :; do sleep 0.1; done"])
    session.expect(r"33 101\r\n")
    session.expect("ready")
    Session.set_size(session.master, 44, 90)
    session.expect(r"44 90\r\n")
    equal(4, session.status(), "status")


def interrupts(rox_run):
    session = Session([*rox_run, "--", "sh", "-c", "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.1; done"])
    session.expect("ready")
    session.send("\x03")
    session.expect("caught")
    equal(3, session.status(), "status")


def stops(rox_run):
    """From a shell: Ctrl-Z stops rox-run, whose terminal is as before then; fg goes on."""
    command = " ".join(rox_run) + " -- cat"
    session = Session(["bash", "--norc", "--noprofile", "--noediting", "-i"])
    session.send("PS1='next''# '\n")
    session.send(command + "\n")
    session.expect("-- cat\r\n")
    session.await_raw()
    session.send("once\n")
    session.expect(r"once\r\n.*once\r\n")
    session.send("\x1a")
    session.expect("Stopped")
    session.send("stty -a | tr ';' '\\n' | grep -o ' -*icanon'\n")
    session.expect(r" icanon")
    session.send("fg\n")
    session.expect("-- cat\r\n")
    session.await_raw()
    session.send("again\n")
    session.expect(r"again\r\n.*again\r\n")
    session.send("\x1a")
    session.expect("Stopped")
    # In the background it reads nothing of what is for the shell, and is not stopped by it.
    session.send("bg\n")
    session.expect("-- cat &")
    session.send("sleep 1; echo; jobs\n")
    session.expect("Running")
    session.send("fg\n")
    session.expect("-- cat\r\n")
    session.await_raw()
    session.send("last\n")
    session.expect(r"last\r\n.*last\r\n")
    session.send("\x04")
    session.expect("next# ")
    session.send("echo status $?\n")
    session.expect("status 0")
    session.send("exit\n")
    session.status()


def interrupts_early(rox_run):
    """Ctrl-C while the kernel starts ends rox-run by that signal; if the command runs already it is the command's."""
    session = Session([*rox_run, "--", "sleep", "1000"])
    time.sleep(0.1)
    session.send("\x03")
    status = session.status()
    equal(True, status in (-signal.SIGINT, 128 + signal.SIGINT), f"status {status}")


def has_jobs(rox_run):
    """The shell inside has job control of its own."""
    session = Session([*rox_run, "--", "bash", "--norc", "--noprofile", "-i"])
    session.expect(r"bash-[\d.]+[#$] ")
    session.send("sh -c 'echo be\"\"gun; exec sleep 100'\n")
    session.expect("begun")
    session.send("\x1a")
    session.expect("Stopped")
    session.send("bg; jobs\n")
    session.expect("Running")
    session.send("exit 6\n")
    session.send("exit 6\n")
    equal(6, session.status(), "status")


def main():
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    for check in (sizes, interrupts, interrupts_early, stops, has_jobs):
        print(check.__name__)
        check(sys.argv[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
