# SPDX-License-Identifier: GPL-2.0
"""Calculate medians of samples, ratios of medians, and medians of the ratios of each round."""

import statistics

KEY = ("boot", "setting", "test", "size", "qps", "service")
PEERS = ("rox", "none", "rxe", "siw", "tcp", "limit")
# Figures that are better when higher, and those that are better when lower.
LESS = ("_lat", "_cpu", "getppid", "_memory", "reg_", "_each")


def is_less_better(test):
    return any(part in test for part in LESS)


def summary(boots):
    """A list of rows: the key, and for each peer median, min, max, count; ratios of rox, also within rounds."""
    grouped = {}
    for boot in boots:
        for sample in boot["samples"]:
            if "value" not in sample:
                continue
            key = (boot["name"], *(sample[k] for k in KEY[1:]))
            grouped.setdefault(key, {}).setdefault(sample["peer"], []).append(sample)
    rows = [row(key, peers) for key, peers in grouped.items()]
    add_streams(rows)
    return rows


def add_streams(rows):
    """TCP has no verbs: its stream is compared with every bandwidth of 64 KiB messages."""
    streams = {(r["boot"], r["setting"]): r["peers"]["tcp"]["median"]
               for r in rows if r["test"] == "stream"}
    for each in rows:
        stream = streams.get((each["boot"], each["setting"]))
        if stream and "rox" in each["peers"] and each["test"].endswith(("_bw", "_bw_events")) \
                and each["size"] == 64 << 10:
            each["ratios"]["tcp"] = round(each["peers"]["rox"]["median"] / stream, 4)


def row(key, peers):
    figures = {peer: figure(samples) for peer, samples in peers.items()}
    result = dict(zip(KEY, key), peers=figures, ratios={}, paired={})
    if "rox" in figures:
        for peer, theirs in figures.items():
            if peer != "rox" and theirs["median"]:
                result["ratios"][peer] = round(figures["rox"]["median"] / theirs["median"], 4)
                result["paired"][peer] = paired(peers["rox"], peers[peer])
    return result


def paired(mine, theirs):
    """The median of the ratios of two peers in each round, so that a host that is slow for some rounds does not count.

    Return: None if they have no round in common.
    """
    values = {sample["round"]: sample["value"] for sample in theirs}
    ratios = [sample["value"] / values[sample["round"]] for sample in mine if values.get(sample["round"])]
    return round(statistics.median(ratios), 4) if ratios else None


def figure(samples):
    values = [sample["value"] for sample in samples]
    found = {"median": statistics.median(values), "min": min(values), "max": max(values),
             "count": len(values)}
    for name in ("rate", "p99", "mean", "peak", "jain", "queue", "dropped"):
        more = [sample[name] for sample in samples if name in sample]
        if more:
            found[name] = statistics.median(more)
    return found


def failures(boots):
    """Measurements without a figure, and guests that failed."""
    found = []
    for boot in boots:
        if boot["status"]:
            found.append(f"boot {boot['name']} ended with status {boot['status']}")
        seen = {sample_key(s) for s in boot["samples"] if "value" in s}
        for sample in boot["samples"]:
            if "error" in sample and sample_key(sample) not in seen:
                text = f"{boot['name']}: {' '.join(map(str, sample_key(sample)))}: {sample['error']}"
                if text not in found:
                    found.append(text)
    return found


def sample_key(sample):
    return (sample["peer"], *(sample[k] for k in KEY[1:]))
