# SPDX-License-Identifier: GPL-2.0
"""The benchmark behind scripts/bench. The programs that run in guests are in tests/bench."""
