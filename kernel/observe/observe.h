/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Counters, resource tracking, tracepoints.
 */
#ifndef ROX_OBSERVE_H
#define ROX_OBSERVE_H

#include <linux/jump_label.h>
#include "../verbs/verbs.h"

/*
 * Per-CPU event counters, in the order of `rdma statistic show`; names in
 * observe/counters.c. RX/TX bytes are payload bytes. What a QP does is counted in
 * the device's set or, if it is bound to one, in a set of `rdma statistic qp`: never
 * in both, as the core adds them up.
 */
enum rox_counter {
	ROX_CNT_TX_PKTS,		/* port_xmit_packets */
	ROX_CNT_TX_BYTES,		/* port_xmit_data (bytes) */
	ROX_CNT_RX_PKTS,
	ROX_CNT_RX_BYTES,
	ROX_CNT_TX_BURSTS,
	ROX_CNT_RX_BURSTS,
	ROX_CNT_TX_DROP,		/* packets lost on this host before the wire */
	ROX_CNT_RX_MALFORMED,		/* length, opcode, version or pad */
	ROX_CNT_RX_ICRC,		/* rx_icrc_encapsulated */
	ROX_CNT_RX_NO_QP,		/* unknown QP, wrong state or service, wrong peer */
	ROX_CNT_RX_PKEY,
	ROX_CNT_RX_QKEY,
	ROX_CNT_RX_DROP,		/* queue of a QP full */
	ROX_CNT_RX_WRITE_REQ,		/* rx_write_requests */
	ROX_CNT_RX_READ_REQ,		/* rx_read_requests */
	ROX_CNT_RX_ATOMIC_REQ,		/* rx_atomic_requests */
	ROX_CNT_OUT_OF_BUFFER,		/* out_of_buffer: RNR for lack of a receive WQE */
	ROX_CNT_OUT_OF_SEQUENCE,	/* out_of_sequence */
	ROX_CNT_RX_EARLY,		/* requests kept until their turn, of those */
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
	ROX_CNT_RX_CNP,			/* rp_cnp_handled */
	/* Counted while switched on, see rox_optional(). The core wants them last. */
	ROX_CNT_OPTIONAL,
	ROX_CNT_RX_CE = ROX_CNT_OPTIONAL, /* packets with ECN "congestion experienced" */
	ROX_CNT_STALL_WINDOW,		/* sending stopped: enough is unacknowledged */
	ROX_CNT_STALL_CREDITS,		/* ... the peer has no receives */
	ROX_CNT_STALL_READS,		/* ... max_rd_atomic, or a fence */
	ROX_CNT_DEFERRED,		/* work left to the workqueue */
	ROX_CNT_MAX
};

struct rox_counters {
	u64 c[ROX_CNT_MAX];
};

static inline void rox_count_add(struct rox_dev *dev, enum rox_counter c, u64 n)
{
	this_cpu_add(dev->counters->c[c], n);
}

static inline void rox_count(struct rox_dev *dev, enum rox_counter c)
{
	rox_count_add(dev, c, 1);
}

/*
 * For what @qp does. Bottom halves are disabled, or the caller is in an RCU
 * read-side section: unbinding lets go of a set after a grace period.
 */
static inline void rox_qp_count_add(const struct rox_qp *qp, enum rox_counter c, u64 n)
{
	this_cpu_add(READ_ONCE(qp->counters)->c[c], n);
}

static inline void rox_qp_count(const struct rox_qp *qp, enum rox_counter c)
{
	rox_qp_count_add(qp, c, 1);
}

DECLARE_STATIC_KEY_FALSE(rox_optional_key);

/* Is the optional counter @c switched on? Costs nothing while none is, on any device. */
static inline bool rox_optional(const struct rox_dev *dev, enum rox_counter c)
{
	return static_branch_unlikely(&rox_optional_key) &&
	       test_bit(c - ROX_CNT_OPTIONAL, &dev->optional);
}

/* ib_device_ops with the newest signatures */
int rox_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port);
int rox_counter_unbind_qp(struct ib_qp *ibqp, u32 port);

/* For link.c: 0 or -ENOMEM; and after the device's last user, process context. */
int rox_observe_init(struct rox_dev *dev);
void rox_observe_exit(struct rox_dev *dev);

extern const struct ib_device_ops rox_observe_ops;	/* statistics, restrack fills */

#endif /* ROX_OBSERVE_H */
