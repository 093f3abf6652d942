# SPDX-License-Identifier: GPL-2.0
"""The peers' namespaces, netdevs, RDMA links and connections.

Each peer has its own veth pair, so that its hooks see no packets of others. Both ends are in
namespaces, except for rdma_rxe, which works in the initial namespace only.
"""

import os
import subprocess
import time

from .sides import Failed, Local

MTU = "9000"
MODULE = {"rox": "rox", "none": "rox", "rxe": "rdma_rxe"}
# A peer that is another one with a setting: the type of its links; the setting's file and value.
KIND = {"none": "rox"}
SETTING = {"none": ("cc/algorithm", "none")}
# In rox-run all modules are built in.
IN_RUN = "ROX_RUN" in os.environ
# Connections whose server and client have devices of different kinds.
MIXED = {"mixed": ("rox", "rxe")}


def run(*command):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            timeout=60, check=False)
    if result.returncode:
        raise Failed(f"`{' '.join(command)}` ended with {result.returncode}: {result.stdout}")
    return result.stdout


def begin():
    """What each setting needs before it makes links."""
    if IN_RUN:
        # That device has the UDP port that rdma_rxe needs. And libibverbs knows rox only there.
        run("rdma", "link", "delete", "rox0")
        with open("/etc/libibverbs.d/rxe.driver", "w", encoding="ascii") as driver:
            driver.write("driver rxe\n")
    else:
        run("modprobe", "-a", "ib_uverbs", "rdma_ucm", "veth")


def insert(side, peer, siw):
    """Loads a peer's module: siw's by its path, the others by name."""
    if IN_RUN:
        return
    if peer == "siw":
        commands = [["modprobe", "-a", "iw_cm", "libcrc32c", "crc32c_generic"], ["insmod", siw]]
    else:
        commands = [["modprobe", MODULE[peer]]]
    for command in commands:
        status, text = side.run(*command)
        if status and "File exists" not in text:
            raise Failed(f"{' '.join(command)}: {text}")


def add_link(side, peer, device, netdev):
    """Adds an RDMA link and waits until the address has become a GID."""
    status, text = side.run("rdma", "link", "add", device, "type", KIND.get(peer, peer), "netdev", netdev)
    if status:
        raise Failed(f"no link {device}: {text}")
    if peer == "siw":
        return
    wanted = ("for i in $(seq 50); do grep -qs ^0000:0000:0000:0000:0000:ffff: "
              f"/sys/class/infiniband/{device}/ports/1/gids/* && exit; sleep 0.1; done; exit 1")
    # In guests all RDMA devices are visible in the initial namespace.
    first = Local() if isinstance(side, Local) and not IN_RUN else side
    if first.run("sh", "-c", wanted)[0]:
        raise Failed(f"{device} has no GID for its IPv4 address")
    if peer in SETTING:
        name, value = SETTING[peer]
        status, text = first.run("sh", "-c", f"echo {value} >/sys/class/infiniband/{device}/{name}")
        if status:
            raise Failed(f"{device}: {name} cannot be {value}: {text}")


class End:
    """One end of a connection: where it is, its address, its RDMA device."""

    def __init__(self, side, address, device=None):
        self.side = side
        self.address = address
        self.device = device


class OneGuest:
    """The settings "loop" (one device, or lo) and "veth" (two namespaces)."""

    def __init__(self, peers, siw):
        begin()
        self.ends = {}
        for number, peer in enumerate(peers):
            self.add(peer, number + 1, siw)

    def add(self, peer, number, siw):
        ends = []
        names = [None if (peer, i) == ("rxe", 0) else f"{peer}-{i}" for i in (0, 1)]
        for name in filter(None, names):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "link", "add", f"{peer}v0", "mtu", MTU, "type", "veth",
            "peer", "name", f"{peer}v1", "mtu", MTU)
        if peer not in ("tcp",):
            insert(Local(), peer, siw)
        for i, name in enumerate(names):
            netdev, address = f"{peer}v{i}", f"10.0.{number}.{i + 1}"
            if name:
                run("ip", "link", "set", netdev, "netns", name)
            inside = ["-n", name] if name else []
            run("ip", *inside, "address", "add", f"{address}/24", "dev", netdev)
            run("ip", *inside, "link", "set", netdev, "up")
            ends.append(End(Local(name), address))
        for i, end in enumerate(ends):
            if peer != "tcp" and (peer, i) != ("rxe", 1):
                end.device = f"{peer}{i}"
                add_link(end.side, peer, end.device, f"{peer}v{i}")
        self.ends[peer] = ends
        time.sleep(0.2)

    def pair(self, setting, peer):
        """The ends of server and client."""
        if peer == "limit":
            here = End(Local(), None)
            return here, here
        first, second = self.ends[peer]
        if setting == "veth":
            return first, second
        if peer == "tcp":
            loopback = End(first.side, "127.0.0.1")
            return loopback, loopback
        return first, first

    def netdevs(self, peer):
        """Of the two ends."""
        return f"{peer}v0", f"{peer}v1"

    def others_cpu(self):
        return 0.0

    def close(self):
        pass


class OneAtATime:
    """A netdev for each end, which only one peer uses at a time: rdma_rxe owns the UDP port of rox as
    long as it is loaded, and the other way round."""

    def __init__(self, ends, netdevs, siw):
        self.ends = ends
        self.joined = netdevs
        self.siw = siw
        self.present = None
        for end in ends:
            end.side.run("modprobe", "-a", "ib_uverbs", "rdma_ucm")

    def pair(self, _setting, peer):
        if peer != self.present:
            self.leave()
            if peer != "tcp":
                self.enter(peer)
        return self.ends

    def netdevs(self, _peer):
        return self.joined

    def device(self, _number, peer):
        """The name of the RDMA device of an end."""
        return f"{peer}0"

    def enter(self, peer):
        self.present = peer
        for number, (end, netdev, kind) in enumerate(zip(self.ends, self.joined, self.kinds())):
            insert(end.side, kind, self.siw)
            end.device = self.device(number, kind)
            add_link(end.side, kind, end.device, netdev)

    def kinds(self):
        """The kinds of the RDMA devices at both ends."""
        return MIXED.get(self.present, (self.present, self.present))

    def leave(self):
        if self.present:
            for end in self.ends:
                if end.device:
                    end.side.run("rdma", "link", "delete", end.device)
                end.device = None
            for end, kind in zip(self.ends, self.kinds() if not IN_RUN else ()):
                end.side.run("modprobe", "-r", MODULE.get(kind, "siw"))
        self.present = None

    def others_cpu(self):
        return 0.0

    def close(self):
        self.leave()


class FirstNamespace(OneAtATime):
    """The setting "first": both ends of a veth pair in the initial namespace, the only one in which
    rdma_rxe works. Packets for the other end's address go over the pair although it is local."""

    def __init__(self, siw):
        netdevs, addresses = ("first0", "first1"), ("10.0.9.1", "10.0.9.2")
        begin()
        run("ip", "link", "add", netdevs[0], "mtu", MTU, "type", "veth",
            "peer", "name", netdevs[1], "mtu", MTU)
        run("ip", "rule", "add", "pref", "100", "lookup", "local")
        run("ip", "rule", "delete", "pref", "0")
        for netdev, address in zip(netdevs, addresses):
            run("ip", "address", "add", f"{address}/32", "dev", netdev)
            run("ip", "link", "set", netdev, "up")
            run("sysctl", "-q", f"net.ipv4.conf.{netdev}.accept_local=1",
                f"net.ipv4.conf.{netdev}.rp_filter=0", "net.ipv4.conf.all.rp_filter=0")
        for i, netdev in enumerate(netdevs):
            other, table = addresses[1 - i], str(1001 + i)
            with open(f"/sys/class/net/{netdevs[1 - i]}/address", encoding="ascii") as file:
                mac = file.read().strip()
            run("ip", "neighbour", "replace", other, "lladdr", mac, "dev", netdev, "nud", "permanent")
            run("ip", "route", "add", other, "dev", netdev, "src", addresses[i], "table", table)
            run("ip", "rule", "add", "pref", str(10 + i), "iif", "lo", "to", other, "lookup", table)
        super().__init__(tuple(End(Local(), address) for address in addresses), netdevs, siw)

    def device(self, number, peer):
        return f"{peer}{number}"


class TwoGuests(OneAtATime):
    """The settings "pair" and "tap": each end in a guest of its own."""

    def __init__(self, siw, remote, address, other, netdev):
        super().__init__((End(remote, other), End(Local(), address)), (netdev, netdev), siw)

    def prepare(self, uso, queues):
        """Switches UDP segmentation of both cards on or off, and all of their queues on."""
        commands = []
        if uso is not None:
            commands.append(["ethtool", "-K", self.joined[0], "tx-udp-segmentation", "on" if uso else "off"])
        if queues and queues > 1:
            commands.append(["ethtool", "-L", self.joined[0], "combined", str(queues)])
        for end in self.ends:
            for command in commands:
                status, text = end.side.run(*command)
                if status:
                    raise Failed(f"{' '.join(command)} ended with {status}: {text}")
            if uso is not None:
                self.check_uso(end, "on" if uso else "off")

    def check_uso(self, end, wanted):
        """ethtool ends with 0 although a feature stays as it was."""
        shown = end.side.run("ethtool", "-k", self.joined[0])[1]
        if f"tx-udp-segmentation: {wanted}" not in shown:
            raise Failed(f"UDP segmentation cannot be switched {wanted}: QEMU 8.2 and Linux 6.2 are needed")

    def others_cpu(self):
        return self.ends[0].side.cpu_seconds()

    def close(self):
        super().close()
        self.ends[0].side.stop()
