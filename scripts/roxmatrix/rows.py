# SPDX-License-Identifier: GPL-2.0
"""Which builds the matrix has."""

from typing import NamedTuple

FLAVOURS = ("", "rt", "cloud")
# Pages of 16 KiB, which Debian has since 6.12 for one processor.
PAGES = (("7.3", "16k", "arm64", "trixie"), ("7.2", "16k", "arm64", "trixie"), ("6.12", "16k", "arm64", "trixie"))
PROCESSORS = ("amd64", "arm64")
# Series and the release whose compiler made the kernel. The newest come first: they fail most often.
SERIES = (("7.3", "trixie"), ("7.2", "trixie"), ("6.12", "trixie"), ("6.12", "bookworm"), ("6.1", "bookworm"))
# Pages of 64 KiB and a big-endian processor: for these there are no headers, but Debian's source of the kernel
# (source.py).
SOURCE = "source"
SOURCES = (("6.12", "64k", "arm64", SOURCE), ("6.12", "", "s390x", SOURCE))
# What is left out of a configuration, on one kernel each.
SMALL = (("6.12", "trixie"), ("7.3", "trixie"))


class Row(NamedTuple):
    """One build. `small` is a name of small.KINDS, or empty."""

    series: str
    flavour: str
    arch: str
    release: str
    small: str = ""

    @property
    def kernel(self):
        """The name that scripts/kernels has for it."""
        return "-".join(filter(None, (self.series, self.flavour)))

    @property
    def label(self):
        return " ".join(filter(None, (self.kernel, self.arch, self.release, self.small)))

    @property
    def folder(self):
        return self.label.replace(" ", "-").lower()


def table(kinds):
    """All rows. The usual flavours stand first, so that an interrupted run has built most of what differs."""
    rows = [Row(series, flavour, arch, release) for flavour in FLAVOURS
            for series, release in SERIES for arch in PROCESSORS]
    rows += [Row(*row) for row in (*PAGES, *SOURCES)]
    return rows + [Row(series, "", "amd64", release, kind) for series, release in SMALL for kind in kinds]


def select(rows, words):
    """The rows that have all these words: a series ("7.3": every flavour), a kernel ("7.3-rt"), others ("arm64")."""
    def fits(row, word):
        return word in (row.series, row.kernel, row.arch, row.release, row.flavour or "plain",
                        row.small.replace(" ", "-") or "full")
    return [row for row in rows if all(fits(row, word) for word in words)]
