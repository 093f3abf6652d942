/* SPDX-License-Identifier: GPL-2.0 */
/* The device object, which embeds the part of each room. Included by transport.h. */
#ifndef ROX_TRANSPORT_DEVICE_H
#define ROX_TRANSPORT_DEVICE_H

#include <linux/hashtable.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/sizes.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>
#include <rdma/rox-abi.h>

#include "../mem/mem.h"
#include "../net/net.h"
#include "../observe/observe.h"
#include "cc.h"

/* Limits that the device reports. */
enum rox_limits {
	ROX_MAX_QP		= SZ_1M,
	ROX_MAX_CQ		= SZ_1M,
	ROX_MAX_SRQ		= SZ_1M,
	ROX_MAX_PD		= SZ_1M,
	ROX_MAX_AH		= SZ_1M,
	ROX_MAX_QP_WR		= SZ_32K,
	ROX_MAX_SRQ_WR		= SZ_1M,
	ROX_MAX_CQE		= SZ_4M,
	ROX_MAX_SGE		= 32,
	ROX_MAX_INLINE		= 1024,
	ROX_MAX_RD_ATOM		= 128,
	ROX_MAX_MCG		= SZ_8K,
	ROX_MAX_MCG_QP		= 256,
	ROX_MAX_SL		= 15,
	ROX_GID_TABLE_LEN	= 256,
};

#define ROX_MAX_MSG_SIZE	0x80000000U
/* Values of the DSCP, the upper six bits of a traffic class. */
#define ROX_NUM_DSCP		64

struct rox_qp_slot;

/**
 * struct rox_dev - one RDMA device on one netdev
 * @ibdev: the RDMA core's object; must be first
 * @net: its netdev, namespace and paths
 * @left_ndev: the former netdev, until all readers of net.ndev have finished
 * @ndev_tracker: tracks the reference to the netdev, also to @left_ndev
 * @mem: its memory regions and windows
 * @ahs: struct rox_ah by index (RCU)
 * @ah_next: start of the search for a free index
 * @xsrqs: struct rox_xsrq by number (RCU)
 * @xsrq_next: start of the search for a free number
 * @gsi_qp: slot of QP1, or NULL (RCU)
 * @spin_us: how long engines wait for posts, in microseconds; negative: as the module's parameter
 * @stats: its counters
 * @cc: congestion control of its QPs
 * @cc_of_dscp: algorithm of new connections by DSCP; NULL: that of @cc
 * @cm_asked: REQs that the CM has sent, by communication ID (cm.c)
 * @early_bytes: memory of the packets that came early and that its QPs store
 * @held_bytes: memory of the frames for sides that wait for pages on demand
 * @port_lock: protects @port_up and @mtu
 * @port_up: port state that was last announced by an event
 * @mtu: active MTU as last derived from the netdev
 * @pkeys: the P_Key table; QPs point into it
 * @num_pkeys: length of @pkeys
 * @pkey_bad: P_Key violations (port attribute)
 * @qkey_bad: Q_Key violations (port attribute)
 * @num_qp: number of objects of each kind, to enforce the limits
 * @num_cq: see @num_qp
 * @num_srq: see @num_qp
 * @num_ah: see @num_qp
 * @mcast_lock: protects @mcgs and @num_mcg
 * @mcgs: multicast groups that QPs are attached to (RCU)
 * @num_mcg: number of groups in @mcgs
 * @link_node: in the list of devices of link.c
 * @unlink_work: unregisters the device when its netdev unregisters or leaves the namespace
 * @rescan_work: makes the RDMA core look for addresses of the netdev
 */
struct rox_dev {
	struct ib_device ibdev;
	struct rox_net net;
	struct net_device *left_ndev;
	netdevice_tracker ndev_tracker;

	struct rox_mem mem;
	struct xarray ahs;
	u32 ah_next;
	struct xarray xsrqs;
	u32 xsrq_next;
	struct rox_qp_slot __rcu *gsi_qp;

	int spin_us;
	struct rox_stats stats;
	struct rox_cc_link cc;
	const struct rox_cc_ops *cc_of_dscp[ROX_NUM_DSCP];

	struct xarray cm_asked;

	atomic_t early_bytes;
	atomic_t held_bytes;

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
	atomic_t num_ah;

	struct mutex mcast_lock;	/* @mcgs, @num_mcg */
	DECLARE_HASHTABLE(mcgs, 6);
	u32 num_mcg;

	struct list_head link_node;
	struct work_struct unlink_work;
	struct work_struct rescan_work;
};

static inline struct rox_dev *rox_net_dev(const struct rox_net *net)
{
	return container_of(net, struct rox_dev, net);
}

static inline struct rox_dev *to_rox_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct rox_dev, ibdev);
}

/* Any context; @index is below dev->num_pkeys. */
static inline u16 rox_pkey_at(const struct rox_dev *dev, u32 index)
{
	return READ_ONCE(dev->pkeys[index]);
}

#endif /* ROX_TRANSPORT_DEVICE_H */
