// SPDX-License-Identifier: GPL-2.0
/*
 * A program's context, and the mapping of rings into it.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "internal.h"

/* Feature bits: extensions of the ABI's first version that this module has. */
#define ROX_FEATURES \
	((u64)(ROX_FEATURE_DOORBELL | ROX_FEATURE_NO_ENGINE | ROX_FEATURE_SLABS | \
	       ROX_FEATURE_CQ_WAIT))

static atomic64_t rox_last_context;

static const struct rox_slab_ops rox_slab_ops;

static int rox_ucontext_check(struct ib_udata *udata, struct rox_alloc_ucontext_req *req)
{
	int err;

	err = rox_udata_get(udata, req, sizeof(*req), 0);
	if (err)
		return err;
	return req->flags || req->reserved ? -EINVAL : 0;
}

static u64 rox_features(void)
{
	return ROX_FEATURES | (rox_call_us() ? ROX_FEATURE_LATE_DOORBELL : 0);
}

/* @features: those of the provider */
static int rox_ucontext_init(struct ib_ucontext *ibuc, u64 features)
{
	struct rox_ucontext *uc = to_rox_ucontext(ibuc);

	uc->number = atomic64_inc_return(&rox_last_context);
	uc->shares = features & ROX_FEATURE_SLABS;
	rox_slabs_init(&uc->slabs, &rox_slab_ops);
	if (features & ROX_FEATURE_NO_ENGINE)
		return 0;
	uc->engines = rox_engines_alloc(to_rox_dev(ibuc->device),
					features & ROX_FEATURE_LATE_DOORBELL);
	return uc->engines ? 0 : -ENOMEM;
}

int rox_alloc_ucontext(struct ib_ucontext *uc, struct ib_udata *udata)
{
	struct rox_alloc_ucontext_req req = {};
	struct rox_alloc_ucontext_resp resp = {
		.abi_version = ROX_ABI_VERSION,
		.max_inline = ROX_MAX_INLINE,
		.features = rox_features(),
	};
	int err;

	err = rox_ucontext_check(udata, &req);
	if (err)
		goto refuse;
	/*
	 * The core takes no module reference for a driver with disassociate_ucontext. This one
	 * prevents unloading while programs use the module, and so does each open doorbell. To
	 * drop this reference nevertheless, delete the links. Unregistering a device waits until
	 * dealloc_ucontext has returned, so that op may drop it.
	 */
	if (!try_module_get(THIS_MODULE)) {
		err = -ENODEV;
		goto refuse;
	}
	err = rox_ucontext_init(uc, req.features);
	if (err)
		goto put;
	/* A program other than our provider may have no room for a response. */
	err = rox_udata_put(udata, &resp, sizeof(resp));
	if (!err)
		return 0;
	rox_engines_free(to_rox_ucontext(uc)->engines);
put:
	module_put(THIS_MODULE);
refuse:
	rox_ucontext_refused(uc);
	return err;
}

/* The context has no objects left, and no mmap entry but that of an empty slab. */
void rox_dealloc_ucontext(struct ib_ucontext *uc)
{
	rox_slabs_exit(&to_rox_ucontext(uc)->slabs);
	rox_engines_free(to_rox_ucontext(uc)->engines);
	module_put(THIS_MODULE);
}

/*
 * The core calls this for each context when the device goes away. The program
 * may go on reading its mapped rings: they are ordinary memory, so there is
 * nothing to revoke.
 */
void rox_disassociate_ucontext(struct ib_ucontext *uc)
{
}

/* ---- memory of rings ---- */

/*
 * Lets the process of @uc map @mem, and fills @map with offset and size.
 * Return: the mmap entry, or NULL if there is no memory.
 */
static struct rdma_user_mmap_entry *rox_mmap_offer(struct ib_ucontext *uc,
						   const struct rox_ring_mem *mem,
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

/*
 * Removes an mmap entry and waits for concurrent mmap() calls. Replaces
 * rdma_user_mmap_entry_remove(). Call it before the memory is freed. Pages that
 * the process has mapped stay mapped. NULL is ignored. Sleeps.
 */
static void rox_mmap_withdraw(struct rdma_user_mmap_entry *entry)
{
	DECLARE_COMPLETION_ONSTACK(withdrawn);

	if (!entry)
		return;
	container_of(entry, struct rox_mmap_entry, entry)->withdrawn = &withdrawn;
	rdma_user_mmap_entry_remove(entry);
	wait_for_completion(&withdrawn);
}

static int rox_slab_offer(struct rox_slab *slab)
{
	struct rox_ucontext *uc = container_of(slab->slabs, struct rox_ucontext, slabs);

	slab->mem.entry = rox_mmap_offer(&uc->ibuc, &slab->mem, &slab->map);
	return slab->mem.entry ? 0 : -ENOMEM;
}

static void rox_slab_withdraw(struct rox_slab *slab)
{
	rox_mmap_withdraw(slab->mem.entry);
}

static const struct rox_slab_ops rox_slab_ops = {
	.offer = rox_slab_offer,
	.withdraw = rox_slab_withdraw,
};

static int rox_rings_alloc_shared(struct rox_ring_mem *mem, size_t size, struct rox_ucontext *uc,
				  struct rox_offer *offer)
{
	int err;

	err = rox_slab_alloc(&uc->slabs, size, mem);
	if (err)
		return err;
	offer->map = mem->slab->map;
	offer->place.slab = mem->slab->number;
	offer->place.position = rox_slab_position(mem);
	return 0;
}

/**
 * rox_rings_alloc() - allocates memory for the rings of an object, and offers it to the process
 * @mem: filled
 * @size: bytes
 * @udata: of the command; NULL for a kernel user
 * @knows: the provider reads @offer->place. Then small rings share a mapping with others
 * @offer: filled, if @udata is not NULL. The caller has zeroed it
 *
 * Process context; may sleep. The memory is charged to the calling process's cgroup.
 * Return: 0 or -ENOMEM.
 */
int rox_rings_alloc(struct rox_ring_mem *mem, size_t size, struct ib_udata *udata, bool knows,
		    struct rox_offer *offer)
{
	struct rox_ucontext *uc = NULL;
	int err;

	if (udata)
		uc = to_rox_ucontext(rox_udata_context(udata));
	if (uc && knows && uc->shares && size <= ROX_SLAB_MOST_PLACE)
		return rox_rings_alloc_shared(mem, size, uc, offer);
	err = rox_ring_mem_alloc(mem, size);
	if (err || !uc)
		return err;
	mem->entry = rox_mmap_offer(&uc->ibuc, mem, &offer->map);
	if (mem->entry)
		return 0;
	rox_ring_mem_free(mem);
	return -ENOMEM;
}

/**
 * rox_rings_free() - frees the memory of rox_rings_alloc()
 * @mem: the memory; emptied
 *
 * Memory that the process has mapped stays there until it unmaps it. The kernel must not use the
 * rings after this. Process context; may sleep.
 */
void rox_rings_free(struct rox_ring_mem *mem)
{
	if (mem->slab) {
		rox_slab_free(mem);
		return;
	}
	rox_mmap_withdraw(mem->entry);
	mem->entry = NULL;
	rox_ring_mem_free(mem);
}

/* The op mmap_free, called when the last reference on the entry is gone. */
void rox_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct rox_mmap_entry *offer = container_of(entry, struct rox_mmap_entry, entry);

	if (offer->withdrawn)
		complete(offer->withdrawn);
	kfree(offer);
}

/* The op mmap. The core's vm_ops do nothing for this mapping, as it has no private data. */
int rox_mmap(struct ib_ucontext *uc, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	struct rox_mmap_entry *offer;
	int err;

	/* This checks that the mapping is shared, and has the size of the entry. */
	entry = rdma_user_mmap_entry_get(uc, vma);
	if (!entry)
		return -EINVAL;
	offer = container_of(entry, struct rox_mmap_entry, entry);
	err = rox_ring_mem_map(&offer->mem, vma);
	rdma_user_mmap_entry_put(entry);
	return err;
}
