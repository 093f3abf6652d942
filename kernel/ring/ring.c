// SPDX-License-Identifier: GPL-2.0
/*
 * Shared rings: their memory and where they lie in it.
 */
#include <linux/align.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>
#include "../compat/compat.h"
#include "ring.h"

/**
 * rox_ring_mem_alloc() - allocates memory that a process may map
 * @mem: filled
 * @size: bytes, rounded up to whole pages
 *
 * May sleep. The memory is charged to the calling process's cgroup.
 * Return: 0 or -ENOMEM.
 */
int rox_ring_mem_alloc(struct rox_ring_mem *mem, size_t size)
{
	size = PAGE_ALIGN(size);
	/* What cannot succeed is not tried: no OOM killer for a program's big number. */
	if (!size || size >> PAGE_SHIFT > totalram_pages() / 2)
		return -ENOMEM;
	mem->base = __vmalloc(size, ROX_GFP_USER | __GFP_ZERO);
	if (!mem->base)
		return -ENOMEM;
	mem->size = size;
	return 0;
}

/**
 * rox_ring_mem_free() - frees what rox_ring_mem_alloc() has allocated
 * @mem: memory; may be empty
 */
void rox_ring_mem_free(struct rox_ring_mem *mem)
{
	vfree(mem->base);
	mem->base = NULL;
	mem->size = 0;
}

/**
 * rox_ring_mem_map() - maps the memory into a process
 * @mem: memory
 * @vma: an area of its size that is being mapped, shared
 *
 * The pages live as long as the mapping, or until rox_ring_mem_free() if that is later.
 * Return: 0, -EINVAL if the area is larger, -ENOMEM.
 */
int rox_ring_mem_map(const struct rox_ring_mem *mem, struct vm_area_struct *vma)
{
	unsigned long addr;
	void *page = mem->base;
	int err;

	if (vma->vm_end - vma->vm_start > mem->size)
		return -EINVAL;
	for (addr = vma->vm_start; addr < vma->vm_end; addr += PAGE_SIZE) {
		err = vm_insert_page(vma, addr, vmalloc_to_page(page));
		if (err)
			return err;
		page += PAGE_SIZE;
	}
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

/**
 * rox_ring_layout_add() - finds a place for one more ring
 * @layout: what is there already; grows
 * @entries: at least so many; 0 for a ring that only has its indices
 * @stride: bytes from entry to entry
 * @desc: filled
 *
 * Indices and entries begin at cache lines of their own.
 * Return: 0, or -EINVAL if the ring does not fit in 32-bit offsets.
 */
int rox_ring_layout_add(struct rox_ring_layout *layout, u32 entries, u32 stride,
			struct rox_ring_desc *desc)
{
	u64 ctrl = ALIGN(layout->size, ROX_CACHE_LINE);
	u64 first = ALIGN(ctrl + sizeof(struct rox_ring_ctrl), ROX_CACHE_LINE);
	u64 end;

	if (entries > BIT(31))
		return -EINVAL;
	if (entries)
		entries = roundup_pow_of_two(entries);
	end = first + (u64)entries * stride;
	if (end > U32_MAX)
		return -EINVAL;
	desc->ctrl_offset = ctrl;
	desc->entries_offset = first;
	desc->entries = entries;
	desc->stride = stride;
	layout->size = end;
	return 0;
}

/**
 * rox_ring_init() - the kernel's end of an empty ring
 * @ring: filled
 * @mem: memory, zeroed where the ring lies
 * @desc: where it lies
 */
void rox_ring_init(struct rox_ring *ring, const struct rox_ring_mem *mem,
		   const struct rox_ring_desc *desc)
{
	ring->ctrl = mem->base + desc->ctrl_offset;
	ring->base = mem->base + desc->entries_offset;
	ring->entries = desc->entries;
	ring->stride = desc->stride;
	ring->index = 0;
}
