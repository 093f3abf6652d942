# SPDX-License-Identifier: GPL-2.0
"""Runs the guests and collects their samples."""

import json
import os
import re
import signal
import subprocess
import sys
import time

from roxvm import kernels
from roxvm.paths import BUILD, REPO, HarnessError

from . import siw

LINE = re.compile(r"^(?:[01]\| )?BENCH (\{.*\})$")
# The kernel of rox-run that is measured: it has several CPUs.
RUN_SERIES = "7.3"
SPARE = 90                      # seconds for a boot, a long round and the clean-up
SLOWER = 4                      # so many seconds of the host's may a second of virtual time take


def job_of(boot, kernel):
    peers = boot.peers
    return {"peers": peers, "siw": str(siw.find(kernel)) if "siw" in peers else None,
            "queues": boot.tap, "uso": boot.uso, "seconds": boot.seconds, "rounds": boot.rounds, "budget": boot.budget,
            "measurements": boot.measurements}


def run_command(boot, job):
    """In rox-run, where the caller's files are."""
    return ["env", f"ROX_RUN_IMAGE={BUILD / 'run-bench'}", str(BUILD / "tools/rox-run"), "--cpus", str(boot.cpus),
            "--memory", str(boot.mem), "--timeout", str(2 * boot.budget + SPARE), "--", "tests/bench/run", str(job)]


def command_of(boot, job):
    if boot.run:
        return run_command(boot, job)
    limit = 2 * boot.budget + SPARE
    command = ["scripts/vm", "--kernel", boot.kernel, "--mem", str(boot.mem), "--timeout",
               str(SLOWER * limit if boot.virtual else limit)]
    if boot.cpu:
        command.append(f"--cpu={boot.cpu}")
    if boot.pair:
        command += ["--pair", "virtio", "--mtu", str(boot.mtu)]
    if boot.tap:
        command += ["--tap", str(boot.tap)]
    if boot.virtual:
        command += ["--icount", "--cpus", "1"]
    if boot.cpus:
        command += ["--cpus", str(boot.cpus)]
    return [*command, "--", "tests/bench/run", str(job)]


def progress(sample):
    if "error" in sample:
        return f"{describe(sample)}: FAILED: {sample['error']}"
    rate = f", {sample['rate']:.0f} messages/s" if "rate" in sample else ""
    return f"{describe(sample)}: {sample['value']:.4g}{rate}"


def describe(sample):
    words = [f"{sample['round'] + 1}.", sample["setting"], sample["peer"], sample["test"]]
    if sample["size"]:
        words.append(f"{sample['size']} B")
    if sample["service"] not in ("-", "RC"):
        words.append(sample["service"])
    if sample["qps"] > 1:
        words.append(f"{sample['qps']} QPs")
    return " ".join(words)


def run(boot, folder):
    """Runs one boot from start to end. Returns a dictionary of its facts, samples and status."""
    began = time.monotonic()
    job = folder / f"job-{boot.name}.json"
    job.write_text(json.dumps(job_of(boot, None if boot.run else kernels.find(boot.kernel))))
    command = command_of(boot, job)
    print(f"\n=== {boot.name}: {' '.join(command)}", flush=True)
    result = {"name": boot.name, "command": command, "facts": {}, "samples": []}
    process = subprocess.Popen(command, cwd=REPO, env=dict(os.environ, ROX_BUILD=str(BUILD)),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, errors="replace")
    try:
        for line in process.stdout:
            take(line.rstrip("\n"), result)
        result["status"] = process.wait()
    except BaseException:
        process.send_signal(signal.SIGTERM)
        process.wait()
        raise
    result["seconds"] = round(time.monotonic() - began, 1)
    print(f"=== {boot.name}: {len(result['samples'])} samples in {result['seconds']:.0f} s, "
          f"status {result['status']}", flush=True)
    return result


def take(line, result):
    match = LINE.match(line)
    if not match:
        print(line, flush=True)
        return
    sample = json.loads(match[1])
    if "facts" in sample:
        result["facts"] = sample["facts"]
        return
    result["samples"].append(sample)
    print(progress(sample), flush=True)


def build_for(kvers):
    """Builds the module for the kernels, the provider, and the programs of tests/bench."""
    for kver in kvers:
        make("module", f"KVER={kver}")
    make("provider")
    make("tests", "TESTS=bench")


def build(wanted):
    """Builds what the boots need."""
    build_for(sorted({boot.kernel for boot in wanted if not boot.run}))
    if any(boot.run for boot in wanted):
        make("rox-run")
        for command in (["scripts/deps", "--check", "matrix"], ["scripts/run-image", "bench"]):
            environment = dict(os.environ, ROX_RUN_SERIES=RUN_SERIES, ROX_BUILD=str(BUILD))
            if subprocess.run(command, cwd=REPO, env=environment, check=False, stdout=sys.stderr).returncode:
                raise HarnessError(f"`{' '.join(command)}` failed")


def make(*targets):
    command = ["make", f"-j{os.cpu_count()}", "--no-print-directory", "-C", str(REPO), *targets]
    if subprocess.run(command, check=False, stdout=sys.stderr).returncode:
        raise HarnessError(f"`make {' '.join(targets)}` failed")
