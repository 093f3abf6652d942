// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the MTU on which two devices agree when the CM connects them.
 */
#include <linux/ipv6.h>
#include <rdma/ib_cm.h>
#include <rdma/ib_mad.h>
#include <rdma/ibta_vol1_c12.h>

#include "internal.h"
#include "../kunit/fixture.h"

#define MARK	0x5250
#define PEER	0x123

static const struct in6_addr there = { .s6_addr = { 0xfd, [15] = 1 } };
static const struct in6_addr elsewhere = { .s6_addr = { 0xfd, [15] = 2 } };

/* The device sends a REQ of @qp. Return: whether it marks it. */
static bool sends_req(struct rox_qp *qp, u32 id)
{
	const struct rox_path path = {};
	struct cm_req_msg req = {};

	req.hdr.mgmt_class = IB_MGMT_CLASS_CM;
	req.hdr.method = IB_MGMT_METHOD_SEND;
	req.hdr.attr_id = CM_REQ_ATTR_ID;
	IBA_SET(CM_REQ_LOCAL_QPN, &req, qp->ibqp.qp_num);
	IBA_SET(CM_REQ_LOCAL_COMM_ID, &req, id);
	rox_cm_sending(qp, &path, &req);
	return be16_to_cpu(req.hdr.resv) == MARK;
}

/* It gets a REP from @addr that names @qpn there. */
static void gets_rep(struct kunit *test, struct rox_qp *qp, u32 id, const struct in6_addr *addr,
		     u32 qpn, u32 mtu)
{
	const struct rox_mem_user who = rox_own_memory(qp, qp->ibqp.pd);
	struct cm_rep_msg rep = {};
	struct rox_pkt pkt = { .payload = (u8 *)&rep, .payload_len = IB_MGMT_MAD_SIZE };
	struct rox_iter nowhere;

	rep.hdr.mgmt_class = IB_MGMT_CLASS_CM;
	rep.hdr.method = IB_MGMT_METHOD_SEND;
	rep.hdr.attr_id = CM_REP_ATTR_ID;
	rep.hdr.resv = cpu_to_be16(MARK | mtu);
	IBA_SET(CM_REP_REMOTE_COMM_ID, &rep, id);
	IBA_SET(CM_REP_LOCAL_QPN, &rep, qpn);
	pkt.skb = alloc_skb(sizeof(struct ipv6hdr), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, pkt.skb);
	skb_put_zero(pkt.skb, sizeof(struct ipv6hdr));
	skb_reset_network_header(pkt.skb);
	ipv6_hdr(pkt.skb)->version = 6;
	ipv6_hdr(pkt.skb)->saddr = *addr;
	/* There is no receive: that fails after the device has looked. */
	rox_iter_init(&nowhere, &who, NULL, 0, IB_ACCESS_LOCAL_WRITE);
	KUNIT_EXPECT_NE(test, rox_cm_receive(qp, &pkt, &nowhere), 0);
	kfree_skb(pkt.skb);
}

static enum ib_mtu mtu_to(struct rox_qp *qp, const struct in6_addr *addr, u32 qpn)
{
	return rox_cm_mtu(qp, (const union ib_gid *)addr, qpn, IB_MTU_4096);
}

static void the_mtu_of_the_peer_counts(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_4096);
	KUNIT_EXPECT_TRUE(test, sends_req(qp, 1));
	gets_rep(test, qp, 1, &there, PEER, IB_MTU_1024);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_1024);
	KUNIT_EXPECT_EQ(test, rox_cm_mtu(qp, (const union ib_gid *)&there, PEER, IB_MTU_512),
			IB_MTU_512);
	/* Only the first REP, and none to a REQ that was not sent. */
	gets_rep(test, qp, 1, &there, PEER, IB_MTU_256);
	gets_rep(test, qp, 2, &there, PEER, IB_MTU_256);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_1024);
	rox_cm_forget(qp);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_4096);
	ib_destroy_qp(&qp->ibqp);
}

/* Any program can send a REQ that names the QP of another one, and have it answered. */
static void what_others_say_does_not_count(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);

	KUNIT_EXPECT_TRUE(test, sends_req(qp, 1));
	KUNIT_EXPECT_TRUE(test, sends_req(qp, 2));
	gets_rep(test, qp, 2, &elsewhere, PEER, IB_MTU_256);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_4096);
	gets_rep(test, qp, 1, &there, PEER, IB_MTU_1024);
	KUNIT_EXPECT_TRUE(test, sends_req(qp, 3));
	gets_rep(test, qp, 3, &there, PEER + 1, IB_MTU_256);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_1024);
	ib_destroy_qp(&qp->ibqp);
}

static void many_requests_are_not_all_remembered(struct kunit *test)
{
	struct rox_qp *qp = rox_fixture_qp(test, IB_QPT_RC);
	struct list_head *node;
	u32 id, n = 0;

	for (id = 1; id <= 1000; id++)
		KUNIT_ASSERT_TRUE(test, sends_req(qp, id));
	list_for_each(node, &qp->cm_reqs)
		n++;
	KUNIT_EXPECT_EQ(test, n, 16U);
	gets_rep(test, qp, 1, &there, PEER, IB_MTU_256);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_4096);
	gets_rep(test, qp, 1000, &there, PEER, IB_MTU_256);
	KUNIT_EXPECT_EQ(test, mtu_to(qp, &there, PEER), IB_MTU_256);
	ib_destroy_qp(&qp->ibqp);
}

static struct kunit_case cm_cases[] = {
	KUNIT_CASE(the_mtu_of_the_peer_counts),
	KUNIT_CASE(what_others_say_does_not_count),
	KUNIT_CASE(many_requests_are_not_all_remembered),
	{}
};

static struct kunit_suite rox_cm_suite = {
	.name = "rox_cm",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = cm_cases,
};

kunit_test_suite(rox_cm_suite);
