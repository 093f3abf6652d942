# SPDX-License-Identifier: GPL-2.0
"""What is behind scripts/check: the groups, the runner, the counting."""
