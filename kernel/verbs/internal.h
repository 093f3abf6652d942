/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Declarations for verbs/ only: requests and responses, and rings that are created or resized.
 */
#ifndef ROX_VERBS_INTERNAL_H
#define ROX_VERBS_INTERNAL_H

#include <linux/in.h>
#include <net/ipv6.h>
#include <rdma/uverbs_ioctl.h>
#include "verbs.h"

/* ---- memory of rings (context.c) ---- */

/**
 * struct rox_offer - where a process finds the rings of an object
 * @map: the mapping
 * @place: where in it
 */
struct rox_offer {
	struct rox_mapping map;
	struct rox_place place;
};

int rox_rings_alloc(struct rox_ring_mem *mem, size_t size, struct ib_udata *udata, bool knows,
		    struct rox_offer *offer);
void rox_rings_free(struct rox_ring_mem *mem);

/* ---- requests and responses (udata.c), see Documentation/abi.md ---- */

int rox_udata_get(struct ib_udata *udata, void *req, size_t size, size_t least);
int rox_udata_get_flags(struct ib_udata *udata, u32 known, u32 *flags);
int rox_udata_put(struct ib_udata *udata, const void *resp, size_t size);

/*
 * For a command without a driver's part of the request. Whatever a newer provider sends must be 0.
 * Return: as rox_udata_get().
 */
static inline int rox_udata_none(struct ib_udata *udata)
{
	return rox_udata_get(udata, NULL, 0, 0);
}

/*
 * Checks that the response has room for @least bytes, without which the program cannot use the
 * object. Return: 0, or -ENOSPC, as the core returns for its own part.
 */
static inline int rox_udata_has_room(const struct ib_udata *udata, size_t least)
{
	return udata && udata->outlen < least ? -ENOSPC : 0;
}

static inline struct ib_ucontext *rox_udata_context(struct ib_udata *udata)
{
	return &rdma_udata_to_drv_context(udata, struct rox_ucontext, ibuc)->ibuc;
}

/* Does the provider read a member of the response that ends at @end? */
static inline bool rox_udata_knows(const struct ib_udata *udata, size_t end)
{
	return udata && udata->outlen >= end;
}

/* Can packets be sent to this GID? A multicast address is valid for datagrams only. */
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

/* Number of entries that a resize copies at a time, with interrupts off. */
#define ROX_RESIZE_STEP 64U

/**
 * struct rox_cq_ring - a ring that a CQ gets by create or resize
 * @mem: its memory
 * @ring: the ring
 * @moved: resize: index of the next entry to copy
 */
struct rox_cq_ring {
	struct rox_ring_mem mem;
	struct rox_ring ring;
	u32 moved;
};

/**
 * struct rox_srq_ring - a ring that an SRQ gets by create or resize
 * @mem: its memory
 * @ring: the ring
 * @resp: response that describes the ring to the process
 * @moved: resize: index of the next entry to copy
 */
struct rox_srq_ring {
	struct rox_ring_mem mem;
	struct rox_ring ring;
	struct rox_create_srq_resp resp;
	u32 moved;
};

/* Copy up to ROX_RESIZE_STEP entries to a new ring. The caller holds the locks of the queue. */
int rox_cq_move(const struct rox_cq *cq, struct rox_cq_ring *new);
int rox_srq_move(const struct rox_srq *srq, struct rox_srq_ring *new);

#endif /* ROX_VERBS_INTERNAL_H */
