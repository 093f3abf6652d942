# SPDX-License-Identifier: GPL-2.0
"""Headers of a kernel that was configured without something.

The folder of a kernel's headers is copied, and the copy's configuration is changed in the three places
where a build looks: auto.conf (make), autoconf.h (the compiler) and Module.symvers. The symbols of what is
switched off are taken out of the latter, so that a module that still needs one of them fails to build.
"""

import re
import shutil
from typing import NamedTuple

from . import headers


class Small(NamedTuple):
    """What is switched off: options, and the pattern of the names that are exported only with them."""

    options: tuple
    symbols: str
    refusal: str = ""   # what the build must say, if it must be refused


# Of net/ipv6 these are in the kernel without IPv6, too (output_core.c, addrconf_core.c).
IPV6_CORE = r"(__)?ip6_local_out|ip6_dst_hoplimit|ip6_find_1stfragopt|inet6addr_"
KINDS = {
    "no ODP": Small(("INFINIBAND_ON_DEMAND_PAGING", "MMU_NOTIFIER", "HMM_MIRROR", "DEVICE_PRIVATE", "MIGRATE_VMA"),
                    r"ib_umem_odp_\w+|ib_init_umem_odp|mmu_interval_\w+|mmu_notifier_\w+|hmm_range_fault"),
    "no IPv6": Small(("IPV6", "IPV6_MODULE", "INFINIBAND_ADDR_TRANS_CONFIGFS", "NF_TABLES_IPV6", "IPV6_SUBTREES",
                      "IPV6_MULTIPLE_TABLES", "NET_UDP_TUNNEL_IPV6"),
                     r"(?!" + IPV6_CORE + r")(__)?(ip6|udp6|udpv6|icmpv6|inet6|ndisc|rt6|fib6|addrconf|nd_tbl|"
                     r"ipv6_(chk|sock|dev))\w*"),
    "no CRC32": Small(("CRC32", "CRYPTO_CRC32", "CRC32_ARCH", "CRYPTO_CRC32C", "CRYPTO_CRC32_PCLMUL"),
                      r"(__)?crc32\w*|__crc32c_le_shift"),
    "no dma-buf": Small(("DMA_SHARED_BUFFER", "SYNC_FILE", "UDMABUF", "DMABUF_HEAPS"),
                        r"dma_buf_\w+|ib_umem_dmabuf_\w+|dma_resv_\w+|dma_fence_\w+"),
    "no MEMCG": Small(("MEMCG", "MEMCG_KMEM", "MEMCG_V1", "CGROUP_WRITEBACK"),
                      r"mem_cgroup_\w+|\w+_from_mem_cgroup|memcg_\w+|\w*mem_cgroup\w*"),
}
KINDS["minimal"] = Small(tuple(option for kind in KINDS.values() for option in kind.options),
                         "|".join(kind.symbols for kind in KINDS.values()))
KINDS["32 bits"] = Small(("64BIT",), "(?!)", refusal="rox needs a 64-bit kernel")


def without(text, pattern):
    return "".join(line for line in text.splitlines(keepends=True) if not re.search(pattern, line))


def rewrite(path, change):
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def prepare(root, kver, name):
    """Makes the copy; returns where it is inside the root."""
    small = KINDS[name]
    copy = f"{headers.folder(kver)}-{name.replace(' ', '-')}"
    original, target = (root.path / path.lstrip("/") for path in (headers.folder(kver), copy))
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(original, target, symlinks=True)
    options = "|".join(small.options)
    rewrite(target / "include/config/auto.conf", lambda text: without(text, rf"^CONFIG_({options})="))
    rewrite(target / "include/generated/autoconf.h", lambda text: without(text, rf"^#define CONFIG_({options})\b"))
    rewrite(target / "Module.symvers", lambda text: without(text, rf"^\w+\t({small.symbols})\t"))
    # Debian's makefile and its configuration name the folder.
    rewrite(target / "Makefile", lambda text: text.replace(f"={headers.folder(kver)}\n", f"={copy}\n"))
    return copy
