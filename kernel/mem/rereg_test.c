// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: re-registration: what changes, what does not, and that nobody uses the old region after
 * it has returned.
 */
#include <kunit/resource.h>
#include <linux/mman.h>
#include <linux/sched/mm.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "../kunit/fixture.h"

#define REGION_SIZE	(3 * PAGE_SIZE)
#define REGION_RIGHTS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ)
#define REGION_IOVA	0x123456789000ULL

KUNIT_DEFINE_ACTION_WRAPPER(drop_mm, mmdrop, struct mm_struct *);

/* Maps memory in the address space of the case. Each page is filled with @seed and its number. */
static unsigned long user_pages(struct kunit *test, u8 seed)
{
	bool attached = current->mm;
	unsigned long at = kunit_vm_mmap(test, NULL, 0, REGION_SIZE, PROT_READ | PROT_WRITE,
					 MAP_ANONYMOUS | MAP_PRIVATE, 0);
	unsigned int i;

	/*
	 * The first call has attached an mm to this thread by kthread_use_mm(). KUnit does not drop
	 * that reference on the mm, so drop it at the end of the case.
	 */
	if (!attached && current->mm)
		KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, drop_mm, current->mm), 0);
	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	for (i = 0; i < REGION_SIZE; i += PAGE_SIZE) {
		u8 bytes[2] = { seed, i >> PAGE_SHIFT };

		KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)(at + i), bytes, 2), 0);
	}
	return at;
}

static struct ib_mr *region_of(struct kunit *test, unsigned long start, int access)
{
	struct rox_fixture *f = test->priv;
	struct ib_mr *mr = rox_reg_user_mr(f->pd, start, REGION_SIZE, REGION_IOVA, access, NULL,
					   NULL);

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	return mr;
}

/* Re-registers as the RDMA core does: deregisters the old object if there is a new one. */
static int rereg(struct ib_mr **mr, int flags, u64 start, u64 length, u64 iova, int access,
		 struct ib_pd *pd)
{
	struct ib_mr *made = rox_rereg_user_mr(*mr, flags, start, length, iova, access, pd, NULL);

	if (IS_ERR(made))
		return PTR_ERR(made);
	rox_dereg_mr(*mr, NULL);
	*mr = made;
	return 0;
}

static int get_error(struct kunit *test, struct ib_pd *pd, u32 key, u64 addr, u64 len, int access)
{
	struct rox_mr *mr = rox_fixture_mr(test, pd, key, addr, len, access, true);

	if (IS_ERR(mr))
		return PTR_ERR(mr);
	rox_mr_put(mr);
	return 0;
}

/* Expects @addr of the region with @key to be in page @page of user_pages(@seed). */
static void expect_bytes(struct kunit *test, u32 key, u64 addr, u8 seed, u8 page)
{
	struct rox_fixture *f = test->priv;
	struct rox_mr *mr = rox_fixture_mr(test, f->pd, key, addr, 2, 0, true);
	size_t len = 2;
	u8 *p;

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	p = rox_mr_map(mr, addr, &len);
	KUNIT_EXPECT_EQ(test, len, 2);
	KUNIT_EXPECT_EQ(test, p[0], seed);
	KUNIT_EXPECT_EQ(test, p[1], page);
	rox_mr_put(mr);
}

static void translation_moves_and_keys_stay(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	unsigned long before = user_pages(test, 0xb0), after = user_pages(test, 0xa0);
	struct ib_mr *mr = region_of(test, before, REGION_RIGHTS);
	u64 iova = REGION_IOVA + 5 * REGION_SIZE;
	u32 key = mr->rkey;

	expect_bytes(test, key, REGION_IOVA + PAGE_SIZE, 0xb0, 1);
	KUNIT_ASSERT_EQ(test, rereg(&mr, IB_MR_REREG_TRANS, after + PAGE_SIZE, 2 * PAGE_SIZE, iova,
				    0, f->pd), 0);
	KUNIT_EXPECT_EQ(test, mr->rkey, key);
	KUNIT_EXPECT_EQ(test, mr->lkey, key);
	expect_bytes(test, key, iova, 0xa0, 1);
	expect_bytes(test, key, iova + PAGE_SIZE, 0xa0, 2);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, iova, 2 * PAGE_SIZE, REGION_RIGHTS), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, iova, 2 * PAGE_SIZE + 1, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 1, 0), -ERANGE);
	KUNIT_EXPECT_EQ(test, rox_dereg_mr(mr, NULL), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, iova, 1, 0), -ENOENT);
}

static void rights_are_given_and_taken(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	unsigned long at = user_pages(test, 0xc0);
	struct ib_mr *mr = region_of(test, at, 0);
	u32 key = mr->rkey;

	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_LOCAL_WRITE),
			-EACCES);
	KUNIT_EXPECT_FALSE(test, to_rox_mr(mr)->umem->writable);
	KUNIT_ASSERT_EQ(test, rereg(&mr, IB_MR_REREG_ACCESS, 0, 0, 0, REGION_RIGHTS, f->pd), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, REGION_SIZE, REGION_RIGHTS),
			0);
	/* The pages were pinned for reading, and must be pinned again for writing. */
	KUNIT_EXPECT_TRUE(test, to_rox_mr(mr)->umem->writable);
	expect_bytes(test, key, REGION_IOVA + 2 * PAGE_SIZE, 0xc0, 2);
	KUNIT_ASSERT_EQ(test, rereg(&mr, IB_MR_REREG_ACCESS, 0, 0, 0, IB_ACCESS_REMOTE_READ, f->pd),
			0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_WRITE),
			-EACCES);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_READ),
			0);
	expect_bytes(test, key, REGION_IOVA, 0xc0, 0);
	rox_dereg_mr(mr, NULL);
}

static void pd_is_another_one(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_pd *pd = ib_alloc_pd(&f->dev->ibdev, 0);
	struct ib_mr *mr = region_of(test, user_pages(test, 0xd0), REGION_RIGHTS);

	KUNIT_ASSERT_FALSE(test, IS_ERR(pd));
	KUNIT_ASSERT_EQ(test, rereg(&mr, IB_MR_REREG_PD, 0, 0, 0, 0, pd), 0);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->rkey, REGION_IOVA, 8, 0), -EPERM);
	KUNIT_EXPECT_EQ(test, get_error(test, pd, mr->rkey, REGION_IOVA, REGION_SIZE,
					REGION_RIGHTS), 0);
	rox_dereg_mr(mr, NULL);
	ib_dealloc_pd(pd);
}

static void what_fails_leaves_the_region_as_it_was(struct kunit *test)
{
	static const struct { int err, flags; u64 length, iova; int access; } bad[] = {
		{ -EOPNOTSUPP, IB_MR_REREG_ACCESS, 0, 0, IB_ACCESS_ON_DEMAND },
		{ -EINVAL, IB_MR_REREG_ACCESS, 0, 0, IB_ACCESS_REMOTE_WRITE },
		{ -EINVAL, IB_MR_REREG_TRANS, PAGE_SIZE, -(u64)PAGE_SIZE + 1, 0 },
		/* Nothing is mapped there. */
		{ -EFAULT, IB_MR_REREG_TRANS, PAGE_SIZE, REGION_IOVA, 0 },
	};
	struct rox_fixture *f = test->priv;
	struct ib_mr *mr = region_of(test, user_pages(test, 0xe0), REGION_RIGHTS);
	struct ib_mr *dma = rox_get_dma_mr(f->pd, 0);
	unsigned int i;

	KUNIT_ASSERT_FALSE(test, IS_ERR(dma));
	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		KUNIT_EXPECT_EQ_MSG(test, rereg(&mr, bad[i].flags, PAGE_SIZE, bad[i].length,
						bad[i].iova, bad[i].access, f->pd),
				    bad[i].err, "row %u", i);
		KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->rkey, REGION_IOVA, REGION_SIZE,
						REGION_RIGHTS), 0);
		expect_bytes(test, mr->rkey, REGION_IOVA + PAGE_SIZE, 0xe0, 1);
		KUNIT_EXPECT_EQ(test, atomic_read(&to_rox_mr(mr)->windows), 0);
	}
	/* Not while a window is bound to the region, and not for a ROX_MR_DMA region. */
	atomic_inc(&to_rox_mr(mr)->windows);
	KUNIT_EXPECT_EQ(test, rereg(&mr, IB_MR_REREG_ACCESS, 0, 0, 0, 0, f->pd), -EBUSY);
	atomic_dec(&to_rox_mr(mr)->windows);
	KUNIT_EXPECT_EQ(test, rereg(&dma, IB_MR_REREG_ACCESS, 0, 0, 0, 0, f->pd), -EOPNOTSUPP);
	KUNIT_EXPECT_EQ(test, rereg(&mr, IB_MR_REREG_ACCESS, 0, 0, 0, 0, f->pd), 0);
	rox_dereg_mr(dma, NULL);
	rox_dereg_mr(mr, NULL);
}

/* ---- users of the old region ---- */

struct rereg_work {
	struct work_struct work;
	struct completion done;
	struct ib_mr *mr;
	struct ib_pd *pd;
	int err;
};

static void rereg_work(struct work_struct *work)
{
	struct rereg_work *w = container_of(work, struct rereg_work, work);

	w->err = rereg(&w->mr, IB_MR_REREG_ACCESS, 0, 0, 0, IB_ACCESS_REMOTE_READ, w->pd);
	complete(&w->done);
}

/* It returns after the last reference is dropped. A look-up before that finds the new region. */
static void rereg_waits_for_whoever_uses_the_region(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rereg_work w = {
		.mr = region_of(test, user_pages(test, 0xf0), REGION_RIGHTS), .pd = f->pd,
	};
	u32 key = w.mr->rkey;
	struct rox_mr *user;
	int tries;

	user = rox_fixture_mr(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_WRITE, true);
	KUNIT_ASSERT_FALSE(test, IS_ERR(user));
	init_completion(&w.done);
	INIT_WORK_ONSTACK(&w.work, rereg_work);
	schedule_work(&w.work);
	for (tries = 0; tries < 1000; tries++) {
		if (get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_WRITE))
			break;
		fsleep(1000);
	}
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_WRITE),
			-EACCES);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, key, REGION_IOVA, 8, IB_ACCESS_REMOTE_READ),
			0);
	KUNIT_EXPECT_EQ(test, wait_for_completion_timeout(&w.done, HZ / 20), 0);
	rox_mr_put(user);
	wait_for_completion(&w.done);
	destroy_work_on_stack(&w.work);
	KUNIT_EXPECT_EQ(test, w.err, 0);
	expect_bytes(test, key, REGION_IOVA, 0xf0, 0);
	rox_dereg_mr(w.mr, NULL);
}

static struct kunit_case rox_rereg_cases[] = {
	KUNIT_CASE(translation_moves_and_keys_stay),
	KUNIT_CASE(rights_are_given_and_taken),
	KUNIT_CASE(pd_is_another_one),
	KUNIT_CASE(what_fails_leaves_the_region_as_it_was),
	KUNIT_CASE(rereg_waits_for_whoever_uses_the_region),
	{}
};

static struct kunit_suite rox_rereg_suite = {
	.name = "rox_rereg",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_rereg_cases,
};

kunit_test_suite(rox_rereg_suite);
