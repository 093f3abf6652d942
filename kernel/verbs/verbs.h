/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The verbs: objects that programs create and change.
 */
#ifndef ROX_VERBS_H
#define ROX_VERBS_H

#include <rdma/uverbs_ioctl.h>
#include "../ring/slab.h"
#include "../transport/transport.h"

/* ---- context and mmap (context.c) ---- */

/**
 * struct rox_ucontext - a program's context
 * @ibuc: the RDMA core's object
 * @number: unique in the module, never 0 and never used again
 * @engines: NULL if the program wants none
 * @shares: the provider knows mappings that objects share
 * @slabs: such mappings
 */
struct rox_ucontext {
	struct ib_ucontext ibuc;
	u64 number;
	struct rox_engines *engines;
	bool shares;
	struct rox_slabs slabs;
};

static inline struct rox_ucontext *to_rox_ucontext(struct ib_ucontext *ibuc)
{
	return container_of(ibuc, struct rox_ucontext, ibuc);
}

/**
 * struct rox_mmap_entry - ring memory that a process may map
 * @entry: the RDMA core's object
 * @mem: the memory
 * @withdrawn: NULL, or completed when the last user of the entry is gone
 */
struct rox_mmap_entry {
	struct rdma_user_mmap_entry entry;
	struct rox_ring_mem mem;
	struct completion *withdrawn;
};

int rox_alloc_ucontext(struct ib_ucontext *uc, struct ib_udata *udata);
void rox_dealloc_ucontext(struct ib_ucontext *uc);
void rox_disassociate_ucontext(struct ib_ucontext *uc);
int rox_mmap(struct ib_ucontext *uc, struct vm_area_struct *vma);
void rox_mmap_free(struct rdma_user_mmap_entry *entry);

/* ---- PD, AH ---- */

struct rox_pd {
	struct ib_pd ibpd;
};

/**
 * struct rox_ib_ah - the RDMA core's object of an address handle
 * @ibah: must be first
 * @ah: the path and its index; may outlive this object
 * @attr: attributes for query_ah
 */
struct rox_ib_ah {
	struct ib_ah ibah;
	struct rox_ah *ah;
	struct rdma_ah_attr attr;
};

static inline struct rox_ib_ah *to_rox_ib_ah(struct ib_ah *ibah)
{
	return container_of(ibah, struct rox_ib_ah, ibah);
}

void rox_ah_table_init(struct rox_dev *dev);
void rox_ah_table_destroy(struct rox_dev *dev);

/* ---- XRC domains, and numbers of XRC SRQs (xrc.c) ---- */

struct rox_xrcd {
	struct ib_xrcd ibxrcd;
};

void rox_xsrq_table_init(struct rox_dev *dev);
void rox_xsrq_table_destroy(struct rox_dev *dev);
int rox_xsrq_reserve(struct rox_srq *srq);
/* Releases the number of an SRQ that was never published. */
void rox_xsrq_cancel(struct rox_srq *srq);
int rox_xsrq_publish(struct rox_srq *srq);
void rox_xsrq_unpublish(struct rox_srq *srq);

/* ---- posting of kernel users (post.c) ---- */

/*
 * Writes a receive WQE of a kernel user into a ring. The caller holds the ring's post lock.
 * Return: 0, -ENOMEM if the ring is full, -EINVAL for a bad number of SGEs.
 */
int rox_rq_post(struct rox_ring *ring, u32 max_sge, const struct ib_recv_wr *wr);
int rox_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int rox_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

/* ---- ops of rox_verbs_ops (device.c), with the signatures of the newest kernel ---- */

struct uverbs_attr_bundle;

int rox_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);
int rox_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata);

struct ib_mr *rox_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rox_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			      int access, struct ib_dmah *dmah, struct ib_udata *udata);
struct ib_mr *rox_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				     int fd, int access, struct ib_dmah *dmah,
				     struct uverbs_attr_bundle *attrs);
struct ib_mr *rox_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata);
struct ib_mr *rox_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int rox_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int rox_advise_mr(struct ib_pd *ibpd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sge, u32 num_sge, struct uverbs_attr_bundle *attrs);

int rox_alloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);
int rox_dealloc_xrcd(struct ib_xrcd *ibxrcd, struct ib_udata *udata);

int rox_create_ah(struct ib_ah *ibah, struct rdma_ah_init_attr *init, struct ib_udata *udata);
int rox_modify_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rox_query_ah(struct ib_ah *ibah, struct rdma_ah_attr *attr);
int rox_destroy_ah(struct ib_ah *ibah, u32 flags);

int rox_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct uverbs_attr_bundle *attrs);
int rox_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
int rox_resize_cq(struct ib_cq *ibcq, unsigned int cqe, struct ib_udata *udata);
int rox_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int rox_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int rox_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

int rox_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init, struct ib_udata *udata);
int rox_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr, enum ib_srq_attr_mask mask,
		   struct ib_udata *udata);
int rox_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int rox_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int rox_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr);

int rox_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init, struct ib_udata *udata);
int rox_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata);
int rox_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int rox_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);

int rox_attach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);
int rox_detach_mcast(struct ib_qp *ibqp, union ib_gid *gid, u16 lid);

/* ---- statistic.c, restrack.c ---- */

int rox_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port);
int rox_counter_unbind_qp(struct ib_qp *ibqp, u32 port);
int rox_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int rox_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int rox_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int rox_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

/* ---- multicast (mcast.c), partitions (pkey.c) ---- */

void rox_mcast_init(struct rox_dev *dev);
void rox_mcast_exit(struct rox_dev *dev);
/* Joins all groups of @dev again after a change of a netdev. The caller holds the RTNL. */
void rox_mcast_refresh(struct rox_dev *dev);

int rox_pkeys_init(struct rox_dev *dev);
void rox_pkeys_exit(struct rox_dev *dev);
int rox_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);
/* The port's files in sysfs, for rox_verbs_ops. */
extern const struct attribute_group *rox_port_groups[];

/* Congestion control in the sysfs of a device (cc.c). At module load, before there is a device. */
void rox_cc_files_init(void);
extern const struct attribute_group rox_cc_group;

/* Objects of the uverbs ioctl (doorbell.c), and methods of the core's objects (cq_wait.c). */
extern const struct uapi_definition rox_uverbs_objects[];
extern const struct uapi_definition rox_cq_wait_def[];

extern const struct ib_device_ops rox_verbs_ops;	/* device, port, objects */
extern const struct ib_device_ops rox_statistic_ops;	/* counters, MADs, rdma resource */

#endif /* ROX_VERBS_H */
