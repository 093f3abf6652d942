// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs of memory regions and windows. They check the arguments and call functions of mem/.
 */
#include "internal.h"

static struct rox_mem *rox_pd_mem(const struct ib_pd *ibpd)
{
	return &to_rox_dev(ibpd->device)->mem;
}

struct ib_mr *rox_get_dma_mr(struct ib_pd *ibpd, int access)
{
	return rox_mem_all(rox_pd_mem(ibpd), ibpd, access);
}

/* DMA handles (dmah) are not supported, as the device does no DMA. */
struct ib_mr *rox_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			      int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	int err;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	err = rox_udata_none(udata);
	if (err)
		return ERR_PTR(err);
	return rox_mem_register(rox_pd_mem(ibpd), ibpd, start, length, iova, access);
}

struct ib_mr *rox_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				     int fd, int access, struct ib_dmah *dmah,
				     struct uverbs_attr_bundle *attrs)
{
	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	return rox_mem_register_dmabuf(rox_pd_mem(ibpd), ibpd, offset, length, iova, fd, access);
}

struct ib_mr *rox_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata)
{
	int err = rox_udata_none(udata);

	if (err)
		return ERR_PTR(err);
	return rox_mem_reregister(ibmr, flags, start, length, iova, access, pd);
}

struct ib_mr *rox_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg)
{
	return rox_mem_alloc_fast(rox_pd_mem(ibpd), ibpd, type, max_num_sg);
}

int rox_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	return rox_udata_none(udata) ?: rox_mem_alloc_window(rox_pd_mem(ibmw->pd), ibmw);
}

int rox_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs)
{
	return rox_mem_advise(rox_pd_mem(ibpd), ibpd, advice, flags, sge, num_sge);
}
