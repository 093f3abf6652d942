// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions: keys, rights, and where the bytes are.
 *
 * The device uses virtual DMA: what the RDMA core calls a DMA address is a
 * kernel address, so payload is copied to and from it as it stands.
 */
#include <linux/random.h>
#include <rdma/iter.h>
#include "internal.h"
#include "odp.h"

/* Tries for an unused random index; with 1M of 16M in use, 32 misses in a row are 2^-128. */
#define ROX_KEY_TRIES 32
/* log2 of the largest block. */
#define ROX_MAX_BLOCK_SHIFT 31

#define ROX_ACCESS_KNOWN (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
			  IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC | \
			  IB_ACCESS_MW_BIND | IB_ZERO_BASED | IB_ACCESS_HUGETLB)

const struct rhashtable_params rox_mr_params = {
	.key_len = sizeof_field(struct rox_mr, index),
	.key_offset = offsetof(struct rox_mr, index),
	.head_offset = offsetof(struct rox_mr, node),
	.automatic_shrinking = true,
};

/**
 * rox_mr_table_init() - prepares the table of memory regions of a device
 * @dev: device
 *
 * Return: 0 or -ENOMEM.
 */
int rox_mr_table_init(struct rox_dev *dev)
{
	return rhashtable_init(&dev->mrs, &rox_mr_params);
}

/**
 * rox_mr_table_destroy() - the end of the table
 * @dev: device without memory regions
 */
void rox_mr_table_destroy(struct rox_dev *dev)
{
	WARN_ON(atomic_read(&dev->mrs.nelems));
	rhashtable_destroy(&dev->mrs);
}

#define ROX_ACCESS_REMOTE (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
			   IB_ACCESS_REMOTE_ATOMIC)

/* Kernel users may name what they like, but a peer only what there is. */
static bool rox_dma_addr_ok(u64 addr, u64 len, int access)
{
	if (!len || !(access & ROX_ACCESS_REMOTE))
		return true;
	return virt_addr_valid(ib_virt_dma_to_ptr(addr)) &&
	       virt_addr_valid(ib_virt_dma_to_ptr(addr + len - 1));
}

/* A window has no lkey, and one of type 2 is for one QP. */
static int rox_mr_check_special(const struct rox_mr *mr, u64 addr, u64 len, int access,
				bool user, u32 qpn)
{
	if (mr->type == ROX_MR_WINDOW)
		return qpn && (!mr->win.type2 || mr->win.qpn == qpn) ? 0 : -EPERM;
	if (user)
		return -EPERM;
	return rox_dma_addr_ok(addr, len, access) ? 0 : -ERANGE;
}

static int rox_mr_check(const struct rox_mr *mr, struct ib_pd *pd, u64 addr, u64 len,
			int access, bool user, u32 qpn)
{
	u64 off = addr - mr->iova;
	int err;

	if (mr->ibmr.pd != pd)
		return -EPERM;
	if (unlikely(mr->type >= ROX_MR_DMA)) {
		err = rox_mr_check_special(mr, addr, len, access, user, qpn);
		if (err)
			return err;
	}
	if ((mr->access & access) != access)
		return -EACCES;
	if (len && (addr < mr->iova || len > mr->length || off > mr->length - len))
		return -ERANGE;
	return 0;
}

/* By a key that is good, with a reference; NULL if there is none. */
static struct rox_mr *rox_mr_find(struct rox_dev *dev, u32 key)
{
	u32 index = key >> 8;
	struct rox_mr *mr;

	rcu_read_lock();
	/* The last reference goes after the entry: there may be another one by now. */
	do {
		mr = rhashtable_lookup(&dev->mrs, &index, rox_mr_params);
		if (mr && (READ_ONCE(mr->key) != key || !READ_ONCE(mr->valid)))
			mr = NULL;
	} while (mr && unlikely(!refcount_inc_not_zero(&mr->ref)));
	rcu_read_unlock();
	return mr;
}

/* @qpn: the QP that a peer uses the key through, 0 if it is used locally. */
static __always_inline struct rox_mr *rox_mr_lookup(struct rox_dev *dev, struct ib_pd *pd, u32 key,
						    u64 addr, u64 len, int access, bool user,
						    u32 qpn)
{
	struct rox_mr *mr = rox_mr_find(dev, key);
	int err;

	if (!mr)
		return ERR_PTR(-ENOENT);
	/*
	 * The reference before the look; rox_mr_invalidate() does it the other way
	 * round. What is seen from here on stays until the reference is gone.
	 */
	smp_mb__after_atomic();
	/* What a registration or a bind has set is read after its flag. */
	if (unlikely(!smp_load_acquire(&mr->valid) || READ_ONCE(mr->key) != key))
		err = -ENOENT;
	else
		err = rox_mr_check(mr, pd, addr, len, access, user, qpn);
	if (likely(!err))
		return mr;
	rox_mr_put(mr);
	return ERR_PTR(err);
}

struct rox_mr *rox_mr_get(struct rox_dev *dev, struct ib_pd *pd, u32 key, u64 addr,
			  u64 len, int access, bool user)
{
	return rox_mr_lookup(dev, pd, key, addr, len, access, user, 0);
}

struct rox_mr *rox_mr_get_remote(const struct rox_qp *qp, u32 key, u64 addr, u64 len,
				 int access)
{
	return rox_mr_lookup(qp->dev, qp->recv.pd, key, addr, len, access, qp->user,
			     qp->ibqp.qp_num);
}

static bool rox_mr_has_key(const struct rox_mr *mr, u32 key)
{
	/* As after a look-up. */
	return READ_ONCE(mr->key) == key && smp_load_acquire(&mr->valid);
}

bool rox_mr_is(const struct rox_mr *mr, struct ib_pd *pd, u32 key, u64 addr, u32 len, int access,
	       bool user)
{
	return rox_mr_has_key(mr, key) && !rox_mr_check(mr, pd, addr, len, access, user, 0);
}

bool rox_mr_is_remote(const struct rox_mr *mr, const struct rox_qp *qp, u32 key, u64 addr, u32 len,
		      int access)
{
	return rox_mr_has_key(mr, key) &&
	       !rox_mr_check(mr, qp->recv.pd, addr, len, access, qp->user, qp->ibqp.qp_num);
}

/**
 * rox_mr_put() - lets go of a memory region
 * @mr: from rox_mr_get()
 */
void rox_mr_put(struct rox_mr *mr)
{
	if (refcount_dec_and_test(&mr->ref))
		complete(&mr->gone);
}

/**
 * rox_mr_map() - where an address of a memory region is in kernel memory
 * @mr: referenced, and checked to contain @addr
 * @addr: address as work requests name it
 * @len: in: bytes that are wanted; out: how many of them are contiguous
 *
 * Return: kernel address; NULL and no bytes if @addr is not in the MR.
 */
void *rox_mr_map(const struct rox_mr *mr, u64 addr, size_t *len)
{
	size_t block = (size_t)1 << mr->page_shift;
	size_t in_block, avail;
	unsigned long base;
	u64 off;
	u32 i;

	if (mr->type == ROX_MR_DMA)
		return ib_virt_dma_to_ptr(addr);

	off = addr - mr->iova + mr->offset;
	i = off >> mr->page_shift;
	in_block = off & (block - 1);
	if (i >= mr->nblocks) {
		*len = 0;
		return NULL;
	}
	base = mr->blocks[i];
	avail = block - in_block;
	/* Neighbours in user space are often neighbours in memory. */
	while (avail < *len && i + 1 < mr->nblocks && mr->blocks[i + 1] == mr->blocks[i] + block) {
		avail += block;
		i++;
	}
	*len = min3((u64)*len, (u64)avail, mr->length - (addr - mr->iova));
	return (void *)(base + in_block);
}

/* A random unused index, and by the same draw a random variant. */
int rox_mr_publish(struct rox_dev *dev, struct rox_mr *mr)
{
	int tries, err = -EEXIST;
	u32 key;

	for (tries = 0; err == -EEXIST && tries < ROX_KEY_TRIES; tries++) {
		key = get_random_u32();
		mr->index = key >> 8;
		/* Key 0 is what a program has that forgot to set one. */
		if (!mr->index)
			continue;
		mr->ibmr.lkey = key;
		mr->ibmr.rkey = key;
		mr->key = key;
		err = rhashtable_lookup_insert_fast(&dev->mrs, &mr->node, rox_mr_params);
	}
	return err;
}

static atomic_t *rox_mr_count(struct rox_dev *dev, enum rox_mr_type type)
{
	return type == ROX_MR_WINDOW ? &dev->num_mw : &dev->num_mr;
}

struct rox_mr *rox_mr_alloc(struct ib_pd *ibpd, enum rox_mr_type type, int access)
{
	struct rox_dev *dev = to_rox_dev(ibpd->device);
	atomic_t *count = rox_mr_count(dev, type);
	struct rox_mr *mr;

	if (rox_count_object(count, type == ROX_MR_WINDOW ? ROX_MAX_MW : ROX_MAX_MR))
		return NULL;
	mr = kzalloc(sizeof(*mr), ROX_GFP_USER);
	if (!mr) {
		atomic_dec(count);
		return NULL;
	}
	mr->ibmr.device = ibpd->device;
	mr->ibmr.pd = ibpd;
	mr->type = type;
	mr->access = access;
	mr->valid = type == ROX_MR_USER || type == ROX_MR_ODP || type == ROX_MR_DMA;
	spin_lock_init(&mr->win.lock);
	refcount_set(&mr->ref, 1);
	init_completion(&mr->gone);
	return mr;
}

void rox_mr_free(struct rox_mr *mr)
{
	struct rox_dev *dev = to_rox_dev(mr->ibmr.device);

	ib_umem_release(mr->umem);
	rox_dmabuf_release(mr->dmabuf);
	rox_odp_free(mr->odp);
	kvfree(mr->blocks);
	atomic_dec(rox_mr_count(dev, mr->type));
	kfree_rcu(mr, rcu);
}

int rox_check_access(int access)
{
	if (access & ~ROX_ACCESS_KNOWN)
		return -EOPNOTSUPP;
	/* What a peer may change, its owner must be allowed to change. */
	if (access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC) &&
	    !(access & IB_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return 0;
}

/**
 * rox_get_dma_mr() - a memory region that is all of kernel memory
 * @ibpd: PD of a kernel user
 * @access: enum ib_access_flags
 *
 * Return: the MR or ERR_PTR.
 */
struct ib_mr *rox_get_dma_mr(struct ib_pd *ibpd, int access)
{
	struct rox_mr *mr;
	int err;

	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	mr = rox_mr_alloc(ibpd, ROX_MR_DMA, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->length = U64_MAX;
	err = rox_mr_publish(to_rox_dev(ibpd->device), mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/*
 * Pins the pages and lists the blocks. The block size is chosen by how the
 * user's addresses, not those that work requests use, lie in physical memory:
 * only there do huge pages match.
 */
int rox_mr_pin(struct rox_mr *mr, u64 start)
{
	struct ib_block_iter biter;
	unsigned long pgsz;
	size_t n, i = 0;

	mr->umem = ib_umem_get_va(mr->ibmr.device, start, mr->length, mr->access);
	if (IS_ERR(mr->umem)) {
		int err = PTR_ERR(mr->umem);

		mr->umem = NULL;
		return err;
	}
	pgsz = ib_umem_find_best_pgsz(mr->umem, GENMASK(ROX_MAX_BLOCK_SHIFT, PAGE_SHIFT), start);
	if (!pgsz)
		return -EINVAL;
	n = ib_umem_num_dma_blocks(mr->umem, pgsz);
	if (n > U32_MAX)
		return -EINVAL;
	mr->blocks = kvmalloc_array(n, sizeof(*mr->blocks), ROX_GFP_USER);
	if (!mr->blocks)
		return -ENOMEM;
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
 * rox_reg_user_mr() - registers memory of the calling process
 * @ibpd: PD
 * @start: user address
 * @length: bytes; 0 gives an MR that no byte may be accessed through
 * @iova: address of byte 0 for work requests
 * @access: enum ib_access_flags; IB_ACCESS_ON_DEMAND pins nothing
 * @dmah: DMA hints, which are not for a device without DMA
 * @udata: not used
 *
 * Return: the MR or ERR_PTR.
 */
struct ib_mr *rox_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			      int access, struct ib_dmah *dmah, struct ib_udata *udata)
{
	struct rox_mr *mr;
	int err;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access & ~IB_ACCESS_ON_DEMAND);
	if (err)
		return ERR_PTR(err);
	if (access & IB_ZERO_BASED)
		iova = 0;
	if (iova + length < iova)
		return ERR_PTR(-EINVAL);
	if (access & IB_ACCESS_ON_DEMAND)
		return rox_reg_odp_mr(ibpd, start, length, iova, access);

	mr = rox_mr_alloc(ibpd, ROX_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	if (length)
		err = rox_mr_pin(mr, start);
	if (!err)
		err = rox_mr_publish(to_rox_dev(ibpd->device), mr);
	if (err) {
		rox_mr_free(mr);
		return ERR_PTR(err);
	}
	return &mr->ibmr;
}

/**
 * rox_dereg_mr() - the end of a memory region
 * @ibmr: region
 * @udata: not used
 *
 * When it has returned 0, nobody accesses the memory through it.
 * Return: 0, or -EBUSY while memory windows are bound to it.
 */
int rox_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct rox_dev *dev = to_rox_dev(ibmr->device);
	struct rox_mr *mr = to_rox_mr(ibmr);

	if (mr->replaced) {
		rox_mr_free(mr);
		return 0;
	}
	/* From here on none can be bound. */
	if (atomic_cmpxchg(&mr->windows, 0, -1))
		return -EBUSY;
	rhashtable_remove_fast(&dev->mrs, &mr->node, rox_mr_params);
	rox_mr_put(mr);
	wait_for_completion(&mr->gone);
	rox_mr_free(mr);
	return 0;
}
