// SPDX-License-Identifier: GPL-2.0
/*
 * Netdevs of the kind "roxcap" show what QPs of one device say to each other without a wire, as the
 * RoCE v2 packets that a network would have carried:
 *
 *	ip link add roxcap0 type roxcap && ip link set roxcap0 up && tcpdump -i roxcap0
 *
 * Each shows the bursts between addresses of its namespace to packet sockets, from the IP header
 * on. It neither receives nor sends anything. Its MTU is the number of bytes that are copied of a
 * packet. A packet that somebody captures costs its sender a copy and an ICRC; while no such netdev
 * is up, the carrier loopback has a no-op in place of the call (rox_mirror_key).
 */
#include <linux/if_arp.h>
#include <linux/if_link.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rculist.h>
#include <linux/udp.h>
#include <net/addrconf.h>
#include <net/ip6_checksum.h>
#include <net/rtnetlink.h>

#include "internal.h"

/* The longest packet: 4,096 bytes of payload, and headers. */
#define MIRROR_MTU	4224
/* Any packet's headers are shorter. */
#define MIRROR_MIN_MTU	128

/**
 * struct rox_mirror - private data of a netdev
 * @node: in rox_mirror_list
 * @ndev: the netdev
 */
struct rox_mirror {
	struct list_head node;
	struct net_device *ndev;
};

DEFINE_STATIC_KEY_FALSE(rox_mirror_key);

/* All netdevs of this kind (RCU; changed with the RTNL). */
static LIST_HEAD(rox_mirror_list);

/* ---- a packet ---- */

/**
 * struct rox_mirrored - a burst on its way to a netdev
 * @b: the burst
 * @it: walks the payload, with a reference of its own
 * @read: payload bytes that it has passed
 */
struct rox_mirrored {
	const struct rox_burst *b;
	struct rox_iter it;
	u32 read;
};

/* Copies the next @len bytes of the payload. Return: false if they cannot be read any more. */
static bool rox_mirror_copy(struct rox_mirrored *m, u8 *dst, u32 len)
{
	void *src;
	ssize_t n;

	if (m->b->inl) {
		memcpy(dst, m->b->inl + m->read, len);
		m->read += len;
		return true;
	}
	for (; len; len -= n, dst += n) {
		n = rox_iter_next(&m->it, len, &src);
		if (n <= 0)
			return false;
		memcpy(dst, src, n);
		m->read += n;
	}
	return true;
}

static void rox_mirror_skip(struct rox_mirrored *m, u32 len)
{
	if (!m->b->inl && len)
		rox_iter_advance(&m->it, len);
	m->read += len;
}

/* Writes IP and UDP header. @len: UDP payload. */
static void rox_mirror_headers(const struct rox_path *path, u8 *p, u32 len)
{
	u32 ip_len = rox_local_ip(path, p, sizeof(struct udphdr) + len);

	*(struct udphdr *)(p + ip_len) = (struct udphdr) {
		.source = htons(path->sport),
		.dest = htons(ROX_UDP_PORT),
		.len = htons(sizeof(struct udphdr) + len),
	};
}

/*
 * Ends a packet that is whole: ICRC, and over IPv6 the UDP checksum, which IPv4 may omit.
 * @head: length of IP and UDP header; @len: UDP payload
 */
static void rox_mirror_seal(const struct rox_path *path, u8 *p, u32 head, u32 len)
{
	struct udphdr *udp = (struct udphdr *)(p + head) - 1;
	struct rox_icrc_head icrc;
	u8 *bth = p + head;
	__le32 crc;

	if (path->v6)
		rox_icrc_head_v6(&icrc, (struct ipv6hdr *)p, udp);
	else
		rox_icrc_head_v4(&icrc, (struct iphdr *)p, udp);
	memcpy(icrc.bth, bth, ROX_BTH_LEN);
	crc = rox_icrc_end(rox_icrc_update(rox_icrc_begin(&icrc), bth + ROX_BTH_LEN,
					   len - ROX_BTH_LEN - ROX_ICRC_LEN));
	memcpy(bth + len - ROX_ICRC_LEN, &crc, sizeof(crc));
	if (!path->v6)
		return;
	udp->check = csum_ipv6_magic(&path->saddr, &path->daddr, sizeof(*udp) + len, IPPROTO_UDP,
				     csum_partial(udp, sizeof(*udp) + len, 0));
	if (!udp->check)
		udp->check = CSUM_MANGLED_0;
}

/*
 * Makes packet @i of the burst, of which the netdev shows @most bytes. Return: NULL without memory,
 * or if the payload cannot be read.
 */
static struct sk_buff *rox_mirror_packet(struct rox_mirrored *m, u32 i, u32 most)
{
	const struct rox_burst *b = m->b;
	u32 payload = rox_payload_len(b, i);
	u8 opcode = rox_burst_opcode_at(b, i), buf[ROX_BTH_LEN + ROX_EXT_MAX];
	struct rox_bth bth = rox_burst_bth(b, opcode, i);
	u32 ext = rox_opcodes[opcode].ext_len, pad = bth.pad;
	u32 len = ROX_BTH_LEN + ext + payload + pad + ROX_ICRC_LEN;
	u32 head, copied;
	struct sk_buff *skb;
	u8 *p;

	head = (b->path->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) +
	       sizeof(struct udphdr);
	skb = alloc_skb(min(head + len, most), GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return NULL;
	p = skb_put_zero(skb, head + ROX_BTH_LEN + ext);
	rox_mirror_headers(b->path, p, len);
	bth.psn = rox_psn_add(b->psn, i);
	rox_bth_pack(buf, &bth);
	rox_ext_pack(buf + ROX_BTH_LEN, opcode, &b->ext);
	memcpy(p + head, buf, ROX_BTH_LEN + ext);

	copied = min(payload, most - skb->len);
	if (!rox_mirror_copy(m, skb_put(skb, copied), copied)) {
		kfree_skb(skb);
		return NULL;
	}
	rox_mirror_skip(m, payload - copied);
	if (head + len <= most) {
		skb_put_zero(skb, pad + ROX_ICRC_LEN);
		rox_mirror_seal(b->path, p, head, len);
	}
	skb->protocol = b->path->v6 ? htons(ETH_P_IPV6) : htons(ETH_P_IP);
	skb_reset_mac_header(skb);
	skb_reset_network_header(skb);
	skb_set_transport_header(skb, head - sizeof(struct udphdr));
	return skb;
}

/* ---- to the readers ---- */

static void rox_mirror_burst(struct net_device *ndev, const struct rox_burst *b)
{
	struct rox_mirrored m = { .b = b };
	struct sk_buff *skb;
	u32 i;

	if (b->src)
		m.it = rox_iter_copy(b->src);
	for (i = 0; i < b->npkts; i++) {
		skb = rox_mirror_packet(&m, i, READ_ONCE(ndev->mtu));
		if (!skb) {
			/* The position in the payload is not known any more. */
			dev_core_stats_rx_dropped_inc(ndev);
			break;
		}
		skb->dev = ndev;
		dev_lstats_add(ndev, skb->len);
		dev_queue_xmit_nit(skb, ndev);
		consume_skb(skb);
	}
	if (b->src)
		rox_iter_end(&m.it);
}

/* A netdev that has moved to another namespace shows the packets there. */
void rox_mirror(const struct rox_burst *b)
{
	const struct rox_netns *ns = b->path->ns;
	struct rox_mirror *m;

	list_for_each_entry_rcu(m, &rox_mirror_list, node)
		if (net_eq(dev_net(m->ndev), ns->net) && netif_running(m->ndev) &&
		    dev_nit_active(m->ndev))
			rox_mirror_burst(m->ndev, b);
}

/* ---- the netdev ---- */

static int rox_mirror_enter(struct net_device *ndev)
{
	struct rox_mirror *m = netdev_priv(ndev);

	ndev->lstats = netdev_alloc_pcpu_stats(struct pcpu_lstats);
	if (!ndev->lstats)
		return -ENOMEM;
	m->ndev = ndev;
	list_add_tail_rcu(&m->node, &rox_mirror_list);
	return 0;
}

/* The core waits for readers before it frees the netdev. */
static void rox_mirror_leave(struct net_device *ndev)
{
	struct rox_mirror *m = netdev_priv(ndev);

	list_del_rcu(&m->node);
	synchronize_net();
	free_percpu(ndev->lstats);
	ndev->lstats = NULL;
}

/* IPv6 would else give the netdev an address, and look for routers. */
static void rox_mirror_no_address(struct net_device *ndev)
{
#if IS_ENABLED(CONFIG_IPV6)
	struct inet6_dev *idev = __in6_dev_get(ndev);

	if (idev)
		WRITE_ONCE(idev->cnf.addr_gen_mode, IN6_ADDR_GEN_MODE_NONE);
#endif
}

static int rox_mirror_open(struct net_device *ndev)
{
	rox_mirror_no_address(ndev);
	static_branch_inc(&rox_mirror_key);
	return 0;
}

static int rox_mirror_stop(struct net_device *ndev)
{
	static_branch_dec(&rox_mirror_key);
	return 0;
}

static netdev_tx_t rox_mirror_xmit(struct sk_buff *skb, struct net_device *ndev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

/* rox_mirror_no_address() has to follow, as IPv6 comes and goes with the MTU. */
static int rox_mirror_change_mtu(struct net_device *ndev, int mtu)
{
	if (netif_running(ndev))
		return -EBUSY;
	WRITE_ONCE(ndev->mtu, mtu);
	return 0;
}

static void rox_mirror_stats(struct net_device *ndev, struct rtnl_link_stats64 *stats)
{
	dev_lstats_read(ndev, &stats->rx_packets, &stats->rx_bytes);
}

static const struct net_device_ops rox_mirror_netdev_ops = {
	.ndo_init = rox_mirror_enter,
	.ndo_uninit = rox_mirror_leave,
	.ndo_open = rox_mirror_open,
	.ndo_stop = rox_mirror_stop,
	.ndo_start_xmit = rox_mirror_xmit,
	.ndo_change_mtu = rox_mirror_change_mtu,
	.ndo_get_stats64 = rox_mirror_stats,
};

static void rox_mirror_setup(struct net_device *ndev)
{
	ndev->netdev_ops = &rox_mirror_netdev_ops;
	ndev->needs_free_netdev = true;
	ndev->type = ARPHRD_NONE;
	ndev->flags = IFF_NOARP;
	ndev->priv_flags |= IFF_NO_QUEUE;
	ndev->mtu = MIRROR_MTU;
	ndev->min_mtu = MIRROR_MIN_MTU;
	ndev->max_mtu = MIRROR_MTU;
}

static struct rtnl_link_ops rox_mirror_link_ops __read_mostly = {
	.kind = "roxcap",
	.priv_size = sizeof(struct rox_mirror),
	.setup = rox_mirror_setup,
};

MODULE_ALIAS_RTNL_LINK("roxcap");

int rox_mirrors_init(void)
{
	return rtnl_link_register(&rox_mirror_link_ops);
}

void rox_mirrors_exit(void)
{
	rtnl_link_unregister(&rox_mirror_link_ops);
}
