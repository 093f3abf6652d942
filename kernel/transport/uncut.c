// SPDX-License-Identifier: GPL-2.0
/*
 * Tells the peer of a connection that its frames come as it has made them, so that it can leave out
 * ICRCs that are not looked at: see net/near.c.
 */
#include "internal.h"

void rox_uncut_tell(struct rox_qp *qp)
{
	struct rox_burst b = {};

	WRITE_ONCE(qp->ep.uncut, false);
	if (!rox_can_receive(qp) || qp->ibqp.qp_type != IB_QPT_RC)
		return;
	rox_burst_init(qp, &b, 0);
	b.op_first = ROX_OPCODE_UNCUT;
	rox_xmit(&b);
}
