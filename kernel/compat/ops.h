/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Members of struct ib_device_ops whose signature or existence depends on the kernel. A function
 * has the newest signature. ROX_OP_...(function) defines what an older kernel calls in its place,
 * ROX_OPS_...(function) is the initialiser, with its comma:
 *
 *	ROX_OP_CREATE_CQ(rox_create_cq)
 *
 *	const struct ib_device_ops ops = {
 *		ROX_OPS_CREATE_CQ(rox_create_cq)
 *		...
 */
#ifndef ROX_COMPAT_OPS_H
#define ROX_COMPAT_OPS_H

#include <rdma/rdma_counter.h>
#include <rdma/uverbs_ioctl.h>

#ifdef ROX_HAVE_CREATE_CQ_ATTRS
#define ROX_OP_CREATE_CQ(...)
#define ROX_OPS_CREATE_CQ(fn) .create_cq = fn,
#else
/* The core passes the ib_udata inside a uverbs_attr_bundle, or NULL for kernel users. */
#define ROX_OP_CREATE_CQ(fn)								\
static int fn##_udata(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,		\
		      struct ib_udata *udata)						\
{											\
	return fn(ibcq, attr, udata ? rdma_udata_to_uverbs_attr_bundle(udata) : NULL);	\
}

#define ROX_OPS_CREATE_CQ(fn) .create_cq = fn##_udata,
#endif

#ifdef ROX_HAVE_RESIZE_USER_CQ_UINT
#define ROX_OP_RESIZE_CQ(...)
#define ROX_OPS_RESIZE_CQ(fn) .resize_user_cq = fn,
#else
#define ROX_OP_RESIZE_CQ(fn)								\
static int fn##_int(struct ib_cq *ibcq, int cqe, struct ib_udata *udata)		\
{											\
	if (cqe < 0)									\
		return -EINVAL;								\
	return fn(ibcq, cqe, udata);							\
}

#ifdef ROX_HAVE_RESIZE_USER_CQ
#define ROX_OPS_RESIZE_CQ(fn) .resize_user_cq = fn##_int,
#else
#define ROX_OPS_RESIZE_CQ(fn) .resize_cq = fn##_int,
#endif
#endif

#ifdef ROX_HAVE_REG_USER_MR_DMAH
#define ROX_OP_REG_USER_MR(...)
#define ROX_OPS_REG_USER_MR(fn) .reg_user_mr = fn,
#else
#define ROX_OP_REG_USER_MR(fn)								\
static struct ib_mr *fn##_plain(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,	\
				int access, struct ib_udata *udata)			\
{											\
	return fn(ibpd, start, length, iova, access, NULL, udata);			\
}

#define ROX_OPS_REG_USER_MR(fn) .reg_user_mr = fn##_plain,
#endif

#if defined(ROX_HAVE_REG_DMABUF_DMAH)
#define ROX_OP_REG_USER_MR_DMABUF(...)
#define ROX_OPS_REG_USER_MR_DMABUF(fn) .reg_user_mr_dmabuf = fn,
#elif defined(ROX_HAVE_REG_DMABUF_ATTRS)
#define ROX_OP_REG_USER_MR_DMABUF(fn)							\
static struct ib_mr *fn##_attrs(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,	\
				int fd, int access, struct uverbs_attr_bundle *attrs)	\
{											\
	return fn(ibpd, offset, length, iova, fd, access, NULL, attrs);			\
}

#define ROX_OPS_REG_USER_MR_DMABUF(fn) .reg_user_mr_dmabuf = fn##_attrs,
#else
#define ROX_OP_REG_USER_MR_DMABUF(fn)							\
static struct ib_mr *fn##_udata(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,	\
				int fd, int access, struct ib_udata *udata)		\
{											\
	return fn(ibpd, offset, length, iova, fd, access, NULL, NULL);			\
}

#define ROX_OPS_REG_USER_MR_DMABUF(fn) .reg_user_mr_dmabuf = fn##_udata,
#endif

#ifdef ROX_HAVE_FILL_RES_SRQ
#define ROX_OPS_FILL_RES_SRQ(fn) .fill_res_srq_entry = fn,
#else
#define ROX_OPS_FILL_RES_SRQ(...)
#endif

#ifdef ROX_HAVE_COUNTER_PORT
#define ROX_OP_COUNTER_BIND_QP(...)
#define ROX_OPS_COUNTER_BIND_QP(bind, unbind) .counter_bind_qp = bind, .counter_unbind_qp = unbind,
#else
#define ROX_OP_COUNTER_BIND_QP(bind, unbind)						\
static int bind##_plain(struct rdma_counter *counter, struct ib_qp *ibqp)		\
{											\
	return bind(counter, ibqp, 1);							\
}											\
											\
static int unbind##_plain(struct ib_qp *ibqp)						\
{											\
	return unbind(ibqp, 1);								\
}

#define ROX_OPS_COUNTER_BIND_QP(bind, unbind)						\
	.counter_bind_qp = bind##_plain, .counter_unbind_qp = unbind##_plain,
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
