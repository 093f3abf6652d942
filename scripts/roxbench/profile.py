# SPDX-License-Identifier: GPL-2.0
"""One workload in one guest, looked at with perf, or with ftrace."""

import json
import os
import subprocess

from roxvm import kernels
from roxvm.paths import BUILD, REPO

from . import boots, plan, siw


def options_of(parser):
    add = parser.add_argument
    add("test", nargs="?", default="write_bw", help="what perftest's program is named without ib_")
    add("--size", type=int, default=65536, help="bytes of a message (65536)")
    add("--qps", type=int, default=1)
    add("--service", default="RC", choices=("RC", "UC", "UD"))
    add("--setting", default="loop", choices=("loop", "veth"), help="one device, or two")
    add("--peer", default="rox", choices=plan.RDMA)
    add("--kernel", default="6.12")
    add("--cpu", default=plan.PLAIN_CPU, metavar="FLAGS", help="as for scripts/vm")
    add("--seconds", type=int, default=5, help="for how long it is looked at")
    add("--frequency", type=int, default=499, help="samples a second on each CPU")
    add("--events", action="store_true", help="the programs sleep until completions come")
    add("--ftrace", action="store_true", help="count calls of the module's functions instead")
    add("--no-build", action="store_true", help="take what is built already")


def run(options, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not options.no_build:
        boots.build([options])
    kernel = kernels.find(options.kernel)
    job = folder / "job-profile.json"
    names = ("test", "size", "qps", "service", "setting", "peer", "seconds", "frequency", "ftrace")
    job.write_text(json.dumps({
        **{name: getattr(options, name) for name in names},
        "options": ["-e"] if options.events else [],
        "siw": str(siw.find(kernel)) if options.peer == "siw" else None}))
    command = ["scripts/vm", "--kernel", options.kernel, "--mem", "3072", "--timeout", "240",
               f"--cpu={options.cpu}", "--append", "sysctl.kernel.kptr_restrict=0", "--",
               "tests/bench/profile", str(job)]
    return subprocess.run(command, cwd=REPO, env=dict(os.environ, ROX_BUILD=str(BUILD)),
                          check=False).returncode
