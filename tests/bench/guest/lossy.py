# SPDX-License-Identifier: GPL-2.0
"""Goodput through a bad network: netem on both ends, for both directions.

netem drops a frame with several segments as a whole, unlike a real network. So no frames reach netem, unless the
measurement is about the difference."""

import json

from .programs import MIB, attempts, iperf, perftest
from .sides import Failed

# Counters of rox that explain the result of a run.
COUNTERS = ("tx_packets", "retransmitted_packets", "packet_seq_err", "local_ack_timeout_err",
            "rnr_nak_retry_err")
FRAMES = ("rx_packets", "rx_bursts")
FRAMES_MESSAGES = 200
# TCP's packets are as large as those of rox: 4 KiB, and its timestamps.
SEGMENT = 4096 + 12


def tc(end, netdev, *arguments):
    status, text = end.side.run("tc", "qdisc", *arguments[:1], "dev", netdev, "root", *arguments[1:])
    if status:
        raise Failed(f"tc qdisc {' '.join(arguments)}: {text}")


def frames(end, netdev, peer, whole):
    """Whether the netdev gets frames of many packets. TCP's are cut behind the netdev's qdisc."""
    if peer == "rox":
        command = f"echo {'NY'[whole]} >/sys/module/rox/parameters/gso"
    elif peer == "tcp":
        # A netdev that segments TCP itself takes whole frames also without gso.
        state = ("off", "on")[whole]
        command = f"ethtool -K {netdev} tso {state} gso {state}"
        if whole:
            # A netdev without that offload never has it enabled.
            command += f" || ethtool -k {netdev} | grep -q '^scatter-gather: off'"
    else:
        return
    status, text = end.side.run("sh", "-c", command)
    if status:
        raise Failed(f"{command}: {text}")


def segments(end, netdev, whole):
    """Whether TCP gives netem frames of many segments, which are lost together."""
    most = 65535 if whole else 1
    status, text = end.side.run("ip", "link", "set", "dev", netdev, "gso_max_segs", str(most))
    if status:
        raise Failed(f"gso_max_segs {most}: {text}")


def counters(end, names=COUNTERS):
    status, text = end.side.run("rdma", "-j", "statistic", "show", "link", end.device)
    if status:
        raise Failed(f"rdma statistic: {text}")
    return {name: json.loads(text)[0][name] for name in names}


def gather(end, netdev, microseconds):
    """How long the netdev waits for more packets; adapters do that by coalescing interrupts. 0: not at all."""
    for name, value in (("napi_defer_hard_irqs", 2 if microseconds else 0), ("gro_flush_timeout", microseconds * 1000)):
        status, text = end.side.run("sh", "-c", f"echo {value} >/sys/class/net/{netdev}/{name}")
        if status:
            raise Failed(f"{name} {value}: {text}")


def measure_frames(ends, what, network):
    """Packets in a frame that the server's device receives."""
    netdev = network.netdevs("rox")[0]
    try:
        gather(ends[0], netdev, what["gather"])
        before = counters(ends[0], FRAMES)
        attempts(lambda: perftest(ends, "rox", dict(what, test="write_bw"), FRAMES_MESSAGES))
        packets, frames_seen = (after - before[name] for name, after in counters(ends[0], FRAMES).items())
    finally:
        gather(ends[0], netdev, 0)
    if not frames_seen:
        raise Failed("rox has received no frame")
    return {"value": packets / frames_seen}


def goodput(ends, peer, what, seconds):
    if peer == "tcp":
        stream = iperf(ends, ["-t", str(seconds), "-M", str(SEGMENT)])
        return {"value": stream["bits_per_second"] / 8 / MIB}
    before = counters(ends[1]) if peer == "rox" else {}
    tool = dict(what, test="write_bw", options=["-D", str(seconds), "-f", "1"])
    sample = {"value": perftest(ends, peer, tool, None)[3]}
    if not sample["value"]:
        raise Failed("perftest measured nothing")
    if before:
        after = counters(ends[1])
        sample["counters"] = {name: after[name] - before[name] for name in COUNTERS}
    return sample


def measure_goodput(ends, peer, what, pace, network):
    netdevs = network.netdevs(peer)
    try:
        for end, netdev in zip(ends, netdevs):
            frames(end, netdev, peer, what["frames"])
            segments(end, netdev, what["frames"])
            tc(end, netdev, "replace", "netem", *what["netem"].split())
        return attempts(lambda: goodput(ends, peer, what, round(pace.seconds)))
    except Failed as failure:
        # A failure of rox is an error of the run; a failure of a peer is a result.
        if peer != "rxe":
            raise
        return {"value": 0.0, "ended": str(failure)[-300:]}
    finally:
        for end, netdev in zip(ends, netdevs):
            frames(end, netdev, peer, True)
            segments(end, netdev, True)
            tc(end, netdev, "delete")
