// SPDX-License-Identifier: GPL-2.0
/*
 * Joins packets into frames before IP looks at them (GRO). Standard UDP GRO joins only packets with
 * a UDP checksum; rdma_rxe and adapters send none. A frame has packets of one flow and QP in PSN
 * order. They may have different sizes: the first packet of a WRITE, for instance, has one more
 * header than those after it. So the frame is a list, in which each packet keeps its headers
 * (SKB_GSO_FRAGLIST), and could be separated into the same packets again.
 */
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/gro.h>
#include <net/udp.h>

#include "internal.h"

/* Packets of a frame, as in standard UDP GRO. */
#define ROX_GRO_PKTS 64

/* Longest frame, with its IP header. */
#define ROX_GRO_BYTES 65535U

/**
 * struct rox_gro_pkt - a packet that may be joined
 * @ip: IP header; UDP header and BTH follow it
 * @udp: UDP header
 * @bth: BTH, parsed
 */
struct rox_gro_pkt {
	const void *ip;
	const struct udphdr *udp;
	struct rox_bth bth;
};

static u32 rox_gro_ip_len(const struct sock *sk)
{
	return sk->sk_family == AF_INET6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/*
 * Are there no headers between IP and UDP? The GRO of IPv4 has refused options. With an IPv6
 * extension header, what we take for the IPv6 header is not one.
 */
static bool rox_gro_ip_ok(const struct sock *sk, const struct rox_gro_pkt *pkt, u32 len)
{
	const struct ipv6hdr *ip6 = pkt->ip;

	if (sk->sk_family != AF_INET6)
		return true;
	return ip6->version == 6 && ip6->nexthdr == IPPROTO_UDP &&
	       ntohs(ip6->payload_len) == sizeof(struct udphdr) + len;
}

/* Finds the headers of a packet that has just come. Return: false if it is not to be joined. */
static bool rox_gro_parse(const struct sock *sk, struct sk_buff *skb, struct rox_gro_pkt *pkt)
{
	u32 off = skb_gro_offset(skb);
	u32 len = skb_gro_len(skb);
	const u8 *bth;

	if (len < ROX_BTH_LEN + ROX_ICRC_LEN)
		return false;
	bth = skb_gro_header(skb, off + ROX_BTH_LEN, off);
	if (!bth)
		return false;
	pkt->udp = (const struct udphdr *)bth - 1;
	pkt->ip = (const u8 *)pkt->udp - rox_gro_ip_len(sk);
	rox_bth_parse(&pkt->bth, bth);
	return ntohs(pkt->udp->len) == sizeof(struct udphdr) + len &&
	       rox_opcodes[pkt->bth.opcode].flags & ROX_OP_VALID && rox_gro_ip_ok(sk, pkt, len);
}

/* Parses the first packet of a frame, whose network headers are linear. */
static bool rox_gro_parse_first(const struct sock *sk, const struct sk_buff *p, u32 off,
				struct rox_gro_pkt *pkt)
{
	u8 buf[ROX_BTH_LEN];
	const u8 *bth = skb_header_pointer(p, off, sizeof(buf), buf);

	if (!bth)
		return false;
	pkt->udp = (const struct udphdr *)(p->data + off) - 1;
	pkt->ip = (const u8 *)pkt->udp - rox_gro_ip_len(sk);
	rox_bth_parse(&pkt->bth, bth);
	return true;
}

/*
 * The ICRC covers the ID, so the IDs of a frame must follow each other, or all be equal. The second
 * packet decides which. The flag of @p for it does not last, as gro_complete() overwrites it: the
 * receiver finds out itself.
 */
static bool rox_gro_id_fits(struct sk_buff *p, u16 more)
{
	struct skb_shared_info *info = skb_shinfo(p);
	u16 count = NAPI_GRO_CB(p)->count;

	if (count == 1 && !more)
		info->gso_type |= SKB_GSO_TCP_FIXEDID;
	return info->gso_type & SKB_GSO_TCP_FIXEDID ? !more : more == count;
}

/* Addresses, ports and the presence of a checksum are equal already. */
static bool rox_gro_ip_fits(const struct sock *sk, struct sk_buff *p, const struct rox_gro_pkt *a,
			    const struct rox_gro_pkt *b)
{
	const struct ipv6hdr *a6 = a->ip, *b6 = b->ip;
	const struct iphdr *a4 = a->ip, *b4 = b->ip;

	/* Traffic class with the mark for congestion, and flow label. */
	if (sk->sk_family == AF_INET6)
		return *(const __be32 *)a6 == *(const __be32 *)b6 && a6->hop_limit == b6->hop_limit;
	return a4->tos == b4->tos && a4->ttl == b4->ttl && a4->frag_off == b4->frag_off &&
	       rox_gro_id_fits(p, ntohs(b4->id) - ntohs(a4->id));
}

/* Does the packet continue the frame @p? */
static bool rox_gro_fits(const struct sock *sk, struct sk_buff *p, struct sk_buff *skb,
			 const struct rox_gro_pkt *pkt)
{
	struct rox_gro_pkt first = {};
	u16 count = NAPI_GRO_CB(p)->count;
	u32 len = skb_gro_len(skb);

	if (NAPI_GRO_CB(skb)->flush || skb_is_gso(skb) || p->len + len > ROX_GRO_BYTES)
		return false;
	if (!rox_gro_parse_first(sk, p, skb_gro_offset(skb), &first))
		return false;
	return pkt->bth.dqpn == first.bth.dqpn &&
	       pkt->bth.psn == rox_psn_add(first.bth.psn, count) &&
	       (pkt->bth.opcode & ROX_SERVICE_MASK) == (first.bth.opcode & ROX_SERVICE_MASK) &&
	       !((rox_opcodes[pkt->bth.opcode].flags ^ rox_opcodes[first.bth.opcode].flags) &
		 ROX_OP_REQUEST) &&
	       rox_gro_ip_fits(sk, p, &first, pkt);
}

/*
 * Appends the packet to the frame, without its headers. (skb_gro_receive() is not for modules.)
 * Return: false if there is no memory.
 */
static bool rox_gro_append(struct sk_buff *p, struct sk_buff *skb)
{
	u32 off = skb_gro_offset(skb);

	if (!pskb_may_pull(skb, off))
		return false;
	/* A socket of a sender on this machine accounts each buffer as it was. */
	skb_orphan(p);
	skb_orphan(skb);
	__skb_pull(skb, off);
	__skb_header_release(skb);
	if (NAPI_GRO_CB(p)->last == p)
		skb_shinfo(p)->frag_list = skb;
	else
		NAPI_GRO_CB(p)->last->next = skb;
	NAPI_GRO_CB(p)->last = skb;
	NAPI_GRO_CB(p)->count++;
	p->len += skb->len;
	p->data_len += skb->len;
	p->truesize += skb->truesize;
	NAPI_GRO_CB(skb)->same_flow = 1;
	return true;
}

/* Is the packet for one of our addresses? If not, the host may forward it as it is. */
static bool rox_gro_is_ours(const struct sock *sk, struct rox_netns *ns,
			    const struct rox_gro_pkt *pkt)
{
	struct in6_addr daddr;

	if (sk->sk_family == AF_INET6)
		daddr = ((const struct ipv6hdr *)pkt->ip)->daddr;
	else
		ipv6_addr_set_v4mapped(((const struct iphdr *)pkt->ip)->daddr, &daddr);
	return rox_netns_hears(ns, &daddr);
}

static bool rox_gro_addrs_fit(const struct sock *sk, const void *a, const void *b)
{
	const struct ipv6hdr *a6 = a, *b6 = b;
	const struct iphdr *a4 = a, *b4 = b;

	if (sk->sk_family == AF_INET6)
		return a6->version == b6->version && a6->nexthdr == b6->nexthdr &&
		       ipv6_addr_equal(&a6->saddr, &b6->saddr) &&
		       ipv6_addr_equal(&a6->daddr, &b6->daddr);
	return a4->version == b4->version && a4->ihl == b4->ihl && a4->protocol == b4->protocol &&
	       a4->saddr == b4->saddr && a4->daddr == b4->daddr;
}

/*
 * UDP takes packets with and without a checksum for different flows, but a sender may mix them: rox
 * sends single packets without one. A packet must not overtake those before it. @p: any packet that
 * GRO holds. Return: true if its addresses and ports are those of the packet.
 */
static bool rox_gro_precedes(const struct sock *sk, const struct sk_buff *p, u32 off,
			     const struct rox_gro_pkt *pkt)
{
	u8 buf[sizeof(struct ipv6hdr) + sizeof(struct udphdr)];
	u32 ip_len = rox_gro_ip_len(sk), len = ip_len + sizeof(struct udphdr);
	const struct udphdr *udp;
	const u8 *ip;

	ip = pkt->ip ? skb_header_pointer(p, off - len, len, buf) : NULL;
	if (!ip)
		return false;
	udp = (const struct udphdr *)(ip + ip_len);
	return rox_gro_addrs_fit(sk, ip, pkt->ip) && udp->source == pkt->udp->source &&
	       udp->dest == pkt->udp->dest;
}

struct sk_buff *rox_gro_receive(struct sock *sk, struct list_head *head, struct sk_buff *skb)
{
	struct rox_netns *ns = rcu_dereference_sk_user_data(sk);
	struct rox_gro_pkt pkt = {};
	struct sk_buff *p;

	if (!ns || !rox_gro_parse(sk, skb, &pkt))
		NAPI_GRO_CB(skb)->flush = 1;
	list_for_each_entry(p, head, list) {
		if (!NAPI_GRO_CB(p)->same_flow) {
			if (rox_gro_precedes(sk, p, skb_gro_offset(skb), &pkt))
				return p;
			continue;
		}
		/* A packet that does not fit comes after the frame, which the stack gets. */
		if (!rox_gro_fits(sk, p, skb, &pkt) || !rox_gro_append(p, skb))
			return p;
		return NAPI_GRO_CB(p)->count < ROX_GRO_PKTS ? NULL : p;
	}
	if (!NAPI_GRO_CB(skb)->flush && !rox_gro_is_ours(sk, ns, &pkt))
		NAPI_GRO_CB(skb)->flush = 1;
	return NULL;
}

/* The UDP checksums are those of the packets. Whoever separates them does not compute new ones. */
int rox_gro_complete(struct sock *sk, struct sk_buff *skb, int nhoff)
{
	skb->ip_summed = CHECKSUM_UNNECESSARY;
	skb->encapsulation = 0;
	skb_shinfo(skb)->gso_type = SKB_GSO_UDP_L4 | SKB_GSO_FRAGLIST;
	skb_shinfo(skb)->gso_segs = NAPI_GRO_CB(skb)->count;
	return 0;
}
