/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions whose pages are not pinned: on-demand paging. Included by mem.h.
 */
#ifndef ROX_ODP_H
#define ROX_ODP_H

enum rox_odp_mode {
	ROX_ODP_READ,		/* fault in pages for reading */
	ROX_ODP_WRITE,		/* fault in pages for writing */
	ROX_ODP_PRESENT,	/* use pages that are present, fault in none */
};

struct rox_odp_share;

/**
 * struct rox_odp_job - a job that makes pages present (odp_job.c)
 * @work: runs @run
 * @odp: pages of the region, with a reference while the job is under way; or NULL
 * @waits: the share that has reached its limit and that the job waits for, or NULL
 * @entry: in @waits->waiting
 * @run: see rox_odp_job_init()
 */
struct rox_odp_job {
	struct work_struct work;
	struct rox_odp *odp;
	struct rox_odp_share *waits;
	struct list_head entry;
	void (*run)(struct rox_odp_job *job, struct rox_odp *odp);
};

#if IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)

#define ROX_HAS_ODP 1

int rox_odp_init(void);
void rox_odp_exit(void);
/* Runs the work that frees empty chunks. */
extern struct workqueue_struct *rox_odp_spare_wq;

struct ib_mr *rox_reg_odp_mr(struct rox_mem *mem, struct ib_pd *ibpd, u64 start, u64 length,
			     u64 iova, int access);
void rox_odp_free(struct rox_odp *odp);
struct rox_odp *rox_odp_get(struct rox_odp *odp);
void rox_odp_put(struct rox_odp *odp);
/* The user address for @addr, an address in work requests. Any context. */
u64 rox_odp_va(const struct rox_mr *mr, u64 addr);

struct rox_odp_share *rox_odp_share_get(const struct mm_struct *mm);
void rox_odp_share_put(struct rox_odp_share *share);
/* The share that limits the jobs of @odp. Any context. */
struct rox_odp_share *rox_odp_share(const struct rox_odp *odp);

void rox_odp_job_init(struct rox_odp_job *job,
		      void (*run)(struct rox_odp_job *job, struct rox_odp *odp));
void rox_odp_submit(struct rox_odp_job *job, struct rox_odp *odp);
void rox_odp_submit_to(struct rox_odp_job *job, struct workqueue_struct *wq);
bool rox_odp_cancel(struct rox_odp_job *job);

/*
 * Translates @addr to a kernel address. *@len is the number of bytes that the caller wants, and
 * becomes the number that is contiguous there. Only in a run of a QP's side, with bottom halves
 * disabled. The address is valid until rox_odp_done(), which the outermost run calls at its end.
 * Return: the address; NULL, with *@len 0, if the page is missing or does not allow @access.
 */
void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len);
int rox_odp_fault(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode);
int rox_odp_fault_some(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode);

DECLARE_PER_CPU(unsigned int, rox_odp_phase);
void rox_odp_leave(void);

/* This CPU has finished with all addresses that rox_odp_map() returned. */
static inline void rox_odp_done(void)
{
	if (unlikely(this_cpu_read(rox_odp_phase) & 1))
		rox_odp_leave();
}

int rox_mem_advise(struct rox_mem *mem, struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice what,
		   u32 flags, const struct ib_sge *sge, u32 num_sge);

#else

#define ROX_HAS_ODP 0

static inline int rox_odp_init(void)
{
	return 0;
}

static inline void rox_odp_exit(void)
{
}

static inline struct ib_mr *rox_reg_odp_mr(struct rox_mem *mem, struct ib_pd *ibpd, u64 start,
					   u64 length, u64 iova, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void rox_odp_free(struct rox_odp *odp)
{
}

static inline struct rox_odp *rox_odp_get(struct rox_odp *odp)
{
	return odp;
}

static inline u64 rox_odp_va(const struct rox_mr *mr, u64 addr)
{
	return addr;
}

/* Without regions on demand there are no jobs. */
static inline void rox_odp_job_init(struct rox_odp_job *job,
				    void (*run)(struct rox_odp_job *job, struct rox_odp *odp))
{
}

static inline void rox_odp_submit(struct rox_odp_job *job, struct rox_odp *odp)
{
}

static inline void rox_odp_submit_to(struct rox_odp_job *job, struct workqueue_struct *wq)
{
}

static inline bool rox_odp_cancel(struct rox_odp_job *job)
{
	return false;
}

static inline void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len)
{
	*len = 0;
	return NULL;
}

static inline int rox_odp_fault(struct rox_odp *odp, u64 va, u64 len, enum rox_odp_mode mode)
{
	return -EFAULT;
}

static inline int rox_odp_fault_some(struct rox_odp *odp, u64 va, u64 len,
				     enum rox_odp_mode mode)
{
	return -EFAULT;
}

static inline void rox_odp_done(void)
{
}

static inline int rox_mem_advise(struct rox_mem *mem, struct ib_pd *ibpd,
				 enum ib_uverbs_advise_mr_advice what, u32 flags,
				 const struct ib_sge *sge, u32 num_sge)
{
	return -EOPNOTSUPP;
}

#endif

#endif /* ROX_ODP_H */
