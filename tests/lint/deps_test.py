# SPDX-License-Identifier: GPL-2.0
"""scripts/deps: what it installs for what, and what it leaves behind."""

import os
import pathlib
import subprocess
import tempfile
import unittest

from roxvm.paths import REPO


class Dependencies(unittest.TestCase):
    @staticmethod
    def names(*wanted):
        return set(subprocess.run([REPO / "scripts/deps", "--names", *wanted], check=True, stdout=subprocess.PIPE,
                                  text=True).stdout.split())

    def test_several_names_want_what_each_wants(self):
        self.assertEqual(self.names("lint", "bench"), self.names("lint") | self.names("bench"))
        self.assertFalse(self.names("lint") >= self.names("bench"))

    def test_nothing_else_is_installed_for_a_build(self):
        others = self.names("deb") | {"rdma-core", "dkms", "nfs-kernel-server"}
        self.assertFalse(self.names("build", "tools") & others)


class Policy(unittest.TestCase):
    """While it installs no daemon starts, and that ends with it."""

    OWN = "#!/bin/sh\n# Of scripts/deps of rox, while it runs as process {}\nexit 101\n"

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.policy = pathlib.Path(self.folder.name) / "policy-rc.d"

    def without_daemons(self, command):
        """Runs a command as that does, with this policy. Returns the status and what is printed."""
        script = f"""set -euo pipefail
            eval "$(sed -n '/^policy=/,/^# Packages with daemons/p' {REPO}/scripts/deps)"
            as_root() {{ "$@"; }}
            policy=$1
            without_daemons sh -c "$2" """
        result = subprocess.run(["bash", "-c", script, "deps", self.policy, command], check=False,
                                stdout=subprocess.PIPE, text=True)
        return result.returncode, result.stdout

    def test_no_daemon_starts_meanwhile(self):
        self.assertEqual(self.without_daemons(f"{self.policy}; echo $?"), (0, "101\n"))
        self.assertFalse(self.policy.exists())

    def test_the_status_is_that_of_the_command(self):
        self.assertEqual(self.without_daemons("exit 7")[0], 7)
        self.assertFalse(self.policy.exists())

    def test_a_signal_leaves_no_policy(self):
        for signal, status in (("HUP", 129), ("INT", 130), ("TERM", 143)):
            with self.subTest(signal):
                self.assertEqual(self.without_daemons(f"test -e {self.policy} && kill -{signal} $PPID")[0], status)
                self.assertFalse(self.policy.exists())

    def test_what_a_killed_run_has_left_is_removed(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        self.policy.write_text(self.OWN.format(ended.pid))
        self.assertEqual(self.without_daemons(f"grep -c {ended.pid} {self.policy}")[1], "0\n")
        self.assertFalse(self.policy.exists())

    def test_a_policy_of_others_stays(self):
        for text in ("#!/bin/sh\nexit 0\n", self.OWN.format(os.getpid())):
            self.policy.write_text(text)
            self.assertEqual(self.without_daemons("exit 3")[0], 3)
            self.assertEqual(self.policy.read_text(), text)


if __name__ == "__main__":
    unittest.main()
