# SPDX-License-Identifier: GPL-2.0
"""Machines that are suspended by their host now and then: for them time leaps."""

import signal
import time


class Pauses:
    """Every `every` seconds one of the machines stops for `length` seconds, in turn."""

    def __init__(self, every, length):
        self.every = every
        self.length = length
        self.count = 0
        self._stopped = None
        self._next = None

    @classmethod
    def parse(cls, text):
        """From "EVERY,SECONDS"."""
        every, length = (float(part) for part in text.split(","))
        if every <= 0 or length <= 0:
            raise ValueError(text)
        return cls(every, length)

    def tick(self, machines):
        """To be called again and again. A machine's first pause comes when all are up."""
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
        """Whoever is stopped goes on."""
        if self._stopped:
            self._stopped.send(signal.SIGCONT)
            self._stopped = None
