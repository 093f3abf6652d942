// SPDX-License-Identifier: GPL-2.0
/*
 * Counters of `rdma statistic`, for the port and for QPs that are bound to a counter. They
 * have the names of mlx5 where mlx5 counts the same, so that its tools work.
 *
 * A QP has a pointer to the set in which it counts: the device's set, or the set of its counter.
 * For the port the core shows the sum of all sets. When a counter ends, the core adds its values
 * to the port's history. See drivers/infiniband/core/counters.c.
 */
#include <linux/slab.h>

#include "observe.h"

#define OPTIONAL(_name) { .name = (_name), .flags = IB_STAT_FLAG_OPTIONAL }

static const struct rdma_stat_desc rox_stat_descs[ROX_CNT_MAX] = {
	[ROX_CNT_TX_PKTS].name = "tx_packets",
	[ROX_CNT_TX_BYTES].name = "tx_bytes",
	[ROX_CNT_RX_PKTS].name = "rx_packets",
	[ROX_CNT_RX_BYTES].name = "rx_bytes",
	[ROX_CNT_TX_OCTETS].name = "tx_octets",
	[ROX_CNT_RX_OCTETS].name = "rx_octets",
	[ROX_CNT_TX_MULTICAST].name = "tx_multicast",
	[ROX_CNT_RX_MULTICAST].name = "rx_multicast",
	[ROX_CNT_RX_COPIES].name = "rx_multicast_copies",
	[ROX_CNT_LINK_DOWNED].name = "link_downed",
	[ROX_CNT_ALIAS_TX_PKTS].name = "tx_pkts",
	[ROX_CNT_ALIAS_RX_PKTS].name = "rx_pkts",
	[ROX_CNT_ALIAS_RX_DROPS].name = "rx_drops",
	[ROX_CNT_TX_BURSTS].name = "tx_bursts",
	[ROX_CNT_RX_BURSTS].name = "rx_bursts",
	[ROX_CNT_TX_DROP].name = "tx_dropped",
	[ROX_CNT_TX_REFUSED].name = "tx_refused",
	[ROX_CNT_TX_ICRC_LEFT].name = "tx_icrc_left_out",
	[ROX_CNT_TX_SINGLY].name = "tx_segmentation_given_up",
	[ROX_CNT_RX_MALFORMED].name = "rx_malformed",
	[ROX_CNT_RX_ICRC].name = "rx_icrc_encapsulated",
	[ROX_CNT_RX_ICRC_KNOWN].name = "rx_icrc_known",
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
	[ROX_CNT_NP_ECN_MARKED].name = "np_ecn_marked_roce_packets",
	[ROX_CNT_NP_CNP_SENT].name = "np_cnp_sent",
	[ROX_CNT_RP_CNP_HANDLED].name = "rp_cnp_handled",
	[ROX_CNT_RP_CNP_IGNORED].name = "rp_cnp_ignored",
	[ROX_CNT_RX_CE] = OPTIONAL("cc_rx_ce_pkts"),
	[ROX_CNT_STALL_WINDOW] = OPTIONAL("tx_stall_window"),
	[ROX_CNT_STALL_CREDITS] = OPTIONAL("tx_stall_credits"),
	[ROX_CNT_STALL_READS] = OPTIONAL("tx_stall_reads"),
	[ROX_CNT_STALL_PACE] = OPTIONAL("tx_stall_pace"),
	[ROX_CNT_DEFERRED] = OPTIONAL("work_deferred"),
};

/* Number of optional counters that are switched on, on all devices. */
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
	sum[ROX_CNT_ALIAS_TX_PKTS] = sum[ROX_CNT_TX_PKTS];
	sum[ROX_CNT_ALIAS_RX_PKTS] = sum[ROX_CNT_RX_PKTS];
	sum[ROX_CNT_ALIAS_RX_DROPS] = sum[ROX_CNT_RX_DROP] + sum[ROX_CNT_RX_NO_QP] +
				      sum[ROX_CNT_RX_PKEY] + sum[ROX_CNT_RX_QKEY] +
				      sum[ROX_CNT_RX_MALFORMED] + sum[ROX_CNT_RX_ICRC];
}

/* Hides optional counters that are off. */
static void rox_stats_select(const struct rox_stats *stats, struct rdma_hw_stats *to)
{
	unsigned int i;

	for (i = ROX_CNT_OPTIONAL; i < ROX_CNT_MAX; i++)
		assign_bit(i, to->is_disabled, !test_bit(i - ROX_CNT_OPTIONAL, &stats->optional));
}

struct rdma_hw_stats *rox_stats_alloc(const struct rox_stats *stats)
{
	struct rdma_hw_stats *to;

	to = rdma_alloc_hw_stats_struct(rox_stat_descs, ROX_CNT_MAX,
					RDMA_HW_STATS_DEFAULT_LIFESPAN);
	if (to)
		rox_stats_select(stats, to);
	return to;
}

/* ---- the port ---- */

int rox_stats_read(const struct rox_stats *stats, struct rdma_hw_stats *to)
{
	rox_counters_sum(stats->counters, to->value);
	return ROX_CNT_MAX;
}

/**
 * rox_stats_switch() - switches an optional counter on or off
 * @stats: the device's counters
 * @index: the counter; the core has checked that it is optional, and serialises calls
 * @enable: true: on, false: off
 *
 * Process context; may sleep. Return: 0, or -EINVAL for a counter that is not optional
 */
int rox_stats_switch(struct rox_stats *stats, unsigned int index, bool enable)
{
	if (index < ROX_CNT_OPTIONAL || index >= ROX_CNT_MAX)
		return -EINVAL;
	index -= ROX_CNT_OPTIONAL;
	if (enable && !test_and_set_bit(index, &stats->optional))
		static_branch_inc(&rox_optional_key);
	else if (!enable && test_and_clear_bit(index, &stats->optional))
		static_branch_dec(&rox_optional_key);
	return 0;
}

/* ---- counters of QPs ---- */

/**
 * struct rox_counter_set - values of one counter of `rdma statistic qp`
 * @values: counted by all QPs that are or were bound to the counter
 * @id: ID of the counter
 * @reported: values that the core has read last
 * @stats: the device's counters, which get the values counted after that
 * @rcu: for freeing after the data path, which reads a QP's pointer to @values
 */
struct rox_counter_set {
	struct rox_counters __percpu *values;
	u32 id;
	u64 reported[ROX_CNT_MAX];
	struct rox_stats *stats;
	struct rcu_head rcu;
};

static struct rox_counter_set *rox_set_of(struct rox_stats *stats,
					  const struct rdma_counter *counter)
{
	return xa_load(&stats->sets, counter->id);
}

/* Creates a set for @counter, and assigns its ID. */
static int rox_set_create(struct rox_stats *stats, struct rdma_counter *counter)
{
	struct rox_counter_set *set;
	int err = -ENOMEM;

	set = kzalloc(sizeof(*set), GFP_KERNEL);
	if (!set)
		return -ENOMEM;
	set->stats = stats;
	set->values = alloc_percpu(struct rox_counters);
	if (set->values)
		err = xa_alloc_bh(&stats->sets, &counter->id, set, xa_limit_31b, GFP_KERNEL);
	if (err) {
		free_percpu(set->values);
		kfree(set);
		return err;
	}
	set->id = counter->id;
	stats->had_sets = true;
	return 0;
}

/*
 * A doorbell or a frame may have counted in the set after the core read it for the last
 * time. Add that rest to the device's set. The core adds what it has read to the sum in
 * `rdma statistic`, but not to ports/1/counters: for those add it to @ended.
 */
static void rox_set_free(struct rcu_head *rcu)
{
	struct rox_counter_set *set = container_of(rcu, struct rox_counter_set, rcu);
	struct rox_stats *stats = set->stats;
	u64 sum[ROX_CNT_MAX];
	unsigned int i;

	rox_counters_sum(set->values, sum);
	xa_lock_bh(&stats->sets);
	__xa_erase(&stats->sets, set->id);
	for (i = 0; i < ROX_CNT_MAX; i++) {
		stats->port->ended[i] += set->reported[i];
		rox_count_add(stats, i, sum[i] - set->reported[i]);
	}
	xa_unlock_bh(&stats->sets);
	free_percpu(set->values);
	kfree(set);
}

/**
 * rox_set_bind() - finds or creates the set of a counter
 * @stats: the device's counters
 * @counter: the counter; the core holds its lock. A new one has no ID yet
 *
 * Process context. Return: the values of the set, or NULL if there is no memory
 */
struct rox_counters __percpu *rox_set_bind(struct rox_stats *stats, struct rdma_counter *counter)
{
	if (!counter->id && rox_set_create(stats, counter))
		return NULL;
	return rox_set_of(stats, counter)->values;
}

/**
 * rox_set_read() - reports a counter's values to the core
 * @stats: the device's counters
 * @counter: the counter; the core holds its lock
 *
 * Process context. Return: 0, or -EINVAL if it has no set
 */
int rox_set_read(struct rox_stats *stats, struct rdma_counter *counter)
{
	struct rox_counter_set *set = rox_set_of(stats, counter);

	if (!set)
		return -EINVAL;
	rox_stats_select(stats, counter->stats);
	rox_counters_sum(set->values, set->reported);
	memcpy(counter->stats->value, set->reported, sizeof(set->reported));
	return 0;
}

void rox_set_end(struct rox_stats *stats, const struct rdma_counter *counter)
{
	struct rox_counter_set *set = rox_set_of(stats, counter);

	if (set)
		call_rcu(&set->rcu, rox_set_free);
}

/**
 * rox_port_sum() - sums up all that a port has counted
 * @stats: the device's counters
 * @sum: filled with ROX_CNT_MAX values
 *
 * The sum includes the sets of counters of QPs, of those that have ended too. Process context.
 */
void rox_port_sum(struct rox_stats *stats, u64 *sum)
{
	struct rox_counter_set *set;
	u64 part[ROX_CNT_MAX];
	unsigned long id;
	unsigned int i;

	rox_counters_sum(stats->counters, sum);
	xa_lock_bh(&stats->sets);
	for (i = 0; i < ROX_CNT_MAX; i++)
		sum[i] += stats->port->ended[i];
	xa_for_each(&stats->sets, id, set) {
		rox_counters_sum(set->values, part);
		for (i = 0; i < ROX_CNT_MAX; i++)
			sum[i] += part[i];
	}
	xa_unlock_bh(&stats->sets);
}

/* ---- life ---- */

/**
 * rox_stats_init() - prepares the counters of a device
 * @stats: the device's counters
 *
 * Process context. Return: 0 or -ENOMEM.
 */
int rox_stats_init(struct rox_stats *stats)
{
	xa_init_flags(&stats->sets, XA_FLAGS_ALLOC1 | XA_FLAGS_LOCK_BH);
	stats->port = kzalloc(sizeof(*stats->port), GFP_KERNEL);
	if (!stats->port)
		return -ENOMEM;
	mutex_init(&stats->port->lock);
	stats->counters = alloc_percpu(struct rox_counters);
	if (stats->counters)
		return 0;
	kfree(stats->port);
	return -ENOMEM;
}

/**
 * rox_stats_exit() - frees the counters of a device
 * @stats: counters without users
 *
 * Process context; may sleep.
 */
void rox_stats_exit(struct rox_stats *stats)
{
	while (stats->optional) {
		__clear_bit(__ffs(stats->optional), &stats->optional);
		static_branch_dec(&rox_optional_key);
	}
	/* Wait for rox_set_free(), which uses @stats. */
	if (stats->had_sets)
		rcu_barrier();
	xa_destroy(&stats->sets);
	free_percpu(stats->counters);
	mutex_destroy(&stats->port->lock);
	kfree(stats->port);
}
