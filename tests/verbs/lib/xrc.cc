// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "xrc.h"

namespace vt {

int close_xrcd(ibv_xrcd *xrcd)
{
    return ibv_close_xrcd(xrcd);
}

ibv_xrcd *try_open_xrcd(ibv_context *context, int fd, int oflags)
{
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    init.fd = fd;
    init.oflags = oflags;
    return ibv_open_xrcd(context, &init);
}

Xrcd open_xrcd(ibv_context *context, int fd, int oflags)
{
    return Xrcd(need(try_open_xrcd(context, fd, oflags), "ibv_open_xrcd"));
}

namespace {

ibv_srq *create(ibv_pd *pd, ibv_xrcd *xrcd, ibv_cq *cq, std::uint32_t wr, std::uint32_t sge)
{
    ibv_srq_init_attr_ex init{};
    init.attr.max_wr = wr;
    init.attr.max_sge = sge;
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = pd;
    init.xrcd = xrcd;
    init.cq = cq;
    return need(ibv_create_srq_ex(pd->context, &init), "ibv_create_srq_ex");
}

} // namespace

XrcSrq::XrcSrq(ibv_pd *pd, ibv_xrcd *xrcd, ibv_cq *cq, std::uint32_t wr, std::uint32_t sge)
    : handle_(create(pd, xrcd, cq, wr, sge))
{}

std::uint32_t XrcSrq::number() const
{
    std::uint32_t number = 0;
    check(ibv_get_srq_num(get(), &number), "ibv_get_srq_num");
    return number;
}

int XrcSrq::try_post(std::uint64_t wr_id, Sges sges) const
{
    ibv_recv_wr wr{wr_id, nullptr, sges.data(), static_cast<int>(sges.size())};
    ibv_recv_wr *bad = nullptr;
    return ibv_post_srq_recv(get(), &wr, &bad);
}

ibv_qp *xrc_initiator(ibv_pd *pd, ibv_cq *cq, const QpConfig &config)
{
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.send_cq = cq;
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    init.cap.max_send_wr = config.send_wr;
    init.cap.max_send_sge = config.send_sge;
    init.cap.max_inline_data = config.inline_data;
    init.sq_sig_all = config.sig_all;
    return need(ibv_create_qp_ex(pd->context, &init), "ibv_create_qp_ex of an initiator");
}

ibv_qp *xrc_target(ibv_context *context, ibv_xrcd *xrcd)
{
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_RECV;
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
    return need(ibv_create_qp_ex(context, &init), "ibv_create_qp_ex of a target");
}

ibv_qp *try_open_target(ibv_context *context, ibv_xrcd *xrcd, std::uint32_t qp_num)
{
    ibv_qp_open_attr attr{};
    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = qp_num;
    attr.xrcd = xrcd;
    attr.qp_type = IBV_QPT_XRC_RECV;
    return ibv_open_qp(context, &attr);
}

} // namespace vt
