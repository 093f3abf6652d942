# SPDX-License-Identifier: GPL-2.0
"""What a group is built from, what a change can break, and the faults that the gate has to find."""

import subprocess
import unittest

from roxcheck import sources, table
from roxvm.paths import REPO


class Sources(unittest.TestCase):
    def test_a_change_breaks_what_uses_it(self):
        self.assertIn("wire", sources.broken_by("kernel/wire/icrc.c"))
        self.assertNotIn("life", sources.broken_by("kernel/wire/icrc.c"))
        self.assertEqual({"net", "lint"}, sources.broken_by("tests/net/part-mtu.sh"))
        self.assertEqual({"life", "net", "lint"}, sources.broken_by("tests/life/lib.sh"))
        self.assertEqual({"lint"}, sources.broken_by("Documentation/design.md"))
        self.assertLess({"verbs", "life", "wire"}, sources.broken_by("include/uapi/rdma/rox-abi.h"))

    def test_every_group_is_broken_by_its_own_tests(self):
        for group in table.GROUPS:
            self.assertIn(group, sources.broken_by(f"tests/{group}/run"))
            self.assertTrue(sources.is_source(f"tests/{group}/run", group, "6.12"))

    def test_each_room_of_the_kernel_has_a_line(self):
        for room in (path for path in (REPO / "kernel").iterdir() if path.is_dir()):
            broken = sources.broken_by(f"kernel/{room.name}/x.c")
            self.assertIn("kunit", broken, room.name)

    def test_results_do_not_depend_on_words_and_other_groups(self):
        self.assertFalse(sources.is_source("README.md", "verbs", "6.12"))
        self.assertFalse(sources.is_source("tests/net/run", "verbs", "6.12"))
        self.assertTrue(sources.is_source("tests/verbs/lib/qp.cc", "wire", "6.12"))
        self.assertTrue(sources.is_source("tests/verbs/cq_test.cc", "roots", "host"))
        self.assertTrue(sources.is_source("tests/stacks/run", "run", "host"))
        self.assertFalse(sources.is_source("tests/verbs/mr_test.cc", "wire", "6.12"))
        self.assertFalse(sources.is_source("scripts/roxvm/userroots.py", "verbs", "6.12"))
        self.assertTrue(sources.is_source("scripts/roxvm/userroots.py", "verbs", "6.12-arm64"))
        self.assertTrue(sources.is_source("tests/lib.sh", "verbs", "6.12"))
        self.assertTrue(sources.is_source("kernel/main.c", "verbs", "6.12"))
        self.assertFalse(sources.is_source("kernel/net/udp_test.c", "verbs", "6.12"))
        self.assertTrue(sources.is_source("kernel/net/udp_test.c", "kunit", "6.12"))
        self.assertTrue(sources.is_source("README.md", "lint", "6.12"))
        self.assertFalse(sources.is_source("tools/run/mux.cpp", "verbs", "6.12"))
        self.assertTrue(sources.is_source("tools/run/mux.cpp", "run", "6.12"))
        self.assertTrue(sources.is_source("tools/lib/file.hpp", "tools", "6.12"))
        self.assertFalse(sources.is_source("tools/lib/file.hpp", "life", "6.12"))
        self.assertFalse(sources.is_source("scripts/roxcheck/table.py", "life", "6.12"))
        self.assertTrue(sources.is_source("scripts/roxcheck/row.py", "life", "6.12"))

    def test_results_do_not_depend_on_how_other_kernels_are_made_and_judged(self):
        self.assertTrue(sources.is_source("scripts/roxvm/kcsan.py", "wire", "kcsan"))
        self.assertFalse(sources.is_source("scripts/roxvm/kcsan.py", "wire", "6.12"))
        self.assertTrue(sources.is_source("scripts/uml.config", "life", "uml-7.3"))
        self.assertFalse(sources.is_source("scripts/uml.config", "life", "debug"))
        self.assertTrue(sources.is_source("scripts/roxvm/kernlog.py", "wire", "6.12"))
        for config in (REPO / "scripts").glob("*.config"):
            self.assertTrue(config.name.startswith("run") or f"scripts/{config.name}" in dict(sources.ONLY_ON),
                            config.name)
        for path, _kernels in sources.ONLY_ON:
            self.assertTrue((REPO / path).is_file(), path)

    def test_what_is_only_about_rows_is_there(self):
        for path in sources.ABOUT_ROWS:
            self.assertTrue((REPO / path).is_file(), path)

    def test_a_tree_is_its_files(self):
        one, two = sources.Trees(), sources.Trees()
        self.assertEqual(one.of("verbs", "6.12"), two.of("verbs", "6.12"))
        self.assertNotEqual(one.of("verbs", "6.12"), one.of("wire", "6.12"))
        self.assertNotEqual(one.of("verbs", "6.12"), one.of("verbs", "kcsan"))
        self.assertEqual(one.of("verbs", "6.12"), one.of("verbs", "6.1"))

    def test_what_is_compiled_depends_on_its_headers(self):
        """ccache makes the names of targets relative (CCACHE_BASEDIR), and make would not know them any more."""
        files = subprocess.run(["git", "grep", "-l", "-e", "-MMD", "--", "*Makefile", "*.mk"], cwd=REPO, check=True,
                               stdout=subprocess.PIPE, text=True).stdout.split()
        self.assertIn("userspace/Makefile", files)
        for name in files:
            for line in (REPO / name).read_text(encoding="utf-8").splitlines():
                self.assertTrue("-MMD" not in line or "-MMD -MP -MT $@" in line, f"{name}: {line}")


class Faults(unittest.TestCase):
    def test_each_can_be_put_in(self):
        patches = sorted((REPO / "scripts" / "faults").glob("*.patch"))
        self.assertEqual(["completion", "icrc", "lock"], [patch.stem for patch in patches])
        for patch in patches:
            self.assertTrue(self.applies(patch) or self.applies(patch, "--reverse"), patch.stem)

    @staticmethod
    def applies(patch, *options):
        """Also in the tree that has it, where something else is to find the fault."""
        command = ["git", "apply", "--check", *options, str(patch)]
        return subprocess.run(command, cwd=REPO, stderr=subprocess.DEVNULL).returncode == 0


if __name__ == "__main__":
    unittest.main()
