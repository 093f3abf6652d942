// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Each status with which a work request can fail over RC, at both ends.
#include <algorithm>
#include <iostream>
#include <set>

#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/process.h"
#include "lib/thread.h"

using namespace vt;

namespace {

class ErrorCore : public PairTest {
protected:
    /// What a gets for @p wr, over a connection made with @p params.
    ibv_wc result_of(SendWr wr, const Params &params = quick())
    {
        if (!a.qp)
            start({.send_sge = 4, .recv_sge = 4}, params);
        a.qp->post(wr.id(7));
        return a.send_cq.one();
    }
    static Params quick()
    {
        Params params;
        params.timeout = 12;
        params.retry_cnt = 2;
        return params;
    }
    /// A time-out of 4.096 us * 2^exponent.
    static Millis timeout(unsigned exponent)
    {
        return std::chrono::duration_cast<Millis>(4096ns * (1u << exponent));
    }
    void expect_both_in_error()
    {
        EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
        EXPECT_TRUE(b.qp->reaches(IBV_QPS_ERR));
    }

    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

// ---- local errors of the requester ----

TEST_F(ErrorCore, UnknownLkeyIsALocalProtectionError)
{
    ibv_sge sge = near.sge(0, 100);
    sge.lkey ^= 0x00ff00;
    EXPECT_TRUE(is_error(result_of(SendWr::write({sge}, remote(far))), 7, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
    EXPECT_EQ(b.qp->state(), IBV_QPS_RTS) << "the peer learns nothing of it";
}

TEST_F(ErrorCore, SgeBeyondItsRegionIsALocalProtectionError)
{
    EXPECT_TRUE(
        is_error(result_of(SendWr::write({near.sge(0, 8), near.sge(16000, 385)}, remote(far))), 7,
                 IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(ErrorCore, LastSgeBadLeavesTheTargetUntouched)
{
    start({}, quick());
    fill(near.bytes(), 1);
    ibv_sge bad = near.sge(0, 100);
    bad.lkey ^= 0x00ff00;
    EXPECT_TRUE(is_error(result_of(SendWr::write({near.sge(0, 100), bad}, remote(far))), 7,
                         IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(all(far.bytes(), 0)) << "checked before it is sent";
}

TEST_F(ErrorCore, ReadWithoutInitiatorDepthIsAnOperationError)
{
    Params params = quick();
    params.rd_atomic = 0;
    start({}, params);
    int result = a.qp->try_post(SendWr::read({near.sge(0, 8)}, remote(far)).id(7));
    if (result)
        EXPECT_EQ(result, EINVAL);
    else
        EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_LOC_QP_OP_ERR));
}

TEST_F(ErrorCore, AtomicWithTooLittleRoomIsALengthError)
{
    start({}, quick());
    for (std::size_t length : {0u, 4u, 7u}) {
        start({}, quick());
        int result = a.qp->try_post(SendWr::fetch_add(near.sge(0, length), remote(far), 1).id(7));
        if (result)
            EXPECT_EQ(result, EINVAL);
        else
            EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_LOC_LEN_ERR));
        EXPECT_EQ(far.word(0), 0u);
    }
}

// ---- refused by the responder ----

TEST_F(ErrorCore, UnknownRkeyIsARemoteAccessError)
{
    Remote to = remote(far);
    to.rkey ^= 0x00ff00;
    for (SendWr wr :
         {SendWr::write({near.sge(0, 5000)}, to), SendWr::read({near.sge(0, 5000)}, to),
          SendWr::fetch_add(near.sge(0, 8), to, 1), SendWr::write({near.sge(0, 1)}, to)}) {
        start({}, quick());
        EXPECT_TRUE(is_error(result_of(wr), 7, IBV_WC_REM_ACCESS_ERR));
        expect_both_in_error();
        b.context.wait_event(IBV_EVENT_QP_ACCESS_ERR, b.qp->get());
    }
    EXPECT_TRUE(all(far.bytes(), 0));
    EXPECT_TRUE(all(near.bytes(), 0));
}

TEST_F(ErrorCore, RangeBeyondTheRegionIsARemoteAccessError)
{
    for (SendWr wr : {SendWr::write({near.sge(0, 5000)}, remote(far, 16384 - 4999)),
                      SendWr::read({near.sge(0, 5000)}, remote(far, 16384 - 4999)),
                      SendWr::fetch_add(near.sge(0, 8), remote(far, 16384), 1)}) {
        start({}, quick());
        EXPECT_TRUE(is_error(result_of(wr), 7, IBV_WC_REM_ACCESS_ERR));
        expect_both_in_error();
    }
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(ErrorCore, OperationThatTheQpDoesNotAllowIsAnInvalidRequest)
{
    for (unsigned lacks :
         {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_ATOMIC}) {
        Params params = quick();
        params.access &= ~lacks;
        start({}, params);
        SendWr wr = lacks == IBV_ACCESS_REMOTE_WRITE ? SendWr::write({near.sge(0, 8)}, remote(far))
                    : lacks == IBV_ACCESS_REMOTE_READ
                        ? SendWr::read({near.sge(0, 8)}, remote(far))
                        : SendWr::fetch_add(near.sge(0, 8), remote(far), 1);
        EXPECT_TRUE(is_error(result_of(wr), 7, IBV_WC_REM_INV_REQ_ERR)) << lacks;
        expect_both_in_error();
        b.context.wait_event(IBV_EVENT_QP_REQ_ERR, b.qp->get());
    }
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(ErrorCore, MisalignedAtomicIsAnInvalidRequest)
{
    for (std::size_t offset : {1u, 4u, 7u}) {
        start({}, quick());
        EXPECT_TRUE(is_error(result_of(SendWr::fetch_add(near.sge(0, 8), remote(far, offset), 1)),
                             7, IBV_WC_REM_INV_REQ_ERR));
        expect_both_in_error();
        b.context.wait_event(IBV_EVENT_QP_REQ_ERR, b.qp->get());
    }
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(ErrorCore, ReadWithoutResponderResourcesIsAnInvalidRequest)
{
    Params params = quick();
    params.dest_rd_atomic = 0;
    EXPECT_TRUE(is_error(result_of(SendWr::read({near.sge(0, 8)}, remote(far)), params), 7,
                         IBV_WC_REM_INV_REQ_ERR));
}

TEST_F(ErrorCore, MessageLongerThanTheReceiveIsALengthErrorThereAndInvalidHere)
{
    for (std::size_t length : {101u, 5000u}) {
        start({}, quick());
        fill(near.bytes(), 1);
        b.qp->post_recv(3, {far.sge(0, 60), far.sge(100, 40)});
        EXPECT_TRUE(
            is_error(result_of(SendWr::send({near.sge(0, length)})), 7, IBV_WC_REM_INV_REQ_ERR));
        EXPECT_TRUE(is_error(b.recv_cq.one(), 3, IBV_WC_LOC_LEN_ERR));
        EXPECT_TRUE(all(far.bytes(60, 40), 0)) << "never beyond the SGEs";
        EXPECT_TRUE(all(far.bytes(140, 5000), 0));
        expect_both_in_error();
    }
}

TEST_F(ErrorCore, ReceiveIntoABadRegionIsAProtectionErrorThereAndAnOperationErrorHere)
{
    Buffer closed = b.buffer(4096, 0);
    ibv_sge unknown = far.sge(0, 100);
    unknown.lkey ^= 0x00ff00;
    for (ibv_sge sge : {unknown, closed.sge(0, 100), far.sge(16384 - 50, 100)}) {
        start({}, quick());
        b.qp->post_recv(3, {sge});
        EXPECT_TRUE(is_error(result_of(SendWr::send({near.sge(0, 90)})), 7, IBV_WC_REM_OP_ERR));
        EXPECT_TRUE(is_error(b.recv_cq.one(), 3, IBV_WC_LOC_PROT_ERR));
        expect_both_in_error();
    }
}

TEST_F(ErrorCore, RightsWithdrawnInRtsAreGone)
{
    for (auto [right, wr] :
         {std::pair{IBV_ACCESS_REMOTE_WRITE, SendWr::write({near.sge(0, 100)}, remote(far))},
          {IBV_ACCESS_REMOTE_READ, SendWr::read({near.sge(0, 100)}, remote(far))},
          {IBV_ACCESS_REMOTE_ATOMIC, SendWr::fetch_add(near.sge(0, 8), remote(far), 1)}}) {
        start({}, quick());
        /* Whatever the responder may remember of it. */
        EXPECT_EQ(result_of(wr).status, IBV_WC_SUCCESS);
        ibv_qp_attr attr{};
        attr.qp_access_flags = Params{}.access & ~static_cast<unsigned>(right);
        ASSERT_EQ(b.qp->modify(attr, IBV_QP_ACCESS_FLAGS), 0);
        EXPECT_TRUE(is_error(result_of(wr), 7, IBV_WC_REM_INV_REQ_ERR)) << right;
    }
}

// ---- nobody answers ----

class RetryCore : public ErrorCore {
protected:
    /// After an RNR NAK, what a retry may wait for those of others.
    static inline const Millis kRetryDelay = patience_factor() * 30ms;
    /// a sends to what b's QP is; checks that it gives up in the time that the parameters promise.
    void expect_gives_up(const Params &params)
    {
        Stopwatch watch;
        a.qp->post(SendWr::send({near.sge(0, 100)}).id(7));
        ibv_wc wc = a.send_cq.one();
        Millis took = watch.elapsed();
        EXPECT_TRUE(is_error(wc, 7, IBV_WC_RETRY_EXC_ERR));
        // 9.7.6.1.3: each time-out takes at least T and at most 4 T.
        Millis one = timeout(params.timeout) * (params.retry_cnt + 1);
        EXPECT_GE(took + 1ms, one);
        EXPECT_LE(took, 4 * one + kLate);
        EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
    }
    static Params slow()
    {
        Params params;
        params.timeout = 14; // 67 ms
        params.retry_cnt = 3;
        return params;
    }
};

TEST_F(RetryCore, PeerThatIsDestroyedExhaustsTheRetries)
{
    start({}, slow());
    expect_works();
    ASSERT_EQ(b.qp->destroy(), 0);
    b.qp.reset();
    expect_gives_up(slow());
}

TEST_F(RetryCore, PeerInResetExhaustsTheRetries)
{
    start({}, slow());
    ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
    expect_gives_up(slow());
}

TEST_F(RetryCore, PeerInErrorExhaustsTheRetries)
{
    start({}, slow());
    b.qp->post_recv(3, {far.sge(0, 4096)});
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    expect_gives_up(slow());
    EXPECT_TRUE(is_error(b.recv_cq.one(), 3, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(RetryCore, NoRetriesMeansOneTimeout)
{
    Params params;
    params.timeout = 15;
    params.retry_cnt = 0;
    start({}, params);
    ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
    expect_gives_up(params);
}

TEST_F(RetryCore, TimeoutAndRetriesSetInSqdCount)
{
    Params params;
    params.timeout = 20; // 4.3 s
    start({}, params);
    ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
    ASSERT_EQ(a.qp->move(IBV_QPS_SQD), 0);
    params.timeout = 15;
    params.retry_cnt = 0;
    ibv_qp_attr attr{};
    attr.timeout = params.timeout;
    attr.retry_cnt = params.retry_cnt;
    ASSERT_EQ(a.qp->modify(attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT), 0);
    ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
    expect_gives_up(params);
}

TEST_F(RetryCore, ReadsAndAtomicsGiveUpToo)
{
    for (SendWr wr : {SendWr::read({near.sge(0, 5000)}, remote(far)),
                      SendWr::fetch_add(near.sge(0, 8), remote(far), 1)}) {
        start({}, quick());
        ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
        EXPECT_TRUE(is_error(result_of(wr), 7, IBV_WC_RETRY_EXC_ERR));
    }
}

TEST_F(RetryCore, TimeoutZeroWaitsForEver)
{
    Params params = quick();
    params.timeout = 0;
    start({}, params);
    ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(7));
    EXPECT_TRUE(a.send_cq.quiet(700ms));
    EXPECT_EQ(a.qp->state(), IBV_QPS_RTS);
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(RetryCore, MessageLostAtFirstArrivesByARetry)
{
    Params params;
    params.timeout = 14;
    params.retry_cnt = 7;
    make();
    a.qp->to_init(params);
    a.qp->to_rtr(params, address_of(a.context, b.context), b.qp->number());
    a.qp->to_rts(params);
    fill(near.bytes(), 6);
    a.qp->post(SendWr::send({near.sge(0, 9000)}).id(1));
    a.qp->post(SendWr::write({near.sge(0, 100)}, remote(far, 10000)).id(2));
    std::this_thread::sleep_for(100ms); // the first packets find a QP in RESET
    b.qp->to_init(params);
    b.qp->post_recv(3, {far.sge(0, 9000)});
    b.qp->to_rtr(params.mirrored(), address_of(b.context, a.context), a.qp->number());
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 3, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 9000), 6));
    EXPECT_TRUE(filled(far.bytes(10000, 100), 6));
}

// ---- receiver not ready ----

TEST_F(RetryCore, NoReceiveExhaustsTheRnrRetries)
{
    Params params;
    params.min_rnr_timer = 24; // 40.96 ms
    params.rnr_retry = 3;
    start({}, params);
    Stopwatch watch;
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(7));
    EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_RNR_RETRY_EXC_ERR));
    Millis took = watch.elapsed();
    EXPECT_GE(took, 3 * 40ms);
    EXPECT_LE(took, 3 * 4 * 41ms + kLate);
    EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
    EXPECT_EQ(b.qp->state(), IBV_QPS_RTS);
}

TEST_F(RetryCore, RnrRetryZeroGivesUpAtOnce)
{
    Params params;
    params.min_rnr_timer = 31; // 491 ms
    params.rnr_retry = 0;
    start({}, params);
    Stopwatch watch;
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(7));
    EXPECT_TRUE(is_error(a.send_cq.one(), 7, IBV_WC_RNR_RETRY_EXC_ERR));
    EXPECT_LT(watch.elapsed(), 480ms);
}

TEST_F(RetryCore, RnrRetrySevenWaitsUntilAReceiveIsPosted)
{
    Params params;
    params.min_rnr_timer = 14; // 1.28 ms
    params.rnr_retry = 7;
    params.retry_cnt = 1;
    start({}, params);
    fill(near.bytes(), 2);
    a.qp->post(SendWr::send({near.sge(0, 9000)}).id(1));
    a.qp->post(SendWr::write({near.sge(0, 10)}, remote(far, 12000)).imm(1).id(2));
    EXPECT_TRUE(a.send_cq.quiet(500ms));
    b.qp->post_recv(3, {far.sge(0, 9000)});
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(a.send_cq.quiet(200ms));
    b.qp->post_recv(4);
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 3, IBV_WC_RECV));
    EXPECT_TRUE(is(b.recv_cq.one(), 4, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_TRUE(filled(far.bytes(0, 9000), 2));
}

TEST_F(RetryCore, WhoHasToPostTheReceivesGetsTheCpu)
{
    constexpr std::size_t kQps = 32;
    Params params;
    params.min_rnr_timer = 1; // 10 us: all together ask far more often than they can be answered
    params.rnr_retry = 7;
    OneCpu pinned; // and with it the timers of what it posts
    std::vector<std::unique_ptr<Qp>> senders, receivers;
    for (std::size_t i = 0; i < kQps; i++) {
        senders.push_back(std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get()));
        receivers.push_back(std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get()));
        vt::connect(a.context, *senders[i], b.context, *receivers[i], params);
        senders[i]->post(SendWr::send({near.sge(0, 64)}).id(i));
    }
    EXPECT_TRUE(a.send_cq.quiet(300ms));
    for (std::size_t i = 0; i < kQps; i++)
        receivers[i]->post_recv(i, {far.sge(0, 64)});
    std::set<std::uint64_t> done;
    for (const ibv_wc &wc : a.send_cq.wait(kQps)) {
        EXPECT_TRUE(is(wc, wc.wr_id, IBV_WC_SEND));
        done.insert(wc.wr_id);
    }
    EXPECT_EQ(done.size(), kQps);
}

TEST_F(RetryCore, RnrRetriesOfOthersDoNotDelayOnesOwn)
{
    constexpr std::size_t kQps = 32;
    constexpr std::size_t kLong = 1 << 20;
    Buffer from = a.buffer(kLong);
    Params params;
    params.min_rnr_timer = 1;
    params.rnr_retry = 7;
    std::vector<std::unique_ptr<Qp>> senders, receivers;
    for (std::size_t i = 0; i < kQps; i++) {
        senders.push_back(std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get()));
        receivers.push_back(std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get()));
        vt::connect(a.context, *senders[i], b.context, *receivers[i], params);
        senders[i]->post(SendWr::send({from.sge(0, kLong)}).id(i));
    }
    // A process that has nothing to do with theirs, but is refused as often.
    pid_t child = in_child([&] {
        End near_end(device_a()), far_end(device_b());
        Qp near_qp(near_end.pd.get(), near_end.send_cq.get(), near_end.recv_cq.get());
        Qp far_qp(far_end.pd.get(), far_end.send_cq.get(), far_end.recv_cq.get());
        vt::connect(near_end.context, near_qp, far_end.context, far_qp, params);
        std::vector<Millis> took;
        for (std::uint64_t i = 0; i < 21; i++) {
            near_qp.post(SendWr::send({}).id(i));
            std::this_thread::sleep_for(20ms);
            Stopwatch watch;
            far_qp.post_recv(i);
            if (!is(near_end.send_cq.one(), i, IBV_WC_SEND))
                return 1;
            took.push_back(watch.elapsed());
            far_end.recv_cq.one();
        }
        std::sort(took.begin(), took.end());
        std::cout << "the median was " << took[took.size() / 2].count() << " ms, the longest "
                  << took.back().count() << " ms\n";
        return took[took.size() / 2] < kRetryDelay ? 0 : 2;
    });
    EXPECT_TRUE(ends_with(child, 0));
    EXPECT_TRUE(a.send_cq.quiet(0ms));
}

TEST_F(RetryCore, RnrRetriesStartAnewWithEachMessage)
{
    Params params;
    params.min_rnr_timer = 22; // 20.48 ms
    params.rnr_retry = 6;
    start({}, params);
    for (std::uint64_t i = 0; i < 8; i++) {
        a.qp->post(SendWr::send({near.sge(0, 100)}).id(i));
        std::this_thread::sleep_for(50ms);
        b.qp->post_recv(i, {far.sge(0, 100)});
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
    }
}

// ---- what follows an error ----

TEST_F(ErrorCore, RequestsBehindTheFailedOneAreFlushedInOrder)
{
    start({}, quick());
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    std::vector<SendWr> chain;
    for (std::uint64_t i = 0; i < 3; i++)
        chain.push_back(SendWr::write({near.sge(0, 100)}, remote(far)).id(i));
    chain.push_back(SendWr::write({near.sge(0, 100)}, bad).id(3));
    for (std::uint64_t i = 4; i < 20; i++)
        chain.push_back(i % 3 ? SendWr::write({near.sge(0, 100)}, remote(far)).id(i)
                              : SendWr::read({near.sge(0, 100)}, remote(far)).id(i));
    a.qp->post(chain);
    std::vector<ibv_wc> wcs = a.send_cq.wait(20);
    for (std::uint64_t i = 0; i < 3; i++)
        EXPECT_TRUE(is(wcs[i], i, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is_error(wcs[3], 3, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(flushed({wcs.begin() + 4, wcs.end()}, 4));
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(ErrorCore, UnsignalledRequestsCompleteIfTheyFail)
{
    start({}, quick());
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    a.qp->post({SendWr::write({near.sge(0, 8)}, remote(far)).id(1).unsignaled(),
                SendWr::write({near.sge(0, 8)}, bad).id(2).unsignaled(),
                SendWr::write({near.sge(0, 8)}, remote(far)).id(3).unsignaled()});
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(is_error(a.send_cq.one(), 3, IBV_WC_WR_FLUSH_ERR));
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(ErrorCore, FailedCompletionsNameTheirQp)
{
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    ibv_wc wc = result_of(SendWr::write({near.sge(0, 8)}, bad));
    EXPECT_EQ(wc.qp_num, a.qp->number());
}

TEST_F(ErrorCore, ReceivesOfBothEndsAreFlushed)
{
    start({}, quick());
    for (std::uint64_t i = 0; i < 10; i++) {
        a.qp->post_recv(100 + i);
        b.qp->post_recv(200 + i);
    }
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    a.qp->post(SendWr::write({near.sge(0, 8)}, bad).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(flushed(a.recv_cq.wait(10), 100));
    EXPECT_TRUE(flushed(b.recv_cq.wait(10), 200));
}

TEST_F(ErrorCore, FailedQpsWorkAgainAfterReset)
{
    start({}, quick());
    for (int round = 0; round < 3; round++) {
        Remote bad = remote(far);
        bad.rkey ^= 0x00ff00;
        a.qp->post(SendWr::write({near.sge(0, 8)}, bad).id(1));
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
        ASSERT_EQ(a.qp->move(IBV_QPS_RESET), 0);
        ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
        connect();
        expect_works();
    }
}

} // namespace
