# SPDX-License-Identifier: GPL-2.0
"""The test runner behind scripts/check: groups, runs, counting of cases."""
