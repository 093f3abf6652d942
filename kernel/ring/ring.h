/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Shared rings: memory that the kernel and one process (or the kernel alone)
 * map. Layout in <rdma/rox-abi.h>. Nothing read from a ring is trusted: an
 * entry is copied once, with the index checked, and validated by its user.
 */
#ifndef ROX_RING_H
#define ROX_RING_H

#include <linux/types.h>
#include <linux/errno.h>
#include <linux/gfp.h>
#include <linux/minmax.h>
#include <rdma/rox-abi.h>

struct vm_area_struct;

/*
 * For what a process asks for: charged to its cgroup, and at the cgroup's limit it gets
 * ENOMEM instead of the OOM killer.
 */
#define ROX_GFP_USER (GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/**
 * struct rox_ring_mem - vmalloc() memory that holds one or more rings
 * @base: kernel address, page aligned, zeroed at first
 * @size: bytes, a multiple of the page size
 */
struct rox_ring_mem {
	void *base;
	size_t size;
};

/**
 * struct rox_ring - the kernel's end of one ring
 * @ctrl: the shared indices
 * @base: entry 0
 * @entries: a power of two; 0 means that there is no ring
 * @stride: bytes from entry to entry
 * @index: the kernel's own index, the truth of which the shared one is a copy:
 *	the consumer index for SQ, RQ and SRQ, the producer index for a CQ
 *
 * Not locked: the owner's lock protects it.
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

/* Where rings lie in one mapping; adding them one after the other gives its size. */
struct rox_ring_layout {
	size_t size;
};

/*
 * -EINVAL if the ring does not fit in 32-bit offsets. @entries is rounded up to a
 * power of two.
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
 * rox_ring_pending() - entries that the program has added and the kernel not yet taken
 * @ring: a ring that the kernel consumes
 *
 * Return: the number, or -EPROTO if the program's index cannot be right.
 */
static inline int rox_ring_pending(const struct rox_ring *ring)
{
	u32 n;

	if (!ring->entries)
		return 0;
	/* The entries are read after the index that covers them. */
	n = smp_load_acquire(&ring->ctrl->producer) - ring->index;
	return n <= ring->entries ? (int)n : -EPROTO;
}

/* Copies @len bytes of the entry @ahead places after the next one; @len is at most the stride. */
static inline void rox_ring_copy(const struct rox_ring *ring, u32 ahead, u32 offset,
				 void *dst, size_t len)
{
	memcpy(dst, rox_ring_entry(ring, ring->index + ahead) + offset, len);
	/* The copy is what counts: keep the compiler from reading the ring again. */
	barrier();
}

/* The kernel has taken @n entries; the program may reuse them. */
static inline void rox_ring_consume(struct rox_ring *ring, u32 n)
{
	ring->index += n;
	/* The entries have been read before they may be written again. */
	smp_store_release(&ring->ctrl->consumer, ring->index);
}

/**
 * rox_ring_space() - entries that the kernel may add
 * @ring: a ring that the kernel produces (a CQ)
 *
 * Return: the number, 0 if full, or -EPROTO if the program's index cannot be right.
 */
static inline int rox_ring_space(const struct rox_ring *ring)
{
	u32 used;

	/* The program has read an entry before it is written again. */
	used = ring->index - smp_load_acquire(&ring->ctrl->consumer);
	return used <= ring->entries ? (int)(ring->entries - used) : -EPROTO;
}

/* The kernel has written @n entries at its index; publish them. */
static inline void rox_ring_produce(struct rox_ring *ring, u32 n)
{
	ring->index += n;
	/* The entries are written before the index that covers them. */
	smp_store_release(&ring->ctrl->producer, ring->index);
}

/**
 * rox_ring_free_entry() - where the next entry of a ring goes that the kernel fills as well
 * @ring: SQ, RQ or SRQ of a kernel user; the caller holds the lock of those who post
 *
 * Return: the entry, or NULL if the ring is full.
 */
static inline void *rox_ring_free_entry(const struct rox_ring *ring)
{
	u32 producer = READ_ONCE(ring->ctrl->producer);

	/* What the consumer had in the entry has been read. */
	if (producer - smp_load_acquire(&ring->ctrl->consumer) >= ring->entries)
		return NULL;
	return rox_ring_entry(ring, producer);
}

/* The entry of rox_ring_free_entry() is complete: the consumer may take it. */
static inline void rox_ring_publish(struct rox_ring *ring)
{
	/* Pairs with the acquire in rox_ring_pending(). */
	smp_store_release(&ring->ctrl->producer, READ_ONCE(ring->ctrl->producer) + 1);
}

#endif /* ROX_RING_H */
