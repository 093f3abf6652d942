// SPDX-License-Identifier: GPL-2.0
/*
 * What `rdma statistic show` tells of a port. Names are mlx5's where it counts
 * the same, so that the tools and habits made for it fit.
 */
#include <linux/percpu.h>

#include "../compat/ops.h"
#include "observe.h"
#include "restrack.h"

static const struct rdma_stat_desc rox_stat_descs[ROX_CNT_MAX] = {
	[ROX_CNT_TX_PKTS].name = "tx_packets",
	[ROX_CNT_TX_BYTES].name = "tx_bytes",
	[ROX_CNT_RX_PKTS].name = "rx_packets",
	[ROX_CNT_RX_BYTES].name = "rx_bytes",
	[ROX_CNT_TX_BURSTS].name = "tx_bursts",
	[ROX_CNT_RX_BURSTS].name = "rx_bursts",
	[ROX_CNT_TX_DROP].name = "tx_dropped",
	[ROX_CNT_RX_MALFORMED].name = "rx_malformed",
	[ROX_CNT_RX_ICRC].name = "rx_icrc_encapsulated",
	[ROX_CNT_RX_NO_QP].name = "rx_no_qp",
	[ROX_CNT_RX_PKEY].name = "rx_pkey_mismatch",
	[ROX_CNT_RX_QKEY].name = "rx_qkey_mismatch",
	[ROX_CNT_RX_DROP].name = "rx_dropped",
	[ROX_CNT_RX_WRITE_REQ].name = "rx_write_requests",
	[ROX_CNT_RX_READ_REQ].name = "rx_read_requests",
	[ROX_CNT_RX_ATOMIC_REQ].name = "rx_atomic_requests",
	[ROX_CNT_OUT_OF_BUFFER].name = "out_of_buffer",
	[ROX_CNT_OUT_OF_SEQUENCE].name = "out_of_sequence",
	[ROX_CNT_DUPLICATE_REQ].name = "duplicate_request",
	[ROX_CNT_RNR_NAK_SENT].name = "rnr_nak_sent",
	[ROX_CNT_RNR_NAK_RETRY_ERR].name = "rnr_nak_retry_err",
	[ROX_CNT_PACKET_SEQ_ERR].name = "packet_seq_err",
	[ROX_CNT_IMPLIED_NAK_SEQ_ERR].name = "implied_nak_seq_err",
	[ROX_CNT_LOCAL_ACK_TIMEOUT].name = "local_ack_timeout_err",
	[ROX_CNT_RETRANS_PKTS].name = "retransmitted_packets",
	[ROX_CNT_RETRY_EXCEEDED].name = "req_transport_retries_exceeded",
	[ROX_CNT_RNR_EXCEEDED].name = "req_rnr_retries_exceeded",
	[ROX_CNT_REQ_CQE_ERROR].name = "req_cqe_error",
	[ROX_CNT_REQ_CQE_FLUSH].name = "req_cqe_flush_error",
	[ROX_CNT_REQ_REM_ACCESS].name = "req_remote_access_errors",
	[ROX_CNT_REQ_REM_INV_REQ].name = "req_remote_invalid_request",
	[ROX_CNT_RESP_CQE_ERROR].name = "resp_cqe_error",
	[ROX_CNT_RESP_CQE_FLUSH].name = "resp_cqe_flush_error",
	[ROX_CNT_RESP_REM_ACCESS].name = "resp_remote_access_errors",
	[ROX_CNT_RESP_LOC_LEN].name = "resp_local_length_error",
	[ROX_CNT_CQ_OVERFLOW].name = "cq_overflow",
	[ROX_CNT_DOORBELLS].name = "doorbells",
	[ROX_CNT_TX_ACKS].name = "tx_acks",
	[ROX_CNT_RX_ACKS].name = "rx_acks",
	[ROX_CNT_RX_CNP].name = "rp_cnp_handled",
};

static struct rdma_hw_stats *rox_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(rox_stat_descs, ROX_CNT_MAX,
					  RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

/* Called for the port, and with port 0 for the device, which has none of its own. */
static int rox_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			    int index)
{
	const struct rox_dev *dev = to_rox_dev(ibdev);
	unsigned int i;
	int cpu;

	if (!port)
		return -EINVAL;

	for (i = 0; i < ROX_CNT_MAX; i++)
		stats->value[i] = 0;
	for_each_possible_cpu(cpu) {
		const struct rox_counters *counters = per_cpu_ptr(dev->counters, cpu);

		for (i = 0; i < ROX_CNT_MAX; i++)
			stats->value[i] += READ_ONCE(counters->c[i]);
	}
	return ROX_CNT_MAX;
}

const struct ib_device_ops rox_observe_ops = {
	.alloc_hw_port_stats = rox_alloc_hw_port_stats,
	.get_hw_stats = rox_get_hw_stats,

	.fill_res_qp_entry = rox_fill_res_qp,
	.fill_res_cq_entry = rox_fill_res_cq,
	.fill_res_mr_entry = rox_fill_res_mr,
	ROX_OPS_FILL_RES_SRQ
};
