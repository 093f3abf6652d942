/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Queue pairs: creation, state, destruction.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <algorithm>
#include <cerrno>

namespace rox {
namespace {

using CreateResp = Message<ib_uverbs_ex_create_qp_resp, rox_create_qp_resp>;

/* Bytes of the largest send WQE: the header, and the larger of SGE list and inline payload. */
size_t send_wqe_size(const ibv_qp_cap &cap)
{
    return send_header_size +
           std::max<size_t>(cap.max_send_sge * sizeof(rox_sge), cap.max_inline_data);
}

/* Maps the rings that the kernel offers and attaches the queues to them. 0 or an errno value. */
int map_rings(Qp &qp, ibv_context *context, const rox_create_qp_resp &offer,
              const ibv_qp_init_attr_ex &attr)
{
    const ibv_qp_cap &cap = attr.cap;
    const SendLimits limits = {
        .type = attr.qp_type, .max_sge = cap.max_send_sge, .max_inline = cap.max_inline_data};

    if (offer.sq.entries == 0 && offer.rq.entries == 0) {
        return 0;
    }
    if (const int error = qp.map.map(*Context::of(context)->slabs, context->cmd_fd, offer.map,
                                     offer.place);
        error != 0) {
        return error;
    }
    if (offer.sq.entries != 0) {
        if (!qp.map.holds(offer.sq, send_wqe_size(cap))) {
            return EPROTO;
        }
        qp.sq.attach(RingView(qp.map.base(), offer.sq), cap.max_send_wr, limits);
    }
    if (offer.rq.entries != 0) {
        if (!qp.map.holds(offer.rq, recv_header_size + cap.max_recv_sge * sizeof(rox_sge))) {
            return EPROTO;
        }
        qp.rq.attach(RingView(qp.map.base(), offer.rq), cap.max_recv_wr, cap.max_recv_sge,
                     RecvQueue::Kind::of_qp);
    }
    return 0;
}

/* True if the QP has the domain of its type: XRC targets have an XRC domain, all others a PD. */
bool has_domain(const ibv_qp_init_attr_ex &attr)
{
    if (attr.qp_type == IBV_QPT_XRC_RECV) {
        return (attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) != 0 && attr.xrcd != nullptr;
    }
    return (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 && attr.pd != nullptr;
}

/*
 * Removes the CQs and the SRQ that an XRC QP does not use: the kernel's QP holds no
 * reference that would keep them alive. Receives of XRC belong to SRQs. The PD of a
 * target stays, because librdmacm reads it.
 */
void strip_xrc(ibv_qp_init_attr_ex &attr)
{
    if (attr.qp_type != IBV_QPT_XRC_SEND && attr.qp_type != IBV_QPT_XRC_RECV) {
        return;
    }
    attr.recv_cq = nullptr;
    attr.srq = nullptr;
    if (attr.qp_type == IBV_QPT_XRC_RECV) {
        attr.send_cq = nullptr;
        attr.pd = (attr.comp_mask & IBV_QP_INIT_ATTR_PD) != 0 ? attr.pd : nullptr;
    }
}

/*
 * False for XRC targets: they have no queues, and no completions by which polling would
 * look them up. Another process may own the target.
 */
bool has_queues(const ibv_qp &qp)
{
    return qp.qp_type != IBV_QPT_XRC_RECV;
}

/* 0, or the error for attributes that are invalid or not supported. */
int check_attr(const ibv_qp_init_attr_ex &attr)
{
    constexpr uint32_t supported = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                   IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    if ((attr.comp_mask & ~supported) != 0) {
        return EOPNOTSUPP;
    }
    if (!has_domain(attr)) {
        return EINVAL;
    }
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0) {
        if ((attr.create_flags & ~uint32_t{IBV_QP_CREATE_BLOCK_SELF_MCAST_LB}) != 0) {
            return EOPNOTSUPP;
        }
        if (attr.create_flags != 0 && attr.qp_type != IBV_QPT_UD) {
            return EINVAL;
        }
    }
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
        (attr.send_ops_flags & ~supported_send_ops(attr.qp_type)) != 0) {
        return EOPNOTSUPP;
    }
    switch (attr.qp_type) {
    case IBV_QPT_XRC_RECV: return 0;
    case IBV_QPT_XRC_SEND: return attr.send_cq != nullptr ? 0 : EINVAL;
    default: return attr.send_cq != nullptr && attr.recv_cq != nullptr ? 0 : EINVAL;
    }
}

Qp *create(ibv_context *context, ibv_qp_init_attr_ex &wanted)
{
    std::unique_ptr<Qp> qp = make_object<Qp>();
    ibv_qp_init_attr_ex attr = wanted;
    Message<rdmacore::create_qp_ex_cmd, rox_create_qp_req> cmd;
    CreateResp resp;

    if (!qp) {
        return nullptr;
    }
    strip_xrc(attr);
    int error = rdmacore::ibv_cmd_create_qp_ex2(context, &qp->vqp, &attr, cmd.core(), cmd.size(),
                                                resp.core(), resp.size(), nullptr);

    if (error == 0) {
        error = map_rings(*qp, context, resp.driver, attr);
        if (error == 0 && has_queues(qp->vqp.qp)) {
            error = Context::of(context)->qps->insert(qp->vqp.qp.qp_num, qp.get());
        }
        if (error != 0) {
            rdmacore::ibv_cmd_destroy_qp(&qp->vqp.qp);
        }
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    wanted.cap = attr.cap;
    if (!has_queues(qp->vqp.qp)) {
        return qp.release();
    }
    Pd::of(attr.pd)->users++;
    if (is_single_threaded(attr.pd)) {
        qp->sq.lock().elide();
        qp->rq.lock().elide();
    }
    return qp.release();
}

/* RTS and the states after it accept send work requests. In SQE and ERR the kernel flushes them. */
constexpr bool accepts_sends(ibv_qp_state state)
{
    return state == IBV_QPS_RTS || state == IBV_QPS_SQD || state == IBV_QPS_SQE ||
           state == IBV_QPS_ERR;
}

void set_state(Qp &qp, ibv_qp_state state)
{
    const std::lock_guard send_guard(qp.sq.lock());
    const std::lock_guard recv_guard(qp.rq.lock());

    qp.sq.set_accepting(accepts_sends(state));
    qp.rq.set_accepting(state != IBV_QPS_RESET);
}

/* What was posted before belongs to the state before. */
void ring_late(const ibv_qp &qp)
{
    if (LateDoorbells *late = Context::of(qp.context)->late; late != nullptr) {
        late->ring();
    }
}

/* Removes the completions of a QP that was reset or destroyed: the program must not see them. */
void purge_cqs(const ibv_qp &qp)
{
    if (qp.recv_cq != nullptr) {
        Cq::of(qp.recv_cq)->queue.purge(qp.qp_num);
    }
    if (qp.send_cq != nullptr && qp.send_cq != qp.recv_cq) {
        Cq::of(qp.send_cq)->queue.purge(qp.qp_num);
    }
}

/*
 * Empties the queues. The QP is in RESET, and set_state() has made posts fail.
 *
 * A program may post inside a poll, so the lock of a CQ is taken before those of the
 * queues. The CQs are therefore purged before the queues are locked. Until then other
 * threads may poll and free entries, but nobody can post to them. After the purge there
 * are no completions left, and the queues can start empty.
 */
void reset_queues(Qp &qp)
{
    purge_cqs(qp.vqp.qp);

    const std::lock_guard send_guard(qp.sq.lock());
    const std::lock_guard recv_guard(qp.rq.lock());

    qp.sq.reset();
    qp.rq.reset();
}

} // namespace

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
    ibv_qp_init_attr_ex attr_ex = {};

    attr_ex.qp_context = attr->qp_context;
    attr_ex.send_cq = attr->send_cq;
    attr_ex.recv_cq = attr->recv_cq;
    attr_ex.srq = attr->srq;
    attr_ex.cap = attr->cap;
    attr_ex.qp_type = attr->qp_type;
    attr_ex.sq_sig_all = attr->sq_sig_all;
    attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr_ex.pd = pd;

    ibv_qp *qp = create_qp_ex(pd->context, &attr_ex);

    if (qp != nullptr) {
        attr->cap = attr_ex.cap;
    }
    return qp;
}

ibv_qp *create_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr)
{
    if (const int error = check_attr(*attr); error != 0) {
        errno = error;
        return nullptr;
    }

    Qp *qp = create(context, *attr);

    if (qp == nullptr) {
        return nullptr;
    }
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
        set_send_functions(qp->vqp.qp_ex, attr->send_ops_flags);
        qp_mask(qp->vqp) |= rdmacore::QP_MASK_EX;
    }
    return &qp->vqp.qp;
}

/* Opens another handle of an existing XRC target. */
ibv_qp *open_qp(ibv_context *context, ibv_qp_open_attr *attr)
{
    std::unique_ptr<Qp> qp = make_object<Qp>();
    rdmacore::open_qp_cmd cmd = {};
    ib_uverbs_create_qp_resp resp = {};

    if (!qp) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_open_qp(context, &qp->vqp, sizeof(qp->vqp), attr, &cmd,
                                                    sizeof(cmd), &resp, sizeof(resp));
        error != 0) {
        errno = error;
        return nullptr;
    }
    return &qp.release()->vqp.qp;
}

/*
 * The system call may take long (RTR resolves the neighbour), so it holds no lock that
 * posting needs. Until set_state(), posts are accepted or refused by the old state.
 * That matters for RESET only, which alone accepts less than the state before it: such a
 * post is in a ring that the kernel does not read before the next modify. The next
 * modify waits for modify_lock, and reset_queues() has dropped the post by then.
 */
int modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask)
{
    Qp *qp = Qp::of(ibqp);
    rdmacore::modify_qp_cmd cmd = {};
    const std::lock_guard guard(qp->modify_lock);

    ring_late(*ibqp);
    if (const int error = rdmacore::ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
        error != 0) {
        return error;
    }
    if ((attr_mask & IBV_QP_STATE) == 0) {
        return 0;
    }
    set_state(*qp, attr->qp_state);
    if (attr->qp_state == IBV_QPS_RESET) {
        reset_queues(*qp);
    }
    return 0;
}

int query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr)
{
    rdmacore::query_qp_cmd cmd = {};

    return rdmacore::ibv_cmd_query_qp(qp, attr, attr_mask, init_attr, &cmd, sizeof(cmd));
}

/* Enhancements of connections are vendors' own. The device asks for none, and grants none. */
int query_ece(ibv_qp * /*qp*/, ibv_ece *ece)
{
    *ece = {};
    return 0;
}

int set_ece(ibv_qp * /*qp*/, ibv_ece *ece)
{
    return ece->comp_mask != 0 ? EINVAL : 0;
}

int destroy_qp(ibv_qp *qp)
{
    ring_late(*qp);
    if (const int error = rdmacore::ibv_cmd_destroy_qp(qp); error != 0) {
        return error;
    }
    /* No poll looks the QP up once its completions are removed. */
    purge_cqs(*qp);
    if (has_queues(*qp)) {
        Context::of(qp->context)->qps->remove(qp->qp_num);
        if (Context::of(qp->context)->late != nullptr) {
            Context::of(qp->context)->late->forget(*Qp::of(qp));
        }
        Pd::of(qp->pd)->users--;
    }
    delete Qp::of(qp);
    return 0;
}

} // namespace rox
