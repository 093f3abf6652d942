// SPDX-License-Identifier: GPL-2.0
/*
 * The invariant CRC (IBTA annex A17.3.3). It covers eight bytes of ones in place of a link header,
 * and then the packet from the IP header to the end of the pad. All bits of fields that may change
 * on the way are set to one.
 */
#include <linux/bitops.h>
#include <linux/hash.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire.h"

/* State of the CRC after the eight bytes of ones. */
#define ICRC_SEED	0xdebb20e3U

/* The byte with FECN, BECN and reserved bits, which switches may change. */
#define BTH_RESV	4

/**
 * rox_icrc_head_v4() - takes the headers of a packet over IPv4
 * @head: filled
 * @ip: header without options, as it will be on the wire
 * @udp: likewise
 */
void rox_icrc_head_v4(struct rox_icrc_head *head, const struct iphdr *ip, const struct udphdr *udp)
{
	head->v4 = *ip;
	head->v4.tos = 0xff;
	head->v4.ttl = 0xff;
	head->v4.check = (__force __sum16)0xffff;
	head->ip_len = sizeof(*ip);
	head->udp = *udp;
	head->udp.check = (__force __sum16)0xffff;
}

/**
 * rox_icrc_head_v6() - takes the headers of a packet over IPv6
 * @head: filled
 * @ip: header, directly followed by UDP, as it will be on the wire
 * @udp: likewise
 */
void rox_icrc_head_v6(struct rox_icrc_head *head, const struct ipv6hdr *ip,
		      const struct udphdr *udp)
{
	head->v6 = *ip;
	head->v6.priority = 0xf;
	memset(head->v6.flow_lbl, 0xff, sizeof(head->v6.flow_lbl));
	head->v6.hop_limit = 0xff;
	head->ip_len = sizeof(*ip);
	head->udp = *udp;
	head->udp.check = (__force __sum16)0xffff;
}

/**
 * rox_icrc_begin() - starts the ICRC of a packet
 * @head: headers of the packet, with its BTH, whose changing bits are masked
 *
 * Return: the state, for rox_icrc_update() or rox_icrc_end()
 */
u32 rox_icrc_begin(struct rox_icrc_head *head)
{
	const u8 *begin = (const u8 *)head + sizeof(head->v6) - head->ip_len;

	head->bth[BTH_RESV] = 0xff;
	return rox_crc32(ICRC_SEED, begin, head->ip_len + sizeof(head->udp) + ROX_BTH_LEN);
}

/* Each bit of the word is in the upper half of the product. */
static __always_inline u64 rox_mark_add(u64 mark, const u8 *p)
{
	u64 word;

	memcpy(&word, p, sizeof(word));
	return (rol64(mark, 29) ^ word) * GOLDEN_RATIO_64;
}

/**
 * rox_icrc_mark() - hashes the headers of a packet that rox_icrc_begin() covers
 * @head: headers of the packet, with its BTH, whose changing bits are masked
 *
 * Costs a tenth of their CRC. It is for this host only, and tells whether headers have changed.
 *
 * Return: the hash; another one if any bit differs, but for one case in 2^32
 */
u32 rox_icrc_mark(struct rox_icrc_head *head)
{
	const u8 *p = (const u8 *)head + offsetof(struct rox_icrc_head, v4);
	u64 mark = 0;

	head->bth[BTH_RESV] = 0xff;
	if (head->ip_len != sizeof(head->v4)) {
		/* The part of an IPv6 header that is before @p, and four bytes more. */
		mark = rox_mark_add(mark, p - 20);
		mark = rox_mark_add(mark, p - 12);
		mark = rox_mark_add(mark, p - 4);
	}
	mark = rox_mark_add(mark, p);
	mark = rox_mark_add(mark, p + 8);
	mark = rox_mark_add(mark, p + 16);
	mark = rox_mark_add(mark, p + 24);
	mark = rox_mark_add(mark, p + 32);
	return mark >> 32;
}
