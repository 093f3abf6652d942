# SPDX-License-Identifier: GPL-2.0
"""Count test cases in the output of a group: GoogleTest's reports, or TAP."""

import json
import re
from collections import deque, namedtuple

TAP = re.compile(r"^(not )?ok\b(?:\s+\d+)?(?:\s*-)?\s*(.*?)\s*(?:# *(SKIP|TODO)\b.*)?$", re.I)
TAP_PLAN = re.compile(r"^1\.\.(\d+)\s*$")
TAP_BAIL = re.compile(r"^Bail out!\s*(.*)")
# A line of gtest_run (tests/lib.sh): a prefix for the names of the cases, then GoogleTest's report of a
# program. And the line that it prints if there is no report.
GTEST = re.compile(r"^gtest: (\S*) (\{.*\})\s*$")
GTEST_LOST = re.compile(r"before its report$")
GUEST = re.compile(r"^([01])\| ")
HARNESS = re.compile(r"^scripts/vm: |^  \[")
TAP_COMMENT = re.compile(r"^# ?(.*)")
# A program that did not just fail cases.
CRASHED = re.compile(r"\bended with status \d+( before its report)?$")
# The line that tap_run prints before the output of a failed case.
TAP_STATUS = re.compile(r"^status \d+ of: ")
# Which part of a group the cases that follow belong to (tests/lib.sh).
PART = re.compile(r"^# part: ?(.*)")
# A program was run again (tests/cases.sh), a guest was booted again, a kernel complained (scripts/roxvm/cli.py).
REPEATED = re.compile(r"^# again: ")
BOOTED_AGAIN = re.compile(r"^scripts/vm: the guest did not boot; once more\b")
COMPLAINT = re.compile(r"^scripts/vm: the (kernel complained|kernel is tainted|guest has not said whether)\b")
# Of two guests one was lost, or a guest ended before its command.
LOST = re.compile(r"^scripts/vm: (ended because the other guest failed|the guest ended before)")
STATUS_BOOT = 125

DETAIL_LINES = 80
TAIL_LINES = 40
REASON_LINES = 3
REASON_LENGTH = 300


# A case that has failed by itself, so that it can be tried again: its part of the group, and its name.
Failed = namedtuple("Failed", "part name")


def is_report(text):
    """True for lines that are not shown."""
    return bool(GTEST.match(GUEST.sub("", text)))


def _keep(lines, text):
    if lines is not None and len(lines) < DETAIL_LINES:
        lines.append(text)


class Results:
    """The cases of one group, from its output line by line."""

    def __init__(self, group):
        self.group = group
        self.passed = 0
        self.passed_names = []
        self.failed = []
        self.details = {}               # failed case -> its output
        self.skipped = []
        self.repeated = 0               # programs that were run again
        self.booted_again = 0           # guests
        self.cases = []                 # Failed: what can be tried again by itself
        self.complained = False         # the kernel did
        self.never_began = False        # a guest did not boot, or was lost before the first case
        self.cpu = 0.0                  # seconds of the host's CPUs
        self.plan = {}                  # guest -> cases that a TAP plan promised
        self.tap_seen = {}
        self._part = {}                 # guest -> the part of the group that is under way
        self._lost = False
        self._tap_passed = {}           # guest -> True after a TAP case passed or was skipped
        self._harness = []              # output of scripts/vm
        self._said = {}                 # guest -> its last lines
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
            return
        self.repeated += bool(REPEATED.match(text))
        part = PART.match(text)
        if part:
            self._part[guest] = part.group(1).strip()
        if not self._gtest(guest, text) and not self._tap(guest, text):
            self._said.setdefault(guest, deque(maxlen=TAIL_LINES)).append(text)

    def _gtest(self, guest, text):
        match = GTEST.match(text)
        if not match:
            return False
        self._said.pop(guest, None)
        try:
            suites = json.loads(match.group(2))["testsuites"]
            for suite in suites:
                for case in suite["testsuite"]:
                    self._gtest_case(f"{match.group(1)}{suite['name']}.{case['name']}", case, guest)
        except (ValueError, LookupError, TypeError) as error:
            self.fail(f"a report of GoogleTest cannot be read: {error!r}", [text[:REASON_LENGTH]])
        return True

    def _gtest_case(self, name, case, guest):
        """Counts a case of GoogleTest. A disabled case (DISABLED_) has not passed."""
        said = [line for failure in case.get("failures", ())
                for line in failure["failure"].splitlines()][:DETAIL_LINES]
        verdict = {"COMPLETED": "passed", "SKIPPED": "skipped", "SUPPRESSED": "skipped"}
        self._count(name, "failed" if said else verdict.get(case["result"], "failed"), said, guest)

    def _tap(self, guest, text):
        match = TAP.match(text)
        if match:
            self.tap_seen[guest] = self.tap_seen.get(guest, 0) + 1
            word = (match.group(3) or "").upper()
            self._tap_passed[guest] = self._tap_passed.get(guest, False) or not match.group(1)
            self._explained[guest] = []
            if GTEST_LOST.search(text):
                self._explained[guest] += self._said.pop(guest, ())
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

    def reason(self, name):
        """Why a case failed, in one line, for CI systems that show only the end of the output."""
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
        """Judges the group as a whole after its end with `status`."""
        for guest, seen in self.tap_seen.items():
            if guest not in self.plan and self._tap_passed.get(guest):
                self.fail(f"ran {seen} cases, and no plan says that these were all")
        for guest, planned in self.plan.items():
            if planned != self.tap_seen.get(guest, 0):
                self.fail(f"planned {planned} cases, ran {self.tap_seen.get(guest, 0)}")
        self.never_began = not self.passed and not self.failed and (status == STATUS_BOOT or self._lost)
        # Status 1 means that cases have failed. Any other status (crash, time limit, complaint in the
        # kernel log) is a failure of its own.
        if status and not (status == 1 and self.failed and failures_explain):
            self.fail(f"ended with status {status}{MEANING.get(status, '')}", self._harness)
        if not self.passed and not self.failed:
            self.fail("no test case passed")


MEANING = {70: " (the kernel complained)", 71: " (the guest crashed)",
           124: " (time limit)", 125: " (the guest did not boot)"}
