# SPDX-License-Identifier: GPL-2.0
"""The summary as tables in Markdown, also for a terminal."""

from .stats import PEERS, is_less_better

NAMES = {"rox": "rox", "none": "rox with none", "rxe": "rdma_rxe", "siw": "siw", "tcp": "TCP", "limit": "limit"}
SETTINGS = {"loop": "One device", "veth": "Two namespaces over veth, MTU 9000",
            "first": "Both ends of a veth pair in one namespace, MTU 9000",
            "pair": "Two guests over virtio-net without offload, MTU 9000",
            "tap": "Two guests over virtio-net on tap devices",
            "shared": "A switch whose port to the receivers is slow, MTU 1500"}
# The first that is part of the name of a test.
UNITS = (("incast", "x the ideal time"), ("flow", "of the rate"), ("packets a frame", "packets"), ("_lat", "us"),
         ("getppid", "us"), ("_each", "us"), ("_cpu", "s/GiB"), ("_memory", "KiB"), ("reg_", "ms"),
         ("connections", "/s"))


def size_of(number):
    if not number:
        return ""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if number % unit == 0:
            return f"{number // unit} {name}"
    return f"{number} B"


def what(row):
    words = [row["test"], size_of(row["size"])]
    if row["service"] not in ("-", "RC"):
        words.append(row["service"])
    if row["qps"] > 1:
        words.append(f"{row['qps']} QPs")
    return " ".join(filter(None, words))


def unit(test):
    for part, name in UNITS:
        if part in test:
            return name
    return "MiB/s"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cell(figure, name="median"):
    if not figure:
        return ""
    spread = "" if figure["count"] < 2 or name != "median" else \
        f" ({number(figure['min'])}-{number(figure['max'])})"
    return f"{number(figure[name])}{spread}"


def table(heads, rows):
    widths = [max(len(str(r[i])) for r in [heads, *rows]) for i in range(len(heads))]
    rows = [heads, ["-" * w for w in widths], *rows]
    return ["| " + " | ".join(str(c).ljust(w) for c, w in zip(r, widths)) + " |" for r in rows]


def ratio_text(row, peer):
    """The ratio of rox to a peer: how many times as fast, for rates and for times."""
    ratio = row["ratios"].get(peer)
    if not ratio:
        return ""
    return f"{1 / ratio if is_less_better(row['test']) else ratio:.3g}"


def body(rows):
    """The rows of a setting: the figures of all peers, then the ratios of rox to them."""
    peers = [p for p in PEERS if any(p in r["peers"] for r in rows)]
    others = [p for p in peers if any(p in r["ratios"] for r in rows)]
    heads = ["", "unit", *(NAMES[p] for p in peers), *(f"x {NAMES[p]}" for p in others)]
    lines = []
    for row in rows:
        lines.append([what(row), unit(row["test"]), *(cell(row["peers"].get(p)) for p in peers),
                      *(ratio_text(row, p) for p in others)])
        lines += more(row, peers, len(others))
    return table(heads, lines)


def more(row, peers, others):
    """Lines below a row: the message rate of small messages, the 99th percentile; of flows who gets how much, the
    queue and its losses."""
    wanted = [("p99", "99 %", "us"), ("jain", "Jain's index", ""), ("queue", "mean queue", "bytes"),
              ("dropped", "dropped", "packets")]
    if 0 < row["size"] <= 4096:
        wanted.append(("rate", "messages", "/s"))
    for name, text, its_unit in wanted:
        cells = [cell(f, name) if f and name in f else "" for f in map(row["peers"].get, peers)]
        if any(cells):
            yield [f"- {text}", its_unit, *cells, *[""] * others]


def sections(rows, boots):
    """All tables with their headings."""
    for boot in boots:
        for setting, title in SETTINGS.items():
            mine = [r for r in rows if (r["boot"], r["setting"]) == (boot["name"], setting)]
            if mine:
                kernel = boot["facts"].get("kernel", "?")
                crc = "with" if "pclmulqdq" in boot["facts"].get("flags", []) else "without"
                yield f"### {title}: boot `{boot['name']}`, {kernel}, {crc} pclmulqdq"
                yield ""
                yield from body(mine)
                yield ""
