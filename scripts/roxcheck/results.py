# SPDX-License-Identifier: GPL-2.0
"""Count test cases in what a group prints, be it GoogleTest or TAP."""

import re

TAP = re.compile(r"^(not )?ok\b(?:\s+\d+)?(?:\s*-)?\s*(.*?)\s*(?:# *(SKIP|TODO)\b.*)?$", re.I)
TAP_PLAN = re.compile(r"^1\.\.(\d+)\s*$")
TAP_BAIL = re.compile(r"^Bail out!\s*(.*)")
GTEST_RUN = re.compile(r"^\[ RUN {6}\] (\S+)")
# The summary at the end names failed and skipped tests again, without a time.
GTEST_END = re.compile(r"^\[ +(OK|FAILED|SKIPPED) +\] (\S+?),?(?: .*)? ?\(\d+ ms\)\s*$")
GUEST = re.compile(r"^([01])\| ")


class Results:
    """The cases of one group as they come in, line by line."""

    def __init__(self, group):
        self.group = group
        self.passed = 0
        self.passed_names = []
        self.failed = []
        self.skipped = []
        self.running = {}               # guest -> the GoogleTest case under way
        self.plan = {}                  # guest -> cases that a TAP plan promised
        self.tap_seen = {}

    def line(self, text):
        guest = ""
        match = GUEST.match(text)
        if match:
            guest, text = match.group(1), text[match.end():]
        return self._gtest(guest, text) or self._tap(guest, text)

    def _gtest(self, guest, text):
        match = GTEST_RUN.match(text)
        if match:
            self._unfinished(guest)
            self.running[guest] = match.group(1)
            return True
        match = GTEST_END.match(text)
        if not match:
            return False
        self.running.pop(guest, None)
        self._count(match.group(2), {"OK": "passed", "FAILED": "failed"}.get(
            match.group(1), "skipped"))
        return True

    def _tap(self, guest, text):
        match = TAP.match(text)
        if match:
            self.tap_seen[guest] = self.tap_seen.get(guest, 0) + 1
            word = (match.group(3) or "").upper()
            self._count(match.group(2) or f"case {self.tap_seen[guest]}",
                        "skipped" if word == "SKIP" else
                        "failed" if match.group(1) else "passed")
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

    def _count(self, name, verdict):
        if verdict == "passed":
            self.passed += 1
            self.passed_names.append(name)
        else:
            getattr(self, verdict).append(f"{self.group}: {name}")

    def _unfinished(self, guest):
        name = self.running.pop(guest, None)
        if name:
            self._count(f"{name} (began and did not end)", "failed")

    def fail(self, reason):
        self.failed.append(f"{self.group}: {reason}")

    def finish(self, status, failures_explain=True):
        """Judge the group as a whole once it has ended with `status`."""
        for guest in list(self.running):
            self._unfinished(guest)
        for guest, planned in self.plan.items():
            if planned != self.tap_seen.get(guest, 0):
                self.fail(f"planned {planned} cases, ran {self.tap_seen.get(guest, 0)}")
        # Status 1 is how a script says that the cases above failed; any other
        # one (a crash, a time limit, a dirty kernel log) is a failure of its own.
        if status and not (status == 1 and self.failed and failures_explain):
            self.fail(f"ended with status {status}{MEANING.get(status, '')}")
        if not self.passed and not self.failed:
            self.fail("no test case passed")


MEANING = {70: " (the kernel complained)", 71: " (the guest crashed)",
           124: " (time limit)", 125: " (the guest did not boot)"}
