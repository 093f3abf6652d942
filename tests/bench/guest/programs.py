# SPDX-License-Identifier: GPL-2.0
"""The measuring programs, and the parsing of their output."""

import itertools
import json
import os
import re

from .sides import Failed, cpu_seconds

ports = itertools.count(20000)
NUMBER = r"\s+(\d+\.?\d*)"
BANDWIDTH = re.compile(r"^\s*(\d+)\s+(\d+)" + 3 * NUMBER + r"\s*$", re.M)
LATENCY = re.compile(r"^\s*(\d+)\s+(\d+)" + 7 * NUMBER + r"\s*$", re.M)
QPERF = re.compile(r"^\s+(\w+)\s+=\s+([\d.,]+) (\S+)\s*$", re.M)
UNITS = {"ns": 1e-3, "us": 1.0, "ms": 1e3, "sec": 1e6}
MIB = 1 << 20
ATTEMPTS = 4
SLEEPS = "_events"              # ending of tests whose programs sleep until completions come
CPU_TIMES = 3                   # runs for CPU time are this many times longer


def both(ends, server, client, port):
    """Runs a server and its client; returns the client's output."""
    first, second = ends
    job = first.side.start(server, port)
    status, text = second.side.wait(second.side.start(client))
    if status:
        first.side.kill(job)
    server_status, server_text = first.side.wait(job)
    if status or server_status:
        raise Failed(f"{' '.join(client)} ended with {status}, its server with {server_status}:\n"
                     f"{text[-800:]}\n{server_text[-800:]}")
    return text


def attempts(work):
    """True for failures of perftest itself: it cannot calibrate the clock, or with -R connects before its
    server listens."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return work()
        except Failed:
            if not left:
                raise


def perftest(ends, peer, what, count):
    """Runs one of perftest's programs; returns the row of figures that it prints."""
    program = f"ib_{what['test'].removesuffix(SLEEPS)}"
    port = next(ports)
    common = ["-F", "-p", str(port), "-s", str(what["size"]), "-c", what["service"]]
    if count:
        common += ["-n", str(count)]
    if what["qps"] > 1:
        common += ["-q", str(what["qps"])]
    if peer == "siw":
        common.append("-R")
    if what["test"].endswith(SLEEPS):
        common.append("-e")
    common += what.get("options", [])
    server = [program, "-d", ends[0].device, *common]
    client = [program, "-d", ends[1].device, *common, ends[0].address]
    text = both(ends, server, client, port)
    match = (LATENCY if program.endswith("_lat") else BANDWIDTH).search(text)
    row = [float(word) for word in match.groups()] if match else []
    if not any(row[3:]):
        raise Failed(f"{' '.join(client)} printed no figure:\n{text[-800:]}")
    return row


class Pace:
    """How many messages a run of the wanted duration needs, learned from earlier runs."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.known = {}                 # key -> seconds for one message
        self.factor = {}                # peer -> error of the guess

    @staticmethod
    def guess(what):
        latency = what["test"].endswith("_lat")
        return (400e-6 if latency else 80e-6) + what["size"] / (60 * MIB)

    def each(self, key, peer, what):
        return self.known.get(key) or self.guess(what) * self.factor.get(peer, 1.0)

    def learn(self, key, peer, what, each):
        self.known[key] = each
        self.factor[peer] = each / self.guess(what)

    def count(self, key, peer, what):
        total = self.seconds / self.each(key, peer, what)
        least = 300 if what["test"].endswith("_lat") else 20
        return int(max(least, min(total / what["qps"], 1000000)))


def measure_perftest(ends, peer, what, pace):
    """Takes one sample. A run that was far too short is only used to learn the number of messages."""
    key = (peer, what["setting"], what["test"], what["size"], what["qps"], what["service"])
    for again in (True, False):
        count = pace.count(key, peer, what)
        row = attempts(lambda: perftest(ends, peer, what, count))
        if what["test"].endswith("_lat"):
            sample = {"value": row[4], "mean": row[5], "p99": row[7], "min": row[2]}
            halves = 1 if what["test"].startswith("read") else 2
            each = halves * row[5] * 1e-6
        else:
            # For small messages the rate has more digits than the bandwidth.
            small = what["size"] <= 4096
            sample = {"value": row[4] * 1e6 * what["size"] / MIB if small else row[3],
                      "peak": row[2], "rate": row[4] * 1e6}
            each = what["size"] / (sample["value"] * MIB)
        pace.learn(key, peer, what, each)
        sample["count"] = count * what["qps"]
        sample["seconds"] = each * sample["count"]
        if not again or sample["seconds"] > pace.seconds / 3 or count >= 1000000:
            return sample
    return None


def spending(network, work):
    """Calls a function. Returns the CPU seconds of all guests meanwhile, and its result."""
    before = cpu_seconds() + network.others_cpu()
    result = work()
    return cpu_seconds() + network.others_cpu() - before, result


def measure_cpu(ends, peer, what, pace, network):
    """CPU seconds of all CPUs per GiB: the difference of a long and a short run.

    The programs sleep until completions come (-e). The cost of starting them is in both runs.
    """
    tool = dict(what, test=what["test"].removesuffix("_cpu") + SLEEPS)
    key = (peer, what["setting"], what["test"], what["size"], what["qps"], what["service"])

    def used(count):
        spent, row = attempts(lambda: spending(network, lambda: perftest(ends, peer, tool, count)))
        seconds = count * what["size"] / (row[3] * MIB)
        pace.learn(key, peer, tool, seconds / count)
        return spent, seconds

    # Starting costs as much as some tenths of a second of traffic, and varies.
    for _ in range(3):
        long = CPU_TIMES * pace.count(key, peer, tool)
        much, seconds = used(long)
        if seconds > pace.seconds * CPU_TIMES / 2:
            break
    short = long // 10
    little, _ = used(short)
    return {"value": (much - little) / ((long - short) * what["size"] / (1 << 30))}


def iperf(ends, amount):
    port = next(ports)
    client = ["iperf3", "-J", "-l", "64K", "-p", str(port), "-c", ends[0].address, *amount]
    text = both(ends, ["iperf3", "-s", "-1", "-p", str(port)], client, port)
    try:
        return json.loads(text)["end"]["sum_received"]
    except (ValueError, KeyError) as error:
        raise Failed(f"iperf3 said: {text[-800:]}") from error


def measure_iperf(ends, _peer, _what, pace):
    end = attempts(lambda: iperf(ends, ["-t", str(max(1, round(pace.seconds)))]))
    return {"value": end["bits_per_second"] / 8 / MIB, "seconds": end["seconds"]}


def measure_iperf_cpu(ends, _peer, _what, pace, network):
    used = []
    for seconds in (1, 1 + max(1, round(CPU_TIMES * pace.seconds))):
        spent, end = attempts(
            lambda: spending(network, lambda: iperf(ends, ["-t", str(seconds)])))
        used.append((spent, end["bytes"]))
    extra = (used[1][1] - used[0][1]) / (1 << 30)
    return {"value": (used[1][0] - used[0][0]) / extra}


def qperf(ends, test, options):
    port = next(ports)
    job = ends[0].side.start(["qperf", "-lp", str(port)], port)
    try:
        status, text = ends[1].side.run("qperf", "-lp", str(port), *options, ends[0].address, test)
    finally:
        ends[0].side.kill(job)
        ends[0].side.wait(job)
    rows = {m[1]: (float(m[2].replace(",", "")), m[3]) for m in QPERF.finditer(text)}
    if status or "latency" not in rows:
        raise Failed(f"qperf {test} ended with {status}: {text[-800:]}")
    value, unit = rows["latency"]
    return value * UNITS[unit]


def measure_qperf(ends, _peer, what, pace):
    options = ["-t", str(max(1, round(pace.seconds))), "-m", str(what["size"])]
    return {"value": attempts(lambda: qperf(ends, what["test"], options))}


def measure_limits(ends, _peer, _what, _pace):
    """The figures of tests/bench/limits.cc, each a test of its own."""
    status, text = ends[0].side.run(program("limits"))
    if status:
        raise Failed(f"limits ended with {status}: {text}")
    return [{"test": test, "value": value} for test, value in json.loads(text).items()]


def program(name):
    return os.path.join(os.environ.get("ROX_BUILD", "build"), "tests/bench", name)
