/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "lock.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace rox::test {
namespace {

TEST(Lock, SecondThreadWaitsForTheFirst)
{
    SpinLock lock;
    std::atomic<bool> got_it{false};

    lock.lock();
    std::thread other([&] {
        const std::lock_guard guard(lock);

        got_it = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(got_it);
    lock.unlock();
    other.join();
    EXPECT_TRUE(got_it);
}

TEST(Lock, ElidedLockKeepsNobodyOut)
{
    SpinLock lock;

    lock.elide();
    lock.lock();
    const std::lock_guard guard(lock); // would wait for ever

    EXPECT_TRUE(lock.elided());
}

TEST(Lock, UnlockAllowsTheNextLock)
{
    SpinLock lock;

    {
        const std::lock_guard guard(lock);
    }
    const std::lock_guard guard(lock);
}

} // namespace
} // namespace rox::test
