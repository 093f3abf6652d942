// SPDX-License-Identifier: GPL-2.0
/*
 * Slabs: ring memory that the objects of one process share.
 */
#include <linux/bitmap.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include "slab.h"

/* Sizes up to 2^ROX_FINE_ORDER are multiples of a cache line; then there are 8 in each doubling. */
#define ROX_FINE_ORDER 9
#define ROX_FINE_CLASSES (BIT(ROX_FINE_ORDER) / ROX_CACHE_LINE)

/*
 * The class of places that hold @size bytes, which are at most ROX_SLAB_MOST_PLACE. At most an
 * eighth of a place stays unused. A place has whole cache lines, so two objects share none.
 */
static u32 rox_slab_class_of(size_t size, u32 *place)
{
	u32 order, step, n;

	if (size <= BIT(ROX_FINE_ORDER)) {
		n = DIV_ROUND_UP(size, ROX_CACHE_LINE);
		*place = n * ROX_CACHE_LINE;
		return n - 1;
	}
	/* 2^order < size <= 2^(order + 1) */
	order = ilog2(size - 1);
	step = BIT(order) / 8;
	n = DIV_ROUND_UP(size - BIT(order), step);
	*place = BIT(order) + n * step;
	return ROX_FINE_CLASSES + (order - ROX_FINE_ORDER) * 8 + n - 1;
}

/**
 * rox_slabs_init() - prepares the slabs of a new context
 * @slabs: zeroed
 * @ops: how the process maps a slab
 */
void rox_slabs_init(struct rox_slabs *slabs, const struct rox_slab_ops *ops)
{
	static_assert(ROX_FINE_CLASSES + (ilog2(ROX_SLAB_MOST_PLACE) - ROX_FINE_ORDER) * 8 ==
		      ROX_SLAB_CLASSES);
	mutex_init(&slabs->lock);
	slabs->ops = ops;
}

static void rox_slab_destroy(struct rox_slab *slab)
{
	if (!slab)
		return;
	slab->slabs->ops->withdraw(slab);
	rox_ring_mem_free(&slab->mem);
	kfree(slab);
}

/**
 * rox_slabs_exit() - frees what is left when no place is taken
 * @slabs: nobody uses them any more
 */
void rox_slabs_exit(struct rox_slabs *slabs)
{
	rox_slab_destroy(slabs->spare);
	mutex_destroy(&slabs->lock);
}

static struct rox_slab *rox_slab_create(struct rox_slabs *slabs, u32 class, u32 place,
					size_t bytes)
{
	u32 places = bytes / place;
	struct rox_slab *slab;

	slab = kzalloc(struct_size(slab, taken, BITS_TO_LONGS(places)), ROX_GFP_USER);
	if (!slab)
		return NULL;
	slab->slabs = slabs;
	slab->class = class;
	slab->places = places;
	if (rox_ring_mem_alloc(&slab->mem, bytes))
		goto err_slab;
	if (slabs->ops->offer(slab))
		goto err_mem;
	return slab;

err_mem:
	rox_ring_mem_free(&slab->mem);
err_slab:
	kfree(slab);
	return NULL;
}

/*
 * Adds a slab as large as all slabs of the class together: a process with few objects pays for few,
 * and one with many needs few mappings. Near the limit of its cgroup it gets what one object needs.
 */
static struct rox_slab *rox_slab_grow(struct rox_slabs *slabs, u32 class, u32 place)
{
	u64 has = (u64)slabs->classes[class].places * place;
	size_t least = PAGE_ALIGN(place);
	size_t bytes = clamp_t(u64, PAGE_ALIGN(has), least, ROX_SLAB_MOST);
	struct rox_slab *slab;

	slab = rox_slab_create(slabs, class, place, bytes);
	if (!slab && bytes > least)
		slab = rox_slab_create(slabs, class, place, least);
	if (slab) {
		slab->number = ++slabs->last;
		slabs->classes[class].places += slab->places;
	}
	return slab;
}

/* Return: a slab of the class with a free place; NULL without memory. */
static struct rox_slab *rox_slab_with_room(struct rox_slabs *slabs, u32 class, u32 place)
{
	struct hlist_head *open = &slabs->classes[class].open;
	struct rox_slab *slab = slabs->spare;

	if (!hlist_empty(open))
		return hlist_entry(open->first, struct rox_slab, open);
	if (slab && slab->class == class)
		slabs->spare = NULL;
	else
		slab = rox_slab_grow(slabs, class, place);
	if (slab)
		hlist_add_head(&slab->open, open);
	return slab;
}

/**
 * rox_slab_alloc() - allocates memory for an object's rings in a slab
 * @slabs: of the process' context
 * @size: bytes, from 1 to ROX_SLAB_MOST_PLACE
 * @mem: filled; zeroed memory. The process may have mapped it, and write to it
 *
 * May sleep. The memory is charged to the calling process's cgroup.
 * Return: 0 or -ENOMEM.
 */
int rox_slab_alloc(struct rox_slabs *slabs, size_t size, struct rox_ring_mem *mem)
{
	struct rox_slab *slab;
	u32 place, class, n;

	class = rox_slab_class_of(size, &place);
	mutex_lock(&slabs->lock);
	slab = rox_slab_with_room(slabs, class, place);
	if (!slab) {
		mutex_unlock(&slabs->lock);
		return -ENOMEM;
	}
	n = find_first_zero_bit(slab->taken, slab->places);
	__set_bit(n, slab->taken);
	if (++slab->used == slab->places)
		hlist_del_init(&slab->open);
	mutex_unlock(&slabs->lock);

	mem->base = slab->mem.base + (size_t)n * place;
	mem->size = place;
	mem->slab = slab;
	mem->entry = NULL;
	/* Also a place that is used for the first time: the process may have written there. */
	memset(mem->base, 0, place);
	return 0;
}

/* Gives the place back. Return: a slab to be freed, or NULL. */
static struct rox_slab *rox_slab_release(struct rox_slab *slab, u32 n)
{
	struct rox_slabs *slabs = slab->slabs;
	struct rox_slab_class *class = &slabs->classes[slab->class];
	struct rox_slab *old;

	__clear_bit(n, slab->taken);
	if (slab->used-- == slab->places)
		hlist_add_head(&slab->open, &class->open);
	if (slab->used)
		return NULL;
	hlist_del_init(&slab->open);
	old = slabs->spare;
	slabs->spare = slab;
	if (old)
		slabs->classes[old->class].places -= old->places;
	return old;
}

/**
 * rox_slab_free() - frees the memory of rox_slab_alloc()
 * @mem: memory, which nobody in the kernel uses; emptied
 *
 * The context keeps one empty slab, so that a program that makes and destroys one object after
 * another does not allocate memory each time. May sleep.
 */
void rox_slab_free(struct rox_ring_mem *mem)
{
	struct rox_slab *slab = mem->slab;
	struct rox_slabs *slabs = slab->slabs;
	struct rox_slab *old;

	mutex_lock(&slabs->lock);
	old = rox_slab_release(slab, rox_slab_position(mem) / mem->size);
	mutex_unlock(&slabs->lock);
	rox_slab_destroy(old);
	*mem = (struct rox_ring_mem) {};
}
