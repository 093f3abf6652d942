// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs that make pages on demand present. A job waits for whatever the process would wait for,
 * perhaps for another program that never answers (FUSE, userfaultfd). Such a job cannot be
 * interrupted. So nobody waits for a job, and the number of jobs that run at the same time is
 * limited for each address space and for each user.
 *
 * A job over the limit waits in a list of the share, not in the workqueue, so that it can be
 * cancelled.
 */
#include <linux/cred.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/uidgid.h>
#include "internal.h"

/* Maximum number of jobs that run at the same time: of an address space, of a user, in total. */
#define ROX_ODP_MM_JOBS		8
#define ROX_ODP_USER_JOBS	64
#define ROX_ODP_JOBS		WQ_MAX_ACTIVE

/**
 * struct rox_odp_share - limit of the running jobs of an address space or a user
 * @node: in rox_odp_shares
 * @users: number of regions (address space) or address spaces (user); under rox_odp_shares_lock
 * @mm: the address space; NULL for the share of a user
 * @uid: the user; valid if @mm is NULL
 * @parent: for an address space, the share of its user; NULL for a user
 * @limit: maximum of @running
 * @running: number of jobs that run or wait for @parent
 * @waiting: struct rox_odp_job by @entry, the oldest first
 */
struct rox_odp_share {
	struct list_head node;
	unsigned int users;
	const struct mm_struct *mm;
	kuid_t uid;
	struct rox_odp_share *parent;
	unsigned int limit;
	unsigned int running;
	struct list_head waiting;
};

static DEFINE_MUTEX(rox_odp_shares_lock);
static LIST_HEAD(rox_odp_shares);

/* Protects @running and @waiting of all shares, and @waits of all jobs. */
static DEFINE_SPINLOCK(rox_odp_jobs_lock);

static struct workqueue_struct *rox_odp_wq;
struct workqueue_struct *rox_odp_spare_wq;

/**
 * rox_odp_init() - allocates the workqueues
 *
 * Jobs do not use the transport's workqueues: a job may wait for memory that is freed only after
 * the transport has sent a burst, for which the transport may need a worker. May sleep.
 * Return: 0 or -ENOMEM.
 */
int rox_odp_init(void)
{
	rox_odp_wq = alloc_workqueue("rox_odp", WQ_UNBOUND | WQ_SYSFS, ROX_ODP_JOBS);
	if (!rox_odp_wq)
		return -ENOMEM;
	rox_odp_spare_wq = alloc_workqueue("rox_odp_spare", WQ_UNBOUND, 0);
	if (!rox_odp_spare_wq) {
		destroy_workqueue(rox_odp_wq);
		return -ENOMEM;
	}
	return 0;
}

/**
 * rox_odp_exit() - destroys the workqueues, after all jobs have ended. May sleep.
 */
void rox_odp_exit(void)
{
	destroy_workqueue(rox_odp_wq);
	destroy_workqueue(rox_odp_spare_wq);
}

/* ---- shares ---- */

static struct rox_odp_share *rox_odp_share_find(const struct mm_struct *mm, kuid_t uid)
{
	struct rox_odp_share *share;

	list_for_each_entry(share, &rox_odp_shares, node) {
		if (share->mm == mm && (mm || uid_eq(share->uid, uid)))
			return share;
	}
	return NULL;
}

static struct rox_odp_share *rox_odp_share_new(const struct mm_struct *mm, kuid_t uid,
					       struct rox_odp_share *parent)
{
	struct rox_odp_share *share = kzalloc(sizeof(*share), ROX_GFP_USER);

	if (!share)
		return NULL;
	share->mm = mm;
	share->uid = uid;
	share->parent = parent;
	share->limit = mm ? ROX_ODP_MM_JOBS : ROX_ODP_USER_JOBS;
	INIT_LIST_HEAD(&share->waiting);
	if (parent)
		parent->users++;
	list_add(&share->node, &rox_odp_shares);
	return share;
}

static void rox_odp_share_drop(struct rox_odp_share *share)
{
	struct rox_odp_share *parent;

	for (; share && !share->users; share = parent) {
		parent = share->parent;
		list_del(&share->node);
		kfree(share);
		if (parent)
			parent->users--;
	}
}

/**
 * rox_odp_share_get() - finds or allocates the share of an address space
 * @mm: address space of the calling process; must outlive the share
 *
 * Its parent is the share of the user whose process called this first for @mm. May sleep.
 * Return: the share, or NULL without memory.
 */
struct rox_odp_share *rox_odp_share_get(const struct mm_struct *mm)
{
	struct rox_odp_share *share, *parent;

	mutex_lock(&rox_odp_shares_lock);
	share = rox_odp_share_find(mm, INVALID_UID);
	if (!share) {
		parent = rox_odp_share_find(NULL, current_uid());
		if (!parent)
			parent = rox_odp_share_new(NULL, current_uid(), NULL);
		if (parent)
			share = rox_odp_share_new(mm, INVALID_UID, parent);
		if (!share)
			rox_odp_share_drop(parent);
	}
	if (share)
		share->users++;
	mutex_unlock(&rox_odp_shares_lock);
	return share;
}

/**
 * rox_odp_share_put() - drops a reference on a share
 * @share: from rox_odp_share_get(); all jobs of the caller have ended
 *
 * May sleep.
 */
void rox_odp_share_put(struct rox_odp_share *share)
{
	mutex_lock(&rox_odp_shares_lock);
	share->users--;
	rox_odp_share_drop(share);
	mutex_unlock(&rox_odp_shares_lock);
}

/* ---- jobs ---- */

/* Counts @job in @share and its parents, and queues it. Where the limit is reached, it waits. */
static void rox_odp_job_enter(struct rox_odp_share *share, struct rox_odp_job *job)
{
	lockdep_assert_held(&rox_odp_jobs_lock);
	for (; share; share = share->parent) {
		if (share->running == share->limit) {
			job->waits = share;
			list_add_tail(&job->entry, &share->waiting);
			return;
		}
		share->running++;
	}
	queue_work(rox_odp_wq, &job->work);
}

/*
 * A job ends: frees its place in @share and the parents of @share below @end. If a job waits
 * there, it gets the place.
 */
static void rox_odp_job_leave(struct rox_odp_share *share, const struct rox_odp_share *end)
{
	struct rox_odp_job *job;

	lockdep_assert_held(&rox_odp_jobs_lock);
	for (; share != end; share = share->parent) {
		job = list_first_entry_or_null(&share->waiting, struct rox_odp_job, entry);
		if (!job) {
			share->running--;
			continue;
		}
		list_del(&job->entry);
		job->waits = NULL;
		rox_odp_job_enter(share->parent, job);
	}
}

static void rox_odp_job_work(struct work_struct *work)
{
	struct rox_odp_job *job = container_of(work, struct rox_odp_job, work);
	struct rox_odp *odp = job->odp;
	unsigned long flags;

	/* After this the owner may submit or free @job. Do not access it. */
	job->run(job, odp);
	if (odp) {
		spin_lock_irqsave(&rox_odp_jobs_lock, flags);
		rox_odp_job_leave(rox_odp_share(odp), NULL);
		spin_unlock_irqrestore(&rox_odp_jobs_lock, flags);
		rox_odp_put(odp);
	}
	/* The module may be unloaded after this. rox_odp_exit() waits until this work returns. */
	module_put(THIS_MODULE);
}

/**
 * rox_odp_job_init() - initialises a job
 * @job: must live until it has been run or cancelled
 * @run: called by a worker, with the @odp of rox_odp_submit(); may call rox_odp_fault()
 */
void rox_odp_job_init(struct rox_odp_job *job,
		      void (*run)(struct rox_odp_job *job, struct rox_odp *odp))
{
	INIT_WORK(&job->work, rox_odp_job_work);
	job->waits = NULL;
	job->run = run;
}

/**
 * rox_odp_submit() - runs a job in a worker
 * @job: not under way; @run may submit it again
 * @odp: pages of the region; takes over the caller's reference
 *
 * Any context. The job holds a reference on the module until it has been run.
 */
void rox_odp_submit(struct rox_odp_job *job, struct rox_odp *odp)
{
	unsigned long flags;

	__module_get(THIS_MODULE);
	job->odp = odp;
	spin_lock_irqsave(&rox_odp_jobs_lock, flags);
	rox_odp_job_enter(rox_odp_share(odp), job);
	spin_unlock_irqrestore(&rox_odp_jobs_lock, flags);
}

/**
 * rox_odp_submit_to() - runs a job that faults in no pages, without a limit
 * @job: as in rox_odp_submit()
 * @wq: workqueue, must live until the job has been run
 *
 * Any context.
 */
void rox_odp_submit_to(struct rox_odp_job *job, struct workqueue_struct *wq)
{
	__module_get(THIS_MODULE);
	job->odp = NULL;
	queue_work(wq, &job->work);
}

/**
 * rox_odp_cancel() - cancels a job that waits for a place in a share
 * @job: was submitted or not
 *
 * Process context.
 * Return: true if it was cancelled; false if it was not submitted, or is queued or running.
 */
bool rox_odp_cancel(struct rox_odp_job *job)
{
	unsigned long flags;
	bool waits;

	spin_lock_irqsave(&rox_odp_jobs_lock, flags);
	waits = job->waits;
	if (waits) {
		list_del(&job->entry);
		rox_odp_job_leave(rox_odp_share(job->odp), job->waits);
		job->waits = NULL;
	}
	spin_unlock_irqrestore(&rox_odp_jobs_lock, flags);
	if (waits) {
		rox_odp_put(job->odp);
		module_put(THIS_MODULE);
	}
	return waits;
}
