# SPDX-License-Identifier: GPL-2.0
#
# Programs of GoogleTest cases, NAME_test.cc -> OUT/NAME, over the library in lib/. Included by a
# folder's Makefile, which has set OUT and INCLUDES; MORE_OBJECTS are linked as well. With SUFFIX and
# LDLIBS set they are other programs, NAMESUFFIX.cc.

CXXFLAGS ?= -O1
override CXXFLAGS += -std=c++20 -g1 -Wall -Wextra -Werror $(INCLUDES) -pthread -MMD -MP
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

# GoogleTest's header is a third of the work on each file; once for all of them is enough.
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
