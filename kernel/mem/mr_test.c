// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: translation of addresses of memory regions, iterators, rights and ranges of keys.
 */
#include <linux/sizes.h>

#include "../kunit/fixture.h"
#include "internal.h"

/* ---- translation, with memory regions that the test fills in ---- */

#define MAX_BLOCKS 6

/**
 * struct mr_layout - a memory region with blocks at any addresses
 * @name: of the case
 * @shift: log2 of the block size
 * @offset: offset of byte 0 in the first block
 * @iova: address of byte 0
 * @length: bytes
 * @at: position of each block in memory, in blocks
 * @nblocks: how many blocks there are
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
	{ "pages of 16 KiB", 14, 0x3fff, 0x7f0000003fff, 4 * SZ_16K + 2, { 5, 0, 3, 1, 4, 2 }, 6 },
	{ "pages of 64 KiB", 16, 0xffff, 0x7f000000ffff, 4 * SZ_64K + 2, { 5, 0, 3, 1, 4, 2 }, 6 },
	{ "blocks of 64 KiB", 16, 0xabcd, 0xabcd, 0x25000, { 1, 0, 2 }, 3 },
};

static void mr_layout_name(const struct mr_layout *layout, char *name)
{
	strscpy(name, layout->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(mr_layout, mr_layouts, mr_layout_name);

/* Each byte of each piece must have the address that follows from the layout. */
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
		/* Check the last byte of the piece, too. */
		left = in + len - 1;
		KUNIT_ASSERT_EQ(test, got + len - 1,
				blocks[left >> l->shift] + (left & (BIT(l->shift) - 1)));
	}
}

/* Takes pieces of at most @max bytes from @from on, up to @to, and compares their addresses. */
static void walk_pieces(struct kunit *test, struct rox_iter *it, u64 from, u64 to, size_t max)
{
	const struct mr_layout *l = test->param_value;
	const struct rox_mr *mr = it->mr;
	ssize_t n;
	void *p;

	while (from < to) {
		u64 in = from + l->offset, last;

		n = rox_iter_next(it, min_t(u64, max, to - from), &p);
		KUNIT_ASSERT_GT(test, n, 0);
		KUNIT_ASSERT_LE(test, (u64)n, to - from);
		last = in + n - 1;
		KUNIT_ASSERT_EQ(test, (unsigned long)p,
				mr->blocks[in >> l->shift] + (in & (BIT(l->shift) - 1)));
		KUNIT_ASSERT_EQ(test, (unsigned long)p + n - 1,
				mr->blocks[last >> l->shift] + (last & (BIT(l->shift) - 1)));
		from += n;
	}
}

/* The iterator gives all bytes of an SGE, in pieces of any size, and again after a step back. */
static void iter_gives_the_right_bytes(struct kunit *test)
{
	static const size_t sizes[] = { 1 << 20, 4096, 4111, 1000 };
	const struct mr_layout *l = test->param_value;
	unsigned long blocks[MAX_BLOCKS];
	struct rox_mr mr = {
		.type = ROX_MR_USER, .iova = l->iova, .length = l->length, .offset = l->offset,
		.page_shift = l->shift, .blocks = blocks, .nblocks = l->nblocks,
		.ref = REFCOUNT_INIT(1 + ARRAY_SIZE(sizes)),
	};
	const u32 skip = 7;
	const struct rox_sge sge = { .addr = l->iova + skip, .length = l->length - 2 * skip };
	u64 end = l->length - skip, half = skip + sge.length / 2;
	struct rox_iter it = {};
	void *p;
	u32 i;

	for (i = 0; i < l->nblocks; i++)
		blocks[i] = SZ_1M + ((unsigned long)l->at[i] << l->shift);
	for (i = 0; i < ARRAY_SIZE(sizes); i++) {
		it = (struct rox_iter) { .sge = &sge, .num_sge = 1, .mr = &mr };
		walk_pieces(test, &it, skip, half, sizes[i]);
		rox_iter_return(&it, 0, 1);
		walk_pieces(test, &it, skip + 1, end, sizes[i]);
		KUNIT_EXPECT_EQ(test, rox_iter_next(&it, 1, &p), 0);
		KUNIT_EXPECT_NULL(test, it.mr);
	}
}

#define COPY_PAGE	4096
#define COPY_PAGES	6

/**
 * struct copied - memory that a list of one SGE covers, whose pages are not in their order
 * @mr: the region
 * @blocks: its pages
 * @sge: the list; it begins and ends within a page
 * @it: at its beginning
 * @memory: the pages
 * @buffer: as long as the list
 */
struct copied {
	struct rox_mr mr;
	unsigned long blocks[COPY_PAGES];
	struct rox_sge sge;
	struct rox_iter it;
	u8 *memory;
	u8 *buffer;
};

static struct copied *copied_begin(struct kunit *test)
{
	static const u8 order[COPY_PAGES] = { 3, 4, 1, 0, 5, 2 };
	struct copied *c = kunit_kzalloc(test, sizeof(*c), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, c);
	c->memory = kunit_kzalloc(test, COPY_PAGES * COPY_PAGE, GFP_KERNEL);
	c->buffer = kunit_kzalloc(test, COPY_PAGES * COPY_PAGE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, c->memory);
	KUNIT_ASSERT_NOT_NULL(test, c->buffer);
	for (i = 0; i < COPY_PAGES; i++)
		c->blocks[i] = (unsigned long)c->memory + order[i] * COPY_PAGE;
	c->mr = (struct rox_mr) {
		.type = ROX_MR_USER, .length = COPY_PAGES * COPY_PAGE, .page_shift = 12,
		.blocks = c->blocks, .nblocks = COPY_PAGES, .ref = REFCOUNT_INIT(2),
	};
	c->sge = (struct rox_sge) { .addr = 24, .length = COPY_PAGES * COPY_PAGE - 48 };
	c->it = (struct rox_iter) { .sge = &c->sge, .num_sge = 1, .mr = &c->mr };
	return c;
}

/* Return: byte @i of the list. */
static u8 *copied_at(const struct copied *c, u32 i)
{
	u32 in = c->sge.addr + i;

	return (u8 *)c->blocks[in / COPY_PAGE] + in % COPY_PAGE;
}

/* Lengths within a page, of a page, over two pages, and over many. */
static const u32 copied_steps[] = { 1, 4096, 2000, 3000, 0, 9001 };

static void iter_reads_across_pages(struct kunit *test)
{
	struct copied *c = copied_begin(test);
	u32 i, at = 0;

	for (i = 0; i < c->sge.length; i++)
		*copied_at(c, i) = i * 7 + i / 256;
	for (i = 0; i < ARRAY_SIZE(copied_steps); at += copied_steps[i++])
		KUNIT_EXPECT_EQ(test, rox_iter_read(&c->it, c->buffer + at, copied_steps[i]), 0);
	for (i = 0; i < at; i++)
		KUNIT_ASSERT_EQ(test, c->buffer[i], (u8)(i * 7 + i / 256));
	KUNIT_EXPECT_EQ(test, rox_iter_read(&c->it, c->buffer, c->sge.length - at), 0);
	KUNIT_EXPECT_EQ(test, rox_iter_read(&c->it, c->buffer, 1), -EMSGSIZE);
}

static void iter_writes_across_pages(struct kunit *test)
{
	struct copied *c = copied_begin(test);
	u32 i, at = 0, rest;

	for (i = 0; i < c->sge.length; i++)
		c->buffer[i] = i * 7 + i / 256 + 1;
	for (i = 0; i < ARRAY_SIZE(copied_steps); at += copied_steps[i++])
		KUNIT_EXPECT_EQ(test, rox_iter_write(&c->it, c->buffer + at, copied_steps[i]), 0);
	for (i = 0; i < c->sge.length; i++)
		KUNIT_ASSERT_EQ(test, *copied_at(c, i), i < at ? c->buffer[i] : 0);
	rest = c->sge.length - at;
	/* What fits is written. */
	KUNIT_EXPECT_EQ(test, rox_iter_write(&c->it, c->buffer + at, rest + 1), -EMSGSIZE);
	for (i = at; i < c->sge.length; i++)
		KUNIT_ASSERT_EQ(test, *copied_at(c, i), c->buffer[i]);
	/* Nothing is written before and behind the list. */
	for (i = 0; i < c->sge.addr; i++) {
		KUNIT_ASSERT_EQ(test, ((u8 *)c->blocks[0])[i], 0);
		KUNIT_ASSERT_EQ(test, ((u8 *)c->blocks[COPY_PAGES - 1])[COPY_PAGE - 1 - i], 0);
	}
}

#define EACH		3000
#define EACH_STRIDE	3017
#define EACH_TIMES	7

/* The same bytes as by one call for each of them. */
static void iter_copies_each(struct kunit *test)
{
	struct copied *c = copied_begin(test);
	u32 i, in;

	for (i = 0; i < c->sge.length; i++)
		*copied_at(c, i) = i * 7 + i / 256;
	KUNIT_ASSERT_EQ(test, rox_iter_read_each(&c->it, c->buffer, EACH, EACH_STRIDE, EACH_TIMES),
			0);
	KUNIT_EXPECT_EQ(test, c->it.off, EACH * EACH_TIMES);
	for (i = 0; i < EACH_STRIDE * EACH_TIMES; i++) {
		in = i / EACH_STRIDE * EACH + i % EACH_STRIDE;
		KUNIT_ASSERT_EQ(test, c->buffer[i],
				i % EACH_STRIDE < EACH ? (u8)(in * 7 + in / 256) : 0);
	}
	memset(c->memory, 0, COPY_PAGES * COPY_PAGE);
	rox_iter_return(&c->it, 0, 0);
	KUNIT_ASSERT_EQ(test, rox_iter_write_each(&c->it, c->buffer, EACH, EACH_STRIDE, EACH_TIMES),
			0);
	for (i = 0; i < c->sge.length; i++)
		KUNIT_ASSERT_EQ(test, *copied_at(c, i),
				i < EACH * EACH_TIMES ? (u8)(i * 7 + i / 256) : 0);
	/* What fits is copied. */
	KUNIT_EXPECT_EQ(test, rox_iter_write_each(&c->it, c->buffer, EACH, EACH_STRIDE, 2),
			-EMSGSIZE);
	KUNIT_EXPECT_EQ(test, *copied_at(c, c->sge.length - 1),
			c->buffer[EACH_STRIDE + c->sge.length - 1 - EACH * (EACH_TIMES + 1)]);
	c = copied_begin(test);
	KUNIT_EXPECT_EQ(test, rox_iter_read_each(&c->it, c->buffer, COPY_PAGE, 0, COPY_PAGES),
			-EMSGSIZE);
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
	struct rox_mr *mr = rox_fixture_mr(test, pd, key, addr, len, access, user);

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
	/* A user process may not use a ROX_MR_DMA region. */
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, 0, true), -EPERM);
	mr->device->ops.dereg_mr(mr, NULL);
	KUNIT_EXPECT_EQ(test, get_error(test, f->pd, mr->lkey, addr, 8, 0, false), -ENOENT);
	ib_dealloc_pd(other);
}

/* rhashtable takes the lowest bits of the hash. It refuses keys where few buckets have them all. */
static void keys_use_all_buckets(struct kunit *test)
{
	unsigned long used = 0;
	u32 index;

	for (index = 0; index < 32; index++)
		used |= BIT(rox_mr_params.hashfn(&index, sizeof(index), 0) % 32);
	KUNIT_EXPECT_EQ(test, used, GENMASK(31, 0));
}

/* All lengths and alignments that rox_copy() treats in different ways. */
static void copy_changes_its_bytes_only(struct kunit *test)
{
	u8 src[48], dst[64], expected[64];
	u32 from, to, len, i;

	for (i = 0; i < sizeof(src); i++)
		src[i] = i + 1;
	for (len = 0; len <= 24; len++) {
		for (i = 0; i < 64; i++) {
			from = i / 8;
			to = i % 8 + 8;
			memset(dst, 0xee, sizeof(dst));
			memset(expected, 0xee, sizeof(expected));
			memcpy(expected + to, src + from, len);
			rox_copy(dst + to, src + from, len);
			KUNIT_ASSERT_MEMEQ(test, dst, expected, sizeof(dst));
		}
	}
}

static struct kunit_case rox_mr_map_cases[] = {
	KUNIT_CASE(copy_changes_its_bytes_only),
	KUNIT_CASE_PARAM(map_gives_the_right_bytes, mr_layout_gen_params),
	KUNIT_CASE_PARAM(iter_gives_the_right_bytes, mr_layout_gen_params),
	KUNIT_CASE(iter_reads_across_pages),
	KUNIT_CASE(iter_writes_across_pages),
	KUNIT_CASE(iter_copies_each),
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
	KUNIT_CASE(keys_use_all_buckets),
	{}
};

static struct kunit_suite rox_mr_key_suite = {
	.name = "rox_mr_key",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_mr_key_cases,
};

kunit_test_suites(&rox_mr_map_suite, &rox_mr_key_suite);
