// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// UD: the GRH before the data, Q_Keys, sizes, source QP, many peers.
#include <cstring>

#include <linux/capability.h>

#include "lib/pair.h"
#include "lib/rdmatool.h"
#include "lib/thread.h"

using namespace vt;

namespace {

constexpr std::size_t kGrh = 40;

class UdCore : public PairTest {
protected:
    void SetUp() override
    {
        start({.type = IBV_QPT_UD, .inline_data = 128});
        to_b.emplace(ah(a, b));
    }
    void TearDown() override
    {
        to_b.reset();
        PairTest::TearDown();
    }

    SendWr datagram(std::size_t length, std::uint64_t id, std::uint32_t qkey = Params{}.qkey)
    {
        return SendWr::send(length ? Sges{near.sge(0, length)} : Sges{})
            .id(id)
            .to(to_b->get(), b.qp->number(), qkey);
    }
    std::size_t mtu() { return std::size_t(128) << a.context.port().active_mtu; }

    std::optional<Ah> to_b;
    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

TEST_F(UdCore, AllSizesUpToTheMtu)
{
    std::uint64_t id = 1;
    for (std::size_t length : {std::size_t(0), std::size_t(1), std::size_t(2), std::size_t(3),
                               std::size_t(1000), mtu() - 1, mtu()}) {
        fill(near.bytes(0, length), id);
        std::memset(far.data(), 0, far.size());
        b.qp->post_recv(id, {far.sge(0, 8192)});
        a.qp->post(datagram(length, id));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_SEND));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, id, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, length + kGrh);
        EXPECT_EQ(wc.src_qp, a.qp->number());
        EXPECT_EQ(wc.qp_num, b.qp->number());
        EXPECT_TRUE(wc.wc_flags & IBV_WC_GRH);
        EXPECT_FALSE(wc.wc_flags & IBV_WC_WITH_IMM);
        EXPECT_TRUE(filled(far.bytes(kGrh, length), id));
        EXPECT_TRUE(all(far.bytes(kGrh + length, 64), 0));
        id++;
    }
}

TEST_F(UdCore, GrhOverIpv4IsTheIpHeaderInItsSecondHalf)
{
    std::memset(far.data(), 0xee, 64);
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(100, 1));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    const std::uint8_t *ip = far.data() + 20;
    EXPECT_EQ(ip[0], 0x45);
    EXPECT_EQ(ip[9], 17) << "UDP";
    EXPECT_EQ(ip[2] * 256 + ip[3], 20 + 8 + 12 + 8 + 100 + 4) << "total length";
    EXPECT_EQ(std::memcmp(ip + 12, a.context.gid().raw + 12, 4), 0) << "source";
    EXPECT_EQ(std::memcmp(ip + 16, b.context.gid().raw + 12, 4), 0) << "destination";
}

TEST_F(UdCore, GrhOverIpv6IsTheIpHeader)
{
    Params params;
    params.family = Family::V6;
    params.traffic_class = 0x24;
    to_b.emplace(ah(a, b, params));
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(100, 1));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    const std::uint8_t *ip = far.data();
    EXPECT_EQ(ip[0] >> 4, 6);
    EXPECT_EQ((ip[0] & 15) << 4 | ip[1] >> 4, 0x24) << "traffic class";
    EXPECT_NE(ip[7], 0) << "hop limit: the RDMA core puts the route's into the AH";
    EXPECT_EQ(std::memcmp(ip + 8, a.context.gid(Family::V6).raw, 16), 0);
    EXPECT_EQ(std::memcmp(ip + 24, b.context.gid(Family::V6).raw, 16), 0);
}

// UCX takes from it where in the GRH the addresses are, as NICs have it: bit 3 is RoCE v2, below it
// 1 is IPv6 and 2 IPv4.
TEST_F(UdCore, ServiceLevelOfACompletionIsTheKindOfPacket)
{
    Params params;
    for (Family family : {Family::V4, Family::V6}) {
        params.family = family;
        to_b.emplace(ah(a, b, params));
        b.qp->post_recv(1, {far.sge(0, 4096)});
        a.qp->post(datagram(8, 1));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
        EXPECT_EQ(wc.sl, family == Family::V4 ? 10 : 9);
        EXPECT_EQ(a.send_cq.one().sl, 0);
    }
}

TEST_F(UdCore, TrafficClassIsThatOfTheAh)
{
    Params params;
    params.traffic_class = 0x48;
    to_b.emplace(ah(a, b, params));
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(8, 1));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_EQ(far.data()[21], 0x48);
    EXPECT_NE(far.data()[28], 0);
}

TEST_F(UdCore, ReplyWithAnAhFromTheCompletion)
{
    Params params;
    for (Family family : {Family::V4, Family::V6}) {
        params.family = family;
        to_b.emplace(ah(a, b, params));
        b.qp->post_recv(1, {far.sge(0, 4096)});
        a.qp->post(datagram(8, 1));
        EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
        ibv_wc wc = b.recv_cq.one();
        auto *grh = reinterpret_cast<ibv_grh *>(far.data());
        Ah back(need(ibv_create_ah_from_wc(b.pd.get(), &wc, grh, 1), "ibv_create_ah_from_wc"));
        fill(far.bytes(4096, 500), 9);
        a.qp->post_recv(2, {near.sge(4096, 4096)});
        b.qp->post(SendWr::send({far.sge(4096, 500)}).id(3).to(back.get(), wc.src_qp, params.qkey));
        EXPECT_TRUE(is(b.send_cq.one(), 3, IBV_WC_SEND));
        ibv_wc reply = a.recv_cq.one();
        EXPECT_TRUE(is(reply, 2, IBV_WC_RECV));
        EXPECT_EQ(reply.src_qp, b.qp->number());
        EXPECT_TRUE(filled(near.bytes(4096 + kGrh, 500), 9));
    }
}

TEST_F(UdCore, ImmediateData)
{
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(10, 1).imm(0xa1b2c3d4));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_EQ(ntohl(wc.imm_data), 0xa1b2c3d4u);
}

TEST_F(UdCore, InlineData)
{
    std::vector<std::uint8_t> local(128);
    fill(local, 6);
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(SendWr::send({{reinterpret_cast<std::uintptr_t>(local.data()), 128, 0}})
                   .to(to_b->get(), b.qp->number(), Params{}.qkey)
                   .inlined());
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(kGrh, 128), 6));
}

TEST_F(UdCore, ScatterListMaySplitTheGrh)
{
    fill(near.bytes(0, 300), 2);
    b.qp->post_recv(1, {far.sge(0, 13), far.sge(100, 27), far.sge(200, 100), far.sge(400, 200)});
    a.qp->post(datagram(300, 1));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(200, 100), 2));
    EXPECT_TRUE(filled(far.bytes(400, 200), 2, 100));
    EXPECT_EQ(far.data()[100 + 7], 0x45) << "byte 20 of the GRH";
}

TEST_F(UdCore, WrongQkeyIsDropped)
{
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(10, 1, 0x12345678));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(b.recv_cq.quiet());
    a.qp->post(datagram(10, 2));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV)) << "the receive was not used up";
}

TEST_F(UdCore, QkeyWithItsHighBitIsTheSendersOwn)
{
    // C10-15: with the high-order bit set, the Q_Key of the QP is sent instead.
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(10, 1, 0x80000000));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
}

TEST_F(UdCore, MessageBeyondTheMtuIsALengthError)
{
    int result = a.qp->try_post(datagram(mtu() + 1, 1));
    if (result)
        EXPECT_EQ(result, EINVAL);
    else
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(b.recv_cq.quiet());
}

TEST_F(UdCore, MessageWithoutAReceiveIsDropped)
{
    a.qp->post(datagram(10, 1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(b.recv_cq.quiet());
    b.qp->post_recv(2, {far.sge(0, 4096)});
    a.qp->post(datagram(10, 3));
    EXPECT_TRUE(is(b.recv_cq.one(), 2, IBV_WC_RECV));
}

TEST_F(UdCore, MessageToNobodyIsDropped)
{
    a.qp->post(datagram(10, 1).to(to_b->get(), 0xabcdee, Params{}.qkey));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_EQ(a.qp->state(), IBV_QPS_RTS);
}

TEST_F(UdCore, ConnectedOperationsAreNotForUd)
{
    int result = a.qp->try_post(SendWr::write({near.sge(0, 8)}, remote(far)).id(1));
    if (result)
        EXPECT_EQ(result, EINVAL);
    else
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_QP_OP_ERR));
    EXPECT_TRUE(all(far.bytes(0, 8), 0));
}

TEST_F(UdCore, OneQpSpeaksToMany)
{
    std::vector<std::unique_ptr<Qp>> peers;
    for (std::size_t i = 0; i < 10; i++) {
        peers.push_back(std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(),
                                             QpConfig{.type = IBV_QPT_UD}));
        peers.back()->to_init();
        peers.back()->to_rtr({}, {}, 0);
        peers.back()->post_recv(i, {far.sge(i * 256, 256)});
    }
    for (std::size_t i = 0; i < 10; i++) {
        fill(near.bytes(i * 100, 100), i);
        a.qp->post(SendWr::send({near.sge(i * 100, 100)})
                       .id(i)
                       .to(to_b->get(), peers[i]->number(), Params{}.qkey));
    }
    for (std::size_t i = 0; i < 10; i++) {
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, i, IBV_WC_RECV));
        EXPECT_EQ(wc.qp_num, peers[i]->number());
        EXPECT_TRUE(filled(far.bytes(i * 256 + kGrh, 100), i));
    }
}

TEST_F(UdCore, SendingToItself)
{
    Ah to_self = ah(a, a);
    a.qp->post_recv(1, {near.sge(8192, 4096)});
    fill(near.bytes(0, 700), 5);
    a.qp->post(
        SendWr::send({near.sge(0, 700)}).id(2).to(to_self.get(), a.qp->number(), Params{}.qkey));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    ibv_wc wc = a.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_EQ(wc.src_qp, a.qp->number());
    EXPECT_TRUE(filled(near.bytes(8192 + kGrh, 700), 5));
}

TEST_F(UdCore, AhMayGoOnceTheMessageIsCompleted)
{
    b.qp->post_recv(1, {far.sge(0, 4096)});
    a.qp->post(datagram(10, 1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    to_b.reset();
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
}

TEST_F(UdCore, ManyMessagesInOrder)
{
    for (std::uint64_t i = 0; i < 500; i++) {
        b.qp->post_recv(i, {far.sge(0, 4096)});
        fill(near.bytes(0, 300), i);
        a.qp->post(datagram(300, i));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
        ASSERT_TRUE(filled(far.bytes(kGrh, 300), i));
    }
}

// ---- Q_Keys ----

constexpr std::uint32_t kControlled = 0x80010000;

class QkeyCore : public UdCore {
protected:
    static int set_qkey(const Qp &qp, std::uint32_t qkey)
    {
        ibv_qp_attr attr{};
        attr.qkey = qkey;
        return qp.modify(attr, IBV_QP_QKEY);
    }
    /// A message that @p qkey does not open the receiver for; it is counted, once.
    void expect_refused(std::uint32_t qkey)
    {
        auto port = b.context.port().qkey_viol_cntr;
        auto counter = port_counter(b.context.name(), "rx_qkey_mismatch");
        a.qp->post(datagram(10, 7, qkey));
        EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_SEND));
        EXPECT_TRUE(eventually([&] { return b.context.port().qkey_viol_cntr == port + 1; }));
        EXPECT_TRUE(eventually(
            [&] { return port_counter(b.context.name(), "rx_qkey_mismatch") == counter + 1; }));
        EXPECT_TRUE(b.recv_cq.quiet());
    }
    void expect_taken(std::uint32_t qkey)
    {
        b.qp->post_recv(8, {far.sge(0, 4096)});
        a.qp->post(datagram(10, 7, qkey));
        EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_SEND));
        EXPECT_TRUE(is(b.recv_cq.one(), 8, IBV_WC_RECV));
    }
};

TEST_F(QkeyCore, ViolationsAreCounted)
{
    expect_refused(0x12345678);
    expect_refused(0);
    expect_taken(Params{}.qkey);
}

TEST_F(QkeyCore, NewQkeyHoldsAtOnce)
{
    ASSERT_EQ(set_qkey(*b.qp, 0x22222222), 0);
    EXPECT_EQ(b.qp->query().qkey, 0x22222222u);
    expect_refused(Params{}.qkey);
    expect_taken(0x22222222);
}

TEST_F(QkeyCore, ControlledQkeyIsReachedByThoseOnlyWhoHaveIt)
{
    ASSERT_EQ(set_qkey(*b.qp, kControlled), 0) << "root may";
    // A work request cannot name it: the sender's own goes out instead.
    expect_refused(kControlled);
    expect_refused(kControlled & 0x7fffffff);
    ASSERT_EQ(set_qkey(*a.qp, kControlled), 0);
    expect_taken(kControlled);
    expect_taken(0x80000000);
    expect_taken(0xffffffff);
    expect_refused(Params{}.qkey);
}

TEST_F(QkeyCore, ControlledQkeyWantsCapNetRaw)
{
    without_capability(CAP_NET_RAW, [&] {
        EXPECT_EQ(set_qkey(*a.qp, kControlled), EPERM);
        EXPECT_EQ(set_qkey(*a.qp, 0x80000000), EPERM);
        Qp fresh(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {.type = IBV_QPT_UD});
        Params params;
        params.qkey = kControlled;
        Transition t = init_transition(IBV_QPT_UD, params);
        EXPECT_EQ(fresh.modify(t.attr, t.mask), EPERM);
        EXPECT_EQ(fresh.state(), IBV_QPS_RESET);
        EXPECT_EQ(set_qkey(*a.qp, 0x33333333), 0) << "any other is free";
    });
    EXPECT_EQ(a.qp->query().qkey, 0x33333333u);
    ASSERT_EQ(set_qkey(*a.qp, kControlled), 0);
    EXPECT_EQ(a.qp->query().qkey, kControlled);
}

} // namespace
