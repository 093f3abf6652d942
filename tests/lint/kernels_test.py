# SPDX-License-Identifier: GPL-2.0
"""What chooses kernels and runs: names of kernels, the table of runs, reports of data races, the page of results."""

import io
import json
import lzma
import os
import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock

from roxcheck import booted, record, runs, table
from roxcheck import cli as check
from roxcheck.row import LIMITS
from roxvm import (cli, debugkernel, foreign, initramfs, kcsan, kernels, kernlog, machine, ninep, runkernel,
                   usermode)
from roxvm.paths import HarnessError

RULE = "=" * 66


def race(*frames):
    """A report as KCSAN prints it."""
    return [RULE, f"BUG: KCSAN: data-race in {frames[0]} / {frames[-1]}", "",
            "write to 0xffff888003a5c0d8 of 8 bytes by task 101 on cpu 0:",
            *(f" {frame}" for frame in frames), "",
            "read to 0xffff888003a5c0d8 of 8 bytes by interrupt on cpu 1:", f" {frames[-1]}", "",
            "Reported by Kernel Concurrency Sanitizer on:", RULE]


def log(*reports):
    lines = ["kcsan: enabled early", *(line for report in reports for line in report), "end"]
    return "\n".join(f"[   12.345678] {line}" for line in lines)


FOREIGN = race("__netif_receive_skb+0x1/0x2", "tick_sched_timer+0x1/0x2")
OURS = race("skb_put+0x1/0x2", "rox_frame_space+0x5/0x9 [rox]")


class Races(unittest.TestCase):
    def test_of_the_rest_of_linux_are_counted_and_no_complaint(self):
        text = log(FOREIGN, FOREIGN)
        self.assertEqual(kcsan.sift(text)[1], 2)
        self.assertEqual(kernlog.report(text), "")
        self.assertIn("end", kcsan.sift(text)[0])

    def test_with_rox_in_them_are_complaints(self):
        text = log(FOREIGN * 4, OURS, FOREIGN)
        self.assertEqual(kcsan.sift(text)[1], 5)
        self.assertIn("rox_frame_space", kernlog.report(text))
        self.assertNotIn("KCSAN: data-race in __netif_receive_skb", kernlog.report(text))

    def test_a_work_of_ours_has_not_made_the_races_of_workqueues(self):
        report = race("process_one_work+0x390/0x780")
        report.insert(-1, "Workqueue: rox rox_side_work [rox]")
        self.assertEqual(kcsan.sift(log(report))[1], 1)
        self.assertEqual(kernlog.report(log(report)), "")

    def test_code_of_ours_that_was_interrupted_has_no_part_in_them(self):
        frames = ["hrtimer_active+0x76/0xe0", "asm_sysvec_apic_timer_interrupt+0x1f/0x30",
                  "rox_sock_ready+0x75/0x5e0 [rox]", "__hrtimer_run_queues+0x160/0x420"]
        self.assertEqual(kernlog.report(log(race(*frames))), "")
        self.assertIn("rox_sock_ready", kernlog.report(log(race(*frames[:1], *frames[2:]))))
        # Only in one of the accesses.
        both = race(*frames)
        both.insert(-2, " rox_side_run+0x1/0x2 [rox]")
        self.assertIn("rox_side_run", kernlog.report(log(both)))

    def test_races_inside_the_kernels_facilities_are_judged_by_both_functions(self):
        for pair in kcsan.JUDGED:
            report = race("rox_odp_wait+0x12d/0x130 [rox]")
            report[1] = f"BUG: KCSAN: data-race in {' / '.join(sorted(pair))}"
            self.assertEqual(kernlog.report(log(report)), "")
            report[1] = f"BUG: KCSAN: data-race in {min(pair)}.constprop.0 / {max(pair)}.isra.0"
            self.assertEqual(kernlog.report(log(report)), "")
            for other in ("rox_odp_wait [rox]", "memcpy"):
                report[1] = f"BUG: KCSAN: data-race in {min(pair)} / {other}"
                self.assertIn("rox_odp_wait", kernlog.report(log(report)))

    def test_report_without_an_end_hides_nothing(self):
        for report in (OURS[:-1], FOREIGN[:-1] + OURS):
            self.assertIn("rox_frame_space", kernlog.report(log(report)))
        late = FOREIGN[:-1] + ["x"] * kcsan.LONGEST + ["BUG: unable to handle page fault"]
        self.assertIn("page fault", kernlog.report(log(late)))

    def test_another_report_inside_one_is_a_complaint(self):
        inside = FOREIGN[:4] + ["WARNING: CPU: 1 PID: 4 at lib/refcount.c:28"] + FOREIGN[4:]
        self.assertIn("refcount.c", kernlog.report(log(inside)))


class Names(unittest.TestCase):
    def test_parts_of_the_headers_may_be_newer_where_they_say_so(self):
        fields = {"Version": "6.1.9-2", "Depends": "linux-headers-6.1.0-9-common (= 6.1.9-2), "
                                                   "linux-kbuild-6.1 (>= 6.1.9-2), linux-compiler-gcc-12-x86"}
        versions = {"linux-headers-6.1.0-9-common": ["6.1.9-2"], "linux-kbuild-6.1": ["6.1.7-1", "6.1.9-3", "6.1.9-2"]}

        def offered(package):
            return [{"Version": version} for version in versions[package]]
        common = ("linux-headers-6.1.0-9-common", "6.1.9-2")
        self.assertEqual(list(kernels.header_parts(fields, offered)), [common, ("linux-kbuild-6.1", "6.1.9-2")])
        versions["linux-kbuild-6.1"].pop()
        self.assertEqual(list(kernels.header_parts(fields, offered)), [common, ("linux-kbuild-6.1", "6.1.9-3")])
        versions["linux-headers-6.1.0-9-common"] = ["6.1.9-3"]
        self.assertEqual(next(kernels.header_parts(fields, offered)), common)

    def test_series_has_one_flavour(self):
        self.assertTrue(kernels.in_series("6.12.95+deb12-amd64", "6.12"))
        self.assertTrue(kernels.in_series("6.1.0-56-amd64", "6.1"))
        self.assertTrue(kernels.in_series("6.12.95+deb12-rt-amd64", "6.12-rt"))
        self.assertFalse(kernels.in_series("6.12.95+deb12-rt-amd64", "6.12"))
        self.assertFalse(kernels.in_series("6.12.95+deb12-cloud-amd64", "6.12"))
        self.assertFalse(kernels.in_series("6.12.95+deb12-amd64", "6.12-rt"))
        self.assertFalse(kernels.in_series("6.1.0-56-rt-amd64", "6.12-rt"))

    def test_series_has_one_processor(self):
        self.assertTrue(kernels.in_series("6.12.118+deb13-arm64", "6.12-arm64"))
        self.assertFalse(kernels.in_series("6.12.118+deb13-arm64", "6.12"))
        self.assertFalse(kernels.in_series("6.12.95+deb12-amd64", "6.12-arm64"))
        self.assertFalse(kernels.in_series("6.12.118+deb13-rt-arm64", "6.12-arm64"))
        for name in ("6.12", "6.12-rt", "6.12-arm64", "6.12-cloud-arm64", "6.12-arm64-16k"):
            self.assertTrue(kernels.is_series(name))
        self.assertFalse(kernels.is_series("6.12.118+deb13-arm64"))

    def test_series_has_one_size_of_pages(self):
        self.assertTrue(kernels.in_series("6.12.118+deb13-arm64-16k", "6.12-arm64-16k"))
        self.assertFalse(kernels.in_series("6.12.118+deb13-arm64-16k", "6.12-arm64"))
        self.assertFalse(kernels.in_series("6.12.118+deb13-arm64", "6.12-arm64-16k"))

    def test_processor_is_known_of_names_and_versions(self):
        for name in ("6.12-arm64", "6.12.118+deb13-arm64-16k", "trixie-arm64"):
            self.assertEqual(foreign.processor(name), "arm64")
        for name in ("", "6.12", "7.3-cloud", "6.12.95+deb12-amd64", "trixie"):
            self.assertEqual(foreign.processor(name), "")

    def test_release_is_that_of_the_kernel_and_its_processor(self):
        for name, release in (("7.3", "trixie"), ("7.3.4+deb13-amd64", "trixie"), ("7.3-cloud", "trixie"),
                              ("6.12.118+deb13-arm64", "trixie"), ("6.12", ""), ("6.12.95+deb12-amd64", ""),
                              ("uml", ""), ("6.12.117-rox-uml-0123456789", ""), ("uml-7.3", ""),
                              ("7.3.4-rox-uml-7.3-0123456789", "")):
            self.assertEqual(foreign.release_of(name), release)

    def test_recipe_is_that_of_the_whole_name(self):
        for name in debugkernel.NAMES:
            self.assertEqual(debugkernel.recipe_of(name).name, name)
            self.assertEqual(debugkernel.recipe_of(f"6.12.117-rox-{name}-0123456789").name, name)
        self.assertIsNone(debugkernel.recipe_of("6.12.95+deb12-rt-amd64"))

    def test_user_mode_linux_with_several_cpus_has_seccomp(self):
        for name, wanted in (("uml", []), ("uml-7.3", ["seccomp=on", "ncpus=3"])):
            kernel = debugkernel.BuiltKernel(debugkernel.recipe_of(name), f"1.0-rox-{name}-0123456789")
            guest = SimpleNamespace(settings=SimpleNamespace(kernel=kernel, cpus=3))
            self.assertEqual(usermode.UserModeMachine.processors(guest), wanted)

    def test_user_mode_linux_in_virtual_time_leaps(self):
        options = cli.parse(["--icount", "--", "true"])
        for name, wanted in (("uml", "time-travel"), ("uml-7.3", ""), ("debug", "shift=1,sleep=off")):
            kernel = debugkernel.BuiltKernel(debugkernel.recipe_of(name), f"1.0-rox-{name}-0123456789")
            self.assertEqual(cli.virtual_time(options, kernel), wanted)
        guest = usermode.UserModeMachine(machine.Settings(kernel, icount="time-travel"), Path("/tmp"))
        self.assertIn("time-travel", guest.command(0, 1, 2, 3))


class Installed(unittest.TestCase):
    """A kernel of the system, whose image and modules are compressed."""

    def test_the_image_is_unpacked_once(self):
        plain = kernels.ELF + b"image"
        self.assertEqual(kernels.plain_image(b"MZ" + lzma.compress(plain)), plain)
        self.assertEqual(kernels.plain_image(plain + lzma.compress(kernels.ELF)), plain + lzma.compress(kernels.ELF))
        self.assertEqual(kernels.plain_image(b"MZ of another kind"), b"MZ of another kind")

    def test_modules_are_found_by_their_names_and_unpacked(self):
        with TemporaryDirectory() as folder:
            modules = Path(folder)
            (modules / "modules.dep").write_text("a/ib-core.ko.xz:\nb/tun.ko: a/ib-core.ko.xz\n")
            for name, data in ("a/ib-core.ko.xz", lzma.compress(b"core")), ("b/tun.ko", b"tun"):
                (modules / name).parent.mkdir()
                (modules / name).write_bytes(data)
            found = initramfs.module_closure(SimpleNamespace(modules=modules), ("ib_core", "tun"))
            self.assertEqual([initramfs.read_module(path) for path in found], [("ib-core.ko", b"core"), ("tun.ko", b"tun")])

    def test_one_is_named_for_the_virtual_machine(self):
        with mock.patch.dict(os.environ, ROX_RUN_VM_KERNEL="6.12.9-amd64"):
            kernel = runkernel.virtual_kernel()
        self.assertEqual((str(kernel.image), str(kernel.modules)), ("/boot/vmlinuz-6.12.9-amd64", "/lib/modules/6.12.9-amd64"))


class WithoutFiles(unittest.TestCase):
    def test_only_a_kernel_without_9p_gets_it(self):
        with TemporaryDirectory() as folder:
            modules = Path(folder)
            self.assertFalse(ninep.is_missing(modules))
            (modules / "config").write_text("CONFIG_NET_9P=m\n")
            self.assertFalse(ninep.is_missing(modules))
            (modules / "config").write_text("CONFIG_NET=y\n# CONFIG_NET_9P is not set\n")
            self.assertTrue(ninep.is_missing(modules))


class Sources(unittest.TestCase):
    def test_archive_of_a_new_version_is_another_tree(self):
        with TemporaryDirectory() as name, mock.patch.object(debugkernel, "CACHE", Path(name) / "cache"), \
                mock.patch.object(debugkernel, "say"):
            folder = Path(name) / "linux-source-6.12"
            archive = Path(name) / "linux-source-6.12.tar.xz"
            folder.mkdir()
            trees = []
            for seconds, text in enumerate(("old", "new", "new")):
                (folder / "Makefile").write_text(text)
                subprocess.run(["tar", "-C", name, "-cJf", archive, folder.name], check=True)
                os.utime(archive, (1, 1 + min(seconds, 1)))
                trees.append(debugkernel.unpack_archive(archive))
                self.assertEqual((trees[-1] / "Makefile").read_text(), text)
            self.assertNotEqual(trees[0], trees[1])
            self.assertEqual(trees[1], trees[2])

    def test_archive_that_is_not_there_is_an_error(self):
        with self.assertRaisesRegex(HarnessError, "no-archive"):
            debugkernel.unpack_archive("/no-archive.tar.xz")


class Guests(unittest.TestCase):
    def root_of(self, kver, root=None):
        found = cli.root_of(SimpleNamespace(root=root), kernels.Kernel(kver))
        return found and found.name

    def test_root_is_of_the_kernels_processor(self):
        self.assertIsNone(self.root_of("6.12.95+deb12-amd64"))
        self.assertEqual(self.root_of("6.12.95+deb12-amd64", "trixie"), "trixie")
        for root in (None, "trixie", "trixie-arm64"):
            self.assertEqual(self.root_of("6.12.118+deb13-arm64-16k", root), "trixie-arm64")
        for kver, root in (("6.12.95+deb12-amd64", "trixie-arm64"), ("6.12.118+deb13-arm64", "bookworm")):
            with self.assertRaises(HarnessError):
                self.root_of(kver, root)

    def test_peer_is_the_other_guest_of_a_pair(self):
        self.assertEqual(cli.parse(["--pair", "virtio", "--peer", "6.12-arm64", "--", "true"]).peer, "6.12-arm64")
        with mock.patch("sys.stderr"), self.assertRaises(SystemExit):
            cli.parse(["--peer", "6.12-arm64", "--", "true"])


def labels(*arguments, **options):
    return [f"{row.label} {row.form}" for row in table.select(*arguments, **options)]


class Table(unittest.TestCase):
    def test_all_has_no_run_twice(self):
        usual = ["6.1", "6.12", "6.12-rt", *debugkernel.NAMES]
        found = [(row.label, row.clock) for row in table.select(table.GROUPS, usual, "all")]
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual({row.group for row in table.ROWS}, set(LIMITS))

    def test_check_has_neither_debug_nor_many_cpus(self):
        for row in table.select(table.GROUPS, ["6.1", "6.12", "6.12-rt", "uml"], "check"):
            self.assertNotIn(row.kernel, ("debug", "debug-rt", "kcsan"))
            self.assertEqual(row.cpus, 0)

    def test_group_alone_runs_in_full(self):
        self.assertEqual(labels(["verbs"], ["6.1", "6.12"], "all", cpus=0), ["verbs 6.12 full", "verbs 6.1 full"])
        self.assertEqual(labels(["verbs", "unit"], ["6.1", "6.12"], "check"),
                         ["unit full", "verbs 6.12 core", "verbs 6.1 core"])

    def test_one_special_kernel_has_its_own_rows_or_all(self):
        self.assertEqual(labels(["wire"], ["kcsan"], "all"), ["wire kcsan cpus=4 full"])
        self.assertEqual(labels(["pair"], ["6.12-rt"], "all"),
                         ["pair virtio 6.12-rt full", "pair e1000e 6.12-rt full"])
        self.assertEqual(labels(["unit"], ["uml"], "all"), ["unit full"])

    def test_pair_of_two_processors_needs_both_kernels(self):
        mixed = "pair virtio 6.12 6.12-arm64 core"
        self.assertIn(mixed, labels(["pair"], ["6.1", "6.12", "6.12-arm64"], "all"))
        self.assertNotIn(mixed, labels(["pair"], ["6.1", "6.12"], "all"))
        self.assertEqual(len(labels(["pair"], ["6.12-arm64"], "all")), 2)
        row = next(row for row in table.ROWS if row.peer)
        command = runs.command_of(row)
        self.assertEqual(command[command.index("--peer") + 1], "6.12-arm64")
        self.assertEqual(command[command.index("--root") + 1], "trixie")

    def test_all_kernels_of_the_rows_are_built(self):
        built = []
        with mock.patch.object(check, "build_all", lambda _, kernels: built.extend(kernels)), \
                mock.patch("sys.stdout"):
            check.main(["--tier", "all", "--kernels", "6.1 6.12 6.12-arm64 kcsan", "--rows", "6.12-arm64", "pair"])
        self.assertEqual(built, ["6.12", "6.12-arm64"])

    def test_rows_are_chosen_by_their_lines(self):
        lines = io.StringIO()
        with mock.patch("sys.stdout", lines):
            check.main(["--list", "--tier", "all", "--kernels", "6.1 6.12", "--rows", r"^wire 6\.12 .*virtual"])
        self.assertEqual(lines.getvalue().splitlines(), ["wire 6.12 clock=0 (full, virtual time)",
                                                         "wire 6.12 (full, virtual time)",
                                                         "wire 6.12 clock=5 (full, virtual time)"])

    def test_pattern_of_rows_that_is_none_is_refused(self):
        said = io.StringIO()
        with mock.patch("sys.stderr", said), self.assertRaises(SystemExit) as end:
            check.main(["--list", "--rows", "7.3("])
        self.assertEqual(end.exception.code, 2)
        self.assertIn("'7.3(' is no regular expression", said.getvalue())

    def test_rox_run_is_on_the_host_with_its_kernel(self):
        row = next(row for row in table.ROWS if row.group == "run" and "check" in row.tiers)
        self.assertEqual(runs.command_of(row), ["env", "ROX_QUICK=1", "ROX_RUN_KERNEL=uml", "tests/run/run"])
        row = next(row for row in table.ROWS if row.group == "run" and "all" in row.tiers)
        self.assertEqual(runs.command_of(row), ["tests/run/run"])

    def test_form_and_cpus_can_be_given(self):
        self.assertEqual(labels(["wire"], ["6.1", "6.12", "uml"], "all", form="core", cpus=8),
                         ["wire 6.12 cpus=8 core", "wire 6.1 cpus=8 core"])

    def test_guest_in_virtual_time_has_time_on_a_busy_host(self):
        limits = {row.clock: row.limit for row in table.select(["wire"], ["6.12"], "all") if not row.cpus}
        self.assertEqual(limits, {None: 1800, 0: 7200, 1: 7200, 5: 7200})
        self.assertEqual([row.limit for row in table.select(["wire"], ["6.12"], "check")], [1800])

    def test_command_says_what_the_row_says(self):
        command = runs.command_of(table.Row("verbs", "6.12", form="core", cpus=8))
        self.assertIn("ROX_QUICK=1", command)
        self.assertEqual(command[command.index("--cpus") + 1], "8")


class Page(unittest.TestCase):
    CONTENT = {"commit": "0123456789", "host_cpu": "2 x CPU", "variables": {"ROX_SEED": "7"}}
    ENTRY = {"group": "wire", "kernel": "kcsan", "version": "6.12.117-rox-kcsan-0", "cpus": 4, "form": "full",
             "date": "2026-11-23 15:00", "passed": 12, "failed": ["a"], "skipped": [], "races": 3, "seconds": 90}

    def test_last_result_of_a_run_stays(self):
        old = record.cells(self.CONTENT, self.ENTRY)
        new = record.cells(self.CONTENT, {**self.ENTRY, "version": "6.12.117-rox-kcsan-1",
                                          "date": "2026-11-24 15:00", "failed": []})
        other = record.cells(self.CONTENT, {**self.ENTRY, "cpus": 8})
        with TemporaryDirectory() as folder:
            page = Path(folder) / "results.md"
            kernels_page = Path(folder) / "kernels.md"
            kernels_page.write_text("a\n{}\n{}\nb\n".format(*booted.MARKS), encoding="utf-8")
            with mock.patch.multiple(record, TABLE=page, REPO=Path(folder)), \
                    mock.patch.object(booted.page, "PAGE", kernels_page):
                for lines in ([new, other], [old]):
                    with mock.patch.object(record, "new_lines", return_value=lines):
                        record.write_table()
            found = list(record.known(page.read_text(encoding="utf-8")))
            self.assertIn("| 6.12.117-rox-kcsan-0 |", kernels_page.read_text(encoding="utf-8"))
        self.assertCountEqual(found, [new, other])

    def test_kernels_that_booted_have_the_last_result_of_each_group(self):
        arm64 = "6.12-arm64-16k (6.12.118+deb13-arm64-16k)"
        lines = [("wire", arm64, "full", "2026-11-24 10:00", "194", "0"),
                 ("verbs", arm64, "core", "2026-11-24 10:00", "700", "1"),
                 ("verbs", arm64, "core", "2026-11-25 10:00", "750", "0"),
                 ("lint", "host", "full", "2026-11-25 10:00", "96", "0"),
                 ("wire", "6.1 (6.1.0-56-amd64)", "full", "2026-11-25 10:00", "190", "4")]
        with mock.patch.object(kernels, "architecture", lambda: "amd64"):
            self.assertEqual(booted.table(lines), [
                ("6.1", "6.1.0-56-amd64", "amd64", "this machine's files", "wire 190", "4"),
                ("6.12-arm64-16k", "6.12.118+deb13-arm64-16k", "arm64", "trixie-arm64",
                 "verbs (core) 750, wire 194", "0")])

    def test_what_has_passed_with_these_files_is_known(self):
        good = {**self.ENTRY, "failed": [], "tree": "t-wire", "clock": None}
        entries = [good, {**good, "cpus": 8, "failed": ["a"]}, {**good, "form": "core", "passed": 0},
                   {**good, "kernel": "6.1", "tree": "another"}, {**good, "kernel": "6.12", "clock": 1}]
        trees = mock.Mock(of=lambda group, _kernel: f"t-{group}")
        with TemporaryDirectory() as folder:
            content = {**self.CONTENT, "runs": entries}
            (Path(folder) / "0.json").write_text(json.dumps(content), encoding="utf-8")

            def found(variables):
                rows = [table.Row("wire", "kcsan", cpus=4), table.Row("wire", "kcsan", form="core", cpus=4),
                        table.Row("wire", "6.12", clock=1, cpus=4), table.Row("wire", "6.12", cpus=4),
                        table.Row("wire", "6.1", cpus=4), table.Row("wire", "kcsan", cpus=8)]
                with mock.patch.multiple(record, FOLDER=Path(folder), TABLE=page, REPO=Path(folder),
                                         variables=lambda: variables), \
                        mock.patch.object(record.sources, "Trees", return_value=trees):
                    before = record.passed_before()
                    return [index for index, row in enumerate(rows) if record.name_of(row) in before]

            page = Path(folder) / "results.md"
            self.assertEqual(found({"ROX_SEED": "7"}), [0, 2])
            self.assertEqual(found({}), [])
            # The table has what other checkouts found.
            with mock.patch.multiple(record, FOLDER=Path(folder), TABLE=page, REPO=Path(folder)), \
                    mock.patch.object(record.booted, "write"):
                record.write_table()
            (Path(folder) / "0.json").unlink()
            self.assertEqual(found({"ROX_SEED": "7"}), [0, 2])
        row = table.Row("wire", "kcsan", cpus=4)
        self.assertEqual(record.key_of(row), ("wire", "kcsan", 4, "full"))
        self.assertEqual(record.cpus_of(table.Row("kusers", "6.12", card="virtio")), 2)
        self.assertEqual(record.cpus_of(table.Row("pair", "6.12", card="virtio")), 1)


if __name__ == "__main__":
    unittest.main()
