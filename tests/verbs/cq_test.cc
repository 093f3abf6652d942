// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Completion queues: polling, events, arming, resizing, overflow.
#include <array>
#include <atomic>
#include <fstream>
#include <iterator>
#include <numeric>
#include <random>
#include <sstream>

#include <unistd.h>

#include "lib/pair.h"

using namespace vt;

namespace {

/// b receives on a CQ with a channel.
class CqCore : public PairTest {
protected:
    void SetUp() override
    {
        a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), cq.get());
        connect();
    }

    /// A zero-length message from a to b, with a receive posted for it.
    void message(std::uint64_t id, bool solicited = false)
    {
        b.qp->post_recv(id);
        SendWr wr = SendWr::send({}).id(id);
        a.qp->post(solicited ? wr.solicited() : wr);
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_SEND));
    }

    Channel channel{b.context.get()};
    Cq cq{b.context.get(), 256, &channel};
};

/// How often timers of the kernel have fired in softirqs, on all CPUs.
std::uint64_t soft_timers()
{
    std::ifstream file("/proc/softirqs");
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        if (std::string name; words >> name && name == "HRTIMER:")
            return std::accumulate(std::istream_iterator<std::uint64_t>(words), {},
                                   std::uint64_t{0});
    }
    ADD_FAILURE() << "no timers in /proc/softirqs";
    return 0;
}

TEST_F(CqCore, HasAtLeastAsManyEntriesAsAsked)
{
    for (int entries : {1, 2, 3, 100, 257, 4096})
        EXPECT_GE(Cq(b.context.get(), entries)->cqe, entries);
}

// perftest with -e asks for one entry and polls once for an event of either of its CQs. So it may
// leave a completion in the queue for each message that overtakes an ACK.
TEST_F(CqCore, SmallestTakesSomeThatAreNotPolled)
{
    EXPECT_GE(Cq(b.context.get(), 1)->cqe, 32);
}

TEST_F(CqCore, SizesOutOfRangeAreInvalid)
{
    int most = b.context.attr().max_cqe;
    for (int entries : {0, -1, most + 1}) {
        errno = 0;
        EXPECT_EQ(ibv_create_cq(b.context.get(), entries, nullptr, nullptr, 0), nullptr) << entries;
        EXPECT_EQ(errno, EINVAL);
    }
}

TEST_F(CqCore, VectorsOutOfRangeAreInvalid)
{
    errno = 0;
    EXPECT_EQ(
        ibv_create_cq(b.context.get(), 1, nullptr, nullptr, b.context.get()->num_comp_vectors),
        nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(CqCore, EveryVectorServes)
{
    for (int vector = 0; vector < b.context.get()->num_comp_vectors; vector++)
        EXPECT_EQ(Cq(b.context.get(), 4, &channel, vector).destroy(), 0);
}

TEST_F(CqCore, EmptyPollsReturnNothing)
{
    ibv_wc wc{};
    EXPECT_EQ(ibv_poll_cq(cq.get(), 1, &wc), 0);
    EXPECT_EQ(ibv_poll_cq(cq.get(), 0, &wc), 0);
}

TEST_F(CqCore, PollReturnsNoMoreThanAskedAndInOrder)
{
    for (std::uint64_t i = 0; i < 10; i++)
        message(i);
    std::array<ibv_wc, 16> wcs{};
    ASSERT_EQ(ibv_poll_cq(cq.get(), 3, wcs.data()), 3);
    ASSERT_EQ(ibv_poll_cq(cq.get(), 13, wcs.data() + 3), 7);
    for (std::uint64_t i = 0; i < 10; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RECV));
}

TEST_F(CqCore, CompletionNamesItsQp)
{
    message(5);
    ibv_wc wc = cq.one();
    EXPECT_EQ(wc.qp_num, b.qp->number());
    EXPECT_EQ(wc.byte_len, 0u);
    EXPECT_EQ(wc.vendor_err, 0u);
    EXPECT_FALSE(wc.wc_flags & (IBV_WC_WITH_IMM | IBV_WC_WITH_INV));
}

TEST_F(CqCore, UsedByAQpIsNotDestroyed)
{
    EXPECT_EQ(cq.destroy(), EBUSY);
}

TEST_F(CqCore, RingServesManyTimesItsSize)
{
    Cq small(b.context.get(), 4);
    Qp receiver(b.pd.get(), b.send_cq.get(), small.get());
    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::connect(a.context, sender, b.context, receiver);
    for (std::uint64_t i = 0; i < 300; i++) {
        receiver.post_recv(i);
        sender.post(SendWr::send({}).id(i));
        ASSERT_TRUE(is(small.one(), i, IBV_WC_RECV));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
    }
}

TEST_F(CqCore, ArmedQueueRaisesOneEvent)
{
    cq.arm();
    for (std::uint64_t i = 0; i < 5; i++)
        message(i);
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
    EXPECT_EQ(cq.wait(5).size(), 5u);
}

TEST_F(CqCore, UnarmedQueueRaisesNoEvent)
{
    message(1);
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
}

TEST_F(CqCore, RearmingRaisesAnother)
{
    for (std::uint64_t i = 0; i < 20; i++) {
        cq.arm();
        message(i);
        ASSERT_EQ(channel.wait(), cq.get());
        EXPECT_TRUE(is(cq.one(), i, IBV_WC_RECV));
    }
}

// As adapters do it: perftest polls sixteen for an event, arms, and waits for the next one.
TEST_F(CqCore, ArmingWithCompletionsInTheQueueRaisesAnEvent)
{
    cq.arm();
    for (std::uint64_t i = 0; i < 3; i++)
        message(i);
    ASSERT_EQ(channel.wait(), cq.get());
    for (std::uint64_t i = 0; i < 2; i++) {
        EXPECT_TRUE(is(cq.one(), i, IBV_WC_RECV));
        cq.arm();
        ASSERT_EQ(channel.wait(), cq.get());
    }
    EXPECT_TRUE(is(cq.one(), 2, IBV_WC_RECV));
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
}

// perftest with -e arms, then polls once for each event. It has no use for another event for the
// completion that it is about to poll: it would poll in vain, and not poll for the next one. A busy
// host may stop it for long between the two.
TEST_F(CqCore, ArmingLongBeforePollingRaisesNoSecondEvent)
{
    cq.arm();
    for (std::uint64_t i = 0; i < 30; i++) {
        message(i);
        ASSERT_EQ(channel.wait(), cq.get());
        cq.arm();
        std::this_thread::sleep_for(10ms);
        ASSERT_EQ(channel.wait(Millis(0)), nullptr);
        ASSERT_TRUE(is(cq.one(), i, IBV_WC_RECV));
    }
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
}

// The kernel looks whether a CQ is armed that is not empty. It must not keep the host awake for a
// program that is stopped, or leaves completions where they are.
TEST_F(CqCore, LeftAloneItIsSeldomLookedAt)
{
    cq.arm();
    for (std::uint64_t i = 0; i < 2; i++)
        message(i);
    ASSERT_EQ(channel.wait(), cq.get());
    std::this_thread::sleep_for(500ms);
    std::uint64_t before = soft_timers();
    std::this_thread::sleep_for(1s);
    EXPECT_LT(soft_timers() - before, 200u);
    EXPECT_TRUE(is(cq.one(), 0, IBV_WC_RECV));
    cq.arm();
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_TRUE(is(cq.one(), 1, IBV_WC_RECV));
}

TEST_F(CqCore, SolicitedArmingWithOthersInTheQueueRaisesNone)
{
    cq.arm(true);
    message(1, true);
    ASSERT_EQ(channel.wait(), cq.get());
    EXPECT_TRUE(is(cq.one(), 1, IBV_WC_RECV));
    message(2, false);
    cq.arm(true);
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
    EXPECT_TRUE(is(cq.one(), 2, IBV_WC_RECV));
}

TEST_F(CqCore, SolicitedArmingIgnoresOthers)
{
    cq.arm(true);
    message(1, false);
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
    message(2, true);
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_EQ(cq.wait(2).size(), 2u);
}

TEST_F(CqCore, SolicitedArmingCountsErrors)
{
    b.qp->post_recv(1);
    cq.arm(true);
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_TRUE(is_error(cq.one(), 1, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(CqCore, ArmingForAllReplacesArmingForSolicited)
{
    cq.arm(true);
    cq.arm(false);
    message(1, false);
    EXPECT_EQ(channel.wait(), cq.get());
}

TEST_F(CqCore, ArmingForSolicitedDoesNotWeakenArmingForAll)
{
    cq.arm(false);
    cq.arm(true);
    message(1, false);
    EXPECT_EQ(channel.wait(), cq.get());
}

TEST_F(CqCore, WriteWithImmediateCanBeSolicited)
{
    Buffer target = b.buffer(4096);
    b.qp->post_recv(1);
    cq.arm(true);
    a.qp->post(SendWr::write({}, remote(target)).imm(7).solicited().id(1));
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_TRUE(is(cq.one(), 1, IBV_WC_RECV_RDMA_WITH_IMM));
}

TEST_F(CqCore, SendCompletionsRaiseEventsToo)
{
    Channel other(a.context.get());
    Cq send_cq(a.context.get(), 16, &other);
    Qp sender(a.pd.get(), send_cq.get(), a.recv_cq.get());
    Qp receiver(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, sender, b.context, receiver);
    Buffer target = b.buffer(4096);
    send_cq.arm();
    sender.post(SendWr::write({}, remote(target)).id(3));
    EXPECT_EQ(other.wait(), send_cq.get());
    EXPECT_TRUE(is(send_cq.one(), 3, IBV_WC_RDMA_WRITE));
}

TEST_F(CqCore, ChannelIsSharedByQueues)
{
    Cq second(b.context.get(), 16, &channel);
    Qp receiver(b.pd.get(), b.send_cq.get(), second.get());
    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::connect(a.context, sender, b.context, receiver);
    cq.arm();
    second.arm();
    receiver.post_recv(1);
    sender.post(SendWr::send({}).id(1));
    EXPECT_EQ(channel.wait(), second.get());
    a.send_cq.one();
    message(2);
    EXPECT_EQ(channel.wait(), cq.get());
}

TEST_F(CqCore, ResizeKeepsWhatIsInTheQueue)
{
    for (std::uint64_t i = 0; i < 20; i++)
        message(i);
    ASSERT_EQ(ibv_resize_cq(cq.get(), 1000), 0);
    EXPECT_GE(cq->cqe, 1000);
    for (std::uint64_t i = 20; i < 40; i++)
        message(i);
    ASSERT_EQ(ibv_resize_cq(cq.get(), 64), 0);
    EXPECT_GE(cq->cqe, 64);
    for (std::uint64_t i = 40; i < 50; i++)
        message(i);
    std::vector<ibv_wc> wcs = cq.wait(50);
    for (std::uint64_t i = 0; i < 50; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RECV));
    EXPECT_TRUE(cq.quiet());
}

TEST_F(CqCore, ResizeBelowWhatIsInTheQueueIsInvalid)
{
    for (std::uint64_t i = 0; i < 40; i++)
        message(i);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 8), EINVAL);
    EXPECT_EQ(ibv_resize_cq(cq.get(), b.context.attr().max_cqe + 1), EINVAL);
    EXPECT_EQ(ibv_resize_cq(cq.get(), 0), EINVAL);
    std::vector<ibv_wc> wcs = cq.wait(40);
    for (std::uint64_t i = 0; i < 40; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RECV));
}

TEST_F(CqCore, ResizeKeepsTheQueueArmed)
{
    cq.arm();
    ASSERT_EQ(ibv_resize_cq(cq.get(), 1000), 0);
    message(1);
    EXPECT_EQ(channel.wait(), cq.get());
}

TEST_F(CqCore, ResizeUnderTrafficLosesNothing)
{
    constexpr std::uint64_t kMessages = 400;
    std::atomic<bool> stop = false;
    std::thread resizer([&] {
        for (int i = 0; !stop; i++) {
            EXPECT_EQ(ibv_resize_cq(cq.get(), i % 2 ? 900 : 200), 0);
            std::this_thread::sleep_for(1ms);
        }
    });
    for (std::uint64_t i = 0; i < kMessages; i++) {
        b.qp->post_recv(i);
        a.qp->post(SendWr::send({}).id(i));
        ibv_wc wc = cq.one();
        EXPECT_TRUE(is(wc, i, IBV_WC_RECV));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
    }
    stop = true;
    resizer.join();
}

/// Several are in the queue, and arriving, whenever it is moved.
TEST_F(CqCore, ResizeUnderAStreamLosesNothing)
{
    constexpr std::uint64_t kMessages = 2000;
    constexpr std::uint64_t kDepth = 48;
    for (std::uint64_t i = 0; i < kDepth; i++)
        b.qp->post_recv(i);
    std::atomic<bool> stop = false;
    std::thread resizer([&] {
        for (int i = 0; !stop; i++) {
            EXPECT_EQ(ibv_resize_cq(cq.get(), i % 2 ? 4000 : 64), 0);
            std::this_thread::sleep_for(std::chrono::microseconds(300));
        }
    });
    std::thread sender([&] {
        for (std::uint64_t i = 0; i < kMessages; i += 16) {
            std::vector<SendWr> chain;
            for (std::uint64_t n = 0; n < 16; n++)
                chain.push_back(SendWr::send({}).id(i + n));
            a.qp->post(std::move(chain));
            std::vector<ibv_wc> wcs = a.send_cq.wait(16);
            for (std::uint64_t n = 0; n < 16; n++)
                EXPECT_TRUE(is(wcs[n], i + n, IBV_WC_SEND));
        }
    });
    for (std::uint64_t i = 0; i < kMessages; i++) {
        ibv_wc wc = cq.one();
        EXPECT_TRUE(is(wc, i % kDepth, IBV_WC_RECV)) << i;
        b.qp->post_recv(wc.wr_id);
    }
    sender.join();
    stop = true;
    resizer.join();
    EXPECT_TRUE(cq.quiet());
}

TEST_F(CqCore, OverflowIsReportedAndNotSilent)
{
    Cq small(b.context.get(), 4);
    QpConfig config;
    config.recv_wr = static_cast<std::uint32_t>(small->cqe) + 8;
    Qp receiver(b.pd.get(), b.send_cq.get(), small.get(), config);
    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Params params;
    params.timeout = 10;
    params.retry_cnt = 1;
    vt::connect(a.context, sender, b.context, receiver, params);
    auto count = static_cast<std::uint64_t>(small->cqe) + 1;
    for (std::uint64_t i = 0; i < count; i++)
        receiver.post_recv(i);
    for (std::uint64_t i = 0; i < count; i++) {
        // The one too many may fail at the sender as well; it need not.
        sender.post(SendWr::send({}).id(i));
        a.send_cq.one();
    }
    EXPECT_EQ(b.context.wait_event(IBV_EVENT_CQ_ERR, small.get()).element, small.get());
    b.context.wait_event(IBV_EVENT_QP_FATAL, receiver.get());
    EXPECT_TRUE(receiver.reaches(IBV_QPS_ERR));
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_CQ_ERR, small.get())) << "only once";
}

/// What does not fit is lost, and nothing else: no event, no error, and what fits again comes.
TEST_F(CqCore, OverrunCanBeIgnored)
{
    ibv_cq_init_attr_ex init{};
    init.cqe = 4;
    init.wc_flags = IBV_WC_STANDARD_FLAGS;
    init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    ibv_cq *ignoring = ibv_cq_ex_to_cq(
        need(ibv_create_cq_ex(b.context.get(), &init), "ibv_create_cq_ex"));
    CqView view(ignoring);
    const auto room = static_cast<std::uint64_t>(ignoring->cqe), count = room + 3;
    {
        QpConfig config;
        config.recv_wr = static_cast<std::uint32_t>(count) + 1;
        Qp receiver(b.pd.get(), b.send_cq.get(), ignoring, config);
        Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        vt::connect(a.context, sender, b.context, receiver);
        for (std::uint64_t i = 0; i <= count; i++)
            receiver.post_recv(i);
        for (std::uint64_t i = 0; i < count; i++) {
            sender.post(SendWr::send({}).id(i));
            EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        }
        EXPECT_EQ(receiver.state(), IBV_QPS_RTS);
        std::vector<ibv_wc> wcs = view.wait(room);
        for (std::uint64_t i = 0; i < room; i++)
            EXPECT_TRUE(is(wcs[i], i, IBV_WC_RECV));
        EXPECT_TRUE(view.quiet());
        sender.post(SendWr::send({}).id(count));
        EXPECT_TRUE(is(a.send_cq.one(), count, IBV_WC_SEND));
        EXPECT_TRUE(is(view.one(), count, IBV_WC_RECV));
        EXPECT_FALSE(b.context.has_event(IBV_EVENT_CQ_ERR, ignoring));
    }
    EXPECT_EQ(ibv_destroy_cq(ignoring), 0);
}

/// Kernel users and programs spread their queues over CPUs by it.
TEST_F(CqCore, ThereAreAsManyVectorsAsCpus)
{
    EXPECT_EQ(b.context.get()->num_comp_vectors, sysconf(_SC_NPROCESSORS_ONLN));
}

TEST_F(CqCore, DestroyedQpLeavesItsCompletions)
{
    message(1);
    message(2);
    b.qp->post_recv(3);
    EXPECT_EQ(b.qp->destroy(), 0);
    ibv_wc wc{};
    // Destroying may remove completions of the QP, it must not invent any.
    for (std::uint64_t next = 1; ibv_poll_cq(cq.get(), 1, &wc) > 0; next++) {
        EXPECT_LE(next, 2u);
        EXPECT_TRUE(is(wc, next, IBV_WC_RECV));
    }
    b.qp.reset();
}

/// One side sends at irregular times, the other sleeps whenever its queue is
/// empty, in the way the manual page of ibv_get_cq_event shows.
TEST_F(CqCore, NoWakeUpIsLost)
{
    constexpr std::uint64_t kMessages = 3000;
    constexpr std::uint64_t kDepth = 32;
    for (std::uint64_t i = 0; i < kDepth; i++)
        b.qp->post_recv(i);
    cq.arm();
    std::thread sender([&] {
        std::minstd_rand random(1);
        for (std::uint64_t i = 0; i < kMessages; i++) {
            a.qp->post(SendWr::send({}).id(i));
            EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
            for (auto pause = random() % 2000; pause; pause--)
                asm volatile("");
        }
    });
    std::uint64_t received = 0;
    while (received < kMessages) {
        ibv_cq *woken = channel.wait();
        EXPECT_EQ(woken, cq.get()) << "after " << received << " of " << kMessages;
        if (!woken)
            break;
        cq.arm();
        ibv_wc wc{};
        while (ibv_poll_cq(cq.get(), 1, &wc) > 0) {
            EXPECT_TRUE(is(wc, received % kDepth, IBV_WC_RECV));
            b.qp->post_recv(received++ % kDepth);
        }
    }
    // Should one have been lost, the sender must not starve.
    while (received < kMessages) {
        cq.one();
        b.qp->post_recv(received++ % kDepth);
    }
    sender.join();
}

} // namespace
