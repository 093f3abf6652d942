# SPDX-License-Identifier: GPL-2.0
"""The plan of the benchmark: the guests to boot, and the measurements in each."""

import re

from .stats import PEERS

KIB = 1 << 10
MIB = 1 << 20
RDMA = ["rox", "rxe", "siw"]
# The usual CPU flags. The accelerated CRC is off: an emulated CPU needs a call for each of its
# instructions.
PLAIN_CPU = "-pclmulqdq"


class Boot:
    """A boot of one guest, or of two connected ones. Only figures of the same boot are compared."""

    def __init__(self, name, measurements, **given):
        self.name = name
        self.measurements = measurements
        self.kernel = "6.12"
        self.cpu = PLAIN_CPU
        self.run = False                # in rox-run, not in a virtual machine
        self.pair = False
        self.tap = 0                    # queues of tap devices that join a pair; 0: a socket joins it
        self.cpus = None                # the usual number
        self.virtual = False            # one CPU, whose clock counts its instructions; seconds are that clock's
        self.mtu = 9000
        self.uso = None                 # UDP segmentation in both guests; None: as the driver leaves it
        self.mem = 3072
        self.seconds = 1.0              # duration of one run of a program
        self.rounds = (2, 5)            # at least, at most
        self.budget = 120               # seconds; no round starts that would end later
        for key, value in given.items():
            setattr(self, key, value)

    def limit_to(self, pattern):
        """Keeps only measurements that match."""
        self.measurements = [what for what in self.measurements
                             if re.search(pattern, f"{what['test']} {what['service']}")]
        return self.measurements

    @property
    def peers(self):
        wanted = {peer for what in self.measurements for peer in what["peers"]}
        return [peer for peer in PEERS if peer in wanted and peer != "limit"]


def perftest(setting, test, size, peers=None, qps=1, service="RC", **more):
    return {"kind": "perftest", "setting": setting, "test": test, "size": size, "qps": qps,
            "service": service, "peers": peers or RDMA, **more}


def other(kind, setting, test, size=0, peers=("tcp",), **more):
    return {"kind": kind, "setting": setting, "test": test, "size": size, "qps": 1,
            "service": "-", "peers": list(peers), **more}


def core(setting, peers=None):
    """Bandwidth, message rate and latency, for the targets (targets.py)."""
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


def sleeping(setting, peers):
    """The programs sleep until completions come. ib_write_bw only polls."""
    return [perftest(setting, f"{verb}_bw_events", 64 * KIB, peers) for verb in ("send", "read")]


def cpu(setting, peers=None):
    """CPU seconds per GiB, of both ends together. Not with ib_write_bw, which only polls."""
    return [perftest(setting, "send_bw_cpu", 64 * KIB, peers, kind="perftest_cpu"),
            other("iperf_cpu", setting, "stream_cpu", 64 * KIB)]


def curves(setting, peers=None):
    """A series of message sizes: all three verbs on one device, else the one-sided ones."""
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
    """Many connections, QPs and MRs. The memory of 10,000 QPs is not measured for rdma_rxe."""
    def on(peers, kind, test, **more):
        return other(kind, "loop", test, peers=peers, **{"service": "RC", **more})

    return [
        *(on(["rox"], "qps", f"qp_memory {count}", count=count) for count in (10, 1000, 10000)),
        # More than a process can have mappings.
        on(["rox"], "qps", "qp_memory 200000", count=200000, most=1),
        on(["rxe"], "qps", "qp_memory 1000", count=1000),
        on(["rox", "rxe"], "reg", "reg_1GiB_plain", pages="plain"),
        on(["rox", "rxe"], "reg", "reg_1GiB_huge", pages="huge"),
        on(["rox", "rxe"], "mrs", "reg_each", count=100000, most=3),
        # With siw some of several hundred connections fail, and then cmtime measures fewer.
        on(["rox", "rxe"], "cmtime", "connections", count=300),
    ]


# Each end adds half of a delay. Queues are long, except where short queues are measured.
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
    """Goodput of 64 KiB messages through a bad network, as packets or as frames that are segmented later."""
    ending = ", in frames" if frames else ""
    return [other("goodput", setting, f"goodput {name}{ending}", 64 * KIB, ("rox", "rxe", "tcp"),
                  service="RC", netem=NETWORKS[name], frames=frames) for name in names]


# Mbit/s of the slow port, so slow that emulation is not the limit.
SHARED_RATE = 50


def shared():
    """A switch whose port to the receivers is slow: its queue, and who gets how much of the rate."""
    def flows(test, queue, peers=("rox",), kind="shared", **more):
        return other(kind, "shared", test, 64 * KIB, peers, service="RC", queue=queue, **{"rate": SHARED_RATE, **more})

    return [
        *(flows(f"one flow, {queue}", queue, ("rox", "tcp"), tcp="dctcp") for queue in ("codel", "red", "fq_codel")),
        *(flows(f"8 flows, {queue}", queue, flows=8) for queue in ("codel", "red")),
        flows("incast of 16, codel", "codel", kind="incast", flows=16),
        *(flows(f"4 flows and 4 of TCP, {queue}", queue, flows=4, beside=4) for queue in ("long", "sparse")),
        flows("one flow, queue of 10 packets", "short", ("rox", "tcp"), tcp="cubic", netem="limit 10000 delay 1ms"),
        flows("one flow, 20 ms with jitter", "long", ("rox", "tcp"), tcp="cubic", netem="limit 10000 delay 20ms 3ms"),
    ]


# rox with the default algorithm, and with a fixed window.
ALGORITHMS = ["rox", "none"]


def cost(setting):
    """What no congestion must cost."""
    return [*(perftest(setting, f"{verb}_bw", 64 * KIB, ALGORITHMS) for verb in ("write", "send", "read")),
            perftest(setting, "write_bw", MIB, ALGORITHMS), perftest(setting, "write_bw", 64, ALGORITHMS),
            perftest(setting, "send_lat", 64, ALGORITHMS)]


# Guests on tap devices with virtio headers, as hypervisors join them.
TAP = {"pair": True, "mem": 1536, "seconds": 2, "budget": 150, "rounds": (2, 5)}


# In rox-run, on this machine itself.
ANYWHERE = {"run": True, "cpus": 2, "mem": 1024, "budget": 90, "rounds": (2, 5)}


def tapped(verbs):
    return [*(perftest("tap", f"{verb}_bw", 64 * KIB, ["rox", "rxe"]) for verb in verbs),
            other("iperf", "tap", "stream", 64 * KIB)]


# Microseconds that a card waits for more packets.
GATHER = 200


def packets_a_frame():
    """What rox receives from rdma_rxe, which sends each packet by itself."""
    return [other("frames", "tap", f"packets a frame from rdma_rxe{ending}", 64 * KIB, ("rox",), service="RC",
                  ends="mixed", gather=time)
            for ending, time in (("", 0), (f", gathered {GATHER} us", GATHER))]


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
                      *sleeping("pair", ["rox", "rxe"]),
                      # ib_send_bw's server waits for all, and UC does not repeat what the card drops.
                      *services("pair", ["rox", "rxe"])[:3:2],
                      *(perftest("pair", "write_bw", size, ["rox", "rxe"])
                        for size in (2, 4 * KIB, MIB)),
                      *cpu("pair", ["rox", "rxe"])],
             pair=True, budget=300, rounds=(2, 5), mem=1536),
        Boot("tap", [*tapped(("write", "send", "read")), *sleeping("tap", ["rox", "rxe"]), *packets_a_frame()], tap=1,
             uso=True, **TAP),
        Boot("tapcut", tapped(("write", "send", "read")), tap=1, uso=False, **TAP),
        Boot("tap1500", [*tapped(("write",)), *packets_a_frame()], tap=1, uso=True, **{**TAP, "mtu": 1500}),
        Boot("tapqueues", [*tapped(("write",)), *many_qps("tap", [16], ["rox", "rxe"])], tap=4, uso=True, cpus=2,
             **TAP),
        Boot("cost", cost("veth"), seconds=0.5, budget=90, rounds=(2, 3), virtual=True),
        Boot("tapcost", cost("tap")[:3], tap=1, uso=True, virtual=True,
             **{**TAP, "seconds": 1, "budget": 400, "rounds": (25, 40)}),
        Boot("lossy", [*lossy("first"), *lossy("first", ["1 ms", "1 ms, 1 % lost"], frames=True)],
             seconds=3, budget=240, rounds=(1, 2), virtual=True),
        Boot("far", [*lossy("pair", ["1 ms", "1 ms, 1 % lost"]),
                     *lossy("pair", ["1 ms", "1 ms, 1 % lost"], frames=True)],
             pair=True, seconds=3, budget=90, rounds=(1, 3), mem=1536),
        Boot("shared", shared(), seconds=6, budget=240, rounds=(3, 3), virtual=True),
        Boot("anywhere", [*core("loop", ["rox", "rxe"]), *core("veth", ["rox"])[:4], *sockets("loop")], **ANYWHERE),
        Boot("anywherefirst", core("first", ["rox", "rxe"])[:4], **ANYWHERE),
        Boot("scale", scale(), mem=6144, budget=300, rounds=(1, 4)),
    ]


def boots(is_quick):
    return quick() if is_quick else full()
