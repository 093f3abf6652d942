# SPDX-License-Identifier: GPL-2.0
"""What the gate tries again, and what it never does."""

import json
import time
import unittest

from roxcheck import again, features, table
from roxcheck.results import Results
from roxcheck.runs import Places, Run, command_of

ROW = table.Row("apps", "6.12", form="core", clock=1)


def results_of(text, status=1, group="apps 6.12"):
    results = Results(group)
    for line in text.splitlines():
        results.line(line)
    results.finish(status)
    return results


FAILS = """# part: table
ok 1 - a: one
not ok 2 - a: two
# status 1 of: case_run
# it went wrong
1..2"""
PASSES = "# part: table\nok 1 - a: two\n1..1"


class Again(unittest.TestCase):
    """again.try_again() with runs whose output is given."""

    def setUp(self):
        self.outputs = []
        self.commands = []
        again.Run, self.real = self.fake, again.Run

    def tearDown(self):
        again.Run = self.real

    def fake(self, row, case):
        self.commands.append(command_of(row, case))
        return lambda values, output: results_of(*self.outputs.pop(0))

    def gate(self, first, *later):
        self.outputs = list(later)
        self.results = [results_of(*first)]
        return again.try_again([Run(ROW)], self.results, {}, None)

    def test_passes_twice(self):
        unsteady = self.gate((FAILS,), (PASSES, 0), (PASSES, 0))
        self.assertEqual([("apps 6.12: a: two", "it went wrong")], [tuple(one) for one in unsteady])
        self.assertEqual((2, []), (self.results[0].passed, self.results[0].failed))
        self.assertIn("ROX_CASE=a: two", self.commands[0])
        self.assertIn("ROX_PART=table", self.commands[0])
        self.assertIn("ROX_QUICK=1", self.commands[0])

    def test_fails_once_more(self):
        for later in ([(FAILS,)], [(PASSES, 0), (FAILS,)], [(PASSES, 70)], [("1..0", 0)]):
            self.assertEqual([], self.gate((FAILS,), *later))
            self.assertEqual(["apps 6.12: a: two"], self.results[0].failed)

    def test_never_tried(self):
        crash = "not ok - one/mr ended with status 139"
        for first in ((FAILS, 71), (FAILS, 124), (FAILS.replace("1..2", "1..3"), 1), (f"{FAILS}\n{crash}", 1),
                      ("scripts/vm: the kernel complained, see x:\n  WARNING: x\n" + FAILS, 1),
                      ("gtest: one/ {}", 1), ("ok 1 - a\n1..1", 70)):
            self.assertEqual([], self.gate(first))
            self.assertTrue(self.results[0].failed)
            self.assertEqual([], self.commands)

    def test_too_many(self):
        many = "".join(f"not ok {i} - a: {i}\n" for i in range(1, again.MOST + 2)) + f"1..{again.MOST + 1}"
        self.assertEqual([], self.gate((many,)))
        self.assertEqual([], self.commands)

    def test_command_of_a_failure(self):
        results = results_of(FAILS)
        alone = again.alone(Run(ROW), results, results.failed[0])
        self.assertIn("'ROX_CASE=a: two'", alone)
        self.assertIn("scripts/vm --kernel 6.12", alone)


class Boots(unittest.TestCase):
    """Guests that did not come up."""

    def test_before_the_first_case(self):
        self.assertTrue(results_of("scripts/vm: the guest did not come up; from x:", 125).never_began)
        self.assertTrue(results_of("scripts/vm: ended because the other guest failed (guest 1); from", 71).never_began)

    def test_after_it(self):
        lost = "1| ok 1 - link\nscripts/vm: ended because the other guest failed (guest 1); from"
        self.assertFalse(results_of(lost, 71).never_began)
        self.assertFalse(results_of("", 70).never_began)

    def test_counts(self):
        results = results_of("scripts/vm: the guest did not boot; once more. QEMU\n# again: clock\nok 1 - a\n1..1", 0)
        self.assertEqual((1, 1), (results.booted_again, results.repeated))


class Table(unittest.TestCase):
    """The table of runs."""

    def test_every_group_is_in_both(self):
        for tier, without in ("check", {"roots", "packages"}), ("all", set()):
            rows = table.select(table.GROUPS, ["6.1", "6.12", "uml", "debug"], tier)
            self.assertEqual(set(table.GROUPS) - without, {row.group for row in rows})

    def test_the_gate_on_each_kernel(self):
        rows = table.select(table.GROUPS, ["6.1", "6.12", "uml"], "check")
        on = {kernel: {row.group for row in rows if row.kernel == kernel} for kernel in ("6.1", "6.12", "uml")}
        self.assertEqual({"verbs", "apps"}, on["6.1"])
        self.assertEqual(set(table.GROUPS) - {"lint", "unit", "install", "kunit", "roots", "packages"}, on["6.12"])
        self.assertEqual({"kunit", "wire"}, on["uml"])

    def test_one_kernel(self):
        rows = table.select(("verbs",), ["6.1"], "all", cpus=0)
        self.assertEqual([("verbs", "6.1", "full")], [(row.group, row.kernel, row.form) for row in rows])
        rows = table.select(("net", "wire"), ["debug"], "all", cpus=0)
        self.assertEqual({"net", "wire"}, {row.group for row in rows})


class PlacesOfTheHost(unittest.TestCase):
    """No more guests than CPUs."""

    def test_pairs_take_two(self):
        pair, one, other = (Run(table.Row("pair", "6.12", card="virtio")), Run(ROW), Run(ROW))
        busy, most = [0], [0]

        def call(run):
            busy[0] += run.row.guests
            most[0] = max(most[0], busy[0])
            time.sleep(0.05)
            busy[0] -= run.row.guests
            return run
        self.assertEqual([one, pair, other], Places(2).run_all([one, pair, other], call))
        self.assertEqual(2, most[0])


class Features(unittest.TestCase):
    """A mark in the README without a proof fails."""

    def test_nothing_ran(self):
        for judge in (features.judge, features.judge_gate):
            self.assertEqual(0, judge([results_of("ok 1 - a\n1..1", 0)]).passed)

    def test_one_proof_is_enough_for_the_gate(self):
        feature = {"RC": ["verbs: two/A.*", "verbs: two/B.*"]}
        report = {"testsuites": [{"name": "B", "testsuite": [{"name": "x", "result": "COMPLETED"}]}]}
        ran = results_of(f"gtest: two/ {json.dumps(report)}", 0, "verbs 6.12")
        self.assertIsNone(features.some_amiss(feature, [ran]))
        self.assertIsNotNone(features.some_amiss({"RC": feature["RC"][:1]}, [ran]))


if __name__ == "__main__":
    unittest.main()
