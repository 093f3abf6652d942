# SPDX-License-Identifier: GPL-2.0
"""Write Documentation/benchmarks.md and its pictures from the data of the last run."""

import textwrap

from roxvm.paths import REPO

from . import count, svg, tables, targets
from .stats import is_less_better

INSTRUCTIONS = "## Instructions of a message"
FIGURES = "## All figures"
PEERS = ("rxe", "siw", "tcp")
# Written by hand: why the figures are what they are.
WHY = REPO / "Documentation" / "bench" / "why.md"
HEAD = """# Benchmarks

Made by `scripts/bench report` from the data of `make bench{quick}`; do not edit by hand.

`make bench` boots the guests one after the other. In each, perftest (rox, rdma_rxe, siw), iperf3 and qperf (TCP, UDP)
run one at a time, peer after peer and round after round, each with as many messages as make a run of about a second.
rdma_rxe is Debian's. siw is built from Debian's linux-source, because Debian's kernels have none.

- A figure is the median of the rounds, with the least and the most in parentheses. Only figures of the same boot are
  compared.
- MiB/s are 2^20 bytes a second. Latencies are perftest's typical ones: half a round trip, a whole one for READs. Below
  them is the 99th percentile.
- `x siw` compares with siw: 2 is twice the speed, or half the time.
- perftest polls for completions, which takes a CPU; iperf3 sleeps. Over rox a thread sleeps that polls long in vain. In
  rows with `_events` perftest sleeps, too (`-e`).
- `_cpu` is the time of all CPUs of all guests for a GiB, with programs that sleep until completions come.
- `goodput` is what ib_write_bw (iperf3 for TCP) brings through netem on both ends. rox and TCP send packet by packet
  there, TCP in packets of 4 KiB, too (`gso_max_segs 1`: without offload a netdev cuts frames behind netem). In rows
  with "in frames" they send frames of up to 64 KiB, which netem loses whole; rdma_rxe sends packets. 0 means that the
  connection of rdma_rxe ended each time.
- Boots `lossy`, `shared`, `cost` and `tapcost` are in virtual time: one CPU that executes 500 million instructions a
  second. They measure networks and an algorithm. In the host's time the host would take CPUs from the guest for
  milliseconds. The two guests of `tapcost` wait for each other in the host's time.
- Boots `tap`: the guests are on tap devices with virtio headers, on a bridge, which carry frames that are segmented
  later. `tap`: MTU 9000, UDP segmentation on (`ethtool -K DEVICE tx-udp-segmentation on`); `tapcut`: off; `tap1500`:
  MTU 1500; `tapqueues`: four queues. `pair` is joined by a socket, which takes only packets. Where packets are
  gathered, the receiving card waits so long for more (`gro_flush_timeout`), as adapters do by coalescing interrupts.
- Boots `cost` and `tapcost`: rox with its default congestion control and with `none`, a fixed window. They are
  compared round by round, as a host that is slow for a while is slow for both; the median of these ratios counts.
- Boots `anywhere` and `anywherefirst`: `rox-run` with two CPUs, on the machine itself. Its kernel, Linux 7.3 for User
  Mode Linux, has rdma_rxe built in for this. `anywherefirst` has both ends of a veth pair in the first namespace, the
  only one in which rdma_rxe works.
- Boot `shared`: flows through a port of 50 Mbit/s with the named queue: how much of the rate they get, of which headers
  are taken away; "4 flows and 4 of TCP": how much of what all get is rox's. TCP is dctcp where the queue marks, else
  cubic.

The commands:

    make bench                  everything (some 75 minutes), data in build/bench/results.json
    make bench QUICK=1          the core, below 6 minutes
    make bench CHECK=1          ends with status 1 if a target of the table below is not reached
    make bench BOOTS="one crc"  only these boots
    scripts/bench report        this file and its pictures from build/bench/results.json
    make count                  instructions of a message, in build/count.json
    make profile PROFILE="write_bw --setting veth"     where the time goes; `scripts/bench profile -h`
"""

# The section about what scripts/bench count has found.
COUNTED = """Counted by `make count` on kernel {kernel}, commit {commit:.12}, in a guest of one CPU whose clock is the \
number of its
instructions. "Instructions" are those of programs and kernel at both ends. Not among them: loops that copy or compute
a CRC (listed apart), programs that poll in vain, and the loop of an idle CPU. Client and server are the programs with
the kernel beneath them; an interrupt belongs to whom it interrupts. "Other" is kernel threads. A string instruction
(`rep movs`) counts once.

"tap": two guests on tap devices, MTU 9000, UDP segmentation on. Client and server are all that happens in a guest. Each
has such a clock, but waits for the other in the host's time, so runs differ by some percent; the median counts."""


def versions(results):
    """Lines with commit and time of the boots; boots of the same commit share a line."""
    lines = {}
    for boot in results["boots"]:
        commit = f"commit {boot['commit'][:12]}{' with changes' if boot['changed'] else ''}"
        lines.setdefault(commit, []).append(boot)
    for commit, boots in lines.items():
        yield (f"{commit}, {boots[0]['when']}: boots "
               f"{', '.join(boot['name'] for boot in boots)}; the host's load before each: "
               f"{', '.join(format(boot['load'], '.1f') for boot in boots)}")


def item(text):
    """An item of a list, in lines of the usual length."""
    return textwrap.fill(text, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False,
                         break_on_hyphens=False)


def machine(results):
    """The setting that the figures belong to."""
    host, facts = results["machine"], results["boots"][0]["facts"]
    parameters = ", ".join(f"{k}={v}" for k, v in facts.get("parameters", {}).items())
    items = [
        *versions(results),
        f"host: {host['cpus']} x {host['cpu']}, Linux {host['kernel']}, {host['qemu']}, "
        f"accelerator {host['accel']}",
        f"guest: {facts.get('model')}, command line `{facts.get('cmdline')}`",
        f"rox' parameters: {parameters or 'none'}",
        "under emulation (tcg) everything is 10 to 30 times slower than on a real machine, and instructions "
        "count more than memory: look at ratios, not at figures"]
    return ["## The machine", "", *map(item, items), ""]


def wanted(condition):
    return f"{'at most' if condition['less'] else 'at least'} {condition['wanted']:.3g}"


def reached(results):
    word = {True: "reached", False: "**not reached**", None: "not measured"}
    rows = []
    for verdict in results["targets"]:
        rows.append([verdict["row"], "", "", "", word[verdict["reached"]]])
        for c in verdict["conditions"]:
            ratio = "-" if c["ratio"] is None else f"{c['ratio']:.3g}"
            rows.append([f"- {c['text']}", wanted(c), ratio,
                         f"{targets.amount(c['rox'], c['unit'])} / "
                         f"{targets.amount(c['other'], c['unit'])}", word[c["reached"]]])
    return ["## What it must reach", "",
            *tables.table(["", "wanted", "ratio", "rox / other", ""], rows), ""]


def counted(results):
    """The section about instructions, if they have been counted."""
    if not results:
        return []
    word = {True: "reached", False: "**not reached**", None: "not measured"}
    rows = [[f"{verdict['row']}: {c['text']}", wanted(c),
             "-" if c["ratio"] is None else f"{c['ratio']:.3g}",
             f"{targets.amount(c['rox'], c['unit'])} / {targets.amount(c['other'], c['unit'])}", word[c["reached"]]]
            for verdict in results["targets"] for c in verdict["conditions"]]
    return [INSTRUCTIONS, "", *COUNTED.format(**results).splitlines(), "",
            *tables.table(["", "wanted", "ratio", "rox / other", ""], rows), "", *count.lines(results)]


def ratios(row):
    """The ratios to each peer, for the bars."""
    found = {}
    for peer in PEERS:
        ratio = row["ratios"].get(peer)
        if ratio:
            found[peer] = 1 / ratio if is_less_better(row["test"]) else ratio
    return found


def bar_pictures(results):
    for boot in results["boots"]:
        if boot["name"] in ("curves", "scale"):
            continue
        for setting, title in tables.SETTINGS.items():
            rows = [r for r in results["summary"]
                    if (r["boot"], r["setting"]) == (boot["name"], setting)]
            groups = [(tables.what(r), ratios(r)) for r in rows if ratios(r)]
            if groups:
                yield (f"{boot['name']}-{setting}.svg", f"{title}: rox against the peers",
                       svg.bars(f"{title} ({boot['name']}): how many times as good rox is",
                                groups, tables.NAMES))


def curve_pictures(results):
    lines = {}
    for row in results["summary"]:
        if (row["boot"], row["qps"], row["service"]) == ("curves", 1, "RC") \
                and not row["test"].endswith("_cpu"):
            for peer, figure in row["peers"].items():
                lines.setdefault((row["setting"], row["test"]), {}).setdefault(peer, []).append(
                    (row["size"], figure["median"]))
    for (setting, test), series in lines.items():
        title = f"{tables.SETTINGS[setting]}, RC {test}"
        yield (f"curve-{setting}-{test}.svg", title,
               svg.curves(title, series, tables.NAMES, tables.unit(test)))


def parts(folder):
    """benchmarks.md in three: what is before the section about instructions, that section, the figures."""
    path = folder / "benchmarks.md"
    text, title, figures = (path.read_text() if path.exists() else "").partition(FIGURES)
    before, found, section = text.partition(INSTRUCTIONS)
    return before, found + section, title + figures


def counted_before(folder):
    """The section about instructions as the page has it: counts are made by themselves, and say of which commit."""
    section = parts(folder)[1].rstrip("\n")
    return [*section.splitlines(), ""] if section else []


def write_counts(folder):
    """Replaces the section about instructions in benchmarks.md, or adds it before the figures."""
    before, _, figures = parts(folder)
    (folder / "benchmarks.md").write_text("\n".join([before.rstrip("\n"), "", *counted(count.load()), figures]))


def write(results, folder):
    """Writes benchmarks.md and bench/*.svg into a folder. Deletes old pictures."""
    instructions = counted(count.load()) or counted_before(folder)
    pictures = folder / "bench"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    lines = [HEAD.format(quick=" QUICK=1" if results["quick"] else ""), *machine(results),
             *reached(results), *WHY.read_text().splitlines(), "", "## Pictures", ""]
    for name, title, picture in (*bar_pictures(results), *curve_pictures(results)):
        (pictures / name).write_text(picture)
        lines += [f"![{title}](bench/{name})", ""]
    lines += [*instructions, FIGURES, "", *tables.sections(results["summary"], results["boots"])]
    if results.get("not_run"):
        lines += ["## What was not run", "", *(f"- {text}" for text in results["not_run"]), ""]
    if results["failures"]:
        lines += ["## What failed", "", *(f"- {text}" for text in results["failures"]), ""]
    (folder / "benchmarks.md").write_text("\n".join(lines).rstrip("\n") + "\n")
