# SPDX-License-Identifier: GPL-2.0
#
# Programs that also use the library of the verbs tests, which is built in a folder of its own.

VERBS_OUT := $(abspath $(OUT)/../verbs)
MORE_OBJECTS := $(patsubst ../verbs/lib/%.cc,$(VERBS_OUT)/lib/%.o,$(wildcard ../verbs/lib/*.cc))

include ../programs.mk

.PHONY: verbs-library
verbs-library:
	@$(MAKE) --no-print-directory -C ../verbs OUT=$(VERBS_OUT) library
$(MORE_OBJECTS): verbs-library
	@:
