/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device lifetime (link.c) and how a device follows its netdev (netdev.c).
 */
#ifndef ROX_LINK_H
#define ROX_LINK_H

#include <rdma/rdma_netlink.h>
#include "rox.h"

/* ---- link.c ---- */

extern struct rdma_link_ops rox_link_ops;

int rox_link_init(void);
/* Removes all devices. After rdma_link_unregister() and rox_netdev_exit(). */
void rox_link_exit(void);
/* The device on @ndev with a reference on its struct device, or NULL. Process context. */
struct rox_dev *rox_link_find(const struct net_device *ndev);
/* Calls @fn for every device; it may sleep, but take no lock of link.c. Process context. */
void rox_link_for_each(void (*fn)(struct rox_dev *dev));
/* Unregisters @dev later, without the caller's locks. Takes over rox_link_find()'s reference. */
void rox_link_remove_later(struct rox_dev *dev);
/* Calls rdma_roce_rescan_device() later. Takes over a reference of ib_device_try_get(). */
void rox_link_rescan_later(struct rox_dev *dev);

/* ---- netdev.c ---- */

int rox_netdev_init(void);
void rox_netdev_exit(void);
/* Takes port state and MTU from the netdev; RTNL. true if the port state has changed. */
bool rox_port_refresh(struct rox_dev *dev);
/* The device op of newer kernels, where the core has the notifier. */
void rox_report_port_event(struct ib_device *ibdev, struct net_device *ndev,
			   unsigned long event);

#endif /* ROX_LINK_H */
