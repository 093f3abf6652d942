// SPDX-License-Identifier: GPL-2.0
/* KUnit: the shortest way of a WRITE, READ or ATOMIC. */
#include <linux/scatterlist.h>
#include <linux/string.h>

#include "internal.h"
#include "../kunit/fixture.h"

#define QUICK_BYTES	24U
#define QUICK_LONG	3000U
#define QUICK_FILL	0x5a

/**
 * struct quick - two QPs of a device, and a region at the end of @to
 * @from: whose WRITEs these are
 * @to: their peer
 * @bytes: a page of payload, then the region
 * @mr: the region
 * @sge: the payload
 * @wr: a WRITE
 */
struct quick {
	struct rox_qp *from;
	struct rox_qp *to;
	u8 *bytes;
	struct ib_mr *mr;
	struct ib_sge sge;
	struct ib_rdma_wr wr;
};

/* The first WRITE has been executed, so the peer knows that the connection is there. */
static void quick_begin(struct kunit *test, struct quick *q)
{
	struct rox_fixture *f = test->priv;
	struct scatterlist sg;

	q->from = rox_fixture_qp(test, IB_QPT_RC);
	q->to = rox_fixture_qp(test, IB_QPT_RC);
	q->bytes = kunit_kzalloc(test, 2 * PAGE_SIZE, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, q->bytes);
	rox_fixture_join(test, q->from, q->to);
	sg_init_one(&sg, q->bytes + PAGE_SIZE, PAGE_SIZE);
	q->mr = rox_fixture_register(test, q->to, &sg);
	q->sge = (struct ib_sge) { .addr = (uintptr_t)q->bytes, .length = QUICK_BYTES,
				   .lkey = f->pd->local_dma_lkey };
	q->wr.wr = (struct ib_send_wr) { .opcode = IB_WR_RDMA_WRITE, .sg_list = &q->sge,
					 .num_sge = 1 };
	q->wr.rkey = q->mr->rkey;
	q->wr.remote_addr = q->mr->iova;
	KUNIT_ASSERT_EQ(test, ib_post_send(&q->from->ibqp, &q->wr.wr, NULL), 0);
	rox_fixture_wc(test);
}

static void quick_end(struct kunit *test, struct quick *q)
{
	ib_destroy_qp(&q->from->ibqp);
	ib_destroy_qp(&q->to->ibqp);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(q->mr), 0);
}

static void quick_payload(struct quick *q)
{
	memset(q->bytes, QUICK_FILL, QUICK_BYTES);
	memset(q->bytes + PAGE_SIZE, 0, PAGE_SIZE);
}

/* Has the region the payload, and nothing behind it? */
static bool quick_arrived(const struct quick *q)
{
	const u8 *region = q->bytes + PAGE_SIZE;

	return !memchr_inv(region, QUICK_FILL, QUICK_BYTES) &&
	       !memchr_inv(region + QUICK_BYTES, 0, PAGE_SIZE - QUICK_BYTES);
}

/* Counters of WRITEs; those of ACKs are taken off, as several WRITEs may have one. */
static void quick_counted(const struct rox_qp *qp, s64 sign, s64 sums[9])
{
	static const struct {
		enum rox_counter counter;
		u32 ack;
	} all[] = {
		{ ROX_CNT_TX_BURSTS, 1 }, { ROX_CNT_TX_PKTS, 1 }, { ROX_CNT_TX_BYTES, 0 },
		{ ROX_CNT_TX_OCTETS, ROX_ACK_LEN },
		{ ROX_CNT_RX_BURSTS, 1 }, { ROX_CNT_RX_PKTS, 1 }, { ROX_CNT_RX_BYTES, 0 },
		{ ROX_CNT_RX_OCTETS, ROX_ACK_LEN }, { ROX_CNT_RX_WRITE_REQ, 0 },
	};
	s64 acks = rox_fixture_counted(qp, ROX_CNT_TX_ACKS);
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(all); i++) {
		s64 counted = rox_fixture_counted(qp, all[i].counter);

		sums[i] += sign * (counted - acks * all[i].ack);
	}
}

/*
 * The first WRITE of a run finds no region that is kept, and is a packet. Those behind it are not.
 * They have the same effects.
 */
static void a_simple_write_has_all_effects_of_a_packet(struct kunit *test)
{
	struct ib_rdma_wr second, third;
	s64 one[9] = {}, three[9] = {};
	struct quick q;
	u32 psn, msn, i;

	quick_begin(test, &q);
	second = q.wr;
	third = q.wr;
	second.wr.next = &third.wr;
	quick_counted(q.from, -1, one);
	KUNIT_ASSERT_EQ(test, ib_post_send(&q.from->ibqp, &q.wr.wr, NULL), 0);
	rox_fixture_wc(test);
	quick_counted(q.from, 1, one);
	q.wr.wr.next = &second.wr;
	psn = q.to->recv.epsn;
	msn = q.to->recv.msn;
	quick_payload(&q);
	quick_counted(q.from, -1, three);
	KUNIT_ASSERT_EQ(test, ib_post_send(&q.from->ibqp, &q.wr.wr, NULL), 0);
	for (i = 0; i < 3; i++)
		KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, IB_WC_RDMA_WRITE);
	quick_counted(q.from, 1, three);
	KUNIT_EXPECT_TRUE(test, quick_arrived(&q));
	KUNIT_EXPECT_EQ(test, q.to->recv.epsn, rox_psn_add(psn, 3));
	KUNIT_EXPECT_EQ(test, q.to->recv.msn, rox_psn_add(msn, 3));
	KUNIT_EXPECT_EQ(test, one[2], QUICK_BYTES);
	for (i = 0; i < ARRAY_SIZE(one); i++)
		KUNIT_EXPECT_EQ_MSG(test, three[i], 3 * one[i], "counter %u", i);
	quick_end(test, &q);
}

/* Tries to send the WQE that is next in that way. The send side is locked. */
static bool quick_tries(struct quick *q)
{
	struct rox_send *send = &q->from->send;
	bool done;

	local_bh_disable();
	done = rox_quick_send(q->from, rox_swqe_at(q->from, send->cur), send->cur, false);
	local_bh_enable();
	return done;
}

#define EXPECT_NOT_QUICK(field, value) do {						\
		typeof(field) *place = &(field), before = *place;			\
											\
		*place = value;								\
		KUNIT_EXPECT_FALSE_MSG(test, quick_tries(&q), "%s", #field);		\
		*place = before;							\
	} while (0)

static void only_a_simple_write_is_quick(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct rox_resp *recv;
	struct rox_send *send;
	struct quick q;

	quick_begin(test, &q);
	recv = &q.to->recv;
	send = &q.from->send;
	quick_payload(&q);
	rox_side_lock(&send->side);
	KUNIT_ASSERT_EQ(test, ib_post_send(&q.from->ibqp, &q.wr.wr, NULL), 0);
	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, rox_wqe_pull(q.from));
	local_bh_enable();
	/* No region is kept. */
	KUNIT_EXPECT_FALSE(test, quick_tries(&q));
	send->kept.dst.mr = rox_fixture_mr(test, f->pd, q.mr->rkey, q.mr->iova, QUICK_BYTES,
					   IB_ACCESS_REMOTE_WRITE, false);
	KUNIT_ASSERT_FALSE(test, IS_ERR(send->kept.dst.mr));

	EXPECT_NOT_QUICK(send->max_psn, rox_psn_add(send->max_psn, 1));
	EXPECT_NOT_QUICK(q.to->attr.qp_access_flags, 0);
	EXPECT_NOT_QUICK(q.to->path.daddr.s6_addr[15], q.to->path.daddr.s6_addr[15] ^ 0x55);
	EXPECT_NOT_QUICK(q.to->state, IB_QPS_INIT);
	EXPECT_NOT_QUICK(q.to->mtu, QUICK_BYTES - 1);
	EXPECT_NOT_QUICK(recv->epsn, rox_psn_add(recv->epsn, 1));
	EXPECT_NOT_QUICK(recv->kind, ROX_KIND_SEND);
	EXPECT_NOT_QUICK(recv->comm_est, false);
	EXPECT_NOT_QUICK(recv->holding, true);
	EXPECT_NOT_QUICK(recv->read.active, true);
	EXPECT_NOT_QUICK(recv->side.pages.busy, true);
	EXPECT_NOT_QUICK(rox_swqe_at(q.from, send->cur)->rkey, q.mr->rkey + 1);
	EXPECT_NOT_QUICK(rox_swqe_at(q.from, send->cur)->remote_addr, q.mr->iova + PAGE_SIZE);
	rox_side_lock(&recv->side);
	KUNIT_EXPECT_FALSE(test, quick_tries(&q));
	rox_side_unlock(&recv->side);
	KUNIT_EXPECT_EQ(test, q.bytes[PAGE_SIZE], 0);
	KUNIT_EXPECT_TRUE(test, quick_tries(&q));
	KUNIT_EXPECT_TRUE(test, quick_arrived(&q));
	/* What the loop of the requester does after that. */
	send->psn = rox_psn_add(send->psn, 1);
	send->max_psn = send->psn;
	send->cur++;
	rox_side_unlock(&send->side);
	KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, IB_WC_RDMA_WRITE);
	quick_end(test, &q);
}

/* ---- READ and ATOMIC ---- */

#define QUICK_BEFORE	0x1111ULL
#define QUICK_AFTER	0x2222ULL

/**
 * struct quick_kind - a request that fetches data
 * @opcode: of the work request
 * @completion: opcode of its completion
 * @len: bytes that it fetches
 * @after: the first word of the region after it
 */
struct quick_kind {
	enum ib_wr_opcode opcode;
	enum ib_wc_opcode completion;
	u32 len;
	u64 after;
};

static const struct quick_kind quick_kinds[] = {
	{ IB_WR_RDMA_READ, IB_WC_RDMA_READ, QUICK_BYTES, QUICK_BEFORE },
	{ IB_WR_RDMA_READ, IB_WC_RDMA_READ, QUICK_LONG, QUICK_BEFORE },
	{ IB_WR_ATOMIC_FETCH_AND_ADD, IB_WC_FETCH_ADD, 8, QUICK_BEFORE + QUICK_AFTER },
	{ IB_WR_ATOMIC_CMP_AND_SWP, IB_WC_COMP_SWAP, 8, QUICK_AFTER },
};

/* Posts @count such requests at once. */
static void quick_post(struct kunit *test, struct quick *q, const struct quick_kind *kind,
		       u32 count)
{
	struct ib_atomic_wr atomics[3] = {};
	struct ib_rdma_wr reads[3] = {};
	struct ib_send_wr *first = NULL;
	u32 i;

	q->sge.length = kind->len;
	for (i = count; i--;) {
		struct ib_send_wr *wr;

		reads[i].rkey = q->mr->rkey;
		reads[i].remote_addr = q->mr->iova;
		atomics[i].rkey = q->mr->rkey;
		atomics[i].remote_addr = q->mr->iova;
		atomics[i].compare_add = kind->opcode == IB_WR_ATOMIC_CMP_AND_SWP ? QUICK_BEFORE :
										    QUICK_AFTER;
		atomics[i].swap = QUICK_AFTER;
		wr = kind->opcode == IB_WR_RDMA_READ ? &reads[i].wr : &atomics[i].wr;
		wr->opcode = kind->opcode;
		wr->sg_list = &q->sge;
		wr->num_sge = 1;
		wr->next = first;
		first = wr;
	}
	KUNIT_ASSERT_EQ(test, ib_post_send(&q->from->ibqp, first, NULL), 0);
}

static void quick_memory(struct quick *q)
{
	u64 *region = (u64 *)(q->bytes + PAGE_SIZE);

	memset(q->bytes, 0, PAGE_SIZE);
	memset(region, QUICK_FILL, PAGE_SIZE);
	*region = QUICK_BEFORE;
}

/* Has @q->bytes what @kind fetches, and has the region the value that it leaves? */
static void quick_fetched(struct kunit *test, struct quick *q, const struct quick_kind *kind)
{
	const u64 *region = (u64 *)(q->bytes + PAGE_SIZE), *local = (u64 *)q->bytes;

	KUNIT_EXPECT_EQ(test, local[0], QUICK_BEFORE);
	KUNIT_EXPECT_EQ(test, region[0], kind->after);
	KUNIT_EXPECT_EQ(test, memcmp(local + 1, region + 1, kind->len - 8), 0);
	KUNIT_EXPECT_EQ(test, q->bytes[kind->len], 0);
}

/* The WQE that was completed last. */
static const struct rox_swqe *quick_last(const struct quick *q)
{
	return rox_swqe_at(q->from, q->from->send.tail - 1);
}

static void quick_counted_all(const struct rox_qp *qp, s64 sign, s64 *sums)
{
	unsigned int i;

	for (i = 0; i < ROX_CNT_MAX; i++)
		sums[i] += sign * (s64)rox_fixture_counted(qp, i);
}

/* Counts all that @count requests of @kind change. */
static void quick_fetch(struct kunit *test, struct quick *q, const struct quick_kind *kind,
			u32 count, s64 *sums)
{
	u32 psn = q->to->recv.epsn, msn = q->to->recv.msn, i;
	u32 npkts = count * DIV_ROUND_UP(kind->len, q->from->mtu);

	memset(sums, 0, ROX_CNT_MAX * sizeof(*sums));
	quick_memory(q);
	quick_counted_all(q->from, -1, sums);
	quick_post(test, q, kind, count);
	for (i = 0; i < count; i++) {
		struct ib_wc wc = rox_fixture_wc(test);

		KUNIT_EXPECT_EQ(test, wc.opcode, kind->completion);
		KUNIT_EXPECT_EQ(test, wc.byte_len, kind->len);
	}
	quick_counted_all(q->from, 1, sums);
	KUNIT_EXPECT_EQ(test, q->to->recv.epsn, rox_psn_add(psn, npkts));
	KUNIT_EXPECT_EQ(test, q->to->recv.msn, rox_psn_add(msn, count));
	KUNIT_EXPECT_EQ(test, q->from->send.una, rox_psn_add(psn, npkts));
	KUNIT_EXPECT_FALSE(test, q->to->recv.ack_due);
}

/* While a READ is under way, the next one is a packet. */
static void a_simple_fetch_has_all_effects_of_its_packets(struct kunit *test)
{
	s64 *slow = kunit_kzalloc(test, ROX_CNT_MAX * sizeof(*slow), GFP_KERNEL);
	s64 *fast = kunit_kzalloc(test, ROX_CNT_MAX * sizeof(*fast), GFP_KERNEL);
	struct quick q;
	u32 i, c;

	KUNIT_ASSERT_NOT_NULL(test, slow);
	KUNIT_ASSERT_NOT_NULL(test, fast);
	quick_begin(test, &q);
	for (i = 0; i < ARRAY_SIZE(quick_kinds); i++) {
		q.from->send.rd_atomic = 1;
		quick_fetch(test, &q, &quick_kinds[i], 1, slow);
		KUNIT_EXPECT_FALSE(test, quick_last(&q)->fetched);
		quick_fetched(test, &q, &quick_kinds[i]);
		KUNIT_EXPECT_EQ(test, q.from->send.rd_atomic, 1);
		q.from->send.rd_atomic = 0;
		quick_fetch(test, &q, &quick_kinds[i], 1, fast);
		KUNIT_EXPECT_TRUE(test, quick_last(&q)->fetched);
		quick_fetched(test, &q, &quick_kinds[i]);
		KUNIT_EXPECT_EQ(test, q.from->send.rd_atomic, 0);
		for (c = 0; c < ROX_CNT_MAX; c++)
			KUNIT_EXPECT_EQ_MSG(test, fast[c], slow[c], "kind %u, counter %u", i, c);
		/* One answer is for all. */
		quick_fetch(test, &q, &quick_kinds[i], 3, fast);
		KUNIT_EXPECT_TRUE(test, quick_last(&q)->fetched);
		KUNIT_EXPECT_EQ(test, fast[ROX_CNT_TX_PKTS], 3 * slow[ROX_CNT_TX_PKTS]);
	}
	quick_end(test, &q);
}

/*
 * The answer to a READ in that way is lost. The request is repeated, and the peer knows it. Then
 * only its response completes it.
 */
static void a_simple_read_is_repeated_like_any(struct kunit *test)
{
	struct rox_send *send;
	struct quick q;

	quick_begin(test, &q);
	send = &q.from->send;
	quick_memory(&q);
	rox_side_lock(&send->side);
	quick_post(test, &q, &quick_kinds[0], 1);
	local_bh_disable();
	KUNIT_EXPECT_TRUE(test, rox_wqe_pull(q.from));
	local_bh_enable();
	KUNIT_EXPECT_TRUE(test, quick_tries(&q));
	send->answer = 0;
	rox_send_iter_end(q.from);
	/* What the loop of the requester does; then the ACK timeout. */
	send->psn = rox_psn_add(send->psn, 1);
	send->max_psn = send->psn;
	send->cur++;
	KUNIT_EXPECT_EQ(test, send->una, rox_psn_add(send->psn, ROX_PSN_MASK));
	quick_memory(&q);
	local_bh_disable();
	rox_retry_go_back(q.from, ROX_RETRY_TIMEOUT);
	local_bh_enable();
	rox_side_unlock(&send->side);
	local_bh_disable();
	rox_side_kick(&send->side, ROX_WORK_RUN);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, IB_WC_RDMA_READ);
	KUNIT_EXPECT_FALSE(test, quick_last(&q)->fetched);
	quick_fetched(test, &q, &quick_kinds[0]);
	KUNIT_EXPECT_EQ(test, send->rd_atomic, 0);
	quick_end(test, &q);
}

static void only_a_simple_fetch_is_quick(struct kunit *test)
{
	struct rox_swqe *wqe;
	struct rox_send *send;
	struct rox_resp *recv;
	struct quick q;
	u32 i;

	quick_begin(test, &q);
	recv = &q.to->recv;
	send = &q.from->send;
	for (i = 0; i < ARRAY_SIZE(quick_kinds); i++) {
		quick_memory(&q);
		rox_side_lock(&send->side);
		quick_post(test, &q, &quick_kinds[i], 1);
		local_bh_disable();
		KUNIT_EXPECT_TRUE(test, rox_wqe_pull(q.from));
		local_bh_enable();
		wqe = rox_swqe_at(q.from, send->cur);
		EXPECT_NOT_QUICK(send->rd_atomic, 1);
		EXPECT_NOT_QUICK(recv->num_res, 0);
		EXPECT_NOT_QUICK(q.to->attr.dest_qp_num, q.from->ibqp.qp_num + 1);
		EXPECT_NOT_QUICK(q.to->attr.qp_access_flags, IB_ACCESS_REMOTE_WRITE);
		EXPECT_NOT_QUICK(q.to->mtu, q.from->mtu / 2);
		EXPECT_NOT_QUICK(wqe->rkey, q.mr->rkey + 1);
		EXPECT_NOT_QUICK(wqe->remote_addr, q.mr->iova + PAGE_SIZE);
		if (quick_kinds[i].opcode != IB_WR_RDMA_READ)
			EXPECT_NOT_QUICK(wqe->remote_addr, q.mr->iova + 4);
		KUNIT_EXPECT_EQ(test, q.bytes[0], 0);
		KUNIT_EXPECT_TRUE(test, quick_tries(&q));
		quick_fetched(test, &q, &quick_kinds[i]);
		send->psn = rox_psn_add(send->psn, wqe->npkts);
		send->max_psn = send->psn;
		send->cur++;
		rox_side_unlock(&send->side);
		local_bh_disable();
		rox_side_kick(&send->side, ROX_WORK_RUN);
		local_bh_enable();
		KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, quick_kinds[i].completion);
	}
	quick_end(test, &q);
}

static struct kunit_case rox_quick_cases[] = {
	KUNIT_CASE(a_simple_write_has_all_effects_of_a_packet),
	KUNIT_CASE(only_a_simple_write_is_quick),
	KUNIT_CASE(a_simple_fetch_has_all_effects_of_its_packets),
	KUNIT_CASE(a_simple_read_is_repeated_like_any),
	KUNIT_CASE(only_a_simple_fetch_is_quick),
	{}
};

static struct kunit_suite rox_quick_suite = {
	.name = "rox_quick",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_quick_cases,
};

kunit_test_suite(rox_quick_suite);
