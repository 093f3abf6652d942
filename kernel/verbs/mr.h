/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory regions, and the iterator through which all payload goes.
 */
#ifndef ROX_MR_H
#define ROX_MR_H

#include "../rox.h"

struct rox_qp;
struct rox_dmabuf;
struct rox_odp;
struct uverbs_attr_bundle;

enum rox_mr_type {
	ROX_MR_USER,	/* pinned user pages */
	ROX_MR_FRWR,	/* fast registration, kernel users only */
	ROX_MR_ODP,	/* user pages that come and go */
	/* From here on an access is checked for more than PD, rights and range. */
	ROX_MR_DMA,	/* all of kernel memory, kernel users only */
	ROX_MR_WINDOW,	/* memory window: a part of another region, for peers only */
};

/**
 * struct rox_window - what a memory window has and a region has not
 * @lock: one bind or invalidate at a time; bottom halves disabled
 * @parent: the region that it is bound to, which counts it in @windows, or NULL
 * @type2: window of type 2B: bound to a QP, and free before it is bound again
 * @dead: being deallocated
 * @qpn: type 2: the QP whose peer may use it
 */
struct rox_window {
	spinlock_t lock;	/* all that a bind changes */
	struct rox_mr *parent;
	bool type2;
	bool dead;
	u32 qpn;
};

/**
 * struct rox_mr - a memory region, or a memory window
 * @ibmr: the RDMA core's object; lkey and rkey are the same number. Of a window
 *	only device and PD are valid
 * @node: in rox_dev.mrs, keyed by @index
 * @index: upper 24 bits of the key, random and unique
 * @key: the key that is good now; for FRWR and windows their owner chooses the
 *	lower 8 bits
 * @valid: may be accessed; always, but for FRWR and windows
 * @ref: one for the table, one for each iterator that stands on it
 * @gone: completed when @ref reaches 0
 * @type: enum rox_mr_type
 * @access: enum ib_access_flags
 * @iova: address of byte 0 as work requests name it (0 for zero-based)
 * @length: bytes
 * @offset: of byte 0 in the first block
 * @page_shift: log2 of the block size; a huge page is one block
 * @blocks: kernel address of each block; a window's are those of @parent
 * @nblocks: their number
 * @max_blocks: FRWR: as many as there is room for
 * @umem: pinned pages
 * @windows: windows that are bound to the region; -1 if none can be any more
 * @replaced: by another object after rereg_user_mr; only to be freed
 * @win: window: see there
 * @dmabuf: or the dma-buf that it is about
 * @odp: on demand: what is known of the pages; there are no @blocks
 * @rcu: for freeing after the table's readers
 */
struct rox_mr {
	struct ib_mr ibmr;
	struct rhash_head node;
	u32 index;
	u32 key;
	bool valid;
	refcount_t ref;
	struct completion gone;
	enum rox_mr_type type;
	int access;
	u64 iova;
	u64 length;
	u64 offset;
	u8 page_shift;
	unsigned long *blocks;
	u32 nblocks;
	u32 max_blocks;
	struct ib_umem *umem;
	atomic_t windows;
	bool replaced;
	struct rox_window win;
	struct rox_dmabuf *dmabuf;
	struct rox_odp *odp;
	struct rcu_head rcu;
};

static inline struct rox_mr *to_rox_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct rox_mr, ibmr);
}

/**
 * rox_mr_get() - looks up a key, checks the right to use it, and takes a reference
 * @dev: device
 * @pd: the QP's PD; must be the MR's
 * @key: lkey or rkey
 * @addr: first address
 * @len: bytes; 0 is in range anywhere
 * @access: enum ib_access_flags that are needed, all of them (0: local read)
 * @user: the work request comes from a user QP: DMA MRs are refused
 *
 * Any context. Return: the MR, or ERR_PTR: -ENOENT no such key, -EPERM another
 * PD, -EACCES access not granted, -ERANGE not within the MR.
 */
struct rox_mr *rox_mr_get(struct rox_dev *dev, struct ib_pd *pd, u32 key, u64 addr,
			  u64 len, int access, bool user);
/* The same for the peer of @qp, who may use memory windows, too. */
struct rox_mr *rox_mr_get_remote(const struct rox_qp *qp, u32 key, u64 addr, u64 len,
				 int access);
void rox_mr_put(struct rox_mr *mr);
/* Lets go of the MR in *@keep, if there is one. */
static inline void rox_mr_release(struct rox_mr **keep)
{
	if (*keep)
		rox_mr_put(*keep);
	*keep = NULL;
}

/* Is @mr, of which the caller has a reference, what rox_mr_get() would return? */
bool rox_mr_is(const struct rox_mr *mr, struct ib_pd *pd, u32 key, u64 addr, u32 len, int access,
	       bool user);
/* ... rox_mr_get_remote() would return? */
bool rox_mr_is_remote(const struct rox_mr *mr, const struct rox_qp *qp, u32 key, u64 addr, u32 len,
		      int access);
/* An MR that nobody can find yet; NULL on no memory or too many. */
struct rox_mr *rox_mr_alloc(struct ib_pd *ibpd, enum rox_mr_type type, int access);
/* Frees it if rox_mr_publish() has failed, or after the last reference. */
void rox_mr_free(struct rox_mr *mr);
/* Gives it a random key, under which it is found from now on. 0 or an error. */
int rox_mr_publish(struct rox_dev *dev, struct rox_mr *mr);
/* Pins @mr's length of the process' memory from @start on. 0 or an error. */
int rox_mr_pin(struct rox_mr *mr, u64 start);
/* 0, -EOPNOTSUPP or -EINVAL for access flags that no MR may have. */
int rox_check_access(int access);
/*
 * Kernel address of @addr, and in @len how many bytes are contiguous there (not beyond
 * the MR); NULL and 0 if it is not in the MR, or if that is on demand (rox_odp_map()).
 */
void *rox_mr_map(const struct rox_mr *mr, u64 addr, size_t *len);

/**
 * struct rox_iter - walks an SGE list through its MRs
 *
 * Holds a reference on the MR it stands on until it leaves it; rox_iter_end()
 * lets go. It may be copied only when it holds none (after rox_iter_end()).
 * Between bursts it is ended, so that dereg_mr never waits for a message; the
 * next use looks the key up again. With @peer_of the list is that QP's peer's.
 *
 * With @keep the MR that it leaves goes there, with the reference, instead of the one
 * before it, and is looked at first when the next is wanted: the owner of @keep releases
 * it when its run ends.
 */
struct rox_iter {
	struct rox_dev *dev;
	struct ib_pd *pd;
	const struct rox_sge *sge;
	u32 num_sge;
	u32 cur;
	u32 off;
	int access;
	bool user;
	const struct rox_qp *peer_of;
	struct rox_mr *mr;
	struct rox_mr **keep;
};

void rox_iter_init(struct rox_iter *it, struct rox_dev *dev, struct ib_pd *pd,
		   const struct rox_sge *sge, u32 num_sge, int access, bool user);
/* For what the peer of @qp names: one element, looked up by rox_mr_get_remote(). */
void rox_iter_init_remote(struct rox_iter *it, const struct rox_qp *qp,
			  const struct rox_sge *sge, int access);
/*
 * Looks up every SGE once, whole: 0, 1 if there are pages on demand among them, or the first
 * error of rox_mr_get().
 */
int rox_iter_check(struct rox_iter *it);
/* Looks up the first SGE, which must not be empty, and stays there; returns as rox_iter_check(). */
int rox_iter_begin(struct rox_iter *it);
/* Goes to @offset bytes from the beginning of the list. */
void rox_iter_seek(struct rox_iter *it, u64 offset);
/* Passes over @n bytes, or what is left. */
void rox_iter_advance(struct rox_iter *it, u32 n);
/* Goes back to where it was when its @cur and @off had these values. */
void rox_iter_return(struct rox_iter *it, u32 cur, u32 off);
/*
 * The next contiguous piece of at most @max bytes: its address in @p, its
 * length returned, and the iterator moves past it. 0 at the end of the list,
 * a negative error of rox_mr_get(), or -EAGAIN for a page that is not there now: the
 * iterator stands at it.
 */
ssize_t rox_iter_next(struct rox_iter *it, size_t max, void **p);
/* Copies @len bytes and advances; 0, -EMSGSIZE if the list is shorter, or as rox_mr_get(). */
int rox_iter_write(struct rox_iter *it, const void *src, size_t len);
void rox_iter_end(struct rox_iter *it);

int rox_mr_table_init(struct rox_dev *dev);
void rox_mr_table_destroy(struct rox_dev *dev);

/* verbs */
struct ib_mr *rox_get_dma_mr(struct ib_pd *ibpd, int access);
struct ib_mr *rox_reg_user_mr(struct ib_pd *ibpd, u64 start, u64 length, u64 iova,
			      int access, struct ib_dmah *dmah, struct ib_udata *udata);
int rox_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata);
struct ib_mr *rox_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length, u64 iova,
				int access, struct ib_pd *pd, struct ib_udata *udata);

/* dma-buf (verbs/dmabuf.c) */
struct ib_mr *rox_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				     int fd, int access, struct ib_dmah *dmah,
				     struct uverbs_attr_bundle *attrs);
void rox_dmabuf_release(struct rox_dmabuf *db);

/* fast registration (verbs/frwr.c) */
struct ib_mr *rox_alloc_mr(struct ib_pd *ibpd, enum ib_mr_type type, u32 max_num_sg);
int rox_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int sg_nents,
		  unsigned int *sg_offset);
int rox_mr_register(struct rox_dev *dev, struct ib_pd *pd, u32 key, int access);
int rox_mr_invalidate(struct rox_dev *dev, struct ib_pd *pd, u32 key);

/* memory windows (verbs/mw.c) */

/**
 * struct rox_mw - memory window
 * @ibmw: the RDMA core's object; must be first
 * @mr: how keys lead to it
 */
struct rox_mw {
	struct ib_mw ibmw;
	struct rox_mr *mr;
};

int rox_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int rox_dealloc_mw(struct ib_mw *ibmw);
int rox_mw_bind(struct rox_qp *qp, const struct rox_bind *bind);
/* LOCAL_INV of @qp or SEND with invalidate to it, of window or region; as rox_mr_invalidate(). */
int rox_key_invalidate(struct rox_qp *qp, struct ib_pd *pd, u32 key);

#endif /* ROX_MR_H */
