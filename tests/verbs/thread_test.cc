// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Verbs are thread safe: several threads on one object.
#include <algorithm>
#include <atomic>
#include <functional>
#include <iostream>
#include <set>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::size_t kThreads = 4;

/// Runs @p body in several threads; an exception in one is a failure.
void in_threads(const std::function<void(std::size_t)> &body, std::size_t count = kThreads)
{
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < count; i++)
        threads.emplace_back([&body, i] {
            try {
                body(i);
            } catch (const std::exception &error) {
                ADD_FAILURE() << error.what();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

class ThreadCore : public PairTest {};

TEST_F(ThreadCore, PostingOnOneQp)
{
    constexpr std::uint64_t kEach = 400;
    start({.send_wr = 128});
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    std::atomic<std::uint64_t> completed = 0;
    std::atomic<bool> stop = false;
    std::thread poller([&] {
        ibv_wc wc{};
        while (!stop) {
            if (ibv_poll_cq(a.send_cq.get(), 1, &wc) > 0) {
                EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                completed++;
            } else {
                std::this_thread::yield();
            }
        }
    });
    in_threads([&](std::size_t thread) {
        for (std::uint64_t i = 0; i < kEach; i++) {
            Deadline deadline;
            while (a.qp->try_post(SendWr::fetch_add(near.sge(thread * 8, 8), remote(far), 1))) {
                if (deadline.passed())
                    fail("the queue stays full");
                std::this_thread::yield();
            }
        }
    });
    EXPECT_TRUE(eventually([&] { return completed == kThreads * kEach; }));
    stop = true;
    poller.join();
    EXPECT_EQ(completed, kThreads * kEach);
    EXPECT_EQ(far.word(0), kThreads * kEach);
}

/* The device promises that they are atomic among its QPs (IBV_ATOMIC_HCA). */
TEST_F(ThreadCore, AtomicsOfSeveralQpsOnOneWord)
{
    constexpr std::uint64_t kEach = 300;
    Buffer far = b.buffer(4096);
    std::vector<std::uint64_t> seen[kThreads];
    in_threads([&](std::size_t thread) {
        Cq cq(a.context.get(), 16);
        Cq none(b.context.get(), 16);
        Qp sender(a.pd.get(), cq.get(), cq.get());
        Qp receiver(b.pd.get(), none.get(), none.get());
        Buffer near = a.buffer(4096);
        vt::connect(a.context, sender, b.context, receiver);
        for (std::uint64_t i = 0; i < kEach; i++) {
            sender.post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(i));
            if (!is(cq.one(), i, IBV_WC_FETCH_ADD))
                fail("a FETCH_ADD has failed");
            seen[thread].push_back(near.word(0));
        }
    });
    std::set<std::uint64_t> all;
    for (const auto &one : seen) {
        EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
        all.insert(one.begin(), one.end());
    }
    EXPECT_EQ(all.size(), kThreads * kEach) << "each value is there once";
    EXPECT_EQ(far.word(0), kThreads * kEach);
}

TEST_F(ThreadCore, EachWithAQpOfItsOwnOnOneCq)
{
    constexpr std::uint64_t kEach = 150;
    std::vector<std::unique_ptr<Qp>> senders;
    std::vector<std::unique_ptr<Qp>> receivers;
    for (std::size_t i = 0; i < kThreads; i++) {
        senders.push_back(std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get()));
        receivers.push_back(std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get()));
        vt::connect(a.context, *senders[i], b.context, *receivers[i]);
    }
    Buffer near = a.buffer(kThreads * 8192);
    Buffer far = b.buffer(kThreads * 8192);
    std::atomic<std::uint64_t> completed[kThreads] = {};
    std::atomic<std::uint64_t> total = 0;
    in_threads([&](std::size_t thread) {
        fill(near.bytes(thread * 8192, 8192), thread);
        for (std::uint64_t i = 0; i < kEach; i++) {
            senders[thread]->post(
                SendWr::write({near.sge(thread * 8192, 8192)}, remote(far, thread * 8192))
                    .id(thread));
            // Anybody may poll anybody's completion.
            Deadline deadline;
            while (completed[thread] <= i) {
                ibv_wc wc{};
                if (ibv_poll_cq(a.send_cq.get(), 1, &wc) > 0) {
                    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                    EXPECT_EQ(wc.qp_num, senders[wc.wr_id]->number());
                    completed[wc.wr_id]++;
                    total++;
                } else {
                    std::this_thread::yield();
                }
                if (deadline.passed())
                    fail("a completion is missing");
            }
        }
    });
    EXPECT_EQ(total, kThreads * kEach);
    for (std::size_t i = 0; i < kThreads; i++)
        EXPECT_TRUE(filled(far.bytes(i * 8192, 8192), i));
}

// The timer, the workers of repeated retries and those of everything else have them meanwhile.
TEST_F(ThreadCore, DestroyedWhileTheirPeersHaveNoReceives)
{
    constexpr std::size_t kQps = 8;
    constexpr std::size_t kRounds = 4;
    constexpr std::uint32_t kBacklog = 60; // more than a run sends
    Buffer near = a.buffer(1 << 16);
    Params params;
    params.min_rnr_timer = 1; // 10 us
    params.rnr_retry = 7;
    in_threads([&](std::size_t thread) {
        for (std::size_t round = 0; round < kRounds; round++) {
            Cq send_cq(a.context.get(), kQps * 64);
            Cq recv_cq(b.context.get(), kQps * 64);
            std::vector<std::unique_ptr<Qp>> senders, receivers;
            for (std::size_t i = 0; i < kQps; i++) {
                senders.push_back(std::make_unique<Qp>(a.pd.get(), send_cq.get(), send_cq.get()));
                receivers.push_back(std::make_unique<Qp>(b.pd.get(), recv_cq.get(), recv_cq.get()));
                vt::connect(a.context, *senders[i], b.context, *receivers[i], params);
                for (std::uint64_t n = 0; n < kBacklog; n++)
                    senders[i]->post(SendWr::send({near.sge(0, n % 8 ? 64 : near.size())}).id(n));
            }
            std::this_thread::sleep_for(Millis((thread + round) % 4 * 5));
            if (round % 2)
                receivers.clear();
            while (!senders.empty())
                senders.pop_back();
        }
    });
    start();
    expect_works();
}

TEST_F(ThreadCore, PostingReceivesOnOneSrq)
{
    constexpr std::uint64_t kEach = 200;
    Srq srq(b.pd.get(), kThreads * kEach + 1);
    make({.send_wr = 256}, {.srq = srq.get()});
    connect();
    in_threads([&](std::size_t thread) {
        for (std::uint64_t i = 0; i < kEach; i++)
            srq.post(thread * kEach + i, {});
    });
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < kThreads * kEach; i++) {
        a.qp->post(SendWr::send({}).id(i));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        seen.insert(b.recv_cq.one().wr_id);
    }
    EXPECT_EQ(seen.size(), kThreads * kEach) << "each receive was used once";
    b.qp.reset();
}

TEST_F(ThreadCore, CreatingAndDestroyingWhileOthersSend)
{
    start();
    std::atomic<bool> stop = false;
    std::thread traffic([&] {
        Buffer near = a.buffer(65536);
        Buffer far = b.buffer(65536);
        for (std::uint64_t i = 0; !stop; i++) {
            a.qp->post(SendWr::write({near.sge(0, 65536)}, remote(far)).id(i));
            ibv_wc wc = a.send_cq.one();
            EXPECT_TRUE(is(wc, i, IBV_WC_RDMA_WRITE));
        }
    });
    in_threads(
        [&](std::size_t) {
            for (int i = 0; i < 30; i++) {
                Cq cq(a.context.get(), 16);
                Qp one(a.pd.get(), cq.get(), cq.get());
                Qp two(a.pd.get(), cq.get(), cq.get());
                Buffer buffer(a.pd.get(), 16384);
                vt::connect(a.context, one, a.context, two);
                one.post(SendWr::write({buffer.sge(0, 8000)}, remote(buffer, 8192)).id(1));
                EXPECT_TRUE(is(cq.one(), 1, IBV_WC_RDMA_WRITE));
                one.post(SendWr::write({buffer.sge(0, 8000)}, remote(buffer, 8192)).id(2));
            } // destroyed with a request under way
        },
        3);
    stop = true;
    traffic.join();
}

/// Between two devices a response may be lost, and the peer cannot send it again, as its memory is
/// gone. If a later READ was refused, the one without its response is flushed before (9.9.2.1). If
/// there is no later one, its retries end.
TEST_F(ThreadCore, DeregisteringWhileThePeerReads)
{
    const bool wire = a.context.name() != b.context.name();
    int lost = 0;
    Params params;
    params.timeout = 12;
    for (int round = 0; round < 10; round++) {
        start({}, params);
        Buffer near = a.buffer(1 << 20);
        Buffer far = b.buffer(1 << 20);
        fill(far.bytes(), 1);
        for (std::uint64_t i = 0; i < 20; i++)
            a.qp->post(SendWr::read({near.sge(0, 1 << 20)}, remote(far)).id(i));
        std::this_thread::sleep_for(Millis(round * 2));
        EXPECT_EQ(far.mr().destroy(), 0);
        bool failed = false, refused = false;
        for (std::uint64_t i = 0; i < 20; i++) {
            ibv_wc wc = a.send_cq.one();
            EXPECT_EQ(wc.wr_id, i);
            if (wc.status == IBV_WC_SUCCESS) {
                EXPECT_FALSE(failed) << "no success behind an error";
                continue;
            }
            failed = true;
            if (wire && !refused && wc.status == IBV_WC_WR_FLUSH_ERR) {
                lost++;
                continue;
            }
            if (wire && !refused && wc.status == IBV_WC_RETRY_EXC_ERR)
                lost++;
            else
                EXPECT_EQ(wc.status, refused ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR);
            refused = true;
        }
        EXPECT_EQ(refused, failed) << "one READ was refused, or none";
    }
    std::cout << "# " << lost << " READs lost their responses\n";
}

/// Each QP refers to the other, as each has sent several messages to it.
TEST_F(ThreadCore, PeersThatEndTogether)
{
    for (int round = 0; round < 20; round++) {
        start();
        Buffer near = a.buffer(4096);
        Buffer far = b.buffer(4096);
        for (int i = 0; i < 4; i++) {
            a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(1));
            b.qp->post(SendWr::write({far.sge(0, 8)}, remote(near)).id(2));
            ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
            ASSERT_TRUE(is(b.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
        }
        in_threads([&](std::size_t thread) {
            switch (thread) {
            case 0: a.qp.reset(); break;
            case 1: b.qp.reset(); break;
            case 2: EXPECT_EQ(near.mr().destroy(), 0); break;
            default: EXPECT_EQ(far.mr().destroy(), 0); break;
            }
        });
    }
}

/// A region is deregistered again and again while messages use one after the other.
TEST_F(ThreadCore, RegionsComeAndGoBesideMessages)
{
    constexpr int kRegions = 200;
    start();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    std::atomic<bool> stop = false;
    std::thread sender([&] {
        for (std::uint64_t id = 0; !stop; id++) {
            a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(id));
            if (!is(a.send_cq.one(), id, IBV_WC_RDMA_WRITE)) {
                ADD_FAILURE() << "number " << id;
                break;
            }
        }
    });
    for (int i = 0; i < kRegions; i++) {
        Buffer source = b.buffer(4096);
        for (int message = 0; message < i % 4; message++) {
            b.qp->post(SendWr::write({source.sge(0, 8)}, remote(near, 64)).id(1));
            EXPECT_TRUE(is(b.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        }
        EXPECT_EQ(source.mr().destroy(), 0);
    }
    stop = true;
    sender.join();
}

/// What the responder remembers of ATOMICs gets another size beneath them.
TEST_F(ThreadCore, ChangingHowManyAnswersAreKept)
{
    start();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    ASSERT_EQ(b.qp->move(IBV_QPS_SQD), 0);
    std::atomic<bool> stop = false;
    std::thread changer([&] {
        for (int turn = 0; !stop; turn++) {
            ibv_qp_attr attr{};
            attr.qp_state = IBV_QPS_SQD;
            attr.max_dest_rd_atomic = static_cast<std::uint8_t>(3 * turn % 128 + 1);
            EXPECT_EQ(b.qp->modify(attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
        }
    });
    std::uint64_t count = 0;
    for (Deadline end(Millis(400)); !end.passed(); count++) {
        a.qp->post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(count));
        if (!is(a.send_cq.one(), count, IBV_WC_FETCH_ADD) || near.word(0) != count) {
            ADD_FAILURE() << "number " << count << " was answered " << near.word(0);
            break;
        }
    }
    stop = true;
    changer.join();
    EXPECT_EQ(far.word(0), count);
    std::cout << "# " << count << " times\n";
}

TEST_F(ThreadCore, ModifyingToErrWhileOthersPost)
{
    for (int round = 0; round < 10; round++) {
        start({.send_wr = 64});
        Buffer near = a.buffer(4096);
        Buffer far = b.buffer(4096);
        std::atomic<std::uint64_t> posted = 0;
        std::atomic<std::uint64_t> next = 0;
        std::atomic<bool> stop = false;
        // No more at once than the CQ takes: what is flushed makes room in the queue.
        std::thread poster([&] {
            while (!stop)
                if (posted - next < 400 &&
                    !a.qp->try_post(SendWr::write({near.sge(0, 100)}, remote(far)).id(posted)))
                    posted++;
        });
        std::this_thread::sleep_for(5ms);
        EXPECT_EQ(a.qp->move(IBV_QPS_ERR), 0);
        for (int i = 0; i < 1000; i++, next++)
            EXPECT_EQ(a.send_cq.one().wr_id, next);
        stop = true;
        poster.join();
        for (; next < posted; next++)
            EXPECT_EQ(a.send_cq.one().wr_id, next) << "each exactly once";
        EXPECT_TRUE(a.send_cq.quiet());
    }
}

} // namespace
