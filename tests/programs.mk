# SPDX-License-Identifier: GPL-2.0
#
# Builds GoogleTest programs, NAME_test.cc -> OUT/NAME, linked with the library in lib/ and with
# MORE_OBJECTS. Included by a folder's Makefile, which sets OUT and INCLUDES. With SUFFIX and LDLIBS it
# builds other programs, NAMESUFFIX.cc -> OUT/NAME.

CXXFLAGS ?= -O1
override CXXFLAGS += -std=c++20 -g1 -Wall -Wextra $(if $(WERROR),-Werror) $(INCLUDES) -pthread -MMD -MP -MT $@
SUFFIX ?= _test
LDLIBS ?= -lgtest -lrdmacm -libverbs -lpthread

programs := $(patsubst %$(SUFFIX).cc,$(OUT)/%,$(wildcard *$(SUFFIX).cc))
library := $(patsubst lib/%.cc,$(OUT)/lib/%.o,$(wildcard lib/*.cc))

.PHONY: all library clean
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:
all: $(programs)
library: $(library)

$(OUT)/%: $(OUT)/%$(SUFFIX).o $(library) $(MORE_OBJECTS)
	$(CXX) -pthread $(LDFLAGS) -o $@ $^ $(LDLIBS)

# GoogleTest's header takes a third of the time to compile a file, so it is precompiled.
common := $(OUT)/lib/common.hpp
$(common).gch:
	@mkdir -p $(@D)
	echo '#include <gtest/gtest.h>' >$(common)
	$(CXX) $(CXXFLAGS) -x c++-header -o $@ $(common)

$(OUT)/%.o: %.cc | $(common).gch
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -include $(common) -c -o $@ $<

clean:
	rm -rf $(OUT)

-include $(wildcard $(OUT)/*.d $(OUT)/lib/*.d)
