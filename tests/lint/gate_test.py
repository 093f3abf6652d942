# SPDX-License-Identifier: GPL-2.0
"""What the gate tries again, and what it never does."""

import io
import json
import os
import tempfile
import time
import unittest
import unittest.mock
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import replace

from roxcheck import again, features, runs, table
from roxcheck.results import Results
from roxcheck.runs import Output, Places, Run, command_of

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


class Tries(unittest.TestCase):
    """Cases are tried again with outputs that are given."""

    def setUp(self):
        self.outputs = []
        self.commands = []
        again.Run, self.real = self.fake, again.Run

    def tearDown(self):
        again.Run = self.real

    def fake(self, row, case):
        self.commands.append(command_of(row, case))
        return lambda values, output: results_of(*self.outputs.pop(0))


class Again(Tries):
    """again.try_again()."""

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


class StopEarly(Tries):
    """again.until_red(): rows that are left out once the gate is red whatever comes."""

    class FirstTry(Run):
        """A row whose output is given."""

        def __init__(self, group, text, status=1):
            super().__init__(replace(ROW, group=group))
            self._output = text, status

        def __call__(self, values, output):
            self.results = results_of(*self._output, group=f"{self.row.group} 6.12")
            self.watch()
            return self.results

    def early(self, *rows, later=()):
        """The groups that ran, and the unsteady cases, one guest at a time."""
        self.outputs = list(later)
        self.results, unsteady = again.until_red([self.FirstTry(*row) for row in rows], Places(1), {}, None)
        return [run.row.group for run in self.results], [one.name for one in unsteady]

    def failed(self):
        return sum(len(result.failed) for result in self.results.values())

    def test_green(self):
        self.assertEqual((["apps", "net"], []), self.early(("apps", PASSES, 0), ("net", PASSES, 0)))

    def test_unsteady_goes_on(self):
        ran = self.early(("apps", FAILS), ("net", PASSES, 0), later=[(PASSES, 0), (PASSES, 0)])
        self.assertEqual((["apps", "net"], ["apps 6.12: a: two"]), ran)
        self.assertEqual(0, self.failed())

    def test_fails_once_more(self):
        ran = self.early(("apps", FAILS), ("net", PASSES, 0), later=[(PASSES, 0), (FAILS,)])
        self.assertEqual((["apps"], []), ran)
        self.assertEqual(1, self.failed())

    def test_too_many(self):
        many = "".join(f"not ok {i} - a: {i}\n" for i in range(1, again.MOST + 2)) + f"1..{again.MOST + 1}"
        self.assertEqual((["apps"], []), self.early(("apps", many), ("net", PASSES, 0)))
        self.assertEqual([], self.commands)

    def test_too_many_in_several_rows(self):
        fails = "".join(f"not ok {i} - a: {i}\n" for i in range(1, again.MOST + 1)) + f"1..{again.MOST}"
        passes = [(f"ok 1 - a: {i}\n1..1", 0) for i in range(1, again.MOST + 1) for _ in range(again.TRIES)]
        groups, unsteady = self.early(("apps", fails), ("net", FAILS), ("wire", PASSES, 0), later=passes)
        self.assertEqual((["apps", "net"], again.MOST), (groups, len(unsteady)))
        self.assertEqual(1, self.failed())
        self.assertEqual([], self.outputs)

    def test_never_tried(self):
        self.assertEqual((["apps"], []), self.early(("apps", PASSES, 70), ("net", PASSES, 0)))
        self.assertEqual([], self.commands)

    def test_a_guest_under_way_is_ended(self):
        with unittest.mock.patch("roxcheck.runs.command_of", lambda row, case: SLOW if row.group == "net" else FAST):
            rows = Run(replace(ROW, group="net")), Run(ROW), Run(replace(ROW, group="wire"))
            began = time.monotonic()
            with redirect_stdout(io.StringIO()):
                results, _ = again.until_red(rows, Places(2), dict(os.environ), Output())
        self.assertLess(time.monotonic() - began, 60)
        self.assertEqual([rows[0], rows[1]], list(results))
        self.assertEqual([True, True], [run.ended for run in results])
        # What it has not come to is no failure of its own.
        self.assertEqual((1, []), (results[rows[0]].passed, results[rows[0]].failed))


    def test_a_guest_that_did_not_boot_ends_nobody(self):
        with tempfile.TemporaryDirectory() as folder:
            boots = ["bash", "-c", f"mkdir {folder}/tried && exit 125; echo ok 1 - x; echo 1..1"]
            waits = ["bash", "-c", f"until [[ -e {folder}/tried ]]; do :; done; sleep 1; echo ok 1 - y; echo 1..1"]
            with unittest.mock.patch("roxcheck.runs.command_of",
                                     lambda row, case: waits if row.group == "net" else boots):
                rows = Run(replace(ROW, group="net")), Run(ROW), Run(ROW)
                with redirect_stdout(io.StringIO()):
                    results, _ = again.until_red(rows, Places(2), dict(os.environ), Output())
        self.assertEqual(3, len(results))
        self.assertEqual([False] * 3, [run.ended for run in results])
        self.assertEqual([1, 1, 1], [result.passed for result in results.values()])
        self.assertEqual(1, results[rows[1]].booted_again)


SLOW = ["bash", "-c", "echo ok 1 - x; exec sleep 120"]
FAST = ["bash", "-c", "sleep 1; for i in 1 2 3 4 5 6; do echo not ok $i; done; echo 1..6; exit 1"]


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
        self.assertEqual(set(table.GROUPS) - {"lint", "unit", "install", "kunit", "roots", "packages", "run"}, on["6.12"])
        self.assertEqual({"kunit", "wire", "run"}, on["uml"])

    def test_one_kernel(self):
        rows = table.select(("verbs",), ["6.1"], "all", cpus=0)
        self.assertEqual([("verbs", "6.1", "full")], [(row.group, row.kernel, row.form) for row in rows])
        rows = table.select(("net", "wire"), ["debug"], "all", cpus=0)
        self.assertEqual({"net", "wire"}, {row.group for row in rows})


class BuiltBeside(unittest.TestCase):
    """Modules that are built while groups run on other kernels."""

    KERNELS = ["6.1", "6.12", "uml"]

    def test_all_but_the_newest(self):
        beside = [kernel for kernel in self.KERNELS if runs.is_built_beside(kernel, self.KERNELS)]
        self.assertEqual(["6.1", "uml"], beside)
        self.assertFalse(runs.is_built_beside("6.1", ["6.1", "uml"]))

    def test_rows_wait_for_them(self):
        rows = table.select(table.GROUPS, self.KERNELS, "check")
        asked = []
        with unittest.mock.patch.object(runs, "build_kernel", lambda kernel: asked.append(kernel) or f"no {kernel}"), \
                ThreadPoolExecutor(1) as builder:
            waiting = {run.row.label: run.ready and run.ready.result()
                       for run in runs.with_kernels(rows, self.KERNELS, builder)}
        self.assertEqual(["6.1", "uml"], asked)
        self.assertEqual(("no 6.1", "no 6.1", "no uml", None, None),
                         tuple(waiting[label] for label in ("verbs 6.1", "install", "kunit uml", "verbs 6.12", "lint")))

    def test_nothing_is_built(self):
        rows = table.select(table.GROUPS, self.KERNELS, "check")
        self.assertEqual([], [run for run in runs.with_kernels(rows, self.KERNELS, None) if run.ready])


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
        self.assertEqual({one: one, pair: pair, other: other}, Places(2).run_all([one, pair, other], call))
        self.assertEqual(2, most[0])

    def test_some_have_the_host_to_themselves(self):
        alone = [Run(row) for row in table.select(["verbs"], ["6.12", "kcsan"], "all") if row.kernel == "kcsan"]
        self.assertEqual(1, len(alone))
        now, beside = set(), []

        def call(run):
            now.add(run)
            beside.append((run, len(now)))
            time.sleep(0.05)
            beside.append((run, len(now)))
            now.remove(run)
        for jobs in (1, 4):
            Places(jobs).run_all([Run(ROW), *alone, Run(ROW), Run(ROW)], call)
        self.assertEqual({1}, {most for run, most in beside if run in alone})
        self.assertLess(1, max(most for _, most in beside))


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
