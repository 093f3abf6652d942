# SPDX-License-Identifier: GPL-2.0
"""Documentation/benchmarks.md and its pictures, from the data of the last run."""

from . import svg, tables, targets
from .stats import is_less_better

PEERS = ("rxe", "siw", "tcp")
HEAD = """# Benchmarks

Made by `scripts/bench report` from the data of `make bench{quick}`; do not edit by hand.

How it is measured: `make bench` boots the guests one after the other. In each, perftest (rox, rdma_rxe, siw),
iperf3 and qperf (TCP, UDP) run one at a time, peer after peer and round after round, each with as many messages as
make a run of about a second. A figure is the median of the rounds, with the least and the most in parentheses.
MiB/s are 2^20 bytes a second; latencies are perftest's typical (half a round trip, a whole one for reads), and below
them the 99th percentile. `x siw` says how many times as good as siw's the figure of rox is (speed: theirs times so
much; time: theirs divided by so much). `_cpu` is the time of all CPUs of all guests for a GiB, with programs that sleep
until completions come. `goodput` is what ib_write_bw (iperf3 for TCP) brings through netem on both ends, into which rox
and TCP send packet by packet; `in frames` as they do otherwise: what is lost then is up to 64 KiB at once, for rdma_rxe
a packet. 0 is a connection of rdma_rxe that has ended each time. Only figures of the same boot are compared. rdma_rxe is Debian's, siw is built from Debian's linux-source,
because Debian's kernels have none.

    make bench                  everything (below 40 minutes), data in build/bench/results.json
    make bench QUICK=1          the core, below 6 minutes
    make bench CHECK=1          ends with status 1 if a target of the table below is not reached
    make bench BOOTS="one crc"  only these boots
    scripts/bench report        this file and its pictures from build/bench/results.json
    make profile PROFILE="write_bw --setting veth"     where the time goes; `scripts/bench profile -h`
"""


def versions(results):
    """When the boots were measured and of which commit, those of the same commit in one line."""
    lines = {}
    for boot in results["boots"]:
        commit = f"commit {boot['commit'][:12]}{' with changes' if boot['changed'] else ''}"
        lines.setdefault(commit, []).append(boot)
    for commit, boots in lines.items():
        yield (f"- {commit}, {boots[0]['when']}: boots "
               f"{', '.join(boot['name'] for boot in boots)}; the host's load before each: "
               f"{', '.join(format(boot['load'], '.1f') for boot in boots)}")


def machine(results):
    """The setting that the figures belong to."""
    host, facts = results["machine"], results["boots"][0]["facts"]
    parameters = ", ".join(f"{k}={v}" for k, v in facts.get("parameters", {}).items())
    return [
        "## The machine", "",
        *versions(results),
        f"- host: {host['cpus']} x {host['cpu']}, Linux {host['kernel']}, {host['qemu']}, "
        f"accelerator {host['accel']}",
        f"- guest: {facts.get('model')}, command line `{facts.get('cmdline')}`",
        f"- rox' parameters: {parameters or 'none'}",
        "- under emulation (tcg) everything is 10 to 30 times slower than on a real machine and "
        "instructions count more than memory: look at ratios, not at figures", ""]


def reached(results):
    word = {True: "reached", False: "**not reached**", None: "not measured"}
    rows = []
    for verdict in results["targets"]:
        rows.append([verdict["row"], "", "", "", word[verdict["reached"]]])
        for c in verdict["conditions"]:
            sign = "at most" if c["less"] else "at least"
            ratio = "-" if c["ratio"] is None else f"{c['ratio']:.3g}"
            rows.append([f"- {c['text']}", f"{sign} {c['wanted']:.3g}", ratio,
                         f"{targets.amount(c['rox'], c['unit'])} / "
                         f"{targets.amount(c['other'], c['unit'])}", word[c["reached"]]])
    return ["## What it must reach", "",
            *tables.table(["", "wanted", "ratio", "rox / other", ""], rows), ""]


def ratios(row):
    """How many times as good as each peer, for the bars."""
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


def write(results, folder):
    """Writes benchmarks.md and bench/*.svg into a folder; old pictures go."""
    pictures = folder / "bench"
    pictures.mkdir(exist_ok=True)
    for old in pictures.glob("*.svg"):
        old.unlink()
    lines = [HEAD.format(quick=" QUICK=1" if results["quick"] else ""), *machine(results),
             *reached(results), "## Pictures", ""]
    for name, title, picture in (*bar_pictures(results), *curve_pictures(results)):
        (pictures / name).write_text(picture)
        lines += [f"![{title}](bench/{name})", ""]
    lines += ["## All figures", "", *tables.sections(results["summary"], results["boots"])]
    if results["failures"]:
        lines += ["## What failed", "", *(f"- {text}" for text in results["failures"]), ""]
    (folder / "benchmarks.md").write_text("\n".join(lines).rstrip("\n") + "\n")
