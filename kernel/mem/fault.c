// SPDX-License-Identifier: GPL-2.0
/*
 * Waiting for missing pages on demand: a job faults them in, and then the waiting side continues
 * where it stopped.
 *
 * The peer only sees a delay. An RNR NAK instead would use up one of its retries and make it wait
 * for its RNR timer, though most pages are present within microseconds.
 */
#include "internal.h"

/**
 * struct rox_fault - pages that a side waits for
 * @job: faults the pages in; owns the other fields while wait->busy
 * @ref: one for the waiter, one for the job while it is under way
 * @lock: held while the job resumes the waiter, and while rox_fault_destroy() clears @wait
 * @wait: the waiter; NULL after rox_fault_destroy(), which does not wait for the job
 * @err: 0, or why the page at @addr could not be faulted in
 * @stale: the request has ended: ignore @err
 * @key: lkey or rkey
 * @addr: first address
 * @va: user address of @addr
 * @len: bytes to fault in, at most ROX_FAULT_BYTES
 * @access: enum ib_access_flags that are needed
 */
struct rox_fault {
	struct rox_odp_job job;
	refcount_t ref;
	struct mutex lock;	/* @wait */
	struct rox_page_wait *wait;
	bool stale;
	int err;
	u32 key;
	u64 addr;
	u64 va;
	u32 len;
	int access;
};

static enum rox_odp_mode rox_fault_mode(const struct rox_fault *fault)
{
	return fault->access & (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE |
				IB_ACCESS_REMOTE_ATOMIC) ? ROX_ODP_WRITE : ROX_ODP_READ;
}

/* The waiter goes on with the first page, and will probably need the others. */
static int rox_fault_handle(const struct rox_fault *fault, struct rox_odp *odp)
{
	int err = rox_odp_fault_some(odp, fault->va, fault->len, rox_fault_mode(fault));

	/* The kernel took the page away each time. The waiter will ask again. */
	return err == -EBUSY ? 0 : err;
}

static void rox_fault_put(struct rox_fault *fault)
{
	if (refcount_dec_and_test(&fault->ref))
		kfree(fault);
}

static void rox_fault_run(struct rox_odp_job *job, struct rox_odp *odp)
{
	struct rox_fault *fault = container_of(job, struct rox_fault, job);
	int err = 0;

	if (odp && READ_ONCE(fault->wait))
		err = rox_fault_handle(fault, odp);
	mutex_lock(&fault->lock);
	if (fault->wait) {
		fault->err = err;
		/* From here on the waiter owns @fault. Pairs with rox_fault_busy(). */
		smp_store_release(&fault->wait->busy, false);
		local_bh_disable();
		fault->wait->resume(fault->wait);
		local_bh_enable();
	}
	mutex_unlock(&fault->lock);
	rox_fault_put(fault);
}

int rox_fault_init(struct rox_page_wait *wait, struct workqueue_struct *wq,
		   void (*resume)(struct rox_page_wait *wait))
{
	struct rox_fault *fault = kzalloc(sizeof(*fault), ROX_GFP_USER);

	if (!fault)
		return -ENOMEM;
	refcount_set(&fault->ref, 1);
	mutex_init(&fault->lock);
	rox_odp_job_init(&fault->job, rox_fault_run);
	fault->wait = wait;
	wait->busy = false;
	wait->jobs = 0;
	wait->fault = fault;
	wait->wq = wq;
	wait->resume = resume;
	return 0;
}

/* A page fault may hang for ever, so a job that runs is not waited for. */
void rox_fault_destroy(struct rox_page_wait *wait)
{
	struct rox_fault *fault = wait->fault;

	mutex_lock(&fault->lock);
	WRITE_ONCE(fault->wait, NULL);
	mutex_unlock(&fault->lock);
	if (rox_odp_cancel(&fault->job))
		rox_fault_put(fault);
	rox_fault_put(fault);
}

void rox_fault_forget(struct rox_page_wait *wait)
{
	wait->fault->stale = true;
}

/*
 * Looks up the pages, and takes a reference on them. Does not keep a reference on the region, as
 * dereg_mr would wait for it. NULL if the look-up fails or the region is not on demand: the
 * waiter's next look-up will report the error.
 */
static struct rox_odp *rox_fault_odp(struct rox_fault *fault, const struct rox_mem_user *who)
{
	struct rox_mr *mr = rox_mr_get(who, fault->key, fault->addr, fault->len, fault->access);
	struct rox_odp *odp = NULL;

	if (IS_ERR(mr))
		return NULL;
	if (mr->type == ROX_MR_ODP) {
		odp = rox_odp_get(mr->odp);
		fault->va = rox_odp_va(mr, fault->addr);
	}
	rox_mr_put(mr);
	return odp;
}

int rox_fault_in(struct rox_page_wait *wait, const struct rox_mem_user *who, u32 key, u64 addr,
		 u32 len, int access)
{
	struct rox_fault *fault = wait->fault;
	struct rox_odp *odp;
	int err;

	/* The job may be for a request that has ended. The waiter will be resumed and ask again. */
	if (rox_fault_busy(wait))
		return -EAGAIN;
	err = fault->err;
	fault->err = 0;
	if (err && !fault->stale && fault->key == key && fault->addr == addr &&
	    fault->access == access)
		return err;
	fault->key = key;
	fault->addr = addr;
	fault->len = min(len, ROX_FAULT_BYTES);
	fault->access = access;
	fault->stale = false;
	WRITE_ONCE(wait->busy, true);
	refcount_inc(&fault->ref);
	odp = rox_fault_odp(fault, who);
	if (odp)
		rox_odp_submit(&fault->job, odp);
	else
		rox_odp_submit_to(&fault->job, wait->wq);
	return -EAGAIN;
}

int rox_fault_at(struct rox_page_wait *wait, const struct rox_iter *it)
{
	const struct rox_sge *sge = &it->sge[it->cur];

	return rox_fault_in(wait, &it->who, sge->lkey, sge->addr + it->off, sge->length - it->off,
			    it->access);
}

int rox_fault_ready(struct rox_page_wait *wait, const struct rox_iter *it, u32 len)
{
	struct rox_iter at = rox_iter_copy(it);
	ssize_t n = 0;
	void *p;

	while (len) {
		n = rox_iter_next(&at, len, &p);
		if (n <= 0)
			break;
		len -= n;
	}
	if (n == -EAGAIN) {
		wait->jobs += !rox_fault_busy(wait) && wait->jobs < U8_MAX;
		n = rox_fault_at(wait, &at);
	} else if (!n && len) {
		n = -EMSGSIZE;
	}
	rox_iter_end(&at);
	if (n < 0)
		return n;
	wait->jobs = 0;
	return 0;
}
