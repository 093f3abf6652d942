# SPDX-License-Identifier: GPL-2.0
"""Count instructions of messages in an emulated guest, whose clock is the number of its instructions.

So the host's load does not change what is counted. Runs may take one of several courses, as programs sleep or
not; so some are repeated, and the median counts. Two guests on tap devices have such clocks each, and wait for each
other in the host's time.
"""

import base64
import json
import os
import re
import subprocess
import zlib

from roxvm import kernels, taps
from roxvm.paths import BUILD, REPO, HarnessError

from . import boots, counts, facts, plan, plugin, siw, tables, targets

OUTPUT = BUILD / "count.json"
LINE = re.compile(r"^(?:1\| )?BENCH (\{.*\})$")
KERNEL = "6.12"
LIMIT = 1800                    # seconds, of which an idle machine needs 150
KIB64 = 64 << 10
MIB = 1 << 20
LARGE = (KIB64, MIB)
PACKET = 4 << 10
TIMES = {"rox": 3, "tcp": 5}     # how often a run is repeated
MOST_SMALL = {1: 3600, 16: 1900}        # instructions of a WRITE of 64 B, alone or in a run of 16
MOST_LOCKED = 12
SETTINGS = ("veth", "tap")      # of which TCP is the measure
# Peers of the setting "tap" that are in one boot: rdma_rxe has the UDP port of rox.
JOINED = (("rox", "tcp"), ("rxe",), ("siw",))
MTU = 9000
FUNCTIONS = 60          # of each run, in the file of results
ALGORITHMS = ("none", "adaptive")       # of congestion control
LEAST_OF_NONE = 0.98                    # what is left where nothing is congested


def small(kind, posted, messages=4000):
    test = kind if posted == 1 else f"{kind}, {posted} a post"
    return [{"setting": "loop", "test": test, "kind": kind, "peer": peer, "size": 64, "poll": True,
             "depth": posted, "list": posted, "warm_up": 800, "messages": messages} for peer in plan.RDMA]


def large(setting, peers, size=KIB64, messages=300):
    """Long messages, 16 under way, and TCP's. The programs sleep until completions come."""
    common = {"setting": setting, "size": size, "poll": False, "depth": 16, "list": 1, "warm_up": 50,
              "messages": messages}
    rows = [{**common, "test": kind, "kind": kind, "peer": peer}
            for kind in ("write", "send", "read") for peer in peers]
    # TCP's windows grow for long.
    stream = {**common, "test": "stream", "kind": "tcp", "peer": "tcp", "warm_up": 50 * MIB // size,
              "messages": max(64 * MIB // size, messages)}
    return [*rows, stream]


def single(messages=300):
    """64 KiB messages over veth, each packet of 4 KiB in a frame of its own."""
    for kind, peer, warm_up in (("write", "rox", 50), ("send", "rox", 50), ("read", "rox", 50), ("tcp", "tcp", 800)):
        yield {"setting": "veth", "test": f"{'stream' if peer == 'tcp' else kind}, single packets", "kind": kind,
               "peer": peer, "size": KIB64, "poll": False, "depth": 16, "list": 1, "warm_up": warm_up,
               "messages": messages, "frames": False}


def regions():
    """Memory regions of a page."""
    for kind in ("reg_mr", "dereg_mr"):
        for peer in ("rox", "rxe"):
            yield {"setting": "loop", "test": kind, "kind": kind, "peer": peer, "size": PACKET, "poll": False,
                   "depth": 1, "list": 1, "warm_up": 500, "messages": 2000}


def controlled():
    """The same WRITEs with each algorithm of congestion control."""
    for algorithm in ALGORITHMS:
        for setting in ("loop", "veth"):
            for size, depth, poll, messages in ((64, 1, True, 3000), (KIB64, 16, False, 300)):
                yield {"setting": setting, "test": f"write, {algorithm}", "kind": "write", "peer": "rox", "size": size,
                       "poll": poll, "depth": depth, "list": 1, "warm_up": 400, "messages": messages, "cc": algorithm}


def plans():
    smalls = [row for kind in ("write", "read") for posted in (1, 16) for row in small(kind, posted)]
    once = [*smalls, *regions(), *large("loop", plan.RDMA),
            *large("veth", ["rox", "siw"]), *large("veth", ["rox"], MIB, 100), *single(), *controlled(),
            *large("tap", plan.RDMA), *large("tap", ["rox"], MIB, 100)]
    return [what for what in once for _ in range(TIMES.get(what["peer"], 1))]


def name_of(what):
    return f"{what['setting']} {what['peer']} {what['test']} {tables.size_of(what['size'])}"


def options_of(parser):
    add = parser.add_argument
    add("--only", default="", metavar="REGEX", help='only runs whose name matches, as "veth rox write 64 KiB"')
    add("--check", action="store_true", help="status 1 if a target is not reached, or was not counted")
    add("--functions", type=int, default=0, metavar="N", help="print the N most expensive functions of each run")
    add("--kernel", default=KERNEL)
    add("--spin", action="store_true", help="leave rox' polling of send queues on")
    add("--no-build", action="store_true", help="use what is already built")


def measure(options, folder):
    """Boots guests and counts. Returns the runs with their figures."""
    wanted = [what for what in plans() if re.search(options.only, name_of(what))]
    if not wanted:
        raise HarnessError("no such runs")
    if not options.no_build:
        boots.build_for([options.kernel])
    library = plugin.build()
    folder.mkdir(parents=True, exist_ok=True)
    rows = [row for boot in boots_of(wanted) for row in count(boot, options, folder, library)]
    return {**facts.version(), "machine": facts.host(), "kernel": options.kernel, "runs": medians(rows)}


def boots_of(wanted):
    """The runs of each boot: those in one guest, and those in two."""
    batches = [[what for what in wanted if what["setting"] != "tap"],
               *([what for peer in peers for what in wanted if (what["setting"], what["peer"]) == ("tap", peer)]
                 for peers in JOINED)]
    return [batch for batch in batches if batch]


def count(wanted, options, folder, library):
    """Boots one guest, or two that are joined, and counts. Returns the runs with their figures."""
    joined = wanted[0]["setting"] == "tap"
    why = joined and taps.missing()
    if why:
        return [{**what, "error": f"no tap devices: {why}"} for what in wanted]
    peers = [peer for peer in ("rox", "rxe", "siw", "tcp") if peer in {what["peer"] for what in wanted}]
    job, counters = folder / "job-count.json", folder / "counters"
    job.write_text(json.dumps({
        "peers": peers, "runs": wanted, "watch": counts.WATCH,
        "siw": str(siw.find(kernels.find(options.kernel))) if "siw" in peers else None}))
    network = ["--pair", "virtio", "--tap", "1", "--mtu", str(MTU)] if joined else []
    command = ["scripts/vm", "--kernel", options.kernel, *network, "--cpus", "1", "--mem", "2048", "--timeout",
               str(LIMIT), f"--cpu={plan.PLAIN_CPU}", "--icount", "0", "--plugin", f"{library},out={counters}",
               # Locked instructions stay, though there is one CPU.
               "--append", "noreplace-smp sysctl.kernel.kptr_restrict=0", "--", "tests/bench/counted", str(job)]
    rows, texts = follow(command, "" if options.spin else "spin_us=0")
    found = [read(f"{counters}.{guest}" if joined else counters, text) for guest, text in sorted(texts.items())]
    if joined:
        server, client = found
        found = [{number: counts.joined(server[number], client[number]) for number in client if number in server}]
    return [with_figures(row, found[0].get(row["run"]), max(options.functions, FUNCTIONS)) for row in rows]


def read(counters, text):
    """The runs that a guest's plugin has counted; `text` is the table of its symbols."""
    with open(counters, encoding="ascii") as stream:
        return counts.parse(stream, counts.Symbols(text))


def follow(command, parameters):
    """Runs the guests. Returns the lines about runs, and each guest's table of symbols."""
    packed, rows = {}, []
    environment = dict(os.environ, ROX_BUILD=str(BUILD))
    environment.setdefault("ROX_VM_OPTIONS", parameters)
    with subprocess.Popen(command, cwd=REPO, env=environment, stdin=subprocess.DEVNULL, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace") as process:
        for line in process.stdout:
            match = LINE.match(line.rstrip("\n"))
            if not match:
                print(line, end="", flush=True)
                continue
            told = json.loads(match[1])
            if "symbols" in told:
                packed.setdefault(told["guest"], []).append(told["symbols"])
            else:
                rows.append(told)
                print(f"{name_of(told)}: {told.get('error', 'done')}", flush=True)
    if process.returncode or not packed:
        raise HarnessError(f"the guest ended with status {process.returncode}")
    return rows, {guest: zlib.decompress(base64.b64decode("".join(pieces))).decode()
                  for guest, pieces in packed.items()}


def with_figures(row, run, functions):
    if "error" in row:
        return row
    if not run:
        return {**row, "error": "nothing was counted"}
    return {**row, "figures": counts.figures(run, row["messages"]),
            "functions": counts.functions(run, row["messages"], functions)}


def total(row):
    return row["figures"]["all"]["instructions"]


def medians(rows):
    """One of the rows of each name: the one with the median of instructions, or one that failed."""
    named = {}
    for row in rows:
        named.setdefault(name_of(row), []).append(row)
    chosen = []
    for same in named.values():
        failed = [row for row in same if "error" in row]
        good = sorted((row for row in same if "error" not in row), key=total)
        row = failed[0] if failed else good[len(good) // 2]
        chosen.append({**row, "all": [total(each) for each in good]})
    return chosen


def judge(results):
    """The verdicts about targets, as targets.judge() has them."""
    figures = {(row["setting"], row["test"], row["size"], row["peer"]): row["figures"]["all"]
               for row in results["runs"] if "figures" in row}

    def each(key, name, parts=1):
        return figures[key][name] / parts if key in figures else None

    verdicts = []
    for test, posted in (("write", 1), ("write, 16 a post", 16)):
        key, most = ("loop", test, 64, "rox"), MOST_SMALL[posted]
        verdicts.append((f"one device, 64 B {test}", [
            targets.condition(f"{most:,} instructions", each(key, "instructions"), most, 1, True),
            targets.condition(f"{MOST_LOCKED} locked instructions", each(key, "locked"), MOST_LOCKED, 1, True)]))
    for setting in SETTINGS:
        verdicts.append((f"{setting}, instructions for 4 KiB without copying and CRC, both sides", [
            targets.condition(f"{test} {tables.size_of(size)}, TCP",
                              each((setting, test, size, "rox"), "instructions", size // PACKET),
                              each((setting, "stream", size, "tcp"), "instructions", size // PACKET), 1, True)
            for size in LARGE for test in ("write", "send", "read")]))
    verdicts.append(("reg_mr and dereg_mr of a page, instructions", [
        targets.condition(f"{kind}, rdma_rxe", *(each(("loop", kind, PACKET, peer), "instructions")
                                                 for peer in ("rox", "rxe")), 1, True)
        for kind in ("reg_mr", "dereg_mr")]))
    verdicts.append(("congestion control without congestion, all instructions of a WRITE with none", [
        targets.condition(f"{setting} {tables.size_of(size)}, adaptive",
                          *(whole(figures.get((setting, f"write, {name}", size, "rox"))) for name in ALGORITHMS),
                          LEAST_OF_NONE) for setting in ("loop", "veth") for size in (64, KIB64)]))
    return [targets.verdict(row, conditions) for row, conditions in verdicts]


def whole(figures):
    """All instructions, those of copying and summing up as well."""
    return figures and sum(figures[kind] for kind in ("instructions", "copy", "sum"))


HEADS = ["", "size", "", "instructions", "client", "server", "other", "programs", "locked",
         "copy: instructions", "bytes", "CRC: instructions", "bytes"]


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def line(row, parts=1):
    figures = row["figures"]
    both = figures["all"]
    values = [both["instructions"], figures["client"]["instructions"], figures["server"]["instructions"],
              sum(figures[side]["instructions"] for side in ("other", "idle", "wait")), both["user"], both["locked"],
              both["copy"], both["copied"], both["sum"], both["summed"]]
    return [f"{row['setting']} {row['test']}", tables.size_of(row["size"] // parts), tables.NAMES[row["peer"]],
            *(number(value / parts) for value in values)]


def lines(results):
    """The tables: for each message, and for each 4 KiB of large messages."""
    good = [row for row in results["runs"] if "figures" in row]
    small_ones = [line(row) for row in good if row["size"] < KIB64]
    if small_ones:
        yield from ["For each message:", "", *tables.table(HEADS, small_ones), ""]
    for size in LARGE:
        large_ones = [line(row, size // PACKET) for row in good if row["size"] == size]
        if large_ones:
            yield from [f"For each 4 KiB of messages of {tables.size_of(size)}:", "",
                        *tables.table(HEADS, large_ones), ""]


def show_functions(results, most):
    heads = ["instructions", "locked", *counts.SIDES, "function", "kind"]
    for row in results["runs"]:
        print(f"\n{name_of(row)}: by function, for each message")
        mine = [[*(number(f[head]) for head in heads[:-2]), f["name"], f["kind"]]
                for f in row.get("functions", [])[:most]]
        for text in tables.table(heads, mine):
            print(text)


def run(options, folder):
    results = measure(options, folder)
    results["targets"] = judge(results)
    OUTPUT.write_text(json.dumps(results, indent=1) + "\n")
    if options.functions:
        show_functions(results, options.functions)
    print()
    for text in lines(results):
        print(text)
    for text in targets.lines(results["targets"]):
        print(text)
    failed = [f"{name_of(row)}: {row['error']}" for row in results["runs"] if "error" in row]
    failed += targets.missed(results["targets"]) if options.check else []
    for text in failed:
        print(f"FAILED: {text}")
    print(f"in {OUTPUT}", flush=True)
    return 1 if failed else 0


def load():
    """The last results; None if there are none."""
    if not OUTPUT.exists():
        return None
    results = json.loads(OUTPUT.read_text())
    return results if "targets" in results else None
