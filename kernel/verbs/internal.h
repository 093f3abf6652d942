/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the files of verbs/ share: limits, and the memory of objects with rings.
 */
#ifndef ROX_VERBS_INTERNAL_H
#define ROX_VERBS_INTERNAL_H

#include <linux/in.h>
#include <net/ipv6.h>
#include <rdma/uverbs_ioctl.h>
#include "verbs.h"

/**
 * rox_count_object() - takes one object off a limit of the device
 * @count: how many there are
 * @max: how many there may be
 *
 * Return: 0 or -ENOMEM. The object's end is atomic_dec().
 */
static inline int rox_count_object(atomic_t *count, int max)
{
	if (atomic_inc_return(count) <= max)
		return 0;
	atomic_dec(count);
	return -ENOMEM;
}

/**
 * rox_rings_free() - the end of ring memory
 * @mem: the memory
 * @entry: how it was offered to the process, or NULL
 *
 * A mapping that the process still has keeps the pages; the kernel's end is over.
 */
static inline void rox_rings_free(struct rox_ring_mem *mem, struct rdma_user_mmap_entry *entry)
{
	rox_mmap_withdraw(entry);
	rox_ring_mem_free(mem);
}

static inline struct ib_ucontext *rox_udata_context(struct ib_udata *udata)
{
	return &rdma_udata_to_drv_context(udata, struct rox_ucontext, ibuc)->ibuc;
}

/* A packet can be sent to it: a unicast address, or, if @datagram, a multicast one. */
static inline bool rox_dgid_ok(const struct rdma_ah_attr *attr, bool datagram)
{
	const struct in6_addr *gid = (const struct in6_addr *)rdma_ah_read_grh(attr)->dgid.raw;

	if (ipv6_addr_any(gid))
		return false;
	if (!ipv6_addr_v4mapped(gid))
		return datagram || !ipv6_addr_is_multicast(gid);
	return !ipv4_is_zeronet(gid->s6_addr32[3]) && !ipv4_is_lbcast(gid->s6_addr32[3]) &&
	       (datagram || !ipv4_is_multicast(gid->s6_addr32[3]));
}

/* How dev->mrs finds MRs. */
extern const struct rhashtable_params rox_mr_params;

/* Without a reference: only to be given to a kernel user that owns the QP. NULL if it is gone. */
struct ib_qp *rox_qp_peek(struct rox_dev *dev, u32 qpn);

#endif /* ROX_VERBS_INTERNAL_H */
