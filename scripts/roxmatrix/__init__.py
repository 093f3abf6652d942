# SPDX-License-Identifier: GPL-2.0
"""The matrix of builds behind scripts/matrix: kernels, flavours, processors, small configurations."""
