# SPDX-License-Identifier: GPL-2.0
"""A network that is shared: senders and receivers with a switch between them, whose port to the receivers is slow.

Each peer has its own receiver and sender namespaces on that switch. The switch is a bridge in a namespace of its own.
Frames are cut into packets before they reach it, as real switches see packets."""

import json
import re
import time

from .network import End, add_link, insert, run
from .programs import MIB, ports
from .sides import Failed, Local

MTU = 1500
MESSAGE = 64 << 10
SWITCH = "switch"
# Packets of all flows wait in the queue of the slow port. tbf passes them on at the rate.
SLOW = ["parent", "1:", "handle", "2:"]
QUEUES = {
    "codel": "codel limit 1000 ce_threshold 2ms ecn",
    "red": "red limit 1000000 min 30000 max 90000 avpkt 1500 burst 30 probability 0.1 bandwidth {rate}mbit ecn",
    "fq_codel": "fq_codel limit 1000 ecn",
    "short": "pfifo limit 10",
    "long": "pfifo limit 400",
}
# What tells how much of a queue was dropped or marked.
DROPPED = re.compile(r"\(dropped (\d+),")
BACKLOG = re.compile(r"backlog (\d+)([KM]?)b")
UNIT = {"": 1, "K": 1000, "M": 1000000}
SENT = re.compile(r"^\s*\d+\s+\d+\s+[\d.]+\s+([\d.]+)\s+[\d.]+\s*$", re.M)


class Shared:
    """The setting "shared": "rox" and "tcp" beside each other."""

    def __init__(self, peers):
        run("modprobe", "-a", "ib_uverbs", "rdma_ucm", "veth", "bridge", "sch_tbf", "sch_codel", "sch_red", "sch_netem",
            "sch_fq_codel", "tcp_dctcp")
        run("ip", "netns", "add", SWITCH)
        run("ip", "-n", SWITCH, "link", "add", "bridge", "mtu", str(MTU), "type", "bridge")
        run("ip", "-n", SWITCH, "link", "set", "bridge", "up")
        # The slow port: behind it another bridge, to which all receivers are joined.
        run("ip", "-n", SWITCH, "link", "add", "far", "mtu", str(MTU), "type", "bridge")
        run("ip", "-n", SWITCH, "link", "add", "slow", "mtu", str(MTU), "type", "veth", "peer", "name", "slowed")
        for port, bridge in (("slow", "bridge"), ("slowed", "far")):
            run("ip", "-n", SWITCH, "link", "set", port, "mtu", str(MTU), "master", bridge, "up")
        run("ip", "-n", SWITCH, "link", "set", "far", "up")
        self.ends = {peer: [self.add(peer, number + 1, i) for i in (0, 1)] for number, peer in enumerate(peers)}
        time.sleep(0.5)

    @staticmethod
    def add(peer, number, i):
        """A receiver (0) or sender (1)."""
        name, netdev, address = f"{peer}-{i}", f"{peer}s{i}", f"10.0.{number}.{i + 1}"
        run("ip", "netns", "add", name)
        run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", netdev, "netns", name, "mtu", str(MTU), "type", "veth", "peer", "name", f"{netdev}p",
            "netns", SWITCH, "mtu", str(MTU))
        run("ip", "-n", SWITCH, "link", "set", f"{netdev}p", "master", ("far", "bridge")[i], "up")
        run("ip", "-n", name, "address", "add", f"{address}/24", "dev", netdev)
        run("ip", "-n", name, "link", "set", netdev, "up")
        run("ip", "netns", "exec", name, "ethtool", "-K", netdev, "tso", "off", "gso", "off", "gro", "off")
        end = End(Local(name), address)
        if peer != "tcp":
            insert(Local(), peer, None)
            end.device = f"{peer}{i}"
            add_link(end.side, peer, end.device, netdev)
        return end

    def pair(self, _setting, peer):
        return self.ends[peer]

    def netdevs(self, peer):
        return f"{peer}s0", f"{peer}s1"

    def others_cpu(self):
        return 0.0

    def close(self):
        pass


def slow_port(what):
    """Sets the queue of the slow port, and half of the delay at each sender."""
    rate = what["rate"]
    run("ip", "netns", "exec", SWITCH, "tc", "qdisc", "replace", "dev", "slow", "root", "handle", "1:", "tbf", "rate",
        f"{rate}mbit", "burst", "4500", "limit", "4000000")
    run("ip", "netns", "exec", SWITCH, "tc", "qdisc", "replace", "dev", "slow", *SLOW,
        *QUEUES[what["queue"]].format(rate=rate).split())
    netem = what.get("netem")
    words = ["replace", "dev", "slowed", "root", "netem", *netem.split()] if netem else \
        ["delete", "dev", "slowed", "root"]
    status, text = Local(SWITCH).run("tc", "qdisc", *words)
    if status and netem:
        raise Failed(f"netem: {text}")


def shown():
    """Packets dropped so far, and bytes that wait, in the queue of the slow port."""
    text = run("ip", "netns", "exec", SWITCH, "tc", "-s", "qdisc", "show", "dev", "slow")
    waits = [int(number) * UNIT[unit] for number, unit in BACKLOG.findall(text)]
    return max(map(int, DROPPED.findall(text)), default=0), max(waits, default=0)


class Flows:
    """Flows of one peer that run at the same time: ib_write_bw, or iperf3."""

    def __init__(self, ends, peer, count, seconds, more=()):
        self.ends, self.peer, self.jobs = ends, peer, []
        for _ in range(count):
            port = next(ports)
            if peer == "tcp":
                server = ["iperf3", "-s", "-1", "-p", str(port)]
                client = ["iperf3", "-c", ends[0].address, "-p", str(port), "-J", "-t", str(seconds), *more]
            else:
                common = ["ib_write_bw", "-F", "-p", str(port), "-s", str(MESSAGE), "-m", "1024", "-D", str(seconds),
                          "-f", "1", *more]
                server = [*common, "-d", ends[0].device]
                client = [*common, "-d", ends[1].device, ends[0].address]
            self.jobs.append((ends[0].side.start(server, port), client))
        self.jobs = [(server, ends[1].side.start(client)) for server, client in self.jobs]

    def speeds(self):
        """Waits. Returns the MiB/s of each flow."""
        found = []
        for server, client in self.jobs:
            status, text = self.ends[1].side.wait(client)
            if status:
                self.ends[0].side.kill(server)
            self.ends[0].side.wait(server)
            match = SENT.search(text)
            if self.peer == "tcp" and not status:
                found.append(json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8 / MIB)
            elif match and not status:
                found.append(float(match[1]))
            else:
                raise Failed(f"a flow of {self.peer} ended with {status}: {text[-400:]}")
        return found


def jain(speeds):
    """Jain's index of fairness."""
    return sum(speeds) ** 2 / (len(speeds) * sum(speed ** 2 for speed in speeds))


def choose(end, algorithm):
    status, text = Local().run("sh", "-c", f"echo {algorithm} >/sys/class/infiniband/{end.device}/cc/algorithm")
    if status:
        raise Failed(f"no algorithm {algorithm}: {text}")


def share(what, speeds):
    """Of the rate, with what headers take away."""
    payload = 1024 / (1024 + 14 + 20 + 8 + 12 + 4) if what["peers"] != ["tcp"] else 1448 / 1514
    return sum(speeds) * MIB * 8 / (what["rate"] * 1e6 * payload)


def standing(seconds):
    """Mean of the bytes that wait while flows run."""
    waits, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        waits.append(shown()[1])
        time.sleep(0.1)
    return sum(waits) / max(len(waits), 1)


def measure(ends, peer, what, pace, network):
    """A sample: "value" is the share of the rate, besides what the kind of measurement says."""
    seconds = round(pace.seconds)
    slow_port(what)
    if peer != "tcp":
        for end in ends:
            choose(end, what.get("cc", "adaptive"))
    dropped = shown()[0]
    count = what.get("flows", 1)
    if what["kind"] == "incast":
        return incast(ends, what, dropped)
    flows = Flows(ends, peer, count, seconds, ["-C", what["tcp"]] if peer == "tcp" and "tcp" in what else [])
    beside = Flows(network.pair(None, "tcp"), "tcp", what["beside"], seconds) if "beside" in what else None
    time.sleep(seconds / 3)
    queue = standing(seconds / 3)
    mine = flows.speeds()
    sample = {"jain": jain(mine), "queue": queue, "dropped": shown()[0] - dropped}
    if beside:
        others = sum(beside.speeds())
        return {"value": sum(mine) / (sum(mine) + others), **sample}
    return {"value": share({**what, "peers": [peer]}, mine), **sample}


def incast(ends, what, dropped):
    """Connections that all send 1 MiB at the same time: their time against the ideal."""
    count, port = what["flows"], next(ports)
    common = ["ib_write_bw", "-F", "-p", str(port), "-s", str(MESSAGE), "-m", "1024", "-n", str(MIB // MESSAGE), "-q",
              str(count), "-N"]
    server = ends[0].side.start([*common, "-d", ends[0].device], port)
    status, text = ends[1].side.run(*common, "-d", ends[1].device, ends[0].address)
    ends[0].side.wait(server)
    match = SENT.search(text)
    if status or not match:
        raise Failed(f"incast ended with {status}: {text[-400:]}")
    return {"value": 1 / share({**what, "peers": ["rox"]}, [float(match[1])]), "dropped": shown()[0] - dropped}
