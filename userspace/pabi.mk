# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Sets PABI to the generation of libibverbs' private interface, which is part of a symbol
# version of libibverbs.so.1: IBVERBS_PRIVATE_<PABI>. Empty if there is none. PABI=57, say, asks
# for another one than the installed library has.

CXX ?= g++
libibverbs := $(shell $(CXX) -print-file-name=libibverbs.so.1)
installed_pabi := $(shell objdump -p $(libibverbs) 2>/dev/null | \
	sed -n 's/.*IBVERBS_PRIVATE_\([0-9]*\)$$/\1/p' | head -n 1)
PABI ?= $(installed_pabi)
