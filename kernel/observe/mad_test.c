// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: the port's performance management agent.
 */
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>

#include "../kunit/fixture.h"

#define PMA_DATA 40

/**
 * struct talk - a request and its answer
 * @in: the request
 * @out: the answer, after ask()
 */
struct talk {
	struct ib_mad in;
	struct ib_mad out;
};

static struct talk *talk_new(struct kunit *test, u8 method, __be16 attribute)
{
	struct talk *talk = kunit_kzalloc(test, sizeof(*talk), GFP_KERNEL);
	struct ib_pma_portcounters *p;

	KUNIT_ASSERT_NOT_NULL(test, talk);
	talk->in.mad_hdr = (struct ib_mad_hdr) {
		.base_version = 1,
		.mgmt_class = IB_MGMT_CLASS_PERF_MGMT,
		.class_version = 1,
		.method = method,
		.tid = cpu_to_be64(0x1234),
		.attr_id = attribute,
	};
	p = (void *)(talk->in.data + PMA_DATA);
	p->port_select = 1;
	return talk;
}

/*
 * Sends the request. With @wc and @grh it comes from the network, with NULL from the core.
 * Expects an answer. Return: its status.
 */
static u16 ask_as(struct kunit *test, struct talk *talk, const struct ib_wc *wc,
		  const struct ib_grh *grh)
{
	struct rox_fixture *f = test->priv;
	struct ib_device *ibdev = &f->dev->ibdev;
	size_t size = sizeof(talk->out);
	u16 pkey_index = 0;
	int result;

	memset(&talk->out, 0xaa, sizeof(talk->out));
	result = ibdev->ops.process_mad(ibdev, 0, 1, wc, grh, &talk->in, &talk->out, &size,
					&pkey_index);
	KUNIT_EXPECT_EQ(test, result, IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY);
	KUNIT_EXPECT_EQ(test, talk->out.mad_hdr.method, IB_MGMT_METHOD_GET_RESP);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(talk->out.mad_hdr.tid), 0x1234);
	return be16_to_cpu(talk->out.mad_hdr.status);
}

static u16 ask(struct kunit *test, struct talk *talk)
{
	return ask_as(test, talk, NULL, NULL);
}

static struct ib_pma_portcounters *counters_of(struct talk *talk)
{
	return (void *)(talk->out.data + PMA_DATA);
}

static struct ib_pma_portcounters_ext *counters_ext_of(struct talk *talk)
{
	return (void *)(talk->out.data + PMA_DATA);
}

/* Resets all counters, so that a case sees only its own counts. */
static void reset_all(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_SET, IB_PMA_PORT_COUNTERS);
	struct ib_pma_portcounters *p = (void *)(talk->in.data + PMA_DATA);

	p->counter_select = cpu_to_be16(0xffff);
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	talk->in.mad_hdr.attr_id = IB_PMA_PORT_COUNTERS_EXT;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
}

static void what_counts_where(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_GET, IB_PMA_PORT_COUNTERS);
	struct rox_fixture *f = test->priv;
	struct ib_pma_portcounters *p = counters_of(talk);

	reset_all(test);
	rox_count_add(&f->dev->stats, ROX_CNT_LINK_DOWNED, 2);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_MALFORMED, 3);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_ICRC, 4);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_DROP, 5);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_PKEY, 6);
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, p->port_select, 1);
	KUNIT_EXPECT_EQ(test, p->link_downed_counter, 2);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(p->port_rcv_errors), 7);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(p->port_xmit_discards), 5);
	KUNIT_EXPECT_EQ(test, p->port_rcv_constraint_errors, 6);
	KUNIT_EXPECT_EQ(test, p->symbol_error_counter, 0);
	KUNIT_EXPECT_EQ(test, p->vl15_dropped, 0);
}

static void counters_saturate_at_their_width(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_GET, IB_PMA_PORT_COUNTERS);
	struct ib_pma_portcounters_ext *ext = counters_ext_of(talk);
	struct ib_pma_portcounters *p = counters_of(talk);
	struct rox_fixture *f = test->priv;

	reset_all(test);
	rox_count_add(&f->dev->stats, ROX_CNT_LINK_DOWNED, 256);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_ICRC, 65536);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_DROP, 1 << 20);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_PKEY, 1000);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_OCTETS, 4ULL << 32);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_OCTETS, (4ULL << 32) - 8);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_PKTS, (5ULL << 32) + 9);
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, p->link_downed_counter, U8_MAX);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(p->port_rcv_errors), U16_MAX);
	KUNIT_EXPECT_EQ(test, be16_to_cpu(p->port_xmit_discards), U16_MAX);
	KUNIT_EXPECT_EQ(test, p->port_rcv_constraint_errors, U8_MAX);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_xmit_data), U32_MAX);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_rcv_data), U32_MAX - 1);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_xmit_packets), U32_MAX);

	talk->in.mad_hdr.attr_id = IB_PMA_PORT_COUNTERS_EXT;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_data), 1ULL << 32);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_rcv_data), U32_MAX - 1ULL);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_packets), (5ULL << 32) + 9);
}

static void a_multicast_packet_is_one_for_the_port(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_GET, IB_PMA_PORT_COUNTERS_EXT);
	struct ib_pma_portcounters_ext *p = counters_ext_of(talk);
	struct rox_fixture *f = test->priv;

	reset_all(test);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_PKTS, 10);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_MULTICAST, 4);
	/* Two multicast packets, each received by three QPs, and five unicast packets. */
	rox_count_add(&f->dev->stats, ROX_CNT_RX_PKTS, 11);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_MULTICAST, 2);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_COPIES, 4);
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_xmit_packets), 10);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_unicast_xmit_packets), 6);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_multicast_xmit_packets), 4);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_rcv_packets), 7);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_unicast_rcv_packets), 5);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(p->port_multicast_rcv_packets), 2);
}

static void set_puts_back_what_is_selected(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_SET, IB_PMA_PORT_COUNTERS);
	struct ib_pma_portcounters *asked = (void *)(talk->in.data + PMA_DATA);
	struct ib_pma_portcounters_ext *ext = counters_ext_of(talk);
	struct ib_pma_portcounters *p = counters_of(talk);
	struct rox_fixture *f = test->priv;

	reset_all(test);
	rox_count_add(&f->dev->stats, ROX_CNT_LINK_DOWNED, 2);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_PKTS, 100);
	rox_count_add(&f->dev->stats, ROX_CNT_RX_PKTS, 50);
	asked->counter_select = IB_PMA_SEL_PORT_XMIT_PACKETS | IB_PMA_SEL_LINK_DOWNED;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, p->counter_select, asked->counter_select);
	KUNIT_EXPECT_EQ(test, p->link_downed_counter, 0);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_xmit_packets), 0);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_rcv_packets), 50);

	rox_count_add(&f->dev->stats, ROX_CNT_TX_PKTS, 7);
	talk->in.mad_hdr.method = IB_MGMT_METHOD_GET;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, be32_to_cpu(p->port_xmit_packets), 7);
	/* The extended counters have not been reset. */
	talk->in.mad_hdr.attr_id = IB_PMA_PORT_COUNTERS_EXT;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_packets), 107);
	talk->in.mad_hdr.method = IB_MGMT_METHOD_SET;
	asked->counter_select = IB_PMA_SELX_PORT_XMIT_PACKETS;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_xmit_packets), 0);
	KUNIT_EXPECT_EQ(test, be64_to_cpu(ext->port_rcv_packets), 50);
}

/* Only a MAD with an address of the device as its source may reset counters. */
static void others_may_not_set(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_SET, IB_PMA_PORT_COUNTERS_EXT);
	struct ib_pma_portcounters *asked = (void *)(talk->in.data + PMA_DATA);
	struct ib_wc wc = { .wc_flags = IB_WC_GRH };
	const struct ib_gid_attr *attr;
	struct rox_fixture *f = test->priv;
	struct ib_grh grh = { .version_tclass_flow = cpu_to_be32(6 << 28) };

	attr = rdma_get_gid_attr(&f->dev->ibdev, 1, f->gid_index);
	KUNIT_ASSERT_FALSE(test, IS_ERR(attr));
	asked->counter_select = cpu_to_be16(0xffff);
	rox_count_add(&f->dev->stats, ROX_CNT_TX_PKTS, 100);

	grh.sgid.raw[0] = 0xfd;
	grh.sgid.raw[15] = 0x99;
	KUNIT_EXPECT_EQ(test, ask_as(test, talk, &wc, &grh), IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD);
	grh.sgid = attr->gid;
	if (!ipv6_addr_v4mapped((const struct in6_addr *)&attr->gid))
		KUNIT_EXPECT_EQ(test, ask_as(test, talk, &wc, &grh), 0);
	wc.wc_flags = 0;
	KUNIT_EXPECT_EQ(test, ask_as(test, talk, &wc, &grh), IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD);
	talk->in.mad_hdr.method = IB_MGMT_METHOD_GET;
	KUNIT_EXPECT_EQ(test, ask_as(test, talk, &wc, &grh), 0);
	rdma_put_gid_attr(attr);
}

static void what_is_wrong_is_said(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_GET, IB_PMA_CLASS_PORT_INFO);
	struct ib_pma_portcounters *asked = (void *)(talk->in.data + PMA_DATA);
	struct ib_class_port_info *info = (void *)(talk->out.data + PMA_DATA);

	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	KUNIT_EXPECT_EQ(test, info->capability_mask,
			IB_PMA_CLASS_CAP_ALLPORTSELECT | IB_PMA_CLASS_CAP_EXT_WIDTH);
	talk->in.mad_hdr.class_version = 2;
	KUNIT_EXPECT_EQ(test, ask(test, talk), IB_MGMT_MAD_STATUS_BAD_VERSION);
	talk->in.mad_hdr.class_version = 1;
	talk->in.mad_hdr.attr_id = cpu_to_be16(0x77);
	KUNIT_EXPECT_EQ(test, ask(test, talk), IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB);
	talk->in.mad_hdr.attr_id = IB_PMA_PORT_COUNTERS;
	asked->port_select = 2;
	KUNIT_EXPECT_EQ(test, ask(test, talk), IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
	asked->port_select = 0xff;
	KUNIT_EXPECT_EQ(test, ask(test, talk), 0);
	talk->in.mad_hdr.attr_mod = cpu_to_be32(1);
	KUNIT_EXPECT_EQ(test, ask(test, talk), IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE);
}

/* The agent does not answer replies, nor MADs of other classes: the core's clients get them. */
static void others_get_what_is_theirs(struct kunit *test)
{
	struct talk *talk = talk_new(test, IB_MGMT_METHOD_GET_RESP, IB_PMA_PORT_COUNTERS);
	struct rox_fixture *f = test->priv;
	size_t size = sizeof(talk->out);
	u16 pkey_index = 0;
	struct ib_device *ibdev = &f->dev->ibdev;

	KUNIT_EXPECT_EQ(test, ibdev->ops.process_mad(ibdev, 0, 1, NULL, NULL, &talk->in,
						     &talk->out, &size, &pkey_index),
			IB_MAD_RESULT_SUCCESS);
	talk->in.mad_hdr.method = IB_MGMT_METHOD_GET;
	talk->in.mad_hdr.mgmt_class = IB_MGMT_CLASS_CM;
	KUNIT_EXPECT_EQ(test, ibdev->ops.process_mad(ibdev, 0, 1, NULL, NULL, &talk->in,
						     &talk->out, &size, &pkey_index),
			IB_MAD_RESULT_SUCCESS);
}

static struct kunit_case rox_mad_cases[] = {
	KUNIT_CASE(what_counts_where),
	KUNIT_CASE(counters_saturate_at_their_width),
	KUNIT_CASE(a_multicast_packet_is_one_for_the_port),
	KUNIT_CASE(set_puts_back_what_is_selected),
	KUNIT_CASE(others_may_not_set),
	KUNIT_CASE(what_is_wrong_is_said),
	KUNIT_CASE(others_get_what_is_theirs),
	{}
};

static struct kunit_suite rox_mad_suite = {
	.name = "rox_mad",
	.init = rox_fixture_init,
	.exit = rox_fixture_exit,
	.test_cases = rox_mad_cases,
};

kunit_test_suite(rox_mad_suite);
