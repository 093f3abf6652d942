# SPDX-License-Identifier: GPL-2.0
"""Two tap devices with virtio headers on a bridge, as hypervisors join guests: segmentation offload goes through.

They are in a network namespace that this process enters and that has no name: it ends with this process and QEMU.
"""

import ctypes
import os
import subprocess

from .paths import HarnessError

CLONE_NEWNET = 0x40000000
TUN = "/dev/net/tun"


def ip(*words):
    result = subprocess.run(["ip", *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False)
    if result.returncode:
        raise HarnessError(f"no tap devices: `ip {' '.join(map(str, words))}`: {result.stdout.strip()}")


def missing():
    """Why this machine cannot have tap devices; None if it can. Tried in a process of its own."""
    if not os.access(TUN, os.R_OK | os.W_OK):
        return f"{TUN} cannot be opened"
    child = os.fork()
    if not child:
        os._exit(0 if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0 else 1)
    return "CAP_NET_ADMIN and a network namespace are needed" if os.waitpid(child, 0)[1] else None


def make(mtu, queues):
    """Moves this process into a new network namespace with a bridge and the devices tap0 and tap1."""
    why = missing()
    if why:
        raise HarnessError(f"no tap devices: {why}")
    if ctypes.CDLL(None).unshare(CLONE_NEWNET):
        raise HarnessError("no network namespace")
    ip("link", "add", "br0", "type", "bridge", "mcast_snooping", 0)
    for name in ("tap0", "tap1"):
        ip("tuntap", "add", "dev", name, "mode", "tap", "vnet_hdr", *(["multi_queue"] if queues > 1 else []))
        ip("link", "set", name, "mtu", mtu, "master", "br0", "up")
    ip("link", "set", "br0", "mtu", mtu, "up")


def arguments(role, queues):
    """QEMU's arguments for the tap device of a guest, without those of the card; and what the card needs."""
    many = f",queues={queues}" if queues > 1 else ""
    return (f"tap,id=net,ifname=tap{role},script=no,downscript=no,vhost=off{many}",
            f",mq=on,vectors={2 * queues + 2}" if queues > 1 else "")
