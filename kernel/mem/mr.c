// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: keys, rights, and translation of addresses.
 *
 * The device uses virtual DMA: the DMA addresses of the RDMA core are kernel addresses, to and
 * from which payload is copied.
 */
#include <linux/random.h>
#include <rdma/iter.h>
#include "internal.h"

/*
 * Tries to find an unused random index. With 1M regions of 16M indices in use, 32 failures in a
 * row have a probability of 2^-128.
 */
#define ROX_KEY_TRIES 32
/* log2 of the largest block size. */
#define ROX_MAX_BLOCK_SHIFT 31

#define ROX_ACCESS_KNOWN (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			  IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			  IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB)

/* rhashtable takes a bucket's number from the lowest bits. All bits of an index are random. */
static u32 rox_mr_hash(const void *index, u32 len, u32 seed)
{
	return *(const u32 *)index;
}

static int rox_mr_differs(struct rhashtable_compare_arg *arg, const void *mr)
{
	return ((const struct rox_mr *)mr)->index != *(const u32 *)arg->key;
}

/*
 * The table does not shrink, which would cost a tenth of each deregistration. It keeps some 20
 * bytes for each region that there was at the same time, until the device goes.
 */
const struct rhashtable_params rox_mr_params = {
	.key_len = sizeof_field(struct rox_mr, index),
	.key_offset = offsetof(struct rox_mr, index),
	.head_offset = offsetof(struct rox_mr, node),
	.hashfn = rox_mr_hash,
	.obj_cmpfn = rox_mr_differs,
};

/**
 * rox_mem_init() - initialises the table of memory regions of a device
 * @mem: filled
 *
 * May sleep. Return: 0 or -ENOMEM.
 */
int rox_mem_init(struct rox_mem *mem)
{
	return rhashtable_init(&mem->mrs, &rox_mr_params);
}

/**
 * rox_mem_exit() - destroys the table of memory regions
 * @mem: has no memory regions
 *
 * May sleep.
 */
void rox_mem_exit(struct rox_mem *mem)
{
	WARN_ON(atomic_read(&mem->mrs.nelems));
	rhashtable_destroy(&mem->mrs);
}

#define ROX_ACCESS_REMOTE (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			   IB_ACCESS_REMOTE_ATOMIC)

/* A peer must not access addresses without memory. A local kernel user is trusted. */
static bool rox_dma_addr_ok(u64 addr, u64 len, int access)
{
	if (!len || !(access & ROX_ACCESS_REMOTE))
		return true;
	return virt_addr_valid(ib_virt_dma_to_ptr(addr)) &&
	       virt_addr_valid(ib_virt_dma_to_ptr(addr + len - 1));
}

/*
 * Checks for windows and ROX_MR_DMA. Only peers may use a window, and a type 2 window only the
 * peer of its QP. A user process may not use ROX_MR_DMA.
 */
int rox_mr_check_special(const struct rox_mr *mr, const struct rox_mem_user *who, u64 addr, u64 len,
			 int access)
{
	if (mr->type == ROX_MR_WINDOW)
		return who->qpn && (!mr->win.type2 || mr->win.qpn == who->qpn) ? 0 : -EPERM;
	if (who->user)
		return -EPERM;
	return rox_dma_addr_ok(addr, len, access) ? 0 : -ERANGE;
}

/* Finds a valid MR by its key and takes a reference; NULL if there is none. */
static struct rox_mr *rox_mr_find(struct rox_mem *mem, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr;

	rcu_read_lock();
	/*
	 * An MR leaves the table before its last reference is dropped. If it has none, look again:
	 * another MR may have its place.
	 */
	do {
		mr = rhashtable_lookup(&mem->mrs, &index, rox_mr_params);
		if (mr && (READ_ONCE(mr->key) != key || !READ_ONCE(mr->valid)))
			mr = NULL;
	} while (mr && unlikely(!refcount_inc_not_zero(&mr->ref)));
	rcu_read_unlock();
	return mr;
}

struct rox_mr *rox_mr_get(const struct rox_mem_user *who, u32 key, u64 addr, u64 len, int access)
{
	struct rox_mr *mr = rox_mr_find(who->mem, key);
	int err;

	if (!mr)
		return ERR_PTR(-ENOENT);
	/*
	 * Take the reference before the check of the flag. rox_mr_invalidate() clears the flag
	 * before it checks the references. So if the flag is set here, the fields of the MR do not
	 * change until the reference is dropped.
	 */
	smp_mb__after_atomic();
	/* Pairs with the release of a registration or bind: read the fields after the flag. */
	if (unlikely(!smp_load_acquire(&mr->valid) || READ_ONCE(mr->key) != key))
		err = -ENOENT;
	else
		err = rox_mr_check(mr, who, addr, len, access);
	if (likely(!err))
		return mr;
	rox_mr_put(mr);
	return ERR_PTR(err);
}

/**
 * rox_mr_put() - drops a reference on a memory region
 * @mr: from rox_mr_get()
 *
 * Any context.
 */
void rox_mr_put(struct rox_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->gone);
}

void rox_mr_leave(struct rox_mr *mr)
{
	/* Mostly nobody else has a reference. A lease has one, and who takes one had it before. */
	if (refcount_dec_and_test(&mr->ref))
		return;
	rox_leases_recall(&mr->leases);
	wait_for_completion(&mr->gone);
}

void rox_mr_keep_drop(struct rox_mr_keep *keep)
{
	struct rox_mr *mr = keep->mr;

	if (!mr)
		return;
	rox_lease_end(&mr->leases, &keep->lease);
	keep->mr = NULL;
	rox_mr_put(mr);
}

void rox_mr_keep_decide(struct rox_mr_keep *keep)
{
	struct rox_mr *mr = keep->mr;

	if (rox_lease_due(&mr->leases, &keep->lease) && keep->lease.holder &&
	    mr->type == ROX_MR_USER && rox_lease_take(&mr->leases, &keep->lease))
		return;
	rox_mr_keep_drop(keep);
}

/* Chooses an unused random index, and random lower 8 bits of the key. */
int rox_mr_publish(struct rox_mr *mr)
{
	int tries, err = -EEXIST;
	u32 key;

	for (tries = 0; err == -EEXIST && tries < ROX_KEY_TRIES; tries++) {
		key = get_random_u32();
		mr->index = key >> 8;
		/* Programs that forget to set a key use 0, so index 0 is not used. */
		if (!mr->index)
			continue;
		mr->ibmr.lkey = key;
		mr->ibmr.rkey = key;
		mr->key = key;
		err = rhashtable_lookup_insert_fast(&mr->mem->mrs, &mr->node, rox_mr_params);
	}
	return err;
}

static atomic_t *rox_mr_count(struct rox_mem *mem, enum rox_mr_type type)
{
	return type == ROX_MR_WINDOW ? &mem->num_mw : &mem->num_mr;
}

struct rox_mr *rox_mr_alloc(struct rox_mem *mem, struct ib_pd *ibpd, enum rox_mr_type type,
			    int access)
{
	atomic_t *count = rox_mr_count(mem, type);
	struct rox_mr *mr;

	if (rox_count_object(count, type == ROX_MR_WINDOW ? ROX_MAX_MW : ROX_MAX_MR))
		return NULL;
	mr = kzalloc(sizeof(*mr), ROX_GFP_USER);
	if (!mr) {
		atomic_dec(count);
		return NULL;
	}
	mr->mem = mem;
	mr->ibmr.device = ibpd->device;
	mr->ibmr.pd = ibpd;
	mr->type = type;
	mr->access = access;
	mr->valid = type == ROX_MR_USER || type == ROX_MR_ODP || type == ROX_MR_DMA;
	spin_lock_init(&mr->win.lock);
	spin_lock_init(&mr->frwr.lock);
	rox_leases_init(&mr->leases);
	refcount_set(&mr->ref, 1);
	init_completion(&mr->gone);
	return mr;
}

/* Gives @mr an array of @n blocks. Return: 0 or -ENOMEM. */
static int rox_mr_alloc_blocks(struct rox_mr *mr, size_t n)
{
	mr->blocks = n == 1 ? &mr->block : kvmalloc_array(n, sizeof(*mr->blocks), ROX_GFP_USER);
	return mr->blocks ? 0 : -ENOMEM;
}

static void rox_mr_free_blocks(struct rox_mr *mr)
{
	if (mr->blocks != &mr->block)
		kvfree(mr->blocks);
}

void rox_mr_free(struct rox_mr *mr)
{
	ib_umem_release(mr->umem);
	rox_dmabuf_release(mr->dmabuf);
	rox_odp_free(mr->odp);
	rox_mr_free_blocks(mr);
	kvfree(mr->frwr.blocks);
	atomic_dec(rox_mr_count(mr->mem, mr->type));
	kfree_rcu(mr, rcu);
}

int rox_check_access(int access)
{
	if (access & ~ROX_ACCESS_KNOWN)
		return -EOPNOTSUPP;
	/* Remote write and atomic access require local write access. */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/**
 * rox_mem_all() - creates a memory region for all of kernel memory
 * @mem: the device's regions
 * @ibpd: PD of a kernel user
 * @access: enum ib_access_flags
 *
 * May sleep. Return: the MR or ERR_PTR.
 */
struct ib_mr *rox_mem_all(struct rox_mem *mem, struct ib_pd *ibpd, int access)
{
	struct rox_mr *mr;
	int err;

	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	mr = rox_mr_alloc(mem, ibpd, ROX_MR_DMA, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->length = U64_MAX;
	err = rox_mr_publish(mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/*
 * Pins the pages and fills the list of blocks. The block size depends on the alignment of the user
 * address, not of the IOVA, because huge pages are aligned in user addresses only.
 */
int rox_mr_pin(struct rox_mr *mr, u64 start)
{
	struct ib_block_iter biter;
	unsigned long pgsz;
	size_t n, i = 0;
	int err;

	mr->umem = ib_umem_get_va(mr->ibmr.device, start, mr->length, mr->access);
	if (IS_ERR(mr->umem)) {
		err = PTR_ERR(mr->umem);
		mr->umem = NULL;
		return err;
	}
	pgsz = ib_umem_find_best_pgsz(mr->umem, GENMASK(ROX_MAX_BLOCK_SHIFT, PAGE_SHIFT), start);
	if (!pgsz)
		return -EINVAL;
	n = ib_umem_num_dma_blocks(mr->umem, pgsz);
	if (n > U32_MAX)
		return -EINVAL;
	err = rox_mr_alloc_blocks(mr, n);
	if (err)
		return err;
	rdma_umem_for_each_dma_block(mr->umem, &biter, pgsz) {
		if (WARN_ON_ONCE(i == n))
			return -EINVAL;
		mr->blocks[i++] = (unsigned long)
			ib_virt_dma_to_ptr(rdma_block_iter_dma_address(&biter));
	}
	if (WARN_ON_ONCE(i != n))
		return -EINVAL;
	mr->nblocks = n;
	mr->page_shift = ilog2(pgsz);
	mr->offset = start & (pgsz - 1);
	mr->ibmr.page_size = pgsz;
	return 0;
}

/**
 * rox_mem_register() - registers memory of the calling process
 * @mem: the device's regions
 * @ibpd: PD
 * @start: user address
 * @length: bytes; 0 creates an MR that gives access to no byte
 * @iova: address of byte 0 in work requests
 * @access: enum ib_access_flags; with IB_ACCESS_ON_DEMAND no page is pinned
 *
 * May sleep. Return: the MR or ERR_PTR.
 */
struct ib_mr *rox_mem_register(struct rox_mem *mem, struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access)
{
	struct rox_mr *mr;
	int err;

	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access & ~IB_ACCESS_ON_DEMAND);
	if (err)
		return ERR_PTR(err);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (iova + length < iova)
		return ERR_PTR(-EINVAL);
	if (access & IB_ACCESS_ON_DEMAND)
		return rox_reg_odp_mr(mem, ibpd, start, length, iova, access);

	mr = rox_mr_alloc(mem, ibpd, ROX_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	if (length)
		err = rox_mr_pin(mr, start);
	if (!err)
		err = rox_mr_publish(mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/**
 * rox_dereg_mr() - deregisters a memory region
 * @ibmr: region
 * @udata: not used
 *
 * May sleep. After it has returned 0, nobody accesses the memory through the region.
 * Return: 0, or -EBUSY while memory windows are bound to it.
 */
int rox_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rox_mr *mr = to_rox_mr(ibmr);

	if (mr->replaced) {
		rox_mr_free(mr);
		return 0;
	}
	/* From here on no window can be bound to it. */
	if (atomic_cmpxchg(&mr->windows, 0, -1))
		return -EBUSY;
	rhashtable_remove_fast(&mr->mem->mrs, &mr->node, rox_mr_params);
	rox_mr_leave(mr);
	rox_mr_free(mr);
	return 0;
}
