// SPDX-License-Identifier: GPL-2.0
/*
 * The verbs of `rdma statistic`, of MADs and of `rdma resource`. Functions of observe/ do the
 * counting and answer MADs. Functions of restrack.c do `rdma resource`.
 */
#include "internal.h"
#include "../compat/ops.h"

static struct rdma_hw_stats *rox_alloc_hw_port_stats(struct ib_device *ibdev, u32 port)
{
	return rox_stats_alloc(&to_rox_dev(ibdev)->stats);
}

/* The core passes port 0 for counters of the device. rox has counters of the port only. */
static int rox_get_hw_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
			    int index)
{
	return port ? rox_stats_read(&to_rox_dev(ibdev)->stats, stats) : -EINVAL;
}

static int rox_modify_hw_stat(struct ib_device *ibdev, u32 port, unsigned int index, bool enable)
{
	return rox_stats_switch(&to_rox_dev(ibdev)->stats, index, enable);
}

static int rox_process_mad(struct ib_device *ibdev, int flags, u32 port, const struct ib_wc *wc,
			   const struct ib_grh *grh, const struct ib_mad *in, struct ib_mad *out,
			   size_t *out_size, u16 *out_pkey_index)
{
	return rox_pma_process(&to_rox_dev(ibdev)->stats, ibdev, wc, grh, in, out);
}

/**
 * rox_counter_bind_qp() - binds a QP to a counter
 * @counter: the counter; the core holds its lock
 * @ibqp: the QP, in any state, not bound to a counter
 * @port: ignored, as there is one port
 *
 * Process context. Return: 0 or -ENOMEM.
 */
int rox_counter_bind_qp(struct rdma_counter *counter, struct ib_qp *ibqp, u32 port)
{
	struct rox_counters __percpu *set;

	set = rox_set_bind(&to_rox_dev(counter->device)->stats, counter);
	if (!set)
		return -ENOMEM;
	WRITE_ONCE(to_rox_qp(ibqp)->ep.counters, set);
	ibqp->counter = counter;
	return 0;
}

/**
 * rox_counter_unbind_qp() - makes a QP count in the device's set
 * @ibqp: the QP; the core holds the lock of its counter
 * @port: ignored, as there is one port
 *
 * Process context. Return: 0.
 */
int rox_counter_unbind_qp(struct ib_qp *ibqp, u32 port)
{
	struct rox_qp *qp = to_rox_qp(ibqp);

	WRITE_ONCE(qp->ep.counters, qp->dev->stats.counters);
	ibqp->counter = NULL;
	return 0;
}

static struct rdma_hw_stats *rox_counter_alloc_stats(struct rdma_counter *counter)
{
	return rox_stats_alloc(&to_rox_dev(counter->device)->stats);
}

static int rox_counter_update_stats(struct rdma_counter *counter)
{
	return rox_set_read(&to_rox_dev(counter->device)->stats, counter);
}

static int rox_counter_dealloc(struct rdma_counter *counter)
{
	rox_set_end(&to_rox_dev(counter->device)->stats, counter);
	return 0;
}

ROX_OP_COUNTER_BIND_QP(rox_counter_bind_qp, rox_counter_unbind_qp)

const struct ib_device_ops rox_statistic_ops = {
	.alloc_hw_port_stats = rox_alloc_hw_port_stats,
	.get_hw_stats = rox_get_hw_stats,
	.modify_hw_stat = rox_modify_hw_stat,
	.process_mad = rox_process_mad,

	ROX_OPS_COUNTER_BIND_QP(rox_counter_bind_qp, rox_counter_unbind_qp)
	.counter_alloc_stats = rox_counter_alloc_stats,
	.counter_update_stats = rox_counter_update_stats,
	.counter_dealloc = rox_counter_dealloc,
	ROX_OPS_COUNTER_INIT
	ROX_OPS_COUNTER_SIZE

	.fill_res_qp_entry = rox_fill_res_qp,
	.fill_res_cq_entry = rox_fill_res_cq,
	.fill_res_mr_entry = rox_fill_res_mr,
	ROX_OPS_FILL_RES_SRQ(rox_fill_res_srq)
};
