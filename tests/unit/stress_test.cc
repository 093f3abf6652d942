/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Both ends of a ring, and the locks, in two threads at once. */
#include "lock.hpp"
#include "plain_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace rox::test {
namespace {

constexpr uint32_t entries = 64;
constexpr uint32_t first = 0xffffff00U; // so that the indices wrap on the way
constexpr uint64_t rounds = 200000;

struct Item {
    uint64_t value;
    uint64_t inverse;
};

TEST(RingStress, EveryEntryArrivesOnceWholeAndInOrder)
{
    PlainRing plain(entries, sizeof(Item), first);
    ProducerRing in;
    ConsumerRing out;
    uint64_t wrong = 0;

    in.attach(plain.view(), entries);
    out.attach(plain.view());

    std::thread producer([&in] {
        for (uint64_t i = 0; i < rounds;) {
            std::byte *slot = in.reserve();

            if (slot == nullptr) {
                in.publish();
                sched_yield();
                continue;
            }
            new (slot) Item{i, ~i};
            if (++i % 3 == 0) {
                in.publish();
            }
        }
        in.publish();
    });

    for (uint64_t i = 0; i < rounds;) {
        const auto *item = reinterpret_cast<const Item *>(out.peek());

        if (item == nullptr) {
            out.release();
            sched_yield();
            continue;
        }
        wrong += item->value != i || item->inverse != ~i;
        out.pop();
        if (++i % 5 == 0) {
            out.release();
        }
    }
    producer.join();
    EXPECT_EQ(wrong, 0U);
    EXPECT_FALSE(out.corrupted());
    EXPECT_EQ(out.peek(), nullptr);
}

/* A consumer that sleeps as the kernel's does must never miss an entry: no entry, or a wake-up. */
TEST(RingStress, SleepingConsumerIsWokenForEveryEntry)
{
    PlainRing plain(entries, sizeof(Item), first);
    ProducerRing in;
    std::atomic<uint32_t> doorbells{0};
    std::atomic<bool> stuck{false};

    in.attach(plain.view(), entries);
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;

    std::thread kernel([&plain, &doorbells, &stuck] {
        const RingView view = plain.view();
        uint64_t taken = 0;

        while (taken < rounds / 10) {
            /* asleep until the doorbell */
            for (uint64_t spins = 0; doorbells.exchange(0) == 0; spins++) {
                if (spins > 20000000) {
                    stuck = true;
                    return;
                }
                sched_yield();
            }
            for (;;) {
                view.flags().store(0, std::memory_order_relaxed);
                while (plain.waiting() != 0) {
                    plain.take<Item>();
                    taken++;
                }
                view.flags().fetch_or(ROX_RING_NEED_WAKEUP, std::memory_order_seq_cst);
                std::atomic_thread_fence(std::memory_order_seq_cst);
                if (plain.waiting() == 0) {
                    break; // sleeps
                }
            }
        }
    });

    for (uint64_t i = 0; i < rounds / 10 && !stuck;) {
        std::byte *slot = in.reserve();

        if (slot == nullptr) {
            sched_yield();
            continue;
        }
        new (slot) Item{i, ~i};
        i++;
        in.publish();
        if (in.needs_wakeup()) {
            doorbells++;
        }
    }
    kernel.join();
    EXPECT_FALSE(stuck) << "an entry was published, and nobody was woken";
}

TEST(LockStress, OnlyOneHoldsTheLock)
{
    SpinLock lock;
    uint64_t counter = 0;
    const auto count = [&lock, &counter] {
        for (uint64_t i = 0; i < rounds; i++) {
            const Guard guard(lock);

            counter++;
        }
    };
    std::thread other(count);

    count();
    other.join();
    EXPECT_EQ(counter, 2 * rounds);
}

} // namespace
} // namespace rox::test
