// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "pair.h"

namespace vt {

void connect(const Context &a_context, Qp &a, const Context &b_context, Qp &b, const Params &params)
{
    a.to_init(params);
    b.to_init(params.mirrored());
    a.to_rtr(params, address_of(a_context, b_context, params), b.number());
    b.to_rtr(params.mirrored(), address_of(b_context, a_context, params), a.number());
    a.to_rts(params);
    b.to_rts(params.mirrored());
}

void PairTest::make(const QpConfig &a_config, const QpConfig &b_config)
{
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), a_config);
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), b_config);
}

void PairTest::start(const QpConfig &config, const Params &params)
{
    make(config, config);
    connect(params);
}

Ah PairTest::ah(const End &from, const End &to, const Params &params)
{
    ibv_ah_attr attr = address_of(from.context, to.context, params);
    return Ah(need(ibv_create_ah(from.pd.get(), &attr), "ibv_create_ah"));
}

void PairTest::expect_works()
{
    Buffer source = a.buffer(4096);
    Buffer target = b.buffer(4096);
    fill(source.bytes(0, 600), 77);
    b.qp->post_recv(901, {target.sge(0, 1000)});
    a.qp->post(SendWr::send({source.sge(0, 600)}).id(902));
    EXPECT_TRUE(is(b.recv_cq.one(), 901, IBV_WC_RECV));
    EXPECT_TRUE(is(a.send_cq.one(), 902, IBV_WC_SEND));
    EXPECT_TRUE(filled(target.bytes(0, 600), 77));
    EXPECT_TRUE(all(target.bytes(600, 400), 0));
}

} // namespace vt
