/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions and windows, the iterator over SGE lists, and waiting for pages on demand.
 */
#ifndef ROX_MEM_H
#define ROX_MEM_H

#include <linux/cache.h>
#include <linux/completion.h>
#include <linux/mutex.h>
#include <linux/refcount.h>
#include <linux/rhashtable.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/string.h>
#include <linux/workqueue.h>
#include <rdma/ib_verbs.h>
#include <rdma/rox-abi.h>

#include "../compat/compat.h"
#include "../ring/ring.h"
#include "lease.h"

struct rox_dmabuf;
struct rox_odp;

/* Device limits for memory regions and windows. */
enum rox_mem_limits {
	ROX_MAX_MR		= SZ_1M,
	ROX_MAX_MW		= SZ_1M,
	ROX_MAX_FRWR_PAGES	= 4096,
};

/**
 * struct rox_mem - the memory regions and windows of a device
 * @mrs: struct rox_mr of all regions and windows, by key index (RCU)
 * @num_mr: number of regions, checked against ROX_MAX_MR
 * @num_mw: number of windows, checked against ROX_MAX_MW
 * @leaving: the device is going away; nobody may wait for pages
 */
struct rox_mem {
	struct rhashtable mrs;
	atomic_t num_mr;
	atomic_t num_mw;
	bool leaving;
};

/**
 * struct rox_mem_user - who accesses memory by a key
 * @mem: the regions of the device
 * @pd: PD; must be the PD of the region
 * @qpn: number of the QP through which a peer accesses memory; 0 for a local access
 * @user: the access is for a user process, which may not use a ROX_MR_DMA region
 */
struct rox_mem_user {
	struct rox_mem *mem;
	struct ib_pd *pd;
	u32 qpn;
	bool user;
};

enum rox_mr_type {
	ROX_MR_USER,	/* pinned user pages */
	ROX_MR_FRWR,	/* fast registration, kernel users only */
	ROX_MR_ODP,	/* user pages on demand, not pinned */
	/* The following types need more checks than PD, rights and range. */
	ROX_MR_DMA,	/* all of kernel memory, kernel users only */
	ROX_MR_WINDOW,	/* memory window: a part of another region, for peers only */
};

/**
 * struct rox_window - the part of struct rox_mr that only memory windows use
 * @lock: serialises bind and invalidate; taken with bottom halves disabled
 * @parent: the region that the window is bound to, or NULL; its rox_mr.windows counts the window
 * @type2: window of type 2B: bound to one QP, and must be invalidated before it is bound again
 * @dead: the window is being deallocated
 * @qpn: type 2: number of the QP that it is bound to; only the peer of that QP may use it
 */
struct rox_window {
	spinlock_t lock;	/* all fields of the window that a bind changes */
	struct rox_mr *parent;
	bool type2;
	bool dead;
	u32 qpn;
};

/**
 * struct rox_frwr - the page list for the next fast registration of a region
 * @lock: taken by rox_map_mr_sg() and by rox_mr_register()
 * @blocks: kernel address of each page; has room for rox_mr.max_blocks pages
 * @nblocks: number of pages in @blocks
 * @noted: the list has been filled, but not registered yet
 */
struct rox_frwr {
	spinlock_t lock;	/* this structure, and the ib_mr fields that ib_map_mr_sg() sets */
	unsigned long *blocks;
	u32 nblocks;
	bool noted;
};

/**
 * struct rox_mr - a memory region, or a memory window
 * @ibmr: the RDMA core's object; lkey and rkey are equal. In a window only device and PD
 *	are valid
 * @mem: the device's regions
 * @umem: pinned pages, or NULL
 * @max_blocks: FRWR: number of blocks that @blocks has room for
 * @replaced: rereg_user_mr has put another object in its place; it only waits to be freed
 * @frwr: FRWR: the next page list; accesses to the region do not use it
 * @win: window: its own fields
 * @dmabuf: imported dma-buf, or NULL
 * @odp: on demand: state of the pages; @blocks is not used
 * @leases: of send sides that use the region in each run
 * @rcu: frees the object after an RCU grace period
 * @block: room for @blocks if there is only one
 * @node: in @mem->mrs, keyed by @index
 * @index: upper 24 bits of the key, random and unique
 * @key: current key; the owner of an FRWR region or window chooses its lower 8 bits
 * @valid: the region may be accessed; changes only for FRWR regions and windows
 * @page_shift: log2 of the block size; a huge page is one block
 * @type: enum rox_mr_type
 * @access: enum ib_access_flags
 * @nblocks: number of blocks
 * @iova: address of byte 0 in work requests (0 if zero-based)
 * @length: bytes
 * @offset: offset of byte 0 in the first block
 * @blocks: kernel address of each block; a window uses the array of its parent region
 * @ref: one for the table, one for each rox_mr_get()
 * @windows: number of windows that are bound to the region; -1 if binding is refused
 * @gone: completed when @ref reaches 0
 */
struct rox_mr {
	struct ib_mr ibmr;
	struct rox_mem *mem;
	struct ib_umem *umem;
	u32 max_blocks;
	bool replaced;
	struct rox_frwr frwr;
	struct rox_window win;
	struct rox_dmabuf *dmabuf;
	struct rox_odp *odp;
	struct rox_leases leases;
	struct rcu_head rcu;
	unsigned long block;

	/* Whoever uses the region reads this line, and the PD in @ibmr. */
	struct rhash_head node ____cacheline_aligned_in_smp;
	u32 index;
	u32 key;
	bool valid;
	u8 page_shift;
	enum rox_mr_type type;
	int access;
	u32 nblocks;
	u64 iova;
	u64 length;
	u64 offset;
	unsigned long *blocks;

	/* Each run writes to this line. */
	refcount_t ref ____cacheline_aligned_in_smp;
	atomic_t windows;
	struct completion gone;
};

/* Each CPU writes the reference count: it shares no cache line with the fields they all read. */
static_assert(!IS_ENABLED(CONFIG_SMP) ||
	      (offsetof(struct rox_mr, ref) % SMP_CACHE_BYTES == 0 &&
	       offsetof(struct rox_mr, node) / SMP_CACHE_BYTES <
	       offsetof(struct rox_mr, ref) / SMP_CACHE_BYTES));
/* A look-up in the table and a check need one cache line of the MR. */
static_assert(!IS_ENABLED(CONFIG_SMP) || SMP_CACHE_BYTES < 64 ||
	      offsetofend(struct rox_mr, blocks) - offsetof(struct rox_mr, node) <= 64);

static inline struct rox_mr *to_rox_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rox_mr, ibmr);
}

/**
 * rox_mr_get() - looks up a key, checks the right to use it, and takes a reference
 * @who: who wants to use it
 * @key: lkey or rkey
 * @addr: first address
 * @len: bytes; 0 is in range anywhere
 * @access: enum ib_access_flags, all of which the MR must grant (0: local read)
 *
 * Any context. Return: the MR, or ERR_PTR: -ENOENT if there is no valid MR with this key,
 * -EPERM if @who may not use it (another PD, another QP's window, a window used locally),
 * -EACCES if it does not grant @access, -ERANGE if the range is not within the MR.
 */
struct rox_mr *rox_mr_get(const struct rox_mem_user *who, u32 key, u64 addr, u64 len, int access);
/* Drops a reference of rox_mr_get(). Any context. */
void rox_mr_put(struct rox_mr *mr);

/**
 * struct rox_mr_keep - the MR that was used last; saves the look-up if it is used again
 * @mr: the MR, with a reference; or NULL
 * @lease: makes the reference outlive the run. Without a holder there is none
 *
 * One context at a time uses it. The lease is taken if two runs in a row end with the same MR. Only
 * pinned regions of processes have leases: their fields do not change, and nobody but dereg_mr and
 * rereg_mr minds the reference.
 */
struct rox_mr_keep {
	struct rox_mr *mr;
	struct rox_lease lease;
};

/* Drops the MR that is kept, if there is one. Nobody uses it. Any context. */
void rox_mr_keep_drop(struct rox_mr_keep *keep);
/*
 * Return: the kernel address of a range, if the MR that is kept is the one of rox_mr_get() with
 * these arguments and has the range in one block; else NULL. Valid until @keep is dropped or
 * settled.
 */
void *rox_mr_keep_find(const struct rox_mr_keep *keep, const struct rox_mem_user *who, u32 key,
		       u64 addr, u32 len, int access);
/* The rest of rox_mr_keep_settle(). */
void rox_mr_keep_decide(struct rox_mr_keep *keep);

/* A run ends: drops the MR, unless there is a lease. Nobody uses it. Bottom halves disabled. */
static inline void rox_mr_keep_settle(struct rox_mr_keep *keep)
{
	if (keep->mr && !rox_lease_stands(&keep->mr->leases, &keep->lease))
		rox_mr_keep_decide(keep);
}

/*
 * Allocates an MR that no key leads to yet. May sleep. Return: the MR; NULL without memory or if
 * the limit of the device is reached.
 */
struct rox_mr *rox_mr_alloc(struct rox_mem *mem, struct ib_pd *ibpd, enum rox_mr_type type,
			    int access);
/* Frees an MR that was never published, or whose last reference is gone. May sleep. */
void rox_mr_free(struct rox_mr *mr);
/*
 * Gives the MR a random key and enters it into the table of regions. Process context.
 * Return: 0 or an error.
 */
int rox_mr_publish(struct rox_mr *mr);

/**
 * rox_mr_map() - translates an address of a memory region to a kernel address
 * @mr: the caller holds a reference, and has checked that @addr is in the region
 * @addr: address in work requests
 * @len: in: bytes that the caller wants; out: how many of them are contiguous
 *
 * A region on demand has no blocks: rox_odp_map() is for it. Any context.
 * Return: the kernel address; NULL, with *@len 0, if @mr has no block for @addr.
 */
static inline void *rox_mr_map(const struct rox_mr *mr, u64 addr, size_t *len)
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
	/* Adjacent user pages are often adjacent in kernel memory as well. */
	while (avail < *len && i + 1 < mr->nblocks && mr->blocks[i + 1] == mr->blocks[i] + block) {
		avail += block;
		i++;
	}
	*len = min3((u64)*len, (u64)avail, mr->length - (addr - mr->iova));
	return (void *)(base + in_block);
}

/**
 * struct rox_iter - walks an SGE list through its MRs
 * @who: who accesses the memory
 * @sge: the list
 * @num_sge: number of its elements
 * @cur: index of the current element
 * @off: offset in the current element
 * @access: enum ib_access_flags that each MR must grant
 * @mr: MR of the current element, with a reference; NULL if not looked up
 * @at: kernel address of the current position, if @left is not 0
 * @left: bytes at @at that are known to be contiguous, within the current element; 0 without @mr
 * @next: in the blocks of @mr, the one after these bytes; NULL if not known, or if the element ends
 * @keep: keeps the MR of the last element, or NULL
 * @trim: the list again, if it may be shortened to what its MRs have; else NULL
 *
 * The iterator holds a reference on the current MR. rox_iter_end() drops it. A copy has no
 * reference of its own: copy an iterator after rox_iter_end(), or by rox_iter_copy().
 * Callers end the iterator between bursts, so that dereg_mr never waits for a whole message. The
 * next use looks up the key again.
 *
 * With @keep, the reference is @keep's, and the next look-up tries that MR first. No other iterator
 * uses @keep at the same time. The owner of @keep settles it when its run ends.
 */
struct rox_iter {
	struct rox_mem_user who;
	const struct rox_sge *sge;
	u32 num_sge;
	u32 cur;
	u32 off;
	int access;
	struct rox_mr *mr;
	void *at;
	u32 left;
	const unsigned long *next;
	struct rox_mr_keep *keep;
	struct rox_sge *trim;
};

/*
 * Sets @it to the first byte of the list. @sge must live as long as the iterator. Takes no
 * reference. Each MR must grant @access.
 */
static inline void rox_iter_init(struct rox_iter *it, const struct rox_mem_user *who,
				 const struct rox_sge *sge, u32 num_sge, int access)
{
	it->who = *who;
	it->sge = sge;
	it->num_sge = num_sge;
	it->cur = 0;
	it->off = 0;
	it->access = access;
	it->mr = NULL;
	it->at = NULL;
	it->left = 0;
	it->next = NULL;
	it->keep = NULL;
	it->trim = NULL;
}

/*
 * Checks each SGE of the list as a whole. Return: 0; 1 if an SGE is in a region on demand; or
 * the first error of rox_mr_get().
 */
int rox_iter_check(struct rox_iter *it);
/*
 * At the first byte of the list, whose first SGE is not empty: looks up the MR and keeps the
 * reference. Return: as rox_iter_check().
 */
int rox_iter_begin(struct rox_iter *it);
/* Moves to @offset bytes from the beginning of the list. */
void rox_iter_seek(struct rox_iter *it, u64 offset);
/* Skips @n bytes, or the rest of the list if that is shorter. */
void rox_iter_advance(struct rox_iter *it, u32 n);
/* Moves to a position that was saved before: values of the fields @cur and @off. */
void rox_iter_return(struct rox_iter *it, u32 cur, u32 off);
/* Return: an iterator at the same position, without a reference or a place to keep one. */
static inline struct rox_iter rox_iter_copy(const struct rox_iter *it)
{
	struct rox_iter copy = *it;

	copy.mr = NULL;
	copy.left = 0;
	copy.next = NULL;
	copy.keep = NULL;
	return copy;
}

/* rox_iter_next() where no contiguous bytes are known. */
ssize_t rox_iter_map(struct rox_iter *it, size_t max, void **p);

/*
 * Finds the next contiguous piece of at most @max bytes, stores its kernel address in *@p, and
 * moves past it. Return: its length; 0 at the end of the list; an error of rox_mr_get(); or
 * -EAGAIN if the page is on demand and missing. The position stays at a missing page.
 */
static inline ssize_t rox_iter_next(struct rox_iter *it, size_t max, void **p)
{
	u32 n;

	if (!it->left)
		return rox_iter_map(it, max, p);
	n = min_t(size_t, max, it->left);
	*p = it->at;
	it->at += n;
	it->left -= n;
	it->off += n;
	return n;
}

/*
 * Moves past the next @len bytes, if they are known to be contiguous. Return: their kernel address,
 * or NULL, and then the position stays.
 */
static inline void *rox_iter_piece(struct rox_iter *it, size_t len)
{
	void *p = it->at;

	if (unlikely(len > it->left))
		return NULL;
	it->at += len;
	it->left -= len;
	it->off += len;
	return p;
}

/* rox_copy() where the last bytes are no aligned word of eight. */
void rox_copy_odd(void *dst, const void *src, size_t len);

/*
 * Copies payload into memory that a program may be watching. Programs poll the last bytes of a
 * WRITE (ib_write_lat), and write flags of one word, because adapters write in order, and whole
 * words at once. So the last word, or byte, is stored by itself, after all others.
 */
static inline void rox_copy(void *dst, const void *src, size_t len)
{
	size_t rest = len - sizeof(u64);
	u64 last;

	if (unlikely(len < sizeof(u64) || !IS_ALIGNED((uintptr_t)dst + len, sizeof(u64)))) {
		rox_copy_odd(dst, src, len);
		return;
	}
	if (rest)
		memcpy(dst, src, rest);
	memcpy(&last, src + rest, sizeof(last));
	/* A program that reads the last word with acquire semantics also sees the others. */
	smp_wmb();
	WRITE_ONCE(*(u64 *)(dst + rest), last);
}

/* rox_iter_write() to several pieces. */
int rox_iter_write_pieces(struct rox_iter *it, const void *src, size_t len);

/*
 * Copies @len bytes from @src into the list, the last ones last, and moves past them. Return: 0,
 * -EMSGSIZE if the list is shorter, or an error of rox_iter_next().
 */
static inline int rox_iter_write(struct rox_iter *it, const void *src, size_t len)
{
	void *p = rox_iter_piece(it, len);

	if (unlikely(!p))
		return rox_iter_write_pieces(it, src, len);
	rox_copy(p, src, len);
	return 0;
}

/* rox_iter_read() of several pieces. */
int rox_iter_read_pieces(struct rox_iter *it, void *dst, size_t len);

/* Copies the next @len bytes of the list to @dst, and moves past them. Return: as the above. */
static inline int rox_iter_read(struct rox_iter *it, void *dst, size_t len)
{
	const void *p = rox_iter_piece(it, len);

	if (unlikely(!p))
		return rox_iter_read_pieces(it, dst, len);
	memcpy(dst, p, len);
	return 0;
}

/*
 * The same as @n calls of rox_iter_write() or rox_iter_read() for @len bytes, whose places in @src
 * or @dst are @stride apart.
 */
int rox_iter_write_each(struct rox_iter *it, const void *src, size_t len, size_t stride, u32 n);
int rox_iter_read_each(struct rox_iter *it, void *dst, size_t len, size_t stride, u32 n);

/* Drops the reference on the current MR. The position stays, and @it may be used again. */
static inline void rox_iter_end(struct rox_iter *it)
{
	if (!it->mr)
		return;
	if (!it->keep)
		rox_mr_put(it->mr);
	it->mr = NULL;
	it->left = 0;
	it->next = NULL;
}

/* Initialises the table of regions. May sleep. Return: 0 or -ENOMEM. */
int rox_mem_init(struct rox_mem *mem);
/* Destroys the table, which must be empty. May sleep. */
void rox_mem_exit(struct rox_mem *mem);

/* ---- registration; see the definitions. Functions without struct rox_mem are device ops ---- */

struct ib_mr *rox_mem_all(struct rox_mem *mem, struct ib_pd *ibpd, int access);
struct ib_mr *rox_mem_register(struct rox_mem *mem, struct ib_pd *ibpd, u64 start, u64 length,
			       u64 iova, int access);
#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)
struct ib_mr *rox_mem_register_dmabuf(struct rox_mem *mem, struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access);
#else
static inline struct ib_mr *
rox_mem_register_dmabuf(struct rox_mem *mem, struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
			int fd, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}
#endif
struct ib_mr *rox_mem_reregister(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				 int access, struct ib_pd *pd);
int rox_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);

/* fast registration (frwr.c) */
struct ib_mr *rox_mem_alloc_fast(struct rox_mem *mem, struct ib_pd *ibpd, enum ib_mr_type type,
				 u32 max_num_sg);
int rox_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset);
int rox_mr_register(struct rox_mem *mem, struct ib_pd *pd, u32 key, int access);
int rox_mr_invalidate(struct rox_mem *mem, struct ib_pd *pd, u32 key);

/* memory windows (mw.c) */

/**
 * struct rox_mw - memory window
 * @ibmw: the RDMA core's object; must be first
 * @mr: its entry in the table of regions
 */
struct rox_mw {
	struct ib_mw ibmw;
	struct rox_mr *mr;
};

int rox_mem_alloc_window(struct rox_mem *mem, struct ib_mw *ibmw);
int rox_dealloc_mw(struct ib_mw *ibmw);
bool rox_bind_is_known(const struct rox_bind *bind);
int rox_mw_bind(const struct rox_mem_user *who, const struct rox_bind *bind);
/*
 * Invalidates a type 2 window or a fast registration region, for a LOCAL_INV of a QP or a SEND
 * with invalidate to it. Bottom halves disabled. Return: as rox_mr_invalidate().
 */
int rox_key_invalidate(const struct rox_mem_user *who, u32 key);

#include "odp.h"

/* ---- waiting for pages on demand (fault.c) ---- */

/* Maximum number of bytes that one job faults in for a work request. */
#define ROX_FAULT_BYTES		SZ_256K

struct rox_fault;

/**
 * struct rox_page_wait - a waiter for pages on demand
 * @busy: it is waiting; until then a job uses @fault
 * @jobs: how many jobs rox_fault_ready() has started since it last returned 0
 * @fault: the pages that it waits for
 * @wq: runs the job if there are no pages to fault in
 * @resume: called when the job has tried; process context, bottom halves disabled
 */
struct rox_page_wait {
	bool busy;
	u8 jobs;
	struct rox_fault *fault;
	struct workqueue_struct *wq;
	void (*resume)(struct rox_page_wait *wait);
};

/* Initialises @wait. May sleep. Return: 0 or -ENOMEM. */
int rox_fault_init(struct rox_page_wait *wait, struct workqueue_struct *wq,
		   void (*resume)(struct rox_page_wait *wait));
/*
 * Ends @wait. Process context. The caller makes sure that nobody asks for more pages. @resume is
 * not called after this returns. Does not wait for a page fault that hangs.
 */
void rox_fault_destroy(struct rox_page_wait *wait);
/* The request that needed the pages has ended: discard the result of the page fault. */
void rox_fault_forget(struct rox_page_wait *wait);
/*
 * Starts a job that faults in the page at @addr, and up to @len bytes from there. Call it in a
 * run of the waiting side. Return: -EAGAIN: @resume will be called when the job has tried. If the
 * last job has failed for the same page, its error: -EFAULT, -EPERM, -ENOMEM.
 */
int rox_fault_in(struct rox_page_wait *wait, const struct rox_mem_user *who, u32 key, u64 addr,
		 u32 len, int access);
/* Calls rox_fault_in() for the page at which rox_iter_next() of @it returned -EAGAIN. */
int rox_fault_at(struct rox_page_wait *wait, const struct rox_iter *it);
/*
 * Checks that the next @len bytes of @it are present, and starts a job if not. @it does not move.
 * Return: 0; -EMSGSIZE if the list is shorter; an error of rox_mr_get(); or as rox_fault_in().
 */
int rox_fault_ready(struct rox_page_wait *wait, const struct rox_iter *it, u32 len);

/* Is a job under way for @wait? Then @resume will be called. Any context. */
static inline bool rox_fault_busy(const struct rox_page_wait *wait)
{
	/* Pairs with the release in rox_fault_run(): read the job's result after the flag. */
	return smp_load_acquire(&wait->busy);
}

/**
 * rox_count_object() - counts a new object against a limit of the device
 * @count: number of objects
 * @max: limit
 *
 * The caller does atomic_dec() when the object ends. Any context.
 * Return: 0 or -ENOMEM.
 */
static inline int rox_count_object(atomic_t *count, int max)
{
	if (atomic_inc_return(count) <= max)
		return 0;
	atomic_dec(count);
	return -ENOMEM;
}

#endif /* ROX_MEM_H */
