# SPDX-License-Identifier: GPL-2.0
"""Runs of ../count.cc, whose instructions a plugin of QEMU counts."""

import base64
import itertools
import json
import subprocess
import time
import zlib

from .lossy import SEGMENT, frames
from .programs import program
from .sides import Failed, Local

ports = itertools.count(21000)
defaults = {}                   # algorithm of each end, at first
LISTEN_SECONDS = 20
LIMIT = 90
TEXT = set("tTwW")
PIECE = 48000


def emit(what):
    print("BENCH", json.dumps(what), flush=True)


def symbols():
    """Addresses and names of the kernel's functions and its modules'."""
    with open("/proc/kallsyms", encoding="ascii") as table:
        rows = [line.split() for line in table]
    return [(row[0], row[2], *row[3:]) for row in rows if row[1] in TEXT]


def begin(watch):
    """Tells the plugin which functions to watch. Returns where functions are, in pieces of text."""
    table = symbols()
    seen, lines = set(), []
    for address, name, *_ in table:
        if name in watch and address not in seen:
            seen.add(address)
            lines.append(f"{address} {watch[name][0]} {watch[name][1]}\n")
    subprocess.run([program("count"), "arm"], input="".join(lines), text=True, check=True, timeout=60)
    packed = base64.b64encode(zlib.compress("\n".join(map(" ".join, table)).encode())).decode()
    return [packed[at:at + PIECE] for at in range(0, len(packed), PIECE)]


def start_server(side, command, port):
    """Starts a server and waits until it listens. rdma_cm listens on no socket, so the program says it."""
    if port:
        return side.start(command, port)
    job = side.start(command, None, LIMIT)
    until = time.monotonic() + LISTEN_SECONDS
    text, running = "", True
    while "listening" not in text and running and time.monotonic() < until:
        time.sleep(0.02)
        text, running = side.progress(job)
    return job


def apart(ends):
    """True if the ends are in two guests."""
    return not isinstance(ends[0].side, Local)


def choose(end, algorithm):
    """Sets the algorithm of congestion control; None: the one that a new device has."""
    file = f"/sys/class/infiniband/{end.device}/cc/algorithm"
    # All RDMA devices of a guest are visible in its initial namespace.
    first = Local() if isinstance(end.side, Local) else end.side
    if end not in defaults:
        defaults[end] = first.run("cat", file)[1].strip()
    status, text = first.run("sh", "-c", f"echo {algorithm or defaults[end]} >{file}")
    if status:
        raise Failed(f"{file}: {text}")


def run(network, number, what):
    """One run. Returns what it was, with "error" if it failed."""
    peer = what["peer"]
    ends, netdevs = network.pair(what["setting"], peer), network.netdevs(peer)
    if what.get("frames", True):
        return measure(ends, number, what, [])
    try:
        for end, netdev in zip(ends, netdevs):
            frames(end, netdev, peer, False)
        return measure(ends, number, what, [str(SEGMENT)] if peer == "tcp" else [])
    finally:
        for end, netdev in zip(ends, netdevs):
            frames(end, netdev, peer, True)


def measure(ends, number, what, segment):
    port = next(ports)
    for end in ends if what["peer"] == "rox" else ():
        choose(end, what.get("cc"))
    warm_up, total = what["warm_up"], what["warm_up"] + what["messages"]
    words = [word for word, said in (("apart", apart(ends)), ("poll", what["poll"])) if said]
    common = [what["kind"], ends[0].address, str(port), str(what["size"]), str(total), str(warm_up), str(number)]
    server = [program("count"), "server", *common, *words]
    client = [program("count"), "client", *common, str(what["depth"]), str(what["list"]), *segment, *words]
    job = start_server(ends[0].side, server, port if what["kind"] == "tcp" else None)
    status, text = ends[1].side.run(*client, limit=LIMIT)
    if status:
        ends[0].side.kill(job)
    server_status, server_text = ends[0].side.wait(job)
    answer = {"run": number, **what}
    if status or server_status:
        answer["error"] = str(Failed(f"status {status} and {server_status}: {text[-400:]} {server_text[-400:]}"))
    return answer
