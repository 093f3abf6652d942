// SPDX-License-Identifier: GPL-2.0
/*
 * Modifying a QP, in three steps: check all attributes; prepare what may sleep or
 * fail; stop both sides of the QP and set everything.
 */
#include "internal.h"

/*
 * Access flags that a QP uses. Programs often pass the flags of reg_mr to modify_qp. So modify
 * ignores other flags, and query does not return them.
 */
#define ROX_QP_ACCESS (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_READ | \
		       IB_ACCESS_REMOTE_ATOMIC)

enum rox_attr_limits {
	ROX_MAX_TIMEOUT		= 31,
	ROX_MAX_RETRY		= 7,
	ROX_MAX_RNR_TIMER	= 31,
};

/**
 * struct rox_modify - one call of modify_qp
 * @qp: the QP
 * @attr: attributes to set
 * @mask: the valid attributes in @attr
 * @next: state after the call
 * @mtu: path MTU to set: that of @attr, or what the peer has answered by the CM
 * @path: path to attr->ah_attr; after the call the one to destroy
 * @answers: array of attr->max_dest_rd_atomic entries; after the call the one to free
 */
struct rox_modify {
	struct rox_qp *qp;
	const struct ib_qp_attr *attr;
	int mask;
	enum ib_qp_state next;
	enum ib_mtu mtu;
	struct rox_path path;
	struct rox_rd_res *answers;
};

/* Sets the state after the transition from @cur. Return: is it allowed? */
static bool rox_modify_state_ok(struct rox_modify *m, enum ib_qp_state cur)
{
	m->next = m->mask & IB_QP_STATE ? m->attr->qp_state : cur;
	return (!(m->mask & IB_QP_CUR_STATE) || m->attr->cur_qp_state == cur) &&
	       ib_modify_qp_is_ok(cur, m->next, m->qp->ibqp.qp_type, m->mask);
}

static int rox_modify_check_state(struct rox_modify *m)
{
	if (m->mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	return rox_modify_state_ok(m, rox_qp_state(m->qp)) ? 0 : -EINVAL;
}

static int rox_modify_check_port(struct rox_modify *m)
{
	const struct ib_qp_attr *attr = m->attr;
	struct rox_dev *dev = m->qp->dev;

	if (m->mask & IB_QP_PORT && !rdma_is_port_valid(&dev->ibdev, attr->port_num))
		return -EINVAL;
	if (m->mask & IB_QP_PKEY_INDEX &&
	    (attr->pkey_index >= dev->num_pkeys ||
	     !rox_pkey_valid(rox_pkey_at(dev, attr->pkey_index))))
		return -EINVAL;
	return 0;
}

static int rox_modify_check_mtu(struct rox_modify *m)
{
	if (!(m->mask & IB_QP_PATH_MTU))
		return 0;
	if (m->attr->path_mtu < IB_MTU_256 || m->attr->path_mtu > IB_MTU_4096)
		return -EINVAL;
	m->mtu = m->attr->path_mtu;
	if (m->mask & IB_QP_AV && m->mask & IB_QP_DEST_QPN)
		m->mtu = rox_cm_mtu(m->qp, &rdma_ah_read_grh(&m->attr->ah_attr)->dgid,
				    m->attr->dest_qp_num, m->mtu);
	return m->mtu > READ_ONCE(m->qp->dev->mtu) ? -EINVAL : 0;
}

static int rox_modify_check_path(struct rox_modify *m)
{
	const struct ib_qp_attr *attr = m->attr;

	/* RoCE has no automatic path migration. The RDMA core refuses it before. */
	if (m->mask & IB_QP_ALT_PATH)
		return -EOPNOTSUPP;
	if (m->mask & IB_QP_PATH_MIG_STATE && attr->path_mig_state != IB_MIG_MIGRATED)
		return -EINVAL;
	if (rox_modify_check_mtu(m))
		return -EINVAL;
	if (m->mask & IB_QP_DEST_QPN && attr->dest_qp_num & ~ROX_QPN_MASK)
		return -EINVAL;
	if (!(m->mask & IB_QP_AV))
		return 0;
	if (!(rdma_ah_get_ah_flags(&attr->ah_attr) & IB_AH_GRH) ||
	    !rdma_is_port_valid(m->qp->ibqp.device, rdma_ah_get_port_num(&attr->ah_attr)) ||
	    rdma_ah_get_sl(&attr->ah_attr) > ROX_MAX_SL || !rox_dgid_ok(&attr->ah_attr, false))
		return -EINVAL;
	return 0;
}

static int rox_modify_check_transport(const struct rox_modify *m)
{
	const struct ib_qp_attr *attr = m->attr;

	if (m->mask & IB_QP_TIMEOUT && attr->timeout > ROX_MAX_TIMEOUT)
		return -EINVAL;
	if (m->mask & IB_QP_RETRY_CNT && attr->retry_cnt > ROX_MAX_RETRY)
		return -EINVAL;
	if (m->mask & IB_QP_RNR_RETRY && attr->rnr_retry > ROX_MAX_RETRY)
		return -EINVAL;
	if (m->mask & IB_QP_MIN_RNR_TIMER && attr->min_rnr_timer > ROX_MAX_RNR_TIMER)
		return -EINVAL;
	if (m->mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > ROX_MAX_RD_ATOM)
		return -EINVAL;
	if (m->mask & IB_QP_MAX_DEST_RD_ATOMIC && attr->max_dest_rd_atomic > ROX_MAX_RD_ATOM)
		return -EINVAL;
	return 0;
}

static int rox_modify_check(struct rox_modify *m)
{
	return rox_modify_check_state(m) ?:
	       rox_modify_check_port(m) ?:
	       rox_modify_check_path(m) ?:
	       rox_modify_check_transport(m);
}

/* Does what may sleep or fail: resolves the path and allocates memory. */
static int rox_modify_prepare(struct rox_modify *m)
{
	struct rox_qp *qp = m->qp;
	int err;

	if (m->next == IB_QPS_RTR) {
		err = rox_ep_open(&qp->ep, &qp->dev->net, qp->service != ROX_SERVICE_UD);
		if (err)
			return err;
	}
	if (m->mask & IB_QP_AV) {
		u32 dqpn = m->mask & IB_QP_DEST_QPN ? m->attr->dest_qp_num :
						      qp->attr.dest_qp_num;

		err = rox_path_init(&m->path, &qp->dev->net, &m->attr->ah_attr, qp->ibqp.qp_num,
				    dqpn, GFP_KERNEL);
		if (err)
			return err;
	}
	if (!(m->mask & IB_QP_MAX_DEST_RD_ATOMIC))
		return 0;
	m->answers = rox_transport_alloc_answers(m->attr->max_dest_rd_atomic);
	if (m->answers)
		return 0;
	rox_path_destroy(&m->path);
	return -ENOMEM;
}

static void rox_store_path(struct rox_modify *m)
{
	const struct ib_qp_attr *attr = m->attr;
	struct rox_qp *qp = m->qp;

	if (m->mask & IB_QP_AV) {
		/* As the algorithm of the connection has it. */
		m->path.ecn = qp->path.ecn;
		rox_path_swap(&qp->path, &m->path);
		qp->attr.ah_attr = attr->ah_attr;
		/* Our copy has no reference on the GID entry. */
		qp->attr.ah_attr.grh.sgid_attr = NULL;
	}
	if (m->mask & IB_QP_PATH_MTU) {
		qp->attr.path_mtu = m->mtu;
		qp->mtu = ib_mtu_enum_to_int(m->mtu);
	}
	if (m->mask & IB_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	if (m->mask & IB_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (m->mask & IB_QP_PKEY_INDEX) {
		qp->attr.pkey_index = attr->pkey_index;
		WRITE_ONCE(qp->pkey, &qp->dev->pkeys[attr->pkey_index]);
	}
	if (m->mask & IB_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (m->mask & IB_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags & ROX_QP_ACCESS;
	if (m->mask & IB_QP_PATH_MIG_STATE)
		qp->attr.path_mig_state = attr->path_mig_state;
}

static void rox_store_transport(const struct rox_modify *m)
{
	const struct ib_qp_attr *attr = m->attr;
	struct rox_qp *qp = m->qp;

	if (m->mask & IB_QP_RQ_PSN)
		qp->attr.rq_psn = attr->rq_psn & ROX_PSN_MASK;
	if (m->mask & IB_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn & ROX_PSN_MASK;
	if (m->mask & IB_QP_TIMEOUT)
		qp->attr.timeout = attr->timeout;
	if (m->mask & IB_QP_RETRY_CNT)
		qp->attr.retry_cnt = attr->retry_cnt;
	if (m->mask & IB_QP_RNR_RETRY)
		qp->attr.rnr_retry = attr->rnr_retry;
	if (m->mask & IB_QP_MIN_RNR_TIMER)
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
	if (m->mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
	if (m->mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (m->next == IB_QPS_SQD && qp->state != IB_QPS_SQD) {
		qp->sq_drained_event = m->mask & IB_QP_EN_SQD_ASYNC_NOTIFY &&
				       attr->en_sqd_async_notify;
		qp->attr.en_sqd_async_notify = qp->sq_drained_event;
	}
}

/* Sets attributes to their values after create. @m gets the old path. */
static void rox_store_reset(struct rox_modify *m)
{
	struct rox_qp *qp = m->qp;

	rox_cm_forget(qp);
	memset(&qp->attr, 0, sizeof(qp->attr));
	WRITE_ONCE(qp->pkey, qp->dev->pkeys);
	qp->attr.path_mig_state = IB_MIG_MIGRATED;
	qp->sq_drained_event = false;
	rox_path_swap(&qp->path, &m->path);
}

/* Called with both sides stopped. Checks the state again: the QP may have failed meanwhile. */
static int rox_modify_apply(struct rox_modify *m)
{
	struct rox_qp *qp = m->qp;
	unsigned long flags;
	bool ok;

	spin_lock_irqsave(&qp->state_lock, flags);
	ok = rox_modify_state_ok(m, qp->state);
	if (ok) {
		rox_store_path(m);
		rox_store_transport(m);
	}
	spin_unlock_irqrestore(&qp->state_lock, flags);
	if (!ok)
		return -EINVAL;

	if (m->mask & IB_QP_MAX_DEST_RD_ATOMIC)
		m->answers = rox_transport_swap_answers(qp, m->answers,
							m->attr->max_dest_rd_atomic);
	rox_transport_modify(qp, m->next, m->attr, m->mask);
	if (m->next != IB_QPS_RESET)
		return 0;
	spin_lock_irqsave(&qp->state_lock, flags);
	rox_store_reset(m);
	spin_unlock_irqrestore(&qp->state_lock, flags);
	return 0;
}

/**
 * rox_modify_qp() - sets attributes and state of a QP
 * @ibqp: QP
 * @attr: attributes
 * @mask: the valid ones
 * @udata: the request; has no driver's part
 *
 * Process context.
 *
 * Return: 0; -EINVAL for an attribute that is out of its range or not allowed
 * in the transition; -EOPNOTSUPP for an unsupported attribute; -ENOMEM; else as rox_udata_get()
 * and rox_path_init()
 */
int rox_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask, struct ib_udata *udata)
{
	struct rox_qp *qp = to_rox_qp(ibqp);
	struct rox_modify m = { .qp = qp, .attr = attr, .mask = mask };
	int err;

	err = rox_udata_none(udata);
	if (err)
		return err;
	mutex_lock(&qp->modify_lock);
	err = rox_modify_check(&m);
	if (!err)
		err = rox_modify_prepare(&m);
	if (!err) {
		rox_transport_lock(qp);
		err = rox_modify_apply(&m);
		rox_transport_unlock(qp);
		/* The old ones, or after an error the new ones. */
		rox_path_destroy(&m.path);
		kvfree(m.answers);
	}
	mutex_unlock(&qp->modify_lock);
	return err;
}
