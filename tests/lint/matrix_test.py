# SPDX-License-Identifier: GPL-2.0
"""The matrix of builds: its rows, names of headers, the verdict on a build, changed configurations, the page."""

import unittest
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from unittest import mock

from roxmatrix import build, cli, headers, page, roots, rows, small, source
from roxvm import debroot
from roxvm.paths import HarnessError

ROWS = rows.table(small.KINDS)


def labels(*words):
    return [row.label for row in rows.select(ROWS, words)]


class MatrixRows(unittest.TestCase):
    def test_no_row_is_there_twice(self):
        for names in ([row.label for row in ROWS], [row.folder for row in ROWS]):
            self.assertEqual(len(names), len(set(names)))

    def test_series_has_all_flavours_and_a_kernel_one(self):
        self.assertEqual(len(labels("7.3", "full")), 7)
        self.assertEqual(labels("7.3-16k"), ["7.3-16k arm64 trixie"])
        self.assertEqual(labels("7.3-rt"), ["7.3-rt amd64 trixie", "7.3-rt arm64 trixie"])
        self.assertEqual(labels("7.3", "plain", "full"), ["7.3 amd64 trixie", "7.3 arm64 trixie"])

    def test_words_all_count(self):
        self.assertEqual(labels("6.12", "bookworm", "cloud", "arm64"), ["6.12-cloud arm64 bookworm"])
        self.assertEqual(labels("7.3", "no-IPv6"), ["7.3 amd64 trixie no IPv6"])
        self.assertEqual(labels("source"), ["6.12-64k arm64 source", "6.12 s390x source"])
        self.assertEqual(labels("7.4"), [])

    def test_command_without_rows_fails(self):
        with mock.patch("sys.stderr"):
            self.assertEqual(cli.main(["7.4"]), 2)


class MatrixHeaders(unittest.TestCase):
    def test_series_flavour_and_processor_are_told_apart(self):
        for name in ("6.12.95+deb12-amd64", "6.12.117+deb13-amd64"):
            self.assertTrue(headers.matches(name, "6.12", "", "amd64"))
        for name in ("6.12.95+deb12-rt-amd64", "6.12.95+deb12-arm64", "6.1.0-56-amd64", "6.12.95+deb12-common"):
            self.assertFalse(headers.matches(name, "6.12", "", "amd64"))
        self.assertTrue(headers.matches("7.3.4+deb13-cloud-arm64", "7.3", "cloud", "arm64"))
        self.assertTrue(headers.matches("7.3.4+deb13-arm64-16k", "7.3", "16k", "arm64"))
        self.assertFalse(headers.matches("7.3.4+deb13-arm64-16k", "7.3", "", "arm64"))
        self.assertFalse(headers.matches("7.3.4+deb13-arm64", "7.3", "16k", "arm64"))

    def test_programs_of_kbuild_are_those_of_this_machine(self):
        fields = {"Version": "7.3.4-1", "Depends": "linux-base, linux-headers-7.3.4+deb13-common (= 7.3.4-1), "
                                                   "linux-kbuild-7.3.4+deb13, gcc-14-for-host"}
        with mock.patch.multiple(headers, architecture=lambda: "amd64", records=lambda *_: []):
            self.assertEqual(headers.package_list(None, "7.3.4+deb13-arm64", "arm64", fields),
                             ["linux-headers-7.3.4+deb13-arm64:arm64=7.3.4-1",
                              "linux-headers-7.3.4+deb13-common:amd64=7.3.4-1",
                              "linux-kbuild-7.3.4+deb13:amd64=7.3.4-1"])

    def test_newest_version_is_that_of_numbers(self):
        names = ["linux-headers-6.12.9+deb13-amd64", "linux-headers-6.12.117+deb13-amd64",
                 "linux-headers-6.12.200+deb13-rt-amd64", "linux-headers-6.12.117+deb13-common"]
        root = SimpleNamespace(apt=lambda *_, **__: SimpleNamespace(stdout="\n".join(names)))
        with mock.patch.object(headers, "records", lambda *_: [{"Version": "1", "Depends": ""}]):
            self.assertEqual(headers.offered(root, "6.12", "", "amd64")[0], "6.12.117+deb13-amd64")
            self.assertIsNone(headers.offered(root, "6.12", "cloud", "amd64"))


    def test_headers_that_are_there_are_not_fetched(self):
        with TemporaryDirectory() as folder, mock.patch.object(debroot, "ROOTS", Path(folder)):
            root = roots.Root("trixie")
            self.assertEqual(root.path, Path(folder) / "build-trixie")
            headers.marker(root, "7.3.4+deb13-amd64").parent.mkdir(parents=True)
            headers.marker(root, "7.3.4+deb13-amd64").touch()
            self.assertEqual(headers.ensure(root, "7.3", "", "amd64"), "7.3.4+deb13-amd64")


class MatrixRoots(unittest.TestCase):
    def test_suite_of_an_unknown_archive_is_left_out(self):
        found = debroot.sources("trixie", {"Debian": "http://mirror/debian/"})
        self.assertEqual(found, ["deb http://mirror/debian/ trixie main",
                                 "deb http://mirror/debian/ trixie-backports main"])

    def test_only_how_to_reach_the_mirror_is_taken_over(self):
        dump = 'Acquire::http::Proxy "http://p:1";\nAcquire::Check-Date "false";\nAcquire::Languages "none";\n' \
               'Acquire::AllowInsecureRepositories "true";\n'
        with mock.patch.object(debroot, "run", lambda *_, **__: SimpleNamespace(stdout=dump)):
            self.assertEqual(debroot.acquire_options(),
                             ['Acquire::http::Proxy "http://p:1";', 'Acquire::Check-Date "false";'])


class MatrixVerdict(unittest.TestCase):
    WARNED = "net/rx.c:1:2: warning: unused variable 'x' [-Wunused-variable]\n"

    def test_good_build(self):
        notes = "warning: the compiler differs from the one used to build the kernel\n  CC [M]  x.o\n"
        self.assertEqual(build.judge(notes, 0, True), ("built", 0, ""))

    def test_warnings_are_counted_once_and_fail_the_row(self):
        verdict = build.judge(self.WARNED * 2 + "WARNING: modpost: missing MODULE_DESCRIPTION()\n", 0, True)
        self.assertEqual(verdict, ("built", 2, ""))
        self.assertFalse(build.Result("7.3", "gcc-14", "built", 2, 1).good)
        self.assertTrue(build.Result("7.3", "gcc-14", "built", 0, 1).good)

    def test_failed_build_says_why(self):
        error = "net/net.h:9:10: fatal error: net/ipv6_stubs.h: No such file"
        self.assertEqual(build.judge(f"{error}\nmake: *** Error 2\n", 2, False), ("failed", 0, error))
        self.assertEqual(build.judge("", 0, False)[0], "failed")
        self.assertEqual(build.judge("", 1, True)[0], "failed")

    def test_refusal_needs_the_sentence_and_no_module(self):
        said = "Kbuild:12: *** rox needs a 64-bit kernel.  Stop.\n"
        sentence = small.KINDS["32 bits"].refusal
        self.assertEqual(build.judge(said, 2, False, sentence)[0], "refused")
        self.assertEqual(build.judge("net/x.c:1: error: y\n", 2, False, sentence)[0], "failed")
        self.assertEqual(build.judge(said, 0, True, sentence)[0], "failed")

    def test_row_without_headers_or_mirror_fails(self):
        self.assertFalse(build.Result("", "", "no headers", 0, 0).good)
        with mock.patch.object(build, "build", side_effect=HarnessError("`apt-get update` failed")):
            result = cli.build_row(ROWS[0], False)
        self.assertEqual((result.result, result.good), ("failed", False))

    def test_other_processor_has_its_compiler(self):
        with mock.patch.object(build, "architecture", lambda: "amd64"):
            self.assertEqual(build.cross("amd64"), [])
            self.assertEqual(build.cross("arm64"), ["CROSS_COMPILE=aarch64-linux-gnu-"])

    def test_module_of_another_processor_is_found_out(self):
        with TemporaryDirectory() as folder:
            module = Path(folder) / "rox.ko"
            module.write_bytes(b"\x7fELF" + bytes(14) + (183).to_bytes(2, "little"))
            self.assertTrue(build.is_for(module, "arm64"))
            self.assertFalse(build.is_for(module, "amd64"))
            module.write_bytes(b"\x7fELF\x02\x02" + bytes(12) + (22).to_bytes(2, "big"))
            self.assertTrue(build.is_for(module, "s390x"))
            self.assertFalse(build.is_for(module, "arm64"))

    def test_symbols_of_a_kernel_that_is_not_built_are_no_warnings(self):
        unknown = 'WARNING: modpost: "kfree" [rox.ko] undefined!\n' \
                  "WARNING: modpost: suppressed 328 unresolved symbol warnings because there were too many)\n"
        self.assertEqual(source.without_unknown_symbols(unknown + self.WARNED + unknown), self.WARNED)


class MatrixSmall(unittest.TestCase):
    def test_options_and_their_symbols_go(self):
        with TemporaryDirectory() as folder:
            root = SimpleNamespace(path=Path(folder))
            original = Path(folder) / "usr/src/linux-headers-7.3-amd64"
            for name, text in (("include/config/auto.conf", "CONFIG_CRC32=y\nCONFIG_CRC32C=y\n"),
                               ("include/generated/autoconf.h", "#define CONFIG_CRC32 1\n#define CONFIG_CRC32C 1\n"),
                               ("Module.symvers", "0x1\tcrc32_le\tvmlinux\tEXPORT_SYMBOL\t\n"
                                                  "0x2\tcrc8\tvmlinux\tEXPORT_SYMBOL\t\n"),
                               ("Makefile", "KBUILD_OUTPUT=/usr/src/linux-headers-7.3-amd64\n")):
                path = original / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            inside = small.prepare(root, "7.3-amd64", "no CRC32")
            self.assertEqual(inside, "/usr/src/linux-headers-7.3-amd64-no-CRC32")
            copy = Path(folder + inside)
            self.assertEqual((copy / "include/config/auto.conf").read_text(), "CONFIG_CRC32C=y\n")
            self.assertEqual((copy / "include/generated/autoconf.h").read_text(), "#define CONFIG_CRC32C 1\n")
            self.assertEqual((copy / "Module.symvers").read_text(), "0x2\tcrc8\tvmlinux\tEXPORT_SYMBOL\t\n")
            self.assertEqual((copy / "Makefile").read_text(), f"KBUILD_OUTPUT={inside}\n")
            self.assertIn("CONFIG_CRC32=y", (original / "include/config/auto.conf").read_text())

    def test_symbols_are_those_that_rox_would_import(self):
        gone = {"no ODP": "ib_umem_odp_get", "no IPv6": "ip6_dst_lookup_flow", "no CRC32": "crc32_le",
                "no dma-buf": "dma_buf_vmap_unlocked", "no MEMCG": "get_mem_cgroup_from_mm"}
        line = "0x1\t{}\tvmlinux\tEXPORT_SYMBOL\t\n"
        for kind, symbol in gone.items():
            stays = line.format("ib_register_device") + line.format("ip6_local_out")
            for name in (kind, "minimal"):
                pattern = rf"^\w+\t({small.KINDS[name].symbols})\t"
                self.assertEqual(small.without(line.format(symbol) + stays, pattern), stays, kind)


class MatrixPage(unittest.TestCase):
    ORDER = [("7.3", "amd64", "trixie", "Debian's"), ("6.1", "amd64", "bookworm", "Debian's")]

    def row(self, series, release, warnings):
        result = build.Result(f"{series}.4-amd64", "gcc-14", "built", warnings, 60)
        return page.cells(rows.Row(series, "", "amd64", release), result, "2026-11-23", "0123456789")

    def test_what_is_written_is_read_again(self):
        old = [self.row("6.1", "bookworm", 3)]
        text = page.write(f"# Kernels\n\n{page.BEGIN}\n{page.END}\n\nbelow\n", old)
        self.assertEqual(page.parse(text), old)
        self.assertTrue(text.startswith("# Kernels\n") and text.endswith("\n\nbelow\n"))
        self.assertEqual(page.write(text, old), text)

    def test_new_rows_replace_old_ones_in_the_order_of_the_matrix(self):
        old = [self.row("6.1", "bookworm", 3), self.row("6.0", "gone", 0)]
        new = [self.row("7.3", "trixie", 0), self.row("6.1", "bookworm", 0)]
        self.assertEqual(page.merge(old, new, self.ORDER), new)
        self.assertEqual(page.merge(old, new[:1], self.ORDER), [new[0], old[0]])


if __name__ == "__main__":
    unittest.main()
