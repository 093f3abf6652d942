// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: memory windows: bind, refused binds, invalidate and deallocation.
 */
#include <linux/sizes.h>

#include "../transport/internal.h"
#include "../kunit/fixture.h"

#define REGION_PAGES	4
#define REGION_IOVA	0x7f0000000200ULL
#define REGION_OFFSET	0x200
#define REGION_LENGTH	(REGION_PAGES * PAGE_SIZE - 2 * REGION_OFFSET)
#define ALL_REMOTE	(IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC)

/**
 * struct window_pair - state at the beginning of the cases
 * @qp: binds the window; its peer uses it
 * @region: a region with made-up page addresses in reverse order, which are only compared
 * @mw: a window that is not bound
 */
struct window_pair {
	struct rox_qp *qp;
	struct rox_mr *region;
	struct rox_mw mw;
};

static unsigned long block_at(u32 i)
{
	return SZ_1M + (REGION_PAGES - i) * 2 * PAGE_SIZE;
}

static struct rox_mr *region_of(struct kunit *test, struct ib_pd *pd, int access)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr = rox_mr_alloc(&f->dev->mem, pd, ROX_MR_USER, access);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, mr);
	mr->iova = REGION_IOVA;
	mr->offset = REGION_OFFSET;
	mr->length = REGION_LENGTH;
	mr->page_shift = PAGE_SHIFT;
	mr->nblocks = REGION_PAGES;
	mr->blocks = kvmalloc_array(REGION_PAGES, sizeof(*mr->blocks), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, mr->blocks);
	for (i = 0; i < REGION_PAGES; i++)
		mr->blocks[i] = block_at(i);
	KUNIT_ASSERT_EQ(test, rox_mr_publish(mr), 0);
	return mr;
}

static void window_init(struct kunit *test, struct rox_mw *mw, struct ib_pd *pd,
			enum ib_mw_type type)
{
	mw->ibmw.device = pd->device;
	mw->ibmw.pd = pd;
	mw->ibmw.type = type;
	KUNIT_ASSERT_EQ(test, rox_alloc_mw(&mw->ibmw, NULL), 0);
}

static struct window_pair *begin(struct kunit *test, enum ib_mw_type type)
{
	struct rox_fixture *f = test->priv;
	struct window_pair *w = kunit_kzalloc(test, sizeof(*w), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, w);
	w->qp = rox_fixture_qp(test, IB_QPT_RC);
	w->region = region_of(test, f->pd, IB_ACCESS_MW_BIND | IB_ACCESS_LOCAL_WRITE);
	window_init(test, &w->mw, f->pd, type);
	return w;
}

static void end(struct kunit *test, struct window_pair *w)
{
	rox_dealloc_mw(&w->mw.ibmw);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&w->region->ibmr, NULL), 0);
	ib_destroy_qp(&w->qp->ibqp);
}

/* A bind of a part of the region, with new lower 8 bits of the key. */
static struct rox_bind part_of(const struct window_pair *w, u64 offset, u64 length, int access)
{
	return (struct rox_bind) {
		.mw_rkey = w->mw.mr->key,
		.new_rkey = w->mw.mr->key ^ 0x5a,
		.mr_lkey = w->region->key,
		.addr = REGION_IOVA + offset,
		.length = length,
		.access = access,
	};
}

static int bind(const struct window_pair *w, struct rox_bind bind)
{
	const struct rox_mem_user who = rox_peer_memory(w->qp);
	int err;

	local_bh_disable();
	err = rox_mw_bind(&who, &bind);
	local_bh_enable();
	return err;
}

static int invalidate(struct rox_qp *qp, struct ib_pd *pd, u32 key)
{
	const struct rox_mem_user who = { .mem = &qp->dev->mem, .pd = pd, .qpn = qp->ibqp.qp_num };
	int err;

	local_bh_disable();
	err = rox_key_invalidate(&who, key);
	local_bh_enable();
	return err;
}

static struct rox_mr *peer_get(const struct rox_qp *qp, u32 key, u64 addr, u64 len, int access)
{
	const struct rox_mem_user who = rox_peer_memory(qp);

	return rox_mr_get(&who, key, addr, len, access);
}

/* The result of an access by the peer of @qp. */
static int peer(const struct rox_qp *qp, u32 key, u64 addr, u64 len, int access)
{
	struct rox_mr *mr = peer_get(qp, key, addr, len, access);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	rox_mr_put(mr);
	return 0;
}

static void window_is_closed_until_it_is_bound(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_1);

	KUNIT_EXPECT_EQ(test, w->mw.ibmw.rkey, w->mw.mr->key);
	KUNIT_EXPECT_EQ(test, peer(w->qp, w->mw.ibmw.rkey, 0, 0, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, peer(w->qp, w->mw.ibmw.rkey, REGION_IOVA, 8, 0), -ENOENT);
	end(test, w);
}

/* A window gives access to each byte of its part, at the region's addresses, and to no other. */
static void bind_opens_its_part(struct kunit *test)
{
	static const struct { u64 offset, length; } parts[] = {
		{ 0, REGION_LENGTH }, { 100, 1 }, { PAGE_SIZE - REGION_OFFSET - 1, 2 },
		{ 0x345, 2 * PAGE_SIZE + 3 }, { REGION_LENGTH - 9, 9 },
	};
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++) {
		u64 at = REGION_IOVA + parts[i].offset, len = parts[i].length, off;
		struct rox_bind b = part_of(w, parts[i].offset, len, ALL_REMOTE);
		u32 key = b.new_rkey;
		struct rox_mr *mr;

		KUNIT_ASSERT_EQ(test, bind(w, b), 0);
		KUNIT_EXPECT_EQ(test, peer(w->qp, key, at, len, ALL_REMOTE), 0);
		KUNIT_EXPECT_EQ(test, peer(w->qp, key, at - 1, 1, 0), -ERANGE);
		KUNIT_EXPECT_EQ(test, peer(w->qp, key, at + len, 1, 0), -ERANGE);
		KUNIT_EXPECT_EQ(test, peer(w->qp, key, at, len + 1, 0), -ERANGE);
		KUNIT_EXPECT_EQ(test, peer(w->qp, b.mw_rkey, at, 1, 0), -ENOENT);
		mr = peer_get(w->qp, key, at, len, 0);
		KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
		for (off = 0; off < len; off += 123) {
			u64 in = REGION_OFFSET + parts[i].offset + off;
			size_t one = 1;

			KUNIT_ASSERT_EQ(test, (unsigned long)rox_mr_map(mr, at + off, &one),
					block_at(in >> PAGE_SHIFT) + offset_in_page(in));
		}
		rox_mr_put(mr);
	}
	end(test, w);
}

static void bind_gives_the_rights_that_it_names(struct kunit *test)
{
	static const int rights[] = {
		IB_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_ATOMIC,
	};
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	const struct rox_mem_user own = rox_own_memory(w->qp, w->qp->ibqp.pd);
	unsigned int i, j;

	for (i = 0; i < ARRAY_SIZE(rights); i++) {
		struct rox_bind b = part_of(w, 0, 64, rights[i]);

		KUNIT_ASSERT_EQ(test, bind(w, b), 0);
		for (j = 0; j < ARRAY_SIZE(rights); j++)
			KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA, 8, rights[j]),
					i == j ? 0 : -EACCES);
		/* The key of a window is not an lkey. */
		KUNIT_EXPECT_PTR_EQ(test, rox_mr_get(&own, b.new_rkey, REGION_IOVA, 8, 0),
				    ERR_PTR(-EPERM));
	}
	end(test, w);
}

static void zero_based_window_begins_at_0(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_2);
	struct rox_bind b = part_of(w, PAGE_SIZE, 64, ALL_REMOTE | IB_ZERO_BASED);
	struct rox_mr *mr;
	size_t len = 64;

	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA + PAGE_SIZE, 8, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, 1, 64, 0), -ERANGE);
	mr = peer_get(w->qp, b.new_rkey, 0, 64, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, (unsigned long)rox_mr_map(mr, 0, &len), block_at(1) + REGION_OFFSET);
	KUNIT_EXPECT_EQ(test, len, 64);
	rox_mr_put(mr);
	end(test, w);
}

/* A refused bind does not change the existing binding. */
static void wrong_binds_are_refused(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	struct rox_mr *readable = region_of(test, w->qp->ibqp.pd, IB_ACCESS_MW_BIND);
	struct rox_mr *plain = region_of(test, w->qp->ibqp.pd, IB_ACCESS_LOCAL_WRITE);
	struct ib_pd *pd = ib_alloc_pd(w->qp->ibqp.device, 0);
	struct rox_bind good = part_of(w, 0, 64, ALL_REMOTE), bad;
	struct rox_mr *foreign;
	struct rox_mw other = {};

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	foreign = region_of(test, pd, IB_ACCESS_MW_BIND | IB_ACCESS_LOCAL_WRITE);
	window_init(test, &other, pd, IB_MW_TYPE_1);
	KUNIT_ASSERT_EQ(test, bind(w, good), 0);

#define EXPECT_REFUSED(_err, ...) do {						\
	bad = part_of(w, 0, 64, ALL_REMOTE);					\
	__VA_ARGS__;								\
	KUNIT_EXPECT_EQ(test, bind(w, bad), _err);				\
	KUNIT_EXPECT_EQ(test, peer(w->qp, good.new_rkey, REGION_IOVA, 64, ALL_REMOTE), 0);	\
} while (0)
	EXPECT_REFUSED(-ERANGE, bad.addr--);
	EXPECT_REFUSED(-ERANGE, bad.length = REGION_LENGTH + 1);
	EXPECT_REFUSED(-ERANGE, bad.addr += REGION_LENGTH - 63);
	EXPECT_REFUSED(-ERANGE, bad.length = U64_MAX);
	EXPECT_REFUSED(-ERANGE, (bad.addr += 8, bad.length = -4ULL));
	EXPECT_REFUSED(-EINVAL, bad.new_rkey ^= 0x100);
	EXPECT_REFUSED(-EINVAL, bad.access |= IB_ACCESS_ON_DEMAND);
	EXPECT_REFUSED(-ENOENT, bad.mr_lkey ^= 1);
	EXPECT_REFUSED(-EPERM, bad.mr_lkey = foreign->key);
	EXPECT_REFUSED(-EACCES, bad.mr_lkey = plain->key);
	EXPECT_REFUSED(-EACCES, bad.mr_lkey = readable->key);
	/* The key of a region, the key of a window of another PD, and an unknown key. */
	EXPECT_REFUSED(-ENOENT, bad.mw_rkey = w->region->key);
	EXPECT_REFUSED(-ENOENT, bad.mw_rkey = bad.new_rkey = other.mr->key);
	EXPECT_REFUSED(-ENOENT, bad.mw_rkey ^= 0x100);
	/* Binding a window to a window. */
	EXPECT_REFUSED(-EPERM, bad.mr_lkey = good.new_rkey);
#undef EXPECT_REFUSED
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 1);

	good = part_of(w, 0, 64, IB_ACCESS_REMOTE_READ);
	good.mr_lkey = readable->key;
	KUNIT_EXPECT_EQ(test, bind(w, good), 0);
	rox_dealloc_mw(&other.ibmw);
	end(test, w);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&readable->ibmr, NULL), 0);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&plain->ibmr, NULL), 0);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&foreign->ibmr, NULL), 0);
	ib_dealloc_pd(pd);
}

static void region_counts_its_windows(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	struct rox_mr *second = region_of(test, w->qp->ibqp.pd, IB_ACCESS_MW_BIND);
	struct rox_bind b = part_of(w, 0, 64, IB_ACCESS_REMOTE_READ);

	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&w->region->ibmr, NULL), -EBUSY);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA, 64, 0), 0);
	/* Bind to another region, unbind, bind again, and deallocate while bound. */
	b = part_of(w, 0, 64, IB_ACCESS_REMOTE_READ);
	b.mr_lkey = second->key;
	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&second->windows), 1);
	b = part_of(w, 0, 0, 0);
	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA, 1, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(&second->ibmr, NULL), 0);
	b = part_of(w, 0, 64, IB_ACCESS_REMOTE_READ);
	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	end(test, w);
}

/* While a reference exists, a new bind returns -EBUSY, and new look-ups fail. */
static void bind_waits_for_whoever_uses_the_window(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	struct rox_bind first = part_of(w, 0, 64, ALL_REMOTE), next;
	struct rox_mr *user;

	KUNIT_ASSERT_EQ(test, bind(w, first), 0);
	user = peer_get(w->qp, first.new_rkey, REGION_IOVA, 8, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	next = part_of(w, 128, 64, ALL_REMOTE);
	KUNIT_EXPECT_EQ(test, bind(w, next), -EBUSY);
	KUNIT_EXPECT_EQ(test, peer(w->qp, first.new_rkey, REGION_IOVA, 8, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, peer(w->qp, next.new_rkey, REGION_IOVA + 128, 8, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 1);
	rox_mr_put(user);
	KUNIT_EXPECT_EQ(test, bind(w, next), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, next.new_rkey, REGION_IOVA + 128, 8, 0), 0);
	end(test, w);
}

/* ---- type 2 ---- */

static void type_2_is_bound_once(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_2);
	struct rox_bind b = part_of(w, 0, 64, ALL_REMOTE);
	u32 key = b.new_rkey;

	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, bind(w, part_of(w, 0, 64, ALL_REMOTE)), -EINVAL);
	KUNIT_EXPECT_EQ(test, bind(w, part_of(w, 0, 0, 0)), -EINVAL);
	KUNIT_EXPECT_EQ(test, peer(w->qp, key, REGION_IOVA, 64, ALL_REMOTE), 0);
	KUNIT_ASSERT_EQ(test, invalidate(w->qp, w->qp->ibqp.pd, key), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, key, REGION_IOVA, 64, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 0);
	KUNIT_EXPECT_EQ(test, bind(w, part_of(w, 0, 0, 0)), -EINVAL);

	b = part_of(w, 128, 64, ALL_REMOTE);
	KUNIT_EXPECT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA + 128, 64, ALL_REMOTE), 0);
	KUNIT_EXPECT_EQ(test, peer(w->qp, key, REGION_IOVA + 128, 64, 0), -ENOENT);
	end(test, w);
}

static void type_2_serves_its_qp(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_2);
	struct rox_qp *other = rox_fixture_qp(test, IB_QPT_RC);
	struct ib_pd *pd = ib_alloc_pd(w->qp->ibqp.device, 0);
	struct rox_bind b = part_of(w, 0, 64, ALL_REMOTE);
	u32 key = b.new_rkey;

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, peer(other, key, REGION_IOVA, 8, 0), -EPERM);
	KUNIT_EXPECT_EQ(test, invalidate(other, other->ibqp.pd, key), -ENOENT);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, pd, key), -ENOENT);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, w->qp->ibqp.pd, key ^ 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, w->qp->ibqp.pd, w->region->key), -ENOENT);
	KUNIT_EXPECT_EQ(test, peer(w->qp, key, REGION_IOVA, 8, ALL_REMOTE), 0);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, w->qp->ibqp.pd, key), 0);
	ib_dealloc_pd(pd);
	ib_destroy_qp(&other->ibqp);
	end(test, w);
}

static void type_1_serves_every_qp_and_is_not_invalidated(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_1);
	struct rox_qp *other = rox_fixture_qp(test, IB_QPT_RC);
	struct rox_bind b = part_of(w, 0, 64, ALL_REMOTE);

	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	KUNIT_EXPECT_EQ(test, peer(other, b.new_rkey, REGION_IOVA, 8, ALL_REMOTE), 0);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, w->qp->ibqp.pd, b.new_rkey), -ENOENT);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA, 8, ALL_REMOTE), 0);
	ib_destroy_qp(&other->ibqp);
	end(test, w);
}

static void invalidate_waits_for_whoever_uses_the_window(struct kunit *test)
{
	struct window_pair *w = begin(test, IB_MW_TYPE_2);
	struct rox_bind b = part_of(w, 0, 64, ALL_REMOTE);
	struct ib_pd *pd = w->qp->ibqp.pd;
	struct rox_mr *user;

	KUNIT_ASSERT_EQ(test, bind(w, b), 0);
	user = peer_get(w->qp, b.new_rkey, REGION_IOVA, 8, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, pd, b.new_rkey), -EBUSY);
	KUNIT_EXPECT_EQ(test, peer(w->qp, b.new_rkey, REGION_IOVA, 8, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 1);
	rox_mr_put(user);
	KUNIT_EXPECT_EQ(test, invalidate(w->qp, pd, b.new_rkey), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&w->region->windows), 0);
	end(test, w);
}

static struct kunit_case rox_window_cases[] = {
	KUNIT_CASE(window_is_closed_until_it_is_bound),
	KUNIT_CASE(bind_opens_its_part),
	KUNIT_CASE(bind_gives_the_rights_that_it_names),
	KUNIT_CASE(zero_based_window_begins_at_0),
	KUNIT_CASE(wrong_binds_are_refused),
	KUNIT_CASE(region_counts_its_windows),
	KUNIT_CASE(bind_waits_for_whoever_uses_the_window),
	KUNIT_CASE(type_2_is_bound_once),
	KUNIT_CASE(type_2_serves_its_qp),
	KUNIT_CASE(type_1_serves_every_qp_and_is_not_invalidated),
	KUNIT_CASE(invalidate_waits_for_whoever_uses_the_window),
	{}
};

static struct kunit_suite rox_window_suite = {
	.name = "rox_window",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_window_cases,
};

kunit_test_suite(rox_window_suite);
