/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions whose pages are not pinned: on-demand paging.
 */
#ifndef ROX_ODP_H
#define ROX_ODP_H

#include "mr.h"

enum rox_odp_mode {
	ROX_ODP_READ,		/* pages that may be read */
	ROX_ODP_WRITE,		/* pages that may be written */
	ROX_ODP_PRESENT,	/* what the process has at this moment, nothing else */
};

#if IS_ENABLED(CONFIG_INFINIBAND_ON_DEMAND_PAGING)

#define ROX_HAS_ODP 1

int rox_odp_init(void);
void rox_odp_exit(void);
/* What page faults are handled on: they may wait for memory and for disks. */
extern struct workqueue_struct *rox_odp_wq;

struct ib_mr *rox_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova, int access);
void rox_odp_free(struct rox_odp *odp);

/*
 * Kernel address of @addr if its page is there and allows @access, and in @len how
 * many bytes are contiguous; else NULL and 0. Bottom halves are disabled, and what
 * is returned is good until they are enabled.
 */
void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len);
/* Makes pages present. Process context, @mr referenced. 0, -EFAULT, -EPERM, -EBUSY, -ENOMEM. */
int rox_odp_fault(struct rox_mr *mr, u64 addr, u64 len, enum rox_odp_mode mode);

int rox_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs);

#else

#define ROX_HAS_ODP 0
#define rox_odp_wq rox_wq
#define rox_advise_mr NULL

static inline int rox_odp_init(void)
{
	return 0;
}

static inline void rox_odp_exit(void)
{
}

static inline struct ib_mr *rox_reg_odp_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
					   int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline void rox_odp_free(struct rox_odp *odp)
{
}

static inline void *rox_odp_map(const struct rox_mr *mr, u64 addr, int access, size_t *len)
{
	*len = 0;
	return NULL;
}

static inline int rox_odp_fault(struct rox_mr *mr, u64 addr, u64 len, enum rox_odp_mode mode)
{
	return -EFAULT;
}

#endif

#endif /* ROX_ODP_H */
