/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of net/ share.
 */
#ifndef ROX_NET_INTERNAL_H
#define ROX_NET_INTERNAL_H

#include <linux/netfilter.h>
#include "net.h"

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
/* Room for the next at most *@len bytes; *@len says how many. NULL on no memory. */
void *rox_frame_space(struct rox_frame *frame, u32 *len);
/* Appends @len bytes. 0 or -ENOMEM. */
int rox_frame_put(struct rox_frame *frame, const void *data, u32 len);
/* Gives up a frame. */
void rox_frame_drop(struct rox_frame *frame);
void rox_frame_exit(void);

#endif /* ROX_NET_INTERNAL_H */
