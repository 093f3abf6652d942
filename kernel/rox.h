/* SPDX-License-Identifier: GPL-2.0 */
/*
 * rox: soft RoCE v2 device. The device object, and what every room sees.
 */
#ifndef ROX_H
#define ROX_H

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <linux/rhashtable.h>
#include <rdma/ib_verbs.h>
#include <rdma/rox-abi.h>

#include "compat/compat.h"

/* Limits that the device reports; nothing else in rox is smaller. */
enum rox_limits {
	ROX_MAX_QP		= SZ_1M,
	ROX_MAX_CQ		= SZ_1M,
	ROX_MAX_SRQ		= SZ_1M,
	ROX_MAX_MR		= SZ_1M,
	ROX_MAX_MW		= SZ_1M,
	ROX_MAX_PD		= SZ_1M,
	ROX_MAX_AH		= SZ_1M,
	ROX_MAX_QP_WR		= SZ_32K,
	ROX_MAX_SRQ_WR		= SZ_1M,
	ROX_MAX_CQE		= SZ_4M,
	ROX_MAX_SGE		= 32,
	ROX_MAX_INLINE		= 1024,
	ROX_MAX_RD_ATOM		= 128,
	ROX_NUM_COMP_VECTORS	= 64,
	ROX_MAX_FRWR_PAGES	= 4096,
	ROX_MAX_MCG		= SZ_8K,
	ROX_MAX_MCG_QP		= 256,
	ROX_MAX_SL		= 15,
};

#define ROX_MAX_MSG_SIZE	0x80000000U
#define ROX_QPN_MASK		0xffffffU
#define ROX_UDP_PORT		4791

struct rox_counters;
struct rox_net;
struct rox_qp_slot;

/**
 * struct rox_dev - one RDMA device on one netdev
 * @ibdev: the RDMA core's object; must be first
 * @ndev: the netdev; a reference is held (netdev_tracker) from link add until
 *	the device is deallocated
 * @ndev_tracker: tracker of that reference
 * @net: the namespace's sockets and receive hooks (net/net.h); held likewise
 * @net_node: in @net's list of devices
 * @paths_lock: protects @paths; with interrupts off
 * @paths: struct rox_path by node: of QPs and address handles
 * @mrs: struct rox_mr, memory windows among them, by key index (RCU)
 * @ahs: struct rox_ah by index (RCU)
 * @ah_next: where the search for a free index begins
 * @xsrqs: struct rox_xsrq by number (RCU)
 * @xsrq_next: where the search for a free number begins
 * @gsi_qp: slot of QP1, or NULL (RCU)
 * @counters: per-CPU event counters (observe/observe.h)
 * @counter_sets: those of QPs that are counted by themselves, by counter ID
 * @had_sets: there was one
 * @optional: bits of the optional counters that are switched on
 * @early_bytes: of memory in requests that its QPs keep until their turn
 * @port_lock: protects @port_up and @mtu
 * @port_up: what was last announced by a port event
 * @mtu: active MTU as last derived from the netdev
 * @pkeys: the P_Key table (verbs/pkey.h); QPs point into it
 * @num_pkeys: its length
 * @pkey_bad: P_Key violations, for the port attribute
 * @qkey_bad: Q_Key violations, for the port attribute
 * @num_qp: objects of each kind that are alive, against the limits; the others likewise
 * @num_cq: see @num_qp
 * @num_srq: see @num_qp
 * @num_mr: see @num_qp
 * @num_mw: see @num_qp
 * @num_ah: see @num_qp
 * @mcast_lock: protects @mcgs and @num_mcg
 * @mcgs: multicast groups that QPs are attached to (RCU)
 * @num_mcg: their number
 * @link_node: in link.c's list of devices
 * @unlink_work: unregisters the device when its netdev goes away
 * @rescan_work: has the core look for addresses of the netdev
 */
struct rox_dev {
	struct ib_device ibdev;
	struct net_device *ndev;
	netdevice_tracker ndev_tracker;
	struct rox_net *net;
	struct list_head net_node;
	spinlock_t paths_lock;	/* @paths */
	struct list_head paths;

	struct rhashtable mrs;
	struct xarray ahs;
	u32 ah_next;
	struct xarray xsrqs;
	u32 xsrq_next;
	struct rox_qp_slot __rcu *gsi_qp;

	struct rox_counters __percpu *counters;
	struct xarray counter_sets;
	bool had_sets;
	unsigned long optional;

	atomic_t early_bytes;

	spinlock_t port_lock;	/* @port_up, @mtu */
	bool port_up;
	enum ib_mtu mtu;
	u16 *pkeys;
	u32 num_pkeys;
	atomic_t pkey_bad;
	atomic_t qkey_bad;

	atomic_t num_qp;
	atomic_t num_cq;
	atomic_t num_srq;
	atomic_t num_mr;
	atomic_t num_mw;
	atomic_t num_ah;

	struct mutex mcast_lock;	/* @mcgs, @num_mcg */
	DECLARE_HASHTABLE(mcgs, 6);
	u32 num_mcg;

	struct list_head link_node;
	struct work_struct unlink_work;
	struct work_struct rescan_work;
};

static inline struct rox_dev *to_rox_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rox_dev, ibdev);
}

/* For what may not run in softirq context; ordered per item, unbound. Owned by main.c. */
extern struct workqueue_struct *rox_wq;
/* For what may have to be done again and again: one worker, that leaves the CPU to others. */
extern struct workqueue_struct *rox_retry_wq;

#endif /* ROX_H */
