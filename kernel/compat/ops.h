/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Members of struct ib_device_ops whose signature or existence depends on the
 * kernel, as initialisers for functions with the newest signature:
 *
 *	const struct ib_device_ops ops = {
 *		ROX_OPS_CREATE_CQ
 *		ROX_OPS_FILL_RES_SRQ
 *		...
 *
 * Each macro ends with a comma. Files of verbs/ include this header last, as it uses functions
 * that other headers declare.
 */
#ifndef ROX_COMPAT_OPS_H
#define ROX_COMPAT_OPS_H

#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#ifdef ROX_HAVE_CREATE_CQ_ATTRS
#define ROX_OPS_CREATE_CQ .create_cq = rox_create_cq,
#else
/* The core passes the ib_udata inside a uverbs_attr_bundle, or NULL for kernel users. */
static __maybe_unused int rox_create_cq_udata(struct ib_cq *ibcq,
					      const struct ib_cq_init_attr *attr,
					      struct ib_udata *udata)
{
	return rox_create_cq(ibcq, attr,
			     udata ? rdma_udata_to_uverbs_attr_bundle(udata) : NULL);
}

#define ROX_OPS_CREATE_CQ .create_cq = rox_create_cq_udata,
#endif

#ifdef ROX_HAVE_RESIZE_USER_CQ_UINT
#define ROX_OPS_RESIZE_CQ .resize_user_cq = rox_resize_cq,
#else
static __maybe_unused int rox_resize_cq_int(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)
{
	if (cqe < 0)
		return -EINVAL;
	return rox_resize_cq(ibcq, cqe, udata);
}

#ifdef ROX_HAVE_RESIZE_USER_CQ
#define ROX_OPS_RESIZE_CQ .resize_user_cq = rox_resize_cq_int,
#else
#define ROX_OPS_RESIZE_CQ .resize_cq = rox_resize_cq_int,
#endif
#endif

#ifdef ROX_HAVE_REG_USER_MR_DMAH
#define ROX_OPS_REG_USER_MR .reg_user_mr = rox_reg_user_mr,
#else
static __maybe_unused struct ib_mr *rox_reg_user_mr_plain(struct ib_pd *ibpd, u64 start,
							  u64 length, u64 iova, int access,
							  struct ib_udata *udata)
{
	return rox_reg_user_mr(ibpd, start, length, iova, access, NULL, udata);
}

#define ROX_OPS_REG_USER_MR .reg_user_mr = rox_reg_user_mr_plain,
#endif

#if defined(ROX_HAVE_REG_DMABUF_DMAH)
#define ROX_OPS_REG_USER_MR_DMABUF .reg_user_mr_dmabuf = rox_reg_user_mr_dmabuf,
#elif defined(ROX_HAVE_REG_DMABUF_ATTRS)
static __maybe_unused struct ib_mr *
rox_reg_user_mr_dmabuf_attrs(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
			     int access, struct uverbs_attr_bundle *attrs)
{
	return rox_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access, NULL, attrs);
}

#define ROX_OPS_REG_USER_MR_DMABUF .reg_user_mr_dmabuf = rox_reg_user_mr_dmabuf_attrs,
#else
static __maybe_unused struct ib_mr *
rox_reg_user_mr_dmabuf_udata(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova, int fd,
			     int access, struct ib_udata *udata)
{
	return rox_reg_user_mr_dmabuf(ibpd, offset, length, iova, fd, access, NULL, NULL);
}

#define ROX_OPS_REG_USER_MR_DMABUF .reg_user_mr_dmabuf = rox_reg_user_mr_dmabuf_udata,
#endif

#ifdef ROX_HAVE_FILL_RES_SRQ
#define ROX_OPS_FILL_RES_SRQ .fill_res_srq_entry = rox_fill_res_srq,
#else
#define ROX_OPS_FILL_RES_SRQ
#endif

#ifdef ROX_HAVE_COUNTER_PORT
#define ROX_OPS_COUNTER_BIND_QP			\
	.counter_bind_qp = rox_counter_bind_qp,	\
	.counter_unbind_qp = rox_counter_unbind_qp,
#else
static __maybe_unused int rox_counter_bind_qp_plain(struct rdma_counter *counter,
						    struct ib_qp *ibqp)
{
	return rox_counter_bind_qp(counter, ibqp, 1);
}

static __maybe_unused int rox_counter_unbind_qp_plain(struct ib_qp *ibqp)
{
	return rox_counter_unbind_qp(ibqp, 1);
}

#define ROX_OPS_COUNTER_BIND_QP				\
	.counter_bind_qp = rox_counter_bind_qp_plain,	\
	.counter_unbind_qp = rox_counter_unbind_qp_plain,
#endif

/* Newer cores let a driver extend struct rdma_counter, and require the size. */
#ifdef ROX_HAVE_COUNTER_SIZE
struct rox_rdma_counter {
	struct rdma_counter counter;
};

#define ROX_OPS_COUNTER_SIZE INIT_RDMA_OBJ_SIZE(rdma_counter, rox_rdma_counter, counter),
#else
#define ROX_OPS_COUNTER_SIZE
#endif

/* Cores that have the op call it for each new counter without looking whether there is one. */
#ifdef ROX_HAVE_COUNTER_INIT
static __maybe_unused void rox_counter_init(struct rdma_counter *counter)
{
}

#define ROX_OPS_COUNTER_INIT .counter_init = rox_counter_init,
#else
#define ROX_OPS_COUNTER_INIT
#endif

#endif /* ROX_COMPAT_OPS_H */
