# SPDX-License-Identifier: GPL-2.0
#
# All targets of the project. The usual ones:
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
include paths.mk
# Only `make deps`, `make demo` and `make check` install what is missing: they set ROX_INSTALL. All others say what
# is missing. Developers build with WERROR=1, as `make check` does.
demo check check-%: export ROX_INSTALL := 1
check check-%: export WERROR := 1
# A line for recipes that need some of the packages that scripts/deps knows.
needs_deps = @scripts/deps --quick $(if $(ROX_INSTALL),,--check)

# The kernels of `make check`, of `make check-all`, and of the quick targets. "uml" is User Mode Linux with KUnit, built
# here; "debug", "debug-rt" and "kcsan" take longer to build (scripts/roxvm/debugkernel.py).
KERNELS ?= 6.1 6.12 uml
ALL_KERNELS ?= 6.1 6.12 6.12-rt 7.3 7.3-rt 7.3-cloud 6.12-arm64 6.12-arm64-16k uml uml-7.3 uml-small debug debug-rt kcsan
built_kernels := debug debug-rt kcsan uml uml-7.3 uml-small arm64-64k
# A line for recipes that need a kernel which may have to be built.
built_first = $(if $(filter $(built_kernels),$1),@$(MAKE) --no-print-directory kernel-$1)
QUICK_KERNEL ?= 6.12

# The kernel to build for. A series ("6.1") means the newest one in the cache.
# Targets that need it look it up once.
ifdef KDIR
find_kver = $(or $(KVER),$(shell $(MAKE) -s --no-print-directory -C $(KDIR) kernelrelease))
else
find_kver = $(shell scripts/kernels kver $(or $(KVER),$(shell uname -r)))
endif
kver = $(eval kver := $(find_kver))$(or $(kver),$(error no kernel version))
kdir = $(eval kdir := $(or $(KDIR),$(shell scripts/kernels kdir $(kver))))$(or \
	$(kdir),$(error no headers for kernel $(kver): name one with KVER= (6.1, 6.12) or KDIR=))

module_dir = $(BUILD)/$(kver)
moduledir ?= /lib/modules/$(kver)/updates
updates = $(DESTDIR)$(moduledir)

.PHONY: all module provider tools tests deps deps-quick deps-there help
all: provider module

help:
	@sed -n 's/^## //p' $(firstword $(MAKEFILE_LIST))

## make                 the module (KVER= or KDIR=, else the running kernel) and the provider
## make module|provider|tests    one of them, or the test programs (TESTS=groups)
## make tools           rox-doctor, roxtop and rox-cap; make install-tools, make uninstall-tools
module:
	@scripts/needs module
	@scripts/build-module $(kver) $(kdir) $(module_dir) $(KMAKEFLAGS)

provider:
	@scripts/needs provider
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace all

tools:
	@scripts/needs tools
	@$(MAKE) --no-print-directory -C tools OUT=$(BUILD)/tools all

tests: deps-there
	@$(MAKE) --no-print-directory -C tests BUILD=$(BUILD)/tests $(or $(TESTS),all)

## make image           rox-run, and what it brings along (kernel, first process, provider), into build/run
##                      RUN_KERNEL=uml: with the debug kernel and the module, into build/run-uml
## make install-run     both, into DESTDIR=; make uninstall-run
## make image-vm        what its option --vm starts, into build/run/vm
## make image-programs  ip and rdma for file systems that have them not, into build/run/programs
## make run-tarball     rox-run for any folder of any x86-64 machine: build/rox-run.tar.xz
.PHONY: rox-run image image-vm image-programs install-run uninstall-run run-tarball
rox-run:
	@scripts/needs run
	@$(MAKE) --no-print-directory -C tools OUT=$(BUILD)/tools run

image: rox-run
	@scripts/needs provider
	$(if $(RUN_KERNEL)$(ROX_LINUX_SOURCE),,$(needs_deps) matrix)
	@scripts/run-image $(RUN_KERNEL)

image-vm: rox-run
	$(if $(ROX_RUN_VM_KERNEL),,$(needs_deps))
	@$(MAKE) --no-print-directory KVER=$(or $(ROX_RUN_VM_KERNEL),$(QUICK_KERNEL)) module
	@scripts/run-image vm

image-programs: deps-there
	@scripts/run-image programs

install-run: image
	@$(MAKE) --no-print-directory -C tools OUT=$(BUILD)/tools IMAGE=$(BUILD)/run install-run

uninstall-run:
	@$(MAKE) --no-print-directory -C tools uninstall-run

run-tarball: image image-vm image-programs
	rm -rf $(BUILD)/tarball
	@$(MAKE) --no-print-directory -C tools OUT=$(BUILD)/tools IMAGE=$(BUILD)/run \
		DESTDIR=$(BUILD)/tarball/rox-run exec_prefix= mandir=/man install-run
	tar -C $(BUILD)/tarball -cJf $(BUILD)/rox-run.tar.xz rox-run

## make deps            install what is missing, on Debian 12: packages, kernels for the VMs. FOR="build tools": only what
##                      `make all tools` needs, on Debian and Ubuntu (FOR="lint bench ...": for these)
deps:
	@scripts/deps $(FOR)

# Quick if nothing is missing.
deps-quick:
	@scripts/deps --quick

deps-there:
	$(needs_deps)

## make kernel-uml      User Mode Linux with KASAN, lockdep, KUnit, ...: 10 to 12 CPU minutes, once
## make kernel-uml-7.3  the same from the source of 7.3, with several CPUs
## make kernel-uml-small    that without what rox can do without: 5 CPU minutes, once
## make kernel-debug    the same for x86 machines: 20 CPU minutes, once
## make kernel-debug-rt, kernel-kcsan    that with PREEMPT_RT, or with KCSAN: as long
## make kernel-arm64-64k    pages of 64 KiB, for guests of arm64
.PHONY: $(built_kernels:%=kernel-%)
$(built_kernels:%=kernel-%): kernel-%:
	$(needs_deps) kernel
	$(if $(findstring 7.3,$*),$(needs_deps) matrix)
	@scripts/kernels fetch $*

# -- installation ----------------------------------------------------------

## make install         into DESTDIR= for KVER=; depmod only without DESTDIR
.PHONY: install install-module uninstall
install: install-module
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace install
	$(if $(DESTDIR),,depmod $(kver))

install-module:
	@test -f $(module_dir)/rox.ko || { \
		echo "nothing is built for $(kver): run make KVER=$(kver)" >&2; exit 1; }
	install -D -m 644 $(module_dir)/rox.ko $(updates)/rox.ko
	install -D -m 644 include/uapi/rdma/rox-abi.h $(DESTDIR)$(includedir)/rdma/rox-abi.h

## make uninstall       undo make install (same DESTDIR= and KVER=)
uninstall:
	rm -f $(updates)/rox.ko $(DESTDIR)$(includedir)/rdma/rox-abi.h
	-rmdir --ignore-fail-on-non-empty $(updates) 2>/dev/null
	@$(MAKE) --no-print-directory -C userspace OUT=$(BUILD)/userspace uninstall
	$(if $(DESTDIR),,depmod $(kver))

.PHONY: install-tools uninstall-tools
install-tools uninstall-tools:
	@$(MAKE) --no-print-directory -C tools OUT=$(BUILD)/tools $(@:-tools=)

## make deb             Debian packages for bookworm and trixie, each built in a clean root (DEB_RELEASES=); needs root
.PHONY: deb
deb:
	$(needs_deps) deb
	@scripts/deb $(DEB_RELEASES)

# -- tests -----------------------------------------------------------------

check_groups := lint unit verbs wire apps stacks interop pair life net hostile install roots packages kunit kusers tools run

## make check           the gate, which CI runs: the core of every group on KERNELS= (6.1 6.12 uml), 11 to 30 minutes
## make check-all       every group in full on ALL_KERNELS=, with debug, RT, KCSAN, 4 and 8 CPUs: a night (GROUPS="verbs net":
##                      some; ROWS="clock=0": those whose line in `scripts/check --list` has that; RESUME=1: without
##                      what has passed before with the same files)
## make check-changed   the groups that the changes since BASE= (main) can break, in full
## make check-gate      shows that the gate is green beside load and red with faults: an hour (RUNS="idle icrc": some)
## make check-quick     unit tests, the core of verbs and apps, one kernel
## make check-GROUP     one group in full: lint unit verbs wire apps stacks interop pair life net hostile install roots
##                      packages kunit kusers tools run
## make check-GROUP CPUS=8    in guests of 8 CPUs
## make check-record    write their results to Documentation/results.md
.PHONY: check check-all check-changed check-gate check-quick check-record $(check_groups:%=check-%)
check: deps-quick
	@scripts/check --kernels "$(KERNELS)"

check-all: deps-quick
	@scripts/check --tier all $(if $(RESUME),--resume) $(if $(ROWS),--rows "$(ROWS)") --kernels "$(ALL_KERNELS)" $(GROUPS)

check-changed: deps-quick
	@scripts/check --tier all --cpus 0 --kernels "$(KERNELS)" --changed $(or $(BASE),main)

check-gate: deps-quick
	@scripts/check-gate $(RUNS)

check-record:
	@scripts/check --record

check-quick: deps-quick
	@scripts/check --kernels "$(QUICK_KERNEL)" unit verbs apps

check-kunit: KERNELS := uml
$(check_groups:%=check-%): check-%: deps-quick
	@scripts/check --tier all --kernels "$(KERNELS)" --cpus $(or $(CPUS),0) $*

## make fuzz            hostile packets on a kernel with KASAN (PACKETS=2000000, SEED=, FUZZ_KERNEL=uml)
PACKETS ?= 2000000
FUZZ_KERNEL ?= uml
.PHONY: fuzz
fuzz: deps-there
	$(call built_first,$(FUZZ_KERNEL))
	@$(MAKE) --no-print-directory KVER=$(FUZZ_KERNEL) module provider
	@$(MAKE) --no-print-directory tests TESTS=wire
	ROX_PACKETS=$(PACKETS) ROX_SEED=$(SEED) ROX_LIMIT=7200 \
		scripts/vm --kernel $(FUZZ_KERNEL) --timeout 86400 --mem 3072 -- tests/wire/run fuzz

## make coverage        which lines of the module a group executes (COVERAGE="wire fuzz", or --lines wire, hostile ...)
COVERAGE ?= wire
coverage_build := $(BUILD)/coverage
.PHONY: coverage
coverage: deps-there
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

soak-connections: deps-there
	$(call built_first,$(SOAK_KERNEL))
	$(soak_build)
	ROX_IN_TURN=$(IN_TURN) ROX_LIMIT=43200 \
		scripts/vm --kernel $(SOAK_KERNEL) --timeout 86400 -- tests/verbs/run cm_many
	scripts/vm --kernel $(SOAK_KERNEL) --timeout 3600 -- tests/apps/run "cmtime -c 1000"

soak-mix: deps-there
	$(call built_first,$(SOAK_KERNEL))
	$(soak_build)
	ROX_SECONDS=$(soak_seconds) ROX_SEED=$(SEED) \
		scripts/vm --kernel $(SOAK_KERNEL) --timeout $(soak_limit) --pause 60,3 -- tests/soak/run

## make life-debug      TIMES=100 removals and faults of each kind during traffic (PARTS="remove shake", LIFE_KERNEL=uml)
LIFE_KERNEL ?= uml
PARTS ?= remove shake
TIMES ?= 100
.PHONY: life-debug
life-debug: deps-there
	$(call built_first,$(LIFE_KERNEL))
	@$(MAKE) --no-print-directory KVER=$(LIFE_KERNEL) module provider
	@$(MAKE) --no-print-directory tests TESTS=life
	ROX_REMOVE_TIMES=$(TIMES) ROX_SHAKE_TIMES=$(TIMES) ROX_LIFE_TIMES=$(TIMES) ROX_PAUSE_MS=0 \
		scripts/vm --kernel $(LIFE_KERNEL) --timeout 86400 --mem 3072 -- tests/life/run $(PARTS)

## make demo            two namespaces, stock programs between them, in one VM
## make vm              a shell in a VM with rox between two namespaces
.PHONY: demo vm
demo vm: deps-there
	@$(MAKE) --no-print-directory KVER=$(or $(KVER),$(QUICK_KERNEL)) all
	@scripts/$(if $(filter demo,$@),demo,vm-shell) $(or $(KVER),$(QUICK_KERNEL))

# -- measuring -------------------------------------------------------------

## make bench           rox beside rdma_rxe, siw and TCP (QUICK=1: the core; CHECK=1: fail below a target)
## make profile         where the time goes, PROFILE="write_bw --size 65536 --setting veth" (scripts/bench profile -h)
## make count           instructions of a message, counted by a plugin of QEMU (ONLY="veth rox": some; CHECK=1)
.PHONY: bench count profile
bench: deps-there
	$(needs_deps) bench
	@scripts/bench run $(if $(QUICK),--quick) $(if $(CHECK),--check) $(if $(BOOTS),--boots "$(BOOTS)")

count: deps-there
	$(needs_deps) bench
	@scripts/bench count $(if $(CHECK),--check) $(if $(ONLY),--only "$(ONLY)")

profile: deps-there
	$(needs_deps) bench
	@scripts/bench profile $(PROFILE)

# -- upkeep ----------------------------------------------------------------

## make matrix          build for Debian's kernels, flavours and processors, no guests (ONLY="7.3 arm64": some)
.PHONY: matrix
matrix:
	$(needs_deps) matrix
	@scripts/matrix $(ONLY)

## make lint            checkpatch, sparse, W=1, clang-format, clang-tidy, shellcheck
## make lint-quick      the part of it that takes seconds, which is in make check, too
## make format          clang-format on all C++
## make clean           remove everything that was built
.PHONY: lint lint-quick format clean
format:
	$(needs_deps) lint
	git ls-files -co --exclude-standard '*.cc' '*.cpp' '*.hpp' 'userspace/*.h' 'tests/*.h' | \
		xargs clang-format -i

lint:
	$(needs_deps) lint
	@scripts/lint $(filter-out $(built_kernels) %-rt,$(KERNELS))

lint-quick: deps-there
	@scripts/lint --quick

clean:
	rm -rf $(BUILD)
