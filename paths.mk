# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Where things are installed, for all makefiles. Each can be set on make's command line, as with GNU's
# GNUInstallDirs. libibverbs loads providers from its own folders only, so those follow the installed
# libibverbs and not prefix.

DESTDIR ?=
prefix ?= /usr
exec_prefix ?= $(prefix)
bindir ?= $(exec_prefix)/bin
datadir ?= $(prefix)/share
mandir ?= $(datadir)/man
includedir ?= $(prefix)/include
sysconfdir ?= /etc

# $(call pkg_variable,PACKAGE,VARIABLE,OTHERWISE)
pkg_variable = $(or $(shell pkg-config --variable=$2 $1 2>/dev/null),$3)

# Without pkg-config: Debian's multiarch folder, else /usr/lib64 where there is one.
triplet = $(shell $(or $(CXX),g++) -print-multiarch 2>/dev/null)
libdir ?= $(call pkg_variable,libibverbs,libdir,/usr/$(or $(if $(triplet),lib/$(triplet)),$(notdir $(wildcard /usr/lib64)),lib))
providerdir ?= $(libdir)/libibverbs
driverdir ?= $(sysconfdir)/libibverbs.d
unitdir ?= $(call pkg_variable,systemd,systemdsystemunitdir,/usr/lib/systemd/system)
udevdir ?= $(call pkg_variable,udev,udevdir,/usr/lib/udev)
completionsdir ?= $(call pkg_variable,bash-completion,completionsdir,$(datadir)/bash-completion/completions)
