// SPDX-License-Identifier: GPL-2.0
/*
 * Network namespaces: the sockets that the rox devices of one namespace share. They own UDP port
 * 4791.
 *
 * A device is in the namespace of its netdev, and in those of other netdevs that are stacked on it
 * and have addresses: a macvlan or VLAN that was moved into a container. It has a struct rox_site
 * in each. rox does not keep a namespace alive: code that refers to a struct rox_netns
 * checks whether it is dead.
 *
 * UDP gives a socket frames of several packets uncut if it has no encap_rcv() (one that has it gets
 * only those of known tunnels). So these sockets have none. UDP queues a frame and calls
 * sk_data_ready(), which takes it.
 */
#include <linux/if_ether.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

struct rox_pernet {
	struct rox_netns *rn;	/* with a reference; NULL if no device has ever been here */
};

static unsigned int rox_pernet_id __read_mostly;

const struct rox_net_ops *rox_receiver __read_mostly;

/*
 * Protects every rox_pernet.rn and its content. Code that holds it never takes the RTNL, so it may
 * be taken with or without the RTNL.
 */
DEFINE_MUTEX(rox_net_lock);

/* All attached devices, struct rox_net by node. */
static LIST_HEAD(rox_nets);

/*
 * Bytes of frames, as the kernel charges them, that may wait in a socket. They wait only while
 * another CPU empties it.
 */
#define ROX_SOCK_BYTES SZ_4M

static struct socket *rox_open_socket(struct rox_netns *rn, sa_family_t family)
{
	struct udp_port_cfg port = {
		.family = family,
		.local_udp_port = htons(ROX_UDP_PORT),
		.ipv6_v6only = 1,
		/* A sender may omit the UDP checksum, over IPv6 as well. */
		.use_udp6_rx_checksums = 0,
	};
	struct udp_tunnel_sock_cfg cfg = {
		.sk_user_data = rn,
		.gro_receive = rox_gro_receive,
		.gro_complete = rox_gro_complete,
	};
	struct socket *sock;
	int err;

	err = udp_sock_create(rn->net, &port, &sock);
	if (err)
		return ERR_PTR(err);
	sock_set_rcvbuf(sock->sk, ROX_SOCK_BYTES);
	setup_udp_tunnel_sock(rn->net, sock->sk, &cfg);
	/* Nobody needs a sum over the whole packet: the ICRC covers it. */
	inet_dec_convert_csum(sock->sk);
	/* No ICMP error that quotes this port changes a route of the host. */
	WRITE_ONCE(inet_sk(sock->sk)->pmtudisc, IP_PMTUDISC_INTERFACE);
#if IS_ENABLED(CONFIG_IPV6)
	if (family == AF_INET6)
		inet6_sk(sock->sk)->pmtudisc = IPV6_PMTUDISC_INTERFACE;
#endif
	rox_sock_keep_iif(sock->sk);
	/* Reading must not poll a netdev, whose frames would be read inside of that. */
	rox_sock_no_busy_poll(sock->sk);
	/* For frames of several packets from this machine. */
	udp_allow_gso(sock->sk);
	WRITE_ONCE(sock->sk->sk_data_ready, rox_sock_ready);
	return sock;
}

static void rox_close_socket(struct socket **sock)
{
	if (*sock)
		udp_tunnel_sock_release((*sock)->sk);
	*sock = NULL;
}

static int rox_open_sockets(struct rox_netns *rn)
{
	struct socket *sock;

	sock = rox_open_socket(rn, AF_INET);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	rn->sock4 = sock;

	if (!IS_ENABLED(CONFIG_IPV6) || !ipv6_mod_enabled())
		return 0;
	sock = rox_open_socket(rn, AF_INET6);
	if (!IS_ERR(sock))
		rn->sock6 = sock;
	else if (PTR_ERR(sock) != -EAFNOSUPPORT && PTR_ERR(sock) != -EPFNOSUPPORT)
		return PTR_ERR(sock);
	return 0;
}

/* Stops reception. Does not free @rn, which readers under RCU may still use. */
static void rox_netns_close(struct rox_netns *rn)
{
	WRITE_ONCE(rn->open, false);
	rox_close_socket(&rn->sock6);
	rox_close_socket(&rn->sock4);
	rox_strangers_end(&rn->strangers);
}

static int rox_netns_open(struct rox_netns *rn, struct netlink_ext_ack *extack)
{
	int err;

	if (rn->open)
		return 0;
	WRITE_ONCE(rn->open, true);
	err = rox_open_sockets(rn);
	if (err == -EADDRINUSE)
		NL_SET_ERR_MSG(extack,
			       "UDP port 4791 is in use in this network namespace, probably by rdma_rxe");
	if (err)
		rox_netns_close(rn);
	return err;
}

/* Return: what rox has of a namespace, made at the first call; NULL without memory. */
static struct rox_netns *rox_netns_of(struct net *net)
{
	struct rox_pernet *pernet = net_generic(net, rox_pernet_id);
	struct rox_netns *rn = pernet->rn;

	if (rn)
		return rn;
	rn = kzalloc(sizeof(*rn), GFP_KERNEL);
	if (!rn)
		return NULL;
	refcount_set(&rn->ref, 1);
	rn->net = net;
	INIT_LIST_HEAD(&rn->sites);
	rox_strangers_init(&rn->strangers);
	pernet->rn = rn;
	return rn;
}

/**
 * rox_netns_put() - puts a reference on what rox has of a namespace
 * @ns: from rox_net_group_ns() or rox_netns_get(); may be NULL
 *
 * Any context.
 */
void rox_netns_put(struct rox_netns *ns)
{
	if (ns && refcount_dec_and_test(&ns->ref))
		kfree_rcu(ns, rcu);
}

/* ---- devices in namespaces ---- */

static struct rox_site *rox_site_find(const struct rox_netns *rn, const struct rox_net *net)
{
	struct rox_site *site;

	list_for_each_entry(site, &rn->sites, node)
		if (site->net == net)
			return site;
	return NULL;
}

static struct rox_site *rox_site_make(struct rox_net *net, struct rox_netns *rn)
{
	struct rox_site *site = kzalloc(sizeof(*site), GFP_KERNEL);

	if (!site)
		return ERR_PTR(-ENOMEM);
	site->net = net;
	site->ns = rn;
	refcount_inc(&rn->ref);
	list_add_tail_rcu(&site->node, &rn->sites);
	return site;
}

static struct rox_site *rox_site_enter_locked(struct rox_net *net, struct net *ns,
					      struct netlink_ext_ack *extack)
{
	struct rox_netns *rn = rox_netns_of(ns);
	struct rox_site *site;
	int err;

	if (!rn)
		return ERR_PTR(-ENOMEM);
	site = rox_site_find(rn, net);
	if (!site) {
		err = rox_netns_open(rn, extack);
		site = err ? ERR_PTR(err) : rox_site_make(net, rn);
	}
	if (!IS_ERR(site))
		site->uses++;
	else if (list_empty(&rn->sites) && rn->open)
		rox_netns_close(rn);
	return site;
}

struct rox_site *rox_site_enter(struct rox_net *net, struct net *ns,
				struct netlink_ext_ack *extack)
{
	struct rox_site *site;

	mutex_lock(&rox_net_lock);
	site = rox_site_enter_locked(net, ns, extack);
	mutex_unlock(&rox_net_lock);
	return site;
}

static void rox_site_leave_locked(struct rox_site *site)
{
	struct rox_netns *rn = site->ns;

	if (--site->uses)
		return;
	list_del_rcu(&site->node);
	if (list_empty(&rn->sites) && rn->open)
		rox_netns_close(rn);
	rox_netns_put(rn);
	kfree_rcu(site, rcu);
}

void rox_site_leave(struct rox_site *site)
{
	mutex_lock(&rox_net_lock);
	rox_site_leave_locked(site);
	mutex_unlock(&rox_net_lock);
}

/**
 * rox_net_group_ns() - chooses the namespace in which a program joins a multicast group
 * @net: the device
 *
 * A program in a container means the netdevs there. Process context, sleeps.
 *
 * Return: the namespace of the current task, with a reference, if the device has addresses there
 * and its netdev is elsewhere; else NULL: that of the device's netdev
 */
struct rox_netns *rox_net_group_ns(struct rox_net *net)
{
	struct net *own = current->nsproxy ? current->nsproxy->net_ns : &init_net;
	struct rox_pernet *pernet = net_generic(own, rox_pernet_id);
	struct rox_netns *rn;

	mutex_lock(&rox_net_lock);
	rn = pernet->rn;
	if (rn && (rn == net->ns || !rox_site_find(rn, net)))
		rn = NULL;
	if (rn)
		refcount_inc(&rn->ref);
	mutex_unlock(&rox_net_lock);
	return rn;
}

/**
 * rox_net_setup() - initialises the network part of a device
 * @net: zeroed memory of the device; filled, attached to no namespace
 * @ibdev: the device
 * @stats: its counters
 * @ndev: its netdev; the caller takes the reference on it
 */
void rox_net_setup(struct rox_net *net, struct ib_device *ibdev, struct rox_stats *stats,
		   struct net_device *ndev)
{
	net->ibdev = ibdev;
	net->stats = stats;
	spin_lock_init(&net->paths_lock);
	INIT_LIST_HEAD(&net->paths);
	INIT_HLIST_HEAD(&net->socks);
	net->loopback = -1;
	spin_lock_init(&net->addrs_lock);
	RCU_INIT_POINTER(net->ndev, ndev);
}

/**
 * rox_net_attach() - attaches a device to the namespace of its netdev
 * @net: the device, not attached
 * @ns: the namespace; the caller makes sure that it does not go away during the call
 * @extack: gets an error message; may be NULL
 *
 * Process context, with the RTNL or without.
 *
 * Return: 0, -EADDRINUSE if UDP port 4791 is taken, or another error
 */
int rox_net_attach(struct rox_net *net, struct net *ns, struct netlink_ext_ack *extack)
{
	struct rox_site *site;
	int err;

	err = rox_egress_open(net);
	if (err)
		return err;
	mutex_lock(&rox_net_lock);
	site = rox_site_enter_locked(net, ns, extack);
	if (!IS_ERR(site)) {
		net->home = site;
		WRITE_ONCE(net->ns, site->ns);
		list_add_tail(&net->node, &rox_nets);
	}
	mutex_unlock(&rox_net_lock);
	if (IS_ERR(site))
		rox_egress_close(net);
	return PTR_ERR_OR_ZERO(site);
}

/**
 * rox_net_move() - attaches a device to another namespace
 * @net: the device, attached
 * @ns: the namespace to which its netdev has moved, or where it is
 * @extack: gets an error message; may be NULL
 *
 * Paths stay in the namespace of their source address, which has left it: what they send is lost.
 * Process context, with the RTNL.
 *
 * Return: 0, or as rox_net_attach(); after an error the device stays where it was
 */
int rox_net_move(struct rox_net *net, struct net *ns, struct netlink_ext_ack *extack)
{
	struct rox_site *old, *site;

	mutex_lock(&rox_net_lock);
	/* NULL: the device is being removed. */
	old = net->home;
	site = old;
	if (old && (old->ns->dead || !net_eq(old->ns->net, ns)))
		site = rox_site_enter_locked(net, ns, extack);
	if (!IS_ERR(site) && site != old) {
		net->home = site;
		WRITE_ONCE(net->ns, site->ns);
		rox_site_leave_locked(old);
	}
	mutex_unlock(&rox_net_lock);
	return PTR_ERR_OR_ZERO(site);
}

/**
 * rox_net_detach() - undoes rox_net_attach()
 * @net: the device; need not be attached. It has no addresses, paths and groups any more
 *
 * Process context, with the RTNL or without. After it returns, the device receives and sends no
 * packets.
 */
void rox_net_detach(struct rox_net *net)
{
	struct rox_site *home;

	rox_egress_close(net);
	mutex_lock(&rox_net_lock);
	home = net->home;
	if (home) {
		list_del(&net->node);
		net->home = NULL;
		WRITE_ONCE(net->ns, NULL);
		rox_site_leave_locked(home);
	}
	mutex_unlock(&rox_net_lock);
	if (home)
		synchronize_net();
}

/*
 * The namespace ends. Its netdevs and their addresses are gone, and so are most devices. A device
 * whose netdev has moved to another namespace may still be attached, as it is being removed. Paths
 * of devices elsewhere may be here, too. They keep @rn, which is marked as dead. They must drop
 * their cached routes here, before IPv6 ends its part of the namespace. IPv6 does that later,
 * because it was registered earlier.
 */
static void __net_exit rox_pernet_exit(struct net *ns)
{
	struct rox_pernet *pernet = net_generic(ns, rox_pernet_id);
	struct rox_netns *rn;
	struct rox_net *net;

	mutex_lock(&rox_net_lock);
	rn = pernet->rn;
	pernet->rn = NULL;
	if (rn) {
		WRITE_ONCE(rn->dead, true);
		if (rn->open)
			rox_netns_close(rn);
		/* Wait for readers that have not seen @dead. */
		synchronize_net();
		list_for_each_entry(net, &rox_nets, node) {
			rox_paths_forget(net, rn);
			rox_socks_forget(net);
		}
		/* Some kernels count IPv6 routes until RCU callbacks have freed them. */
		if (!list_empty(&rox_nets))
			rcu_barrier();
	}
	mutex_unlock(&rox_net_lock);
	rox_netns_put(rn);
}

static struct pernet_operations rox_pernet_ops = {
	.exit = rox_pernet_exit,
	.id = &rox_pernet_id,
	.size = sizeof(struct rox_pernet),
};

int rox_net_init(const struct rox_net_ops *ops)
{
	int err;

	rox_receiver = ops;
	err = rox_socks_init();
	if (err)
		return err;
	err = register_pernet_subsys(&rox_pernet_ops);
	if (err)
		goto exit_socks;
	err = rox_mirrors_init();
	if (err)
		goto exit_pernet;
	rox_crc32_init();
	return 0;

exit_pernet:
	unregister_pernet_subsys(&rox_pernet_ops);
exit_socks:
	rox_socks_exit();
	return err;
}

void rox_net_exit(void)
{
	rox_mirrors_exit();
	unregister_pernet_subsys(&rox_pernet_ops);
	/* The last packets of the devices may still use what follows. */
	synchronize_net();
	rox_socks_exit();
	rox_frame_exit();
	rox_crc32_exit();
}
