# SPDX-License-Identifier: GPL-2.0
"""The virtual machine harness behind scripts/vm."""
