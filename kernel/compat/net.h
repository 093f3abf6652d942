/* SPDX-License-Identifier: GPL-2.0 */
/* compat.h for net/: provides the newest interfaces of sk_buffs, sockets and routes. */
#ifndef ROX_COMPAT_NET_H
#define ROX_COMPAT_NET_H

#include <linux/ipv6.h>
#include <linux/skbuff.h>
#include <net/flow.h>
#include <net/inet_dscp.h>
#include <net/inet_sock.h>
#include <net/ipv6.h>
#include <net/udp.h>
#include <net/udp_tunnel.h>

#ifndef ROX_HAVE_SKB_FRAG_FILL
static inline void skb_frag_fill_page_desc(skb_frag_t *frag, struct page *page, int off, int size)
{
	__skb_frag_set_page(frag, page);
	skb_frag_off_set(frag, off);
	skb_frag_size_set(frag, size);
}
#endif

#ifndef ROX_HAVE_TUNNEL_SOCK_SK
/* The old function takes the socket, the new one takes the sock. */
static inline void rox_setup_udp_tunnel_sock(struct net *net, struct sock *sk,
					     struct udp_tunnel_sock_cfg *cfg)
{
	setup_udp_tunnel_sock(net, sk->sk_socket, cfg);
}

#define setup_udp_tunnel_sock rox_setup_udp_tunnel_sock
#endif

#ifndef ROX_HAVE_TUNNEL_RELEASE_SK
/* As above: the old function takes the socket. */
static inline void rox_udp_tunnel_sock_release(struct sock *sk)
{
	udp_tunnel_sock_release(sk->sk_socket);
}

#define udp_tunnel_sock_release rox_udp_tunnel_sock_release
#endif

#ifdef ROX_HAVE_IPV6_STUB_FLOW
#include <net/ipv6_stubs.h>

/* The stub allows IPv6 to be a module, or to be absent. */
#define ip6_dst_lookup_flow(net, sk, fl6, final_dst) \
	ipv6_stub->ipv6_dst_lookup_flow(net, sk, fl6, final_dst)
#endif

/* Sets the traffic class of a route look-up. Name and type of the field depend on the kernel. */
static inline void rox_flowi4_set_dsfield(struct flowi4 *fl4, u8 dsfield)
{
#ifdef ROX_HAVE_FLOWI4_DSCP
	fl4->flowi4_dscp = inet_dsfield_to_dscp(dsfield);
#else
	fl4->flowi4_tos = dsfield & INET_DSCP_MASK;
#endif
}

/* Makes this host receive the multicast packets that the socket sends, too. */
static inline void rox_sock_set_mc_loop(struct sock *sk)
{
#ifdef ROX_HAVE_INET_FLAGS
	inet_set_bit(MC_LOOP, sk);
	inet6_set_bit(MC6_LOOP, sk);
#else
	inet_sk(sk)->mc_loop = 1;
#endif
}

/* Sets that in a socket's IPv6 options, where older kernels have it. */
static inline void rox_pinfo_set_mc_loop(struct ipv6_pinfo *options)
{
#ifndef ROX_HAVE_INET_FLAGS
	options->mc_loop = 1;
#endif
}

/*
 * Makes UDP keep the ifindex of the netdev below a VRF, as if a program wanted it. (UDP over IPv6
 * keeps it anyway.)
 */
static inline void rox_sock_keep_iif(struct sock *sk)
{
#ifdef ROX_HAVE_INET_FLAGS
	inet_set_bit(PKTINFO, sk);
#else
	inet_sk(sk)->cmsg_flags |= IP_CMSG_PKTINFO;
#endif
}

/* Keeps the sysctl net.core.busy_read from the socket. */
static inline void rox_sock_no_busy_poll(struct sock *sk)
{
#ifdef CONFIG_NET_RX_BUSY_POLL
	WRITE_ONCE(sk->sk_ll_usec, 0);
#endif
}

/*
 * rox_sock_next() takes the oldest frame from a UDP socket, and uncharges the memory that UDP has
 * charged for it. The caller holds the lock, so that frames that are taken on several CPUs keep
 * their order. Bottom halves are disabled.
 */
#ifdef ROX_HAVE_UDP_SKB_DESTRUCTOR
static inline void rox_sock_lock(struct sock *sk)
{
	spin_lock(&udp_sk(sk)->reader_queue.lock);
}

static inline void rox_sock_unlock(struct sock *sk)
{
	spin_unlock(&udp_sk(sk)->reader_queue.lock);
}

static inline struct sk_buff *rox_sock_next(struct sock *sk)
{
	struct sk_buff_head *queue = &udp_sk(sk)->reader_queue;
	struct sk_buff *skb;

	if (skb_queue_empty(queue)) {
		spin_lock(&sk->sk_receive_queue.lock);
		skb_queue_splice_tail_init(&sk->sk_receive_queue, queue);
		spin_unlock(&sk->sk_receive_queue.lock);
	}
	skb = __skb_dequeue(queue);
	if (skb)
		udp_skb_destructor(sk, skb);
	return skb;
}
#else
/* What uncharges the memory is not exported. UDP's own function takes the lock of its queue. */
static inline void rox_sock_lock(struct sock *sk)
{
	write_lock(&sk->sk_callback_lock);
}

static inline void rox_sock_unlock(struct sock *sk)
{
	write_unlock(&sk->sk_callback_lock);
}

static inline struct sk_buff *rox_sock_next(struct sock *sk)
{
	struct sk_buff *skb;
	int off = 0, err;

	/* An error of the socket is reported first. It does not mean that the queue is empty. */
	do {
		skb = __skb_recv_udp(sk, MSG_DONTWAIT, &off, &err);
	} while (!skb && err != -EAGAIN);
	return skb;
}
#endif

#endif /* ROX_COMPAT_NET_H */
