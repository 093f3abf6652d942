/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The verbs' rules for posting and polling, over rings in plain memory. */
#include "plain_ring.h"
#include "queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <vector>

namespace rox::test {
namespace {

constexpr uint32_t entries = 4;

class SendQueueTest : public testing::Test {
protected:
    void SetUp() override
    {
        queue.attach(plain.view(), entries, {.type = IBV_QPT_RC, .max_sge = 2, .max_inline = 32});
        queue.set_accepting(true);
        for (size_t i = 0; i < wrs.size(); i++) {
            wrs[i] = {};
            wrs[i].wr_id = i;
            wrs[i].opcode = IBV_WR_SEND;
            wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
        }
    }

    Posted post(size_t from = 0) { return queue.post(&wrs[from], &bad); }

    PlainRing plain{entries, 128};
    SendQueue queue;
    std::array<ibv_send_wr, 6> wrs;
    ibv_send_wr *bad = nullptr;
};

TEST_F(SendQueueTest, ListIsPostedInOrder)
{
    wrs[2].next = nullptr;
    EXPECT_EQ(post().error, 0);
    ASSERT_EQ(plain.waiting(), 3U);
    for (uint64_t i = 0; i < 3; i++) {
        EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, i);
    }
    EXPECT_EQ(bad, nullptr);
}

TEST_F(SendQueueTest, FullQueueIsEnomemAtTheFirstThatDoesNotFit)
{
    EXPECT_EQ(post().error, ENOMEM);
    EXPECT_EQ(bad, &wrs[entries]);
    EXPECT_EQ(plain.waiting(), entries);
}

TEST_F(SendQueueTest, BadOneIsNamedAndThoseBeforeItArePosted)
{
    wrs[1].opcode = IBV_WR_BIND_MW;
    EXPECT_EQ(post().error, EINVAL);
    EXPECT_EQ(bad, &wrs[1]);
    ASSERT_EQ(plain.waiting(), 1U);
    EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, 0U);
    wrs[2].next = nullptr;
    EXPECT_EQ(post(2).error, 0); // the bad one left no hole
    EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, 2U);
}

TEST_F(SendQueueTest, StateThatTakesNothingIsEinval)
{
    queue.set_accepting(false);
    EXPECT_EQ(post().error, EINVAL);
    EXPECT_EQ(bad, &wrs[0]);
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_F(SendQueueTest, QueueWithoutARingIsEinval)
{
    SendQueue none;

    none.set_accepting(true);
    EXPECT_EQ(none.post(&wrs[0], &bad).error, EINVAL);
    EXPECT_EQ(bad, &wrs[0]);
}

TEST_F(SendQueueTest, EmptyListIsNothing)
{
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    const Posted posted = queue.post(nullptr, &bad);

    EXPECT_EQ(posted.error, 0);
    EXPECT_FALSE(posted.wake);
}

TEST_F(SendQueueTest, WakesASleepingEngineOnly)
{
    wrs[0].next = nullptr;
    EXPECT_FALSE(post().wake);
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_TRUE(post().wake);
}

TEST_F(SendQueueTest, WakesForThosePostedBeforeTheBadOne)
{
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    wrs[1].opcode = IBV_WR_TSO;
    const Posted posted = post();

    EXPECT_EQ(posted.error, EINVAL);
    EXPECT_TRUE(posted.wake);
    wrs[0].opcode = IBV_WR_TSO;
    EXPECT_FALSE(post().wake); // nothing was posted
}

TEST_F(SendQueueTest, PlaceIsTakenUntilItsCompletionIsPolled)
{
    post();
    for (uint32_t i = 0; i < entries; i++) {
        plain.take<rox_send_wqe>(); // the kernel is done with it, the program does not know yet
    }
    wrs[entries].next = nullptr;
    EXPECT_EQ(post(entries).error, ENOMEM);
    queue.complete_to(1);
    EXPECT_EQ(post(entries).error, 0);
    EXPECT_EQ(post(entries).error, ENOMEM);
    queue.complete_to(4); // of a signalled one, after two that were not
    EXPECT_EQ(post(entries).error, 0);
    EXPECT_EQ(post(entries).error, 0);
    EXPECT_EQ(post(entries).error, 0);
    EXPECT_EQ(post(entries).error, ENOMEM);
}

TEST_F(SendQueueTest, ResetEmptiesTheQueue)
{
    post();
    queue.reset();
    EXPECT_EQ(plain.waiting(), 0U);
    wrs[0].next = nullptr;
    EXPECT_EQ(post().error, 0);
    EXPECT_EQ(plain.waiting(), 1U);
}

TEST_F(SendQueueTest, BatchIsPublishedWhole)
{
    queue.start();
    ASSERT_NE(queue.begin(1, IBV_WR_SEND, IBV_SEND_SIGNALED), nullptr);
    ASSERT_NE(queue.begin(2, IBV_WR_SEND, 0), nullptr);
    EXPECT_EQ(plain.waiting(), 0U);
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    const Posted posted = queue.complete();

    EXPECT_EQ(posted.error, 0);
    EXPECT_TRUE(posted.wake);
    ASSERT_EQ(plain.waiting(), 2U);
    EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, 1U);
    EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, 2U);
}

TEST_F(SendQueueTest, AbortedBatchLeavesNothing)
{
    queue.start();
    queue.begin(1, IBV_WR_SEND, 0);
    queue.abort();
    EXPECT_EQ(plain.waiting(), 0U);
    wrs[0].next = nullptr;
    post(); // and the lock is free
    EXPECT_EQ(plain.take<rox_send_wqe>().wr_id, 0U);
}

TEST_F(SendQueueTest, BatchThatDoesNotFitIsEnomemAndLeavesNothing)
{
    queue.start();
    for (uint32_t i = 0; i <= entries; i++) {
        EXPECT_EQ(queue.begin(i, IBV_WR_SEND, 0) != nullptr, i < entries);
    }
    const Posted posted = queue.complete();

    EXPECT_EQ(posted.error, ENOMEM);
    EXPECT_FALSE(posted.wake);
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_F(SendQueueTest, BatchKeepsItsFirstErrorAndIgnoresWhatFollows)
{
    const std::array<ibv_sge, 3> three = {};

    queue.start();
    queue.begin(1, IBV_WR_SEND, 0);
    queue.set_sges(three); // one too many
    queue.begin(2, IBV_WR_SEND, 0);
    queue.set_sges({three.data(), 1});
    EXPECT_EQ(queue.complete().error, EINVAL);
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_F(SendQueueTest, BatchErrorDoesNotOutliveTheBatch)
{
    queue.start();
    queue.begin(1, IBV_WR_TSO, 0);
    EXPECT_EQ(queue.complete().error, EINVAL);
    queue.start();
    queue.begin(1, IBV_WR_SEND, 0);
    EXPECT_EQ(queue.complete().error, 0);
}

TEST_F(SendQueueTest, BatchInAStateThatTakesNothingIsEinval)
{
    queue.set_accepting(false);
    queue.start();
    EXPECT_EQ(queue.begin(1, IBV_WR_SEND, 0), nullptr);
    EXPECT_EQ(queue.complete().error, EINVAL);
}

TEST_F(SendQueueTest, BatchSettersWithoutAWorkRequestDoNothing)
{
    const std::array<ibv_sge, 1> one = {};

    queue.start();
    queue.set_sges(one);
    queue.set_inline({});
    queue.set_ud(nullptr, 0, 0);
    EXPECT_EQ(queue.complete().error, 0);
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_F(SendQueueTest, BatchInlineOfAReadIsEinval)
{
    std::array<ibv_data_buf, 1> buffer = {{{.addr = this, .length = 4}}};

    queue.start();
    queue.begin(1, IBV_WR_RDMA_READ, 0);
    queue.set_inline(buffer);
    EXPECT_EQ(queue.complete().error, EINVAL);
}

TEST_F(SendQueueTest, BatchUdAddressOfAnRcQpIsEinval)
{
    ibv_ah ah = {};

    queue.start();
    queue.begin(1, IBV_WR_SEND, 0);
    queue.set_ud(&ah, 1, 2);
    EXPECT_EQ(queue.complete().error, EINVAL);
}

class RecvQueueTest : public testing::Test {
protected:
    void SetUp() override
    {
        queue.attach(plain.view(), entries, 1, RecvQueue::Kind::of_qp);
        queue.set_accepting(true);
        for (size_t i = 0; i < wrs.size(); i++) {
            wrs[i] = {.wr_id = i,
                      .next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr,
                      .sg_list = &sge,
                      .num_sge = 1};
        }
    }

    Posted post() { return queue.post(&wrs[0], &bad); }

    PlainRing plain{entries, 32};
    RecvQueue queue;
    ibv_sge sge = {0x1000, 64, 7};
    std::array<ibv_recv_wr, 6> wrs;
    ibv_recv_wr *bad = nullptr;
};

TEST_F(RecvQueueTest, ListIsPostedInOrder)
{
    wrs[1].next = nullptr;
    EXPECT_EQ(post().error, 0);
    ASSERT_EQ(plain.waiting(), 2U);
    EXPECT_EQ(plain.take<rox_recv_wqe>().wr_id, 0U);
    EXPECT_EQ(plain.take<rox_recv_wqe>().wr_id, 1U);
}

TEST_F(RecvQueueTest, FullQueueIsEnomemAtTheFirstThatDoesNotFit)
{
    EXPECT_EQ(post().error, ENOMEM);
    EXPECT_EQ(bad, &wrs[entries]);
    EXPECT_EQ(plain.waiting(), entries);
}

TEST_F(RecvQueueTest, TooManySgesAreEinvalAndLeaveNoHole)
{
    wrs[1].num_sge = 2;
    EXPECT_EQ(post().error, EINVAL);
    EXPECT_EQ(bad, &wrs[1]);
    EXPECT_EQ(plain.waiting(), 1U);
}

TEST_F(RecvQueueTest, ResetStateIsEinval)
{
    queue.set_accepting(false);
    EXPECT_EQ(post().error, EINVAL);
    EXPECT_EQ(bad, &wrs[0]);
}

TEST_F(RecvQueueTest, PlaceIsTakenUntilItsCompletionIsPolled)
{
    post();
    plain.take<rox_recv_wqe>();
    wrs[0].next = nullptr;
    EXPECT_EQ(post().error, ENOMEM);
    queue.complete(1);
    EXPECT_EQ(post().error, 0);
    EXPECT_EQ(post().error, ENOMEM);
}

TEST_F(RecvQueueTest, PlaceInAnSrqIsFreeWhenAQpHasTakenIt)
{
    queue.attach(plain.view(), entries, 1, RecvQueue::Kind::shared);
    post();
    wrs[0].next = nullptr;
    EXPECT_EQ(post().error, ENOMEM);
    plain.take<rox_recv_wqe>();
    EXPECT_EQ(post().error, 0);
    plain.ctrl().consumer = 1000;
    EXPECT_EQ(post().error, EIO);
}

TEST_F(RecvQueueTest, QpWithAnSrqHasNoQueueOfItsOwn)
{
    RecvQueue none;

    none.set_accepting(true);
    EXPECT_EQ(none.post(&wrs[0], &bad).error, EINVAL);
}

TEST_F(RecvQueueTest, WakesOnlyIfTheKernelAsksForIt)
{
    wrs[0].next = nullptr;
    EXPECT_FALSE(post().wake);
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_TRUE(post().wake);
}

class CompletionQueueTest : public testing::Test {
protected:
    void SetUp() override { queue.attach(plain.view()); }

    /* wr_ids of what one poll gives; or its error alone. */
    std::vector<int64_t> poll(size_t most)
    {
        std::vector<ibv_wc> wcs(most);
        const int n = queue.poll(wcs);
        std::vector<int64_t> ids;

        if (n < 0) {
            return {n};
        }
        for (int i = 0; i < n; i++) {
            ids.push_back(static_cast<int64_t>(wcs[i].wr_id));
        }
        return ids;
    }

    using Ids = std::vector<int64_t>;

    PlainRing plain{entries, sizeof(rox_cqe), 0xfffffffe};
    CompletionQueue queue;
};

TEST_F(CompletionQueueTest, EmptyPollGivesNothing)
{
    EXPECT_EQ(poll(4), Ids{});
    EXPECT_EQ(queue.start_poll(), ENOENT);
    EXPECT_EQ(queue.start_poll(), ENOENT); // it did not keep the lock
}

TEST_F(CompletionQueueTest, PollTakesNoMoreThanAskedFor)
{
    for (uint64_t i = 0; i < 4; i++) {
        plain.add(completion(i));
    }
    EXPECT_EQ(poll(0), Ids{});
    EXPECT_EQ(poll(3), (Ids{0, 1, 2}));
    EXPECT_EQ(plain.ctrl().consumer, 0xfffffffe + 3);
    EXPECT_EQ(poll(3), Ids{3});
    EXPECT_EQ(poll(3), Ids{});
}

TEST_F(CompletionQueueTest, OverflowedCqGivesWhatIsLeftThenEio)
{
    plain.add(completion(1));
    plain.add(completion(2));
    plain.ctrl().flags = ROX_RING_ERROR;
    EXPECT_EQ(poll(1), Ids{1});
    EXPECT_EQ(poll(4), Ids{2});
    EXPECT_EQ(poll(4), Ids{-EIO});
    EXPECT_EQ(poll(4), Ids{-EIO});
    EXPECT_EQ(poll(0), Ids{});
    EXPECT_EQ(queue.start_poll(), EIO);
}

TEST_F(CompletionQueueTest, ImpossibleProducerIndexIsEio)
{
    plain.ctrl().producer += entries + 1;
    EXPECT_EQ(poll(1), Ids{-EIO});
    EXPECT_EQ(queue.start_poll(), EIO);
}

TEST_F(CompletionQueueTest, BrokenCqIsEioAndLeavesTheRingAlone)
{
    plain.add(completion(1));
    queue.set_broken();
    EXPECT_EQ(poll(1), Ids{-EIO});
    EXPECT_EQ(queue.start_poll(), EIO);
    queue.arm(false);
    queue.purge(1);
    EXPECT_EQ(plain.ctrl().flags, 0U);
    EXPECT_EQ(plain.waiting(), 1U);
}

TEST_F(CompletionQueueTest, ArmSaysWhichCompletionsAreWanted)
{
    queue.arm(true);
    EXPECT_EQ(plain.ctrl().flags, static_cast<uint32_t>(ROX_RING_ARM_SOLICITED));
    plain.ctrl().flags = 0;
    queue.arm(false);
    EXPECT_EQ(plain.ctrl().flags, static_cast<uint32_t>(ROX_RING_ARM_NEXT));
}

TEST_F(CompletionQueueTest, ArmIsPossibleInTheMiddleOfAPoll)
{
    plain.add(completion(1));
    ASSERT_EQ(queue.start_poll(), 0);
    queue.arm(false);
    queue.end_poll();
    EXPECT_EQ(plain.ctrl().flags, static_cast<uint32_t>(ROX_RING_ARM_NEXT));
}

TEST_F(CompletionQueueTest, PurgeTakesOutOneQpsCompletions)
{
    plain.add(completion(1, 7));
    plain.add(completion(2, 8));
    plain.add(completion(3, 7));
    plain.add(completion(4, 9));
    queue.purge(7);
    EXPECT_EQ(poll(4), (Ids{2, 4}));
}

TEST_F(CompletionQueueTest, PurgedSpaceIsTheKernelsAgain)
{
    for (uint64_t i = 0; i < entries; i++) {
        plain.add(completion(i, 7));
    }
    queue.purge(7);
    EXPECT_EQ(plain.waiting(), 0U);
    plain.add(completion(5, 8));
    EXPECT_EQ(poll(4), Ids{5});
}

TEST_F(CompletionQueueTest, StepwisePollGoesThroughAll)
{
    for (uint64_t i = 0; i < 3; i++) {
        plain.add(completion(i));
    }
    ASSERT_EQ(queue.start_poll(), 0);
    EXPECT_EQ(queue.current().wr_id, 0U);
    EXPECT_EQ(plain.waiting(), 2U); // each is taken as the poll arrives at it
    ASSERT_EQ(queue.next_poll(), 0);
    EXPECT_EQ(queue.current().wr_id, 1U);
    EXPECT_EQ(plain.waiting(), 1U);
    ASSERT_EQ(queue.next_poll(), 0);
    EXPECT_EQ(queue.current().wr_id, 2U);
    EXPECT_EQ(plain.waiting(), 0U);
    EXPECT_EQ(queue.next_poll(), ENOENT);
    queue.end_poll();
    EXPECT_EQ(plain.waiting(), 0U);
    EXPECT_EQ(queue.start_poll(), ENOENT);
}

TEST_F(CompletionQueueTest, EndOfAStepwisePollLeavesTheNextOne)
{
    plain.add(completion(1));
    plain.add(completion(2));
    ASSERT_EQ(queue.start_poll(), 0);
    EXPECT_EQ(plain.waiting(), 1U);
    queue.end_poll();
    EXPECT_EQ(plain.waiting(), 1U);
    EXPECT_EQ(poll(4), Ids{2});
}

TEST_F(CompletionQueueTest, StepwisePollKeepsWhatItIsAtWhenTheKernelUsesThePlaceAgain)
{
    plain.add(completion(1));
    ASSERT_EQ(queue.start_poll(), 0);
    for (uint64_t i = 2; i < 2 + entries; i++) {
        plain.add(completion(i));
    }
    EXPECT_EQ(queue.current().wr_id, 1U);
    for (uint64_t i = 2; i < 2 + entries; i++) {
        ASSERT_EQ(queue.next_poll(), 0);
        EXPECT_EQ(queue.current().wr_id, i);
    }
    EXPECT_EQ(queue.next_poll(), ENOENT);
    queue.end_poll();
}

TEST_F(CompletionQueueTest, CqThatBreaksDuringAStepwisePollIsEio)
{
    plain.add(completion(1));
    plain.add(completion(2));
    ASSERT_EQ(queue.start_poll(), 0);
    queue.set_broken();
    EXPECT_EQ(queue.next_poll(), EIO);
    EXPECT_EQ(queue.current().wr_id, 1U);
    queue.end_poll();
    EXPECT_EQ(queue.start_poll(), EIO);
    EXPECT_EQ(queue.start_poll(), EIO); // it did not keep the lock
}

TEST_F(CompletionQueueTest, StepwisePollSeesWhatComesAfterENOENT)
{
    plain.add(completion(1));
    ASSERT_EQ(queue.start_poll(), 0);
    EXPECT_EQ(queue.next_poll(), ENOENT);
    plain.add(completion(2));
    ASSERT_EQ(queue.next_poll(), 0);
    EXPECT_EQ(queue.current().wr_id, 2U);
    queue.end_poll();
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_F(CompletionQueueTest, ResizedRingGoesOnWhereTheOldOneWas)
{
    PlainRing bigger(entries * 4, sizeof(rox_cqe), 0xfffffffe + 1);

    plain.add(completion(1));
    plain.add(completion(2));
    EXPECT_EQ(poll(1), Ids{1});
    bigger.add(completion(2)); // as the kernel copies it
    queue.attach(bigger.view());
    bigger.add(completion(3));
    EXPECT_EQ(poll(4), (Ids{2, 3}));
}

} // namespace
} // namespace rox::test
