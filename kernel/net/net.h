/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The network side: UDP port and receive hooks of a namespace, paths, and the
 * carrier that turns a burst of one QP's packets into frames and back.
 */
#ifndef ROX_NET_H
#define ROX_NET_H

#include <linux/skbuff.h>
#include <net/dst_cache.h>
#include "../rox.h"
#include "../wire/wire.h"

struct rox_iter;
struct rox_qp;

/* ---- namespaces (net/netns.c) ---- */

/*
 * Joins @dev to the sockets and hooks of its netdev's namespace, opening them
 * if it is the first there. Process context. -EADDRINUSE if somebody else
 * (rdma_rxe) owns UDP port 4791 in that namespace.
 */
int rox_net_attach(struct rox_dev *dev, struct net *net, struct netlink_ext_ack *extack);
/* After it returns no packet is delivered to @dev any more (RCU). */
void rox_net_detach(struct rox_dev *dev);
int rox_net_init(void);
void rox_net_exit(void);

/* ---- paths (net/path.c) ---- */

/**
 * struct rox_path - how packets reach one peer: an address vector, resolved
 * @dev: the device
 * @node: in the device's list of paths, if @valid
 * @valid: initialised
 * @v6: IPv6, else IPv4
 * @tos: traffic class
 * @ttl: hop limit, as the AH says (0 means 64)
 * @sport: UDP source port, in host order
 * @flow: IPv6 flow label
 * @oif: ifindex of the sgid's netdev (the netdev itself, or a VLAN on it)
 * @saddr: source address (IPv4: last word of a mapped address)
 * @daddr: destination address
 * @dst: cached routes, checked on each use
 * @sl: service level, for query and completions
 * @hash: spreads flows over the netdev's queues
 * @local: bit 0: leads back to the device; the rest: when that was found out (jiffies)
 * @ip_id: IPv4 ID of the next packet; counted per path, so that the peer's GRO,
 *	which wants consecutive IDs, can put packets together
 *
 * One route and neighbour look-up per change, not per burst.
 */
struct rox_path {
	struct rox_dev *dev;
	struct list_head node;
	bool valid;
	bool v6;
	u8 tos;
	u8 ttl;
	u8 sl;
	u16 sport;
	u32 flow;
	int oif;
	struct in6_addr saddr;	/* IPv4 as ::ffff:a.b.c.d */
	struct in6_addr daddr;
	u32 hash;
	unsigned long local;
	atomic_t ip_id;
	struct dst_cache dst;
};

/*
 * Fills @path from an address vector whose sgid_attr is held by the caller.
 * @sqpn and @dqpn give the source port its entropy when the flow label is 0.
 * May not sleep if @gfp says so. 0, -EINVAL, -ENOMEM. @path must be zeroed or
 * have been through rox_path_destroy().
 */
int rox_path_init(struct rox_path *path, struct rox_dev *dev,
		  const struct rdma_ah_attr *attr, u32 sqpn, u32 dqpn, gfp_t gfp);
void rox_path_destroy(struct rox_path *path);
/* Each becomes what the other one was; nobody sends on either. */
void rox_path_swap(struct rox_path *a, struct rox_path *b);
/* Largest payload of one packet that fits the netdev now (an enum ib_mtu in bytes). */
u32 rox_path_mtu(const struct rox_path *path);

/* ---- multicast (net/mcast.c) ---- */

/**
 * struct rox_net_group - a multicast group that the netdevs of a device are to be in
 * @addr: its address, IPv4 as a mapped one
 * @members: the netdevs that are (changed with the RTNL, read under RCU)
 */
struct rox_net_group {
	struct in6_addr addr;
	struct hlist_head members;
};

/* With the RTNL; again when a netdev has changed. 0, -ENODEV, -ENOMEM. */
int rox_net_join(struct rox_dev *dev, struct rox_net_group *group);
/* With the RTNL. Undoes all of them. */
void rox_net_leave(struct rox_net_group *group);
/* Has @ndev joined the group for us? Under RCU. */
bool rox_net_joined(const struct rox_net_group *group, const struct net_device *ndev);

/* ---- sending (net/xmit.c) ---- */

/**
 * struct rox_burst - consecutive packets of one message of one QP, to be sent
 * @path: where to
 * @src: payload, at its current position; the carrier advances it by @len. May
 *	be NULL if @len is 0
 * @inl: payload instead of @src, if not NULL
 * @len: payload bytes of all packets together
 * @psn: of the first packet; each next one has one more
 * @dqpn: destination QP
 * @pkey: P_Key to put into the BTH
 * @mtu: payload bytes of each packet but the last
 * @npkts: packets, at least 1; @len > (npkts - 1) * mtu, or npkts is 1
 * @op_first: opcode of packet 0 (if npkts is 1: the only one)
 * @op_mid: opcode of the packets between
 * @op_last: opcode of the last packet if npkts > 1
 * @ext: extended headers; the opcodes say which packet has which of them
 * @solicited: SE bit on the last packet
 * @ackreq: A bit on the last packet
 * @follow: so many more messages may follow in this run, for the same frame
 * @more: carrier without a wire: the sender's run goes on, one ACK at its end will do
 * @again: carrier without a wire: the QP at the other end could not take it now
 * @read: likewise: bytes of the payload that have been read
 * @err: likewise: reading the payload has failed with this
 * @qp: whose packets, for tracing and counters
 */
struct rox_burst {
	struct rox_path *path;
	struct rox_iter *src;
	const u8 *inl;
	u32 len;
	u32 psn;
	u32 dqpn;
	u16 pkey;
	u16 mtu;
	u16 npkts;
	u8 op_first;
	u8 op_mid;
	u8 op_last;
	bool solicited;
	bool ackreq;
	u16 follow;
	bool more;
	bool again;
	u32 read;
	int err;
	struct rox_ext_hdrs ext;
	struct rox_qp *qp;
};

/* Payload bytes that one burst may carry. */
#define ROX_BURST_BYTES 65536U

/*
 * rox_xmit() - hands a burst to the network
 *
 * Any context with bottom halves disabled. The payload has been copied when it
 * returns. Return: 0 when the packets were handed over *or lost on this host*
 * (no memory, no route, queue full: counted as ROX_CNT_TX_DROP; a transport
 * recovers from it as from any loss); -EFAULT, -EACCES, ... from @src if the
 * payload could not be read (an MR went away): then packets that were complete
 * may have been sent, the rest not.
 */
int rox_xmit(struct rox_burst *burst);
/*
 * Sends the frame that rox_xmit() has kept open for messages that were to follow, if there is one.
 * At the end of a run of a send side, on the CPU and within the section of disabled bottom halves
 * in which it ran.
 */
void rox_xmit_end(void);

/* ---- receiving (net/rx.c) ---- */

/**
 * struct rox_pkt - one packet as received, checked and in host order
 * @bth: base transport header
 * @ext: extended headers
 * @info: row of the opcode table
 * @npkts: PSNs that it takes: 1, but for what came without a wire
 * @burst: came without a wire: what it is a part of, or all of; else NULL
 * @skb: the frame that holds it; NULL if the payload is still the sender's
 * @payload_off: offset of the payload from skb->data, or in the sender's burst
 * @payload_len: payload bytes without pad and ICRC
 * @payload: the payload, if it came over the wire and is in one piece; else NULL
 *
 * Consecutive packets of a burst that came without a wire are one: with the
 * opcode that their message would have if so much fitted into a packet.
 */
struct rox_pkt {
	struct rox_bth bth;
	struct rox_ext_hdrs ext;
	const struct rox_opcode_info *info;
	u32 npkts;
	struct rox_burst *burst;
	struct sk_buff *skb;
	u32 payload_off;
	u32 payload_len;
	const u8 *payload;
};

/**
 * struct rox_skb_cb - which packets of a frame are meant; in skb->cb
 * @qp: whose they are; it keeps the frame, or whoever has the frame keeps it
 * @first: number of the first packet
 * @count: packets from there
 * @psn: kept by a responder until its turn: PSN of the first packet
 * @local: came without a wire: a struct rox_local_hdr and the payload
 * @checked: its packets have been walked before: they are good, and counted
 *
 * A frame with packets for more than one QP (put together by GRO) becomes one
 * clone for each run of packets for the same QP.
 */
struct rox_skb_cb {
	struct rox_qp *qp;
	u32 first;
	u32 count;
	u32 psn;
	bool local;
	bool checked;
};

static inline struct rox_skb_cb *rox_skb_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rox_skb_cb) > sizeof_field(struct sk_buff, cb));
	return (struct rox_skb_cb *)skb->cb;
}

/**
 * struct rox_rx - walks the packets of a received frame
 * @skb: the frame; data points at the IP header
 * @v6: IPv6
 * @fixed_id: all packets have the IPv4 ID of the first one; else they count up
 * @l4_off: offset of the UDP header
 * @off: offset of the next packet's UDP payload
 * @left: bytes of UDP payload left
 * @seg: UDP payload bytes of each packet but the last (gso_size), or all
 * @index: number of the next packet in the frame
 * @piece: the piece of the frame that was looked at last
 * @piece_off: offset of its first byte
 * @piece_end: offset of the byte behind it
 * @piece_page: the page that it lies in
 * @page: the page that the next packet lies in; NULL if in none, or not in one piece
 */
struct rox_rx {
	struct sk_buff *skb;
	bool v6;
	bool fixed_id;
	u32 l4_off;
	u32 off;
	u32 left;
	u32 seg;
	u32 index;
	const u8 *piece;
	u32 piece_off;
	u32 piece_end;
	const struct page *piece_page;
	const struct page *page;
};

/* @skb: as handed to rox_transport_rx(), with its struct rox_skb_cb. */
void rox_rx_begin(struct rox_rx *rx, struct sk_buff *skb);
/*
 * Takes the next packet: parses it, checks lengths against the opcode table and
 * the ICRC. Packets that fail are counted and passed over. false at the end.
 */
bool rox_rx_next(struct rox_rx *rx, struct rox_pkt *pkt);
/* Ends the walk where it is: the frame has no packets but those that are left, if any. */
bool rox_rx_cut(struct rox_rx *rx);

/* Addresses of a frame (IPv4 mapped into IPv6). */
void rox_skb_addrs(const struct sk_buff *skb, struct in6_addr *saddr, struct in6_addr *daddr);
/* Those of a packet; whether it came over IPv6. */
void rox_pkt_addrs(const struct rox_pkt *pkt, struct in6_addr *saddr, struct in6_addr *daddr);
bool rox_pkt_is_v6(const struct rox_pkt *pkt);
/* The 40 bytes that a UD receive has before its payload (IPv4 header in the last 20). */
void rox_pkt_grh(const struct rox_pkt *pkt, u8 grh[ROX_GRH_LEN]);
/* Copies @len bytes of payload, from its byte @off on, to @dst. 0 or the iterator's error. */
int rox_pkt_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len);
/* The same into a buffer of the kernel. */
int rox_pkt_read(const struct rox_pkt *pkt, void *dst, u32 len);
/* @rest: @pkt without its first @n packets. */
void rox_pkt_skip(const struct rox_pkt *pkt, u32 n, struct rox_pkt *rest);

/* Was it reading the sender's memory that has failed? Nothing of @pkt has come then. */
static inline bool rox_pkt_unread(const struct rox_pkt *pkt)
{
	return pkt->burst && !pkt->skb && pkt->burst->err;
}

#endif /* ROX_NET_H */
