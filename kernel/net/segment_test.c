// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: how a sender finds out that frames are cut into packets with other IPv4 IDs, and what it
 * does then.
 */
#include <linux/etherdevice.h>

#include "../transport/internal.h"
#include "../kunit/fixture.h"
#include "internal.h"

#define FIRST_PSN 0xfffffe

/**
 * struct way - a sender and its path
 * @qp: whose sender it is
 * @sender: the sender
 * @path: where it sends to
 * @psn: of the next frame's first packet
 */
struct way {
	struct rox_qp *qp;
	struct rox_sender *sender;
	struct rox_path path;
	u32 psn;
};

static void way_open(struct kunit *test, struct way *way)
{
	*way = (struct way) { .qp = rox_fixture_qp(test, IB_QPT_RC), .psn = FIRST_PSN };
	way->sender = &way->qp->send.side.sender;
}

/* A frame is sent, and the receiver lacks its packet number @first. */
static void way_lacks(struct way *way, u32 first)
{
	u32 missing = rox_psn_add(way->psn, first);

	rox_frame_was_sent(way->sender, way->psn);
	rox_frame_was_sent(way->sender, rox_psn_add(way->psn, 16));
	local_bh_disable();
	rox_tx_missing(&way->qp->ep, &way->path, way->sender, missing, true);
	/* Told twice: no second frame. */
	rox_tx_missing(&way->qp->ep, &way->path, way->sender, missing, true);
	local_bh_enable();
	way->psn = missing;
}

static void frames_of_which_only_the_first_packet_arrives(struct kunit *test)
{
	struct rox_burst burst = { .resends = true };
	struct dst_entry dst = {};
	struct way way;

	way_open(test, &way);
	burst.path = &way.path;
	way_lacks(&way, 1);
	way_lacks(&way, 1);
	KUNIT_EXPECT_TRUE(test, rox_may_share_frame(&burst, &dst));
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(way.qp, ROX_CNT_TX_SINGLY), 0ULL);
	way_lacks(&way, 1);
	KUNIT_EXPECT_FALSE(test, rox_may_share_frame(&burst, &dst));
	way_lacks(&way, 1);
	KUNIT_EXPECT_EQ(test, rox_fixture_counted(way.qp, ROX_CNT_TX_SINGLY), 1ULL);
	ib_destroy_qp(&way.qp->ibqp);
}

/* Losses of a network hit any packet: they are no evidence. */
static void other_losses_prove_nothing(struct kunit *test)
{
	struct way way;
	int i;

	way_open(test, &way);
	for (i = 0; i < 10; i++) {
		way_lacks(&way, 1);
		way_lacks(&way, 1);
		way_lacks(&way, 2);
		way_lacks(&way, 0);
	}
	KUNIT_EXPECT_FALSE(test, way.path.singly);
	ib_destroy_qp(&way.qp->ibqp);
}

static void ipv6_has_no_id(struct kunit *test)
{
	struct way way;
	int i;

	way_open(test, &way);
	way.path.v6 = true;
	for (i = 0; i < 10; i++)
		way_lacks(&way, 1);
	KUNIT_EXPECT_FALSE(test, way.path.singly);
	ib_destroy_qp(&way.qp->ibqp);
}

/* UC and UD do not learn what has arrived. */
static void without_answers_the_netdev_decides(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct net_device *ndev = alloc_etherdev(0);
	struct dst_entry dst = { .dev = ndev };
	struct rox_path path = {};
	struct rox_burst burst = { .path = &path };

	KUNIT_ASSERT_NOT_NULL(test, ndev);
	rcu_read_lock();
	KUNIT_EXPECT_TRUE(test, rox_may_share_frame(&burst, &dst));
	ndev->features |= NETIF_F_GSO_UDP_L4;
	/* As veth, which leaves it to others. */
	KUNIT_EXPECT_TRUE(test, rox_may_share_frame(&burst, &dst));
	ndev->dev.parent = &f->dev->ibdev.dev;
	KUNIT_EXPECT_FALSE(test, rox_may_share_frame(&burst, &dst));
	burst.resends = true;
	KUNIT_EXPECT_TRUE(test, rox_may_share_frame(&burst, &dst));
	burst.resends = false;
	path.v6 = true;
	KUNIT_EXPECT_TRUE(test, rox_may_share_frame(&burst, &dst));
	rcu_read_unlock();
	ndev->dev.parent = NULL;
	free_netdev(ndev);
}

static struct kunit_case segment_cases[] = {
	KUNIT_CASE(frames_of_which_only_the_first_packet_arrives),
	KUNIT_CASE(other_losses_prove_nothing),
	KUNIT_CASE(ipv6_has_no_id),
	KUNIT_CASE(without_answers_the_netdev_decides),
	{}
};

static struct kunit_suite rox_segment_suite = {
	.name = "rox_segment",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = segment_cases,
};

kunit_test_suite(rox_segment_suite);
