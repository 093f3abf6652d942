# SPDX-License-Identifier: GPL-2.0
"""Goodput through a bad network: netem on both ends, so each condition holds both ways.

A frame that is cut into packets behind netem is lost as a whole, which is not what a network does. So
it is cut before, unless the measurement wants to show the difference."""

import json

from .programs import MIB, attempts, iperf, perftest
from .sides import Failed

# What rox says of a run, for whoever wants to know where its time went.
COUNTERS = ("tx_packets", "retransmitted_packets", "packet_seq_err", "local_ack_timeout_err",
            "rnr_nak_retry_err")


def tc(end, netdev, *arguments):
    status, text = end.side.run("tc", "qdisc", *arguments[:1], "dev", netdev, "root", *arguments[1:])
    if status:
        raise Failed(f"tc qdisc {' '.join(arguments)}: {text}")


def frames(end, netdev, peer, whole):
    """Is what passes netem many packets at once? Then all of them are lost together."""
    if peer == "rox":
        command = f"echo {'NY'[whole]} >/sys/module/rox/parameters/gso"
    elif peer == "tcp":
        command = f"ethtool -K {netdev} gso {('off', 'on')[whole]}"
        if whole:
            # A netdev without that never has it.
            command += f" || ethtool -k {netdev} | grep -q '^scatter-gather: off'"
    else:
        return
    status, text = end.side.run("sh", "-c", command)
    if status:
        raise Failed(f"{command}: {text}")


def counters(end):
    status, text = end.side.run("rdma", "-j", "statistic", "show", "link", end.device)
    if status:
        raise Failed(f"rdma statistic: {text}")
    return {name: json.loads(text)[0][name] for name in COUNTERS}


def goodput(ends, peer, what, seconds):
    if peer == "tcp":
        return {"value": iperf(ends, ["-t", str(seconds)])["bits_per_second"] / 8 / MIB}
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
            tc(end, netdev, "replace", "netem", *what["netem"].split())
        return attempts(lambda: goodput(ends, peer, what, round(pace.seconds)))
    except Failed as failure:
        # That is for us to mend, but what others cannot bear is a result.
        if peer != "rxe":
            raise
        return {"value": 0.0, "ended": str(failure)[-300:]}
    finally:
        for end, netdev in zip(ends, netdevs):
            frames(end, netdev, peer, True)
            tc(end, netdev, "delete")
