// SPDX-License-Identifier: GPL-2.0
/*
 * Peers that do not look at the ICRC of a packet, so that the sender leaves it out, as TCP leaves
 * its checksum to a netdev that may never need it. That is half of what a long message costs.
 *
 * - On this host they read packets in the pages that the sender wrote, and believe its signature
 *   (frame.c). They tell by the origin in it, a number that each path has for itself.
 * - In another guest of the machine they get frames as they were made, with an open UDP checksum,
 *   and check the first packet of each (rx.c). They tell by a packet (ROX_OPCODE_UNCUT). Only rox
 *   sends such frames, so nobody else gets such packets.
 *
 * Only the receiver knows what it gets. So it tells, again and again, and what it told holds for a
 * second. Only packets that are sent again when they are lost go without an ICRC, and never a
 * second time: if the way has changed, or something on it copies or cuts, the peer drops them, and
 * gets them with it. After a loss the path does not believe what it is told for a while, and longer
 * after each further one.
 */
#include <linux/jiffies.h>

#include "internal.h"

/* Paths that are told at the same time. Two that share a slot may have to do without. */
#define NEAR_SLOTS	1024

/* Of a path, in its slot: its origin in the upper half, when it was told in the lower (jiffies). */
static u64 rox_near_told[NEAR_SLOTS];

/* The last origin that a path got. After 4 billion paths they are used again. */
static atomic_t rox_near_last;

/* For so long a path believes what it was told. */
#define BELIEVES	HZ

/* For so long it does not after the first loss; after each further one for twice as long. */
#define DOUBTS		(HZ / 8)
#define MOST_DOUBTS	8

/* After so long without a loss the next one counts as the first. */
#define FORGETS		(120 * HZ)

static u64 *rox_near_slot(u32 origin)
{
	return &rox_near_told[origin % NEAR_SLOTS];
}

void rox_near_init(struct rox_path *path)
{
	do {
		path->near.origin = atomic_inc_return(&rox_near_last);
	} while (!path->near.origin);
	path->near.left = false;
	path->near.losses = 0;
}

void rox_near_tell(u32 origin)
{
	u64 told = (u64)origin << 32 | (u32)jiffies;
	u64 *slot = rox_near_slot(origin);

	if (origin && READ_ONCE(*slot) != told)
		WRITE_ONCE(*slot, told);
}

static bool rox_near_doubts(const struct rox_near *near)
{
	u8 losses = READ_ONCE(near->losses);

	return losses && time_before(jiffies, READ_ONCE(near->lost_at) + (DOUBTS << (losses - 1)));
}

void rox_ep_told_uncut(struct rox_endpoint *ep)
{
	WRITE_ONCE(ep->told_uncut_at, jiffies);
	WRITE_ONCE(ep->told_uncut, true);
}

bool rox_path_is_uncut(const struct rox_path *path, const struct rox_endpoint *from)
{
	return READ_ONCE(from->told_uncut) &&
	       time_before(jiffies, READ_ONCE(from->told_uncut_at) + BELIEVES) &&
	       !rox_near_doubts(&path->near);
}

bool rox_path_is_near(const struct rox_path *path)
{
	u32 origin = path->near.origin;
	u64 told = READ_ONCE(*rox_near_slot(origin));

	return origin && told >> 32 == origin && (u32)jiffies - (u32)told < BELIEVES &&
	       !rox_near_doubts(&path->near);
}

void rox_near_left(struct rox_path *path)
{
	if (!READ_ONCE(path->near.left))
		WRITE_ONCE(path->near.left, true);
}

bool rox_near_lost(struct rox_path *path, bool known)
{
	struct rox_near *near = &path->near;
	u8 losses = READ_ONCE(near->losses);

	if (!READ_ONCE(near->left))
		return false;
	if (!known)
		return true;
	WRITE_ONCE(near->left, false);
	if (losses && time_after(jiffies, READ_ONCE(near->lost_at) + FORGETS))
		losses = 0;
	WRITE_ONCE(near->lost_at, jiffies);
	WRITE_ONCE(near->losses, min(losses + 1, MOST_DOUBTS));
	return true;
}
