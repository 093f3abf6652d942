/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Both ends of a ring, the queues and the locks, in several threads at once. */
#include "lock.hpp"
#include "objects.hpp"
#include "plain_ring.h"
#include "qp_table.hpp"
#include "queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

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
        if ((in.flags() & ROX_RING_NEED_WAKEUP) != 0) {
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
            const std::lock_guard guard(lock);

            counter++;
        }
    };
    std::thread other(count);

    count();
    other.join();
    EXPECT_EQ(counter, 2 * rounds);
}

/* Threads that post to one QP, by list and by batch: each one's work arrives whole and in its
 * order. */
TEST(QueueStress, PostsOfSeveralThreadsArriveOnceAndInEachOnesOrder)
{
    constexpr uint32_t threads = 3;
    constexpr uint64_t each = 10000;
    PlainRing plain(entries, 128, first);
    SendQueue queue;
    std::array<uint64_t, threads> next = {};
    std::vector<std::thread> posters;
    uint64_t wrong = 0;

    queue.attach(plain.view(), entries, {.type = IBV_QPT_RC, .max_sge = 1, .max_inline = 0});
    queue.set_accepting(true);
    for (uint32_t id = 0; id < threads; id++) {
        posters.emplace_back([&queue, id] {
            for (uint64_t i = 0; i < each;) {
                ibv_send_wr wr = {};
                ibv_send_wr *bad = nullptr;
                int error = 0;

                wr.wr_id = uint64_t{id} << 32 | i;
                wr.opcode = IBV_WR_SEND;
                if (i % 2 == 0) {
                    error = queue.post(&wr, &bad).error;
                } else {
                    queue.start();
                    queue.begin(wr.wr_id, IBV_WR_SEND, 0);
                    error = queue.complete().error;
                }
                if (error == 0) {
                    i++;
                } else {
                    sched_yield();
                }
            }
        });
    }
    for (uint64_t taken = 0; taken < threads * each;) {
        if (plain.waiting() == 0) {
            sched_yield();
            continue;
        }
        const uint64_t wr_id = plain.take<rox_send_wqe>().wr_id;

        queue.complete_to(plain.ctrl().consumer);
        wrong += wr_id >> 32 >= threads || next[wr_id >> 32]++ != (wr_id & 0xffffffff);
        taken++;
    }
    for (std::thread &poster : posters) {
        poster.join();
    }
    EXPECT_EQ(wrong, 0U);
    EXPECT_EQ(plain.waiting(), 0U);
}

/* One QP's completions are purged over and over while two threads poll and the kernel adds. */
TEST(QueueStress, PurgeDuringPollsTakesNobodyElsesCompletions)
{
    constexpr uint64_t kept = 10000;
    PlainRing plain(entries, sizeof(rox_cqe), first);
    CompletionQueue queue;
    std::atomic<uint64_t> polled{0};
    std::atomic<uint64_t> sum{0};
    std::atomic<bool> done{false};

    queue.attach(plain.view());

    const auto poll = [&] {
        std::array<ibv_wc, 4> wcs;

        while (!done) {
            const int n = queue.poll(wcs);

            for (int i = 0; i < n; i++) {
                if (wcs[i].qp_num == 1) {
                    sum += wcs[i].wr_id;
                    polled++;
                }
            }
            sched_yield();
        }
    };
    std::thread one(poll);
    std::thread two(poll);
    std::thread purger([&] {
        while (!done) {
            queue.purge(2);
            sched_yield();
        }
    });

    for (uint64_t i = 1; i <= kept;) {
        const uint32_t used = plain.ctrl().producer -
                              plain.view().consumer().load(std::memory_order_acquire);

        if (used > entries - 2) {
            sched_yield();
            continue;
        }
        plain.add(completion(0, 2));
        plain.add(completion(i++, 1));
    }
    for (int waits = 0; polled < kept && waits < 20000; waits++) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    done = true;
    one.join();
    two.join();
    purger.join();
    EXPECT_EQ(polled, kept);
    EXPECT_EQ(sum, kept * (kept + 1) / 2);
}

/* A QP whose kernel completes what is posted at once. */
struct BusyQp {
    explicit BusyQp(uint32_t number) : qpn(number)
    {
        qp.sq.attach(plain.view(), depth, {.type = IBV_QPT_RC, .max_sge = 1, .max_inline = 0});
        qp.sq.set_accepting(true);
    }

    bool post()
    {
        ibv_send_wr wr = {};
        ibv_send_wr *bad = nullptr;

        wr.opcode = IBV_WR_SEND;
        return qp.sq.post(&wr, &bad).error == 0;
    }

    /* The completion of the oldest that waits. */
    rox_cqe execute()
    {
        rox_cqe cqe = completion(plain.take<rox_send_wqe>().wr_id, qpn);

        cqe.sq_consumer = plain.ctrl().consumer;
        return cqe;
    }

    static constexpr uint32_t depth = 8;

    uint32_t qpn;
    PlainRing plain{depth, 128, first};
    Qp qp;
};

/* Two of them, and the ring of a CQ that is as large as their queues. */
struct FullCq {
    static constexpr uint64_t each = 20000;

    /* Executes what is posted, until that is all or the CQ overflows. */
    void execute()
    {
        for (uint64_t i = 0; added < 2 * each && !overflow; i++) {
            BusyQp &one = qps[i % 2];

            if (one.plain.waiting() == 0) {
                sched_yield();
                continue;
            }
            const rox_cqe cqe = one.execute();

            if (plain.ctrl().producer - plain.view().consumer().load(std::memory_order_acquire) ==
                2 * BusyQp::depth) {
                overflow = true;
            } else {
                plain.add(cqe);
                added++;
            }
        }
    }

    /* Posts to both as soon as there is a place. */
    void post()
    {
        std::array<uint64_t, 2> left = {each, each};

        while (left[0] + left[1] != 0 && !overflow) {
            const uint64_t before = left[0] + left[1];

            for (size_t i = 0; i < 2; i++) {
                left[i] -= left[i] != 0 && qps[i].post();
            }
            if (left[0] + left[1] == before) {
                sched_yield();
            }
        }
    }

    BusyQp qps[2] = {BusyQp{1}, BusyQp{2}};
    PlainRing plain{2 * BusyQp::depth, sizeof(rox_cqe), first};
    std::atomic<uint64_t> added{0};
    std::atomic<bool> overflow{false};
};

/* Posters use a place as soon as it is free, and there must be room in the CQ by then. */
TEST(QueueStress, CqAsLargeAsItsQueuesDoesNotOverflow)
{
    constexpr uint64_t all = 2 * FullCq::each;
    FullCq cq;
    std::unique_ptr<QpTable> table = make_object<QpTable>();
    CompletionQueue queue;
    uint64_t polled = 0;

    for (BusyQp &one : cq.qps) {
        ASSERT_EQ(table->insert(one.qpn, &one.qp), 0);
    }
    queue.attach(cq.plain.view());
    queue.set_qps(table.get());

    std::thread kernel([&] { cq.execute(); });
    std::thread poster([&] { cq.post(); });

    for (uint64_t turn = 0; polled < all && !cq.overflow; turn++) {
        const uint64_t before = polled;
        std::array<ibv_wc, 16> wcs;

        if (turn % 2 == 0) {
            polled += static_cast<uint64_t>(queue.poll(wcs));
        } else if (queue.start_poll() == 0) {
            do {
                polled++;
            } while (queue.next_poll() == 0);
            queue.end_poll();
        }
        if (polled == before) {
            sched_yield();
        }
    }
    kernel.join();
    poster.join();
    EXPECT_FALSE(cq.overflow) << "after " << cq.added;
}

/* A leaf of the table comes and goes with its QPs, while receives with other numbers are polled. */
TEST(QueueStress, ReceivesOfForeignQpsAreNobodys)
{
    constexpr uint32_t ours = 17;
    constexpr uint32_t foreign = 18;
    PlainRing plain(entries, sizeof(rox_cqe), first);
    std::unique_ptr<QpTable> table = make_object<QpTable>();
    CompletionQueue queue;
    std::atomic<bool> done{false};
    Qp qp;
    rox_cqe cqe = completion(1, foreign);

    cqe.opcode = IBV_WC_RECV;
    queue.attach(plain.view());
    queue.set_qps(table.get());
    queue.expect_xrc_targets();

    std::thread others([&] {
        while (!done) {
            if (table->insert(ours, &qp) == 0) {
                table->remove(ours);
            }
        }
    });

    for (uint64_t i = 0; i < 10000; i++) {
        std::array<ibv_wc, 1> wcs;

        plain.add(cqe);
        ASSERT_EQ(queue.poll(wcs), 1);
    }
    done = true;
    others.join();
}

} // namespace
} // namespace rox::test
