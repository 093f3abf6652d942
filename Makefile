# SPDX-License-Identifier: GPL-2.0
#
# Every verb of the project. The usual ones:
#
#   make [KVER=6.1|6.12|`uname -r`] [KDIR=headers]    module and provider
#   make demo, make check, make check-quick, make vm
#   sudo make install, sudo make uninstall
#
# `make help` lists them all.

SHELL := /bin/bash
.DELETE_ON_ERROR:
.SUFFIXES:

export ROX_BUILD := $(abspath $(or $(ROX_BUILD),build))
BUILD := $(ROX_BUILD)
DESTDIR ?=
INCLUDEDIR ?= /usr/include

# The kernels that `make check` tests on, and the one of the quick verbs. "uml" is our
# own build for KUnit, as is "debug", which takes longer (scripts/roxvm/debugkernel.py).
KERNELS ?= 6.1 6.12 uml
ALL_KERNELS ?= 6.1 6.12 uml debug
built_kernels := debug uml
# A line of a recipe that needs that kernel.
built_first = $(if $(filter $(built_kernels),$1),@$(MAKE) --no-print-directory kernel-$1)
QUICK_KERNEL ?= 6.12

# The kernel to build for. A series ("6.1") means the newest one in the cache.
# Looked up only by the targets that need it, and then once.
ifdef KDIR
find_kver = $(or $(KVER),$(shell $(MAKE) -s --no-print-directory -C $(KDIR) kernelrelease))
else
find_kver = $(shell scripts/kernels kver $(or $(KVER),$(shell uname -r)))
endif
kver = $(eval kver := $(find_kver))$(or $(kver),$(error no kernel version))
kdir = $(eval kdir := $(or $(KDIR),$(shell scripts/kernels kdir $(kver))))$(or \
	$(kdir),$(error no headers for kernel $(kver): name one with KVER= (6.1, 6.12) or KDIR=))

module_dir = $(BUILD)/$(kver)
updates = $(DESTDIR)/lib/modules/$(kver)/updates

.PHONY: all module provider tests deps deps-quick deps-build help
all: provider module

help:
	@sed -n 's/^## //p' $(firstword $(MAKEFILE_LIST))

## make                 the module (KVER= or KDIR=, else the running kernel) and the provider
## make module|provider|tests    one of them, or the test programs (TESTS=groups)
module: deps-build
	@scripts/build-module $(kver) $(kdir) $(module_dir) $(KMAKEFLAGS)

provider: deps-build
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace all

tests: deps-quick
	@$(MAKE) --no-print-directory -C tests BUILD=$(BUILD)/tests $(or $(TESTS),all)

## make deps            install what is missing: packages, kernels for the VMs
deps:
	@scripts/deps

# Quick when nothing is missing; plain `make` wants the compiler, not QEMU.
deps-quick:
	@scripts/deps --quick

deps-build:
	@scripts/deps --quick build

## make kernel-uml      User Mode Linux with KASAN, lockdep, KUnit, ...: 10 to 12 CPU minutes, once
## make kernel-debug    the same for x86 machines: 20 CPU minutes, once
.PHONY: kernel-debug kernel-uml
kernel-debug kernel-uml: kernel-%:
	@scripts/deps --quick kernel
	@scripts/kernels fetch $*

# -- installation ----------------------------------------------------------

## make install         into DESTDIR= for KVER=; depmod only without DESTDIR
.PHONY: install uninstall
install:
	@test -f $(module_dir)/rox.ko || { \
		echo "nothing is built for $(kver): run make KVER=$(kver)" >&2; exit 1; }
	install -D -m 644 $(module_dir)/rox.ko $(updates)/rox.ko
	install -D -m 644 include/uapi/rdma/rox-abi.h $(DESTDIR)$(INCLUDEDIR)/rdma/rox-abi.h
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace DESTDIR=$(DESTDIR) install
	$(if $(DESTDIR),,depmod $(kver))

## make uninstall       undo make install (same DESTDIR= and KVER=)
uninstall:
	rm -f $(updates)/rox.ko $(DESTDIR)$(INCLUDEDIR)/rdma/rox-abi.h
	-rmdir --ignore-fail-on-non-empty $(updates) 2>/dev/null
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace DESTDIR=$(DESTDIR) uninstall
	$(if $(DESTDIR),,depmod $(kver))

# -- tests -----------------------------------------------------------------

check_groups := lint unit verbs wire apps stacks interop pair life net hostile install kunit kusers

## make check           the gate, which CI runs: the core of every group on KERNELS= (6.1 6.12 uml), a quarter of an hour
## make check-all       every group in full on ALL_KERNELS= (6.1 6.12 uml debug): hours (GROUPS="verbs net": some)
## make check-quick     host units, the core of verbs and apps, one kernel
## make check-GROUP     one group in full: lint unit verbs wire apps stacks interop pair life net hostile install kunit kusers
.PHONY: check check-all check-quick $(check_groups:%=check-%)
check: deps-quick
	@scripts/check --kernels "$(KERNELS)"

check-all: deps-quick
	@scripts/check --tier all --kernels "$(ALL_KERNELS)" $(GROUPS)

check-quick: deps-quick
	@scripts/check --kernels "$(QUICK_KERNEL)" unit verbs apps

check-kunit: KERNELS := uml
$(check_groups:%=check-%): check-%: deps-quick
	@scripts/check --tier all --kernels "$(KERNELS)" $*

## make fuzz            hostile packets on a kernel with KASAN (PACKETS=2000000, SEED=, FUZZ_KERNEL=uml)
PACKETS ?= 2000000
FUZZ_KERNEL ?= uml
.PHONY: fuzz
fuzz: deps-quick
	$(call built_first,$(FUZZ_KERNEL))
	@$(MAKE) --no-print-directory KVER=$(FUZZ_KERNEL) module provider
	@$(MAKE) --no-print-directory tests TESTS=wire
	ROX_PACKETS=$(PACKETS) ROX_SEED=$(SEED) ROX_LIMIT=7200 \
		scripts/vm --kernel $(FUZZ_KERNEL) --timeout 86400 --mem 3072 -- tests/wire/run fuzz

## make coverage        the part of the module that a group executes (COVERAGE="wire fuzz", or --lines wire, hostile ...)
COVERAGE ?= wire
coverage_build := $(BUILD)/coverage
.PHONY: coverage
coverage: deps-quick
	$(call built_first,uml)
	@$(MAKE) --no-print-directory ROX_BUILD=$(coverage_build) KVER=uml KMAKEFLAGS=GCOV_PROFILE=y module provider
	@$(MAKE) --no-print-directory ROX_BUILD=$(coverage_build) tests TESTS="$(filter $(check_groups),$(COVERAGE))"
	ROX_BUILD=$(coverage_build) scripts/coverage $(COVERAGE)

## make soak            HOURS=24 or MINUTES=10 of mixed load, after IN_TURN=20000 connections (SOAK_KERNEL=6.12, SEED=)
## make soak-connections, make soak-mix     one of the two
SOAK_KERNEL ?= 6.12
IN_TURN ?= 20000
MINUTES ?= 10
soak_seconds = $(shell echo $$(($(if $(HOURS),$(HOURS) * 3600,$(MINUTES) * 60))))
soak_limit = $(shell echo $$((3600 + 3 * $(soak_seconds))))
soak_build = @$(MAKE) --no-print-directory KVER=$(SOAK_KERNEL) module provider && \
	$(MAKE) --no-print-directory tests TESTS="life verbs"
.PHONY: soak soak-connections soak-mix
soak: soak-connections soak-mix

soak-connections: deps-quick
	$(call built_first,$(SOAK_KERNEL))
	$(soak_build)
	ROX_IN_TURN=$(IN_TURN) ROX_LIMIT=43200 \
		scripts/vm --kernel $(SOAK_KERNEL) --timeout 86400 -- tests/verbs/run cm_many
	scripts/vm --kernel $(SOAK_KERNEL) --timeout 3600 -- tests/apps/run "cmtime -c 1000"

soak-mix: deps-quick
	$(call built_first,$(SOAK_KERNEL))
	$(soak_build)
	ROX_SECONDS=$(soak_seconds) ROX_SEED=$(SEED) \
		scripts/vm --kernel $(SOAK_KERNEL) --timeout $(soak_limit) --pause 60,3 -- tests/soak/run

## make life-debug      TIMES=100 removals of each kind, faults of each kind, in mid-traffic (PARTS="remove shake", LIFE_KERNEL=uml)
LIFE_KERNEL ?= uml
PARTS ?= remove shake
TIMES ?= 100
.PHONY: life-debug
life-debug: deps-quick
	$(call built_first,$(LIFE_KERNEL))
	@$(MAKE) --no-print-directory KVER=$(LIFE_KERNEL) module provider
	@$(MAKE) --no-print-directory tests TESTS=life
	ROX_REMOVE_TIMES=$(TIMES) ROX_SHAKE_TIMES=$(TIMES) ROX_LIFE_TIMES=$(TIMES) ROX_PAUSE_MS=0 \
		scripts/vm --kernel $(LIFE_KERNEL) --timeout 86400 --mem 3072 -- tests/life/run $(PARTS)

## make demo            two namespaces, stock programs between them, in one VM
## make vm              a shell in a VM with rox between two namespaces
.PHONY: demo vm
demo vm: deps-quick
	@$(MAKE) --no-print-directory KVER=$(or $(KVER),$(QUICK_KERNEL)) all
	@scripts/$(if $(filter demo,$@),demo,vm-shell) $(or $(KVER),$(QUICK_KERNEL))

# -- measuring -------------------------------------------------------------

## make bench           rox beside rdma_rxe, siw and TCP (QUICK=1: the core; CHECK=1: fail below a target)
## make profile         where the time goes, PROFILE="write_bw --size 65536 --setting veth" (scripts/bench profile -h)
.PHONY: bench profile
bench: deps-quick
	@scripts/deps --quick bench
	@scripts/bench run $(if $(QUICK),--quick) $(if $(CHECK),--check) $(if $(BOOTS),--boots "$(BOOTS)")

profile: deps-quick
	@scripts/deps --quick bench
	@scripts/bench profile $(PROFILE)

# -- upkeep ----------------------------------------------------------------

## make lint            checkpatch, sparse, W=1, clang-format, clang-tidy, shellcheck
## make lint-quick      the part of it that takes seconds, which is in make check, too
## make format          clang-format on all C++
## make clean           remove everything that was built
.PHONY: lint lint-quick format clean
format:
	@scripts/deps --quick lint
	git ls-files -co --exclude-standard '*.cc' '*.cpp' '*.hpp' 'userspace/*.h' 'tests/*.h' \
		'tools/*.h' | xargs clang-format -i

lint:
	@scripts/deps --quick lint
	@scripts/lint $(filter-out $(built_kernels),$(KERNELS))

lint-quick: deps-quick
	@scripts/lint --quick

clean:
	rm -rf $(BUILD)
