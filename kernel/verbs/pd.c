// SPDX-License-Identifier: GPL-2.0
/*
 * Protection domains. One is no more than its address: MRs, AHs and QPs compare it.
 */
#include "internal.h"

int rox_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}

int rox_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	return 0;
}
