// SPDX-License-Identifier: GPL-2.0
/*
 * Network namespaces: the UDP port and the receive hooks that the rox devices
 * of one namespace share.
 *
 * The sockets own port 4791, so that nobody else does, and make the network
 * stack put received packets together (UDP_GRO). Packets are taken by the hooks
 * before they come to a socket; what comes to it all the same is not for us.
 */
#include <linux/if_ether.h>
#include <linux/netfilter_ipv4.h>
#include <linux/netfilter_ipv6.h>
#include <linux/udp.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

struct rox_pernet {
	struct rox_net *rn;
};

static unsigned int rox_pernet_id __read_mostly;

/*
 * Protects every rox_pernet.rn and what belongs to it. Nothing that is done
 * while it is held takes the RTNL, so that it may be taken with and without.
 */
static DEFINE_MUTEX(rox_net_lock);

/* Last of all, when filters and connection tracking have seen the packet. */
static const struct nf_hook_ops hook_templates[] = {
	{
		.hook = rox_hook_v4,
		.pf = NFPROTO_IPV4,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = INT_MAX,
	},
	{
		.hook = rox_hook_v6,
		.pf = NFPROTO_IPV6,
		.hooknum = NF_INET_LOCAL_IN,
		.priority = INT_MAX,
	},
};

static_assert(ARRAY_SIZE(hook_templates) == ROX_NET_HOOKS);

static int rox_sock_rcv(struct sock *sk, struct sk_buff *skb)
{
	kfree_skb(skb);
	return 0;
}

static struct socket *open_socket(struct net *net, sa_family_t family)
{
	struct udp_port_cfg port = {
		.family = family,
		.local_udp_port = htons(ROX_UDP_PORT),
		.ipv6_v6only = 1,
		.use_udp6_rx_checksums = 1,
	};
	struct udp_tunnel_sock_cfg cfg = {
		.encap_type = 1,
		.encap_rcv = rox_sock_rcv,
	};
	struct socket *sock;
	int one = 1;
	int err;

	err = udp_sock_create(net, &port, &sock);
	if (err)
		return ERR_PTR(err);
	setup_udp_tunnel_sock(net, sock->sk, &cfg);

	/* Only speed is lost without it. */
	err = sock->ops->setsockopt(sock, SOL_UDP, UDP_GRO, KERNEL_SOCKPTR(&one), sizeof(one));
	if (err)
		pr_info_once("rox: no UDP receive aggregation (%d)\n", err);
	return sock;
}

static void close_socket(struct socket **sock)
{
	if (*sock)
		udp_tunnel_sock_release(*sock);
	*sock = NULL;
}

static int open_sockets(struct rox_net *rn)
{
	struct socket *sock;

	sock = open_socket(rn->net, AF_INET);
	if (IS_ERR(sock))
		return PTR_ERR(sock);
	rn->sock4 = sock;

	if (!IS_ENABLED(CONFIG_IPV6) || !ipv6_mod_enabled())
		return 0;
	sock = open_socket(rn->net, AF_INET6);
	if (!IS_ERR(sock))
		rn->sock6 = sock;
	else if (PTR_ERR(sock) != -EAFNOSUPPORT && PTR_ERR(sock) != -EPFNOSUPPORT)
		return PTR_ERR(sock);
	return 0;
}

/* Stops reception. Leaves @rn to those who still read it. */
static void shut_down(struct rox_net *rn)
{
	WRITE_ONCE(rn->dead, true);
	if (rn->hooked)
		nf_unregister_net_hooks(rn->net, rn->ops, ARRAY_SIZE(rn->ops));
	rn->hooked = false;
	close_socket(&rn->sock6);
	close_socket(&rn->sock4);
}

static int register_hooks(struct rox_net *rn)
{
	int err;
	int i;

	for (i = 0; i < ARRAY_SIZE(rn->ops); i++) {
		rn->ops[i] = hook_templates[i];
		rn->ops[i].priv = rn;
	}
	err = nf_register_net_hooks(rn->net, rn->ops, ARRAY_SIZE(rn->ops));
	rn->hooked = !err;
	return err;
}

static struct rox_net *rox_net_open(struct net *net, struct netlink_ext_ack *extack)
{
	struct rox_net *rn = kzalloc(sizeof(*rn), GFP_KERNEL);
	int err;

	if (!rn)
		return ERR_PTR(-ENOMEM);
	rn->net = net;
	INIT_LIST_HEAD(&rn->devs);

	err = open_sockets(rn);
	if (err == -EADDRINUSE)
		NL_SET_ERR_MSG(extack,
			       "UDP port 4791 is in use in this network namespace, probably by rdma_rxe");
	if (!err)
		err = register_hooks(rn);
	if (err) {
		shut_down(rn);
		kfree(rn);
		return ERR_PTR(err);
	}
	return rn;
}

/**
 * rox_net_attach() - joins a device to the namespace of its netdev
 * @dev: the device, not attached
 * @net: the namespace, which does not go away meanwhile
 * @extack: told what is wrong; may be NULL
 *
 * Process context, with the RTNL or without.
 *
 * Return: 0, -EADDRINUSE if UDP port 4791 is taken, or another error
 */
int rox_net_attach(struct rox_dev *dev, struct net *net, struct netlink_ext_ack *extack)
{
	struct rox_pernet *pernet = net_generic(net, rox_pernet_id);
	struct rox_net *rn;

	mutex_lock(&rox_net_lock);
	rn = pernet->rn;
	if (!rn)
		rn = rox_net_open(net, extack);
	if (!IS_ERR(rn)) {
		pernet->rn = rn;
		rn->num_devs++;
		WRITE_ONCE(dev->net, rn);
		list_add_tail_rcu(&dev->net_node, &rn->devs);
	}
	mutex_unlock(&rox_net_lock);
	return PTR_ERR_OR_ZERO(rn);
}

/**
 * rox_net_detach() - undoes rox_net_attach()
 * @dev: the device; nothing happens if it is not attached
 *
 * Process context, with the RTNL or without. When it returns no packet is
 * delivered to @dev any more, and none that it sends leaves.
 */
void rox_net_detach(struct rox_dev *dev)
{
	struct rox_pernet *pernet;
	struct rox_net *rn;
	bool last = false;

	mutex_lock(&rox_net_lock);
	rn = dev->net;
	if (rn) {
		list_del_rcu(&dev->net_node);
		WRITE_ONCE(dev->net, NULL);
		last = !--rn->num_devs;
		if (last && !rn->dead) {
			pernet = net_generic(rn->net, rox_pernet_id);
			pernet->rn = NULL;
			shut_down(rn);
		}
	}
	mutex_unlock(&rox_net_lock);
	if (!rn)
		return;
	synchronize_net();
	if (last)
		kfree(rn);
}

/*
 * The namespace ends. Its netdevs are gone, and with them the devices, but for
 * those whose netdev has moved on and that are still being removed: they keep
 * the object, and find that it is dead. The routes that their QPs have found go with
 * the namespace, which is before IPv6's part of it (it was registered earlier).
 */
static void __net_exit rox_pernet_exit(struct net *net)
{
	struct rox_pernet *pernet = net_generic(net, rox_pernet_id);
	struct rox_net *rn;
	struct rox_dev *dev;

	mutex_lock(&rox_net_lock);
	rn = pernet->rn;
	if (rn) {
		shut_down(rn);
		/* Whoever has not seen that it is dead. */
		synchronize_net();
		list_for_each_entry(dev, &rn->devs, net_node)
			rox_paths_forget(dev);
		/* Where IPv6 counts its routes only when they are freed, that is after this. */
		if (rn->num_devs)
			rcu_barrier();
	}
	pernet->rn = NULL;
	mutex_unlock(&rox_net_lock);
}

static struct pernet_operations rox_pernet_ops = {
	.exit = rox_pernet_exit,
	.id = &rox_pernet_id,
	.size = sizeof(struct rox_pernet),
};

int rox_net_init(void)
{
	int err = register_pernet_subsys(&rox_pernet_ops);

	if (err)
		return err;
	rox_crc32_init();
	rox_frame_init();
	return 0;
}

void rox_net_exit(void)
{
	unregister_pernet_subsys(&rox_pernet_ops);
	/* What the devices' last packets still use. */
	synchronize_net();
	rox_frame_exit();
	rox_crc32_exit();
}
