# SPDX-License-Identifier: GPL-2.0
"""The check of which folder of kernel/ uses which."""

import subprocess
import unittest
from pathlib import Path
from tempfile import TemporaryDirectory

from roxcheck import rooms

TABLE = """# Design

| Room | What is in it | May use |
|---|---|---|
| `main` | the module | `upper`, `lower` |
| `upper` | above | `lower` |
| `lower` | below | |

`upper` is not a row.
"""
# What each finding is made of: a file of the room `lower`, which may use none.
UPWARDS = {
    "includes": '#include "../upper/upper.h"\n',
    "names": "void rox_low(struct rox_up *up);\n",
    "names an enum": "int rox_low(enum rox_kind kind);\n",
}
TREE = {
    "main.c": '#include "upper/upper.h"\nstruct rox_up *up;\n',
    "upper/upper.h": "struct rox_up {\n};\nenum rox_kind { A };\n",
    "upper/internal.h": "struct rox_hidden {\n};\n",
    "upper/upper.c": '#include "upper.h"\n#include "internal.h"\n#include "../lower/lower.h"\n',
    "lower/lower.h": "struct rox_low {\n};\n",
    "lower/lower.c": '#include "lower.h"\n/* struct rox_up is above. */\n',
    "lower/lower_test.c": '#include "../upper/internal.h"\nstruct rox_hidden hidden;\n',
}


def judged(**changes):
    """The findings about a tree that has these files besides, or in place of its own."""
    with TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        for name, text in {**TREE, **changes}.items():
            (base / name).parent.mkdir(exist_ok=True)
            (base / name).write_text(text, encoding="utf-8")
        files = rooms.sources(base)
        arrows = [*rooms.by_include(files, base), *rooms.by_type(files, base)]
        return rooms.findings(rooms.table(TABLE), arrows, files)


class Rooms(unittest.TestCase):
    def test_table(self):
        self.assertEqual(rooms.table(TABLE), {"main": {"upper", "lower"}, "upper": {"lower"}, "lower": set()})
        self.assertEqual(rooms.table("# no table"), {})
        self.assertTrue(rooms.findings({}, [], []))

    def test_downwards_and_tests_are_right(self):
        self.assertEqual(judged(), [])

    def test_upwards_is_found(self):
        for what, text in UPWARDS.items():
            with self.subTest(what):
                self.assertEqual(len(judged(**{"lower/new.c": text})), 1)

    def test_internals_of_another_room_are_found(self):
        self.assertEqual(len(judged(**{"main.c": '#include "upper/internal.h"\n'})), 1)

    def test_room_without_a_row_is_found(self):
        self.assertTrue(judged(**{"cellar/cellar.c": "int x;\n"}))

    def test_circle_in_the_table_is_found(self):
        self.assertEqual(rooms.circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}), ["a", "b", "c"])
        self.assertEqual(rooms.circles(rooms.table(TABLE)), [])

    def test_symbols(self):
        with TemporaryDirectory() as folder:
            base = Path(folder)
            for room, text in (("upper", "void up(void) {}"), ("lower", "void up(void); void low(void) { up(); }")):
                (base / room).mkdir()
                (base / room / f"{room}.c").write_text(text, encoding="utf-8")
                subprocess.run(["gcc", "-xc", "-c", "-", "-o", base / room / f"{room}.o"], input=text,
                               text=True, check=True)
            (base / "lower" / "old.o").write_bytes(b"of a source that has gone")
            found = rooms.wrong(rooms.by_symbol(base, base), rooms.table(TABLE))
        self.assertEqual([(arrow.user, arrow.used, arrow.what) for arrow in found], [("lower", "upper", "links up")])


if __name__ == "__main__":
    unittest.main()
