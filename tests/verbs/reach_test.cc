// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Receives with an SGE that goes beyond its memory region, as perftest makes with SRQs. What
/// counts is where the message is written to: the region must have that, and need have no more.
#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::size_t kRegion = 100;

class ReachCore : public PairTest {
protected:
    /// Sends @p length bytes into a receive of these SGEs; the receive's completion.
    ibv_wc sent(const std::vector<ibv_sge> &sges, std::size_t length, ibv_qp_type type = IBV_QPT_RC)
    {
        start({.type = type});
        b.qp->post_recv(3, sges);
        fill(near.bytes(), 5);
        a.qp->post(SendWr::send({near.sge(0, length)}).id(7));
        return b.recv_cq.one();
    }
    /// A region of kRegion bytes, with an SGE that is longer.
    ibv_sge beyond(const Buffer &region) const { return region.sge(0, 4096); }

    Buffer near = a.buffer(8192);
    Buffer far = b.buffer(kRegion);
    Buffer other = b.buffer(4096);
};

TEST_F(ReachCore, MessageThatFitsIsReceived)
{
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC})
        for (std::size_t length : {std::size_t{1}, std::size_t{50}, kRegion}) {
            ibv_wc wc = sent({beyond(far)}, length, type);
            EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
            EXPECT_EQ(wc.byte_len, length);
            EXPECT_TRUE(same(far.bytes(0, length), near.bytes(0, length)));
            EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_SEND));
        }
}

TEST_F(ReachCore, MessageOfManyPacketsThatFits)
{
    Buffer large = b.buffer(6000);
    ibv_wc wc = sent({large.sge(0, 8192)}, 6000);
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    EXPECT_TRUE(same(large.bytes(), near.bytes(0, 6000)));
    wc = sent({large.sge(0, 8192), other.sge(0, 4096)}, 6001);
    EXPECT_TRUE(is_error(wc, 3, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ReachCore, MessageThatGoesBeyondIsAProtectionError)
{
    for (std::vector<ibv_sge> sges :
         {std::vector{beyond(far)}, std::vector{beyond(far), other.sge(0, 4096)}}) {
        ibv_wc wc = sent(sges, kRegion + 50);
        EXPECT_TRUE(is_error(wc, 3, IBV_WC_LOC_PROT_ERR));
        EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_REM_OP_ERR));
        EXPECT_TRUE(all(other.bytes(), 0)) << "the next SGE is for what comes behind 4096 bytes";
    }
}

TEST_F(ReachCore, OnlyTheLastSgeThatIsUsed)
{
    ibv_wc wc = sent({other.sge(0, 30), beyond(far), other.sge(1000, 4096)}, 30 + kRegion);
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    EXPECT_TRUE(same(other.bytes(0, 30), near.bytes(0, 30)));
    EXPECT_TRUE(same(far.bytes(), near.bytes(30, kRegion)));
    ibv_sge unknown = far.sge(0, 4096);
    unknown.lkey ^= 0x00ff00;
    wc = sent({other.sge(0, 30), unknown}, 30);
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    wc = sent({other.sge(0, 30), unknown}, 31);
    EXPECT_TRUE(is_error(wc, 3, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ReachCore, NothingOfTheRegionIsLeft)
{
    ibv_wc wc = sent({far.sge(kRegion, 4096)}, 1);
    EXPECT_TRUE(is_error(wc, 3, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ReachCore, OnDemand)
{
    Buffer region = b.buffer(kRegion, kAllAccess | IBV_ACCESS_ON_DEMAND);
    ibv_wc wc = sent({region.sge(0, 4096)}, kRegion);
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    EXPECT_TRUE(same(region.bytes(), near.bytes(0, kRegion)));
    wc = sent({region.sge(0, 4096)}, kRegion + 1);
    EXPECT_TRUE(is_error(wc, 3, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ReachCore, SharedReceiveQueue)
{
    Srq srq(b.pd.get(), 16);
    srq.post(3, {beyond(far)});
    make({}, {.srq = srq.get()});
    connect();
    fill(near.bytes(), 5);
    a.qp->post(SendWr::send({near.sge(0, 50)}).id(7));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    EXPECT_TRUE(same(far.bytes(0, 50), near.bytes(0, 50)));
    b.qp.reset();
}

TEST_F(ReachCore, Datagrams)
{
    start({.type = IBV_QPT_UD});
    Ah address = ah(a, b);
    fill(near.bytes(), 5);
    b.qp->post_recv(3, {beyond(far)});
    a.qp->post(
        SendWr::send({near.sge(0, 60)}).to(address.get(), b.qp->number(), Params{}.qkey).id(7));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, kRegion);
    EXPECT_TRUE(same(far.bytes(40, 60), near.bytes(0, 60)));
}

// All bytes of a SEND and of the sink of a READ are used.
TEST_F(ReachCore, RequestsAreCheckedAsAWhole)
{
    Buffer sink = a.buffer(kRegion);
    for (SendWr wr : {SendWr::send({sink.sge(0, kRegion + 1)}),
                      SendWr::write({sink.sge(1, kRegion)}, remote(other)),
                      SendWr::read({sink.sge(0, kRegion + 1)}, remote(other))}) {
        start();
        a.qp->post(wr.id(7));
        EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_LOC_PROT_ERR));
    }
}

} // namespace
