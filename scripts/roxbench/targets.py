# SPDX-License-Identifier: GPL-2.0
"""The speeds that rox must reach, judged from medians."""

from .plan import GATHER

KIB64 = 64 << 10


class Figures:
    """Finds medians in the rows of a summary; None if there is none."""

    def __init__(self, rows):
        self.rows = {(r["boot"], r["setting"], r["test"], r["size"], r["qps"], r["service"]): r
                     for r in rows}

    def figure(self, boot, setting, test, size, peer, qps=1, service="RC"):
        row = self.rows.get((boot, setting, test, size, qps, service), {"peers": {}})
        return row["peers"].get(peer)

    def median(self, *key, part="median", **more):
        return (self.figure(*key, **more) or {}).get(part)

    def paired(self, *key, peer):
        """The median of rox's ratios to a peer in each round."""
        return self.rows.get((*key, 1, "RC"), {"paired": {}})["paired"].get(peer)

    def stream(self, boot, setting):
        """TCP's bandwidth."""
        return self.median(boot, setting, "stream", KIB64, "tcp", service="-")

    def limit(self, test):
        return self.median("one", "loop", test, 0, "limit", service="-")

    def socket_latency(self, setting, test):
        return self.median("one", setting, test, 64, "tcp", service="-")


def condition(text, mine, theirs, factor, less=False, unit=""):
    """The condition that `mine` is at least (with less: at most) `factor` times `theirs`."""
    found = {"text": text, "rox": mine, "other": theirs, "wanted": factor, "less": less,
             "unit": unit, "ratio": None, "reached": None}
    if mine is not None and theirs:
        found["ratio"] = mine / theirs
        found["reached"] = found["ratio"] <= factor if less else found["ratio"] >= factor
    return found


def better(function, *values):
    known = [value for value in values if value is not None]
    return function(known) if known else None


def one_device(f):
    def bw(test, peer):
        return f.median("one", "loop", test, KIB64, peer)

    mine = bw("write_bw", "rox")
    yield "one device, RC 64 KiB write_bw", [
        condition("rdma_rxe", mine, bw("write_bw", "rxe"), 25, unit="MiB/s"),
        condition("siw", mine, bw("write_bw", "siw"), 2.5, unit="MiB/s"),
        condition("TCP over lo", mine, f.stream("one", "loop"), 1.5, unit="MiB/s"),
        condition("memcpy", mine, f.limit("memcpy"), 1.5, unit="MiB/s")]
    yield "one device, send_bw and read_bw 64 KiB", [
        condition(f"{test}, {name}", bw(test, "rox"), bw(test, peer), factor, unit="MiB/s")
        for test in ("send_bw", "read_bw")
        for peer, name, factor in (("rxe", "rdma_rxe", 25), ("siw", "siw", 2.5))]
    rates = {peer: f.median("one", "loop", "write_bw", 64, peer, part="rate")
             for peer in ("rox", "rxe", "siw")}
    yield "one device, 64 B write_bw message rate", [
        condition("the better of rdma_rxe and siw", rates["rox"],
                  better(max, rates["rxe"], rates["siw"]), 10, unit="/s")]
    yield "one device, 64 B send_lat and write_lat, typical", list(latencies(f))


def latencies(f):
    for test, most in (("send_lat", 0.25), ("write_lat", 0.2)):
        mine, rxe, siw = (f.median("one", "loop", test, 64, p) for p in ("rox", "rxe", "siw"))
        yield condition(f"{test}, the better of rdma_rxe and siw", mine, better(min, rxe, siw),
                        most, True, "us")
        yield condition(f"{test} on 6.1, rdma_rxe", f.median("old", "loop", test, 64, "rox"),
                        f.median("old", "loop", test, 64, "rxe"), 1, True, "us")


def namespaces(f):
    conditions = []
    for test in ("write_bw", "read_bw"):
        for boot, name in (("one", ""), ("crc", " with pclmulqdq")):
            conditions.append(condition(f"{test}, siw{name}",
                                        f.median(boot, "veth", test, KIB64, "rox"),
                                        f.median(boot, "veth", test, KIB64, "siw"), 1,
                                        unit="MiB/s"))
        conditions.append(condition(f"{test}, TCP with pclmulqdq",
                                    f.median("crc", "veth", test, KIB64, "rox"),
                                    f.stream("crc", "veth"), 0.8, unit="MiB/s"))
    yield "two namespaces over veth, RC 64 KiB write_bw and read_bw, MTU 9000", conditions
    mine = f.median("one", "veth", "send_lat", 64, "rox")
    yield "two namespaces over veth, 64 B send_lat", [
        condition(f"qperf {test}", mine, f.socket_latency("veth", test), 1, True, "us")
        for test in ("tcp_lat", "udp_lat")]


def two_guests(f):
    conditions = []
    for test in ("write_bw", "send_bw", "read_bw"):
        mine = f.median("pair", "pair", test, KIB64, "rox")
        conditions += [
            condition(f"{test}, rdma_rxe", mine,
                      f.median("pair", "pair", test, KIB64, "rxe"), 3, unit="MiB/s"),
            condition(f"{test}, TCP", mine, f.stream("pair", "pair"), 0.8, unit="MiB/s")]
    yield "two VMs, RC 64 KiB", conditions
    yield "two VMs, RC 64 KiB, programs that sleep", list(sleeping(f, "pair", 0.8))


def sleeping(f, setting, least):
    """TCP's programs sleep, too."""
    for test in ("send_bw", "read_bw"):
        yield condition(f"{test}, TCP", f.median(setting, setting, f"{test}_events", KIB64, "rox"),
                        f.stream(setting, setting), least, unit="MiB/s")


def on_taps(f):
    def bw(test, peer, boot="tap"):
        return f.median(boot, "tap", test, KIB64, peer)

    tests = ("write_bw", "send_bw", "read_bw")
    yield "two VMs on tap devices, UDP segmentation on, RC 64 KiB", [
        *(condition(f"{test}, TCP", bw(test, "rox"), f.stream("tap", "tap"), 0.6, unit="MiB/s") for test in tests),
        *(condition(f"{test}, rdma_rxe", bw(test, "rox"), bw(test, "rxe"), 4, unit="MiB/s") for test in tests)]
    yield "two VMs on tap devices, UDP segmentation on, RC 64 KiB, programs that sleep", list(sleeping(f, "tap", 0.6))
    yield "two VMs on tap devices, MTU 1500, RC 64 KiB", [
        condition("write_bw, rdma_rxe", *(bw("write_bw", peer, "tap1500") for peer in ("rox", "rxe")), 3,
                  unit="MiB/s")]
    yield "rdma_rxe sends 64 KiB writes to rox", [
        condition(f"packets a frame{ending}", bw(f"packets a frame from rdma_rxe{ending}", "rox"), 1, 8)
        for ending in ("", f", gathered {GATHER} us")]


def lossy(f):
    test = "goodput 1 ms, 1 % lost"
    yield "1 ms away, 1 % lost, RC 64 KiB write_bw", [
        condition(f"rdma_rxe, {name}",
                  *(f.median(boot, setting, test, KIB64, peer) for peer in ("rox", "rxe")), 5,
                  unit="MiB/s")
        for boot, setting, name in (("lossy", "first", "netem on veth"), ("far", "pair", "two VMs"))]


def lossy_tcp(f):
    """Packet by packet."""
    def figure(name, peer):
        return f.median("lossy", "first", f"goodput {name}", KIB64, peer)

    yield "a bad path, packet by packet, RC 64 KiB write_bw, against TCP with packets as large", [
        condition(name, figure(name, "rox"), figure(name, "tcp"), least, unit="MiB/s")
        for name, least in (("1 ms", 0.6), ("1 ms, 1 % lost", 0.8), ("1 ms, 5 % lost", 2), ("1 ms, out of order", 0.8),
                            ("1 ms, 10 % twice", 0.8), ("all together", 0.8))]


def shared(f):
    def figure(test, peer="rox", part="median"):
        return f.median("shared", "shared", test, KIB64, peer, part=part)

    yield "a shared network, one flow with ECN", [
        *(condition(f"{queue}: the rate", figure(f"one flow, {queue}"), 1, 0.92)
          for queue in ("codel", "red", "fq_codel")),
        *(condition(f"{queue}: queue, of TCP dctcp's", figure(f"one flow, {queue}", part="queue"),
                    figure(f"one flow, {queue}", "tcp", "queue"), 1.5, True, "bytes") for queue in ("codel", "red"))]
    yield "a shared network, 8 flows", [
        condition(f"{queue}: {name}", figure(f"8 flows, {queue}", part=part), 1, least)
        for queue in ("codel", "red")
        for name, part, least in (("the rate", "median", 0.92), ("fairness", "jain", 0.95))]
    dropped = figure("incast of 16, codel", part="dropped")
    yield "a shared network, incast of 16 times 1 MiB with ECN", [
        condition("the ideal time", figure("incast of 16, codel"), 1, 1.3, True),
        # A ratio needs a figure that is not 0.
        condition("no packet dropped", None if dropped is None else dropped + 1, 1, 1, True)]
    yield "a shared network, 4 flows beside 4 of TCP cubic", [
        each for queue in ("long", "sparse") for each in (
            condition(f"{queue}: rox's share, at least", figure(f"4 flows and 4 of TCP, {queue}"), 1, 0.3),
            condition(f"{queue}: rox's share, at most", figure(f"4 flows and 4 of TCP, {queue}"), 1, 0.7, True))]
    yield "a bad path, one flow against TCP cubic", [
        condition(test, figure(f"one flow, {test}"), figure(f"one flow, {test}", "tcp"), least)
        for test, least in (("queue of 10 packets", 0.6), ("20 ms with jitter", 0.8))]


def cost(f):
    for boot, setting in (("cost", "veth"), ("tapcost", "tap")):
        yield f"the default algorithm against none, {setting}, RC 64 KiB, median of the rounds' ratios", [
            condition(test, f.paired(boot, setting, test, KIB64, peer="none"), 1, 0.98)
            for test in ("write_bw", "send_bw", "read_bw")]


def anywhere(f):
    def bw(setting, test, peer):
        return f.median("anywhere", setting, test, KIB64, peer)

    tests = ("write_bw", "send_bw", "read_bw")
    yield "rox-run, one device, RC 64 KiB", [
        *(condition(f"{test}, MiB/s", bw("loop", test, "rox"), 1, 4000) for test in tests),
        *(condition(f"{test}, rdma_rxe", bw("loop", test, "rox"), bw("loop", test, "rxe"), 30, unit="MiB/s")
          for test in tests)]
    yield "rox-run, one device, 64 B", [
        condition("write_bw, messages a second", f.median("anywhere", "loop", "write_bw", 64, "rox", part="rate"), 1,
                  200000),
        condition("send_lat, qperf tcp_lat", f.median("anywhere", "loop", "send_lat", 64, "rox"),
                  f.median("anywhere", "loop", "tcp_lat", 64, "tcp", service="-"), 0.5, True, "us")]
    yield "rox-run, two namespaces, RC 64 KiB", [
        *(condition(f"{test}, TCP", bw("veth", test, "rox"), f.stream("anywhere", "veth"), 0.5, unit="MiB/s")
          for test in tests),
        *(condition(f"{test}, rdma_rxe, both in one namespace",
                    *(f.median("anywherefirst", "first", test, KIB64, peer) for peer in ("rox", "rxe")), 4, unit="MiB/s")
          for test in tests)]


def scale(f):
    yield "16 QPs against 1 QP, total bandwidth", [
        condition(f"{setting}, 1 QP", f.median("one", setting, "write_bw", KIB64, "rox", qps=16),
                  f.median("one", setting, "write_bw", KIB64, "rox"), 1, unit="MiB/s")
        for setting in ("loop", "veth")]
    few, many = (f.figure("scale", "loop", f"write_bw beside {n} QPs", KIB64, "rox", qps=16)
                 for n in (10, 10000))
    # The noise is the spread of the runs with few QPs.
    noise = few["min"] / few["median"] if few else None
    yield "10,000 idle QPs", [
        condition("16 QPs beside 10 (noise allowed)", many and many["median"],
                  few and few["median"], noise, unit="MiB/s") if few else
        condition("16 QPs beside 10 (noise allowed)", None, None, 1),
        condition("16 KiB for a QP", f.median("scale", "loop", "qp_memory 10000", 0, "rox",
                                              service="RC"), 16, 1, True, "KiB")]
    yield "reg_mr of 1 GiB with 2 MiB pages", [
        condition("rdma_rxe", *(f.median("scale", "loop", "reg_1GiB_huge", 0, peer)
                                for peer in ("rox", "rxe")), 1, True, "ms")]
    yield "reg_mr and dereg_mr of a page", [
        condition(f"{verb}_mr, rdma_rxe", *(f.median("scale", "loop", f"{verb}_each 100000 MRs", 0, peer, service="RC")
                                            for peer in ("rox", "rxe")), 1, True, "us")
        for verb in ("reg", "dereg")]


def judge(rows):
    """The rows of the table: text, conditions, reached (None: not measured)."""
    f = Figures(rows)
    verdicts = []
    for part in (one_device, namespaces, two_guests, on_taps, lossy, lossy_tcp, shared, cost, anywhere, scale):
        for text, conditions in part(f):
            verdicts.append(verdict(text, conditions))
    return verdicts


def verdict(text, conditions):
    """A row of the table: reached if all its conditions are."""
    states = [c["reached"] for c in conditions]
    reached = False if False in states else None if None in states else True
    return {"row": text, "reached": reached, "conditions": conditions}


def missed(verdicts):
    """The rows that are not reached, including those that were not measured."""
    return [each["row"] for each in verdicts if each["reached"] is not True]


def amount(value, unit):
    if value is None:
        return "-"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def lines(verdicts):
    """The verdicts as text."""
    word = {True: "reached", False: "NOT REACHED", None: "not measured"}
    for each in verdicts:
        yield f"{word[each['reached']]:12} {each['row']}"
        for c in each["conditions"]:
            if c["reached"] is None:
                continue
            sign = "at most" if c["less"] else "at least"
            yield (f"    {'+' if c['reached'] else '-'} {c['ratio']:.3g} x {c['text']} "
                   f"({sign} {c['wanted']:.3g}): {amount(c['rox'], c['unit'])} against "
                   f"{amount(c['other'], c['unit'])}")
