// SPDX-License-Identifier: GPL-2.0
/*
 * Attaching UD QPs to multicast groups. The netdev joins a group with the first QP
 * and leaves it with the last one. IBTA volume 1, 10.5 and 11.3.
 */
#include <linux/rtnetlink.h>
#include "internal.h"

/**
 * rox_mcast_init() - prepares the groups of a device
 * @dev: the device
 */
void rox_mcast_init(struct rox_dev *dev)
{
	mutex_init(&dev->mcast_lock);
	hash_init(dev->mcgs);
}

/**
 * rox_mcast_exit() - destroys the empty table of groups
 * @dev: device without QPs
 */
void rox_mcast_exit(struct rox_dev *dev)
{
	WARN_ON(!hash_empty(dev->mcgs));
	mutex_destroy(&dev->mcast_lock);
}

static struct rox_mcg_member *rox_mcg_member_find(const struct rox_mcg *mcg,
						  const struct rox_qp *qp)
{
	struct rox_mcg_member *member;

	hlist_for_each_entry(member, &mcg->members, node)
		if (member->slot == qp->slot)
			return member;
	return NULL;
}

/**
 * rox_mcast_refresh() - joins all groups of a device again after a change of a netdev
 * @dev: the device
 *
 * The caller holds the RTNL, which protects the table of groups against changes.
 */
void rox_mcast_refresh(struct rox_dev *dev)
{
	struct rox_mcg *mcg;
	int i;

	ASSERT_RTNL();
	hash_for_each(dev->mcgs, i, mcg, node)
		rox_net_join(&dev->net, &mcg->net);
}

/* Joins the group and adds it to the table, atomically for rox_mcast_refresh(). */
static int rox_mcg_publish(struct rox_dev *dev, struct rox_mcg *mcg)
{
	int err;

	rtnl_lock();
	err = rox_net_join(&dev->net, &mcg->net);
	if (err)
		rox_net_leave(&mcg->net);
	else
		hash_add_rcu(dev->mcgs, &mcg->node, ipv6_addr_hash(&mcg->net.addr));
	rtnl_unlock();
	return err;
}

static void rox_mcg_unpublish(struct rox_mcg *mcg)
{
	rtnl_lock();
	hash_del_rcu(&mcg->node);
	rox_net_leave(&mcg->net);
	rtnl_unlock();
}

/*
 * Finds a group, or creates and joins it. The caller holds mcast_lock. @ns: see struct
 * rox_net_group; a new group takes the reference over
 */
static struct rox_mcg *rox_mcg_make(struct rox_dev *dev, const struct in6_addr *addr,
				    struct rox_netns **ns)
{
	struct rox_mcg *mcg = rox_mcg_find(dev, addr, *ns ?: dev->net.ns);
	int err;

	if (mcg)
		return mcg;
	if (dev->num_mcg >= ROX_MAX_MCG)
		return ERR_PTR(-ENOMEM);
	mcg = kzalloc(sizeof(*mcg), ROX_GFP_USER);
	if (!mcg)
		return ERR_PTR(-ENOMEM);
	mcg->net.addr = *addr;
	mcg->net.ns = *ns;
	err = rox_mcg_publish(dev, mcg);
	if (err) {
		kfree(mcg);
		return ERR_PTR(err);
	}
	*ns = NULL;
	dev->num_mcg++;
	return mcg;
}

/* Frees a group without members. */
static void rox_mcg_tidy(struct rox_dev *dev, struct rox_mcg *mcg)
{
	if (mcg->count)
		return;
	rox_mcg_unpublish(mcg);
	dev->num_mcg--;
	rox_netns_put(mcg->net.ns);
	kfree_rcu(mcg, rcu);
}

static int rox_mcg_add(struct rox_mcg *mcg, struct rox_qp *qp)
{
	struct rox_mcg_member *member = rox_mcg_member_find(mcg, qp);

	if (member) {
		member->uses++;
		return 0;
	}
	if (mcg->count >= ROX_MAX_MCG_QP)
		return -ENOMEM;
	member = kzalloc(sizeof(*member), ROX_GFP_USER);
	if (!member)
		return -ENOMEM;
	member->slot = qp->slot;
	member->uses = 1;
	hlist_add_head_rcu(&member->node, &mcg->members);
	mcg->count++;
	return 0;
}

/**
 * rox_attach_mcast() - attaches a QP to a multicast group
 * @ibqp: a UD QP, in any state
 * @gid: a multicast address; the core has checked it
 * @lid: ignored
 *
 * Process context. The core does not destroy a QP that is attached. The QP gets what comes to the
 * namespace of the current task, if the device has addresses there, else to that of its netdev.
 *
 * Return: 0; -ENOMEM if there is no memory, or a limit of groups or QPs is reached;
 * -ENODEV if the netdev cannot join the group
 */
int rox_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct rox_dev *dev = to_rox_dev(ibqp->device);
	struct rox_netns *ns = rox_net_group_ns(&dev->net);
	struct in6_addr addr;
	struct rox_mcg *mcg;
	int err;

	memcpy(&addr, gid->raw, sizeof(addr));
	mutex_lock(&dev->mcast_lock);
	mcg = rox_mcg_make(dev, &addr, &ns);
	err = PTR_ERR_OR_ZERO(mcg);
	if (!err) {
		err = rox_mcg_add(mcg, to_rox_qp(ibqp));
		rox_mcg_tidy(dev, mcg);
	}
	mutex_unlock(&dev->mcast_lock);
	rox_netns_put(ns);
	return err;
}

/*
 * Return: the group that the QP is attached to; of the same group in several namespaces the first
 * one, as the task that detaches may be in another namespace than the one that attached.
 */
static struct rox_mcg *rox_mcg_of(struct rox_dev *dev, const struct in6_addr *addr,
				  const struct rox_qp *qp)
{
	struct rox_mcg *mcg;

	hash_for_each_possible(dev->mcgs, mcg, node, ipv6_addr_hash(addr))
		if (ipv6_addr_equal(&mcg->net.addr, addr) && rox_mcg_member_find(mcg, qp))
			return mcg;
	return NULL;
}

/**
 * rox_detach_mcast() - undoes one rox_attach_mcast()
 * @ibqp: the QP
 * @gid: the same address
 * @lid: ignored
 *
 * Process context.
 *
 * Return: 0; -EINVAL if it is not attached
 */
int rox_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid)
{
	struct rox_dev *dev = to_rox_dev(ibqp->device);
	struct rox_mcg_member *member = NULL;
	struct in6_addr addr;
	struct rox_mcg *mcg;

	memcpy(&addr, gid->raw, sizeof(addr));
	mutex_lock(&dev->mcast_lock);
	mcg = rox_mcg_of(dev, &addr, to_rox_qp(ibqp));
	if (mcg)
		member = rox_mcg_member_find(mcg, to_rox_qp(ibqp));
	if (member && !--member->uses) {
		hlist_del_rcu(&member->node);
		kfree_rcu(member, rcu);
		mcg->count--;
		rox_mcg_tidy(dev, mcg);
	}
	mutex_unlock(&dev->mcast_lock);
	return member ? 0 : -EINVAL;
}
