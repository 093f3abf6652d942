// SPDX-License-Identifier: GPL-2.0
/*
 * ibv_advise_mr(): a program announces which pages on demand it is going to use.
 */
#include <linux/completion.h>
#include <linux/kref.h>
#include "internal.h"

/* While a caller waits, it checks at this interval whether the device is going away, in ms. */
#define ROX_ADVICE_LOOK	200

/**
 * struct rox_advice - ranges of pages to make present
 * @job: makes them present
 * @ref: one for the job, one for the caller of the verb
 * @done: completed when the job has run
 * @err: result of the job
 * @mode: enum rox_odp_mode
 * @num: number of ranges
 * @range: pages of a region, with a reference; user address; bytes
 */
struct rox_advice {
	struct rox_odp_job job;
	struct kref ref;
	struct completion done;
	int err;
	enum rox_odp_mode mode;
	u32 num;
	struct {
		struct rox_odp *odp;
		u64 va;
		u64 len;
	} range[];
};

static void rox_advice_free(struct kref *ref)
{
	struct rox_advice *advice = container_of(ref, struct rox_advice, ref);

	while (advice->num)
		rox_odp_put(advice->range[--advice->num].odp);
	kvfree(advice);
}

static int rox_advice_do(struct rox_advice *advice)
{
	int err = 0;
	u32 i;

	for (i = 0; i < advice->num && !err; i++)
		err = rox_odp_fault(advice->range[i].odp, advice->range[i].va,
				    advice->range[i].len, advice->mode);
	/* The verb reports -EPERM for rights of the region only, not for those of a mapping. */
	return err == -EPERM ? -EFAULT : err;
}

static void rox_advice_run(struct rox_odp_job *job, struct rox_odp *odp)
{
	struct rox_advice *advice = container_of(job, struct rox_advice, job);

	advice->err = rox_advice_do(advice);
	complete(&advice->done);
	kref_put(&advice->ref, rox_advice_free);
}

/* A page fault may hang. A fatal signal or the end of the device ends the wait. */
static int rox_advice_wait(struct rox_advice *advice, const struct rox_mem *mem)
{
	long left;

	do {
		left = wait_for_completion_killable_timeout(&advice->done,
							    msecs_to_jiffies(ROX_ADVICE_LOOK));
		if (!left && READ_ONCE(mem->leaving))
			left = -EIO;
	} while (!left);
	return left < 0 ? left : advice->err;
}

static int rox_advice_add(struct rox_advice *advice, const struct rox_mem_user *who,
			  const struct ib_sge *sge)
{
	int access = advice->mode == ROX_ODP_WRITE ? IB_ACCESS_LOCAL_WRITE : 0;
	struct rox_mr *mr = rox_mr_get(who, sge->lkey, sge->addr, sge->length, access);

	if (IS_ERR(mr)) {
		switch (PTR_ERR(mr)) {
		case -ERANGE:
			return -EFAULT;
		case -EACCES:
			return -EPERM;
		default:
			return PTR_ERR(mr);
		}
	}
	if (mr->type != ROX_MR_ODP) {
		rox_mr_put(mr);
		return -EINVAL;
	}
	advice->range[advice->num].odp = rox_odp_get(mr->odp);
	advice->range[advice->num].va = rox_odp_va(mr, sge->addr);
	advice->range[advice->num].len = sge->length;
	advice->num++;
	rox_mr_put(mr);
	return 0;
}

static int rox_advice_mode(enum ib_uverbs_advise_mr_advice advice)
{
	switch (advice) {
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH:
		return ROX_ODP_READ;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE:
		return ROX_ODP_WRITE;
	case IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT:
		return ROX_ODP_PRESENT;
	default:
		return -EOPNOTSUPP;
	}
}

/**
 * rox_mem_advise() - carries out ibv_advise_mr()
 * @mem: the device's regions
 * @ibpd: PD
 * @what: enum ib_uverbs_advise_mr_advice
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH to wait until the pages are present
 * @sge: ranges of regions on demand
 * @num_sge: number of ranges
 *
 * Process context, may sleep.
 * Return: 0; -EOPNOTSUPP for an unknown advice; -EINVAL for other flags or a pinned region;
 * -ENOENT for an unknown key; -EPERM for a region of another PD or without the write access that
 * is needed; -EFAULT for a range outside of its region; -ENOMEM. With FLUSH also -EFAULT if the
 * process has no such memory there, -EBUSY if the kernel takes the pages away again and again,
 * -EIO if the device goes away, -ERESTARTSYS for a fatal signal.
 */
int rox_mem_advise(struct rox_mem *mem, struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice what,
		   u32 flags, const struct ib_sge *sge, u32 num_sge)
{
	const struct rox_mem_user who = { .mem = mem, .pd = ibpd, .user = true };
	int mode = rox_advice_mode(what), err = 0;
	struct rox_advice *advice;
	u32 i;

	if (mode < 0)
		return mode;
	if (flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	advice = kvzalloc(struct_size(advice, range, num_sge), ROX_GFP_USER);
	if (!advice)
		return -ENOMEM;
	kref_init(&advice->ref);
	init_completion(&advice->done);
	rox_odp_job_init(&advice->job, rox_advice_run);
	advice->mode = mode;
	for (i = 0; i < num_sge && !err; i++)
		err = rox_advice_add(advice, &who, &sge[i]);
	if (!err && num_sge) {
		kref_get(&advice->ref);
		rox_odp_submit(&advice->job, rox_odp_get(advice->range[0].odp));
		if (flags & IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
			err = rox_advice_wait(advice, mem);
	}
	kref_put(&advice->ref, rox_advice_free);
	return err;
}
