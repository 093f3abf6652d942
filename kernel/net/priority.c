// SPDX-License-Identifier: GPL-2.0
/*
 * Priority of frames. The qdisc reads it from the skb: mqprio makes it a traffic class, and a VLAN
 * netdev makes it the PCP of the tag by its egress map.
 *
 * Without a service level the priority is that of the traffic class, as for TCP. A service level
 * names the class or PCP that the netdev shall make of the priority, so we look for a priority that
 * leads there. The RDMA CM computes service levels in this way from the tos (its default, or
 * rdma_set_option(RDMA_OPTION_ID_TOS)); a program that sets one itself chooses the PCP, as with an
 * adapter. A PCP has three bits: as with adapters, service levels 8 to 15 are 0 to 7 on the wire.
 */
#include <linux/if_vlan.h>
#include <linux/netdevice.h>
#include <linux/pkt_sched.h>
#include <net/route.h>
#include "internal.h"

#define ROX_PCP_MASK	(VLAN_PRIO_MASK >> VLAN_PRIO_SHIFT)

/* Takes the first VLAN netdev below, which is the one that the RDMA CM asks. */
static int rox_take_vlan(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	if (!is_vlan_dev(ndev))
		return 0;
	priv->data = ndev;
	return 1;
}

static struct net_device *rox_vlan_of(struct net_device *ndev)
{
	struct netdev_nested_priv priv = {};

	if (is_vlan_dev(ndev))
		return ndev;
	netdev_walk_all_lower_dev_rcu(ndev, rox_take_vlan, &priv);
	return priv.data;
}

static u8 rox_pcp(struct net_device *vlan, u32 priority)
{
	return vlan_dev_get_egress_qos_mask(vlan, priority) >> VLAN_PRIO_SHIFT;
}

/* Return: the service level that the RDMA CM makes of this priority. */
static u8 rox_sl_of(struct net_device *ndev, struct net_device *vlan, u32 priority)
{
	struct net_device *classes = vlan ? vlan_dev_real_dev(vlan) : ndev;

	if (netdev_get_num_tc(classes))
		return netdev_get_prio_tc_map(classes, priority);
	return vlan ? rox_pcp(vlan, priority) : 0;
}

/**
 * rox_priority() - the priority of frames
 * @ndev: netdev that sends them
 * @sl: service level; 0: none
 * @tos: traffic class
 *
 * In an RCU read-side critical section. Return: value for skb->priority.
 */
u32 rox_priority(struct net_device *ndev, u8 sl, u8 tos)
{
	u32 priority = rt_tos2priority(tos);
	struct net_device *vlan;

	sl &= ROX_PCP_MASK;
	if (likely(!sl))
		return priority;
	vlan = rox_vlan_of(ndev);
	if (rox_sl_of(ndev, vlan, priority) == sl)
		return priority;
	for (priority = 0; vlan && priority <= TC_PRIO_MAX; priority++)
		if (rox_pcp(vlan, priority) == sl)
			return priority;
	return sl;
}
