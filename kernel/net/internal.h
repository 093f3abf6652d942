/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of net/ share.
 */
#ifndef ROX_NET_INTERNAL_H
#define ROX_NET_INTERNAL_H

#include <linux/netfilter.h>
#include "net.h"
#include "../verbs/verbs.h"

#define ROX_NET_HOOKS 2	/* IPv4 and IPv6 */

/**
 * struct rox_net - rox in one network namespace
 * @net: the namespace; valid while @dead is false
 * @dead: the namespace is going away, or the last device has left; readers
 *	check it under RCU
 * @devs: struct rox_dev by net_node (RCU)
 * @num_devs: their number
 * @sock4: owns UDP port 4791 of IPv4
 * @sock6: the same of IPv6; NULL if there is no IPv6
 * @ops: the receive hooks
 * @hooked: they are registered
 */
struct rox_net {
	struct net *net;
	bool dead;
	struct list_head devs;
	unsigned int num_devs;
	struct socket *sock4;
	struct socket *sock6;
	struct nf_hook_ops ops[ROX_NET_HOOKS];
	bool hooked;
};

/* Receive hooks (net/demux.c); @priv is the struct rox_net. */
unsigned int rox_hook_v4(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);
unsigned int rox_hook_v6(void *priv, struct sk_buff *skb, const struct nf_hook_state *state);

/*
 * The route of a path, with a reference, or an ERR_PTR. Bottom halves disabled
 * and under RCU.
 */
struct dst_entry *rox_path_route(struct rox_path *path, struct net *net);
bool rox_path_is_local(struct rox_path *path);
/* The paths of @dev let go of their routes; nobody sends on them, or ever will. May sleep. */
void rox_paths_forget(struct rox_dev *dev);

/* Is @addr one of the device's addresses, that of @ndev unless it is NULL? */
bool rox_dev_has_gid(struct rox_dev *dev, const struct in6_addr *addr, struct net_device *ndev);

/**
 * struct rox_run - consecutive packets of a frame that belong together
 * @first: number of the first one
 * @count: packets
 * @bad: they are no packets of any known kind
 * @request: for the responder
 * @service: enum rox_service
 * @pkey: their P_Key
 * @dqpn: their destination
 */
struct rox_run {
	u32 first;
	u32 count;
	bool bad;
	bool request;
	u8 service;
	u16 pkey;
	u32 dqpn;
};

static inline bool rox_qp_is_connected(const struct rox_qp *qp)
{
	return qp->service != ROX_SERVICE_UD;
}

/* Are these the addresses of packets from the peer of a connected QP? */
static inline bool rox_qp_is_peer(const struct rox_qp *qp, const struct in6_addr *saddr,
				  const struct in6_addr *daddr)
{
	return ipv6_addr_equal(saddr, &qp->path.daddr) && ipv6_addr_equal(daddr, &qp->path.saddr);
}

/* May @qp have the packets? They are counted if not. @addressed: its addresses are theirs. */
bool rox_may_accept(struct rox_qp *qp, const struct rox_run *run, bool addressed);

/* ---- without a wire (net/loopback.c) ---- */

/**
 * struct rox_local_hdr - what a frame that came without a wire begins with
 * @burst: as it was sent; without its pointers
 * @grh: the network header that it would have had
 */
struct rox_local_hdr {
	struct rox_burst burst;
	u8 grh[ROX_GRH_LEN];
};

/*
 * Hands a burst to a QP of the same device, in this context if that is possible. As rox_xmit();
 * -ENOLINK: the QP is not one of the device.
 */
int rox_loopback_xmit(struct rox_burst *b);
/* The @count packets of a burst from @first on, as one; without payload_off's base and skb. */
void rox_local_pkt(struct rox_burst *b, u32 first, u32 count, struct rox_pkt *pkt);
/* From the sender's memory; -EAGAIN if that has failed, see rox_pkt_unread(), else @dst's error. */
int rox_local_copy(const struct rox_pkt *pkt, u32 off, struct rox_iter *dst, u32 len);
int rox_local_read(const struct rox_pkt *pkt, void *dst, u32 len);
/* The network header that the burst's first packet would have. */
void rox_local_grh(const struct rox_burst *b, u8 grh[ROX_GRH_LEN]);

/**
 * struct rox_frame - an sk_buff that is being filled
 * @skb: the frame; its linear part ends with the UDP header, or holds all
 * @linear: everything goes to the linear part
 *
 * Filled by pieces with rox_frame_space(); belongs to one CPU until it is sent.
 */
struct rox_frame {
	struct sk_buff *skb;
	bool linear;
};

/*
 * Begins a frame with @len bytes of UDP payload; IP and UDP headers are the
 * caller's to fill in (skb_network_header(), udp_hdr()). 0 or -ENOMEM.
 */
int rox_frame_begin(struct rox_frame *frame, const struct dst_entry *dst, u32 ip_len, u32 len);
/* One without headers of the network: @hdr bytes are in the linear part. 0 or -ENOMEM. */
int rox_frame_begin_local(struct rox_frame *frame, u32 hdr, u32 len);
/* Room for the next at most *@len bytes; *@len says how many. NULL on no memory. */
void *rox_frame_space(struct rox_frame *frame, u32 *len);
/* Room for just so many bytes in one piece; NULL if the pages at hand do not have it. */
void *rox_frame_whole(struct rox_frame *frame, u32 len);
/*
 * The packet at @p, for which rox_frame_whole() gave the room last, is complete. @head: what the
 * CRC of its headers is, as its ICRC begins: IP, UDP, BTH, as they are for this packet.
 */
void rox_frame_sign(const struct rox_frame *frame, const void *p, u32 head);
/*
 * Is the packet at @p, somewhere in a received frame's @page, as its sender on this machine has
 * signed it, with the same @head? Its ICRC is right then. Any context.
 */
bool rox_frame_signed(const struct page *page, const void *p, u32 head);
/* Appends @len bytes. 0 or -ENOMEM. */
int rox_frame_put(struct rox_frame *frame, const void *data, u32 len);
/* Gives up a frame. */
void rox_frame_drop(struct rox_frame *frame);
void rox_frame_init(void);
void rox_frame_exit(void);

#endif /* ROX_NET_INTERNAL_H */
