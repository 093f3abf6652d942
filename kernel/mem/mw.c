// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: a part of a memory region with its own key and rights, which work requests set
 * (IBTA volume 1, 10.6.7). Types 1 and 2B.
 *
 * A window is an entry of the table of regions, and uses the blocks of the region that it is bound
 * to. So the data path treats it as a region. A region counts its windows. It cannot be
 * deregistered while windows are bound to it.
 */
#include "internal.h"

#define ROX_WINDOW_RIGHTS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			   IB_ACCESS_REMOTE_ATOMIC)
/* Some programs set IB_ACCESS_LOCAL_WRITE. It has no effect, as only peers use a window. */
#define ROX_WINDOW_ACCESS (ROX_WINDOW_RIGHTS | IB_ACCESS_LOCAL_WRITE | IB_ZERO_BASED)

static inline struct rox_mw *to_rox_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct rox_mw, ibmw);
}

/*
 * The caller holds the RCU lock. Ignores the lower 8 bits of @key, which the owner of the window
 * may change.
 */
static struct rox_mr *rox_window_find(struct rox_mem *mem, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr = rhashtable_lookup(&mem->mrs, &index, rox_mr_params);

	return mr && mr->type == ROX_MR_WINDOW ? mr : NULL;
}

/* May a QP of PD @pd bind or invalidate the window? The caller holds the window's lock. */
static bool rox_window_is_of(const struct rox_mr *mr, const struct ib_pd *pd)
{
	return !mr->win.dead && mr->ibmr.pd == pd;
}

/**
 * rox_mem_alloc_window() - allocates a memory window that is not bound
 * @mem: the device's regions
 * @ibmw: window of type 1 or 2
 *
 * May sleep. Return: 0, -ENOMEM, or an error of rox_mr_publish().
 */
int rox_mem_alloc_window(struct rox_mem *mem, struct ib_mw *ibmw)
{
	struct rox_mw *mw = to_rox_mw(ibmw);
	struct rox_mr *mr;
	int err;

	mr = rox_mr_alloc(mem, ibmw->pd, ROX_MR_WINDOW, 0);
	if (!mr)
		return -ENOMEM;
	mr->win.type2 = ibmw->type == IB_MW_TYPE_2;
	err = rox_mr_publish(mr);
	if (err) {
		rox_mr_free(mr);
		return err;
	}
	mw->mr = mr;
	ibmw->rkey = mr->key;
	return 0;
}

/* Ends the binding of a window that nobody uses. */
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
 * rox_dealloc_mw() - deallocates a memory window, bound or not
 * @ibmw: window
 *
 * May sleep. After it returns, nobody accesses memory through the window.
 * Return: 0.
 */
int rox_dealloc_mw(struct ib_mw *ibmw)
{
	struct rox_mr *mr = to_rox_mw(ibmw)->mr;

	rhashtable_remove_fast(&mr->mem->mrs, &mr->node, rox_mr_params);
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
 * Invalidates a window and ends its binding. The caller holds the window's lock. Return: 0, or
 * -EBUSY while a burst uses the window: new accesses fail already, try again soon.
 */
static int rox_window_close(struct rox_mr *mr)
{
	WRITE_ONCE(mr->valid, false);
	/* Pairs with rox_mr_get(): clear the flag before the check of the references. */
	smp_mb();
	if (refcount_read(&mr->ref) > 1)
		return -EBUSY;
	rox_window_detach(mr);
	return 0;
}

/**
 * rox_bind_is_known() - tests whether a bind has known access flags only
 * @bind: bind
 *
 * IB_ACCESS_OPTIONAL flags are accepted and ignored. Any context.
 * Return: true if all flags are known.
 */
bool rox_bind_is_known(const struct rox_bind *bind)
{
	return !(bind->access & ~(ROX_WINDOW_ACCESS | IB_ACCESS_OPTIONAL));
}

/* May this window be bound as @bind says? */
static int rox_bind_check(const struct rox_mr *mr, const struct rox_bind *bind)
{
	if (bind->new_rkey >> 8 != mr->index)
		return -EINVAL;
	if (mr->win.type2 && (mr->valid || !bind->length))
		return -EINVAL;
	return rox_bind_is_known(bind) ? 0 : -EINVAL;
}

/* May a window be bound to this region as @bind says? */
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

/* Finds the region to bind to and counts one more window of it. Return: the region or ERR_PTR. */
static struct rox_mr *rox_bind_parent(const struct rox_mem_user *who,
				      const struct rox_bind *bind)
{
	const struct rox_mem_user owner = { .mem = who->mem, .pd = who->pd, .user = true };
	struct rox_mr *parent;
	int err;

	parent = rox_mr_get(&owner, bind->mr_lkey, bind->addr, 0, 0);
	if (IS_ERR(parent))
		return parent;
	err = rox_bind_check_parent(parent, bind);
	if (!err && !atomic_inc_unless_negative(&parent->windows))
		err = -ENOENT;
	rox_mr_put(parent);
	return err ? ERR_PTR(err) : parent;
}

/* Binds a window that is closed and detached. Without @parent only its key changes. */
static void rox_window_open(const struct rox_mem_user *who, struct rox_mr *mr,
			    struct rox_mr *parent, const struct rox_bind *bind)
{
	WRITE_ONCE(mr->key, bind->new_rkey);
	if (!parent)
		return;
	mr->win.parent = parent;
	mr->win.qpn = mr->win.type2 ? who->qpn : 0;
	mr->access = bind->access & ROX_WINDOW_RIGHTS;
	mr->iova = bind->access & IB_ZERO_BASED ? 0 : bind->addr;
	mr->length = bind->length;
	mr->offset = parent->offset + (bind->addr - parent->iova);
	mr->page_shift = parent->page_shift;
	mr->blocks = parent->blocks;
	mr->nblocks = parent->nblocks;
	/* Pairs with the acquire in rox_mr_get(): set all fields before the flag. */
	smp_store_release(&mr->valid, true);
}

/* The caller holds the window's lock. A bind that is refused does not change a valid window. */
static int rox_window_bind(const struct rox_mem_user *who, struct rox_mr *mr,
			   const struct rox_bind *bind)
{
	struct rox_mr *parent = NULL;
	int err = rox_bind_check(mr, bind);

	if (!err && bind->length) {
		parent = rox_bind_parent(who, bind);
		err = PTR_ERR_OR_ZERO(parent);
	}
	/*
	 * A window that is not valid is unbound, or a first attempt of this bind has closed it and
	 * found it in use. Then finish closing it even if the bind is refused.
	 */
	if (!err || !mr->valid) {
		int busy = rox_window_close(mr);

		if (!busy && !err)
			rox_window_open(who, mr, parent, bind);
		else if (!IS_ERR_OR_NULL(parent))
			atomic_dec(&parent->windows);
		err = busy ?: err;
	}
	return err;
}

/**
 * rox_mw_bind() - carries out IB_WR_BIND_MW
 * @who: the QP that carries out the work request; @qpn is its number
 * @bind: the bind of the work request, not validated
 *
 * Bottom halves disabled.
 * Return: 0; -ENOENT if the PD has no such window, or if there is no such region; -EPERM if the
 * region is of another PD;
 * -EINVAL if the window cannot be bound in this way; -EACCES if the region does not allow it;
 * -ERANGE if the range is not within the region; -EBUSY while a burst uses the old binding of the
 * window: try again soon.
 */
int rox_mw_bind(const struct rox_mem_user *who, const struct rox_bind *bind)
{
	struct rox_mr *mr;
	int err = -ENOENT;

	rcu_read_lock();
	mr = rox_window_find(who->mem, bind->mw_rkey);
	if (mr) {
		spin_lock(&mr->win.lock);
		if (rox_window_is_of(mr, who->pd))
			err = rox_window_bind(who, mr, bind);
		spin_unlock(&mr->win.lock);
	}
	rcu_read_unlock();
	return err;
}

/* Only type 2 windows can be invalidated, and only through the QP that they are bound to. */
static int rox_window_invalidate(const struct rox_mem_user *who, struct rox_mr *mr, u32 key)
{
	if (!rox_window_is_of(mr, who->pd) || !mr->win.type2 || mr->key != key)
		return -ENOENT;
	if (mr->win.parent && mr->win.qpn != who->qpn)
		return -ENOENT;
	return rox_window_close(mr);
}

int rox_key_invalidate(const struct rox_mem_user *who, u32 key)
{
	struct rox_mr *mr;
	int err;

	rcu_read_lock();
	mr = rox_window_find(who->mem, key);
	if (mr) {
		spin_lock(&mr->win.lock);
		err = rox_window_invalidate(who, mr, key);
		spin_unlock(&mr->win.lock);
	} else {
		err = rox_mr_invalidate(who->mem, who->pd, key);
	}
	rcu_read_unlock();
	return err;
}
