# SPDX-License-Identifier: GPL-2.0
"""Profile one workload in one guest with perf or ftrace."""

import json
import os
import subprocess

from roxvm import kernels
from roxvm.paths import BUILD, REPO

from . import boots, plan, siw


def options_of(parser):
    add = parser.add_argument
    add("test", nargs="?", default="write_bw", help="perftest's program, without ib_")
    add("--size", type=int, default=65536, help="bytes of a message (65536)")
    add("--qps", type=int, default=1)
    add("--service", default="RC", choices=("RC", "UC", "UD"))
    add("--setting", default="loop", choices=("loop", "veth", "pair", "tap"),
        help="one device, or two, in two guests joined by a socket or by tap devices")
    add("--end", default="client", choices=("client", "server"), help="the guest to look into, of two")
    add("--mtu", type=int, default=9000, help="of the card of two guests (9000)")
    add("--queues", type=int, default=1, help="of the tap devices (1)")
    add("--no-uso", action="store_true", help="with taps: leave UDP segmentation off")
    add("--peer", default="rox", choices=plan.RDMA)
    add("--kernel", default="6.12")
    add("--cpu", default=plan.PLAIN_CPU, metavar="FLAGS", help="as for scripts/vm")
    add("--seconds", type=int, default=5, help="duration of the profile")
    add("--frequency", type=int, default=499, help="samples a second on each CPU")
    add("--events", action="store_true", help="the programs sleep instead of polling")
    add("--ftrace", action="store_true", help="count calls of the module's functions instead")
    add("--no-build", action="store_true", help="use what is already built")


def joined(options):
    """Options of scripts/vm: for one guest, or two."""
    if options.setting not in ("pair", "tap"):
        return ["--mem", "3072"]
    taps = ["--tap", str(options.queues)] if options.setting == "tap" else []
    return ["--mem", "1536", "--pair", "virtio", "--mtu", str(options.mtu), *taps]


def run(options, folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not options.no_build:
        boots.build_for([options.kernel])
    kernel = kernels.find(options.kernel)
    job = folder / "job-profile.json"
    names = ("test", "size", "qps", "service", "setting", "peer", "seconds", "frequency", "ftrace",
             "end")
    job.write_text(json.dumps({
        **{name: getattr(options, name) for name in names},
        "options": ["-e"] if options.events else [],
        "queues": options.queues, "uso": not options.no_uso if options.setting == "tap" else None,
        "siw": str(siw.find(kernel)) if options.peer == "siw" else None}))
    command = ["scripts/vm", "--kernel", options.kernel, "--timeout", "240", f"--cpu={options.cpu}",
               *joined(options), "--append", "sysctl.kernel.kptr_restrict=0", "--", "tests/bench/profile", str(job)]
    return subprocess.run(command, cwd=REPO, env=dict(os.environ, ROX_BUILD=str(BUILD)),
                          check=False).returncode
