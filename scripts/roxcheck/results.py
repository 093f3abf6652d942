# SPDX-License-Identifier: GPL-2.0
"""Count test cases in what a group prints, be it GoogleTest or TAP."""

import re
from collections import namedtuple

TAP = re.compile(r"^(not )?ok\b(?:\s+\d+)?(?:\s*-)?\s*(.*?)\s*(?:# *(SKIP|TODO)\b.*)?$", re.I)
TAP_PLAN = re.compile(r"^1\.\.(\d+)\s*$")
TAP_BAIL = re.compile(r"^Bail out!\s*(.*)")
GTEST_RUN = re.compile(r"^\[ RUN {6}\] (\S+)")
# The summary at the end names failed and skipped tests again, without a time.
GTEST_END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)? ?\(\d+ ms\)\s*$")
GUEST = re.compile(r"^([01])\| ")
HARNESS = re.compile(r"^scripts/vm: |^  \[")
TAP_COMMENT = re.compile(r"^# ?(.*)")
# A program that did not just fail cases.
CRASHED = re.compile(r"\bended with status \d+$")
# What tap_run says of a case before its own output.
TAP_STATUS = re.compile(r"^status \d+ of: ")
# Which part of a group the cases that follow belong to (tests/lib.sh).
PART = re.compile(r"^# part: ?(.*)")
# A program was run again (tests/cases.sh), a guest was booted again, a kernel complained (scripts/roxvm/cli.py).
REPEATED = re.compile(r"^# again: ")
BOOTED_AGAIN = re.compile(r"^scripts/vm: the guest did not boot; once more\b")
COMPLAINT = re.compile(r"^scripts/vm: the kernel complained\b")
# Of two guests one was lost, or a guest ended before its command.
LOST = re.compile(r"^scripts/vm: (ended because the other guest failed|the guest ended before)")
STATUS_BOOT = 125

DETAIL_LINES = 80
REASON_LINES = 3
REASON_LENGTH = 300


# A case that has failed by itself, so that it can be tried again: its part of the group, and its name.
Failed = namedtuple("Failed", "part name")


def _keep(lines, text):
    if lines is not None and len(lines) < DETAIL_LINES:
        lines.append(text)


class Results:
    """The cases of one group as they come in, line by line."""

    def __init__(self, group):
        self.group = group
        self.passed = 0
        self.passed_names = []
        self.failed = []
        self.details = {}               # failed case -> what it has said
        self.skipped = []
        self.repeated = 0               # programs that were run again
        self.booted_again = 0           # guests
        self.cases = []                 # Failed: what can be tried again by itself
        self.complained = False         # the kernel did
        self.never_began = False        # a guest did not boot, or was lost before the first case
        self.cpu = 0.0                  # seconds of the host's CPUs
        self._part = {}                 # guest -> the part of the group that is under way
        self.running = {}               # guest -> the GoogleTest case under way
        self.plan = {}                  # guest -> cases that a TAP plan promised
        self.tap_seen = {}
        self._lost = False
        self._harness = []              # what scripts/vm has said
        self._said = {}                 # guest -> lines of its GoogleTest case under way
        self._explained = {}            # guest -> lines of the failed TAP case before

    def line(self, text):
        guest = ""
        match = GUEST.match(text)
        if match:
            guest, text = match.group(1), text[match.end():]
        elif HARNESS.match(text):
            self.booted_again += bool(BOOTED_AGAIN.match(text))
            self.complained |= bool(COMPLAINT.match(text))
            self._lost |= bool(LOST.match(text))
            _keep(self._harness, text)
            return False
        self.repeated += bool(REPEATED.match(text))
        part = PART.match(text)
        if part:
            self._part[guest] = part.group(1).strip()
        return self._gtest(guest, text) or self._tap(guest, text)

    def _gtest(self, guest, text):
        match = GTEST_RUN.match(text)
        if match:
            self._unfinished(guest)
            self.running[guest] = match.group(1)
            self._said[guest] = []
            return True
        match = GTEST_END.match(text)
        if not match:
            _keep(self._said.get(guest), text)
            return False
        self.running.pop(guest, None)
        self._count(match.group(2), {"OK": "passed", "FAILED": "failed"}.get(
            match.group(1), "skipped"), self._said.pop(guest, []), guest)
        return True

    def _tap(self, guest, text):
        match = TAP.match(text)
        if match:
            self.tap_seen[guest] = self.tap_seen.get(guest, 0) + 1
            word = (match.group(3) or "").upper()
            self._explained[guest] = []
            self._count(match.group(2) or f"case {self.tap_seen[guest]}",
                        "skipped" if word == "SKIP" else
                        "failed" if match.group(1) else "passed", self._explained[guest], guest)
            return True
        match = TAP_COMMENT.match(text)
        if match:
            _keep(self._explained.get(guest), match.group(1))
            return True
        match = TAP_PLAN.match(text)
        if match:
            self.plan[guest] = self.plan.get(guest, 0) + int(match.group(1))
            return True
        match = TAP_BAIL.match(text)
        if match:
            self.fail(f"bail out: {match.group(1)}")
            return True
        return False

    def _count(self, name, verdict, said=(), guest=None):
        if verdict == "passed":
            self.passed += 1
            self.passed_names.append(name)
        elif verdict == "skipped":
            self.skipped.append(f"{self.group}: {name}")
        else:
            self.fail(name, said)
            if guest is not None and not CRASHED.search(name):
                self.cases.append(Failed(self._part.get(guest, ""), name))

    def _unfinished(self, guest):
        name = self.running.pop(guest, None)
        if name:
            self._count(f"{name} (began and did not end)", "failed",
                        self._said.pop(guest, []))

    def reason(self, name):
        """Why a case failed, in one line; what CI shows of a run may be no more than its end."""
        lines = [line for line in self.details.get(name, ())
                 if line.strip() and not TAP_STATUS.match(line)]
        return " | ".join(line.strip() for line in lines[:REASON_LINES])[:REASON_LENGTH]

    def can_try_again(self):
        """True if all that failed are cases that ended, each by itself."""
        return bool(self.failed) and not self.complained and len(self.cases) == len(self.failed)

    def forgive(self, case):
        """Counts a case that has passed when it was tried again. Returns why it had failed."""
        name = f"{self.group}: {case.name}"
        why = self.reason(name)
        self.failed.remove(name)
        self.cases.remove(case)
        self.passed += 1
        self.passed_names.append(case.name)
        return why

    def fail(self, reason, said=()):
        name = f"{self.group}: {reason}"
        self.failed.append(name)
        self.details[name] = said

    def finish(self, status, failures_explain=True):
        """Judge the group as a whole once it has ended with `status`."""
        for guest in list(self.running):
            self._unfinished(guest)
        for guest, planned in self.plan.items():
            if planned != self.tap_seen.get(guest, 0):
                self.fail(f"planned {planned} cases, ran {self.tap_seen.get(guest, 0)}")
        self.never_began = not self.passed and not self.failed and (status == STATUS_BOOT or self._lost)
        # Status 1 is how a script says that the cases above failed; any other
        # one (a crash, a time limit, a dirty kernel log) is a failure of its own.
        if status and not (status == 1 and self.failed and failures_explain):
            self.fail(f"ended with status {status}{MEANING.get(status, '')}", self._harness)
        if not self.passed and not self.failed:
            self.fail("no test case passed")


MEANING = {70: " (the kernel complained)", 71: " (the guest crashed)",
           124: " (time limit)", 125: " (the guest did not boot)"}
