# SPDX-License-Identifier: GPL-2.0
"""Many connections, queue pairs and memory regions; the programs are cmtime and ../scale.cc."""

import json
import re
import time

from .programs import attempts, measure_perftest, program
from .sides import Failed

SECONDS = 180
# The steps of a client of cmtime. Each step is done for all connections before the next one.
STEPS = ("create id", "resolve addr", "resolve route", "create qp", "connect")
LISTENING = "until rdma resource show cm_id | grep -q 'state LISTEN'; do sleep 0.1; done; sleep 0.5"


def cmtime(ends, count):
    number = str(count)
    server = ends[0].side.start(["cmtime", "-c", number], None, SECONDS)
    try:
        ends[0].side.run("timeout", "15", "sh", "-c", LISTENING)
        status, text = ends[1].side.run("cmtime", "-c", number, "-t", "20000", "-s",
                                        ends[0].address, limit=SECONDS)
    finally:
        ends[0].side.kill(server)
        ends[0].side.wait(server)
    steps = {m[1]: float(m[2]) for m in re.finditer(r"^([a-z ]+?) *: +([\d.]+)", text, re.M)}
    # cmtime ends with 0 even if some connections have failed.
    if status or "failure" in text or not set(STEPS) <= set(steps):
        raise Failed(f"cmtime ended with {status}: {text[-800:]}")
    return steps


def measure_cmtime(ends, _peer, what, _pace):
    steps = attempts(lambda: cmtime(ends, what["count"]))
    return {"value": what["count"] / (sum(steps[name] for name in STEPS) / 1e3), "steps": steps}


def scale(end, *arguments):
    """Runs ../scale.cc until it ends."""
    status, text = end.side.run(program("scale"), end.device, *map(str, arguments), limit=SECONDS)
    if status:
        raise Failed(f"scale {' '.join(map(str, arguments))} ended with {status}: {text}")
    return json.loads(text)


def measure_qps(ends, peer, what, pace):
    """The memory of idle QPs, and the speed of 16 busy QPs beside them."""
    end, count = ends[0], what["count"]
    # 0.2 ms for each QP where nothing else runs.
    limit = SECONDS + count // 1000
    job = end.side.start([program("scale"), end.device, "qps", str(count)], None, limit)
    try:
        while job.process.poll() is None and "}" not in job.so_far():
            time.sleep(0.1)
        text = job.so_far()
        if "}" not in text:
            raise Failed(f"scale qps {count}: {text}")
        cost = json.loads(text)
        results = [{"test": f"qp_memory {count}", "value": cost["qp_kib"]},
                   {"test": f"qp_create_each {count}", "value": cost["create_us"]},
                   {"test": f"qp_connect_each {count}", "value": cost["modify_us"]}]
        if peer == "rox":
            busy = dict(what, test="write_bw", size=64 << 10, qps=16)
            sample = measure_perftest(ends, peer, busy, pace)
            results.append({**sample, "test": f"write_bw beside {count} QPs", "size": 64 << 10,
                            "qps": 16})
        return results
    finally:
        end.side.kill(job)
        end.side.wait(job)


def measure_reg(ends, _peer, what, _pace):
    """Registration of 1 GiB. Huge pages are reserved only meanwhile."""
    pages = what["pages"]
    set_huge_pages(514 if pages == "huge" else 0)
    try:
        took = scale(ends[0], "reg", 1024, pages)
    finally:
        set_huge_pages(0)
    return [{"test": f"reg_1GiB_{pages}", "value": took["reg_ms"]},
            {"test": f"dereg_1GiB_{pages}", "value": took["dereg_ms"]}]


def set_huge_pages(count):
    path = "/proc/sys/vm/nr_hugepages"
    for name, value in (("/proc/sys/vm/compact_memory", 1), (path, count)):
        if count or name == path:
            with open(name, "w", encoding="ascii") as file:
                file.write(str(value))
    with open(path, encoding="ascii") as file:
        got = int(file.read())
    if got < count:
        raise Failed(f"only {got} of {count} huge pages")


def measure_mrs(ends, _peer, what, _pace):
    count = what["count"]
    took = scale(ends[0], "mrs", count)
    return [{"test": f"reg_each {count} MRs", "value": took["reg_us"]},
            {"test": f"dereg_each {count} MRs", "value": took["dereg_us"]},
            {"test": f"mr_memory {count} MRs", "value": took["kib"]}]
