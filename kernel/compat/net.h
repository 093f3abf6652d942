/* SPDX-License-Identifier: GPL-2.0 */
/* compat.h for net/: sk_buffs, sockets, routes. */
#ifndef ROX_COMPAT_NET_H
#define ROX_COMPAT_NET_H

#include <linux/skbuff.h>
#include <net/flow.h>
#include <net/inet_dscp.h>
#include <net/ipv6_stubs.h>
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
/* The function takes the socket, its successor the sock. */
static inline void rox_setup_udp_tunnel_sock(struct net *net, struct sock *sk,
					     struct udp_tunnel_sock_cfg *cfg)
{
	setup_udp_tunnel_sock(net, sk->sk_socket, cfg);
}

#define setup_udp_tunnel_sock rox_setup_udp_tunnel_sock
#endif

#ifdef ROX_HAVE_IPV6_STUB_FLOW
/* Through the stub, so that IPv6 may be a module, or absent. */
#define ip6_dst_lookup_flow(net, sk, fl6, final_dst) \
	ipv6_stub->ipv6_dst_lookup_flow(net, sk, fl6, final_dst)
#endif

/* Traffic class of a route look-up: the field has changed its name and type. */
static inline void rox_flowi4_set_dsfield(struct flowi4 *fl4, u8 dsfield)
{
#ifdef ROX_HAVE_FLOWI4_DSCP
	fl4->flowi4_dscp = inet_dsfield_to_dscp(dsfield);
#else
	fl4->flowi4_tos = dsfield & INET_DSCP_MASK;
#endif
}

#endif /* ROX_COMPAT_NET_H */
