# SPDX-License-Identifier: GPL-2.0
#
# Programs of GoogleTest cases over the library of the verbs tests and one of their own in lib/.
# Included by a folder's Makefile, which has set OUT and INCLUDES.

CXXFLAGS ?= -O1
override CXXFLAGS += -std=c++20 -g1 -Wall -Wextra -Werror $(INCLUDES) -pthread -MMD -MP
LDLIBS := -lgtest -lrdmacm -libverbs -lpthread
verbs := ../verbs/lib

programs := $(patsubst %_test.cc,$(OUT)/%,$(wildcard *_test.cc))
library := $(patsubst lib/%.cc,$(OUT)/lib/%.o,$(wildcard lib/*.cc)) \
	$(patsubst $(verbs)/%.cc,$(OUT)/verbs/%.o,$(wildcard $(verbs)/*.cc))

.PHONY: all clean
.DELETE_ON_ERROR:
.SECONDARY:
all: $(programs)

$(OUT)/%: $(OUT)/%_test.o $(library)
	$(CXX) -pthread $(LDFLAGS) -o $@ $^ $(LDLIBS)

$(OUT)/verbs/%.o: $(verbs)/%.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<

$(OUT)/%.o: %.cc
	@mkdir -p $(@D)
	$(CXX) $(CXXFLAGS) -c -o $@ $<

clean:
	rm -rf $(OUT)

-include $(wildcard $(OUT)/*.d $(OUT)/lib/*.d $(OUT)/verbs/*.d)
