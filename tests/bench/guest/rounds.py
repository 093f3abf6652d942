# SPDX-License-Identifier: GPL-2.0
"""Repeats rounds over measurements and peers until the time is used up."""

import json
import time

from . import lossy, programs, scale, shared
from .sides import Failed


class Rounds:
    """The rounds of measurements. Each sample is a line on standard output."""

    def __init__(self, job, network):
        self.job = job
        self.network = network
        self.pace = programs.Pace(job["seconds"])
        self.broken = {}                # (measurement, peer) -> how often it failed

    def run(self):
        began = time.monotonic()
        least, most = self.job["rounds"]
        for number in range(most):
            started = time.monotonic()
            for index, what in enumerate(self.job["measurements"]):
                if number < what.get("most", most):
                    self.measure(number, index, what)
            now = time.monotonic()
            # Later rounds take no longer: the runs have learned their lengths.
            if number + 1 >= least and now - began + (now - started) > self.job["budget"]:
                break

    def measure(self, number, index, what):
        """One measurement of all its peers. Each round starts with another peer."""
        peers = what["peers"]
        for i in range(len(peers)):
            peer = peers[(i + number) % len(peers)]
            if self.broken.get((index, peer), 0) > 1:
                continue
            try:
                ends = self.network.pair(what["setting"], what.get("ends", peer))
                started = time.monotonic()
                result = self.one(ends, peer, what)
            except (Failed, OSError, ValueError) as error:
                self.broken[index, peer] = self.broken.get((index, peer), 0) + 1
                self.emit(number, peer, what, {"error": str(error)}, 0)
                continue
            for sample in result if isinstance(result, list) else [result]:
                self.emit(number, peer, what, sample, time.monotonic() - started)

    def one(self, ends, peer, what):
        kind = what["kind"]
        if kind == "perftest":
            return programs.measure_perftest(ends, peer, what, self.pace)
        if kind == "perftest_cpu":
            return programs.measure_cpu(ends, peer, what, self.pace, self.network)
        if kind == "goodput":
            return lossy.measure_goodput(ends, peer, what, self.pace, self.network)
        if kind == "frames":
            return lossy.measure_frames(ends, what, self.network)
        if kind in ("shared", "incast"):
            return shared.measure(ends, peer, what, self.pace, self.network)
        if kind == "iperf_cpu":
            return programs.measure_iperf_cpu(ends, peer, what, self.pace, self.network)
        other = {"iperf": programs.measure_iperf, "qperf": programs.measure_qperf,
                 "limits": programs.measure_limits, "cmtime": scale.measure_cmtime,
                 "qps": scale.measure_qps, "reg": scale.measure_reg,
                 "mrs": scale.measure_mrs}[kind]
        return other(ends, peer, what, self.pace)

    @staticmethod
    def emit(number, peer, what, sample, took):
        line = {key: what[key] for key in ("setting", "test", "size", "qps", "service")}
        line.update(peer=peer, round=number, took=round(took, 2), **{
            k: round(v, 6) if isinstance(v, float) else v for k, v in sample.items()})
        print("BENCH", json.dumps(line), flush=True)
