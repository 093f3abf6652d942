// SPDX-License-Identifier: GPL-2.0
/*
 * The iterator through which all payload goes: an SGE list, piece by piece.
 */
#include <linux/string.h>
#include "odp.h"
#include "verbs.h"

static void rox_iter_leave(struct rox_iter *it)
{
	if (it->keep && it->mr) {
		rox_mr_release(it->keep);
		*it->keep = it->mr;
	} else if (it->mr) {
		rox_mr_put(it->mr);
	}
	it->mr = NULL;
}

/**
 * rox_iter_init() - begins at the first byte of an SGE list
 * @it: filled; holds no reference
 * @dev: device
 * @pd: PD of the QP
 * @sge: list; must live as long as the iterator
 * @num_sge: elements
 * @access: rights that each of the MRs must grant
 * @user: the list is from a process
 */
void rox_iter_init(struct rox_iter *it, struct rox_dev *dev, struct ib_pd *pd,
		   const struct rox_sge *sge, u32 num_sge, int access, bool user)
{
	*it = (struct rox_iter) {
		.dev = dev,
		.pd = pd,
		.sge = sge,
		.num_sge = num_sge,
		.access = access,
		.user = user,
	};
}

void rox_iter_init_remote(struct rox_iter *it, const struct rox_qp *qp,
			  const struct rox_sge *sge, int access)
{
	*it = (struct rox_iter) {
		.dev = qp->dev,
		.sge = sge,
		.num_sge = 1,
		.access = access,
		.peer_of = qp,
	};
}

/* Is the MR that was left last the one again? */
static bool rox_iter_again(const struct rox_iter *it, const struct rox_sge *sge)
{
	if (!it->keep || !*it->keep)
		return false;
	if (it->peer_of)
		return rox_mr_is_remote(*it->keep, it->peer_of, sge->lkey, sge->addr, sge->length,
					it->access);
	return rox_mr_is(*it->keep, it->pd, sge->lkey, sge->addr, sge->length, it->access,
			 it->user);
}

/* An SGE is looked up as a whole: a list is good or bad wherever it is begun. */
static struct rox_mr *rox_iter_lookup(const struct rox_iter *it, const struct rox_sge *sge)
{
	struct rox_mr *mr;

	if (rox_iter_again(it, sge)) {
		mr = *it->keep;
		*it->keep = NULL;
		return mr;
	}
	if (it->keep)
		rox_mr_release(it->keep);
	if (it->peer_of)
		return rox_mr_get_remote(it->peer_of, sge->lkey, sge->addr, sge->length,
					 it->access);
	return rox_mr_get(it->dev, it->pd, sge->lkey, sge->addr, sge->length, it->access,
			  it->user);
}

/* Elements of no length need no MR. */
int rox_iter_check(struct rox_iter *it)
{
	struct rox_mr *mr;
	int on_demand = 0;
	u32 i;

	for (i = 0; i < it->num_sge; i++) {
		if (!it->sge[i].length)
			continue;
		mr = rox_iter_lookup(it, &it->sge[i]);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		on_demand |= mr->type == ROX_MR_ODP;
		rox_mr_put(mr);
	}
	return on_demand;
}

int rox_iter_begin(struct rox_iter *it)
{
	struct rox_mr *mr = rox_iter_lookup(it, it->sge);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	it->mr = mr;
	return mr->type == ROX_MR_ODP;
}

void rox_iter_seek(struct rox_iter *it, u64 offset)
{
	u32 cur = 0;

	while (cur < it->num_sge && offset >= it->sge[cur].length)
		offset -= it->sge[cur++].length;
	if (cur != it->cur)
		rox_iter_leave(it);
	it->cur = cur;
	it->off = cur < it->num_sge ? offset : 0;
}

void rox_iter_return(struct rox_iter *it, u32 cur, u32 off)
{
	if (cur != it->cur)
		rox_iter_leave(it);
	it->cur = cur;
	it->off = off;
}

void rox_iter_advance(struct rox_iter *it, u32 n)
{
	u32 cur = it->cur, off = it->off;

	while (n && cur < it->num_sge) {
		u32 step = min(n, it->sge[cur].length - off);

		n -= step;
		off += step;
		if (n) {
			cur++;
			off = 0;
		}
	}
	rox_iter_return(it, cur, off);
}

/* What rox_mr_map() does not find. */
static ssize_t rox_iter_on_demand(struct rox_iter *it, size_t max, void **p)
{
	const struct rox_sge *sge = &it->sge[it->cur];

	if (it->mr->type != ROX_MR_ODP)
		return 0;
	max = min_t(size_t, max, sge->length - it->off);
	*p = rox_odp_map(it->mr, sge->addr + it->off, it->access, &max);
	if (!*p)
		return -EAGAIN;
	it->off += max;
	return max;
}

ssize_t rox_iter_next(struct rox_iter *it, size_t max, void **p)
{
	const struct rox_sge *sge;
	size_t wanted = max;
	struct rox_mr *mr;

	/* What was given out last may have been in use until now: only now is its MR left. */
	while (it->cur < it->num_sge && it->off == it->sge[it->cur].length) {
		rox_iter_leave(it);
		it->cur++;
		it->off = 0;
	}
	if (it->cur == it->num_sge)
		return 0;

	sge = &it->sge[it->cur];
	if (!it->mr) {
		mr = rox_iter_lookup(it, sge);
		if (IS_ERR(mr))
			return PTR_ERR(mr);
		it->mr = mr;
	}
	max = min_t(size_t, max, sge->length - it->off);
	*p = rox_mr_map(it->mr, sge->addr + it->off, &max);
	if (unlikely(!max))
		return rox_iter_on_demand(it, wanted, p);
	it->off += max;
	return max;
}

int rox_iter_write(struct rox_iter *it, const void *src, size_t len)
{
	ssize_t n;
	void *p;

	while (len) {
		n = rox_iter_next(it, len, &p);
		if (n <= 0)
			return n ? n : -EMSGSIZE;
		memcpy(p, src, n);
		src += n;
		len -= n;
	}
	return 0;
}

/**
 * rox_iter_end() - lets go of the MR that the iterator stands on
 * @it: keeps its position, and may be used again
 */
void rox_iter_end(struct rox_iter *it)
{
	rox_iter_leave(it);
}
