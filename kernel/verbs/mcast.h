/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Multicast groups: who of a device listens to which address.
 */
#ifndef ROX_VERBS_MCAST_H
#define ROX_VERBS_MCAST_H

#include <linux/in6.h>
#include <linux/list.h>
#include <linux/rculist.h>
#include "../net/net.h"
#include "verbs.h"

/**
 * struct rox_mcg - a multicast group that QPs of a device are attached to
 * @node: in the device's table (RCU)
 * @net: its address, and the netdevs that have joined it
 * @members: struct rox_mcg_member by node (RCU)
 * @count: their number
 * @rcu: for freeing after the readers
 */
struct rox_mcg {
	struct hlist_node node;
	struct rox_net_group net;
	struct hlist_head members;
	u32 count;
	struct rcu_head rcu;
};

/**
 * struct rox_mcg_member - a QP in a group
 * @node: in the group's list (RCU)
 * @slot: leads to the QP while that has references
 * @uses: how often it was attached; packets come once all the same
 * @rcu: for freeing after the readers
 */
struct rox_mcg_member {
	struct hlist_node node;
	struct rox_qp_slot *slot;
	u32 uses;
	struct rcu_head rcu;
};

void rox_mcast_init(struct rox_dev *dev);
void rox_mcast_exit(struct rox_dev *dev);
/* A netdev has changed: joins what is to be joined. With the RTNL. */
void rox_mcast_refresh(struct rox_dev *dev);

/* The group of an address, or NULL. The caller is in an RCU read-side section. */
struct rox_mcg *rox_mcg_find(const struct rox_dev *dev, const struct in6_addr *addr);
/* A member's QP with a reference, or NULL if it is being destroyed. Likewise under RCU. */
struct rox_qp *rox_mcg_member_get(const struct rox_mcg_member *member);

#endif /* ROX_VERBS_MCAST_H */
