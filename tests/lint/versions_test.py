# SPDX-License-Identifier: GPL-2.0
"""The version of rox is the same wherever it is written."""

import re
import unittest

from roxvm.paths import REPO

# The first match in each file counts.
PLACES = {
    "dkms.conf": r'^PACKAGE_VERSION="([^"]+)"',
    "kernel/main.c": r'^MODULE_VERSION\("([^"]+)"\)',
    "debian/changelog": r"^rox \(([^)]+)\)",
    "packaging/rox.spec": r"^Version: +(\S+)",
    "CHANGELOG.md": r"^## (\S+)",
    "README.md": r"dkms install rox/([0-9.]*[0-9])",
}


class Versions(unittest.TestCase):
    def test_each_place_has_the_same(self):
        found = {}
        for name, pattern in PLACES.items():
            match = re.search(pattern, (REPO / name).read_text(encoding="utf-8"), re.MULTILINE)
            self.assertTrue(match, name)
            found[name] = match[1]
        self.assertEqual(len(set(found.values())), 1, found)


if __name__ == "__main__":
    unittest.main()
