// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// CQ moderation: how many events there are, and when they come.
#include <atomic>
#include <random>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::uint16_t kLongest = 0xffff; // microseconds
constexpr Millis kLongestMs{65};

/// Some cases are about something that comes sooner or later than a period ends. On a busy host
/// sending alone may take as long: such attempts tell nothing, and others are made. Of those that
/// do three of four must be as they should, as the host may also delay who waits.
class Tally {
public:
    bool more() const { return telling_ < kTelling && all_ < 6 * kTelling; }
    void count(bool telling, bool good)
    {
        all_++;
        telling_ += telling;
        good_ += telling && good;
    }
    testing::AssertionResult verdict() const
    {
        auto result = telling_ == kTelling && good_ * 4 >= telling_ * 3
                          ? testing::AssertionSuccess()
                          : testing::AssertionFailure();
        return result << good_ << " were good of " << telling_ << " that tell, of " << all_;
    }

private:
    static constexpr int kTelling = 12;
    int all_ = 0;
    int telling_ = 0;
    int good_ = 0;
};

class ModerationCore : public PairTest {
protected:
    static constexpr std::uint64_t kDepth = 64;

    void SetUp() override
    {
        a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), cq.get());
        connect();
        for (std::uint64_t i = 0; i < kDepth; i++)
            b.qp->post_recv(i);
    }
    int modify(std::uint16_t count, std::uint16_t period) const
    {
        ibv_modify_cq_attr attr{IBV_CQ_ATTR_MODERATE, {count, period}};
        return ibv_modify_cq(cq.get(), &attr);
    }
    void message(bool solicited = false) const
    {
        SendWr wr = SendWr::send({}).id(1);
        a.qp->post(solicited ? wr.solicited() : wr);
        EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    }
    /// Takes all that is there and posts as many again.
    std::uint64_t drain() const
    {
        std::uint64_t count = 0;
        ibv_wc wc{};
        while (ibv_poll_cq(cq.get(), 1, &wc) > 0) {
            EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
            b.qp->post_recv(wc.wr_id);
            count++;
        }
        return count;
    }
    /// Messages that come as they like, or a millisecond apart, and a receiver that sleeps
    /// whenever there is nothing.
    std::uint64_t events_of(std::uint64_t messages, bool slowly = false)
    {
        std::uint64_t events = 0;
        std::uint64_t received = 0;
        cq.arm();
        std::thread sender([&] {
            std::minstd_rand random(1);
            for (std::uint64_t i = 0; i < messages; i++) {
                message();
                if (slowly)
                    std::this_thread::sleep_for(1ms);
                for (auto pause = random() % 2000; pause; pause--)
                    asm volatile("");
            }
        });
        while (received < messages) {
            bool woken = channel.wait() == cq.get();
            EXPECT_TRUE(woken) << "after " << received << " of " << messages;
            if (!woken)
                break;
            events++;
            cq.arm();
            received += drain();
        }
        while (received < messages)
            received += drain();
        sender.join();
        // The last arming may have come late.
        while (channel.wait(5ms))
            ;
        return events;
    }

    Channel channel{b.context.get()};
    Cq cq{b.context.get(), 256, &channel};
};

TEST_F(ModerationCore, DeviceSaysHowMuchItCan)
{
    ibv_device_attr_ex attr{};
    ASSERT_EQ(ibv_query_device_ex(b.context.get(), nullptr, &attr), 0);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 0xffff);
    EXPECT_EQ(attr.cq_mod_caps.max_cq_period, 0xffff);
    EXPECT_EQ(modify(attr.cq_mod_caps.max_cq_count, attr.cq_mod_caps.max_cq_period), 0);
    EXPECT_EQ(modify(0, 0), 0);
}

TEST_F(ModerationCore, NothingElseCanBeModified)
{
    for (std::uint32_t mask : {0U, 2U, 3U, 1U << 31}) {
        ibv_modify_cq_attr attr{mask, {1, 1}};
        EXPECT_EQ(ibv_modify_cq(cq.get(), &attr), EINVAL) << mask;
    }
}

TEST_F(ModerationCore, PeriodIsWaitedFor)
{
    ASSERT_EQ(modify(1000, 30'000), 0);
    for (int i = 0; i < 3; i++) {
        cq.arm();
        Stopwatch watch;
        message();
        ASSERT_EQ(channel.wait(), cq.get());
        EXPECT_GE(watch.elapsed(), 30ms);
        EXPECT_EQ(drain(), 1u);
    }
}

TEST_F(ModerationCore, CountEndsThePeriod)
{
    ASSERT_EQ(modify(8, kLongest), 0);
    Tally early;
    while (early.more()) {
        cq.arm();
        Stopwatch watch;
        for (int n = 0; n < 8; n++)
            message();
        const bool sent_soon = watch.elapsed() < kLongestMs / 2;
        ASSERT_EQ(channel.wait(), cq.get());
        early.count(sent_soon, watch.elapsed() < kLongestMs);
        EXPECT_EQ(drain(), 8u);
        EXPECT_EQ(channel.wait(kQuiet), nullptr) << "one for all";
    }
    EXPECT_TRUE(early.verdict());
}

TEST_F(ModerationCore, CompletionsBelowTheCountWait)
{
    ASSERT_EQ(modify(8, kLongest), 0);
    Tally seen;
    while (seen.more()) {
        cq.arm();
        Stopwatch watch;
        for (int n = 0; n < 7; n++)
            message();
        ibv_cq *woken = channel.wait(20ms);
        const bool looked_soon = watch.elapsed() < kLongestMs;
        if (looked_soon) {
            EXPECT_EQ(woken, nullptr) << "after " << watch.elapsed().count() << " ms";
        }
        seen.count(looked_soon, !woken);
        ASSERT_TRUE(woken || channel.wait() == cq.get()) << "the period ends it";
        EXPECT_EQ(drain(), 7u);
    }
    EXPECT_TRUE(seen.verdict());
}

TEST_F(ModerationCore, EndOfModerationLetsTheEventGo)
{
    Tally early;
    while (early.more()) {
        ASSERT_EQ(modify(8, kLongest), 0);
        cq.arm();
        Stopwatch watch;
        message();
        ASSERT_EQ(modify(0, 0), 0);
        const bool ended_soon = watch.elapsed() < kLongestMs / 2;
        ASSERT_EQ(channel.wait(), cq.get());
        early.count(ended_soon, watch.elapsed() < kLongestMs);
        EXPECT_EQ(drain(), 1u);
        EXPECT_EQ(channel.wait(kQuiet), nullptr);
    }
    EXPECT_TRUE(early.verdict());
}

TEST_F(ModerationCore, OneOfTheTwoIsNoModeration)
{
    for (auto [count, period] : {std::pair<std::uint16_t, std::uint16_t>{8, 0}, {0, kLongest}}) {
        ASSERT_EQ(modify(count, period), 0);
        Tally early;
        while (early.more()) {
            cq.arm();
            Stopwatch watch;
            message();
            const bool sent_soon = watch.elapsed() < kLongestMs / 2;
            ASSERT_EQ(channel.wait(), cq.get()) << "no event is ever lost by it";
            early.count(sent_soon, watch.elapsed() < kLongestMs);
            EXPECT_EQ(drain(), 1u);
        }
        EXPECT_TRUE(early.verdict()) << count << ", " << period;
    }
}

TEST_F(ModerationCore, SolicitedArmingCountsSolicitedOnes)
{
    ASSERT_EQ(modify(2, 5'000), 0);
    cq.arm(true);
    for (int i = 0; i < 5; i++)
        message();
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
    message(true);
    EXPECT_EQ(channel.wait(), cq.get()) << "the period";
    EXPECT_EQ(drain(), 6u);
}

TEST_F(ModerationCore, ArmingWithCompletionsInTheQueueRaisesAnEvent)
{
    ASSERT_EQ(modify(100, 10'000), 0);
    cq.arm();
    for (int i = 0; i < 3; i++)
        message();
    for (int i = 0; i < 3; i++) {
        ASSERT_EQ(channel.wait(), cq.get());
        cq.one();
        cq.arm();
    }
    EXPECT_EQ(channel.wait(kQuiet), nullptr);
}

TEST_F(ModerationCore, ErrorsAreNotLost)
{
    ASSERT_EQ(modify(0xffff, 5'000), 0);
    cq.arm();
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    EXPECT_EQ(channel.wait(), cq.get());
    EXPECT_EQ(cq.wait(kDepth).size(), kDepth);
}

TEST_F(ModerationCore, ResizeKeepsIt)
{
    ASSERT_EQ(modify(1000, 20'000), 0);
    cq.arm();
    Stopwatch watch;
    message();
    ASSERT_EQ(ibv_resize_cq(cq.get(), 500), 0);
    ASSERT_EQ(channel.wait(), cq.get());
    EXPECT_GE(watch.elapsed(), 20ms);
    EXPECT_EQ(drain(), 1u);
}

/// The reason for it all. Messages come one by one, and slowly enough for an event each; with
/// moderation each event has either its count or its period behind it, however slow the host is.
TEST_F(ModerationCore, EventsAreFewer)
{
    constexpr std::uint64_t kMessages = 160;
    constexpr std::uint64_t kCount = 16;
    constexpr int kRounds = 4;
    int fewer = 0;
    int telling = 0;
    for (int i = 0; i < 5 * kRounds && telling < kRounds; i++) {
        ASSERT_EQ(modify(0, 0), 0);
        std::uint64_t plain = events_of(kMessages, true);
        ASSERT_EQ(modify(kCount, kLongest), 0);
        Stopwatch watch;
        std::uint64_t moderated = events_of(kMessages, true);
        auto periods = static_cast<std::uint64_t>(watch.elapsed() / kLongestMs);
        std::cout << kMessages << " messages: " << plain << " events, with moderation " << moderated
                  << " in " << watch.elapsed().count() << " ms\n";
        // What is left of the run before may bring one more, and so may arming late.
        EXPECT_LE(moderated, kMessages / kCount + periods + 2);
        // Where the receiver sleeps that long its events are few by themselves.
        const bool tells = plain >= kMessages / 2;
        telling += tells;
        fewer += tells && moderated * 4 <= plain;
    }
    EXPECT_EQ(telling, kRounds);
    EXPECT_GE(fewer, kRounds * 3 / 4);
}

TEST_F(ModerationCore, NoWakeUpIsLost)
{
    for (auto [count, period] :
         {std::pair<std::uint16_t, std::uint16_t>{3, 100}, {64, 1}, {7, 2'000}}) {
        ASSERT_EQ(modify(count, period), 0);
        EXPECT_GE(events_of(600), 1u);
    }
}

} // namespace
