/* SPDX-License-Identifier: GPL-2.0 */
/* Our part of `rdma resource show -dd`. */
#ifndef ROX_RESTRACK_H
#define ROX_RESTRACK_H

#include <rdma/ib_verbs.h>

int rox_fill_res_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int rox_fill_res_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int rox_fill_res_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int rox_fill_res_srq(struct sk_buff *msg, struct ib_srq *ibsrq);

#endif /* ROX_RESTRACK_H */
