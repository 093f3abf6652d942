# SPDX-License-Identifier: GPL-2.0
"""Where a program runs: in a network namespace of this guest, or in the other guest."""

import json
import os
import socket
import subprocess
import tempfile
import time

PORT = 4700
LISTEN_SECONDS = 60             # perf is large, and is read over 9p
CONNECT_SECONDS = 90
TCP_LISTEN = "0A"
LIMIT = 60                      # seconds for a program


class Failed(Exception):
    """A program failed."""


class Job:
    """A running program."""

    def __init__(self, namespace, command, limit):
        self.output = tempfile.TemporaryFile()
        self.command = command
        inside = ["ip", "netns", "exec", namespace] if namespace else []
        self.process = subprocess.Popen(["timeout", "-k", "5", str(limit), *inside, *command],
                                        stdin=subprocess.DEVNULL, stdout=self.output,
                                        stderr=subprocess.STDOUT)

    def so_far(self):
        size = os.fstat(self.output.fileno()).st_size
        return os.pread(self.output.fileno(), size, 0).decode(errors="replace")

    def wait(self):
        status = self.process.wait()
        self.output.seek(0)
        text = self.output.read().decode(errors="replace")
        self.output.close()
        return status, text


def listens(namespace, port):
    """True if a TCP socket listens there, also one without a process (siw's)."""
    prefix = ["ip", "netns", "exec", namespace] if namespace else []
    shown = subprocess.run([*prefix, "cat", "/proc/net/tcp", "/proc/net/tcp6"], text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False).stdout
    rows = [line.split() for line in shown.splitlines() if ":" in line]
    return any(len(row) > 3 and row[3] == TCP_LISTEN and int(row[1].rsplit(":", 1)[1], 16) == port
               for row in rows)


def cpu_seconds():
    """The busy time of this guest's CPUs since boot."""
    with open("/proc/stat", encoding="ascii") as stat:
        user, nice, system, _idle, _iowait, irq, softirq = map(int, stat.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


class Local:
    """A namespace of this guest; None is the first one."""

    def __init__(self, namespace=None):
        self.namespace = namespace

    def start(self, command, port=None, limit=LIMIT):
        """Starts a program, and waits until it listens if it is a server."""
        job = Job(self.namespace, command, limit)
        until = time.monotonic() + LISTEN_SECONDS
        while port and time.monotonic() < until and job.process.poll() is None:
            if listens(self.namespace, port):
                break
            time.sleep(0.03)
        return job

    def wait(self, job):
        return job.wait()

    def progress(self, job):
        """What it has printed so far, and whether it still runs."""
        return job.so_far(), job.process.poll() is None

    def kill(self, job):
        job.process.terminate()

    def run(self, *command, limit=LIMIT):
        return self.wait(self.start(list(command), None, limit))


class Remote:
    """The other guest, in which serve() runs."""

    def __init__(self, host):
        until = time.monotonic() + CONNECT_SECONDS
        while True:
            try:
                self.socket = socket.create_connection((host, PORT), timeout=10)
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.3)
        self.socket.settimeout(120)
        self.stream = self.socket.makefile("rw")

    def ask(self, *request):
        self.stream.write(json.dumps(request) + "\n")
        self.stream.flush()
        return json.loads(self.stream.readline())

    def start(self, command, port=None, limit=LIMIT):
        return self.ask("start", command, port, limit)

    def wait(self, job):
        return self.ask("wait", job)

    def progress(self, job):
        return self.ask("progress", job)

    def kill(self, job):
        self.ask("kill", job)

    def run(self, *command, limit=LIMIT):
        return self.wait(self.start(list(command), None, limit))

    def cpu_seconds(self):
        return self.ask("cpu")

    def stop(self):
        self.ask("stop")


def serve():
    """Serves a Remote of the other guest until it sends "stop" or disconnects."""
    side, jobs = Local(), []
    listener = socket.create_server(("", PORT))
    listener.settimeout(CONNECT_SECONDS)
    connection, _ = listener.accept()
    with connection, connection.makefile("rw") as stream:
        for line in stream:
            verb, *given = json.loads(line)
            answer = None
            if verb == "start":
                jobs.append(side.start(*given))
                answer = len(jobs) - 1
            elif verb == "wait":
                answer = side.wait(jobs[given[0]])
            elif verb == "progress":
                answer = side.progress(jobs[given[0]])
            elif verb == "kill":
                side.kill(jobs[given[0]])
            elif verb == "cpu":
                answer = cpu_seconds()
            stream.write(json.dumps(answer) + "\n")
            stream.flush()
            if verb == "stop":
                return
