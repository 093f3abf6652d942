// SPDX-License-Identifier: GPL-2.0
/*
 * Shared rings: memory and layout.
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
	/* Do not try sizes that cannot succeed: a program chooses the size. */
	if (!size || size >> PAGE_SHIFT > totalram_pages() / 2)
		return -ENOMEM;
	mem->base = __vmalloc(size, ROX_GFP_USER | __GFP_ZERO);
	if (!mem->base)
		return -ENOMEM;
	mem->size = size;
	mem->slab = NULL;
	mem->entry = NULL;
	return 0;
}

/**
 * rox_ring_mem_free() - frees the memory of rox_ring_mem_alloc()
 * @mem: memory; may be empty
 *
 * May sleep.
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
 * @vma: a shared area of at most the size of the memory, in mmap()
 *
 * A page is freed when both the mapping and @mem have released it. May sleep.
 * Return: 0, -EINVAL if the area is larger than the memory, -ENOMEM.
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
	/*
	 * A child process must not inherit the mapping: parent and child would write the same
	 * entries.
	 */
	vm_flags_set(vma, VM_DONTEXPAND | VM_DONTDUMP | VM_DONTCOPY);
	return 0;
}

/**
 * rox_ring_layout_add() - adds a ring to a layout
 * @layout: the layout of the rings that were added before; updated
 * @entries: number of entries, rounded up to a power of two; 0 for a ring with indices only
 * @stride: bytes from entry to entry
 * @desc: filled
 *
 * The indices begin at a cache line of their own, and so do the entries. Any context.
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
 * rox_ring_init() - initialises the kernel's end of an empty ring
 * @ring: filled
 * @mem: memory of the ring, zeroed
 * @desc: position of the ring in @mem
 *
 * Any context.
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
