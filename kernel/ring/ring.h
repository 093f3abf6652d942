/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared rings: memory that the kernel shares with one process, or uses alone. The layout is in
 * <rdma/rox-abi.h>. The kernel does not trust what it reads from a ring: it checks the index,
 * copies an entry once, and validates the copy.
 */
#ifndef ROX_RING_H
#define ROX_RING_H

#include <linux/types.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <rdma/rox-abi.h>

struct vm_area_struct;
struct rdma_user_mmap_entry;
struct rox_slab;

/*
 * GFP flags of allocations that a process causes: they are charged to its cgroup, and fail at the
 * cgroup's limit without the OOM killer.
 */
#define ROX_GFP_USER (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/**
 * struct rox_ring_mem - vmalloc() memory that holds one or more rings
 * @base: kernel address; the memory is zeroed when allocated. NULL if there is none
 * @size: bytes
 * @slab: the slab that it is a place in; NULL: whole pages that are nobody else's
 * @entry: without @slab: its mmap entry, or NULL for a kernel user
 */
struct rox_ring_mem {
	void *base;
	size_t size;
	struct rox_slab *slab;
	struct rdma_user_mmap_entry *entry;
};

/**
 * struct rox_ring - the kernel's end of one ring
 * @ctrl: the shared indices
 * @base: entry 0
 * @entries: a power of two; 0 means that there is no ring
 * @stride: bytes from entry to entry
 * @index: the kernel's own index: the consumer index for SQ, RQ and SRQ, the producer index
 *	for a CQ. The shared index is only a copy of it
 *
 * The lock of the ring's owner protects it. @index is written with WRITE_ONCE() for readers
 * without the lock.
 */
struct rox_ring {
	struct rox_ring_ctrl *ctrl;
	void *base;
	u32 entries;
	u32 stride;
	u32 index;
};

int rox_ring_mem_alloc(struct rox_ring_mem *mem, size_t size);
void rox_ring_mem_free(struct rox_ring_mem *mem);
int rox_ring_mem_map(const struct rox_ring_mem *mem, struct vm_area_struct *vma);

/* The layout of rings in one mapping: @size is the size with all rings that were added. */
struct rox_ring_layout {
	size_t size;
};

/*
 * Adds a ring to the layout. @entries is rounded up to a power of two. Any context.
 * Return: 0, or -EINVAL if the ring does not fit in 32-bit offsets.
 */
int rox_ring_layout_add(struct rox_ring_layout *layout, u32 entries, u32 stride,
			struct rox_ring_desc *desc);
void rox_ring_init(struct rox_ring *ring, const struct rox_ring_mem *mem,
		   const struct rox_ring_desc *desc);

static inline void *rox_ring_entry(const struct rox_ring *ring, u32 index)
{
	return ring->base + (size_t)(index & (ring->entries - 1)) * ring->stride;
}

/**
 * rox_ring_pending() - number of entries that the kernel has not consumed yet
 * @ring: a ring that the kernel consumes
 *
 * Return: the number, or -EPROTO if the producer index is invalid.
 */
static inline int rox_ring_pending(const struct rox_ring *ring)
{
	u32 n;

	if (!ring->entries)
		return 0;
	/* Pairs with the producer's release: read the index before the entries. */
	n = smp_load_acquire(&ring->ctrl->producer) - ring->index;
	return n <= ring->entries ? (int)n : -EPROTO;
}

/* Return: the oldest entry that the kernel has not consumed yet. */
static inline const void *rox_ring_next(const struct rox_ring *ring)
{
	return rox_ring_entry(ring, ring->index);
}

/*
 * Copies @len bytes, at @offset, of the entry that is @ahead places after the next one. @offset +
 * @len is at most the stride.
 */
static inline void rox_ring_copy(const struct rox_ring *ring, u32 ahead, u32 offset,
				 void *dst, size_t len)
{
	memcpy(dst, rox_ring_entry(ring, ring->index + ahead) + offset, len);
	/* Keep the compiler from reading the ring again instead of the copy. */
	barrier();
}

/* Consumes @n entries. The program may reuse them. */
static inline void rox_ring_consume(struct rox_ring *ring, u32 n)
{
	WRITE_ONCE(ring->index, ring->index + n);
	/* All reads of the entries come before the index that frees them. */
	smp_store_release(&ring->ctrl->consumer, ring->index);
}

/**
 * rox_ring_space() - number of entries that the kernel may add
 * @ring: a ring that the kernel produces (a CQ)
 *
 * Return: the number, 0 if full, or -EPROTO if the consumer index is invalid.
 */
static inline int rox_ring_space(const struct rox_ring *ring)
{
	u32 used;

	/* Pairs with the program's release: it has read the entries before we write them. */
	used = ring->index - smp_load_acquire(&ring->ctrl->consumer);
	return used <= ring->entries ? (int)(ring->entries - used) : -EPROTO;
}

/* Publishes @n entries that the kernel has written at its index. */
static inline void rox_ring_produce(struct rox_ring *ring, u32 n)
{
	WRITE_ONCE(ring->index, ring->index + n);
	/* The writes of the entries come before the index. */
	smp_store_release(&ring->ctrl->producer, ring->index);
}

/**
 * rox_ring_free_entry() - the place of the next entry of a ring that a kernel user fills
 * @ring: SQ, RQ or SRQ of a kernel user; the caller holds the lock for posting
 *
 * Return: the entry, or NULL if the ring is full.
 */
static inline void *rox_ring_free_entry(const struct rox_ring *ring)
{
	u32 producer = READ_ONCE(ring->ctrl->producer);

	/* Pairs with the release in rox_ring_consume(): the entry has been read. */
	if (producer - smp_load_acquire(&ring->ctrl->consumer) >= ring->entries)
		return NULL;
	return rox_ring_entry(ring, producer);
}

/* Publishes the entry of rox_ring_free_entry(), which the caller has filled. */
static inline void rox_ring_publish(struct rox_ring *ring)
{
	/* Pairs with the acquire in rox_ring_pending(). */
	smp_store_release(&ring->ctrl->producer, READ_ONCE(ring->ctrl->producer) + 1);
}

#endif /* ROX_RING_H */
