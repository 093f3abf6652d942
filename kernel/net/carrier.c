// SPDX-License-Identifier: GPL-2.0
/*
 * Sending: one of two carriers brings a burst to the peer: UDP (udp.c) or, between QPs of one
 * device, loopback (loopback.c).
 */
#include <linux/module.h>

#include "internal.h"
#include "../observe/trace.h"

static bool loopback = true;
module_param(loopback, bool, 0644);
MODULE_PARM_DESC(loopback, "Between QPs of one device, copy without a wire (default: Y). A device's attribute of this name overrides it");

bool rox_net_loops_back(const struct rox_net *net)
{
	int own = READ_ONCE(net->loopback);

	return own < 0 ? READ_ONCE(loopback) : own;
}

/*
 * Bottom halves disabled, or under RCU. No address is looked up in a namespace that is gone: @dead
 * comes first.
 */
static bool rox_path_inside(struct rox_path *path)
{
	return path->valid && !READ_ONCE(path->ns->dead) && rox_net_loops_back(path->net) &&
	       rox_path_is_local(path);
}

bool rox_path_loops_back(struct rox_path *path)
{
	bool inside;

	rcu_read_lock();
	inside = rox_path_inside(path);
	rcu_read_unlock();
	return inside;
}

bool rox_loops_back(struct rox_path *path, u16 pkey)
{
	const struct net_device *ndev;

	ndev = rcu_dereference_bh_check(path->net->ndev, rcu_read_lock_held());
	return rox_path_inside(path) && ndev && netif_running(ndev) && rox_pkey_valid(pkey);
}

static void rox_account(const struct rox_burst *b, const struct rox_sent *sent)
{
	rox_ep_count(b->from, ROX_CNT_TX_BURSTS);
	if (sent->pkts)
		rox_count_sent(b->from, rox_to_group(b), sent);
	trace_rox_packet_out(b->from->qpn, b->dqpn, b->op_first, b->psn, b->npkts, b->len);
}

int rox_xmit(struct rox_burst *burst)
{
	struct rox_sent sent = {};
	int err = -ENOLINK;

	rcu_read_lock();
	if (rox_loops_back(burst->path, burst->pkey))
		err = rox_loopback_xmit(burst, &sent);
	if (err == -ENOLINK) {
		if (burst->sender && !burst->unbounded && burst->from->sk &&
		    rox_tx_is_full(burst->from)) {
			rcu_read_unlock();
			return -EBUSY;
		}
		err = rox_udp_xmit(burst, &sent);
	}
	rox_account(burst, &sent);
	rcu_read_unlock();
	return err;
}
