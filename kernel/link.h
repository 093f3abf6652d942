/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Device lifetime (link.c) and how a device follows its netdev (netdev.c).
 */
#ifndef ROX_LINK_H
#define ROX_LINK_H

#include <rdma/rdma_netlink.h>
#include "transport/transport.h"

/* ---- link.c ---- */

extern struct rdma_link_ops rox_link_ops;

/* Creates the workqueue of removals. Return: 0 or -ENOMEM. Process context. */
int rox_link_init(void);
/* Removes all devices. Called after rdma_link_unregister() and rox_netdev_exit(). */
void rox_link_exit(void);
/*
 * Return: the oldest device on @ndev, with a reference on its struct device, or NULL.
 * Process context.
 */
struct rox_dev *rox_link_find(const struct net_device *ndev);
/* Calls @fn for every device. It may sleep, but must not take a lock of link.c. Process context. */
void rox_link_for_each(void (*fn)(struct rox_dev *dev));
/* Calls @fn for every device on @ndev, as rox_link_for_each() does. */
void rox_link_each(const struct net_device *ndev, void (*fn)(struct rox_dev *dev));
/*
 * Takes references on the struct device of all devices. Process context. Return: an array that ends
 * with NULL, for kfree(); NULL without memory.
 */
struct rox_dev **rox_links_get(void);
/*
 * Detaches @dev from its netdev, which is going away. A worker unregisters @dev later, without
 * the caller's locks. The caller holds the RTNL. Consumes the reference of rox_link_find().
 */
void rox_link_remove_later(struct rox_dev *dev);
/* Has a worker call rdma_roce_rescan_device() for devices on loopback netdevs. Any context. */
void rox_link_rescan_lo(void);

/* ---- netdev.c ---- */

/* Registers the notifiers of netdevs and addresses. Return: 0 or an error. Process context. */
int rox_netdev_init(void);
/* Unregisters them. Process context. */
void rox_netdev_exit(void);
/*
 * Takes port state, MTU and speed from the netdev. The caller holds the RTNL.
 * Return: true if the port state has changed.
 */
bool rox_port_refresh(struct rox_dev *dev);
/* The device op of newer kernels, in which the core has a netdev notifier. Does nothing. */
void rox_report_port_event(struct ib_device *ibdev, struct net_device *ndev,
			   unsigned long event);

#endif /* ROX_LINK_H */
