// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Late doorbells: where the module holds system calls for dear, a program that rings often rings
/// one for many posts. What is posted and then forgotten is sent by the kernel's timer. So the
/// posts whose arrival is watched for in memory, without a poll, are the ones that matter.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <random>

#include "lib/attribute.h"
#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/rdmatool.h"
#include "lib/thread.h"

using namespace vt;

namespace {

using Micros = std::chrono::microseconds;

/// What contexts are opened under. The module tells the provider about late doorbells only then. So
/// dear that a tenth of the time goes to them on a slow machine, too, where few are rung.
struct DearCalls {
    Setting call{"/sys/module/rox/parameters/call_us", "5000"};
};

class LateCore : protected DearCalls, public PairTest {
protected:
    /// Writes the number of the post to the far end.
    void post()
    {
        near.word(0) = ++posted;
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(posted));
    }

    void reap()
    {
        std::array<ibv_wc, 16> wcs{};
        Deadline deadline;
        while (done < posted) {
            const int n = ibv_poll_cq(a.send_cq.get(), wcs.size(), wcs.data());
            for (int i = 0; i < n; i++) {
                EXPECT_EQ(wcs[static_cast<std::size_t>(i)].status, IBV_WC_SUCCESS);
                done++;
            }
            if (n == 0 && deadline.passed())
                fail(std::to_string(posted - done) + " completions are missing" +
                     state_of_everything());
        }
    }

    /// So many doorbells that they may be late afterwards.
    void hot()
    {
        for (int i = 0; i < 400; i++) {
            post();
            reap();
        }
    }

    /// Does the last post arrive, although nobody polls or rings?
    bool arrives() const
    {
        const std::atomic_ref<std::uint64_t> word(far.word(0));
        Deadline deadline;
        while (word.load(std::memory_order_acquire) != posted)
            if (deadline.passed())
                return false;
        return true;
    }

    /// Doorbells of so many posts in groups, each of which is waited for.
    std::uint64_t rung(std::uint64_t groups, std::uint64_t group)
    {
        const std::uint64_t before = port_counter(device_a(), "doorbells");
        for (std::uint64_t i = 0; i < groups; i++) {
            for (std::uint64_t k = 0; k < group; k++)
                post();
            reap();
        }
        return port_counter(device_a(), "doorbells") - before;
    }

    /// How many posts are sure to take less than the time between two looks at the ring (1 ms).
    /// What is there at two looks is sent without a doorbell, and as forgotten if that happens
    /// again.
    std::uint64_t posts_between_looks()
    {
        constexpr std::uint64_t most = 32;
        constexpr std::uint64_t tried = 4;
        hot();
        const auto begin = Clock::now();
        for (std::uint64_t i = 0; i < tried; i++)
            post();
        const auto took = std::chrono::ceil<Micros>(Clock::now() - begin);
        reap();
        return std::clamp<std::uint64_t>(tried * 500 / static_cast<std::uint64_t>(took.count()),
                                         tried, most);
    }

    OneCpu cpu; // no engine takes the queue over
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    std::uint64_t posted = 0;
    std::uint64_t done = 0;
};

/// As late, a doorbell is for a group; on time, for each post.
TEST_F(LateCore, OneDoorbellForManyPosts)
{
    constexpr std::uint64_t groups = 200;
    start();
    const std::uint64_t group = posts_between_looks();
    std::uint64_t least = ~std::uint64_t{0};
    for (Deadline end; least > groups * 2 && !end.passed();) {
        hot();
        least = std::min(least, rung(groups, group));
    }
    std::cout << "# " << least << " doorbells for " << groups * group << " posts\n";
    EXPECT_LE(least, groups * 2);
}

TEST_F(LateCore, WhatIsForgottenIsSent)
{
    start();
    std::uint64_t rested = 0;
    for (int i = 0; i < 30; i++) {
        hot();
        post();
        ASSERT_TRUE(arrives()) << "post " << posted << state_of_everything();
        // Does the doorbell come late again after the rest?
        reap();
        rested += rung(1, 8) < 8;
    }
    std::cout << "# " << rested << " times late again at once\n";
}

/// Posts at all times around the looks of the timer and the end of late doorbells.
TEST_F(LateCore, PausesOfAllLengths)
{
    start();
    std::minstd_rand random(1);
    int rounds = 0;
    for (Deadline end(2s); !end.passed(); rounds++) {
        hot();
        const auto until = Clock::now() + Micros(random() % 40000);
        while (Clock::now() < until)
            ;
        post();
        ASSERT_TRUE(arrives()) << "post " << posted << state_of_everything();
        reap();
    }
    std::cout << "# " << rounds << " times\n";
}

/// Ends of the QP while doorbells are late and some are due.
TEST_F(LateCore, ResetAndDestroy)
{
    for (int i = 0; i < 20; i++) {
        start();
        hot();
        for (int k = 0; k < 3; k++)
            post();
        if (i % 2) {
            EXPECT_EQ(a.qp->move(IBV_QPS_RESET), 0);
        }
        a.qp.reset();
        b.qp.reset();
        posted = done = 0;
    }
}

} // namespace
