// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: from addresses of memory regions to bytes, and rights and ranges of keys.
 */
#include <linux/scatterlist.h>
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

/* ---- fast registration ---- */

#define FRWR_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)

/* A region with two pages noted, the first from byte 100 on; not registered. */
static struct ib_mr *frwr_of(struct kunit *test, u8 **pages)
{
	struct rox_fixture *f = test->priv;
	struct ib_mr *mr = f->dev->ibdev.ops.alloc_mr(f->pd, IB_MR_TYPE_MEM_REG, 4);
	unsigned int offset = 100;
	struct scatterlist sg[2];

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	*pages = kunit_kzalloc(test, 4 * PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, *pages);
	*pages = PTR_ALIGN(*pages, PAGE_SIZE);
	sg_init_table(sg, 2);
	/* In the other order in memory. */
	sg_set_buf(&sg[0], *pages + PAGE_SIZE, PAGE_SIZE);
	sg_set_buf(&sg[1], *pages, PAGE_SIZE);
	sg_dma_address(&sg[0]) = (uintptr_t)(*pages + PAGE_SIZE);
	sg_dma_address(&sg[1]) = (uintptr_t)*pages;
	sg_dma_len(&sg[0]) = PAGE_SIZE;
	sg_dma_len(&sg[1]) = PAGE_SIZE;
	mr->page_size = PAGE_SIZE;
	KUNIT_ASSERT_EQ(test, f->dev->ibdev.ops.map_mr_sg(mr, sg, 2, &offset), 2);
	KUNIT_ASSERT_EQ(test, mr->length, 2 * PAGE_SIZE - 100);
	return mr;
}

static void registration_gives_access(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr;
	struct ib_mr *ibmr;
	size_t len = 4000;
	u8 *pages;
	u32 key;

	ibmr = frwr_of(test, &pages);
	key = ibmr->rkey;
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova, 8, 0, false), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, key + 1, FRWR_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova, 8, 0, false), -ENOENT);
	key++;
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova, 8, FRWR_RIGHTS, true), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova, 8, IB_ACCESS_REMOTE_ATOMIC,
					true), -EACCES);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova, 2 * PAGE_SIZE, 0, true),
			-ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, ibmr->iova - 1, 1, 0, true), -ERANGE);

	mr = rox_mr_get(f->dev, f->pd, key, ibmr->iova, ibmr->length, 0, true);
	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_EXPECT_PTR_EQ(test, (u8 *)rox_mr_map(mr, ibmr->iova, &len), pages + PAGE_SIZE + 100);
	KUNIT_EXPECT_EQ(test, len, PAGE_SIZE - 100);
	KUNIT_EXPECT_PTR_EQ(test, (u8 *)rox_mr_map(mr, ibmr->iova + PAGE_SIZE - 100, &len), pages);
	rox_mr_put(mr);
	ibmr->device->ops.dereg_mr(ibmr, NULL);
}

static void registration_is_checked(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_pd *other = ib_alloc_pd(&f->dev->ibdev, 0);
	struct ib_mr *ibmr, *dma;
	u8 *pages;

	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	dma = f->pd->device->ops.get_dma_mr(f->pd, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dma));
	ibmr = frwr_of(test, &pages);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, other, ibmr->rkey, FRWR_RIGHTS), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, dma->rkey, FRWR_RIGHTS), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, ibmr->rkey, IB_ACCESS_REMOTE_WRITE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, ibmr->rkey, FRWR_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, ibmr->rkey, FRWR_RIGHTS), -EINVAL);
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(f->dev, other, ibmr->rkey), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(f->dev, f->pd, ibmr->rkey ^ 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(f->dev, f->pd, dma->rkey), -ENOENT);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, ibmr->rkey, ibmr->iova, 8, 0, true), 0);
	dma->device->ops.dereg_mr(dma, NULL);
	ibmr->device->ops.dereg_mr(ibmr, NULL);
	ib_dealloc_pd(other);
}

/* While somebody is using the key nobody else can begin to, and the invalidate waits. */
static void invalidate_ends_access(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *user;
	struct ib_mr *ibmr;
	u8 *pages;

	ibmr = frwr_of(test, &pages);
	KUNIT_ASSERT_EQ(test, rox_mr_register(f->dev, f->pd, ibmr->rkey, FRWR_RIGHTS), 0);
	user = rox_mr_get(f->dev, f->pd, ibmr->rkey, ibmr->iova, 8, 0, true);
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(f->dev, f->pd, ibmr->rkey), -EBUSY);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, ibmr->rkey, ibmr->iova, 8, 0, true), -ENOENT);
	rox_mr_put(user);
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(f->dev, f->pd, ibmr->rkey), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, ibmr->rkey, ibmr->iova, 8, 0, true), -ENOENT);
	/* And again by another key of the same region. */
	KUNIT_EXPECT_EQ(test, rox_mr_register(f->dev, f->pd, ibmr->rkey ^ 0x55, FRWR_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, ibmr->rkey ^ 0x55, ibmr->iova, 8, 0, true), 0);
	ibmr->device->ops.dereg_mr(ibmr, NULL);
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
	KUNIT_CASE(registration_gives_access),
	KUNIT_CASE(registration_is_checked),
	KUNIT_CASE(invalidate_ends_access),
	{}
};

static struct kunit_suite rox_mr_key_suite = {
	.name = "rox_mr_key",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_mr_key_cases,
};

kunit_test_suites(&rox_mr_map_suite, &rox_mr_key_suite);
