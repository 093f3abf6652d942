// SPDX-License-Identifier: GPL-2.0
/*
 * A program's context, and the mapping of rings into it.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "verbs.h"

int rox_alloc_ucontext(struct ib_ucontext *uc, struct ib_udata *udata)
{
	struct rox_alloc_ucontext_resp resp = {
		.abi_version = ROX_ABI_VERSION,
		.max_inline = ROX_MAX_INLINE,
	};
	int err;

	/*
	 * The core keeps no module that can cut programs off, as we can. One
	 * that is in use should not be unloaded by the way, though: who wants
	 * that deletes the links first. That waits for the end of dealloc, so
	 * the reference may be given back from there.
	 */
	if (!try_module_get(THIS_MODULE)) {
		err = -ENODEV;
		goto refuse;
	}
	/* A program that asks for no response (not our provider) gets none. */
	err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
	if (!err)
		return 0;
	module_put(THIS_MODULE);
refuse:
	rox_ucontext_refused(uc);
	return err;
}

/* All objects and offers of the context are gone by now. */
void rox_dealloc_ucontext(struct ib_ucontext *uc)
{
	module_put(THIS_MODULE);
}

/*
 * The core calls this for each context when the device goes away. What the
 * program has mapped is ordinary memory that stays with it: it may go on
 * polling rings in which nothing happens any more.
 */
void rox_disassociate_ucontext(struct ib_ucontext *uc)
{
}

struct rdma_user_mmap_entry *rox_mmap_offer(struct ib_ucontext *uc, const struct rox_ring_mem *mem,
					    struct rox_mapping *map)
{
	struct rox_mmap_entry *offer;

	offer = kzalloc(sizeof(*offer), ROX_GFP_USER);
	if (!offer)
		return NULL;
	offer->mem = *mem;
	if (rdma_user_mmap_entry_insert(uc, &offer->entry, mem->size)) {
		kfree(offer);
		return NULL;
	}
	map->offset = rdma_user_mmap_get_offset(&offer->entry);
	map->size = mem->size;
	return &offer->entry;
}

void rox_mmap_withdraw(struct rdma_user_mmap_entry *entry)
{
	DECLARE_COMPLETION_ONSTACK(withdrawn);

	if (!entry)
		return;
	container_of(entry, struct rox_mmap_entry, entry)->withdrawn = &withdrawn;
	rdma_user_mmap_entry_remove(entry);
	wait_for_completion(&withdrawn);
}

/* The op: the last user of the entry is gone. */
void rox_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct rox_mmap_entry *offer = container_of(entry, struct rox_mmap_entry, entry);

	if (offer->withdrawn)
		complete(offer->withdrawn);
	kfree(offer);
}

/* The core has set vm_ops; they do nothing for a mapping without private data. */
int rox_mmap(struct ib_ucontext *uc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	struct rox_mmap_entry *offer;
	int err;

	/* Checks that the mapping is shared and of the size that was offered. */
	entry = rdma_user_mmap_entry_get(uc, vma);
	if (!entry)
		return -EINVAL;
	offer = container_of(entry, struct rox_mmap_entry, entry);
	err = rox_ring_mem_map(&offer->mem, vma);
	rdma_user_mmap_entry_put(entry);
	return err;
}
