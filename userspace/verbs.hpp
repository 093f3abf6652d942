/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The operations that the provider registers with libibverbs. Unless the manual
 * pages say otherwise, those that return int return 0 or an errno value, and those
 * that return a pointer return nullptr and set errno.
 */
#ifndef ROX_VERBS_HPP
#define ROX_VERBS_HPP

#include "abi/pabi.hpp"

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

namespace rox {

struct Posted;

/* pd.cpp */
ibv_pd *alloc_pd(ibv_context *context);
int dealloc_pd(ibv_pd *pd);
ibv_xrcd *open_xrcd(ibv_context *context, ibv_xrcd_init_attr *attr);
int close_xrcd(ibv_xrcd *xrcd);
ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr);
int dealloc_td(ibv_td *td);
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr);
ibv_mr *reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
ibv_mr *reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                      int access);
int dereg_mr(rdmacore::verbs_mr *vmr);
int rereg_mr(rdmacore::verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length, int access);
ibv_ah *create_ah(ibv_pd *pd, ibv_ah_attr *attr);
int destroy_ah(ibv_ah *ah);

/* mw.cpp */
ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type);
int dealloc_mw(ibv_mw *mw);
int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind);

/* cq.cpp */
ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector);
ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr);
int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr);
int resize_cq(ibv_cq *cq, int cqe);
int destroy_cq(ibv_cq *cq);
int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);

/* cq_ex.cpp */

/// The IBV_WC_EX_WITH_* flags that a CQ supports.
constexpr uint64_t supported_wc_flags = uint64_t{IBV_WC_STANDARD_FLAGS} |
                                        uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                                        uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
/// Sets the functions with which the program polls @p cq.
void set_poll_functions(ibv_cq_ex &cq, uint64_t wc_flags);

/* srq.cpp */
ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr);
ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr);
int get_srq_num(ibv_srq *srq, uint32_t *srq_num);
int modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask);
int query_srq(ibv_srq *srq, ibv_srq_attr *attr);
int destroy_srq(ibv_srq *srq);
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);

/* qp.cpp */
ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr);
ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr);
ibv_qp *open_qp(ibv_context *context, ibv_qp_open_attr *attr);
int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask);
int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr);
int destroy_qp(ibv_qp *qp);
int query_ece(ibv_qp *qp, ibv_ece *ece);
int set_ece(ibv_qp *qp, ibv_ece *ece);

/* post.cpp */
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);
/// After a post that needs a doorbell: rings it, now or later. 0, or an errno value if the device
/// is gone.
int wake_sender(ibv_qp *qp, const Posted &posted);
/// The IBV_QP_EX_WITH_* flags that a QP of @p type supports.
uint64_t supported_send_ops(ibv_qp_type type);
/// Sets the functions with which the program posts to @p qp.
void set_send_functions(ibv_qp_ex &qp, uint64_t send_ops);

/* doorbell.cpp */

/// Makes the doorbell of a context. Its file descriptor, or -1: the uverbs commands will do.
int open_doorbell(int cmd_fd);
/// Makes the kernel look at the send queue. 0, or an errno value if the device is gone.
int ring_send_doorbell(ibv_qp *qp);
/// Makes the kernel look at the receive queue. Returns as ring_send_doorbell().
int ring_recv_doorbell(ibv_qp *qp);

} // namespace rox

#endif // ROX_VERBS_HPP
