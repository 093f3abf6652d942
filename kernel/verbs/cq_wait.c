// SPDX-License-Identifier: GPL-2.0
/*
 * A method of CQs for programs that poll: sleep until there is something to poll. The uverbs core
 * keeps the CQ while a thread sleeps; who destroys it then gets EBUSY.
 */
#include <rdma/uverbs_types.h>

#include "internal.h"

#define UVERBS_MODULE_NAME rox
#include <rdma/uverbs_named_ioctl.h>

static int UVERBS_HANDLER(ROX_METHOD_CQ_WAIT)(struct uverbs_attr_bundle *attrs)
{
	struct ib_cq *ibcq = uverbs_attr_get_obj(attrs, ROX_ATTR_CQ_WAIT_CQ);
	u32 ns;
	int err;

	err = uverbs_copy_from(&ns, attrs, ROX_ATTR_CQ_WAIT_NS);
	if (err)
		return err;
	return rox_cq_wait(to_rox_cq(ibcq), ns);
}

DECLARE_UVERBS_NAMED_METHOD(ROX_METHOD_CQ_WAIT,
			    UVERBS_ATTR_IDR(ROX_ATTR_CQ_WAIT_CQ, UVERBS_OBJECT_CQ,
					    UVERBS_ACCESS_READ, UA_MANDATORY),
			    UVERBS_ATTR_PTR_IN(ROX_ATTR_CQ_WAIT_NS, UVERBS_ATTR_TYPE(u32),
					       UA_MANDATORY));

ADD_UVERBS_METHODS(rox_cq_methods, UVERBS_OBJECT_CQ, &UVERBS_METHOD(ROX_METHOD_CQ_WAIT));

const struct uapi_definition rox_cq_wait_def[] = {
	UAPI_DEF_CHAIN_OBJ_TREE(UVERBS_OBJECT_CQ, &rox_cq_methods),
	{}
};
