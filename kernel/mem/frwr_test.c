// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: fast registration: registration, invalidation, and page lists that are noted while
 * another list is registered.
 */
#include <linux/scatterlist.h>

#include "../kunit/fixture.h"

#define FRWR_RIGHTS (IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE)
#define FRWR_PAGES 4

/**
 * struct frwr - state at the beginning of a case
 * @mr: a region with room for FRWR_PAGES pages, without a page list
 * @pages: FRWR_PAGES pages of memory to register
 */
struct frwr {
	struct ib_mr *mr;
	u8 *pages;
};

static struct frwr begin(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct frwr r = { .mr = f->dev->ibdev.ops.alloc_mr(f->pd, IB_MR_TYPE_MEM_REG, FRWR_PAGES) };

	KUNIT_ASSERT_FALSE(test, IS_ERR(r.mr));
	r.mr->page_size = PAGE_SIZE;
	r.pages = kunit_kzalloc(test, (FRWR_PAGES + 1) * PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, r.pages);
	r.pages = PTR_ALIGN(r.pages, PAGE_SIZE);
	return r;
}

static void end(const struct frwr *r)
{
	r->mr->device->ops.dereg_mr(r->mr, NULL);
}

/* Notes @n pages from page @first on, in reverse order, with @offset in the first entry. */
static int note(const struct frwr *r, u32 first, u32 n, unsigned int offset)
{
	struct scatterlist sg[FRWR_PAGES];
	u32 i;

	sg_init_table(sg, n);
	for (i = 0; i < n; i++) {
		u8 *page = r->pages + (first + n - 1 - i) * PAGE_SIZE;

		sg_set_buf(&sg[i], page, PAGE_SIZE);
		sg_dma_address(&sg[i]) = (uintptr_t)page;
		sg_dma_len(&sg[i]) = PAGE_SIZE;
	}
	return r->mr->device->ops.map_mr_sg(r->mr, sg, n, &offset);
}

static int reg(struct kunit *test, const struct frwr *r, u32 key)
{
	struct rox_fixture *f = test->priv;

	return rox_mr_register(&f->dev->mem, f->pd, key, FRWR_RIGHTS);
}

static int invalidate(struct kunit *test, u32 key)
{
	struct rox_fixture *f = test->priv;

	return rox_mr_invalidate(&f->dev->mem, f->pd, key);
}

static long get_error(struct kunit *test, u32 key, u64 addr, u64 len, int access)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr = rox_fixture_mr(test, f->pd, key, addr, len, access, true);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	rox_mr_put(mr);
	return 0;
}

/* The kernel address of @addr in the region with @key, or NULL. */
static u8 *byte_of(struct kunit *test, u32 key, u64 addr)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr = rox_fixture_mr(test, f->pd, key, addr, 1, 0, true);
	size_t len = 1;
	u8 *p;

	if (IS_ERR(mr))
		return NULL;
	p = rox_mr_map(mr, addr, &len);
	rox_mr_put(mr);
	return p;
}

/* ---- one list ---- */

static void registration_gives_access(struct kunit *test)
{
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;
	u64 iova;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 100), 2);
	KUNIT_ASSERT_EQ(test, r.mr->length, 2 * PAGE_SIZE - 100);
	iova = r.mr->iova;
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, 8, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key ^ 1), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, 8, 0), -ENOENT);
	key ^= 1;
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, 8, FRWR_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, 8, IB_ACCESS_REMOTE_ATOMIC), -EACCES);
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, 2 * PAGE_SIZE, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova - 1, 1, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, key, iova, r.mr->length, 0), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, iova), r.pages + PAGE_SIZE + 100);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, iova + PAGE_SIZE - 101),
			    r.pages + 2 * PAGE_SIZE - 1);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, iova + PAGE_SIZE - 100), r.pages);
	end(&r);
}

static void registration_is_checked(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_pd *other = ib_alloc_pd(&f->dev->ibdev, 0);
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;
	struct ib_mr *dma;

	KUNIT_ASSERT_FALSE(test, IS_ERR(other));
	dma = f->pd->device->ops.get_dma_mr(f->pd, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(dma));
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), -EINVAL);
	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 0), 2);
	KUNIT_EXPECT_EQ(test, rox_mr_register(&f->dev->mem, other, key, FRWR_RIGHTS), -ENOENT);
	KUNIT_EXPECT_EQ(test, reg(test, &r, dma->rkey), -ENOENT);
	KUNIT_EXPECT_EQ(test, rox_mr_register(&f->dev->mem, f->pd, key, IB_ACCESS_REMOTE_WRITE),
			-EINVAL);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), 0);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), -EINVAL);
	KUNIT_EXPECT_EQ(test, rox_mr_invalidate(&f->dev->mem, other, key), -ENOENT);
	KUNIT_EXPECT_EQ(test, invalidate(test, key ^ 1), -ENOENT);
	KUNIT_EXPECT_EQ(test, invalidate(test, dma->rkey), -ENOENT);
	KUNIT_EXPECT_EQ(test, get_error(test, key, r.mr->iova, 8, 0), 0);
	dma->device->ops.dereg_mr(dma, NULL);
	end(&r);
	ib_dealloc_pd(other);
}

/* While a reference exists, invalidate and register return -EBUSY, and new look-ups fail. */
static void invalidate_ends_access(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;
	struct rox_mr *user;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 0), 2);
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	user = rox_fixture_mr(test, f->pd, key, r.mr->iova, 8, 0, true);
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	KUNIT_EXPECT_EQ(test, invalidate(test, key), -EBUSY);
	KUNIT_EXPECT_EQ(test, get_error(test, key, r.mr->iova, 8, 0), -ENOENT);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), -EBUSY);
	rox_mr_put(user);
	KUNIT_EXPECT_EQ(test, invalidate(test, key), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, key, r.mr->iova, 8, 0), -ENOENT);
	/* The region can be registered again under another key, with the same pages. */
	KUNIT_EXPECT_EQ(test, reg(test, &r, key ^ 0x55), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key ^ 0x55, r.mr->iova), r.pages + PAGE_SIZE);
	end(&r);
}

/* ---- a list that is noted while another is registered ---- */

static void list_is_noted_while_another_is_registered(struct kunit *test)
{
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;
	u64 first, second;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 100), 2);
	first = r.mr->iova;
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	KUNIT_ASSERT_EQ(test, note(&r, 3, 1, 8), 1);
	second = r.mr->iova;
	KUNIT_EXPECT_EQ(test, r.mr->length, PAGE_SIZE - 8);

	/* The old registration does not change ... */
	KUNIT_EXPECT_EQ(test, get_error(test, key, first, 2 * PAGE_SIZE - 100, FRWR_RIGHTS), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, first), r.pages + PAGE_SIZE + 100);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, first + PAGE_SIZE), r.pages + 100);
	KUNIT_EXPECT_EQ(test, get_error(test, key, second, 1, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key ^ 1), -EINVAL);

	/* ... until the new list is registered. */
	KUNIT_ASSERT_EQ(test, invalidate(test, key), 0);
	KUNIT_ASSERT_EQ(test, reg(test, &r, key ^ 1), 0);
	key ^= 1;
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, second), r.pages + 3 * PAGE_SIZE + 8);
	KUNIT_EXPECT_EQ(test, get_error(test, key, second, PAGE_SIZE - 8, 0), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, key, second, PAGE_SIZE - 7, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, key, first, 1, 0), -ERANGE);
	end(&r);
}

static void last_list_wins(struct kunit *test)
{
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 3, 0), 3);
	KUNIT_ASSERT_EQ(test, note(&r, 1, 1, 0), 1);
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, r.mr->iova), r.pages + PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, get_error(test, key, r.mr->iova, PAGE_SIZE + 1, 0), -ERANGE);
	/* Both lists were registered before. The next list uses the memory of the first one. */
	KUNIT_ASSERT_EQ(test, note(&r, 2, 2, 0), 2);
	KUNIT_ASSERT_EQ(test, note(&r, 0, 4, 0), 4);
	KUNIT_EXPECT_NULL(test, byte_of(test, key, r.mr->iova));
	KUNIT_ASSERT_EQ(test, invalidate(test, key), 0);
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, r.mr->iova), r.pages + 3 * PAGE_SIZE);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, r.mr->iova + 3 * PAGE_SIZE), r.pages);
	end(&r);
}

/* Users may change the IOVA after ib_map_mr_sg(), as ib_map_mr_sg_zbva() does. */
static void address_may_be_set_after_mapping(struct kunit *test)
{
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 100), 2);
	r.mr->iova &= PAGE_SIZE - 1;
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, 100), r.pages + PAGE_SIZE + 100);
	KUNIT_EXPECT_EQ(test, get_error(test, key, 99, 1, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, key, 100, 2 * PAGE_SIZE - 100, 0), 0);
	end(&r);
}

static void list_that_cannot_be_is_not_registered(struct kunit *test)
{
	struct frwr r = begin(test);
	u32 key = r.mr->rkey;
	struct scatterlist sg;
	unsigned int offset = PAGE_SIZE + 1;

	KUNIT_ASSERT_EQ(test, note(&r, 0, 2, 0), 2);
	KUNIT_ASSERT_EQ(test, reg(test, &r, key), 0);
	sg_init_one(&sg, r.pages, PAGE_SIZE);
	sg_dma_address(&sg) = (uintptr_t)r.pages;
	sg_dma_len(&sg) = PAGE_SIZE;
	KUNIT_EXPECT_LT(test, r.mr->device->ops.map_mr_sg(r.mr, &sg, 1, &offset), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, (uintptr_t)r.pages + PAGE_SIZE),
			    r.pages + PAGE_SIZE);
	KUNIT_ASSERT_EQ(test, invalidate(test, key), 0);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), -EINVAL);
	KUNIT_ASSERT_EQ(test, note(&r, 1, 1, 0), 1);
	KUNIT_EXPECT_EQ(test, reg(test, &r, key), 0);
	KUNIT_EXPECT_PTR_EQ(test, byte_of(test, key, r.mr->iova), r.pages + PAGE_SIZE);
	end(&r);
}

static struct kunit_case rox_frwr_cases[] = {
	KUNIT_CASE(registration_gives_access),
	KUNIT_CASE(registration_is_checked),
	KUNIT_CASE(invalidate_ends_access),
	KUNIT_CASE(list_is_noted_while_another_is_registered),
	KUNIT_CASE(last_list_wins),
	KUNIT_CASE(address_may_be_set_after_mapping),
	KUNIT_CASE(list_that_cannot_be_is_not_registered),
	{}
};

static struct kunit_suite rox_frwr_suite = {
	.name = "rox_frwr",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_frwr_cases,
};

kunit_test_suite(rox_frwr_suite);
