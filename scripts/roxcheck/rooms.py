# SPDX-License-Identifier: GPL-2.0
"""Which folder of kernel/ may use which: the table "Rooms" of Documentation/design.md, held against the code.

A room is a folder of kernel/; `main` is the files directly in it. A room uses another one by
including its header, by naming one of its structures, unions or enums, or by calling a symbol that
one of its objects defines. Other rooms include a room's headers but not its internal.h. Tests
(*_test.c, and the room `kunit`) may use all, and nothing uses them.
"""

import re
import subprocess
from collections import namedtuple

from roxvm.paths import REPO

SOURCE = REPO / "kernel"
TABLE = REPO / "Documentation" / "design.md"
HEAD = re.compile(r"^\|\s*Room\s*\|.*\|\s*May use\s*\|\s*$")
NAME = re.compile(r"`(\w+)`")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)
DEFINED = re.compile(r"^(?:struct|union|enum)\s+(\w+)\s*\{", re.M)
NAMED = re.compile(r"\b(?:struct|union|enum)\s+(\w+)")
MAIN = "main"
TESTS = "kunit"

Arrow = namedtuple("Arrow", "user used where what")


def table(text):
    """What each room may use, by the table in this text."""
    lines = iter(text.splitlines())
    if not any(HEAD.match(line) for line in lines):
        return {}
    next(lines)
    rooms = {}
    for line in lines:
        if not line.startswith("|"):
            break
        cells = line.strip("| ").split("|")
        for room in NAME.findall(cells[0]):
            rooms[room] = set(NAME.findall(cells[-1]))
    return rooms


def circles(rooms):
    """Rooms that use themselves by way of others, which no table may have."""
    def below(room, seen):
        for used in rooms.get(room, ()):
            if used not in seen:
                seen.add(used)
                below(used, seen)
        return seen
    return sorted(room for room in rooms if room in below(room, set()))


def room_of(path, base):
    """The room of a file below `base`; a test is of the room of tests wherever it lies."""
    parts = path.relative_to(base).parts
    if path.stem.endswith("_test"):
        return TESTS
    return parts[0] if len(parts) > 1 else MAIN


def sources(base):
    """Each source of the module: (path, room, text without comments)."""
    return [(path, room_of(path, base), COMMENT.sub(" ", path.read_text(encoding="utf-8")))
            for path in sorted(base.rglob("*.[ch]")) if not path.name.endswith(".mod.c")]


def by_include(files, base):
    """Arrows of headers; a room's internal.h is drawn as the room "its internal.h"."""
    for path, room, text in files:
        for name in INCLUDE.findall(text):
            header = (path.parent / name).resolve()
            if not header.exists():
                header = (base / name).resolve()
            if header.exists() and header.is_relative_to(base):
                used = room_of(header, base)
                inside = header.name == "internal.h" and used != room
                yield Arrow(room, f"{used}/internal.h" if inside else used,
                            path.relative_to(base), f"includes {name}")


def by_type(files, base):
    """Arrows of structures, unions and enums."""
    owner = {name: room for _, room, text in files for name in DEFINED.findall(text)}
    for path, room, text in files:
        for name in sorted(set(NAMED.findall(text)) & set(owner)):
            yield Arrow(room, owner[name], path.relative_to(base), f"names {name}")


def by_symbol(objects, base):
    """Arrows of what is linked, from the objects of a build of the sources below `base`."""
    owner, wanted = {}, []
    for path in sorted(objects.rglob("*.o")):
        # Not what is linked from others, and not what is left of a source that has gone.
        if path.name in ("rox.o", "rox.mod.o") or not (base / path.relative_to(objects)).with_suffix(".c").exists():
            continue
        room = room_of(path, objects)
        listing = subprocess.run(["nm", "-g", str(path)], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            *_, kind, name = line.split()
            if kind == "U":
                wanted.append((room, path.relative_to(objects), name))
            else:
                owner[name] = room
    for room, where, name in wanted:
        if name in owner:
            yield Arrow(room, owner[name], where, f"links {name}")


def wrong(arrows, rooms):
    """The arrows that the table does not have."""
    return [arrow for arrow in arrows if arrow.user not in (arrow.used, TESTS)
            and arrow.used not in rooms.get(arrow.user, ())]


def findings(rooms, arrows, files):
    """What is amiss, as lines."""
    if not rooms:
        return [f"{TABLE.name} has no table of rooms"]
    found = [f"{room}: the table lets it use itself by way of others" for room in circles(rooms)]
    found += [f"{room}: not in the table of {TABLE.name}"
              for room in sorted({room for _, room, _ in files} - set(rooms) - {TESTS})]
    found += [f"{arrow.where}: {arrow.what}: {arrow.user} may not use {arrow.used}"
              for arrow in wrong(arrows, rooms)]
    return found


def check(objects=None):
    """All findings; symbols are looked at if there is a folder of objects."""
    files = sources(SOURCE)
    arrows = [*by_include(files, SOURCE), *by_type(files, SOURCE), *(by_symbol(objects, SOURCE) if objects else ())]
    return findings(table(TABLE.read_text(encoding="utf-8")), arrows, files)
