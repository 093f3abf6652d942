// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: a part of a memory region with a key and rights of its own,
 * set by work requests (IBTA volume 1, 10.6.7). Types 1 and 2B.
 *
 * A window is an entry of the table of regions and refers to the blocks of the
 * region that it is bound to, so that the data path need not know of it. The
 * region counts its windows and cannot go before them.
 */
#include "internal.h"

#define ROX_WINDOW_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			   IB_ACCESS_REMOTE_ATOMIC)
/* Local write is said by some, and means nothing: a window is for peers. */
#define ROX_WINDOW_ACCESS (ROX_WINDOW_RIGHTS | IB_ACCESS_LOCAL_WRITE | IB_ZERO_BASED)

static inline struct rox_mw *to_rox_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct rox_mw, ibmw);
}

/* The caller holds the RCU lock. Its owner may have changed the lower 8 bits of the key. */
static struct rox_mr *rox_window_find(struct rox_dev *dev, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr = rhashtable_lookup(&dev->mrs, &index, rox_mr_params);

	return mr && mr->type == ROX_MR_WINDOW ? mr : NULL;
}

/* Under its lock: may a QP of that PD have anything to do with the window? */
static bool rox_window_is_of(const struct rox_mr *mr, const struct ib_pd *pd)
{
	return !mr->win.dead && mr->ibmr.pd == pd;
}

/**
 * rox_alloc_mw() - a memory window that is not bound
 * @ibmw: window of type 1 or 2
 * @udata: not used
 *
 * Return: 0 or -ENOMEM.
 */
int rox_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct rox_mw *mw = to_rox_mw(ibmw);
	struct rox_mr *mr;
	int err;

	mr = rox_mr_alloc(ibmw->pd, ROX_MR_WINDOW, 0);
	if (!mr)
		return -ENOMEM;
	mr->win.type2 = ibmw->type == IB_MW_TYPE_2;
	err = rox_mr_publish(to_rox_dev(ibmw->device), mr);
	if (err) {
		rox_mr_free(mr);
		return err;
	}
	mw->mr = mr;
	ibmw->rkey = mr->key;
	return 0;
}

/* Nobody uses the window. */
static void rox_window_detach(struct rox_mr *mr)
{
	struct rox_mr *parent = mr->win.parent;

	if (!parent)
		return;
	mr->win.parent = NULL;
	mr->win.qpn = 0;
	mr->blocks = NULL;
	mr->nblocks = 0;
	atomic_dec(&parent->windows);
}

/**
 * rox_dealloc_mw() - the end of a memory window, bound or not
 * @ibmw: window
 *
 * When it returns, nobody accesses memory through it.
 * Return: 0.
 */
int rox_dealloc_mw(struct ib_mw *ibmw)
{
	struct rox_dev *dev = to_rox_dev(ibmw->device);
	struct rox_mr *mr = to_rox_mw(ibmw)->mr;

	rhashtable_remove_fast(&dev->mrs, &mr->node, rox_mr_params);
	spin_lock_bh(&mr->win.lock);
	mr->win.dead = true;
	WRITE_ONCE(mr->valid, false);
	spin_unlock_bh(&mr->win.lock);
	rox_mr_put(mr);
	wait_for_completion(&mr->gone);
	rox_window_detach(mr);
	rox_mr_free(mr);
	return 0;
}

/*
 * Takes the window from its peers; under its lock. Return: 0, or -EBUSY if a
 * burst is using it at this moment: no other can any more, try again soon.
 */
static int rox_window_close(struct rox_mr *mr)
{
	WRITE_ONCE(mr->valid, false);
	/* The flag before the look at the references, see rox_mr_get(). */
	smp_mb();
	if (refcount_read(&mr->ref) > 1)
		return -EBUSY;
	rox_window_detach(mr);
	return 0;
}

/* May the window be bound so? */
static int rox_bind_check(const struct rox_mr *mr, const struct rox_bind *bind)
{
	if (bind->new_rkey >> 8 != mr->index)
		return -EINVAL;
	if (mr->win.type2 && (mr->valid || !bind->length))
		return -EINVAL;
	return bind->access & ~(ROX_WINDOW_ACCESS | IB_ACCESS_OPTIONAL) ? -EINVAL : 0;
}

/* May a window be bound to this region so? */
static int rox_bind_check_parent(const struct rox_mr *parent, const struct rox_bind *bind)
{
	u64 off = bind->addr - parent->iova;

	if (parent->type != ROX_MR_USER || !(parent->access & IB_ACCESS_MW_BIND))
		return -EACCES;
	if (bind->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(parent->access & IB_ACCESS_LOCAL_WRITE))
		return -EACCES;
	if (bind->addr < parent->iova || bind->length > parent->length ||
	    off > parent->length - bind->length)
		return -ERANGE;
	return 0;
}

/* The region to bind to, which counts one more window, or ERR_PTR. */
static struct rox_mr *rox_bind_parent(const struct rox_qp *qp, const struct rox_bind *bind)
{
	struct rox_mr *parent;
	int err;

	parent = rox_mr_get(qp->dev, qp->ibqp.pd, bind->mr_lkey, bind->addr, 0, 0, true);
	if (IS_ERR(parent))
		return parent;
	err = rox_bind_check_parent(parent, bind);
	if (!err && !atomic_inc_unless_negative(&parent->windows))
		err = -ENOENT;
	rox_mr_put(parent);
	return err ? ERR_PTR(err) : parent;
}

/* The window is closed and detached. */
static void rox_window_open(const struct rox_qp *qp, struct rox_mr *mr, struct rox_mr *parent,
			    const struct rox_bind *bind)
{
	WRITE_ONCE(mr->key, bind->new_rkey);
	if (!parent)
		return;
	mr->win.parent = parent;
	mr->win.qpn = mr->win.type2 ? qp->ibqp.qp_num : 0;
	mr->access = bind->access & ROX_WINDOW_RIGHTS;
	mr->iova = bind->access & IB_ZERO_BASED ? 0 : bind->addr;
	mr->length = bind->length;
	mr->offset = parent->offset + (bind->addr - parent->iova);
	mr->page_shift = parent->page_shift;
	mr->blocks = parent->blocks;
	mr->nblocks = parent->nblocks;
	/* All of it before anybody uses it. */
	smp_store_release(&mr->valid, true);
}

/* Under the window's lock. A bind that fails leaves the window as it is. */
static int rox_window_bind(const struct rox_qp *qp, struct rox_mr *mr,
			   const struct rox_bind *bind)
{
	struct rox_mr *parent = NULL;
	int err = rox_bind_check(mr, bind);

	if (!err && bind->length) {
		parent = rox_bind_parent(qp, bind);
		err = PTR_ERR_OR_ZERO(parent);
	}
	/* One that is closed already was so by this bind's first attempt, or is not bound. */
	if (!err || !mr->valid) {
		int busy = rox_window_close(mr);

		if (!busy && !err)
			rox_window_open(qp, mr, parent, bind);
		else if (!IS_ERR_OR_NULL(parent))
			atomic_dec(&parent->windows);
		err = busy ?: err;
	}
	return err;
}

/**
 * rox_mw_bind() - carries out IB_WR_BIND_MW
 * @qp: whose work request it is
 * @bind: the same, not validated
 *
 * Bottom halves disabled.
 * Return: 0; -ENOENT, -EINVAL, -EACCES, -ERANGE for a window or region that is
 * not there, not of the QP's PD, not to be bound or not so; -EBUSY if a burst is
 * using a window that is bound anew: try again soon.
 */
int rox_mw_bind(struct rox_qp *qp, const struct rox_bind *bind)
{
	struct rox_mr *mr;
	int err = -ENOENT;

	rcu_read_lock();
	mr = rox_window_find(qp->dev, bind->mw_rkey);
	if (mr) {
		spin_lock(&mr->win.lock);
		if (rox_window_is_of(mr, qp->ibqp.pd))
			err = rox_window_bind(qp, mr, bind);
		spin_unlock(&mr->win.lock);
	}
	rcu_read_unlock();
	return err;
}

/* Only windows of type 2, and only by the QP that they are bound to. */
static int rox_window_invalidate(const struct rox_qp *qp, struct ib_pd *pd, struct rox_mr *mr,
				 u32 key)
{
	if (!rox_window_is_of(mr, pd) || !mr->win.type2 || mr->key != key)
		return -ENOENT;
	if (mr->win.parent && mr->win.qpn != qp->ibqp.qp_num)
		return -ENOENT;
	return rox_window_close(mr);
}

int rox_key_invalidate(struct rox_qp *qp, struct ib_pd *pd, u32 key)
{
	struct rox_mr *mr;
	int err;

	rcu_read_lock();
	mr = rox_window_find(qp->dev, key);
	if (mr) {
		spin_lock(&mr->win.lock);
		err = rox_window_invalidate(qp, pd, mr, key);
		spin_unlock(&mr->win.lock);
	} else {
		err = rox_mr_invalidate(qp->dev, pd, key);
	}
	rcu_read_unlock();
	return err;
}
