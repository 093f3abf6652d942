// SPDX-License-Identifier: GPL-2.0
/*
 * The IP and UDP headers of the frames of the carrier UDP.
 */
#include <linux/ip.h>
#include <linux/udp.h>
#include <net/ip.h>
#include <net/ip6_checksum.h>
#include <net/ipv6.h>

#include "internal.h"
#include "udp.h"

/* The traffic class of the packets of a path. */
static u8 rox_dsfield(const struct rox_path *path)
{
	return path->tos | path->ecn;
}

static void rox_build_ip(const struct rox_path *path, struct rox_tx_group *g)
{
	if (path->v6) {
		ip6_flow_hdr(&g->ip.v6, rox_dsfield(path), htonl(path->flow));
		g->ip.v6.payload_len = 0;
		g->ip.v6.nexthdr = IPPROTO_UDP;
		g->ip.v6.hop_limit = path->ttl;
		g->ip.v6.saddr = path->saddr;
		g->ip.v6.daddr = path->daddr;
		return;
	}
	g->ip.v4 = (struct iphdr) {
		.version = 4,
		.ihl = sizeof(struct iphdr) / 4,
		.tos = rox_dsfield(path),
		.frag_off = htons(IP_DF),
		.ttl = path->ttl,
		.protocol = IPPROTO_UDP,
		.saddr = path->saddr.s6_addr32[3],
		.daddr = path->daddr.s6_addr32[3],
	};
}

void rox_build_headers(struct rox_path *path, struct rox_tx_group *g)
{
	g->v6 = path->v6;
	g->hash = path->hash;
	g->sl = path->sl;
	g->priority = rox_priority(g->dst->dev, path->sl, path->tos);
	rox_build_ip(path, g);
	g->udp = (struct udphdr) {
		.source = htons(path->sport),
		.dest = htons(ROX_UDP_PORT),
	};
	g->id = atomic_fetch_add(g->most, &path->ip_id);
	if (g->v6)
		rox_icrc_head_v6(&g->icrc, &g->ip.v6, &g->udp);
	else
		rox_icrc_head_v4(&g->icrc, &g->ip.v4, &g->udp);
}

bool rox_same_headers(const struct rox_tx_group *g, const struct rox_path *path)
{
	if (g->v6 != path->v6 || g->udp.source != htons(path->sport) || g->hash != path->hash ||
	    g->sl != path->sl)
		return false;
	if (path->v6)
		return ipv6_addr_equal(&g->ip.v6.saddr, &path->saddr) &&
		       ipv6_addr_equal(&g->ip.v6.daddr, &path->daddr) &&
		       ip6_flowinfo(&g->ip.v6) ==
			       ip6_make_flowinfo(rox_dsfield(path), htonl(path->flow)) &&
		       g->ip.v6.hop_limit == path->ttl;
	return g->ip.v4.saddr == path->saddr.s6_addr32[3] &&
	       g->ip.v4.daddr == path->daddr.s6_addr32[3] && g->ip.v4.tos == rox_dsfield(path) &&
	       g->ip.v4.ttl == path->ttl;
}

/*
 * Leaves the UDP checksum to the netdev. A single packet over IPv4 has none, as from adapters: the
 * ICRC covers more. Over IPv6 a checksum of 0 is only for tunnels that both ends were told of (RFC
 * 6935, section 5), and firewalls and connection tracking drop it elsewhere. Packets that are cut
 * from a frame get one, as GSO knows no UDP without it, but for lists. And a single packet without
 * an ICRC is left to the netdev, which shows the receiver that it was on no wire.
 */
static void rox_finish_checksum(const struct rox_tx_group *g, struct sk_buff *skb, u32 len)
{
	struct udphdr *udp = udp_hdr(skb);

	if (!g->v6 && ((g->count == 1 && !g->bare) || g->frame.last))
		return;
	if (g->v6)
		udp->check = ~csum_ipv6_magic(&g->ip.v6.saddr, &g->ip.v6.daddr, len, IPPROTO_UDP,
					      0);
	else
		udp->check = ~csum_tcpudp_magic(g->ip.v4.saddr, g->ip.v4.daddr, len, IPPROTO_UDP,
						0);
	skb->ip_summed = CHECKSUM_PARTIAL;
	skb->csum_start = skb_transport_header(skb) - skb->head;
	skb->csum_offset = offsetof(struct udphdr, check);
}

/*
 * Writes the headers of the packets of a list but the first, whose are those of the frame. GSO sets
 * length, ID and checksum of each IPv4 header when it separates them.
 */
static void rox_finish_list(const struct rox_tx_group *g, struct sk_buff *skb)
{
	struct sk_buff *part;

	skb_walk_frags(skb, part) {
		*ip_hdr(part) = g->ip.v4;
		*udp_hdr(part) = g->udp;
		udp_hdr(part)->len = htons(sizeof(g->udp) + part->len);
	}
	skb_shinfo(skb)->gso_type |= SKB_GSO_FRAGLIST;
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	/* Some kernels look at it nevertheless. */
	skb->csum_start = skb_transport_header(skb) - skb->head;
}

void rox_finish_headers(struct rox_tx_group *g)
{
	struct sk_buff *skb = g->frame.skb;
	struct udphdr *udp = udp_hdr(skb);
	u32 len = skb->len - skb_transport_offset(skb);

	*udp = g->udp;
	udp->len = htons(len);
	if (g->v6) {
		*ipv6_hdr(skb) = g->ip.v6;
		ipv6_hdr(skb)->payload_len = htons(len);
		skb->protocol = htons(ETH_P_IPV6);
	} else {
		*ip_hdr(skb) = g->ip.v4;
		ip_hdr(skb)->tot_len = htons(sizeof(g->ip.v4) + len);
		ip_hdr(skb)->id = htons(g->id);
		skb->protocol = htons(ETH_P_IP);
	}
	rox_finish_checksum(g, skb, len);
	if (g->count > 1) {
		skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4;
		skb_shinfo(skb)->gso_size = g->seg;
		skb_shinfo(skb)->gso_segs = g->count;
	}
	if (skb_has_frag_list(skb))
		rox_finish_list(g, skb);
}
