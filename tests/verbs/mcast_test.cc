// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// UD multicast: attaching, a copy for each listener, Q_Keys, the sender's own copy, errors.
#include <cstring>
#include <vector>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::size_t kGrh = 40;
constexpr std::uint32_t kMulticastQpn = 0xffffff;

ibv_gid group(Family family, std::uint8_t number = 1)
{
    ibv_gid gid = {};
    if (family == Family::V4) {
        const std::uint8_t bytes[] = {0xff, 0xff, 239, 1, 2, number};
        std::memcpy(gid.raw + 10, bytes, sizeof(bytes));
    } else {
        const std::uint8_t bytes[] = {0xff, 0x15};
        std::memcpy(gid.raw, bytes, sizeof(bytes));
        gid.raw[15] = number;
    }
    return gid;
}

int attach(const Qp &qp, const ibv_gid &gid)
{
    return ibv_attach_mcast(qp.get(), &gid, 0);
}
int detach(const Qp &qp, const ibv_gid &gid)
{
    return ibv_detach_mcast(qp.get(), &gid, 0);
}

class McastCore : public PairTest {
protected:
    void SetUp() override { start({.type = IBV_QPT_UD}); }

    Ah to_group(const ibv_gid &gid, Family family, std::uint8_t hop_limit = 64) const
    {
        ibv_ah_attr attr = {};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = gid;
        attr.grh.hop_limit = hop_limit;
        attr.grh.sgid_index = static_cast<std::uint8_t>(a.context.gid_index(family));
        return Ah(need(ibv_create_ah(a.pd.get(), &attr), "ibv_create_ah"));
    }
    std::unique_ptr<Qp> listener(std::uint32_t qkey = Params{}.qkey) const
    {
        auto qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(),
                                       QpConfig{.type = IBV_QPT_UD});
        Params params;
        params.qkey = qkey;
        qp->to_init(params);
        qp->to_rtr({}, {}, 0);
        return qp;
    }
    void send(const Ah &ah, std::uint64_t id, std::uint32_t qpn = kMulticastQpn)
    {
        fill(near.bytes(0, 500), id);
        a.qp->post(SendWr::send({near.sge(0, 500)}).id(id).to(ah.get(), qpn, Params{}.qkey));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_SEND));
    }

    Buffer near = a.buffer(8192);
    Buffer far = b.buffer(65536);
};

/// There is no route to a group that could have another one.
TEST_F(McastCore, HopLimitIsThatOfTheAh)
{
    for (Family family : {Family::V4, Family::V6}) {
        const ibv_gid gid = group(family);
        auto qp = listener();
        ASSERT_EQ(attach(*qp, gid), 0);
        for (std::uint8_t limit : {1, 7, 255}) {
            const Ah ah = to_group(gid, family, limit);
            qp->post_recv(1, {far.sge(0, 4096)});
            send(ah, 2);
            ASSERT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
            // An IPv4 header is the second half of the GRH's place.
            EXPECT_EQ(far.data()[family == Family::V4 ? 28 : 7], limit);
        }
        ASSERT_EQ(detach(*qp, gid), 0);
    }
}

TEST_F(McastCore, EveryListenerGetsACopy)
{
    for (Family family : {Family::V4, Family::V6}) {
        const ibv_gid gid = group(family);
        const Ah ah = to_group(gid, family);
        std::vector<std::unique_ptr<Qp>> listeners;
        for (std::size_t i = 0; i < 16; i++) {
            listeners.push_back(listener());
            ASSERT_EQ(attach(*listeners[i], gid), 0);
            listeners[i]->post_recv(i, {far.sge(i * 1024, 1024)});
        }
        send(ah, 7);
        std::vector<bool> got(16);
        for (const ibv_wc &wc : b.recv_cq.wait(16)) {
            ASSERT_LT(wc.wr_id, 16u);
            EXPECT_FALSE(got[wc.wr_id]);
            got[wc.wr_id] = true;
            EXPECT_TRUE(is(wc, wc.wr_id, IBV_WC_RECV));
            EXPECT_EQ(wc.qp_num, listeners[wc.wr_id]->number());
            EXPECT_EQ(wc.src_qp, a.qp->number());
            EXPECT_TRUE(filled(far.bytes(wc.wr_id * 1024 + kGrh, 500), 7));
            const std::size_t at = family == Family::V4 ? 36 : 24;
            EXPECT_EQ(std::memcmp(far.data() + wc.wr_id * 1024 + at,
                                  gid.raw + (family == Family::V4 ? 12 : 0),
                                  family == Family::V4 ? 4 : 16),
                      0)
                << "destination in the GRH";
        }
        for (auto &qp : listeners)
            EXPECT_EQ(detach(*qp, gid), 0);
    }
}

TEST_F(McastCore, QkeyIsCheckedForEachListener)
{
    const ibv_gid gid = group(Family::V4);
    const Ah ah = to_group(gid, Family::V4);
    auto good = listener(), bad = listener(0x22222222);
    ASSERT_EQ(attach(*good, gid), 0);
    ASSERT_EQ(attach(*bad, gid), 0);
    good->post_recv(1, {far.sge(0, 1024)});
    bad->post_recv(2, {far.sge(1024, 1024)});
    send(ah, 3);
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_EQ(detach(*good, gid), 0);
    EXPECT_EQ(detach(*bad, gid), 0);
}

TEST_F(McastCore, OnlyTheGroupAttachedToAndOnlyWhileAttached)
{
    const ibv_gid gid = group(Family::V4, 1), other = group(Family::V4, 2);
    const Ah ah = to_group(gid, Family::V4), to_other = to_group(other, Family::V4);
    auto qp = listener(), second = listener();
    ASSERT_EQ(attach(*qp, gid), 0);
    ASSERT_EQ(attach(*second, other), 0);
    qp->post_recv(1, {far.sge(0, 1024)});
    send(to_other, 2);
    EXPECT_TRUE(b.recv_cq.quiet()) << "of another group, and the second has no receive";
    send(ah, 3, qp->number());
    EXPECT_TRUE(b.recv_cq.quiet()) << "a QP number is not the multicast QP number";
    send(ah, 4);
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    qp->post_recv(5, {far.sge(0, 1024)});
    EXPECT_EQ(detach(*qp, gid), 0);
    send(ah, 6);
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_EQ(detach(*second, other), 0);
}

TEST_F(McastCore, SenderThatListensGetsItsOwnUnlessBlocked)
{
    const ibv_gid gid = group(Family::V4);
    const Ah ah = to_group(gid, Family::V4);
    ASSERT_EQ(attach(*a.qp, gid), 0);
    a.qp->post_recv(1, {near.sge(4096, 1024)});
    send(ah, 2);
    EXPECT_TRUE(is(a.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_EQ(detach(*a.qp, gid), 0);

    ibv_qp_init_attr_ex attr = {};
    attr.qp_type = IBV_QPT_UD;
    attr.send_cq = a.send_cq.get();
    attr.recv_cq = a.recv_cq.get();
    attr.cap = {8, 8, 1, 1, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = a.pd.get();
    attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    Qp blocked(need(ibv_create_qp_ex(a.context.get(), &attr), "ibv_create_qp_ex"));
    blocked.to_init();
    blocked.to_rtr({}, {}, 0);
    blocked.to_rts();
    ASSERT_EQ(attach(blocked, gid), 0);
    blocked.post_recv(3, {near.sge(4096, 1024)});
    blocked.post(SendWr::send({near.sge(0, 8)}).id(4).to(ah.get(), kMulticastQpn, Params{}.qkey));
    EXPECT_TRUE(is(a.send_cq.one(), 4, IBV_WC_SEND));
    EXPECT_TRUE(a.recv_cq.quiet()) << "its own";
    send(ah, 5);
    EXPECT_TRUE(is(a.recv_cq.one(), 3, IBV_WC_RECV)) << "of another QP";
    EXPECT_EQ(detach(blocked, gid), 0);
}

TEST_F(McastCore, WhatCannotBeAttached)
{
    ibv_gid unicast = a.context.gid();
    EXPECT_EQ(attach(*a.qp, unicast), EINVAL);
    EXPECT_EQ(attach(*a.qp, ibv_gid{}), EINVAL);
    Qp rc(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    EXPECT_EQ(attach(rc, group(Family::V4)), EINVAL);
    EXPECT_EQ(detach(*a.qp, group(Family::V4)), EINVAL);
}

TEST_F(McastCore, AttachedTwiceIsAttachedOnce)
{
    const ibv_gid gid = group(Family::V4);
    const Ah ah = to_group(gid, Family::V4);
    auto qp = listener();
    ASSERT_EQ(attach(*qp, gid), 0);
    EXPECT_EQ(attach(*qp, gid), 0);
    qp->post_recv(1, {far.sge(0, 1024)});
    qp->post_recv(2, {far.sge(1024, 1024)});
    send(ah, 3);
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_EQ(detach(*qp, gid), 0);
    EXPECT_EQ(detach(*qp, gid), EINVAL);
}

TEST_F(McastCore, AttachedQpIsBusyAndLimitsAreReported)
{
    ASSERT_EQ(attach(*a.qp, group(Family::V6)), 0);
    EXPECT_EQ(a.qp->destroy(), EBUSY);
    EXPECT_EQ(detach(*a.qp, group(Family::V6)), 0);
    EXPECT_GE(a.context.attr().max_mcast_grp, 8192);
    EXPECT_GE(a.context.attr().max_mcast_qp_attach, 64);
}

} // namespace
