// SPDX-License-Identifier: GPL-2.0
/*
 * What `rdma statistic` tells: of a port, and of QPs that are bound to a counter
 * of their own. Names are mlx5's where it counts the same, so that the tools and
 * habits made for it fit.
 *
 * A QP that is bound counts into the counter's set instead of the device's: one
 * pointer is another one, and the data path does not know. The core shows the sum
 * of both for the port, and keeps what a counter had when it ends.
 * Source: drivers/infiniband/core/counters.c.
 */
#include <linux/percpu.h>
#include <rdma/rdma_counter.h>

#include "../compat/ops.h"
#include "observe.h"
#include "restrack.h"

#define OPTIONAL(_name) { .name = (_name), .flags = IB_STAT_FLAG_OPTIONAL }

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
	[ROX_CNT_RX_EARLY].name = "rx_early_kept",
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
	[ROX_CNT_RX_CE] = OPTIONAL("cc_rx_ce_pkts"),
	[ROX_CNT_STALL_WINDOW] = OPTIONAL("tx_stall_window"),
	[ROX_CNT_STALL_CREDITS] = OPTIONAL("tx_stall_credits"),
	[ROX_CNT_STALL_READS] = OPTIONAL("tx_stall_reads"),
	[ROX_CNT_DEFERRED] = OPTIONAL("work_deferred"),
};

/* Always there, so that the branches cost nothing while no device has one switched on. */
DEFINE_STATIC_KEY_FALSE(rox_optional_key);

/* ---- sums ---- */

static void rox_counters_sum(const struct rox_counters __percpu *counters, u64 *sum)
{
	unsigned int i;
	int cpu;

	memset(sum, 0, ROX_CNT_MAX * sizeof(*sum));
	for_each_possible_cpu(cpu) {
		const struct rox_counters *of = per_cpu_ptr(counters, cpu);

		for (i = 0; i < ROX_CNT_MAX; i++)
			sum[i] += READ_ONCE(of->c[i]);
	}
}

/* Optional counters that are off are not shown. */
static void rox_stats_select(const struct rox_dev *dev, struct rdma_hw_stats *stats)
{
	unsigned int i;

	for (i = ROX_CNT_OPTIONAL; i < ROX_CNT_MAX; i++)
		assign_bit(i, stats->is_disabled, !test_bit(i - ROX_CNT_OPTIONAL, &dev->optional));
}

static struct rdma_hw_stats *rox_stats_alloc(const struct rox_dev *dev)
{
	struct rdma_hw_stats *stats;

	stats = rdma_alloc_hw_stats_struct(rox_stat_descs, ROX_CNT_MAX,
					   RDMA_HW_STATS_DEFAULT_LIFESPAN);
	if (stats)
		rox_stats_select(dev, stats);
	return stats;
}

/* ---- the port ---- */

static struct rdma_hw_stats *rox_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rox_stats_alloc(to_rox_dev(ibdev));
}

/* Called for the port, and with port 0 for the device, which has none of its own. */
static int rox_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			    int index)
{
	if (!port)
		return -EINVAL;
	rox_counters_sum(to_rox_dev(ibdev)->counters, stats->value);
	return ROX_CNT_MAX;
}

/* The core has checked that the counter is optional and is to change. */
static int rox_modify_hw_stat(struct ib_device *ibdev, u32 port, unsigned int index, bool enable)
{
	struct rox_dev *dev = to_rox_dev(ibdev);

	if (index < ROX_CNT_OPTIONAL || index >= ROX_CNT_MAX)
		return -EINVAL;
	index -= ROX_CNT_OPTIONAL;
	if (enable && !test_and_set_bit(index, &dev->optional))
		static_branch_inc(&rox_optional_key);
	else if (!enable && test_and_clear_bit(index, &dev->optional))
		static_branch_dec(&rox_optional_key);
	return 0;
}

/* ---- counters of QPs ---- */

/**
 * struct rox_counter_set - what one counter of `rdma statistic qp` counts
 * @values: of all QPs that are bound to it, since it was made
 * @reported: what the core was told last
 * @dev: gets what comes after that
 * @rcu: for freeing after the data path, which reads a QP's pointer to @values
 */
struct rox_counter_set {
	struct rox_counters __percpu *values;
	u64 reported[ROX_CNT_MAX];
	struct rox_dev *dev;
	struct rcu_head rcu;
};

static struct rox_counter_set *rox_set_of(const struct rdma_counter *counter)
{
	return xa_load(&to_rox_dev(counter->device)->counter_sets, counter->id);
}

/* Gives @counter its set and number. */
static int rox_set_create(struct rdma_counter *counter)
{
	struct rox_dev *dev = to_rox_dev(counter->device);
	struct rox_counter_set *set;
	int err = -ENOMEM;

	set = kzalloc(sizeof(*set), GFP_KERNEL);
	if (!set)
		return -ENOMEM;
	set->dev = dev;
	set->values = alloc_percpu(struct rox_counters);
	if (set->values)
		err = xa_alloc(&dev->counter_sets, &counter->id, set, xa_limit_31b, GFP_KERNEL);
	if (err) {
		free_percpu(set->values);
		kfree(set);
		return err;
	}
	dev->had_sets = true;
	return 0;
}

/*
 * A doorbell or a frame that had the pointer may have counted after the core's
 * last look: it counts for the device, so that the sum is right.
 */
static void rox_set_free(struct rcu_head *rcu)
{
	struct rox_counter_set *set = container_of(rcu, struct rox_counter_set, rcu);
	u64 sum[ROX_CNT_MAX];
	unsigned int i;

	rox_counters_sum(set->values, sum);
	for (i = 0; i < ROX_CNT_MAX; i++)
		rox_count_add(set->dev, i, sum[i] - set->reported[i]);
	free_percpu(set->values);
	kfree(set);
}

/**
 * rox_counter_bind_qp() - has a counter count a QP from now on
 * @counter: the counter; the core holds its lock. It has no ID yet if it is new
 * @ibqp: the QP, in any state; bound to none
 * @port: the only one
 *
 * Process context. Return: 0 or -ENOMEM.
 */
int rox_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	int err = counter->id ? 0 : rox_set_create(counter);

	if (err)
		return err;
	WRITE_ONCE(to_rox_qp(ibqp)->counters, rox_set_of(counter)->values);
	ibqp->counter = counter;
	return 0;
}

/**
 * rox_counter_unbind_qp() - has the device count a QP again
 * @ibqp: the QP; the core holds its counter's lock
 * @port: the only one
 *
 * Process context. Return: 0.
 */
int rox_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	struct rox_qp *qp = to_rox_qp(ibqp);

	WRITE_ONCE(qp->counters, qp->dev->counters);
	ibqp->counter = NULL;
	return 0;
}

static struct rdma_hw_stats *rox_counter_alloc_stats(struct rdma_counter *counter)
{
	return rox_stats_alloc(to_rox_dev(counter->device));
}

/* The core holds the counter's lock. */
static int rox_counter_update_stats(struct rdma_counter *counter)
{
	struct rox_counter_set *set = rox_set_of(counter);

	if (!set)
		return -EINVAL;
	rox_stats_select(set->dev, counter->stats);
	rox_counters_sum(set->values, set->reported);
	memcpy(counter->stats->value, set->reported, sizeof(set->reported));
	return 0;
}

/* No QP is bound any more, and the core has taken over what was counted. */
static int rox_counter_dealloc(struct rdma_counter *counter)
{
	struct rox_dev *dev = to_rox_dev(counter->device);
	struct rox_counter_set *set = xa_erase(&dev->counter_sets, counter->id);

	if (set)
		call_rcu(&set->rcu, rox_set_free);
	return 0;
}

/* ---- life ---- */

/**
 * rox_observe_init() - the counters of a new device
 * @dev: the device
 *
 * Return: 0 or -ENOMEM.
 */
int rox_observe_init(struct rox_dev *dev)
{
	xa_init_flags(&dev->counter_sets, XA_FLAGS_ALLOC1);
	dev->counters = alloc_percpu(struct rox_counters);
	return dev->counters ? 0 : -ENOMEM;
}

/**
 * rox_observe_exit() - the end of a device's counters
 * @dev: the device; nobody counts any more
 *
 * Process context, may sleep.
 */
void rox_observe_exit(struct rox_dev *dev)
{
	while (dev->optional) {
		__clear_bit(__ffs(dev->optional), &dev->optional);
		static_branch_dec(&rox_optional_key);
	}
	/* rox_set_free() counts for the device. */
	if (dev->had_sets)
		rcu_barrier();
	xa_destroy(&dev->counter_sets);
	free_percpu(dev->counters);
}

const struct ib_device_ops rox_observe_ops = {
	.alloc_hw_port_stats = rox_alloc_hw_port_stats,
	.get_hw_stats = rox_get_hw_stats,
	.modify_hw_stat = rox_modify_hw_stat,

	ROX_OPS_COUNTER_BIND_QP
	.counter_alloc_stats = rox_counter_alloc_stats,
	.counter_update_stats = rox_counter_update_stats,
	.counter_dealloc = rox_counter_dealloc,
	ROX_OPS_COUNTER_SIZE

	.fill_res_qp_entry = rox_fill_res_qp,
	.fill_res_cq_entry = rox_fill_res_cq,
	.fill_res_mr_entry = rox_fill_res_mr,
	ROX_OPS_FILL_RES_SRQ
};
