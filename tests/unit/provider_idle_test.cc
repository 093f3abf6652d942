/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Threads that poll in vain, by a clock that the test moves. */
#include "provider_fixture.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <optional>
#include <unistd.h>

namespace rox::test {
namespace {

constexpr int64_t us = 1000;
constexpr int64_t ms = 1000 * us;

/// With two CQs. A turn is the polls in vain from one system call to the next.
class ProviderIdleTest : public ProviderFixture {
protected:
    explicit ProviderIdleTest(const char *poll_us = nullptr,
                              uint64_t features = ROX_FEATURE_CQ_WAIT)
    {
        kernel.features = features;
        kernel.clock_ns = 1000 * ms;
        if (poll_us != nullptr) {
            setenv("ROX_POLL_US", poll_us, 1);
        }
    }

    ~ProviderIdleTest() override { unsetenv("ROX_POLL_US"); }

    void SetUp() override
    {
        ProviderFixture::SetUp();
        cq = ops->create_cq(context, 8, nullptr, 0);
        other = ops->create_cq(context, 8, nullptr, 0);
        ASSERT_NE(cq, nullptr);
        ASSERT_NE(other, nullptr);
        count = Cq::of(cq)->vain_turn;
        complete(cq);
        complete(other);
        /* From here on turns begin where the test begins them. */
        for (const size_t before = calls(); calls() == before;) {
            poll(other);
        }
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->destroy_cq(cq), 0);
        EXPECT_EQ(ops->destroy_cq(other), 0);
        ProviderFixture::TearDown();
    }

    size_t calls() const { return kernel.yields + kernel.sleeps.size(); }

    int poll(ibv_cq *which) { return ops->poll_cq(which, 1, &wc); }

    void complete(ibv_cq *which, uint32_t length = 65536)
    {
        rox_cqe cqe = completion(1);

        cqe.byte_len = length;
        kernel.cqs.at(which->handle).add(cqe);
        ASSERT_EQ(poll(which), 1);
    }

    /// A turn of @p which that takes @p took ns. Return: the sleep at its end, if there was one.
    std::optional<int64_t> turn(ibv_cq *which, int64_t took)
    {
        const size_t slept = kernel.sleeps.size();
        const size_t before = calls();

        for (uint32_t i = 1; i < count; i++) {
            EXPECT_EQ(poll(which), 0);
        }
        EXPECT_EQ(calls(), before);
        kernel.clock_ns += took;
        EXPECT_EQ(poll(which), 0);
        EXPECT_EQ(calls(), before + 1);
        return kernel.sleeps.size() > slept ? std::optional(kernel.sleeps.back()) : std::nullopt;
    }

    /// Turns without a sleep until the CQ has been empty for @p time.
    void poll_for(ibv_cq *which, int64_t time)
    {
        EXPECT_EQ(turn(which, 0), std::nullopt);
        for (const int64_t end = kernel.clock_ns + time; kernel.clock_ns < end;) {
            EXPECT_EQ(turn(which, std::min(quick(), end - kernel.clock_ns)), std::nullopt);
        }
    }

    /// How long a turn takes of a thread that does nothing but poll.
    int64_t quick() const { return count * kernel.reading_ns; }

    ibv_cq *cq = nullptr;
    ibv_cq *other = nullptr;
    uint32_t count = 0;
    ibv_wc wc = {};
};

TEST_F(ProviderIdleTest, TurnsFollowTheNumberOfCpus)
{
    EXPECT_EQ(count, vain_turn_for(sysconf(_SC_NPROCESSORS_ONLN)));
    EXPECT_LT(vain_turn_for(1), vain_turn_for(2));
}

/* On the CPU where a program polls, a thread of the kernel may wait that has the packets. */
TEST_F(ProviderIdleTest, LetsOthersRunNowAndThen)
{
    ibv_poll_cq_attr attr = {};
    ibv_cq_init_attr_ex init = {};

    init.cqe = 8;
    ibv_cq_ex *extended = ops->create_cq_ex(context, &init);
    ASSERT_NE(extended, nullptr);

    const size_t before = kernel.yields;

    for (uint32_t i = 1; i < count; i++) {
        EXPECT_EQ(poll(cq), 0);
    }
    complete(cq);
    EXPECT_EQ(kernel.yields, before);
    EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
    EXPECT_EQ(kernel.yields, before + 1);
    for (uint32_t i = 0; i < count; i++) {
        EXPECT_EQ(ibv_start_poll(extended, &attr), ENOENT);
    }
    EXPECT_EQ(kernel.yields, before + 2);
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(extended)), 0);
}

TEST_F(ProviderIdleTest, SleepsForHalfOfTheTimeThatNothingCompleted)
{
    poll_for(cq, 90 * us);
    const auto first = turn(cq, quick());

    ASSERT_TRUE(first.has_value());
    EXPECT_GE(*first, 50 * us);
    EXPECT_LE(*first, 70 * us);
    const auto second = turn(cq, quick());

    ASSERT_TRUE(second.has_value());
    EXPECT_GT(*second, *first * 5 / 4);
    EXPECT_LE(*second, 2 * *first);
}

TEST_F(ProviderIdleTest, SleepsForAMillisecondAtMost)
{
    int64_t last = 0;

    poll_for(cq, 90 * us);
    for (int i = 0; i < 20; i++) {
        last = turn(cq, quick()).value_or(0);
        EXPECT_LE(last, 1 * ms);
    }
    EXPECT_EQ(last, 1 * ms);
}

TEST_F(ProviderIdleTest, ACompletionBeginsAnew)
{
    poll_for(cq, 90 * us);
    ASSERT_TRUE(turn(cq, quick()).has_value());
    complete(cq);
    poll_for(cq, 90 * us);
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

TEST_F(ProviderIdleTest, AfterShortMessagesAThreadPollsLonger)
{
    complete(cq, 16383);
    poll_for(cq, 4990 * us);
    EXPECT_TRUE(turn(cq, quick()).has_value());
    complete(cq, 16384);
    poll_for(cq, 90 * us);
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

TEST_F(ProviderIdleTest, PollsOfAnotherCqBeginAnew)
{
    poll_for(cq, 90 * us);
    EXPECT_EQ(poll(other), 0);
    EXPECT_EQ(poll(cq), 0);
    count -= 2; // of this turn
    EXPECT_EQ(turn(cq, quick()), std::nullopt);
    count += 2;
    poll_for(cq, 90 * us);
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

TEST_F(ProviderIdleTest, TwoCqsInTurnNeverSleep)
{
    for (uint32_t i = 0; i < 50 * count; i++) {
        EXPECT_EQ(poll(i % 2 == 0 ? cq : other), 0);
        kernel.clock_ns += kernel.reading_ns;
    }
    EXPECT_EQ(kernel.sleeps.size(), 0U);
}

TEST_F(ProviderIdleTest, AThreadThatDoesMoreThanPollNeverSleeps)
{
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(turn(cq, 10 * quick()), std::nullopt);
    }
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

/* As in a virtual machine without a clock that programs can read. */
TEST_F(ProviderIdleTest, ASlowClockDoesNotHideOtherWork)
{
    kernel.reading_ns = 100 * us;
    for (int i = 0; i < 50; i++) {
        EXPECT_EQ(turn(cq, count * 20 * us), std::nullopt);
    }
}

TEST_F(ProviderIdleTest, WithoutTheSleepOthersRun)
{
    const size_t before = kernel.yields;

    kernel.fail_next("wait_cq", EPERM);
    poll_for(cq, 90 * us);
    EXPECT_EQ(turn(cq, quick()), std::nullopt);
    EXPECT_GT(kernel.yields, before);
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

class ProviderPollUsTest : public ProviderIdleTest {
protected:
    ProviderPollUsTest() : ProviderIdleTest("300") {}
};

TEST_F(ProviderPollUsTest, SaysHowLongAThreadPollsBefore)
{
    poll_for(cq, 290 * us);
    EXPECT_TRUE(turn(cq, quick()).has_value());
}

class ProviderNoSleepTest : public ProviderIdleTest {
protected:
    explicit ProviderNoSleepTest(const char *poll_us = "0", uint64_t features = ROX_FEATURE_CQ_WAIT)
        : ProviderIdleTest(poll_us, features)
    {}

    void never_sleeps()
    {
        for (int i = 0; i < 50; i++) {
            EXPECT_EQ(turn(cq, quick()), std::nullopt);
        }
    }
};

TEST_F(ProviderNoSleepTest, ByTheEnvironment)
{
    never_sleeps();
}

class ProviderOldModuleTest : public ProviderNoSleepTest {
protected:
    ProviderOldModuleTest() : ProviderNoSleepTest(nullptr, 0) {}
};

TEST_F(ProviderOldModuleTest, HasNoSleep)
{
    never_sleeps();
}

} // namespace
} // namespace rox::test
