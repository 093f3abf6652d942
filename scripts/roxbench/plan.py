# SPDX-License-Identifier: GPL-2.0
"""What is measured: the guests to boot, and the measurements in each."""

import re

KIB = 1 << 10
MIB = 1 << 20
RDMA = ["rox", "rxe", "siw"]
# Copies as anchors.md says; the accelerated CRC costs an emulated CPU a call for each instruction.
PLAIN_CPU = "-pclmulqdq"


class Boot:
    """One guest, or two that are joined: only figures of the same boot are compared."""

    def __init__(self, name, measurements, **given):
        self.name = name
        self.measurements = measurements
        self.kernel = "6.12"
        self.cpu = PLAIN_CPU
        self.pair = False
        self.mem = 3072
        self.seconds = 1.0              # one run of one program
        self.rounds = (2, 5)            # at least, at most
        self.budget = 120               # seconds; no further round is begun that would end later
        for key, value in given.items():
            setattr(self, key, value)

    def limit_to(self, pattern):
        """Leaves out measurements that do not match; returns what is left."""
        self.measurements = [what for what in self.measurements
                             if re.search(pattern, f"{what['test']} {what['service']}")]
        return self.measurements

    @property
    def peers(self):
        wanted = {peer for what in self.measurements for peer in what["peers"]}
        return [peer for peer in ("rox", "rxe", "siw", "tcp") if peer in wanted]


def perftest(setting, test, size, peers=None, qps=1, service="RC", **more):
    return {"kind": "perftest", "setting": setting, "test": test, "size": size, "qps": qps,
            "service": service, "peers": peers or RDMA, **more}


def other(kind, setting, test, size=0, peers=("tcp",), **more):
    return {"kind": kind, "setting": setting, "test": test, "size": size, "qps": 1,
            "service": "-", "peers": list(peers), **more}


def core(setting, peers=None):
    """What issue 4 asks for in figures: bandwidth, message rate, latency."""
    return [
        *(perftest(setting, f"{verb}_bw", 64 * KIB, peers) for verb in ("write", "send", "read")),
        other("iperf", setting, "stream", 64 * KIB),
        perftest(setting, "write_bw", 64, peers),
        perftest(setting, "send_lat", 64, peers),
        perftest(setting, "write_lat", 64, peers),
    ]


def sockets(setting):
    return [other("qperf", setting, test, 64) for test in ("tcp_lat", "udp_lat")]


def limits():
    return [other("limits", "loop", "limits", peers=["limit"])]


def many_qps(setting, numbers, peers=None):
    return [perftest(setting, "write_bw", 64 * KIB, peers, qps=number) for number in numbers]


def cpu(setting, peers=None):
    """CPU seconds for a GiB, both sides together; ib_write_bw cannot sleep until completions come."""
    return [perftest(setting, "send_bw_cpu", 64 * KIB, peers, kind="perftest_cpu"),
            other("iperf_cpu", setting, "stream_cpu", 64 * KIB)]


def curves(setting, peers=None):
    """Over the sizes of messages; all three verbs on one device, else the one-sided ones."""
    verbs = ("write", "send", "read") if setting == "loop" else ("write", "read")
    return [
        *(perftest(setting, f"{verb}_bw", size, peers) for verb in verbs
          for size in (2, 64, 512, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB)),
        *(perftest(setting, f"{verb}_lat", size, peers) for verb in verbs
          for size in (2, 64, 512, 4 * KIB))]


def services(setting, peers):
    """UC and UD, which siw does not have."""
    return [perftest(setting, test, size, peers, service=service) for test, service, size in (
        ("write_bw", "UC", 64 * KIB), ("send_bw", "UC", 64 * KIB), ("send_bw", "UD", 4 * KIB),
        ("send_bw", "UD", 64), ("send_lat", "UC", 64), ("send_lat", "UD", 64))]


def scale():
    """Many connections, QPs, MRs; the memory of 10,000 QPs of rdma_rxe is not needed."""
    def on(peers, kind, test, **more):
        return other(kind, "loop", test, peers=peers, **{"service": "RC", **more})

    return [
        *(on(["rox"], "qps", f"qp_memory {count}", count=count) for count in (10, 1000, 10000)),
        on(["rxe"], "qps", "qp_memory 1000", count=1000),
        on(["rox", "rxe"], "reg", "reg_1GiB_plain", pages="plain"),
        on(["rox", "rxe"], "reg", "reg_1GiB_huge", pages="huge"),
        on(["rox", "rxe"], "mrs", "reg_each", count=100000, most=1),
        # Over siw some of several hundred connections fail, and cmtime then measures less.
        on(["rox", "rxe"], "cmtime", "connections", count=300),
    ]


# Half of each delay is on each end; queues are long unless they are what it is about.
FAR = "limit 10000 delay 0.5ms"
NETWORKS = {
    "1 ms": FAR,
    "1 ms, 0.1 % lost": f"{FAR} loss 0.1%",
    "1 ms, 1 % lost": f"{FAR} loss 1%",
    "1 ms, 5 % lost": f"{FAR} loss 5%",
    "1 ms, out of order": f"{FAR} reorder 50% 50%",
    "1 ms, 10 % twice": f"{FAR} duplicate 10%",
    "1 ms, 1 % corrupted": f"{FAR} corrupt 1%",
    "20 ms with jitter": "limit 10000 delay 10ms 3ms",
    "1 ms, 100 Mbit/s": "limit 1000 delay 0.5ms rate 100mbit",
    "1 ms, queue of 10 packets": "limit 10 delay 0.5ms",
    "all together": "limit 100 delay 2ms 1ms loss 1% duplicate 2% corrupt 1% reorder 25% 50%",
}


def lossy(setting, names=tuple(NETWORKS), frames=False):
    """Goodput of 64 KiB messages through a bad network; as packets, or as frames that are cut later."""
    ending = ", in frames" if frames else ""
    return [other("goodput", setting, f"goodput {name}{ending}", 64 * KIB, ("rox", "rxe", "tcp"),
                  service="RC", netem=NETWORKS[name], frames=frames) for name in names]


def quick():
    veth = ["rox", "siw"]
    return [
        Boot("one", limits() + core("loop") + core("veth", veth)[:4:2]
             + [perftest("veth", "send_lat", 64, veth), *sockets("veth")],
             seconds=0.6, budget=200, rounds=(1, 5)),
        Boot("pair", core("pair", ["rox", "rxe"])[:5], pair=True, seconds=0.6, budget=60,
             rounds=(1, 3), mem=1536),
    ]


def full():
    veth = ["rox", "siw"]
    tall = [perftest("veth", f"{verb}_bw", 64 * KIB, veth) for verb in ("write", "read")]
    return [
        Boot("one", [*limits(), *core("loop"), *core("veth", veth), *sockets("veth"),
                     *many_qps("loop", [16]), *many_qps("veth", [16], veth)],
             budget=420, rounds=(3, 5)),
        Boot("curves", [*curves("loop"), *services("loop", ["rox", "rxe"]),
                        *many_qps("loop", (2, 4, 16)),
                        # perftest crashes with 64 QPs over siw.
                        *many_qps("loop", [64], ["rox", "rxe"]),
                        *cpu("loop"), *curves("veth", veth),
                        *services("veth", ["rox"])[:3], *cpu("veth", veth)],
             seconds=0.6, budget=1020, rounds=(1, 3)),
        Boot("crc", [perftest("loop", "write_bw", 64 * KIB), *tall,
                     other("iperf", "veth", "stream", 64 * KIB)],
             cpu="", budget=100, rounds=(3, 5)),
        Boot("old", [perftest("loop", f"{verb}_lat", 64, ["rox", "rxe"])
                     for verb in ("send", "write")], kernel="6.1", budget=70, rounds=(3, 5)),
        Boot("pair", [*core("pair"), *sockets("pair"), *many_qps("pair", [16], ["rox", "rxe"]),
                      # ib_send_bw's server waits for all, and UC does not repeat what the card drops.
                      *services("pair", ["rox", "rxe"])[:3:2],
                      *(perftest("pair", "write_bw", size, ["rox", "rxe"])
                        for size in (2, 4 * KIB, MIB)),
                      *cpu("pair", ["rox", "rxe"])],
             pair=True, budget=300, rounds=(2, 5), mem=1536),
        Boot("lossy", [*lossy("first"), *lossy("first", ["1 ms", "1 ms, 1 % lost"], frames=True)],
             seconds=3, budget=280, rounds=(1, 3)),
        Boot("far", [*lossy("pair", ["1 ms", "1 ms, 1 % lost"]),
                     *lossy("pair", ["1 ms", "1 ms, 1 % lost"], frames=True)],
             pair=True, seconds=3, budget=90, rounds=(1, 3), mem=1536),
        Boot("scale", scale(), mem=6144, budget=240, rounds=(1, 4)),
    ]


def boots(is_quick):
    return quick() if is_quick else full()
