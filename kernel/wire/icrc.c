// SPDX-License-Identifier: GPL-2.0
/*
 * The invariant CRC (IBTA annex A17.3.3): over eight bytes of ones in place of
 * a link header, then the packet from the IP header to the end of the pad, with
 * all fields set to ones that may change on the way.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire.h"

/* The CRC's state after the eight bytes of ones. */
#define ICRC_SEED	0xdebb20e3U

/* The byte with FECN, BECN and reserved bits, which switches may change. */
#define BTH_RESV	4

static u8 *mask_udp_bth(u8 *p, const struct udphdr *udp, const u8 *bth)
{
	struct udphdr u = *udp;

	u.check = (__force __sum16)0xffff;
	memcpy(p, &u, sizeof(u));
	p += sizeof(u);
	memcpy(p, bth, ROX_BTH_LEN);
	p[BTH_RESV] = 0xff;
	return p + ROX_BTH_LEN;
}

/**
 * rox_icrc_begin_v4() - starts the ICRC of a packet over IPv4
 * @ip: header without options, as it will be on the wire
 * @udp: likewise
 * @bth: ROX_BTH_LEN bytes
 *
 * Return: the state, for rox_icrc_update() or rox_icrc_end()
 */
u32 rox_icrc_begin_v4(const struct iphdr *ip, const struct udphdr *udp, const u8 *bth)
{
	u8 buf[sizeof(*ip) + sizeof(*udp) + ROX_BTH_LEN];
	struct iphdr h = *ip;

	h.tos = 0xff;
	h.ttl = 0xff;
	h.check = (__force __sum16)0xffff;
	memcpy(buf, &h, sizeof(h));
	mask_udp_bth(buf + sizeof(h), udp, bth);
	return rox_icrc_update(ICRC_SEED, buf, sizeof(buf));
}

/**
 * rox_icrc_begin_v6() - starts the ICRC of a packet over IPv6
 * @ip: header, directly followed by UDP, as it will be on the wire
 * @udp: likewise
 * @bth: ROX_BTH_LEN bytes
 *
 * Return: the state, for rox_icrc_update() or rox_icrc_end()
 */
u32 rox_icrc_begin_v6(const struct ipv6hdr *ip, const struct udphdr *udp, const u8 *bth)
{
	u8 buf[sizeof(*ip) + sizeof(*udp) + ROX_BTH_LEN];
	struct ipv6hdr h = *ip;

	h.priority = 0xf;
	memset(h.flow_lbl, 0xff, sizeof(h.flow_lbl));
	h.hop_limit = 0xff;
	memcpy(buf, &h, sizeof(h));
	mask_udp_bth(buf + sizeof(h), udp, bth);
	return rox_icrc_update(ICRC_SEED, buf, sizeof(buf));
}

/**
 * rox_icrc_update() - goes on over what follows the BTH
 * @state: of what came before
 * @data: next piece; pieces may be of any length
 * @len: its bytes
 *
 * Return: the new state
 */
u32 rox_icrc_update(u32 state, const void *data, size_t len)
{
	return rox_crc32(state, data, len);
}

/**
 * rox_icrc_end() - the four bytes that end the packet
 * @state: of the whole packet up to the end of the pad
 */
__le32 rox_icrc_end(u32 state)
{
	return cpu_to_le32(~state);
}
