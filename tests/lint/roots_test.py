# SPDX-License-Identifier: GPL-2.0
"""Roots of other Debian releases (scripts/roxvm/userroots.py): when they are made, what guests see of the host."""

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from roxvm import debroot, machine, userroots  # noqa: E402
from roxvm.paths import BUILD, KERNELS, REPO, HarnessError  # noqa: E402


class Stamp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        patch = mock.patch.object(debroot, "ROOTS", Path(folder.name))
        patch.start()
        self.addCleanup(patch.stop)
        self.root = userroots.UserRoot("trixie")
        self.made = []
        self.root.make = self.make
        self.names = mock.patch.object(userroots, "packages", lambda: ["make", "gcc"])
        self.names.start()
        self.addCleanup(mock.patch.stopall)

    def make(self, names):
        self.made.append(sorted(names))
        self.root.path.mkdir(exist_ok=True)
        (self.root.path / ".complete").write_text(self.root.stamp(names))

    def test_a_root_is_made_once(self):
        self.root.ensure()
        self.root.ensure()
        self.assertEqual(self.made, [["gcc", "make"]])

    def test_it_is_made_anew_for_other_packages(self):
        self.root.ensure()
        with mock.patch.object(userroots, "packages", lambda: ["gcc"]):
            self.root.ensure()
        self.assertEqual(self.made, [["gcc", "make"], ["gcc"]])

    def test_the_order_of_packages_does_not_matter(self):
        self.root.ensure()
        with mock.patch.object(userroots, "packages", lambda: ["gcc", "make"]):
            self.root.ensure()
        self.assertEqual(len(self.made), 1)

    def test_a_root_that_was_not_finished_is_made_anew(self):
        self.root.ensure()
        (self.root.path / ".complete").unlink()
        self.root.ensure()
        self.assertEqual(len(self.made), 2)

    def test_releases_have_stamps_of_their_own(self):
        self.assertNotEqual(self.root.stamp(["gcc"]), userroots.UserRoot("forky").stamp(["gcc"]))

    def test_an_unknown_release_is_refused(self):
        with self.assertRaises(HarnessError):
            userroots.UserRoot("sarge")


class Packages(unittest.TestCase):
    def test_the_list_has_a_compiler_and_rdma_core_and_installs_nothing(self):
        names = userroots.packages()
        self.assertLess({"g++", "libibverbs-dev", "ibverbs-utils", "busybox-static"}, set(names))


class Guest(unittest.TestCase):
    def arguments(self, **given):
        kernel = mock.Mock(image="image")
        settings = machine.Settings(kernel, stage="/stage", log="log", **given)
        return " ".join(machine.Machine(settings, Path("/tmp")).arguments(3))

    def test_its_root_is_this_machines(self):
        line = self.arguments()
        self.assertIn("id=root,path=/,", line)
        self.assertNotIn("rox.host", line)

    def test_or_another_one_beside_which_it_has_the_hosts_files(self):
        line = self.arguments(root="/cache/user-trixie", shared=(BUILD,))
        self.assertIn("id=root,path=/cache/user-trixie,", line)
        self.assertIn("id=host,path=/,", line)
        self.assertIn("mount_tag=rox.host", line)

    def test_shared_folders_have_the_kernel_and_are_not_inside_each_other(self):
        for root in (KERNELS / "6.12.1-amd64", KERNELS.parent / "debug/6.12.1-rox-debug"):
            folders = userroots.UserRoot.shared(mock.Mock(root=root))
            self.assertEqual(sum(root.is_relative_to(folder) for folder in folders), 1)
            for folder in folders:
                self.assertFalse(any(folder != other and folder.is_relative_to(other) for other in folders))


class Provider(unittest.TestCase):
    def range_of(self, pabi, rdma_core):
        command = ["make", "-s", "--no-print-directory", "-C", str(REPO / "userspace"), "print-range", f"PABI={pabi}",
                   f"RDMA_CORE={rdma_core}"]
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False).stdout

    def test_packages_of_each_private_interface_know_their_libibverbs(self):
        known = re.search(r"^known_pabis := (.*)$", (REPO / "userspace" / "Makefile").read_text(), re.M)[1].split()
        for pabi, first in (("34", 45), *((pabi, int(pabi)) for pabi in known[1:])):
            begin, end = map(int, self.range_of(pabi, first).split())
            self.assertTrue(begin <= first < end, pabi)
        self.assertEqual(self.range_of("65", 64), "")


if __name__ == "__main__":
    unittest.main()
