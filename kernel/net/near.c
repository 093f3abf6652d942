// SPDX-License-Identifier: GPL-2.0
/*
 * Peers on this host, which read packets in the pages that the sender wrote. They believe its
 * signature (frame.c) and do not look at the ICRC. So the sender leaves it out, as TCP leaves its
 * checksum to a netdev that may never need it. That is half of what a long message costs.
 *
 * Only the receiver knows what it gets. So it tells: a signature has the origin of the packet, a
 * number that each path has for itself. The path must be told again each second. Only packets that
 * are sent again when they are lost go without an ICRC, and never a second time: if the way has
 * changed, or something on it copies, the peer drops them, and gets them with it. After a loss the
 * path does not believe what it is told for a while, and longer after each further one.
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

void rox_near_lost(struct rox_path *path)
{
	struct rox_near *near = &path->near;
	u8 losses = READ_ONCE(near->losses);

	if (!READ_ONCE(near->left))
		return;
	WRITE_ONCE(near->left, false);
	if (losses && time_after(jiffies, READ_ONCE(near->lost_at) + FORGETS))
		losses = 0;
	WRITE_ONCE(near->lost_at, jiffies);
	WRITE_ONCE(near->losses, min(losses + 1, MOST_DOUBTS));
}
