// SPDX-License-Identifier: GPL-2.0
/*
 * A rox device on a netdev of its own.
 */
#include <linux/delay.h>
#include <linux/etherdevice.h>
#include <linux/rtnetlink.h>
#include <linux/scatterlist.h>
#include <rdma/ib_cache.h>

#include "../link.h"
#include "../transport/internal.h"
#include "fixture.h"

#define FIXTURE_NAME "roxkunit"

static netdev_tx_t fixture_xmit(struct sk_buff *skb, struct net_device *ndev)
{
	dev_kfree_skb(skb);
	return NETDEV_TX_OK;
}

static const struct net_device_ops fixture_netdev_ops = {
	.ndo_start_xmit = fixture_xmit,
	.ndo_set_mac_address = eth_mac_addr,
	.ndo_validate_addr = eth_validate_addr,
};

static void fixture_netdev_setup(struct net_device *ndev)
{
	ether_setup(ndev);
	ndev->netdev_ops = &fixture_netdev_ops;
	ndev->max_mtu = 9000;
	eth_hw_addr_random(ndev);
}

static struct net_device *fixture_netdev(struct kunit *test)
{
	struct net_device *ndev;
	int err;

	ndev = alloc_netdev(0, "roxk%d", NET_NAME_UNKNOWN, fixture_netdev_setup);
	KUNIT_ASSERT_NOT_NULL(test, ndev);
	rtnl_lock();
	err = register_netdevice(ndev);
	if (!err)
		err = dev_open(ndev, NULL);
	rtnl_unlock();
	KUNIT_ASSERT_EQ(test, err, 0);
	return ndev;
}

/* Waits for a RoCE v2 GID, as the core fills the GID table in a workqueue. */
static int fixture_gid(struct kunit *test, struct ib_device *ibdev)
{
	const struct ib_gid_attr *attr;
	int tries, index;

	for (tries = 0; tries < 500; tries++) {
		for (index = 0; index < 8; index++) {
			attr = rdma_get_gid_attr(ibdev, 1, index);
			if (IS_ERR(attr))
				continue;
			if (attr->gid_type == IB_GID_TYPE_ROCE_UDP_ENCAP) {
				rdma_put_gid_attr(attr);
				return index;
			}
			rdma_put_gid_attr(attr);
		}
		msleep(20);
	}
	KUNIT_FAIL(test, "the device has no GID");
	return 0;
}

int rox_fixture_init(struct kunit *test)
{
	struct rox_fixture *f = kunit_kzalloc(test, sizeof(*f), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, f);
	test->priv = f;
	f->ndev = fixture_netdev(test);
	KUNIT_ASSERT_EQ(test, rox_link_ops.newlink(FIXTURE_NAME, f->ndev), 0);
	f->dev = rox_link_find(f->ndev);
	KUNIT_ASSERT_NOT_NULL(test, f->dev);
	f->gid_index = fixture_gid(test, &f->dev->ibdev);
	f->pd = ib_alloc_pd(&f->dev->ibdev, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR(f->pd));
	f->cq = ib_alloc_cq(&f->dev->ibdev, NULL, 64, 0, IB_POLL_DIRECT);
	KUNIT_ASSERT_FALSE(test, IS_ERR(f->cq));
	return 0;
}

void rox_fixture_exit(struct kunit *test)
{
	struct rox_fixture *f = test->priv;

	if (!f)
		return;
	if (!IS_ERR_OR_NULL(f->cq))
		ib_free_cq(f->cq);
	if (!IS_ERR_OR_NULL(f->pd))
		ib_dealloc_pd(f->pd);
	if (f->dev) {
		ib_unregister_device(&f->dev->ibdev);
		put_device(&f->dev->ibdev.dev);
	}
	if (f->ndev) {
		unregister_netdev(f->ndev);
		free_netdev(f->ndev);
	}
}

struct rox_qp *rox_fixture_qp(struct kunit *test, enum ib_qp_type type)
{
	struct rox_fixture *f = test->priv;
	struct ib_qp_init_attr init = {
		.send_cq = f->cq,
		.recv_cq = f->cq,
		.cap = { .max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_type = IB_SIGNAL_ALL_WR,
		.qp_type = type,
	};
	struct ib_qp *qp = ib_create_qp(f->pd, &init);

	KUNIT_ASSERT_FALSE(test, IS_ERR(qp));
	return to_rox_qp(qp);
}

void rox_fixture_address(struct kunit *test, struct rdma_ah_attr *attr)
{
	static const u8 mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 9 };
	struct rox_fixture *f = test->priv;
	union ib_gid dgid = { .raw = { 0xfe, 0x80, [15] = 9 } };

	attr->type = RDMA_AH_ATTR_TYPE_ROCE;
	rdma_ah_set_port_num(attr, 1);
	rdma_ah_set_grh(attr, &dgid, 0, f->gid_index, 64, 0);
	rdma_ah_set_ah_flags(attr, IB_AH_GRH);
	memcpy(attr->roce.dmac, mac, sizeof(mac));
}

void rox_fixture_needs_route(struct kunit *test)
{
	if (!IS_ENABLED(CONFIG_IPV6))
		kunit_skip(test, "no IPv6");
}

int rox_fixture_attr(struct kunit *test, const struct rox_qp *qp, enum ib_qp_state from,
		     enum ib_qp_state to, struct ib_qp_attr *attr)
{
	bool ud = qp->ibqp.qp_type == IB_QPT_UD;

	*attr = (struct ib_qp_attr) {
		.qp_state = to, .port_num = 1, .qkey = 0x1234, .path_mtu = IB_MTU_1024,
		.dest_qp_num = 9, .rq_psn = 0x111111, .sq_psn = 0x222222, .max_dest_rd_atomic = 4,
		.max_rd_atomic = 4, .min_rnr_timer = 5, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 6, .qp_access_flags = IB_ACCESS_REMOTE_WRITE,
	};
	rox_fixture_address(test, &attr->ah_attr);
	if (to == IB_QPS_INIT)
		return IB_QP_STATE | IB_QP_PKEY_INDEX | IB_QP_PORT |
		       (ud ? IB_QP_QKEY : IB_QP_ACCESS_FLAGS);
	if (to == IB_QPS_RTR)
		return IB_QP_STATE | (ud ? 0 : IB_QP_AV | IB_QP_PATH_MTU | IB_QP_DEST_QPN |
		       IB_QP_RQ_PSN | IB_QP_MAX_DEST_RD_ATOMIC | IB_QP_MIN_RNR_TIMER);
	if (to == IB_QPS_RTS && from == IB_QPS_RTR)
		return IB_QP_STATE | IB_QP_SQ_PSN | (ud ? 0 : IB_QP_TIMEOUT | IB_QP_RETRY_CNT |
		       IB_QP_RNR_RETRY | IB_QP_MAX_QP_RD_ATOMIC);
	return IB_QP_STATE;
}

static void fixture_step(struct kunit *test, struct rox_qp *qp, enum ib_qp_state to)
{
	struct ib_qp_attr attr;
	int mask = rox_fixture_attr(test, qp, rox_qp_state(qp), to, &attr);

	KUNIT_ASSERT_EQ_MSG(test, ib_modify_qp(&qp->ibqp, &attr, mask), 0, "to state %d", to);
}

void rox_fixture_move(struct kunit *test, struct rox_qp *qp, enum ib_qp_state state)
{
	enum ib_qp_state step;

	fixture_step(test, qp, IB_QPS_RESET);
	if (state == IB_QPS_ERR) {
		fixture_step(test, qp, IB_QPS_INIT);
		fixture_step(test, qp, IB_QPS_ERR);
		return;
	}
	for (step = IB_QPS_INIT; step <= min(state, IB_QPS_RTS); step++)
		fixture_step(test, qp, step);
	if (state == IB_QPS_SQD)
		fixture_step(test, qp, IB_QPS_SQD);
	if (state == IB_QPS_SQE) {
		local_bh_disable();
		rox_qp_send_queue_error(qp);
		local_bh_enable();
	}
	KUNIT_ASSERT_EQ(test, rox_qp_state(qp), state);
}

static void fixture_connect(struct kunit *test, struct rox_qp *qp, u32 dest, enum ib_qp_state to)
{
	struct rox_fixture *f = test->priv;
	struct ib_qp_attr attr;
	union ib_gid own;
	int mask = rox_fixture_attr(test, qp, rox_qp_state(qp), to, &attr);

	KUNIT_ASSERT_EQ(test, rdma_query_gid(&f->dev->ibdev, 1, f->gid_index, &own), 0);
	rdma_ah_set_grh(&attr.ah_attr, &own, 0, f->gid_index, 64, 0);
	attr.dest_qp_num = dest;
	attr.qp_access_flags |= IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_ATOMIC;
	attr.rq_psn = attr.sq_psn;
	KUNIT_ASSERT_EQ_MSG(test, ib_modify_qp(&qp->ibqp, &attr, mask), 0, "to state %d", to);
}

void rox_fixture_join(struct kunit *test, struct rox_qp *a, struct rox_qp *b)
{
	enum ib_qp_state to;

	for (to = IB_QPS_INIT; to <= IB_QPS_RTS; to++) {
		fixture_connect(test, a, b->ibqp.qp_num, to);
		fixture_connect(test, b, a->ibqp.qp_num, to);
	}
}

struct ib_wc rox_fixture_wc(struct kunit *test)
{
	struct rox_fixture *f = test->priv;
	struct ib_wc wc = {};
	int tries, n = 0;

	for (tries = 0; tries < 500 && !n; tries++) {
		n = ib_poll_cq(f->cq, 1, &wc);
		if (!n)
			msleep(20);
	}
	KUNIT_ASSERT_EQ(test, n, 1);
	KUNIT_ASSERT_EQ(test, wc.status, IB_WC_SUCCESS);
	return wc;
}

struct ib_mr *rox_fixture_register(struct kunit *test, struct rox_qp *qp, struct scatterlist *sg)
{
	const int pages = sg->length / PAGE_SIZE;
	struct rox_fixture *f = test->priv;
	struct ib_mr *mr = ib_alloc_mr(f->pd, IB_MR_TYPE_MEM_REG, pages);
	struct ib_reg_wr reg = {
		.wr = { .opcode = IB_WR_REG_MR },
		.mr = mr,
		.access = IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ |
			  IB_ACCESS_REMOTE_ATOMIC,
	};

	KUNIT_ASSERT_FALSE(test, IS_ERR(mr));
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(&f->dev->ibdev, sg, 1, DMA_BIDIRECTIONAL), 1);
	KUNIT_ASSERT_EQ(test, ib_map_mr_sg(mr, sg, 1, NULL, PAGE_SIZE), 1);
	reg.key = mr->rkey;
	KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &reg.wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, rox_fixture_wc(test).opcode, IB_WC_REG_MR);
	return mr;
}

struct rox_mr *rox_fixture_mr(struct kunit *test, struct ib_pd *pd, u32 key, u64 addr, u64 len,
			      int access, bool user)
{
	struct rox_fixture *f = test->priv;
	const struct rox_mem_user who = { .mem = &f->dev->mem, .pd = pd, .user = user };

	return rox_mr_get(&who, key, addr, len, access);
}

u64 rox_fixture_counted(const struct rox_qp *qp, enum rox_counter counter)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += per_cpu_ptr(qp->ep.counters, cpu)->c[counter];
	return sum;
}
