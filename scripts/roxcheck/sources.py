# SPDX-License-Identifier: GPL-2.0
"""What each group is built from, and which groups a change can break."""

import hashlib
import subprocess
from fnmatch import fnmatchcase

from roxvm import foreign
from roxvm.paths import REPO

from . import table

HOST = {"lint", "unit", "install", "roots", "packages", "run"}
GUEST = set(table.GROUPS) - HOST
# Groups whose cases are stock programs of tests/cases.sh.
TABLES = {"apps", "interop", "pair", "stacks"}

# The rooms, and the groups that show first what a change there has broken. The first pattern that a path
# matches counts; lint looks at everything.
BREAKS = (
    ("kernel/compat/*", GUEST | {"install"}),
    ("kernel/wire/*", {"kunit", "unit", "wire", "interop"}),
    ("kernel/ring/*", {"kunit", "verbs", "hostile"}),
    ("kernel/mem/*", {"kunit", "verbs", "hostile", "kusers"}),
    ("kernel/net/*", {"kunit", "wire", "verbs", "apps", "net", "pair", "interop", "life"}),
    ("kernel/transport/cc*", {"kunit", "unit", "wire", "net"}),
    ("kernel/transport/*", {"kunit", "wire", "verbs", "apps", "interop", "hostile", "stacks", "kusers"}),
    ("kernel/observe/*", {"kunit", "verbs", "tools"}),
    ("kernel/verbs/*", {"kunit", "verbs", "hostile", "apps", "kusers", "life"}),
    ("kernel/*", {"kunit", "life", "net", "verbs", "install"}),
    ("include/*", GUEST | {"unit", "install"}),
    ("userspace/*", {"unit", "verbs", "apps", "stacks", "hostile", "install"}),
    ("tools/run/*", {"unit", "run"}),
    ("tools/*", {"unit", "tools"}),
    ("debian/*", {"packages"}),
    ("packaging/*", {"install", "packages", "tools"}),
    ("tests/verbs/lib/*", {"verbs", "wire", "hostile", "life"}),
    ("tests/soak/*", {"life"}),
    ("tests/life/*", {"life", "net"}),
    ("tests/cases.sh", TABLES),
    ("tests/lib.sh", GUEST),
    *((f"tests/{group}/*", {group}) for group in table.GROUPS),
    ("tests/*", set(table.GROUPS)),
    ("scripts/roxbench/*", set()),
    ("scripts/roxmatrix/*", set()),
    ("scripts/roxvm/runkernel.py", {"run"}),
    ("scripts/run*", {"run"}),
    ("scripts/roxvm/*", GUEST),
    ("scripts/roxcheck/*", set()),
    ("scripts/*", {"install"}),
    ("Makefile", {"install"}),
    ("paths.mk", {"install"}),
    ("dkms.conf", {"install", "packages"}),
)

# What no result depends on.
WORDS = ("Documentation/*", "*.md", ".github/*", "LICENSES/*", "scripts/roxbench/*", "scripts/roxmatrix/*",
         "scripts/faults/*")
# The same of scripts/roxcheck: which rows there are, when one is tried again, what is written about them.
ABOUT_ROWS = tuple(f"scripts/roxcheck/{name}.py" for name in (
    "table", "cli", "sources", "again", "record", "booted", "rooms", "features"))
# What only these groups' results depend on.
ONLY_OF_RUN = ("tools/run/*", "scripts/run*", "scripts/roxvm/runkernel.py")
ONLY = (("kernel/*_test.c", {"kunit"}), ("kernel/kunit/*", {"kunit"}),
        *((pattern, {"run", "unit", "install", "packages"}) for pattern in ONLY_OF_RUN),
        ("tools/*", {"unit", "tools", "install", "packages", "run"}), ("debian/*", {"packages"}),
        ("packaging/*", {"install", "packages", "tools", "run"}))
# What only results over roots of other releases depend on: of these groups, and on kernels of another processor.
ONLY_OVER_ROOTS = ("scripts/roxvm/userroots.py", "scripts/roots")
OVER_ROOTS = {"roots", "run", "packages", "pair"}
# What only results on these kernels depend on: how such a kernel is built, and how its reports are judged.
ONLY_ON = (("scripts/roxvm/kcsan.py", {"kcsan"}), ("scripts/kcsan.config", {"kcsan"}),
           ("scripts/debug.config", {"debug", "debug-rt", "kcsan", "arm64-64k"}),
           ("scripts/debug-rt.config", {"debug-rt"}), ("scripts/arm64-64k.config", {"arm64-64k"}),
           ("scripts/uml.config", {"uml", "uml-7.3", "uml-small"}), ("scripts/uml-7.3.config", {"uml-7.3"}),
           ("scripts/uml-small.config", {"uml-small"}), ("scripts/s390x.config", set()))
# The folders of tests that a group's programs are built from, or whose programs it runs, besides its own.
BUILT_FROM = {"wire": ("verbs/lib",), "hostile": ("verbs/lib",), "life": ("soak", "verbs/lib"),
              "net": ("life", "soak", "verbs/lib"), "roots": ("verbs", "verbs/lib", "apps", "stacks"),
              "run": ("apps", "stacks", "roots")}


def broken_by(path):
    """The groups that a change of this file can break."""
    for pattern, groups in BREAKS:
        if fnmatchcase(path, pattern):
            return groups | {"lint"}
    return {"lint"}


def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=REPO, stdout=subprocess.PIPE, check=True, text=True).stdout


def all_files():
    """The project's files; without git's help all but those that were built."""
    try:
        paths = git("ls-files", "-co", "--exclude-standard").splitlines()
    except (OSError, subprocess.CalledProcessError):
        paths = [str(path.relative_to(REPO)) for path in REPO.rglob("*")]
        paths = [path for path in paths if not path.startswith(("build/", ".git/"))]
    return [path for path in sorted(set(paths)) if (REPO / path).is_file()]


def changed_since(base):
    """The files that differ from the common ancestor with `base`, committed or not."""
    ancestor = git("merge-base", base, "HEAD").strip()
    return sorted({*git("diff", "--name-only", ancestor).splitlines(),
                   *git("ls-files", "-o", "--exclude-standard").splitlines()})


def broken_since(base):
    """The groups that the changes since `base` can break, in the table's order."""
    broken = set().union(*(broken_by(path) for path in changed_since(base)))
    return [group for group in table.GROUPS if group in broken]


def is_source(path, group, kernel):
    """Can the group's result on a kernel, "host" for none, depend on this file?"""
    if group == "lint":
        return True
    if path in ABOUT_ROWS or any(fnmatchcase(path, pattern) for pattern in WORDS):
        return False
    if kernel not in dict(ONLY_ON).get(path, {kernel}):
        return False
    if path in ONLY_OVER_ROOTS:
        return group in OVER_ROOTS or bool(foreign.processor(kernel))
    for pattern, groups in ONLY:
        if fnmatchcase(path, pattern):
            return group in groups
    room = path.split("/")
    if room[0] != "tests" or len(room) < 3:
        return True
    return room[1] not in set(table.GROUPS) | {"soak", "bench", "demo"} or \
        any(path.startswith(f"tests/{folder}/") for folder in (group, *BUILT_FROM.get(group, ())))


class Trees:
    """Hashes of what groups are built from, as the files are now."""

    def __init__(self):
        self._files = {path: self._digest(path) for path in all_files()}

    @staticmethod
    def _digest(path):
        return hashlib.sha256((REPO / path).read_bytes()).hexdigest()

    def of(self, group, kernel):
        """The hash of all that a group's result on a kernel can depend on."""
        text = "".join(f"{path} {digest}\n" for path, digest in self._files.items()
                       if is_source(path, group, kernel))
        return hashlib.sha256(text.encode()).hexdigest()[:16]
