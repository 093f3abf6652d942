# SPDX-License-Identifier: GPL-2.0
#
# Programs over the library of the verbs tests, too, which is built in its own folder.

VERBS_OUT := $(abspath $(OUT)/../verbs)
MORE_OBJECTS := $(patsubst ../verbs/lib/%.cc,$(VERBS_OUT)/lib/%.o,$(wildcard ../verbs/lib/*.cc))

include ../programs.mk

.PHONY: verbs-library
verbs-library:
	@$(MAKE) --no-print-directory -C ../verbs OUT=$(VERBS_OUT) library
$(MORE_OBJECTS): verbs-library
	@:
