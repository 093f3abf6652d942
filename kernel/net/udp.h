/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A frame of the carrier UDP that is being built: udp.c, udp_headers.c.
 */
#ifndef ROX_NET_UDP_H
#define ROX_NET_UDP_H

#include "internal.h"

/**
 * struct rox_tx_group - packets that make one frame
 * @frame: the frame
 * @dst: its route; the group has no reference of its own
 * @net: the namespace
 * @most: number of packets that it has room for
 * @count: number of packets in it
 * @seg: UDP payload of each packet but the last, which may be shorter
 * @total: UDP payload of @most packets
 * @v6: IPv6
 * @hash: flow hash of the path
 * @sl: service level of the path
 * @priority: priority of the frame, for the qdisc
 * @sk: socket of the sender, or NULL
 * @sender: the side that sends, or NULL
 * @resends: it sends refused packets again
 * @psn: PSN of the first packet
 * @idle: no earlier packet of the sender is outstanding
 * @handed_at: as in struct rox_burst
 * @refused: a queue of this host has refused the frame
 * @bare: the first packet has a CRC of its headers alone for its ICRC
 * @ip: IP header; length and ID are set at the end
 * @udp: UDP header; the length is set at the end
 * @icrc: the same headers for the ICRC
 * @id: IPv4 ID of the first packet
 */
struct rox_tx_group {
	struct rox_frame frame;
	struct dst_entry *dst;
	struct net *net;
	u32 most;
	u32 count;
	u32 seg;
	u32 total;
	bool v6;
	u32 hash;
	u8 sl;
	u32 priority;
	struct sock *sk;
	struct rox_sender *sender;
	u32 psn;
	bool resends;
	bool idle;
	bool refused;
	bool bare;
	u64 *handed_at;
	union {
		struct iphdr v4;
		struct ipv6hdr v6;
	} ip;
	struct udphdr udp;
	struct rox_icrc_head icrc;
	u16 id;
};

/* udp_headers.c */
/*
 * Sets the fields of the headers that are equal in all packets, and reserves IPv4 IDs. The caller
 * has set @dst and @most.
 */
void rox_build_headers(struct rox_path *path, struct rox_tx_group *g);
/* Do packets of this path have the same headers as the packets of the group? */
bool rox_same_headers(const struct rox_tx_group *g, const struct rox_path *path);
/* Writes the IP and UDP headers of the frame. */
void rox_finish_headers(struct rox_tx_group *g);

#endif /* ROX_NET_UDP_H */
