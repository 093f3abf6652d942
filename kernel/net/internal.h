/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations that the files of net/ share.
 */
#ifndef ROX_NET_INTERNAL_H
#define ROX_NET_INTERNAL_H

#include <net/ipv6.h>
#include "net.h"

/**
 * struct rox_strangers - packets to QP 1 whose sender is being resolved (stranger.c)
 * @lock: for all of it; taken with bottom halves disabled
 * @list: struct rox_stranger, oldest first
 * @count: their number
 * @work: looks at them again and again, as long as there are any
 */
struct rox_strangers {
	spinlock_t lock;	/* see above */
	struct list_head list;
	unsigned int count;
	struct delayed_work work;
};

/**
 * struct rox_netns - rox in one network namespace
 * @ref: one for the namespace, one for each site, path and multicast group
 * @net: the namespace; valid while @dead is false
 * @dead: the namespace is going away; readers check it under RCU
 * @open: it has the sockets, because there are devices
 * @sites: devices that are here, struct rox_site by node (RCU)
 * @sock4: owns UDP port 4791 of IPv4
 * @sock6: owns UDP port 4791 of IPv6; NULL if there is no IPv6
 * @strangers: packets that wait for a neighbour
 * @rcu: frees the object after an RCU grace period
 */
struct rox_netns {
	refcount_t ref;
	struct net *net;
	bool dead;
	bool open;
	struct list_head sites;
	struct socket *sock4;
	struct socket *sock6;
	struct rox_strangers strangers;
	struct rcu_head rcu;
};

/* Takes a reference. Under RCU. Return: false if @ns is being freed. */
static inline bool rox_netns_get(struct rox_netns *ns)
{
	return refcount_inc_not_zero(&ns->ref);
}

/*
 * Makes the device receive in a namespace, and counts that. Process context, sleeps; @ns does not
 * go away during the call. Return: the site, for rox_site_leave(), or an ERR_PTR.
 */
struct rox_site *rox_site_enter(struct rox_net *net, struct net *ns,
				struct netlink_ext_ack *extack);
void rox_site_leave(struct rox_site *site);

/**
 * struct rox_addr - an address of a device
 * @node: in rox_net.addrs (RCU)
 * @addr: the address; IPv4 as a mapped address
 * @ndev: the netdev that has it; only compared, it may have gone
 * @ifindex: of the netdev
 * @gid: index in the GID table
 * @site: the device in the namespace of the netdev
 * @rcu: frees the object after an RCU grace period
 *
 * If several netdevs have the same address, each has an entry.
 */
struct rox_addr {
	struct hlist_node node;
	struct in6_addr addr;
	const struct net_device *ndev;
	int ifindex;
	u16 gid;
	struct rox_site *site;
	struct rcu_head rcu;
};

/*
 * Finds an address of the device in @ns, or anywhere if that is NULL: that of the netdev @ifindex.
 * With 0: that of any netdev, the first one in the GID table. Under RCU. Return: NULL if there is
 * none.
 */
const struct rox_addr *rox_addr_find(struct rox_net *net, const struct in6_addr *addr,
				     const struct rox_netns *ns, int ifindex);
/* Finds the address by its netdev. */
const struct rox_addr *rox_addr_of(struct rox_net *net, const struct in6_addr *addr,
				   const struct net_device *ndev);
/*
 * Return: the device's address for packets to @addr that came by the netdev @ifindex of @ns: the
 * entry of this netdev, else that of any. Any context, under RCU.
 */
struct rox_gid_ref rox_addr_gid(struct rox_net *net, const struct in6_addr *addr,
				const struct rox_netns *ns, int ifindex);

void rox_strangers_init(struct rox_strangers *all);
/* Drops all. The namespace is not open, so that nobody is added any more. May sleep. */
void rox_strangers_end(struct rox_strangers *all);
/*
 * Must packets to QP 1 wait until their sender is resolved? If so they are taken over and delivered
 * later, or lost; the frame as well if this is its @last run. Under RCU, bottom halves disabled.
 */
bool rox_stranger_waits(const struct rox_rx_frame *f, const struct rox_run *run, bool last);
/* Drops the references of a frame to socket, route, connection tracking and netdev (demux.c). */
void rox_skb_scrub(struct sk_buff *skb);

/*
 * sk_data_ready() of the sockets (demux.c); their sk_user_data is the struct rox_netns. With bottom
 * halves disabled.
 */
void rox_sock_ready(struct sock *sk);
/* Has a device of the namespace this address? Under RCU. */
bool rox_netns_hears(struct rox_netns *ns, const struct in6_addr *addr);
/* GRO of the sockets (gro.c), see struct udp_tunnel_sock_cfg. Under RCU. */
struct sk_buff *rox_gro_receive(struct sock *sk, struct list_head *head, struct sk_buff *skb);
int rox_gro_complete(struct sock *sk, struct sk_buff *skb, int nhoff);

/*
 * Looks up the route of a path, or takes the cached one. Bottom halves disabled and under RCU.
 * Return: the route, with a reference, or an ERR_PTR.
 */
struct dst_entry *rox_path_route(struct rox_path *path);
/* The rest of rox_path_is_local(). */
bool rox_path_look_local(struct rox_path *path, unsigned long now);

/**
 * rox_path_is_local() - tests whether both addresses of a path belong to its device
 * @path: a valid path, in a namespace that is not dead
 *
 * In one namespace, and of netdevs that are up. Bottom halves disabled, or under RCU. The result is
 * cached for one tick, as addresses may change. Return: true if both do.
 */
static inline bool rox_path_is_local(struct rox_path *path)
{
	unsigned long local = READ_ONCE(path->local);
	unsigned long now = jiffies * 2;

	return likely((local & ~1UL) == now) ? local & 1 : rox_path_look_local(path, now);
}

/*
 * Drops the routes of the paths of @net in @ns. The caller makes sure that nobody sends there. May
 * sleep.
 */
void rox_paths_forget(struct rox_net *net, const struct rox_netns *ns);

static inline bool rox_is_multicast(const struct in6_addr *addr)
{
	return ipv6_addr_is_multicast(addr) ||
	       (ipv6_addr_v4mapped(addr) && ipv4_is_multicast(addr->s6_addr32[3]));
}

static inline bool rox_to_group(const struct rox_burst *b)
{
	return unlikely(b->dqpn == ROX_QPN_MULTICAST) && rox_is_multicast(&b->path->daddr);
}

/* ---- sockets (sock.c) ---- */

/* Protects sockets, hooks and devices of all namespaces (netns.c). */
extern struct mutex rox_net_lock;

/* Module load and unload. rox_socks_exit() waits for frames that are still in a queue. */
int rox_socks_init(void);
void rox_socks_exit(void);
/* For a new device. Process context. Return: 0 or -ENOMEM. */
int rox_egress_open(struct rox_net *net);
/* For a device without QPs. Process context, sleeps. */
void rox_egress_close(struct rox_net *net);
/* Drops the routes of all sockets of @net. With rox_net_lock. */
void rox_socks_forget(struct rox_net *net);
/*
 * Makes @sk the owner of a frame that is sent by @dst. @idle: no earlier packet of the QP is
 * outstanding, so the frame may use another transmit queue than the one before. Bottom halves
 * disabled.
 */
void rox_sock_own(struct sock *sk, struct sk_buff *skb, struct dst_entry *dst, bool idle);
/*
 * Must the QP wait, because its frames, or those of all QPs of the device, fill the queues of this
 * host? @ep has a socket. Any context.
 */
bool rox_tx_is_full(const struct rox_endpoint *ep);

/* The callbacks of rox_net_init(). */
extern const struct rox_net_ops *rox_receiver;

/* ---- packets in frames (rx.c) ---- */

/*
 * Is each packet an sk_buff of its own, with its own size? GRO makes such lists, and so do senders
 * for netdevs without scatter-gather.
 */
static inline bool rox_skb_is_list(const struct sk_buff *skb)
{
	return skb_shinfo(skb)->gso_type & SKB_GSO_FRAGLIST && skb_has_frag_list(skb);
}

/*
 * Begins a walk over @left bytes of packets at @off of @skb, each with @seg bytes but the last, or
 * a list.
 */
static inline void rox_rx_walk(struct rox_rx *rx, struct sk_buff *skb, u32 off, u32 left, u32 seg)
{
	rx->skb = skb;
	rx->off = off;
	rx->left = left;
	rx->seg = seg;
	rx->index = 0;
	rx->part = rox_skb_is_list(skb) ? skb : NULL;
	rx->piece.end = 0;
	rx->piece.next = 0;
}

/* Return: UDP payload bytes of the next packet; 0 if there is none. */
static inline u32 rox_rx_len(const struct rox_rx *rx)
{
	if (likely(!rx->part))
		return min(rx->seg, rx->left);
	/* The first one has the headers of the frame before it. */
	return min(rx->part == rx->skb ? skb_pagelen(rx->skb) - rx->off : rx->part->len, rx->left);
}

/* Moves past the next packet, which has @len bytes. */
static inline void rox_rx_step(struct rox_rx *rx, u32 len)
{
	rx->off += len;
	rx->left -= len;
	rx->index++;
	if (unlikely(rx->part))
		rx->part = rx->part == rx->skb ? skb_shinfo(rx->skb)->frag_list : rx->part->next;
}

/*
 * Finds the byte with @off of a frame, and *@len bytes from there on as far as they are in one
 * piece. @piece: the piece that was found last, or all 0. Any context. Return: the address; NULL if
 * it is not mapped.
 */
const u8 *rox_piece_find(const struct sk_buff *skb, struct rox_rx_piece *piece, u32 off, u32 *len);

/* rox_rx_whole() where the bytes are not in the current piece. */
const u8 *rox_rx_enter(struct rox_rx *rx, u32 off, u32 len);

/* Return: the address of @len bytes at @off of the frame; NULL if they are in several pieces. */
static inline const u8 *rox_rx_whole(struct rox_rx *rx, u32 off, u32 len)
{
	if (likely(rox_piece_has(&rx->piece, off, len)))
		return rox_piece_at(&rx->piece, off);
	return rox_rx_enter(rx, off, len);
}

/* ---- the packets of a burst ---- */

static inline bool rox_is_last(const struct rox_burst *b, u32 i)
{
	return i == b->npkts - 1U;
}

/* Payload bytes of packet @i. */
static inline u32 rox_payload_len(const struct rox_burst *b, u32 i)
{
	return rox_is_last(b, i) ? b->len - i * b->mtu : b->mtu;
}

static inline u8 rox_burst_opcode_at(const struct rox_burst *b, u32 i)
{
	if (!i)
		return b->op_first;
	return rox_is_last(b, i) ? b->op_last : b->op_mid;
}

/* Return: the BTH of packet @i, whose opcode is @opcode, without its PSN. */
static inline struct rox_bth rox_burst_bth(const struct rox_burst *b, u8 opcode, u32 i)
{
	bool last = rox_is_last(b, i), cnp = opcode == ROX_OPCODE_CNP;

	return (struct rox_bth) {
		.opcode = opcode,
		.solicited = last && b->solicited,
		.ackreq = last && b->ackreq,
		.migreq = !cnp,
		.becn = cnp,
		.pad = -rox_payload_len(b, i) & 3,
		.pkey = b->pkey,
		.dqpn = b->dqpn,
	};
}

/* ---- the two carriers ---- */

/**
 * struct rox_sent - the packets of a burst that a carrier has sent
 * @pkts: number of packets
 * @bytes: payload bytes
 * @octets: all bytes from BTH to ICRC
 */
struct rox_sent {
	u32 pkts;
	u32 bytes;
	u32 octets;
};

static inline void rox_count_sent(const struct rox_endpoint *from, bool multicast,
				  const struct rox_sent *sent)
{
	rox_ep_count_add(from, ROX_CNT_TX_PKTS, sent->pkts);
	rox_ep_count_add(from, ROX_CNT_TX_BYTES, sent->bytes);
	rox_ep_count_add(from, ROX_CNT_TX_OCTETS, sent->octets);
	if (multicast)
		rox_ep_count_add(from, ROX_CNT_TX_MULTICAST, sent->pkts);
}

/*
 * The two carriers: each sends a burst. @sent counts the packets that were sent, except those in
 * the open frame, which rox_xmit_end() counts. Under RCU, with bottom halves disabled.
 * Return: as rox_xmit(). rox_loopback_xmit() returns -ENOLINK if the burst is not for a QP of the
 * device.
 */
int rox_udp_xmit(struct rox_burst *b, struct rox_sent *sent);
int rox_loopback_xmit(struct rox_burst *b, struct rox_sent *sent);

/* See priority.c. */
u32 rox_priority(struct net_device *ndev, u8 sl, u8 tos);

/* ---- frames of several packets (segment.c) ---- */

/* May packets of @b that take the route @dst share a frame? RCU read-side section. */
bool rox_may_share_frame(const struct rox_burst *b, const struct dst_entry *dst);
/* A frame with more than one packet was sent, from @psn on. A run of the sender. */
void rox_frame_was_sent(struct rox_sender *sender, u32 psn);

/* ---- peers on this machine (near.c) ---- */

/* While frames come as they were made, their sender is told so often (jiffies). */
#define ROX_UNCUT_TOLD	(HZ / 4)

/* For a new path. Any context. */
void rox_near_init(struct rox_path *path);
/*
 * A packet of @origin, which may be 0, was read in the pages that its sender wrote. Any context.
 */
void rox_near_tell(u32 origin);
/* Does the peer read packets of the path in such pages, as far as is known? Any context. */
bool rox_path_is_near(const struct rox_path *path);
/* Do frames of @from on the path come as they are made, as far as is known? Any context. */
bool rox_path_is_uncut(const struct rox_path *path, const struct rox_endpoint *from);
/* Packets without an ICRC were sent. A run of the sender. */
void rox_near_left(struct rox_path *path);
/*
 * The peer lacks packets of the path, whatever the reason. If that is not @known, nothing changes.
 * A run of the sender. Return: true if packets without an ICRC were sent.
 */
bool rox_near_lost(struct rox_path *path, bool known);

/* ---- loopback (loopback.c) ---- */

/**
 * struct rox_local_hdr - header of a loopback frame
 * @burst: the burst as it was sent, with its pointers set to NULL
 * @grh: the GRH that a UD receive gets
 */
struct rox_local_hdr {
	struct rox_burst burst;
	u8 grh[ROX_GRH_LEN];
};

/*
 * Copies payload from the sender's memory, as rox_pkt_read(). Return: 0; -EAGAIN if the sender's
 * memory could not be read, with the error in pkt->burst->err.
 */
int rox_local_read(const struct rox_pkt *pkt, void *dst, u32 len);
/*
 * Writes the IP header that packets of @path would have on a network, with @len bytes behind it, to
 * zeroed memory. Any context. Return: its length.
 */
u32 rox_local_ip(const struct rox_path *path, u8 *p, u32 len);
/* Return: which address of the device @b is for. Under RCU. */
struct rox_gid_ref rox_local_gid(const struct rox_burst *b);
/* Writes the GRH that the first packet of @b would have on a network. Any context. */
void rox_local_grh(const struct rox_burst *b, u8 grh[ROX_GRH_LEN]);

/* Netdevs that show what loopback carries (mirror.c), when the module is loaded and unloaded. */
int rox_mirrors_init(void);
void rox_mirrors_exit(void);

/**
 * struct rox_signature - what a sender says of a packet to receivers on this host
 * @mark: of its IP and UDP headers and its BTH, see rox_icrc_mark()
 * @origin: its path, see struct rox_near; 0 if that need not be told
 */
struct rox_signature {
	u32 mark;
	u32 origin;
};

/**
 * struct rox_frame - an sk_buff that is being filled
 * @skb: the frame; its linear part ends with the UDP header, unless @linear
 * @linear: all packets are in the linear part
 * @pages: where the last fragment was taken from, while @skb has one; else NULL
 * @frag: the last fragment
 * @page: its page
 * @base: the address of that page
 * @offset: where in the page it ends
 * @table: the table of that page, see rox_signature_at(); NULL if it has none
 * @last: the packet appended last, if the frame is a list of packets; else NULL
 *
 * Filled piece by piece with rox_frame_space() and rox_frame_packets(), on one CPU, with bottom
 * halves disabled.
 */
struct rox_frame {
	struct sk_buff *skb;
	bool linear;
	struct page_frag *pages;
	skb_frag_t *frag;
	const struct page *page;
	u8 *base;
	u32 offset;
	struct rox_signature *table;
	struct sk_buff *last;
};

/*
 * The table of a page of ours has one entry for so many bytes. Shorter packets have none of their
 * own, and are not signed.
 */
#define ROX_SIGN_STEP	256

/* The entry for the packet at @p in the table @table of the page at @base. */
static inline struct rox_signature *rox_signature_at(struct rox_signature *table, const u8 *base,
						     const void *p)
{
	return table + (u32)((const u8 *)p - base) / ROX_SIGN_STEP;
}

/*
 * Begins a frame for packets of up to @seg and together up to @len bytes of UDP payload. If the
 * frame becomes a list (@last), it is filled with rox_frame_packets() alone. The caller fills in
 * the IP and UDP headers (skb_network_header(), udp_hdr()), also those of the other packets of a
 * list (skb_walk_frags()). Return: 0 or -ENOMEM.
 */
int rox_frame_begin(struct rox_frame *frame, const struct dst_entry *dst, u32 ip_len, u32 seg,
		    u32 len);
/*
 * Begins a loopback frame: @hdr bytes of header, and no network headers. Return: 0 or -ENOMEM.
 */
int rox_frame_begin_local(struct rox_frame *frame, u32 hdr, u32 len);
/*
 * Appends at most *@len bytes, in one piece. Return: the address to write them to, with their
 * number in *@len; NULL without memory.
 */
void *rox_frame_space(struct rox_frame *frame, u32 *len);
/*
 * Appends at least one and up to *@n packets of exactly @len bytes, all in one piece. Return: the
 * address to write them to, with their number in *@n; NULL if no page has room for a packet, or a
 * list has no memory.
 */
void *rox_frame_packets(struct rox_frame *frame, u32 len, u32 *n);
/*
 * Can a packet of @len bytes, which the last rox_frame_packets() made room for, be signed? Else the
 * frame has no table, or the packet no entry of its own.
 */
static inline bool rox_frame_signs(const struct rox_frame *frame, u32 len)
{
	return frame->table && len >= ROX_SIGN_STEP;
}

/*
 * Signs the packet at @p, which the last rox_frame_packets() made room for, rox_frame_signs(), and
 * which is complete. @mark and @origin: see struct rox_signature.
 */
static inline void rox_frame_sign(const struct rox_frame *frame, const void *p, u32 mark,
				  u32 origin)
{
	struct rox_signature *to = rox_signature_at(frame->table, frame->base, p);

	WRITE_ONCE(to->mark, mark);
	WRITE_ONCE(to->origin, origin);
}

/*
 * Do our frames take their fragments from @page, a page of a received frame? Else it is somebody
 * else's. Any context.
 */
bool rox_frame_knows(const struct page *page);
/*
 * Did a sender on this machine sign the packet at @p in @page, which rox_frame_knows(), with the
 * same @mark? Then it is as it was sent, and need not have an ICRC. @origin is set. Any context.
 */
bool rox_frame_signed(const struct page *page, const void *p, u32 mark, u32 *origin);
/* Copies @len bytes to the end of the frame. Return: 0 or -ENOMEM. */
int rox_frame_put(struct rox_frame *frame, const void *data, u32 len);
/* Frees a frame that is not sent. */
void rox_frame_drop(struct rox_frame *frame);
/* Frees what all frames share, when the module is unloaded. */
void rox_frame_exit(void);

#endif /* ROX_NET_INTERNAL_H */
