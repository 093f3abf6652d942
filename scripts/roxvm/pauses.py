# SPDX-License-Identifier: GPL-2.0
"""Suspend machines from time to time: their clocks jump, as after a pause of a real host."""

import signal
import time


class Pauses:
    """Every `every` seconds stops one of the machines, in turn, for `length` seconds."""

    def __init__(self, every, length):
        self.every = every
        self.length = length
        self.count = 0
        self._stopped = None
        self._next = None

    @classmethod
    def parse(cls, text):
        """Parses "EVERY,SECONDS"."""
        every, length = (float(part) for part in text.split(","))
        if every <= 0 or length <= 0:
            raise ValueError(text)
        return cls(every, length)

    def tick(self, machines):
        """Must be called repeatedly. The first pause comes after all machines have booted."""
        now = time.monotonic()
        if self._next is None:
            if all(machine.is_up() for machine in machines):
                self._next = now + self.every
            return
        if now < self._next:
            return
        if self._stopped:
            self.end()
            self._next = now + self.every
            return
        self._stopped = machines[self.count % len(machines)]
        self._stopped.send(signal.SIGSTOP)
        self.count += 1
        self._next = now + self.length

    def end(self):
        """Resumes the stopped machine."""
        if self._stopped:
            self._stopped.send(signal.SIGCONT)
            self._stopped = None
