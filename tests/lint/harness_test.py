# SPDX-License-Identifier: GPL-2.0
"""What judges the tests: the kernel log's filter, the counting of cases, the README's proofs."""

import json
import subprocess
import unittest

from roxbench import targets
from roxcheck import cli, features, ktap
from roxcheck.results import Results
from roxvm import kernlog
from roxvm.paths import REPO

BAD = (
    "WARNING: CPU: 1 PID: 412 at kernel/foo.c:12 rox_foo+0x12/0x40 [rox]",
    "------------[ cut here ]------------",
    "BUG: kernel NULL pointer dereference, address: 0000000000000008",
    "BUG kmalloc-64 (Tainted: G           OE     ): Poison overwritten",
    "BUG kmalloc-192 (Not tainted): Right Redzone overwritten",
    "INFO: trying to register non-static key.",
    "INFO: task kworker/0:1:8 blocked for more than 100 seconds.",
    "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-.... } 21 jiffies s: 73",
    "rcu: INFO: rcu_preempt self-detected stall on CPU",
    "rcu: rcu_preempt kthread starved for 2500 jiffies! g1",
    "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [modprobe:9]",
    "Call Trace:",
    "Oops: 0000 [#1] PREEMPT SMP NOPTI",
    "refcount_t: underflow; use-after-free.",
    "BUG: KASAN: slab-use-after-free in rox_foo+0x1/0x2 [rox]",
    "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)",
    "kmemleak: Cannot allocate a kmemleak_object structure",
    "kmemleak: Kernel memory leak detector disabled",
    "unregister_netdevice: waiting for veth0 to become free. Usage count = 2",
    "rox-vm: LEAK: module rox cannot be unloaded, 1 references",
    "traps: prog[77] general protection fault ip:1 sp:2 error:0 in librox-rdmav34.so[7f]",
    "Out of memory: Killed process 99 (ring) total-vm:1kB",
)
GOOD = (
    "Linux version 6.12.95+deb12-amd64 (debian-kernel@lists.debian.org)",
    "rox: loading out-of-tree module taints kernel.",
    "rox: module verification failed: signature and/or required key missing - tainting kernel",
    "kmemleak: Kernel memory leak detector initialized (mem pool available: 15000)",
    "rcu: Preemptible hierarchical RCU implementation.",
    "traps: ib_send_lat[499] general protection fault ip:1 sp:2 error:0 in librdmacm.so.1[7f]",
    "Kernel command line: console=ttyS0 oops=panic slub_debug=FU,kmalloc-*",
    "Memory cgroup out of memory: Killed process 99 (limit) total-vm:1kB",
    "MDS: Vulnerable: Clear CPU buffers attempted, no microcode",
)
LIMIT = ["limit invoked oom-killer: gfp_mask=0x400cc0(GFP_KERNEL_ACCOUNT), order=0",
         "CPU: 1 PID: 99 Comm: limit Tainted: G OE 6.12", "Hardware name: QEMU", "Call Trace:",
         " <TASK>", " dump_stack_lvl+0x5d/0x80"]
ASKED = ["sysrq: Show Blocked State", "task:kworker state:D", "Call Trace:"]


def bad(*lines):
    return kernlog.bad_lines([f"[    1.234567] {line}" for line in lines])


class KernelLog(unittest.TestCase):
    def test_each_report_is_found(self):
        for line in BAD:
            with self.subTest(line):
                self.assertEqual(bad(GOOD[0], line, GOOD[0]), [1])

    def test_what_a_healthy_kernel_says_is_none(self):
        for line in GOOD:
            with self.subTest(line):
                self.assertEqual(bad(line), [])

    def test_limit_of_a_control_group_is_none(self):
        self.assertEqual(bad(*LIMIT), [])
        self.assertEqual(bad(*LIMIT, "Out of memory: Killed process 9 (x)"), [len(LIMIT)])
        self.assertEqual(bad(*LIMIT, *[""] * 20, "Call Trace:"), [len(LIMIT) + 20])

    def test_backtraces_that_were_asked_for_are_none(self):
        self.assertEqual(bad(*ASKED), [])
        self.assertEqual(bad("Call Trace:", *ASKED), [0])

    def test_taint(self):
        out, unsigned, warned, suites = 1 << 12, 1 << 13, 1 << 9, 1 << 18
        self.assertEqual(kernlog.taints(0, ""), "")
        self.assertEqual(kernlog.taints(out | unsigned, ""), "")
        self.assertEqual(kernlog.taints(out | warned, ""), "W")
        self.assertEqual(kernlog.taints(suites, ""), "N")
        self.assertEqual(kernlog.taints(suites, "[ 1.0]     # Subtest: rox_mr"), "")
        self.assertEqual(kernlog.taints(1 << 30, ""), "?")


def results(*lines, status=0, group="g 6.12"):
    found = Results(group)
    for line in lines:
        found.line(line)
    found.finish(status)
    return found


def report(prefix="", **cases):
    return f"gtest: {prefix} " + json.dumps({"testsuites": [{"name": "S", "testsuite": [
        {"name": name, **case} for name, case in cases.items()]}]})


PASSED = {"result": "COMPLETED"}


class Counting(unittest.TestCase):
    def test_googletest(self):
        found = results("[       OK ] S.Text (1 ms)", report(
            "two/", A=PASSED, B={"result": "COMPLETED", "failures": [{"failure": "x\ny"}]},
            C={"result": "SKIPPED"}, D={"result": "SUPPRESSED"}), status=1)
        self.assertEqual(found.passed_names, ["two/S.A"])
        self.assertEqual(found.failed, ["g 6.12: two/S.B"])
        self.assertEqual(found.details["g 6.12: two/S.B"], ["x", "y"])
        self.assertEqual(found.skipped, ["g 6.12: two/S.C", "g 6.12: two/S.D"])

    def test_googletest_that_ends_too_early(self):
        found = results(report(A=PASSED), "[ RUN      ] S.B", "it crashes",
                        "not ok - prog: ended with status 139 before its report", status=1)
        self.assertEqual(found.passed, 1)
        self.assertEqual(len(found.failed), 1)
        self.assertIn("it crashes", found.details[found.failed[0]])
        self.assertTrue(results("gtest:  {}").failed)

    def test_tap(self):
        found = results("ok 1 - a", "not ok 2 - b", "# why", "ok 3 - c # SKIP no", "1..3", status=1)
        self.assertEqual((found.passed, found.failed, found.skipped),
                         (1, ["g 6.12: b"], ["g 6.12: c"]))

    def test_tap_needs_its_plan(self):
        self.assertFalse(results("ok 1 - a", "1..1").failed)
        self.assertTrue(results("ok 1 - a").failed)
        self.assertTrue(results("ok 1 - a", "1..2").failed)
        self.assertTrue(results("0| ok 1 - a", "1| ok 1 - a", "1| 1..1").failed)

    def test_status_and_nothing(self):
        self.assertTrue(results("ok 1 - a", "1..1", status=70).failed)
        self.assertTrue(results().failed)

    def test_what_was_done_again(self):
        found = results("# again: perftest", "1| # again: perftest",
                        "scripts/vm: the guest did not boot; once more. QEMU said:",
                        "ok 1 - a", "1..1")
        self.assertFalse(found.failed)
        self.assertEqual(cli.repeats([found, found]), "4 repeated, 2 guests booted again")
        self.assertEqual(cli.summary([found]), "1 passed, 0 failed, 0 skipped")


def run(group, *names):
    return results(*(f"ok {i} - {name}" for i, name in enumerate(names, 1)), f"1..{len(names)}",
                   group=group)


class Proofs(unittest.TestCase):
    def reason(self, proof, *runs, cores=()):
        return features.unproved(proof, list(runs), cores)

    def test_on_each_kernel(self):
        old, new = run("verbs 6.1", "one/A"), run("verbs 6.12", "one/A")
        self.assertIsNone(self.reason("verbs: one/A", old, new))
        self.assertIsNone(self.reason("verbs: one/A", new))
        self.assertIsNotNone(self.reason("verbs: one/B", old, new))
        other = run("apps 6.1", "x")
        self.assertIsNotNone(self.reason("verbs: one/A", other, new), "has not run on 6.1")
        self.assertIsNone(self.reason("verbs 6.12: one/A", other, new))

    def test_a_core_proves_what_is_in_it(self):
        core, new = run("verbs 6.1", "one/A"), run("verbs 6.12", "one/A", "one/B")
        self.assertIsNone(self.reason("verbs 6.1: one/A", new, cores=[core]))
        self.assertIs(self.reason("verbs 6.1: one/B", new, cores=[core]), features.NOT_RUN)
        self.assertIsNone(self.reason("verbs: one/B", new, cores=[core]))
        self.assertIsNotNone(self.reason("verbs: one/C", new, cores=[core]))

    def test_a_skip_is_none(self):
        found = results("ok 1 - load: cpu # SKIP no", "ok 2 - x", "1..2", group="life 6.12")
        self.assertIsNotNone(self.reason("life: load: *", found))

    def test_kernels_that_were_built_prove_nothing(self):
        self.assertIs(self.reason("wire: A", run("wire uml", "A")), features.NOT_RUN)

    def test_what_is_so_on_one_kernel_only_is_said(self):
        self.assertEqual(list(features.unsaid(features.load()["feature"])), [])
        half = {"name": "x", "what": "y", "proof": ["net 6.12: a", "verbs: b"]}
        self.assertTrue(list(features.unsaid([half])))
        self.assertFalse(list(features.unsaid([half | {"only": {"6.12": "y"}}])))
        self.assertTrue(list(features.unsaid([half | {"only": {"6.1": "y"}}])))


KTAP = """KTAP version 1
1..1
    KTAP version 1
    # Subtest: rox_a
    1..3
    ok 1 plain
        KTAP version 1
        # Subtest: of_values
        ok 1 one
        not ok 2 two
    not ok 2 of_values
    ok 3 left_out # SKIP no
# rox_a: pass:1 fail:1 skip:1 total:3
not ok 1 rox_a
"""


class Ktap(unittest.TestCase):
    def test_cases_and_their_values(self):
        self.assertEqual(ktap.cases("rox_a", KTAP), [
            ("ok", "rox_a.plain"), ("ok", "rox_a.of_values: one"),
            ("not ok", "rox_a.of_values: two"), ("skip", "rox_a.left_out")])

    def test_what_is_missing_fails(self):
        for text in ("", KTAP.replace("    ok 1 plain\n", ""), "\n".join(KTAP.splitlines()[:-1])):
            self.assertIn("not ok", [v for v, name in ktap.cases("rox_a", text)
                                     if name.startswith("rox_a:")])


class Targets(unittest.TestCase):
    def test_what_was_not_measured_is_not_reached(self):
        verdicts = targets.judge([])
        self.assertTrue(verdicts)
        self.assertEqual(targets.missed(verdicts), [v["row"] for v in verdicts])
        self.assertEqual(targets.missed([{"row": "a", "reached": True}]), [])


if __name__ == "__main__":
    unittest.main()
