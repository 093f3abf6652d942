// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains. They have no data: MRs, AHs and QPs compare pointers to them.
 */
#include "internal.h"

int rox_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return rox_udata_none(udata);
}

int rox_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}
