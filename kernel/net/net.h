/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Interface of net/: the UDP port of a namespace, paths, and the two carriers,
 * which bring the packets of a QP to its peer.
 */
#ifndef ROX_NET_H
#define ROX_NET_H

#include <linux/jump_label.h>
#include <linux/skbuff.h>
#include <net/dst_cache.h>
#include "../mem/mem.h"
#include "../observe/observe.h"
#include "../wire/wire.h"

/* ---- devices and endpoints ---- */

struct rox_netns;
struct rox_site;
struct rox_egress;
struct rox_addr;
struct rox_pkt;

/* log2 of the number of lists of rox_net.addrs. Few devices have many addresses. */
#define ROX_ADDR_BITS 4

/**
 * struct rox_net - the network part of a device
 * @ibdev: the device
 * @stats: counters of packets that reach no QP
 * @ndev: the netdev, with a reference; NULL after the netdev has begun to go away, perhaps long
 *	before the device is deallocated (RCU; changed with the RTNL)
 * @ns: namespace of the netdev, with its sockets; NULL if not attached
 * @home: the device in @ns
 * @node: in the list of all devices (netns.c)
 * @paths_lock: protects @paths; taken with interrupts disabled
 * @paths: struct rox_path by node
 * @egress: counts the frames of its QPs on this host (net/sock.c); NULL if not attached
 * @socks: sockets of its QPs
 * @loopback: between its QPs, copy without a wire: 0 or 1; -1: as the module parameter says
 * @addrs_lock: taken to change @addrs
 * @addrs: its addresses (RCU), see net/addrs.c
 */
struct rox_net {
	struct ib_device *ibdev;
	struct rox_stats *stats;
	struct net_device __rcu *ndev;
	struct rox_netns *ns;
	struct rox_site *home;
	struct list_head node;
	spinlock_t paths_lock;	/* @paths */
	struct list_head paths;
	struct rox_egress *egress;
	struct hlist_head socks;
	int loopback;
	spinlock_t addrs_lock;	/* changes of @addrs */
	struct hlist_head addrs[1 << ROX_ADDR_BITS];
};

/**
 * struct rox_endpoint - the part of a QP that net uses
 * @qpn: QP number
 * @counters: counters of the QP; may be replaced by another set at any time
 * @sk: socket that owns the frames of the QP; NULL before the QP may send
 * @marked: a good packet came with the ECN mark for congestion; the receiver clears it
 * @uncut: the peer is to be told that its frames come as it made them; the receiver clears it
 * @uncut_at: when @uncut was set last (jiffies)
 * @told_uncut: the peer has told that of the frames of this QP
 * @told_uncut_at: when it did so last (jiffies)
 */
struct rox_endpoint {
	u32 qpn;
	bool marked;
	bool uncut;
	bool told_uncut;
	unsigned long uncut_at;
	unsigned long told_uncut_at;
	struct rox_counters __percpu *counters;
	struct sock *sk;
};

/**
 * struct rox_sender - one side of a QP, as a sender
 * @node: in the device's list of sides that wait
 * @sk: socket of the QP, while the side waits
 * @until: with @refusals: the side waits at least until then (jiffies)
 * @refused: a queue of this host has refused the packets from @refused_psn on, and nothing was
 *	sent after them
 * @refusals: how often in a row that has happened
 * @refused_psn: see @refused
 * @framed: @frame_psn is known
 * @frame_psn: first packet of the first frame with more than one packet since rox_tx_missing()
 * @cut_wrong: frames in a row of which the receiver got the first packet only
 */
struct rox_sender {
	struct list_head node;
	struct sock *sk;
	unsigned long until;
	bool refused;
	u8 refusals;
	u32 refused_psn;
	bool framed;
	u8 cut_wrong;
	u32 frame_psn;
};

/*
 * Adds @n to a counter of @ep. The caller has disabled bottom halves or is in an RCU read-side
 * section, because a replaced set of counters is freed after a grace period.
 */
static inline void rox_ep_count_add(const struct rox_endpoint *ep, enum rox_counter c, u64 n)
{
	this_cpu_add(READ_ONCE(ep->counters)->c[c], n);
}

static inline void rox_ep_count(const struct rox_endpoint *ep, enum rox_counter c)
{
	rox_ep_count_add(ep, c, 1);
}

/* ---- namespaces (netns.c) ---- */

/* Initialises @net. Takes no reference. */
void rox_net_setup(struct rox_net *net, struct ib_device *ibdev, struct rox_stats *stats,
		   struct net_device *ndev);
/*
 * Attaches the device to the sockets of a namespace, and opens them for the first device
 * there. Process context, may sleep. Return: 0; -EADDRINUSE if another module (rdma_rxe) owns UDP
 * port 4791 in the namespace; or another error.
 */
int rox_net_attach(struct rox_net *net, struct net *ns, struct netlink_ext_ack *extack);
/*
 * Attaches the device to another namespace, to which its netdev has moved. Return: as
 * rox_net_attach(); after an error the device stays where it was.
 */
int rox_net_move(struct rox_net *net, struct net *ns, struct netlink_ext_ack *extack);
/* Undoes rox_net_attach(). After it returns, no packet is delivered to the device. May sleep. */
void rox_net_detach(struct rox_net *net);

/**
 * struct rox_site - a device in a namespace: that of its netdev, or one where it has addresses
 * @node: in the namespace's list (RCU)
 * @net: the device
 * @ns: the namespace, with a reference
 * @uses: the netdev and the addresses that are there
 * @rcu: frees the object after an RCU grace period
 */
struct rox_site {
	struct list_head node;
	struct rox_net *net;
	struct rox_netns *ns;
	u32 uses;
	struct rcu_head rcu;
};

/* Do two QPs of the device talk without a wire (carrier.c)? Any context. */
bool rox_net_loops_back(const struct rox_net *net);

/* ---- paths (path.c) ---- */

/**
 * struct rox_near - what a path knows of a peer on this machine (near.c)
 * @origin: number of the path, in the signature of its packets; 0 if it has none
 * @left: packets without an ICRC were sent since the last loss
 * @losses: how often they were lost, up to a limit; 0 again after a long time
 * @lost_at: when that was last (jiffies)
 */
struct rox_near {
	u32 origin;
	bool left;
	u8 losses;
	unsigned long lost_at;
};

/**
 * struct rox_path - an address vector with a cached route
 * @net: the device
 * @ns: the namespace of the sgid's netdev, with a reference, if @valid
 * @node: in @net->paths, if @valid
 * @valid: initialised
 * @v6: IPv6, else IPv4
 * @tos: traffic class without the bits of ECN
 * @ecn: the bits of ECN
 * @ttl: hop limit; 64 if the address vector has 0
 * @sport: UDP source port, in host order
 * @flow: IPv6 flow label
 * @oif: ifindex of the sgid's netdev (the netdev itself, or one on it) in @ns
 * @saddr: source address (IPv4: last word of a mapped address)
 * @daddr: destination address
 * @dst: cached routes, checked on each use
 * @sl: service level, for queries, completions and the priority of frames
 * @hash: flow hash, by which the netdev chooses a queue
 * @local: bit 0: both addresses belong to the device in @ns; other bits: when that was checked
 *	(jiffies)
 * @ip_id: IPv4 ID of the next packet; counted per path, because the peer's GRO joins packets with
 *	consecutive IDs
 * @singly: no frame has more than one packet, see segment.c
 * @near: what is known of a peer on this machine
 *
 * Routes are looked up when they change, not for each burst.
 */
struct rox_path {
	struct rox_net *net;
	struct rox_netns *ns;
	struct list_head node;
	bool valid;
	bool v6;
	u8 tos;
	u8 ecn;
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
	bool singly;
	struct rox_near near;
	struct dst_cache dst;
};

/*
 * Fills @path from an address vector. The caller holds a reference on its sgid_attr. @path is
 * zeroed or was destroyed. If the flow label is 0, the UDP source port is computed from @sqpn and
 * @dqpn. Sleeps only if @gfp allows it. Return: 0, -EINVAL, -ENODEV if the GID has gone, -ENOMEM.
 */
int rox_path_init(struct rox_path *path, struct rox_net *net,
		  const struct rdma_ah_attr *attr, u32 sqpn, u32 dqpn, gfp_t gfp);
/*
 * Fills @path, zeroed, for an answer to @pkt, which came by UDP, with this traffic class and
 * service level. Bottom halves disabled. Return: 0, -ENOENT if the address has gone, -ENOMEM.
 */
int rox_path_answer(struct rox_path *path, struct rox_net *net, const struct rox_pkt *pkt, u8 tos,
		    u8 sl);
/* Frees the resources of @path. Nobody sends on it. */
void rox_path_destroy(struct rox_path *path);
/* Is the path one between two QPs of its device, without a wire (carrier.c)? Any context. */
bool rox_path_loops_back(struct rox_path *path);
/* Exchanges two paths of one device, valid or not. Nobody sends on either. Any context. */
void rox_path_swap(struct rox_path *a, struct rox_path *b);
/* Return: the MTU that the netdev of @addr, an address of the device, has room for. Any context. */
enum ib_mtu rox_net_gid_mtu(struct rox_net *net, const struct in6_addr *addr);
/* The rest of rox_path_hears(). */
bool rox_path_hears_of(const struct rox_path *path, struct rox_net *net,
		       const struct in6_addr *addr, struct rox_netns *ns, int iif, int own);

/**
 * rox_path_hears() - tests whether packets that came by a netdev are for a path
 * @path: path to their sender; its addresses are theirs. It may be changed meanwhile
 * @net: its device
 * @addr: its source address, where they went
 * @ns: the namespace that they came to
 * @iif: ifindex of the netdev that they came by; of lo for those from this host
 *
 * Several netdevs may have the same address, above all VLANs, each in a network of its own. Then
 * the netdev decides. A netdev that does not have the address may bring packets for it (weak host
 * model), and the address may have moved from the path's netdev to another one. But nothing from
 * another host comes by lo: any local program may send with its address (IPV6_FREEBIND).
 *
 * Any context. Return: true if they are.
 */
static inline bool rox_path_hears(const struct rox_path *path, struct rox_net *net,
				  const struct in6_addr *addr, struct rox_netns *ns, int iif)
{
	/* Packets that arrive while modify_qp changes the path count as from the old or new one. */
	int own = data_race(path->oif);

	/* Likewise. It is only compared. */
	if (data_race(path->ns) != ns)
		return false;
	return likely(own == iif) || rox_path_hears_of(path, net, addr, ns, iif, own);
}

/* ---- addresses (addrs.c) ---- */

/*
 * Enters an address of the device, which @ndev has, and entry @gid of the GID table. The device
 * then also receives in the namespace of @ndev. Process context, sleeps. Return: the entry, for
 * rox_net_del_addr(); an ERR_PTR, with the errors of rox_net_attach().
 */
struct rox_addr *rox_net_add_addr(struct rox_net *net, const struct in6_addr *addr,
				  struct net_device *ndev, u16 gid, struct netlink_ext_ack *extack);
/* Removes it. Process context, sleeps. */
void rox_net_del_addr(struct rox_net *net, struct rox_addr *entry);
/* Is @addr an address of the device, and of @ndev unless that is NULL? Any context. */
bool rox_net_has_addr(struct rox_net *net, const struct in6_addr *addr,
		      const struct net_device *ndev);
/* Has the device this address in @ns? Any context. */
bool rox_net_has_addr_in(struct rox_net *net, const struct in6_addr *addr,
			 const struct rox_netns *ns);

/* ---- multicast (mcast.c) ---- */

/**
 * struct rox_net_group - a multicast group that the netdevs of a device join
 * @addr: address of the group; IPv4 as a mapped address
 * @ns: the namespace of these netdevs, with a reference; NULL: that of the device's own netdev
 * @members: netdevs that have joined (changed with the RTNL, read under RCU)
 */
struct rox_net_group {
	struct in6_addr addr;
	struct rox_netns *ns;
	struct hlist_head members;
};

/*
 * Makes the netdevs of the device join @group. Call it again when a netdev has changed. With the
 * RTNL. Return: 0, -ENODEV, -ENOMEM.
 */
int rox_net_join(struct rox_net *net, struct rox_net_group *group);
/* Makes all netdevs leave @group. With the RTNL. */
void rox_net_leave(struct rox_net_group *group);
/*
 * Return: the namespace whose packets a program means that joins a group, for struct rox_net_group:
 * its own, with a reference, if the device has addresses there; else NULL. Process context, sleeps.
 */
struct rox_netns *rox_net_group_ns(struct rox_net *net);
void rox_netns_put(struct rox_netns *ns);
/* Is @group one of the device's in @ns? Any context. */
bool rox_net_group_in(const struct rox_net *net, const struct rox_net_group *group,
		      const struct rox_netns *ns);
/* Has rox_net_join() made @ndev join @group? Under RCU. */
bool rox_net_joined(const struct rox_net_group *group, const struct net_device *ndev);

/* ---- sending (carrier.c; udp.c and loopback.c) ---- */

/**
 * struct rox_burst - consecutive packets of one message of one QP, to be sent
 * @path: path to the peer
 * @src: payload, from its current position; the carrier advances it by @len. NULL if @len is 0
 *	or @inl is set
 * @inl: inline payload, used instead of @src if not NULL
 * @len: payload bytes of all packets
 * @psn: PSN of the first packet; increases by 1 for each next one
 * @dqpn: destination QP number
 * @pkey: P_Key in the BTH
 * @mtu: payload bytes of each packet but the last
 * @npkts: packets, at least 1; @len > (npkts - 1) * mtu, or npkts is 1
 * @op_first: opcode of packet 0 (if npkts is 1: the only one)
 * @op_mid: opcode of the packets between
 * @op_last: opcode of the last packet if npkts > 1
 * @ext: extended headers; the opcode of a packet says which of them it has
 * @solicited: SE bit of the last packet
 * @ackreq: A bit of the last packet
 * @follow: number of messages that may follow in this run, for the same frame
 * @joins: the frame of the last packets may stay open for the next burst of the run, which ends
 *	with rox_xmit_end(). For messages of several packets
 * @more: loopback: more bursts of the sender's run follow; the peer may send one ACK for all
 * @again: loopback: the receiver needs pages on demand that are missing, and wants a copy
 * @read: loopback: payload bytes that were read
 * @err: loopback: error of reading the payload
 * @idle: no earlier packet of the sender is outstanding
 * @resends: the sender sends packets again that a queue of this host refuses, see
 *	struct rox_sender; else they count as lost
 * @from: the sender
 * @sender: the side that sends; NULL if it is no QP's
 * @unbounded: sent even if the queues of this host are full, and lost if one refuses it
 * @handed_at: if not NULL, becomes the time in ktime ns at which the last frame of a burst of
 *	several packets was handed to the IP layer
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
	bool joins;
	bool more;
	bool again;
	u32 read;
	int err;
	struct rox_ext_hdrs ext;
	bool idle;
	bool resends;
	bool unbounded;
	struct rox_endpoint *from;
	struct rox_sender *sender;
	u64 *handed_at;
};

/* Payload bytes that one burst may carry. */
#define ROX_BURST_BYTES 65536U

/*
 * rox_xmit() - sends a burst
 *
 * Any context with bottom halves disabled. The payload has been copied when it returns.
 * Return: 0 if the packets were sent or lost on this host. Packets are lost without memory, without
 * a route, or if a queue is full. They are counted as ROX_CNT_TX_DROP, and the transport recovers
 * from it as from any loss. If the payload could not be read, for instance because its MR was
 * deregistered: an error of rox_iter_next(). Then some of the packets may have been sent. -EBUSY if
 * the frames of the QP or the device fill the queues of this host: nothing was sent, call
 * rox_tx_wait().
 */
int rox_xmit(struct rox_burst *burst);
/*
 * Do packets with @pkey go by loopback, if the peer is a QP of the device? Bottom halves disabled.
 */
bool rox_loops_back(struct rox_path *path, u16 pkey);
/*
 * Sends the frame that rox_xmit() has left open for further messages, if there is one. Call it at
 * the end of a run of a send side, before bottom halves are enabled again.
 */
void rox_xmit_end(void);

/* ---- what loopback carries, for captures (mirror.c) ---- */

DECLARE_STATIC_KEY_FALSE(rox_mirror_key);

/* Is there a netdev that may show bursts? A no-op while there is none. */
static inline bool rox_mirrors(void)
{
	return static_branch_unlikely(&rox_mirror_key);
}

/*
 * Shows a burst by loopback to the programs that capture in its namespace. Called before the burst
 * is handed over, under RCU, with bottom halves disabled.
 */
void rox_mirror(const struct rox_burst *b);

/* ---- sockets and back pressure (sock.c) ---- */

/* The peer has told that frames of the QP come as they are made (near.c). Any context. */
void rox_ep_told_uncut(struct rox_endpoint *ep);
/*
 * Makes the socket of a QP, unless it has one, in the cgroup of the current task. Process context,
 * sleeps. Return: 0 or -ENOMEM.
 */
int rox_ep_open(struct rox_endpoint *ep, struct rox_net *net, bool connected);
/* Gives the socket up, which lives until its frames have gone. Process context, sleeps. */
void rox_ep_close(struct rox_endpoint *ep);
void rox_sender_init(struct rox_sender *sender);
/*
 * Makes the side wait until the queues of this host have room, or for a while if one refused its
 * packets. Then the callback resume() is called. The socket exists. Called by a run of the side,
 * which then ends.
 */
void rox_tx_wait(const struct rox_endpoint *ep, struct rox_sender *sender);
/*
 * The first packet that the receiver lacks is @psn, as a NAK, a timeout or a repeated READ says; or
 * it is sent again to find out, and @known is false. Learns from it whether frames are cut into the
 * packets that were meant (segment.c), and whether the peer needs the ICRC (near.c). Called by a
 * run of the side.
 */
void rox_tx_missing(const struct rox_endpoint *ep, struct rox_path *path,
		    struct rox_sender *sender, u32 psn, bool known);
/* Ends the waiting: when it returns, resume() does not run, and is not called. Any context. */
void rox_tx_forget(const struct rox_endpoint *ep, struct rox_sender *sender);
/* Are frames of the QP on this host? Any context. */
bool rox_tx_lingers(const struct rox_endpoint *ep);

/* Does the side wait? If it has just ended, resume() was called. */
static inline bool rox_tx_waits(const struct rox_sender *sender)
{
	return !list_empty_careful(&sender->node);
}

/* ---- receiving (rx.c) ---- */

/**
 * struct rox_pkt - a received packet, checked and in host order
 * @bth: base transport header
 * @ext: extended headers
 * @info: row of the opcode table
 * @npkts: number of its PSNs; 1 unless it came by loopback or was joined
 * @burst: loopback: the burst that it is a part of; else NULL
 * @skb: the frame that holds the packet; NULL if the payload is still in the sender's memory
 * @payload_off: offset of the payload from skb->data, or in the sender's burst
 * @payload_len: payload bytes without pad and ICRC
 * @payload: the payload, if it came by UDP and is in one piece; else NULL
 * @stride: bytes from the payload of a packet to that of the next, if rox_rx_join() joined several
 *
 * Loopback joins consecutive packets of a burst into one struct rox_pkt. Its opcode is that of a
 * packet with all of their payload. rox_rx_join() joins packets of a UDP frame.
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
	u32 stride;
};

/**
 * struct rox_gid_ref - an entry of the GID table that a datagram was for
 * @known: there is one; not so for multicast
 * @index: its index
 * @twin: an entry before it has the same address
 */
struct rox_gid_ref {
	bool known;
	bool twin;
	u16 index;
};

/**
 * struct rox_skb_cb - the packets of a frame that a receiver gets; in skb->cb
 * @to: the receiver; the owner of the frame makes sure that it exists
 * @first: index of the first packet
 * @count: number of packets
 * @psn: early request: PSN of the first packet
 * @local: loopback frame: begins with a struct rox_local_hdr, and the payload follows
 * @checked: its packets have been checked and counted
 * @held: its memory is counted, because the receiver waits for pages on demand
 * @marked: it came with the ECN mark for congestion
 * @proved: it has been on no wire, and one of its packets had a right ICRC
 * @gid: of a datagram: which of the device's addresses it is for
 *
 * GRO may join packets for several QPs into one frame. Each run of packets for the same QP then
 * gets a clone of the frame.
 */
struct rox_skb_cb {
	struct rox_endpoint *to;
	u32 first;
	u32 count;
	u32 psn;
	bool local;
	bool checked;
	bool held;
	bool marked;
	bool proved;
	struct rox_gid_ref gid;
};

static inline struct rox_skb_cb *rox_skb_cb(const struct sk_buff *skb)
{
	BUILD_BUG_ON(sizeof(struct rox_skb_cb) > sizeof_field(struct sk_buff, cb));
	return (struct rox_skb_cb *)skb->cb;
}

/**
 * struct rox_rx_piece - bytes of a received frame that follow each other in memory
 * @at: address of the first one
 * @off: its offset in the frame
 * @end: offset of the byte after the last one; 0: there is no piece
 * @page: their page, if it is a page fragment and may be one of ours; else NULL
 * @next: what follows it in the frame: 0: not known; else page fragment @next - 1
 */
struct rox_rx_piece {
	const u8 *at;
	u32 off;
	u32 end;
	u32 next;
	const struct page *page;
};

static inline bool rox_piece_has(const struct rox_rx_piece *piece, u32 off, u32 len)
{
	return off >= piece->off && off + len <= piece->end;
}

static inline const u8 *rox_piece_at(const struct rox_rx_piece *piece, u32 off)
{
	return piece->at + (off - piece->off);
}

/**
 * struct rox_rx - walks the packets of a received frame
 * @skb: the frame; data points at the IP header, or at a struct rox_local_hdr
 * @head: the headers that all packets have, and the BTH of the last one
 * @has_head: @head is set, when the first packet is looked at
 * @v6: IPv6
 * @fixed_id: all packets have the same IPv4 ID; else the IDs are consecutive
 * @unsent: the frame has been on no wire, so one right ICRC is enough
 * @proved: a packet of the frame had a right ICRC
 * @id: IPv4 ID of the first packet
 * @l4_off: offset of the UDP header
 * @off: offset of the next packet's UDP payload
 * @left: bytes of UDP payload left
 * @seg: UDP payload bytes of each packet but the last (gso_size), or all
 * @part: in a list of packets: the next one; else NULL
 * @index: index of the next packet in the frame
 * @piece: the piece of memory that had the last packet
 * @piece_known: rox_frame_knows() its page
 */
struct rox_rx {
	struct sk_buff *skb;
	struct rox_icrc_head head;
	bool has_head;
	bool v6;
	bool fixed_id;
	bool unsent;
	bool proved;
	u16 id;
	u32 l4_off;
	u32 off;
	u32 left;
	u32 seg;
	const struct sk_buff *part;
	u32 index;
	struct rox_rx_piece piece;
	bool piece_known;
};

/* Begins a walk over the packets of @skb that its struct rox_skb_cb names. */
void rox_rx_begin(struct rox_rx *rx, struct sk_buff *skb);
/*
 * Parses the next packet, and checks its lengths and ICRC. Packets that fail are counted and
 * skipped. Bottom halves disabled. Return: false if there is no further packet.
 */
bool rox_rx_next(struct rox_rx *rx, struct rox_pkt *pkt);
/* Joins the packets that continue the MIDDLE packet @pkt, while they have less than @most bytes. */
void rox_rx_join(struct rox_rx *rx, struct rox_pkt *pkt, u32 most);
/*
 * Ends the walk, and removes the packets that were walked from the frame's struct rox_skb_cb.
 * Return: false if no packets are left.
 */
bool rox_rx_cut(struct rox_rx *rx);

/* Reads the addresses of a UDP frame (IPv4 as mapped addresses). Any context. */
void rox_skb_addrs(const struct sk_buff *skb, struct in6_addr *saddr, struct in6_addr *daddr);
/* Reads the addresses of a packet (IPv4 as mapped addresses). Any context. */
void rox_pkt_addrs(const struct rox_pkt *pkt, struct in6_addr *saddr, struct in6_addr *daddr);
/* Return: the entry of the GID table that a datagram was for. Any context, under RCU. */
struct rox_gid_ref rox_pkt_gid(const struct rox_pkt *pkt);
/* Return: the VLAN of that entry's netdev; 0 if it is on no VLAN. Any context, under RCU. */
u16 rox_pkt_vlan(struct rox_net *net, const struct rox_pkt *pkt);
/* Has the packet an IPv6 header? Any context. */
bool rox_pkt_is_v6(const struct rox_pkt *pkt);
/* Writes the 40 bytes before the payload of a UD receive. IPv4: the header is in the last 20. */
void rox_pkt_grh(const struct rox_pkt *pkt, u8 grh[ROX_GRH_LEN]);
/* rox_pkt_copy() for a payload in several pieces, or in the sender's memory. */
int rox_pkt_copy_pieces(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len);

/**
 * rox_pkt_copy() - copies payload into memory regions
 * @pkt: the packet
 * @off: offset in its payload
 * @dst: destination; moves past the copied bytes
 * @len: bytes
 *
 * Return: 0; -EINVAL if the payload is shorter; an error of rox_iter_write(); or -EAGAIN if the
 * sender's memory could not be read, see rox_pkt_unread()
 */
static inline int rox_pkt_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len)
{
	if (off > pkt->payload_len || len > pkt->payload_len - off)
		return -EINVAL;
	if (likely(pkt->payload))
		return rox_iter_write(dst, pkt->payload + off, len);
	return rox_pkt_copy_pieces(pkt, off, dst, len);
}

/* Copies the first @len bytes of payload into a kernel buffer. Return: as rox_pkt_copy(). */
int rox_pkt_read(const struct rox_pkt *pkt, void *dst, u32 len);
/* Sets @rest to @pkt without its first @n packets. Only for a packet that came by loopback. */
void rox_pkt_skip(const struct rox_pkt *pkt, u32 n, struct rox_pkt *rest);

/* Could the payload not be read from the sender's memory? Then treat @pkt as not received. */
static inline bool rox_pkt_unread(const struct rox_pkt *pkt)
{
	return pkt->burst && !pkt->skb && pkt->burst->err;
}

/* ---- interface to the receivers ---- */

/**
 * struct rox_run - consecutive packets of a frame or burst, with equal values of these fields
 * @first: index of the first packet
 * @count: number of packets
 * @octets: all bytes from BTH to ICRC
 * @bad: the packets are malformed or have an unknown opcode
 * @request: requests; else responses or CNPs
 * @goes_on: the message of the last packet goes on in packets that follow; only of received frames
 * @service: enum rox_service
 * @pkey: P_Key
 * @dqpn: destination QP number
 */
struct rox_run {
	u32 first;
	u32 count;
	u32 octets;
	bool bad;
	bool request;
	bool goes_on;
	u8 service;
	u16 pkey;
	u32 dqpn;
};

/**
 * struct rox_rx_frame - a received UDP frame
 * @ns: the namespace
 * @iif: ifindex of the netdev that it came by
 * @skb: the frame; data points at the IP header
 * @saddr: source address
 * @daddr: destination address
 */
struct rox_rx_frame {
	struct rox_netns *ns;
	int iif;
	struct sk_buff *skb;
	struct in6_addr saddr;
	struct in6_addr daddr;
};

/**
 * struct rox_net_ops - callbacks to the transport; one set for the module
 * @receive: queues a run of packets of a frame. @last: this is the last run; the callback takes
 *	over the frame. Under RCU, with bottom halves disabled
 * @receive_local: takes a burst by loopback. The callback may read the sender's payload until it
 *	returns. Return: 0 if the burst was executed, queued as a copy, or lost; -ENOLINK if it is
 *	not for a QP of the device; or the error of reading the payload. Under RCU, with bottom
 *	halves disabled
 * @resume: a side need not wait any more; it runs in the next @run. With a spinlock of net
 * @run: follows one or several calls of @receive or @resume. The sides run in this call, or soon in
 *	another context. With bottom halves disabled
 */
struct rox_net_ops {
	void (*receive)(const struct rox_rx_frame *f, const struct rox_run *run, bool last);
	int (*receive_local)(struct rox_burst *b, const struct rox_run *run);
	void (*resume)(struct rox_sender *sender);
	void (*run)(void);
};

/* Initialises net/ when the module is loaded. May sleep. Return: 0 or an error. */
int rox_net_init(const struct rox_net_ops *ops);
/* Undoes rox_net_init(), after all devices have been detached. May sleep. */
void rox_net_exit(void);

/*
 * Finds the device with the frame's destination address. Prefers one on the netdev that received
 * the frame. @suits, if not NULL, must be true for the device. Under RCU. Return: the device or
 * NULL.
 */
struct rox_net *rox_frame_net(const struct rox_rx_frame *f,
			      bool (*suits)(const struct rox_net *net));
/* Returns the netdev that received the frame, or NULL if it is gone. Under RCU. */
struct net_device *rox_frame_dev(const struct rox_rx_frame *f);
/*
 * Iterates over the devices of the frame's namespace. @site: the previous one, or NULL for the
 * first. Under RCU. Return: the next one or NULL.
 */
struct rox_site *rox_frame_next_site(const struct rox_rx_frame *f, struct rox_site *site);
/* Return: which address of the device the frame is for. Any context, under RCU. */
struct rox_gid_ref rox_frame_gid(const struct rox_rx_frame *f, struct rox_net *net);
/* Counts @n packets that reach no QP, at the device with the destination address. Under RCU. */
void rox_frame_count_drop(const struct rox_rx_frame *f, enum rox_counter why, u32 n);
/* Is the frame's destination a multicast address? Any context. */
bool rox_frame_is_multicast(const struct rox_rx_frame *f);
/* Does the frame carry the ECN mark for congestion (CE)? Any context. */
bool rox_frame_is_marked(const struct rox_rx_frame *f);
/*
 * Makes @skb, a frame or a clone of one, hold the packets of @run for @to. It may then wait in a
 * queue: it does not refer to the netdev, route or connection that it came by. Any context.
 */
void rox_skb_claim(struct sk_buff *skb, struct rox_endpoint *to, const struct rox_run *run);

/*
 * Return: @count packets of a burst, from packet @first on, joined into one. Its skb is NULL, and
 * its payload_off is an offset in the burst. Any context.
 */
struct rox_pkt rox_local_join(struct rox_burst *b, u32 first, u32 count);

static inline void rox_local_pkt(struct rox_burst *b, u32 first, u32 count, struct rox_pkt *pkt)
{
	*pkt = rox_local_join(b, first, count);
}

/*
 * rox_pkt_copy() for a packet without an skb, and a range that is known to be in its payload.
 * Return: 0; -EAGAIN if the sender's memory could not be read, with the error in pkt->burst->err;
 * or an error of rox_iter_write().
 */
int rox_local_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len);
/*
 * Copies a burst into a loopback frame for @to. @lasting: the frame may wait for long, so it gets
 * pages of its own, charged to @memcg. @grh: fill in the GRH. Bottom halves disabled.
 * Return: the frame; NULL without memory, or if reading the payload fails (b->err).
 */
struct sk_buff *rox_local_frame(struct rox_burst *b, struct rox_endpoint *to, bool lasting,
				struct mem_cgroup *memcg, bool grh);

#endif /* ROX_NET_H */
