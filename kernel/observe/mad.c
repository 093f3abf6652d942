// SPDX-License-Identifier: GPL-2.0
/*
 * The performance management agent of the port. It answers MADs from which the core makes
 * ports/1/counters, and MADs of other nodes. It supports the attributes ClassPortInfo,
 * PortCounters and PortCountersExtended. IBTA volume 1, 16.1.
 */
#include <linux/mutex.h>
#include <rdma/ib_cache.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_pma.h>

#include "observe.h"

/* Offset of the attribute in the data of a performance management MAD. */
#define ROX_PMA_DATA	40

/* RespTimeValue: the time in which the agent answers: 4.096 us * 2^18, about a second. */
#define ROX_PMA_RESP_TIME	18

#define ROX_ALL_PORTS	0xff

/* Return: @a - @b, or 0 if that is negative: counters are read one after the other. */
static u64 rox_less(u64 a, u64 b)
{
	return a > b ? a - b : 0;
}

/* Reads all counters of the agent. As in adapters, packets and octets include loopback. */
static void rox_pma_read(struct rox_stats *stats, u64 *pma)
{
	u64 sum[ROX_CNT_MAX];

	rox_port_sum(stats, sum);
	pma[ROX_PMA_LINK_DOWNED] = sum[ROX_CNT_LINK_DOWNED];
	pma[ROX_PMA_RCV_ERRORS] = sum[ROX_CNT_RX_MALFORMED] + sum[ROX_CNT_RX_ICRC];
	pma[ROX_PMA_RCV_CONSTRAINT] = sum[ROX_CNT_RX_PKEY];
	pma[ROX_PMA_XMIT_DISCARDS] = sum[ROX_CNT_TX_DROP];
	pma[ROX_PMA_XMIT_DATA] = sum[ROX_CNT_TX_OCTETS] / 4;
	pma[ROX_PMA_RCV_DATA] = sum[ROX_CNT_RX_OCTETS] / 4;
	pma[ROX_PMA_XMIT_PKTS] = sum[ROX_CNT_TX_PKTS];
	pma[ROX_PMA_RCV_PKTS] = rox_less(sum[ROX_CNT_RX_PKTS], sum[ROX_CNT_RX_COPIES]);
	pma[ROX_PMA_XMIT_MULTICAST] = sum[ROX_CNT_TX_MULTICAST];
	pma[ROX_PMA_RCV_MULTICAST] = sum[ROX_CNT_RX_MULTICAST];
	pma[ROX_PMA_XMIT_UNICAST] = rox_less(pma[ROX_PMA_XMIT_PKTS], pma[ROX_PMA_XMIT_MULTICAST]);
	pma[ROX_PMA_RCV_UNICAST] = rox_less(pma[ROX_PMA_RCV_PKTS], pma[ROX_PMA_RCV_MULTICAST]);
}

/**
 * struct rox_pma_bit - a counter of an attribute
 * @bit: its bit in CounterSelect
 * @counter: enum rox_pma_counter
 */
struct rox_pma_bit {
	u8 bit;
	u8 counter;
};

/* Counters of PortCounters. Those that are not in the table are always 0. */
static const struct rox_pma_bit rox_pma_bits[] = {
	{ 2, ROX_PMA_LINK_DOWNED },
	{ 3, ROX_PMA_RCV_ERRORS },
	{ 6, ROX_PMA_XMIT_DISCARDS },
	{ 8, ROX_PMA_RCV_CONSTRAINT },
	{ 12, ROX_PMA_XMIT_DATA },
	{ 13, ROX_PMA_RCV_DATA },
	{ 14, ROX_PMA_XMIT_PKTS },
	{ 15, ROX_PMA_RCV_PKTS },
};

/* Counters of PortCountersExtended. */
static const struct rox_pma_bit rox_pma_bits_ext[] = {
	{ 0, ROX_PMA_XMIT_DATA },
	{ 1, ROX_PMA_RCV_DATA },
	{ 2, ROX_PMA_XMIT_PKTS },
	{ 3, ROX_PMA_RCV_PKTS },
	{ 4, ROX_PMA_XMIT_UNICAST },
	{ 5, ROX_PMA_RCV_UNICAST },
	{ 6, ROX_PMA_XMIT_MULTICAST },
	{ 7, ROX_PMA_RCV_MULTICAST },
};

/* Resets the counters in @select: makes their values the base. */
static void rox_pma_reset(const struct rox_pma_bit *bits, unsigned int n, u16 select,
			  const u64 *pma, u64 *base)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		if (select & BIT(bits[i].bit))
			base[bits[i].counter] = pma[bits[i].counter];
}

/* Counters saturate. */
static void rox_pma_fill(struct ib_pma_portcounters *p, const u64 *pma, const u64 *base)
{
	u64 v[ROX_PMA_MAX];
	unsigned int i;

	for (i = 0; i < ROX_PMA_MAX; i++)
		v[i] = rox_less(pma[i], base[i]);
	p->link_downed_counter = min_t(u64, v[ROX_PMA_LINK_DOWNED], U8_MAX);
	p->port_rcv_errors = cpu_to_be16(min_t(u64, v[ROX_PMA_RCV_ERRORS], U16_MAX));
	p->port_xmit_discards = cpu_to_be16(min_t(u64, v[ROX_PMA_XMIT_DISCARDS], U16_MAX));
	p->port_rcv_constraint_errors = min_t(u64, v[ROX_PMA_RCV_CONSTRAINT], U8_MAX);
	p->port_xmit_data = cpu_to_be32(min_t(u64, v[ROX_PMA_XMIT_DATA], U32_MAX));
	p->port_rcv_data = cpu_to_be32(min_t(u64, v[ROX_PMA_RCV_DATA], U32_MAX));
	p->port_xmit_packets = cpu_to_be32(min_t(u64, v[ROX_PMA_XMIT_PKTS], U32_MAX));
	p->port_rcv_packets = cpu_to_be32(min_t(u64, v[ROX_PMA_RCV_PKTS], U32_MAX));
}

static void rox_pma_fill_ext(struct ib_pma_portcounters_ext *p, const u64 *pma, const u64 *base)
{
	u64 v[ROX_PMA_MAX];
	unsigned int i;

	for (i = 0; i < ROX_PMA_MAX; i++)
		v[i] = rox_less(pma[i], base[i]);
	p->port_xmit_data = cpu_to_be64(v[ROX_PMA_XMIT_DATA]);
	p->port_rcv_data = cpu_to_be64(v[ROX_PMA_RCV_DATA]);
	p->port_xmit_packets = cpu_to_be64(v[ROX_PMA_XMIT_PKTS]);
	p->port_rcv_packets = cpu_to_be64(v[ROX_PMA_RCV_PKTS]);
	p->port_unicast_xmit_packets = cpu_to_be64(v[ROX_PMA_XMIT_UNICAST]);
	p->port_unicast_rcv_packets = cpu_to_be64(v[ROX_PMA_RCV_UNICAST]);
	p->port_multicast_xmit_packets = cpu_to_be64(v[ROX_PMA_XMIT_MULTICAST]);
	p->port_multicast_rcv_packets = cpu_to_be64(v[ROX_PMA_RCV_MULTICAST]);
}

/*
 * Get or Set of PortCounters or PortCountersExtended. Both attributes begin with port and
 * CounterSelect. Return: the status of the answer.
 */
static u16 rox_pma_counters(struct rox_stats *stats, const struct ib_mad *in, struct ib_mad *out,
			    bool set)
{
	bool ext = in->mad_hdr.attr_id == IB_PMA_PORT_COUNTERS_EXT;
	const struct ib_pma_portcounters *asked = (const void *)(in->data + ROX_PMA_DATA);
	void *answer = out->data + ROX_PMA_DATA;
	struct rox_port_stats *port = stats->port;
	u16 select = be16_to_cpu(asked->counter_select);
	u64 pma[ROX_PMA_MAX];

	if (asked->port_select != 1 && asked->port_select != ROX_ALL_PORTS)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;
	if (in->mad_hdr.attr_mod)
		return IB_MGMT_MAD_STATUS_INVALID_ATTRIB_VALUE;

	/* The answer repeats port and CounterSelect. */
	memcpy(answer, asked, offsetof(struct ib_pma_portcounters, symbol_error_counter));
	mutex_lock(&port->lock);
	rox_pma_read(stats, pma);
	if (set && ext)
		rox_pma_reset(rox_pma_bits_ext, ARRAY_SIZE(rox_pma_bits_ext), select, pma,
			      port->base_ext);
	else if (set)
		rox_pma_reset(rox_pma_bits, ARRAY_SIZE(rox_pma_bits), select, pma, port->base);
	if (ext)
		rox_pma_fill_ext(answer, pma, port->base_ext);
	else
		rox_pma_fill(answer, pma, port->base);
	mutex_unlock(&port->lock);
	return 0;
}

static u16 rox_pma_class_port_info(struct ib_mad *out)
{
	struct ib_class_port_info *info = (void *)(out->data + ROX_PMA_DATA);

	info->base_version = IB_MGMT_BASE_VERSION;
	info->class_version = 1;
	info->capability_mask = IB_PMA_CLASS_CAP_ALLPORTSELECT | IB_PMA_CLASS_CAP_EXT_WIDTH;
	ib_set_cpi_resp_time(info, ROX_PMA_RESP_TIME);
	return 0;
}

/* Does the MAD come from an address of this device? */
static bool rox_mad_is_own(struct ib_device *ibdev, const struct ib_wc *wc,
			   const struct ib_grh *grh)
{
	const struct ib_gid_attr *attr;
	union ib_gid sgid, dgid;

	if (!(wc->wc_flags & IB_WC_GRH) ||
	    ib_get_gids_from_rdma_hdr((const union rdma_network_hdr *)grh,
				      ib_get_rdma_header_version((const void *)grh) == 4 ?
				      RDMA_NETWORK_IPV4 : RDMA_NETWORK_IPV6, &sgid, &dgid))
		return false;
	attr = rdma_find_gid_by_port(ibdev, &sgid, IB_GID_TYPE_ROCE_UDP_ENCAP, 1, NULL);
	if (IS_ERR(attr))
		return false;
	rdma_put_gid_attr(attr);
	return true;
}

/* Executes a request. Return: the status of the answer. */
static u16 rox_pma_answer(struct rox_stats *stats, struct ib_device *ibdev, const struct ib_wc *wc,
			  const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out)
{
	bool set = in->mad_hdr.method == IB_MGMT_METHOD_SET;

	if (in->mad_hdr.class_version != 1)
		return IB_MGMT_MAD_STATUS_BAD_VERSION;
	/* RoCE has no management keys, and is routed. So only the device itself may reset. */
	if (set && wc && !rox_mad_is_own(ibdev, wc, grh))
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD;

	switch (in->mad_hdr.attr_id) {
	case IB_PMA_CLASS_PORT_INFO:
		/* Set would name a receiver of traps, but the agent sends none. */
		return set ? IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB :
			     rox_pma_class_port_info(out);
	case IB_PMA_PORT_COUNTERS:
	case IB_PMA_PORT_COUNTERS_EXT:
		return rox_pma_counters(stats, in, out, set);
	default:
		return IB_MGMT_MAD_STATUS_UNSUPPORTED_METHOD_ATTRIB;
	}
}

/**
 * rox_pma_process() - answers a MAD
 * @stats: the device's counters
 * @ibdev: the device
 * @wc: completion of the MAD, or NULL for a MAD of the core
 * @grh: its network header; valid with @wc only
 * @in: the MAD
 * @out: filled with the answer
 *
 * MADs of other classes, and methods other than Get and Set, are not answered.
 * Process context.
 *
 * Return: IB_MAD_RESULT_SUCCESS, with IB_MAD_RESULT_REPLY if there is an answer
 */
int rox_pma_process(struct rox_stats *stats, struct ib_device *ibdev, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out)
{
	if (in->mad_hdr.mgmt_class != IB_MGMT_CLASS_PERF_MGMT ||
	    (in->mad_hdr.method != IB_MGMT_METHOD_GET && in->mad_hdr.method != IB_MGMT_METHOD_SET))
		return IB_MAD_RESULT_SUCCESS;

	memset(out, 0, sizeof(*out));
	out->mad_hdr = in->mad_hdr;
	out->mad_hdr.method = IB_MGMT_METHOD_GET_RESP;
	out->mad_hdr.status = cpu_to_be16(rox_pma_answer(stats, ibdev, wc, grh, in, out));
	return IB_MAD_RESULT_SUCCESS | IB_MAD_RESULT_REPLY;
}
