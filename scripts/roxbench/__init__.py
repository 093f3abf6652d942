# SPDX-License-Identifier: GPL-2.0
"""The benchmark behind scripts/bench; what runs in the guests is in tests/bench."""
