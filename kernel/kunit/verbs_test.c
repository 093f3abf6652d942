// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: from addresses of memory regions to bytes, and rights and ranges of keys.
 */
#include <linux/sizes.h>

#include "fixture.h"

/* ---- translation: memory regions that are made by hand ---- */

#define MAX_BLOCKS 6

/**
 * struct mr_layout - a memory region on blocks that lie anywhere
 * @shift: log2 of the block size
 * @offset: of byte 0 in the first block
 * @iova: address of byte 0
 * @length: bytes
 * @at: number of the block of memory that each block is in
 */
struct mr_layout {
	const char *name;
	u8 shift;
	u32 offset;
	u64 iova;
	u64 length;
	u8 at[MAX_BLOCKS];
	u32 nblocks;
};

static const struct mr_layout mr_layouts[] = {
	{ "one page", 12, 0, 0x1000, 4096, { 3 }, 1 },
	{ "odd offset in one page", 12, 0x7ff, 0x1234567, 100, { 3 }, 1 },
	{ "neighbours", 12, 0x10, 0x7f0000000010, 3 * 4096 - 0x20, { 0, 1, 2 }, 3 },
	{ "scattered", 12, 0xfff, 0x7f0000000fff, 4 * 4096 + 2, { 5, 0, 3, 1, 4, 2 }, 6 },
	{ "two runs", 12, 1, 0xffffffff00000001, 5 * 4096, { 3, 4, 5, 0, 1, 2 }, 6 },
	{ "zero-based", 12, 0x123, 0, 2 * 4096, { 5, 4, 3 }, 3 },
	{ "iova of another offset", 12, 0x10, 0x1fff, 4096, { 2, 0 }, 2 },
	{ "blocks of 64 KiB", 16, 0xabcd, 0xabcd, 0x25000, { 1, 0, 2 }, 3 },
};

static void mr_layout_name(const struct mr_layout *layout, char *name)
{
	strscpy(name, layout->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mr_layout, mr_layouts, mr_layout_name);

/* Every byte of every piece must be the byte that the layout says. */
static void map_gives_the_right_bytes(struct kunit *test)
{
	const struct mr_layout *l = test->param_value;
	unsigned long blocks[MAX_BLOCKS];
	struct rox_mr mr = {
		.type = ROX_MR_USER, .iova = l->iova, .length = l->length, .offset = l->offset,
		.page_shift = l->shift, .blocks = blocks, .nblocks = l->nblocks,
	};
	unsigned long base = SZ_1M;	/* only compared, never used */
	u64 off, step;
	u32 i;

	for (i = 0; i < l->nblocks; i++)
		blocks[i] = base + ((unsigned long)l->at[i] << l->shift);
	for (off = 0, step = 1; off < l->length; off += step, step = step * 3 % 4099 + 1) {
		u64 in = off + l->offset;
		size_t len = l->length - off, left;
		unsigned long got = (unsigned long)rox_mr_map(&mr, l->iova + off, &len);

		KUNIT_ASSERT_EQ(test, got, blocks[in >> l->shift] + (in & (BIT(l->shift) - 1)));
		KUNIT_ASSERT_GT(test, len, 0);
		KUNIT_ASSERT_LE(test, (u64)len, l->length - off);
		/* The last byte of the piece lies where it should, too. */
		left = in + len - 1;
		KUNIT_ASSERT_EQ(test, got + len - 1,
				blocks[left >> l->shift] + (left & (BIT(l->shift) - 1)));
	}
}

static void map_joins_neighbours_only(struct kunit *test)
{
	unsigned long blocks[] = { SZ_1M, SZ_1M + 4096, SZ_2M, SZ_1M + 8192 };
	struct rox_mr mr = {
		.type = ROX_MR_USER, .iova = 0, .length = 4 * 4096, .page_shift = 12,
		.blocks = blocks, .nblocks = 4,
	};
	size_t len = 4 * 4096;

	rox_mr_map(&mr, 100, &len);
	KUNIT_EXPECT_EQ(test, len, 2 * 4096 - 100);
	len = 10;
	rox_mr_map(&mr, 4090, &len);
	KUNIT_EXPECT_EQ(test, len, 10);
	len = 4 * 4096;
	rox_mr_map(&mr, 2 * 4096 + 1, &len);
	KUNIT_EXPECT_EQ(test, len, 4095);
}

static void map_outside_gives_nothing(struct kunit *test)
{
	unsigned long block = SZ_1M;
	struct rox_mr mr = {
		.type = ROX_MR_USER, .iova = 0x5000, .length = 4096, .page_shift = 12,
		.blocks = &block, .nblocks = 1,
	};
	size_t len = 1;

	KUNIT_EXPECT_NULL(test, rox_mr_map(&mr, 0x6000, &len));
	KUNIT_EXPECT_EQ(test, len, 0);
	len = 1;
	KUNIT_EXPECT_NULL(test, rox_mr_map(&mr, 0x4fff, &len));
	KUNIT_EXPECT_EQ(test, len, 0);
}

/* ---- keys ---- */

static long get_error(struct kunit *test, struct ib_pd *pd, u32 key, u64 addr, u64 len,
		      int access, bool user)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr = rox_mr_get(f->dev, pd, key, addr, len, access, user);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	rox_mr_put(mr);
	return 0;
}

static void key_is_checked(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_pd *other = ib_alloc_pd(&f->dev->ibdev, 0);
	struct ib_mr *mr = f->pd->device->ops.get_dma_mr(f->pd, IB_ACCESS_LOCAL_WRITE);
	u64 addr = (unsigned long)test->priv;

	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, 0, false), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, IB_ACCESS_LOCAL_WRITE,
					false), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, IB_ACCESS_REMOTE_READ,
					false), -EACCES);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey ^ 1, addr, 8, 0, false), -ENOENT);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey ^ 0x100, addr, 8, 0, false), -ENOENT);
	KUNIT_EXPECT_EQ(test, get_error(test, other, mr->lkey, addr, 8, 0, false), -EPERM);
	/* All of kernel memory is not for processes. */
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, 0, true), -EPERM);
	mr->device->ops.dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, 0, false), -ENOENT);
	ib_dealloc_pd(other);
}

static struct kunit_case rox_mr_map_cases[] = {
	KUNIT_CASE_PARAM(map_gives_the_right_bytes, mr_layout_gen_params),
	KUNIT_CASE(map_joins_neighbours_only),
	KUNIT_CASE(map_outside_gives_nothing),
	{}
};

static struct kunit_suite rox_mr_map_suite = {
	.name = "rox_mr_map",
	.test_cases = rox_mr_map_cases,
};

static struct kunit_case rox_mr_key_cases[] = {
	KUNIT_CASE(key_is_checked),
	{}
};

static struct kunit_suite rox_mr_key_suite = {
	.name = "rox_mr_key",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_mr_key_cases,
};
kunit_test_suites(&rox_mr_map_suite, &rox_mr_key_suite);
