// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "qp.h"

#include "diagnose.h"

namespace vt {

Pd alloc_pd(ibv_context *context)
{
    return Pd(need(ibv_alloc_pd(context), "ibv_alloc_pd"));
}

ibv_qp_init_attr QpConfig::attr(ibv_cq *send_cq, ibv_cq *recv_cq) const
{
    ibv_qp_init_attr init{};
    init.send_cq = send_cq;
    init.recv_cq = recv_cq;
    init.srq = srq;
    init.cap.max_send_wr = send_wr;
    init.cap.max_send_sge = send_sge;
    init.cap.max_inline_data = inline_data;
    if (!srq) {
        init.cap.max_recv_wr = recv_wr;
        init.cap.max_recv_sge = recv_sge;
    }
    init.qp_type = type;
    init.sq_sig_all = sig_all;
    return init;
}

ibv_qp *try_create_ex(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpConfig &config,
                      std::uint64_t ops)
{
    ibv_qp_init_attr plain = config.attr(send_cq, recv_cq);
    ibv_qp_init_attr_ex init{};
    init.send_cq = plain.send_cq;
    init.recv_cq = plain.recv_cq;
    init.srq = plain.srq;
    init.cap = plain.cap;
    init.qp_type = plain.qp_type;
    init.sq_sig_all = plain.sq_sig_all;
    init.pd = pd;
    init.send_ops_flags = ops;
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    return ibv_create_qp_ex(pd->context, &init);
}

ibv_ah_attr address_of(const Context &from, const Context &to, const Params &params)
{
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = to.gid(params.family);
    attr.grh.sgid_index = static_cast<std::uint8_t>(from.gid_index(params.family));
    attr.grh.hop_limit = params.hop_limit;
    attr.grh.traffic_class = params.traffic_class;
    attr.grh.flow_label = params.flow_label;
    return attr;
}

namespace {

ibv_qp *create(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpConfig &config)
{
    ibv_qp_init_attr init = config.attr(send_cq, recv_cq);
    return need(ibv_create_qp(pd, &init), "ibv_create_qp");
}

} // namespace

Qp::Qp(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpConfig &config)
    : Qp(create(pd, send_cq, recv_cq, config))
{}

Qp::Qp(ibv_qp *qp) : handle_(qp)
{
    watch(qp);
}

Qp::~Qp()
{
    if (handle_)
        unwatch(get());
}

int Qp::destroy()
{
    unwatch(get());
    return handle_.destroy();
}

ibv_qp *Qp::release()
{
    unwatch(get());
    return handle_.release();
}

int Qp::move(ibv_qp_state state) const
{
    ibv_qp_attr attr{};
    attr.qp_state = state;
    return modify(attr, IBV_QP_STATE);
}

ibv_qp_attr Qp::query(int mask) const
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    check(ibv_query_qp(get(), &attr, mask, &init), "ibv_query_qp");
    return attr;
}

bool Qp::reaches(ibv_qp_state wanted, Millis patience) const
{
    return eventually([&] { return state() == wanted; }, patience);
}

namespace {

/// A reliable connection has a requester and a responder at each end. With XRC each is a QP of its
/// own.
bool has_requester(ibv_qp_type type)
{
    return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

bool has_responder(ibv_qp_type type)
{
    return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
}

} // namespace

Transition init_transition(ibv_qp_type type, const Params &params)
{
    Transition t{{}, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT};
    t.attr.qp_state = IBV_QPS_INIT;
    t.attr.port_num = 1;
    t.attr.pkey_index = params.pkey_index;
    if (type == IBV_QPT_UD) {
        t.attr.qkey = params.qkey;
        t.mask |= IBV_QP_QKEY;
    } else {
        t.attr.qp_access_flags = params.access;
        t.mask |= IBV_QP_ACCESS_FLAGS;
    }
    return t;
}

Transition rtr_transition(ibv_qp_type type, const Params &params, const ibv_ah_attr &peer,
                          std::uint32_t peer_qpn)
{
    Transition t{{}, IBV_QP_STATE};
    t.attr.qp_state = IBV_QPS_RTR;
    if (type == IBV_QPT_UD)
        return t;
    t.mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    t.attr.ah_attr = peer;
    t.attr.path_mtu = params.mtu;
    t.attr.dest_qp_num = peer_qpn;
    t.attr.rq_psn = params.peer_psn;
    if (has_responder(type)) {
        t.mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        t.attr.max_dest_rd_atomic = params.dest_rd_atomic;
        t.attr.min_rnr_timer = params.min_rnr_timer;
    }
    return t;
}

Transition rts_transition(ibv_qp_type type, const Params &params)
{
    Transition t{{}, IBV_QP_STATE | IBV_QP_SQ_PSN};
    t.attr.qp_state = IBV_QPS_RTS;
    t.attr.sq_psn = params.psn;
    if (has_requester(type) || has_responder(type)) {
        t.mask |= IBV_QP_TIMEOUT;
        t.attr.timeout = params.timeout;
    }
    if (has_requester(type)) {
        t.mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        t.attr.retry_cnt = params.retry_cnt;
        t.attr.rnr_retry = params.rnr_retry;
        t.attr.max_rd_atomic = params.rd_atomic;
    }
    return t;
}

void Qp::to_init(const Params &params) const
{
    Transition t = init_transition(get()->qp_type, params);
    check(modify(t.attr, t.mask), "RESET to INIT");
}

void Qp::to_rtr(const Params &params, const ibv_ah_attr &peer, std::uint32_t peer_qpn) const
{
    Transition t = rtr_transition(get()->qp_type, params, peer, peer_qpn);
    check(modify(t.attr, t.mask), "INIT to RTR");
}

void Qp::to_rts(const Params &params) const
{
    Transition t = rts_transition(get()->qp_type, params);
    check(modify(t.attr, t.mask), "RTR to RTS");
}

int Qp::try_post(SendWr wr) const
{
    ibv_send_wr *bad = nullptr;
    return ibv_post_send(get(), wr.raw(), &bad);
}

int Qp::try_post(std::vector<SendWr> &wrs, std::size_t *posted) const
{
    for (std::size_t i = 0; i < wrs.size(); i++)
        wrs[i].raw()->next = i + 1 < wrs.size() ? wrs[i + 1].raw() : nullptr;
    ibv_send_wr *bad = nullptr;
    int result = ibv_post_send(get(), wrs.front().raw(), &bad);
    if (posted) {
        *posted = wrs.size();
        for (std::size_t i = 0; result && i < wrs.size(); i++)
            if (wrs[i].raw() == bad)
                *posted = i;
    }
    return result;
}

int Qp::try_post_recv(std::uint64_t wr_id, Sges sges) const
{
    ibv_recv_wr wr{wr_id, nullptr, sges.data(), static_cast<int>(sges.size())};
    ibv_recv_wr *bad = nullptr;
    return ibv_post_recv(get(), &wr, &bad);
}

namespace {

ibv_srq *create_srq(ibv_pd *pd, std::uint32_t wr, std::uint32_t sge)
{
    ibv_srq_init_attr init{};
    init.attr.max_wr = wr;
    init.attr.max_sge = sge;
    return need(ibv_create_srq(pd, &init), "ibv_create_srq");
}

} // namespace

Srq::Srq(ibv_pd *pd, std::uint32_t wr, std::uint32_t sge) : handle_(create_srq(pd, wr, sge)) {}

int Srq::try_post(std::uint64_t wr_id, Sges sges) const
{
    ibv_recv_wr wr{wr_id, nullptr, sges.data(), static_cast<int>(sges.size())};
    ibv_recv_wr *bad = nullptr;
    return ibv_post_srq_recv(get(), &wr, &bad);
}

ibv_srq_attr Srq::query() const
{
    ibv_srq_attr attr{};
    check(ibv_query_srq(get(), &attr), "ibv_query_srq");
    return attr;
}

} // namespace vt
