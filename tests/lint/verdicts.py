# SPDX-License-Identifier: GPL-2.0
"""Runs the cases of one file of Python's unittest; prints a line for each, of a verdict and its name.

usage: verdicts.py FILE
"""

import contextlib
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))


class Verdicts(unittest.TextTestResult):
    """What failed is explained on the standard error, as usual."""

    def stopTest(self, test):
        super().stopTest(test)
        bad = {case.id() for case, _ in self.failures + self.errors}
        bad |= {getattr(case, "test_case", case).id() for case, _ in self.failures + self.errors}
        verdict = "not ok" if test.id() in bad or test in self.unexpectedSuccesses else "ok"
        print(f"{verdict}\t{test.id().removeprefix('_FailedTest.')}", file=sys.__stdout__, flush=True)


def main(path):
    suite = unittest.defaultTestLoader.discover(str(Path(path).parent), Path(path).name)
    # What is tested prints, too.
    with contextlib.redirect_stdout(sys.stderr):
        result = unittest.TextTestRunner(stream=sys.stderr, resultclass=Verdicts).run(suite)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
