// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Receives with an SGE that goes beyond its memory region, as perftest makes with SRQs. What
/// counts is where the message is written to: the region must have that, and need have no more.
#include <algorithm>
#include <cstring>

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

// The network header alone, and a datagram that has no payload.
TEST_F(ReachCore, NetworkHeaderOfADatagram)
{
    start({.type = IBV_QPT_UD});
    Ah address = ah(a, b);
    Buffer header = b.buffer(40);
    Srq srq(b.pd.get(), 16);
    for (bool shared : {false, true}) {
        if (shared) {
            make({.type = IBV_QPT_UD}, {.type = IBV_QPT_UD, .srq = srq.get()});
            connect();
            srq.post(3, {header.sge(0, 4096)});
        } else {
            b.qp->post_recv(3, {header.sge(0, 4096)});
        }
        a.qp->post(SendWr::send({}).to(address.get(), b.qp->number(), Params{}.qkey).id(7));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, 3, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, 40U);
        EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_SEND));
    }
    b.qp.reset();
}

// A WRITE with immediate data uses up a receive, and nothing of its memory.
TEST_F(ReachCore, ReceiveOfImmediateData)
{
    start();
    ibv_sge unknown = far.sge(0, 4096);
    unknown.lkey ^= 0x00ff00;
    for (const ibv_sge &sge : {far.sge(kRegion, 4096), unknown}) {
        b.qp->post_recv(3, {sge});
        a.qp->post(SendWr::write({near.sge(0, 50)}, remote(other)).imm(1).id(7));
        EXPECT_TRUE(is(b.recv_cq.one(), 3, IBV_WC_RECV_RDMA_WITH_IMM));
        EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_RDMA_WRITE));
    }
}

// The result of an atomic has 8 bytes, however much room there is for it.
TEST_F(ReachCore, ResultOfAnAtomic)
{
    start();
    Buffer result = a.buffer(8);
    Buffer on_demand = a.buffer(8, kOnDemand);
    ibv_sge unknown = near.sge(0, 8);
    unknown.lkey ^= 0x00ff00;
    std::uint64_t value = 0;
    for (const std::vector<ibv_sge> &sges : {std::vector{result.sge(0, 4096)},
                                             {on_demand.sge(0, 4096)},
                                             {result.sge(0, 8), unknown},
                                             {result.sge(0, 3), on_demand.sge(0, 4096), unknown}}) {
        SendWr wr = SendWr::fetch_add(sges[0], remote(other), 1).id(7);
        for (std::size_t i = 1; i < sges.size(); i++)
            wr.add(sges[i]);
        a.qp->post(wr);
        ibv_wc wc = a.send_cq.one();
        EXPECT_TRUE(is(wc, 7, IBV_WC_FETCH_ADD));
        EXPECT_EQ(wc.byte_len, 8U);
        std::uint8_t got[8];
        const std::size_t first = std::min<std::size_t>(sges[0].length, 8);
        std::memcpy(got, reinterpret_cast<const void *>(sges[0].addr), first);
        if (first < 8)
            std::memcpy(got + first, reinterpret_cast<const void *>(sges[1].addr), 8 - first);
        EXPECT_EQ(std::memcmp(got, &value, 8), 0);
        value++;
    }
    EXPECT_EQ(other.word(0), value);
    Buffer small = a.buffer(7);
    a.qp->post(SendWr::fetch_add(small.sge(0, 4096), remote(other), 1).id(8));
    EXPECT_TRUE(is_error(a.send_cq.one(), 8, IBV_WC_LOC_PROT_ERR));
    EXPECT_EQ(other.word(0), value);
}

// A window's bounds are those of what a peer uses of it.
TEST_F(ReachCore, WindowsAndRegionsOfPeers)
{
    start();
    Buffer source = a.buffer(4096);
    for (SendWr wr : {SendWr::write({source.sge(0, kRegion)}, remote(far)),
                      SendWr::read({source.sge(0, kRegion)}, remote(far)),
                      SendWr::write({}, {~0ULL, 0x1234}), SendWr::read({}, {~0ULL, 0x1234})}) {
        a.qp->post(wr.id(7));
        EXPECT_EQ(a.send_cq.one().status, IBV_WC_SUCCESS);
    }
    ibv_mw *window = ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_1);
    ASSERT_NE(window, nullptr);
    Buffer memory = b.buffer(4096, kAllAccess | IBV_ACCESS_MW_BIND);
    ibv_mw_bind bind{};
    bind.wr_id = 9;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info = {memory.mr().get(), memory.address(10), kRegion,
                      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ};
    ASSERT_EQ(ibv_bind_mw(b.qp->get(), window, &bind), 0);
    EXPECT_TRUE(is(b.send_cq.one(), 9, IBV_WC_BIND_MW));
    a.qp->post(SendWr::write({source.sge(0, kRegion)}, {memory.address(10), window->rkey}).id(7));
    EXPECT_TRUE(is(a.send_cq.one(), 7, IBV_WC_RDMA_WRITE));
    a.qp->post(
        SendWr::write({source.sge(0, kRegion + 1)}, {memory.address(10), window->rkey}).id(7));
    EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(ibv_dealloc_mw(window), 0);
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
