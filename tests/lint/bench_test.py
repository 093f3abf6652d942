# SPDX-License-Identifier: GPL-2.0
"""What judges the figures: the counting of instructions, and the plan of the benchmark with its targets."""

import io
import tempfile
import unittest
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from roxbench import boots, cli, count, counts, plan, report, stats, targets
from roxvm import cli as vm
from roxvm import machine, taps

SYMBOLS = counts.Symbols("ffffffff81000100 memcpy\nffffffff81000200 crc32_body\nffffffff81000300 rox_send [rox]\n"
                         "ffffffff81000400 do_idle")
# Columns: client, server, other, idle, wait.
LINES = """run 3
block ffffffff81000110 10 0 100 0 0 0 0
block ffffffff81000210 5 0 0 100 0 0 0
block ffffffff81000300 7 2 10 0 20 0 5
block ffffffff81000410 9 1 0 0 0 1000 0
block 401000 4 1 10 20 0 0 1000
bytes ffffffff81000100 0 1 0 0 0 0 4096 0 0 0 0
bytes ffffffff81000200 1 0 2 0 0 0 0 8192 0 0 0
end 3
run 4
block ffffffff81000110 10 0 100 0 0 0 0
""".splitlines()


class Counts(unittest.TestCase):
    def setUp(self):
        self.runs = counts.parse(LINES, SYMBOLS)
        self.figures = counts.figures(self.runs[3], 10)

    def test_a_run_without_an_end_is_left_out(self):
        self.assertEqual(list(self.runs), [3])

    def test_loops_of_copy_and_crc_are_apart(self):
        self.assertEqual(self.figures["client"]["copy"], 100)
        self.assertEqual(self.figures["server"]["sum"], 50)
        self.assertEqual(self.figures["all"]["copied"], 409.6)
        self.assertEqual(self.figures["all"]["summed"], 819.2)
        # 7 * 10 of the kernel and 4 * 10 of the program, for 10 messages.
        self.assertEqual(self.figures["client"]["instructions"], 11)

    def test_waiting_programs_and_idle_cpus_do_not_count(self):
        self.assertEqual(self.figures["idle"]["instructions"], 0)
        # An interrupt of a program that waits does.
        self.assertEqual(self.figures["wait"]["instructions"], 3.5)
        self.assertEqual(self.figures["all"]["instructions"], 11 + 8 + 14 + 3.5)

    def test_locked_instructions(self):
        self.assertEqual(self.figures["client"]["locked"], 3)
        self.assertEqual(self.figures["other"]["locked"], 4)

    def test_functions_by_their_cost(self):
        rows = counts.functions(self.runs[3], 10, 60)
        self.assertEqual(rows[0]["name"], "do_idle")
        self.assertEqual({row["name"]: row["kind"] for row in rows},
                         {"memcpy": "copy", "crc32_body": "sum", "rox_send": "rest", "do_idle": "idle",
                          "(programs)": "user"})

    def test_of_two_guests_each_is_a_side(self):
        figures = counts.figures(counts.joined(self.runs[3], self.runs[3]), 10)
        self.assertEqual(figures["client"], figures["server"])
        self.assertEqual(figures["client"], self.figures["all"])
        self.assertEqual(figures["all"]["instructions"], 2 * self.figures["all"]["instructions"])
        self.assertEqual(figures["all"]["copied"], 2 * self.figures["all"]["copied"])
        self.assertEqual(figures["idle"]["instructions"], 0)

    def test_names_of_loops(self):
        for name in ("memcpy_orig", "rep_movs_alternative", "copy_user_generic_unrolled", "__memmove"):
            self.assertEqual(counts.kind_of(name), "copy", name)
        for name in ("crc32_le", "crc32_body", "crc32_pclmul_le_16", "__crc32c_le", "csum_partial"):
            self.assertEqual(counts.kind_of(name), "sum", name)
        for name in ("rox_crc32", "_copy_to_iter", "rox_copy_payload", "memcmp", "tick_sched_timer"):
            self.assertEqual(counts.kind_of(name), "rest", name)


def counted(peer, setting, test, size, instructions, locked=1):
    figures = {side: dict.fromkeys(("instructions", "user", "copy", "sum", "copied", "summed", "locked"), 0.0)
               for side in ("all", *counts.SIDES)}
    figures["all"].update(instructions=instructions, locked=locked)
    return {"setting": setting, "test": test, "size": size, "peer": peer, "figures": figures}


class CountTargets(unittest.TestCase):
    def test_nothing_counted_reaches_nothing(self):
        self.assertEqual(len(targets.missed(count.judge({"runs": []}))), len(count.judge({"runs": []})))

    def judged(self, rox, other=16000.0, locked=1, adaptive=100.0):
        rows = [counted("rox", "loop", test, 64, rox, locked) for test in ("write", "write, 16 a post")]
        rows += [counted("rox", setting, test, size, rox) for test in ("write", "send", "read")
                 for setting in count.SETTINGS for size in count.LARGE]
        rows += [counted("tcp", setting, "stream", size, other) for setting in count.SETTINGS for size in count.LARGE]
        rows += [counted("rox", what["setting"], what["test"], what["size"],
                         adaptive if what["cc"] == "adaptive" else 100.0) for what in count.controlled()]
        rows += [counted(peer, "loop", kind, count.PACKET, instructions) for kind in ("reg_mr", "dereg_mr")
                 for peer, instructions in (("rox", rox), ("rxe", other))]
        return targets.missed(count.judge({"runs": rows}))

    def test_all_floors(self):
        self.assertEqual(self.judged(1900.0), [])
        self.assertEqual(self.judged(1901.0), ["one device, 64 B write, 16 a post"])
        self.assertEqual(len(self.judged(1900.0, locked=13)), 2)
        self.assertEqual(len(self.judged(1900.0, other=1899.0)), len(count.SETTINGS) + 1)
        self.assertEqual(self.judged(1900.0, adaptive=102.0), [])
        self.assertEqual(len(self.judged(1900.0, adaptive=103.0)), 1)

    def test_guests_that_are_joined_have_one_peer_at_a_time_and_tcp(self):
        found = [({what["setting"] for what in boot}, {what["peer"] for what in boot})
                 for boot in count.boots_of(count.plans())]
        self.assertEqual(found[0][0], {"loop", "veth"})
        self.assertEqual(found[1:], [({"tap"}, {"rox", "tcp"}), ({"tap"}, {"rxe"}), ({"tap"}, {"siw"})])
        # Modules stay until the last run of their peer.
        peers = [what["peer"] for what in count.boots_of(count.plans())[1]]
        self.assertEqual(peers, sorted(peers))

    def test_without_taps_nothing_is_counted_and_that_is_said(self):
        row = next(what for what in count.plans() if what["setting"] == "tap")
        with mock.patch.object(taps, "missing", return_value="no rights"):
            self.assertEqual([found["error"] for found in count.count([row], None, None, None)],
                             ["no tap devices: no rights"])

    def test_of_repeated_runs_the_median_counts(self):
        rows = [counted("tcp", "veth", "stream", count.KIB64, value) for value in (9.0, 1.0, 5.0)]
        chosen = count.medians(rows)
        self.assertEqual([(count.total(row), row["all"]) for row in chosen], [(5.0, [1.0, 5.0, 9.0])])

    def test_a_failed_repetition_is_a_failure(self):
        rows = [counted("tcp", "veth", "stream", count.KIB64, 1.0),
                {**counted("tcp", "veth", "stream", count.KIB64, 1.0), "error": "no"}]
        self.assertEqual([row.get("error") for row in count.medians(rows)], ["no"])

    def test_the_table_has_a_line_for_each_run(self):
        rows = [counted("rox", "loop", "write", 64, 100.0), counted("rox", "veth", "send", count.KIB64, 16000.0),
                counted("rox", "veth", "read", count.MIB, 512000.0)]
        text = "\n".join(count.lines({"runs": rows}))
        self.assertIn("| loop write | 64 B | rox | 100 ", text)
        self.assertRegex(text, r"veth send \| 4 KiB \| rox +\| 1,000 ")
        self.assertRegex(text, r"veth read \| 4 KiB \| rox +\| 2,000 ")


class Cost(unittest.TestCase):
    def verdict(self, rounds):
        samples = [{"setting": "tap", "test": test, "size": targets.KIB64, "qps": 1, "service": "RC", "peer": peer,
                    "round": i, "value": value}
                   for test in ("write_bw", "send_bw", "read_bw") for i, values in enumerate(rounds)
                   for peer, value in zip(("rox", "none"), values)]
        rows = stats.summary([{"name": "tapcost", "samples": samples}])
        return [each for each in targets.judge(rows) if "none, tap" in each["row"]][0]

    def test_a_slow_host_is_slow_for_both(self):
        self.assertEqual(self.verdict([(100, 100), (40, 40), (10, 10), (90, 91)])["reached"], True)

    def test_what_is_slower_in_most_rounds_is_slower(self):
        self.assertEqual(self.verdict([(97, 100), (39, 40), (200, 100)])["reached"], False)


class Report(unittest.TestCase):
    def test_only_the_section_about_instructions_is_replaced(self):
        results = {"commit": "0123456789abcdef", "kernel": "6.12",
                   "runs": [counted("rox", "loop", "write", 64, 100.0)]}
        results["targets"] = count.judge(results)
        with tempfile.TemporaryDirectory() as name, mock.patch.object(count, "load", lambda: results):
            page = Path(name) / "benchmarks.md"
            page.write_text("# Before\n\n## All figures\n\nafter\n")
            report.write_counts(Path(name))
            first = page.read_text()
            report.write_counts(Path(name))
            self.assertEqual(page.read_text(), first)
        self.assertRegex(first,
                         r"(?s)^# Before\n\n## Instructions.*commit 0123456789ab.*\n\n## All figures\n\nafter\n$")
        self.assertRegex(first, r"64 B write: 3,600 instructions +\| at most 1 +\| 0.0278 ")

    def test_instructions_stay_when_the_figures_are_written(self):
        results = {"quick": False, "machine": None, "boots": [], "summary": [], "targets": [], "failures": []}
        with tempfile.TemporaryDirectory() as name, mock.patch.object(count, "load", lambda: None), \
                mock.patch.object(report, "machine", lambda results: []):
            page = Path(name) / "benchmarks.md"
            report.write(results, Path(name))
            self.assertNotIn("\n## Instructions", page.read_text())
            page.write_text("# Before\n\n## Instructions of a message\n\nmany\n\n## All figures\n\nafter\n")
            report.write(results, Path(name))
            first = page.read_text()
            self.assertRegex(first, r"\n\n## Instructions of a message\n\nmany\n\n## All figures\n")
            self.assertNotIn("\nafter", first)
            report.write(results, Path(name))
            self.assertEqual(page.read_text(), first)


class Plan(unittest.TestCase):
    def test_each_target_has_a_measurement(self):
        """A figure for each measurement of the plan makes every target a known one."""
        rows = []
        for boot in plan.boots(False):
            for what in boot.measurements:
                tests = {"limits": ["memcpy", "getppid"], "reg": [what["test"]],
                         "mrs": [f"{verb}_each {what.get('count')} MRs" for verb in ("reg", "dereg")]}
                for test in tests.get(what["kind"], [what["test"]]):
                    rows.append(self.row(boot, what, test))
                if what["kind"] == "qps":
                    rows.append(self.row(boot, {**what, "qps": 16, "size": 64 << 10},
                                         f"write_bw beside {what['count']} QPs"))
        unknown = [c["text"] for verdict in targets.judge(rows) for c in verdict["conditions"] if c["reached"] is None]
        self.assertEqual(unknown, [])

    @staticmethod
    def row(boot, what, test):
        figure = {"median": 2.0, "min": 2.0, "rate": 2.0, "jain": 2.0, "queue": 2.0, "dropped": 2.0}
        return {"boot": boot.name, "setting": what["setting"], "test": test, "size": what["size"],
                "qps": what["qps"], "service": what["service"],
                "peers": {peer: dict(figure) for peer in what["peers"]}, "paired": dict.fromkeys(what["peers"], 2.0)}

    def test_tap_boots_say_how_they_are_joined(self):
        boot = next(boot for boot in plan.boots(False) if boot.name == "tapqueues")
        command = boots.command_of(boot, "job")
        self.assertEqual(command[command.index("--tap") + 1], "4")
        self.assertEqual(command[command.index("--cpus") + 1], "2")

    def test_networks_are_measured_in_virtual_time_on_one_cpu(self):
        for name in ("lossy", "shared", "cost"):
            boot = next(boot for boot in plan.boots(False) if boot.name == name)
            command = boots.command_of(boot, "job")
            self.assertEqual(command[command.index("--icount"):][:3], ["--icount", "--cpus", "1"], name)
            self.assertGreater(int(command[command.index("--timeout") + 1]), 4 * boot.budget, name)

    def test_without_taps_a_boot_is_reported_and_not_run(self):
        boot = next(boot for boot in plan.boots(False) if boot.tap)
        results = {"not_run": []}
        with redirect_stdout(io.StringIO()):
            self.assertFalse(cli.can_run(boot, results, lambda: "no rights"))
        self.assertEqual(results["not_run"], [f"{boot.name}: no tap devices: no rights"])
        self.assertTrue(cli.can_run(boot, results, lambda: None))


class Guests(unittest.TestCase):
    def test_a_tap_has_its_queues(self):
        end, card = taps.arguments(1, 4)
        self.assertIn("ifname=tap1", end)
        self.assertIn("queues=4", end)
        self.assertIn("vectors=10", card)
        self.assertEqual(taps.arguments(0, 1)[1], "")

    def test_options(self):
        options = vm.parse(["--pair", "virtio", "--tap", "1", "--icount", "--plugin", "a.so,out=b", "--", "true"])
        self.assertEqual((options.tap, options.icount, options.plugin), (1, True, "a.so,out=b"))
        with redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
            vm.parse(["--tap", "1", "--", "true"])

    def test_icount_is_the_guests_clock(self):
        settings = machine.Settings(None, icount="shift=0", plugin="a.so,out=b", role=1)
        self.assertIn("tsc_early_khz=1000000 ", machine.cmdline(settings))
        self.assertEqual(machine.Machine.counting(type("M", (), {"settings": settings})),
                         ["-icount", "shift=0", "-plugin", "a.so,out=b.1"])


if __name__ == "__main__":
    unittest.main()
