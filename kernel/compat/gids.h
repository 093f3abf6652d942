/* SPDX-License-Identifier: GPL-2.0 */
/* compat.h for GIDs: removes the GIDs of a netdev from a device. */
#ifndef ROX_COMPAT_GIDS_H
#define ROX_COMPAT_GIDS_H

#include <linux/netdevice.h>
#include <rdma/ib_verbs.h>

#ifndef ROX_HAVE_DEL_NETDEV_GIDS
/*
 * Old cores have no such function. But when the core hears of a new MAC, it removes the netdev's
 * GIDs from all devices, and offers them again to all.
 */
static inline void roce_del_all_netdev_gids(struct ib_device *ibdev, u32 port,
					    struct net_device *ndev)
{
	call_netdevice_notifiers(NETDEV_CHANGEADDR, ndev);
}
#endif

#endif /* ROX_COMPAT_GIDS_H */
