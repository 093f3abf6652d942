/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters, and the port's performance management agent. Tracepoints are in trace.h.
 */
#ifndef ROX_OBSERVE_H
#define ROX_OBSERVE_H

#include <linux/bitops.h>
#include <linux/jump_label.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/xarray.h>
#include <rdma/ib_mad.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_counter.h>

/*
 * Per-CPU event counters, in the order of `rdma statistic show`. Their names are in
 * observe/counters.c. RX/TX bytes are payload bytes. A QP counts in the device's set. If it is
 * bound to a counter of `rdma statistic qp`, it counts in that counter's set only, as the core
 * adds both up.
 */
enum rox_counter {
	ROX_CNT_TX_PKTS,		/* port_xmit_packets */
	ROX_CNT_TX_BYTES,
	ROX_CNT_RX_PKTS,
	ROX_CNT_RX_BYTES,
	ROX_CNT_TX_OCTETS,		/* port_xmit_data: bytes of packets from BTH to ICRC */
	ROX_CNT_RX_OCTETS,		/* port_rcv_data */
	ROX_CNT_TX_MULTICAST,		/* multicast_xmit_packets */
	ROX_CNT_RX_MULTICAST,		/* multicast_rcv_packets */
	ROX_CNT_RX_COPIES,		/* multicast: copies for each QP after the first */
	ROX_CNT_LINK_DOWNED,		/* link_downed */
	/* Sums of other counters under the names of bnxt_re, see rox_counters_sum(). */
	ROX_CNT_ALIAS_TX_PKTS,
	ROX_CNT_ALIAS_RX_PKTS,
	ROX_CNT_ALIAS_RX_DROPS,
	ROX_CNT_TX_BURSTS,
	ROX_CNT_RX_BURSTS,
	ROX_CNT_TX_DROP,		/* packets lost on this host before the wire */
	ROX_CNT_TX_REFUSED,		/* packets refused by a queue here, and sent again */
	ROX_CNT_TX_ICRC_LEFT,		/* no ICRC: the peer reads our pages */
	ROX_CNT_TX_SINGLY,		/* paths that gave up frames of several packets */
	ROX_CNT_RX_MALFORMED,		/* length, opcode, version or pad */
	ROX_CNT_RX_ICRC,		/* rx_icrc_encapsulated */
	ROX_CNT_RX_ICRC_KNOWN,		/* on no wire: no check */
	ROX_CNT_RX_NO_QP,		/* unknown QP, wrong state or service, wrong peer */
	ROX_CNT_RX_PKEY,
	ROX_CNT_RX_QKEY,
	ROX_CNT_RX_DROP,		/* queue of a QP full */
	ROX_CNT_RX_WRITE_REQ,		/* rx_write_requests */
	ROX_CNT_RX_READ_REQ,		/* rx_read_requests */
	ROX_CNT_RX_ATOMIC_REQ,		/* rx_atomic_requests */
	ROX_CNT_OUT_OF_BUFFER,		/* out_of_buffer: RNR for lack of a receive WQE */
	ROX_CNT_OUT_OF_SEQUENCE,	/* out_of_sequence */
	ROX_CNT_RX_EARLY,		/* packets that came early, stored until their turn */
	ROX_CNT_DUPLICATE_REQ,		/* duplicate_request */
	ROX_CNT_RNR_NAK_SENT,
	ROX_CNT_RNR_NAK_RETRY_ERR,	/* rnr_nak_retry_err: RNR NAKs received */
	ROX_CNT_PACKET_SEQ_ERR,		/* packet_seq_err: sequence NAKs received */
	ROX_CNT_IMPLIED_NAK_SEQ_ERR,	/* implied_nak_seq_err */
	ROX_CNT_LOCAL_ACK_TIMEOUT,	/* local_ack_timeout_err */
	ROX_CNT_RETRANS_PKTS,
	ROX_CNT_RETRY_EXCEEDED,		/* req_transport_retries_exceeded */
	ROX_CNT_RNR_EXCEEDED,		/* req_rnr_retries_exceeded */
	ROX_CNT_REQ_CQE_ERROR,		/* req_cqe_error */
	ROX_CNT_REQ_CQE_FLUSH,		/* req_cqe_flush_error */
	ROX_CNT_REQ_REM_ACCESS,		/* req_remote_access_errors */
	ROX_CNT_REQ_REM_INV_REQ,	/* req_remote_invalid_request */
	ROX_CNT_RESP_CQE_ERROR,		/* resp_cqe_error */
	ROX_CNT_RESP_CQE_FLUSH,		/* resp_cqe_flush_error */
	ROX_CNT_RESP_REM_ACCESS,	/* resp_remote_access_errors */
	ROX_CNT_RESP_LOC_LEN,		/* resp_local_length_error */
	ROX_CNT_CQ_OVERFLOW,
	ROX_CNT_DOORBELLS,
	ROX_CNT_TX_ACKS,
	ROX_CNT_RX_ACKS,
	ROX_CNT_NP_ECN_MARKED,		/* np_ecn_marked_roce_packets: came with CE */
	ROX_CNT_NP_CNP_SENT,		/* np_cnp_sent */
	ROX_CNT_RP_CNP_HANDLED,		/* rp_cnp_handled: the algorithm was told */
	ROX_CNT_RP_CNP_IGNORED,		/* rp_cnp_ignored: the QP's algorithm takes none */
	/* Counted while switched on, see rox_optional(). The core requires them to be last. */
	ROX_CNT_OPTIONAL,
	ROX_CNT_RX_CE = ROX_CNT_OPTIONAL, /* packets with ECN "congestion experienced" */
	ROX_CNT_STALL_WINDOW,		/* sending stopped: the window is full */
	ROX_CNT_STALL_CREDITS,		/* sending stopped: the peer has no receive WQEs */
	ROX_CNT_STALL_READS,		/* sending stopped: max_rd_atomic, or a fence */
	ROX_CNT_STALL_PACE,		/* sending stopped: the rate allows no more now */
	ROX_CNT_DEFERRED,		/* work passed to the workqueue */
	ROX_CNT_MAX
};

/* What a congestion control algorithm is told, for the tracepoint rox_congestion. */
enum rox_cc_event {
	ROX_CC_ACKED,
	ROX_CC_CNP,
	ROX_CC_LOSS,
	ROX_CC_TIMEOUT,
};

struct rox_counters {
	u64 c[ROX_CNT_MAX];
};

/* Counters of the port's performance management agent. */
enum rox_pma_counter {
	ROX_PMA_LINK_DOWNED,
	ROX_PMA_RCV_ERRORS,
	ROX_PMA_RCV_CONSTRAINT,
	ROX_PMA_XMIT_DISCARDS,
	ROX_PMA_XMIT_DATA,
	ROX_PMA_RCV_DATA,
	ROX_PMA_XMIT_PKTS,
	ROX_PMA_RCV_PKTS,
	ROX_PMA_XMIT_UNICAST,
	ROX_PMA_RCV_UNICAST,
	ROX_PMA_XMIT_MULTICAST,
	ROX_PMA_RCV_MULTICAST,
	ROX_PMA_MAX
};

/**
 * struct rox_port_stats - data of the port's counters besides the device's set
 * @ended: sums that ended counters of QPs had reported (lock of the device's sets)
 * @lock: protects @base and @base_ext
 * @base: values at the last reset of PortCounters
 * @base_ext: values at the last reset of PortCountersExtended
 */
struct rox_port_stats {
	u64 ended[ROX_CNT_MAX];
	struct mutex lock;	/* @base, @base_ext */
	u64 base[ROX_PMA_MAX];
	u64 base_ext[ROX_PMA_MAX];
};

/**
 * struct rox_stats - counters of a device
 * @counters: per-CPU event counters
 * @sets: struct rox_counter_set by counter ID, for QPs that are bound to a counter
 * @had_sets: @sets has had an entry
 * @port: more data for the port's counters
 * @optional: bits of the optional counters that are switched on
 */
struct rox_stats {
	struct rox_counters __percpu *counters;
	struct xarray sets;
	bool had_sets;
	struct rox_port_stats *port;
	unsigned long optional;
};

static inline void rox_count_add(struct rox_stats *stats, enum rox_counter c, u64 n)
{
	this_cpu_add(stats->counters->c[c], n);
}

static inline void rox_count(struct rox_stats *stats, enum rox_counter c)
{
	rox_count_add(stats, c, 1);
}

DECLARE_STATIC_KEY_FALSE(rox_optional_key);

/* Is the optional counter @c switched on? Costs nothing while no device has one switched on. */
static inline bool rox_optional(const struct rox_stats *stats, enum rox_counter c)
{
	return static_branch_unlikely(&rox_optional_key) &&
	       test_bit(c - ROX_CNT_OPTIONAL, &stats->optional);
}

/* Prepares the counters of a device. Return: 0 or -ENOMEM. Process context. */
int rox_stats_init(struct rox_stats *stats);
/* Frees them after the device's last user. Process context; may sleep. */
void rox_stats_exit(struct rox_stats *stats);

/* Allocates the RDMA core's array of values. Return: the array, or NULL. Process context. */
struct rdma_hw_stats *rox_stats_alloc(const struct rox_stats *stats);
/* Fills @to with the device's set. Return: the number of counters. */
int rox_stats_read(const struct rox_stats *stats, struct rdma_hw_stats *to);
/* Switches an optional counter on or off. Return: 0 or -EINVAL. Process context. */
int rox_stats_switch(struct rox_stats *stats, unsigned int index, bool enable);
/* Sums up all that the port has counted, with the counters of QPs. Process context. */
void rox_port_sum(struct rox_stats *stats, u64 *sum);

/*
 * Finds or creates the set of a counter of `rdma statistic qp`. The core holds the counter's
 * lock. A new counter has no ID yet. Return: the set, or NULL if there is no memory.
 */
struct rox_counters __percpu *rox_set_bind(struct rox_stats *stats, struct rdma_counter *counter);
/* Reports a counter's values to the core. Return: 0 or -EINVAL. Process context. */
int rox_set_read(struct rox_stats *stats, struct rdma_counter *counter);
/* Ends a set. No QP is bound to it, and the core has taken over its values. */
void rox_set_end(struct rox_stats *stats, const struct rdma_counter *counter);

/* The port's performance management agent (mad.c): answers a MAD. Process context. */
int rox_pma_process(struct rox_stats *stats, struct ib_device *ibdev, const struct ib_wc *wc,
		    const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out);

#endif /* ROX_OBSERVE_H */
