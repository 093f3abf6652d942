# SPDX-License-Identifier: GPL-2.0
"""The guest's half of scripts/bench."""
