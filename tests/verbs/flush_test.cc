// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// ERR, SQD and SQE: flushing, draining and going on.
#include "lib/pair.h"

using namespace vt;

namespace {

class FlushCore : public PairTest {
protected:
    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

TEST_F(FlushCore, ErrFlushesReceivesInOrder)
{
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        start({.type = type});
        for (std::uint64_t i = 0; i < 30; i++)
            b.qp->post_recv(i, {far.sge(0, 100)});
        ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
        EXPECT_TRUE(flushed(b.recv_cq.wait(30), 0)) << "type " << type;
        EXPECT_TRUE(b.recv_cq.quiet());
    }
}

TEST_F(FlushCore, ErrFlushesSendsUnderWayInOrder)
{
    start();
    // No receive, rnr_retry 7: nothing completes before the flush.
    for (std::uint64_t i = 0; i < 30; i++)
        a.qp->post(i % 2 ? SendWr::send({near.sge(0, 100)}).id(i)
                         : SendWr::send({near.sge(0, 100)}).id(i).unsignaled());
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(a.send_cq.wait(30), 0)) << "signalled or not";
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(FlushCore, ErrFlushesReceivesPostedInInit)
{
    make();
    a.qp->to_init();
    a.qp->post_recv(1, {near.sge(0, 100)});
    a.qp->post_recv(2, {near.sge(0, 100)});
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(a.recv_cq.wait(2), 1));
}

TEST_F(FlushCore, WhatIsPostedInErrIsFlushed)
{
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        start({.type = type});
        Ah to_b = ah(a, b);
        ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
        for (std::uint64_t i = 0; i < 10; i++) {
            a.qp->post_recv(100 + i, {near.sge(0, 100)});
            a.qp->post(SendWr::send({near.sge(0, 100)})
                           .id(i)
                           .to(type == IBV_QPT_UD ? to_b.get() : nullptr, b.qp->number(), 0));
        }
        EXPECT_TRUE(flushed(a.send_cq.wait(10), 0)) << "type " << type;
        EXPECT_TRUE(flushed(a.recv_cq.wait(10), 100)) << "type " << type;
    }
}

TEST_F(FlushCore, FlushHappensOnlyOnce)
{
    start();
    a.qp->post_recv(1);
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(a.recv_cq.wait(1), 1));
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(a.recv_cq.quiet());
}

TEST_F(FlushCore, FlushMayExceedTheQueueOnlyAsOftenAsItIsEmptied)
{
    start({.send_wr = 16, .recv_wr = 16});
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    for (std::uint64_t i = 0; i < 200; i++) {
        a.qp->post(SendWr::send({}).id(i));
        ASSERT_TRUE(flushed(a.send_cq.wait(1), i));
    }
}

TEST_F(FlushCore, NothingIsTransmittedInErr)
{
    start();
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    fill(near.bytes(), 1);
    a.qp->post(SendWr::write({near.sge(0, 1000)}, remote(far)).id(1));
    EXPECT_TRUE(flushed(a.send_cq.wait(1), 1));
    std::this_thread::sleep_for(kQuiet);
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(FlushCore, NothingIsReceivedInErr)
{
    Params params;
    params.timeout = 10;
    params.retry_cnt = 1;
    start({}, params);
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    fill(near.bytes(), 1);
    a.qp->post(SendWr::write({near.sge(0, 1000)}, remote(far)).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(FlushCore, ErrInMidTransferStopsIt)
{
    constexpr std::uint64_t kMany = 32; // on one device 8 MiB are moved in some milliseconds
    Buffer source = a.buffer(8 << 20);
    Buffer target = b.buffer(8 << 20);
    for (int round = 0; round < 5; round++) {
        start();
        for (std::uint64_t i = 0; i + 1 < kMany; i++)
            a.qp->post(SendWr::write({source.sge(0, 8 << 20)}, remote(target)).id(i));
        // For this one there is never a receive: however fast the host is, something is left.
        a.qp->post(SendWr::send({source.sge(0, 8)}).id(kMany - 1));
        std::this_thread::sleep_for(Millis(round * 3));
        ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
        std::vector<ibv_wc> wcs = a.send_cq.wait(kMany);
        bool failed = false;
        for (std::uint64_t i = 0; i < kMany; i++) {
            EXPECT_EQ(wcs[i].wr_id, i);
            failed |= wcs[i].status != IBV_WC_SUCCESS;
            EXPECT_EQ(wcs[i].status, failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
        }
        EXPECT_TRUE(failed);
    }
}

TEST_F(FlushCore, ResetInMidTransferIsSilent)
{
    Buffer source = a.buffer(8 << 20);
    Buffer target = b.buffer(8 << 20);
    start();
    for (std::uint64_t i = 0; i < 8; i++)
        a.qp->post(SendWr::write({source.sge(0, 8 << 20)}, remote(target)).id(i));
    ASSERT_EQ(a.qp->move(IBV_QPS_RESET), 0);
    ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
    ibv_wc wc{};
    std::uint64_t next = 0;
    while (ibv_poll_cq(a.send_cq.get(), 1, &wc) > 0)
        EXPECT_TRUE(is(wc, next++, IBV_WC_RDMA_WRITE)) << "only what was done before";
    EXPECT_LT(next, 8u);
    EXPECT_TRUE(a.send_cq.quiet());
    connect();
    expect_works();
}

// ---- SQD ----

class SqdCore : public FlushCore {
protected:
    void drain(bool notify)
    {
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_SQD;
        attr.en_sqd_async_notify = notify;
        ASSERT_EQ(a.qp->modify(attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    }
};

TEST_F(SqdCore, IdleQueueIsDrainedAtOnce)
{
    start();
    drain(true);
    a.context.wait_event(IBV_EVENT_SQ_DRAINED, a.qp->get());
    ibv_qp_attr attr = a.qp->query();
    EXPECT_EQ(attr.qp_state, IBV_QPS_SQD);
    EXPECT_EQ(attr.sq_draining, 0);
}

TEST_F(SqdCore, NoEventUnlessAskedFor)
{
    start();
    drain(false);
    EXPECT_FALSE(a.context.has_event(IBV_EVENT_SQ_DRAINED, a.qp->get()));
}

TEST_F(SqdCore, DrainedOnlyWhenWhatWasBegunIsDone)
{
    start();
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(1)); // waits for a receive
    std::this_thread::sleep_for(20ms);
    drain(true);
    EXPECT_FALSE(a.context.has_event(IBV_EVENT_SQ_DRAINED, a.qp->get()));
    EXPECT_EQ(a.qp->query().sq_draining, 1);
    b.qp->post_recv(2, {far.sge(0, 100)});
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    a.context.wait_event(IBV_EVENT_SQ_DRAINED, a.qp->get());
    EXPECT_EQ(a.qp->query().sq_draining, 0);
}

TEST_F(SqdCore, WhatIsPostedInSqdWaitsForRts)
{
    start();
    drain(true);
    a.context.wait_event(IBV_EVENT_SQ_DRAINED, a.qp->get());
    fill(near.bytes(), 1);
    a.qp->post(SendWr::write({near.sge(0, 1000)}, remote(far)).id(1));
    EXPECT_TRUE(a.send_cq.quiet());
    EXPECT_TRUE(all(far.bytes(), 0));
    ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(0, 1000), 1));
}

TEST_F(SqdCore, ReceivingGoesOn)
{
    start();
    drain(true);
    a.context.wait_event(IBV_EVENT_SQ_DRAINED, a.qp->get());
    a.qp->post_recv(1, {near.sge(0, 1000)});
    fill(far.bytes(), 2);
    b.qp->post(SendWr::send({far.sge(0, 1000)}).id(2));
    EXPECT_TRUE(is(b.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(a.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(near.bytes(0, 1000), 2));
    b.qp->post(SendWr::read({far.sge(4096, 500)}, remote(near)).id(3));
    EXPECT_TRUE(is(b.send_cq.one(), 3, IBV_WC_RDMA_READ));
}

TEST_F(SqdCore, ErrFlushesWhatWaits)
{
    start();
    drain(true);
    for (std::uint64_t i = 0; i < 5; i++)
        a.qp->post(SendWr::send({}).id(i));
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(a.send_cq.wait(5), 0));
}

TEST_F(SqdCore, ManyRoundsLoseNothing)
{
    start({.send_wr = 128});
    std::uint64_t done = 0;
    for (int round = 0; round < 20; round++) {
        for (std::uint64_t i = 0; i < 20; i++)
            a.qp->post(SendWr::write({near.sge(0, 3000)}, remote(far)).id(done + i));
        drain(true);
        a.context.wait_event(IBV_EVENT_SQ_DRAINED, a.qp->get());
        ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
        std::vector<ibv_wc> wcs = a.send_cq.wait(20);
        for (const ibv_wc &wc : wcs)
            ASSERT_TRUE(is(wc, done++, IBV_WC_RDMA_WRITE));
    }
}

// ---- SQE ----

class SqeCore : public FlushCore {
protected:
    ibv_sge bad() const
    {
        ibv_sge sge = near.sge(0, 100);
        sge.lkey ^= 0x00ff00;
        return sge;
    }
    SendWr send(ibv_sge sge, std::uint64_t id)
    {
        SendWr wr = SendWr::send({sge}).id(id);
        return a.qp->get()->qp_type == IBV_QPT_UD
                   ? wr.to(to_b->get(), b.qp->number(), Params{}.qkey)
                   : wr;
    }
    void start_type(ibv_qp_type type)
    {
        start({.type = type});
        to_b.emplace(ah(a, b));
    }
    void TearDown() override
    {
        to_b.reset();
        PairTest::TearDown();
    }
    std::optional<Ah> to_b;
};

TEST_F(SqeCore, SendErrorOfAnUnreliableQpStopsOnlyItsSending)
{
    for (ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
        start_type(type);
        a.qp->post_recv(50, {near.sge(8192, 4096)});
        a.qp->post({send(near.sge(0, 10), 1), send(bad(), 2), send(near.sge(0, 10), 3)});
        std::vector<ibv_wc> wcs = a.send_cq.wait(3);
        EXPECT_TRUE(is(wcs[0], 1, IBV_WC_SEND));
        EXPECT_TRUE(is_error(wcs[1], 2, IBV_WC_LOC_PROT_ERR));
        EXPECT_TRUE(is_error(wcs[2], 3, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(a.qp->reaches(IBV_QPS_SQE)) << "type " << type;
        EXPECT_TRUE(a.recv_cq.quiet()) << "receives are not flushed";
    }
}

TEST_F(SqeCore, PostingInSqeFlushes)
{
    start_type(IBV_QPT_UD);
    a.qp->post(send(bad(), 1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
    ASSERT_TRUE(a.qp->reaches(IBV_QPS_SQE));
    a.qp->post(send(near.sge(0, 10), 2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(SqeCore, ReceivingGoesOnAndRtsMendsIt)
{
    for (ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
        start_type(type);
        a.qp->post(send(bad(), 1));
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
        ASSERT_TRUE(a.qp->reaches(IBV_QPS_SQE));

        a.qp->post_recv(50, {near.sge(8192, 4096)});
        Ah to_a = ah(b, a);
        SendWr reply = SendWr::send({far.sge(0, 10)}).id(2);
        b.qp->post(type == IBV_QPT_UD ? reply.to(to_a.get(), a.qp->number(), Params{}.qkey)
                                      : reply);
        EXPECT_TRUE(is(b.send_cq.one(), 2, IBV_WC_SEND));
        EXPECT_TRUE(is(a.recv_cq.one(), 50, IBV_WC_RECV));

        ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
        b.qp->post_recv(60, {far.sge(8192, 4096)});
        a.qp->post(send(near.sge(0, 10), 3));
        EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_SEND));
        EXPECT_TRUE(is(b.recv_cq.one(), 60, IBV_WC_RECV)) << "type " << type;
    }
}

TEST_F(SqeCore, LongQueuesAreFlushedToTheirEndBeforeRts)
{
    constexpr std::size_t kMany = 8000;
    Cq cq(a.context.get(), 16384);
    a.qp = std::make_unique<Qp>(a.pd.get(), cq.get(), a.recv_cq.get(),
                                QpConfig{.type = IBV_QPT_UC, .send_wr = kMany + 1});
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(),
                                QpConfig{.type = IBV_QPT_UC});
    connect();
    std::vector<SendWr> wrs = {SendWr::send({bad()}).id(0)};
    for (std::size_t i = 1; i <= kMany; i++)
        wrs.push_back(SendWr::send({near.sge(0, 8)}).id(i));
    a.qp->post(std::move(wrs));
    ASSERT_TRUE(a.qp->reaches(IBV_QPS_SQE));
    ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
    EXPECT_TRUE(is_error(cq.one(), 0, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(flushed(cq.wait(kMany), 1));
    a.qp.reset();
}

TEST_F(SqeCore, SqeCanBeLeftForErrAndReset)
{
    for (ibv_qp_state next : {IBV_QPS_ERR, IBV_QPS_RESET}) {
        start_type(IBV_QPT_UD);
        a.qp->post(send(bad(), 1));
        a.send_cq.one();
        ASSERT_TRUE(a.qp->reaches(IBV_QPS_SQE));
        EXPECT_EQ(a.qp->move(next), 0);
        EXPECT_EQ(a.qp->state(), next);
    }
}

} // namespace
