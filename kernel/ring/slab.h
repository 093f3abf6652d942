/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Slabs: ring memory that the objects of one process share, so that it needs few mappings.
 *
 * A slab is divided into places of one size. There are eight sizes, called classes, for each power
 * of two. Each new slab of a class is as large as those before it together: at least the pages that
 * one place needs, at most ROX_SLAB_MOST.
 */
#ifndef ROX_RING_SLAB_H
#define ROX_RING_SLAB_H

#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sizes.h>
#include "ring.h"

/* The largest slab, and the largest place in one. */
#define ROX_SLAB_MOST SZ_2M
#define ROX_SLAB_MOST_PLACE SZ_256K
#define ROX_SLAB_CLASSES 80

struct rox_slabs;

/**
 * struct rox_slab - memory of several objects' rings
 * @mem: all of its memory
 * @map: what the process has to map
 * @number: unique in @slabs, and never used again; not 0
 * @slabs: the context that it belongs to
 * @open: in the list of its class, while some of its places are taken and others are free
 * @class: size of the places
 * @places: number of places
 * @used: places that are taken
 * @taken: a bit for each
 */
struct rox_slab {
	struct rox_ring_mem mem;
	struct rox_mapping map;
	u64 number;
	struct rox_slabs *slabs;
	struct hlist_node open;
	u32 class;
	u32 places;
	u32 used;
	unsigned long taken[];
};

/**
 * struct rox_slab_ops - how the process finds a slab; process context
 * @offer: lets the process map @mem, and fills in @map. Return: 0 or -ENOMEM
 * @withdraw: ends that: after it returns, the process cannot map the memory
 */
struct rox_slab_ops {
	int (*offer)(struct rox_slab *slab);
	void (*withdraw)(struct rox_slab *slab);
};

/**
 * struct rox_slab_class - slabs with places of one size
 * @open: slabs with free places
 * @places: number of places of all its slabs
 */
struct rox_slab_class {
	struct hlist_head open;
	u32 places;
};

/**
 * struct rox_slabs - the slabs of a process' context
 * @lock: protects this structure, and @open, @used and @taken of its slabs
 * @ops: how the process finds a slab
 * @last: number of the newest slab
 * @spare: NULL, or an empty slab, which is in no list
 * @classes: by size
 */
struct rox_slabs {
	struct mutex lock;	/* see above */
	const struct rox_slab_ops *ops;
	u64 last;
	struct rox_slab *spare;
	struct rox_slab_class classes[ROX_SLAB_CLASSES];
};

void rox_slabs_init(struct rox_slabs *slabs, const struct rox_slab_ops *ops);
void rox_slabs_exit(struct rox_slabs *slabs);
int rox_slab_alloc(struct rox_slabs *slabs, size_t size, struct rox_ring_mem *mem);
void rox_slab_free(struct rox_ring_mem *mem);

/* Return: bytes from the start of the slab to the memory that rox_slab_alloc() gave. */
static inline u32 rox_slab_position(const struct rox_ring_mem *mem)
{
	return mem->base - mem->slab->mem.base;
}

#endif /* ROX_RING_SLAB_H */
