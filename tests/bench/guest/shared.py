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
PATIENCE = 30                   # seconds until flows have begun
MESSAGE = 64 << 10
SWITCH = "switch"
# Packets of all flows wait in the queue of the slow port. tbf passes them on at the rate.
QUEUES = {
    "codel": "codel limit 1000 ce_threshold 2ms ecn",
    "red": "red limit 1000000 min 30000 max 90000 avpkt 1500 burst 30 probability 0.1 bandwidth {rate}mbit ecn",
    "fq_codel": "fq_codel limit 1000 ecn",
    # Marks as TCP expects it: a few packets, when the queue was long for a while.
    "sparse": "codel limit 1000 ecn",
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
    # A handle for each: a qdisc does not become one of another kind.
    run("ip", "netns", "exec", SWITCH, "tc", "qdisc", "replace", "dev", "slow", "parent", "1:", "handle",
        f"{2 + list(QUEUES).index(what['queue'])}:", *QUEUES[what["queue"]].format(rate=rate).split())
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
    """Flows of one peer that run at the same time: QPs of one ib_write_bw, so that only one CPU polls; or iperf3's."""

    def __init__(self, ends, peer, count, seconds, more=()):
        self.ends, self.peer, self.count, self.link = ends, peer, count, f"{ends[0].device}/1"
        port = next(ports)
        if peer == "tcp":
            server = ["iperf3", "-s", "-1", "-p", str(port)]
            client = ["iperf3", "-c", ends[0].address, "-p", str(port), "-J", "-P", str(count), "-t", str(seconds),
                      *more]
        else:
            common = ["ib_write_bw", "-F", "-p", str(port), "-s", str(MESSAGE), "-m", "1024", "-D", str(seconds), "-f",
                      "1", "-q", str(count), *more]
            server = [*common, "-d", ends[0].device]
            client = [*common, "-d", ends[1].device, ends[0].address]
        self.server = ends[0].side.start(server, port)
        self.client = ends[1].side.start(client)

    def begin(self):
        """Waits until the QPs of rox are there. From now on the receiver counts for each."""
        if self.peer == "tcp":
            return
        until = time.monotonic() + PATIENCE
        while True:
            qps = [qp for qp in json.loads(run("rdma", "-j", "resource", "show", "qp", "link", self.link))
                   if qp["type"] == "RC" and qp["state"] in ("RTR", "RTS")]
            if len(qps) == self.count:
                break
            if time.monotonic() > until:
                raise Failed(f"{len(qps)} of {self.count} QPs are ready")
            time.sleep(0.05)
        for qp in qps:
            run("rdma", "statistic", "qp", "bind", "link", self.link, "lqpn", str(qp["lqpn"]))

    def received(self):
        """Bytes of each flow of rox since begin()."""
        if self.peer == "tcp":
            return []
        counters = json.loads(run("rdma", "-j", "statistic", "qp", "show", "link", self.link))
        found = [each["rx_bytes"] for each in counters if each.get("lqpn")]
        if len(found) != self.count:
            raise Failed(f"{len(found)} of {self.count} QPs are counted")
        return found

    def stop(self):
        self.ends[1].side.kill(self.client)
        self.ends[0].side.kill(self.server)

    def speed(self):
        """Waits. Returns the MiB/s of all flows."""
        status, text = self.ends[1].side.wait(self.client)
        if status:
            self.ends[0].side.kill(self.server)
        self.ends[0].side.wait(self.server)
        match = SENT.search(text)
        if self.peer == "tcp" and not status:
            return json.loads(text)["end"]["sum_received"]["bits_per_second"] / 8 / MIB
        if match and not status:
            return float(match[1])
        raise Failed(f"flows of {self.peer} ended with {status}: {text[-400:]}")


def jain(speeds):
    """Jain's index of fairness."""
    return sum(speeds) ** 2 / (len(speeds) * sum(speed ** 2 for speed in speeds))


def choose(end, algorithm):
    status, text = Local().run("sh", "-c", f"echo {algorithm} >/sys/class/infiniband/{end.device}/cc/algorithm")
    if status:
        raise Failed(f"no algorithm {algorithm}: {text}")


def share(what, speed):
    """Of the rate, with what headers take away."""
    payload = 1024 / (1024 + 14 + 20 + 8 + 12 + 4) if what["peers"] != ["tcp"] else 1448 / 1514
    return speed * MIB * 8 / (what["rate"] * 1e6 * payload)


def standing(seconds):
    """Mean of the bytes that wait while flows run."""
    waits, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        waits.append(shown()[1])
        time.sleep(0.1)
    return sum(waits) / max(len(waits), 1)


def observe(flows, beside, what, seconds, dropped):
    """The second third of the time is looked at."""
    flows.begin()
    time.sleep(seconds / 3)
    before = flows.received()
    sample = {"queue": standing(seconds / 3)}
    if before:
        sample["jain"] = jain([now - then for now, then in zip(flows.received(), before)])
    mine = flows.speed()
    sample["dropped"] = shown()[0] - dropped
    if beside:
        return {"value": mine / (mine + beside.speed()), **sample}
    return {"value": share(what, mine), **sample}


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
    try:
        return observe(flows, beside, {**what, "peers": [peer]}, seconds, dropped)
    except Failed:
        for each in filter(None, (flows, beside)):
            each.stop()
        raise


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
    return {"value": 1 / share({**what, "peers": ["rox"]}, float(match[1])), "dropped": shown()[0] - dropped}
