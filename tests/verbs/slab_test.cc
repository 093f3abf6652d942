// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Rings of small queues share mappings: a program may have more objects than the kernel lets it
/// have mappings (vm.max_map_count, 65,530), and objects come and go beside each other in one.
#include <atomic>
#include <fstream>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <unistd.h>

#include "lib/pair.h"

using namespace vt;

namespace {

/// Mappings of the device in this process.
long mappings()
{
    long count = 0;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        count += line.find("/uverbs") != std::string::npos;
    return count;
}

constexpr QpConfig kSmall{.send_wr = 4, .recv_wr = 4, .send_sge = 1, .recv_sge = 1};

class SlabCore : public PairTest {
protected:
    void SetUp() override { alarm(kLongCaseSeconds); }

    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
};

class SlabTest : public SlabCore {};

TEST_F(SlabCore, ThousandsOfObjectsHaveFewMappings)
{
    constexpr std::size_t kEach = 1000;
    const long before = mappings();
    {
        std::vector<std::unique_ptr<Cq>> cqs;
        std::vector<std::unique_ptr<Srq>> srqs;
        std::vector<std::unique_ptr<Qp>> qps; // the first to go
        for (std::size_t i = 0; i < kEach; i++) {
            cqs.push_back(std::make_unique<Cq>(a.context.get(), 8));
            srqs.push_back(std::make_unique<Srq>(a.pd.get(), 8, 1));
            qps.push_back(std::make_unique<Qp>(a.pd.get(), cqs[i]->get(), a.recv_cq.get(), kSmall));
        }
        std::cout << "# " << mappings() - before << " mappings for " << 3 * kEach << " objects\n";
        EXPECT_LE(mappings() - before, 48);
        EXPECT_GE(mappings() - before, 3) << "do they count the rings at all?";
    }
    EXPECT_LE(mappings(), before + 1) << "one may be kept";
}

TEST_F(SlabCore, LargeRingsHaveMappingsOfTheirOwn)
{
    const long before = mappings();
    {
        Cq first(a.context.get(), 8192), second(a.context.get(), 8192);
        EXPECT_EQ(mappings(), before + 2);
        ASSERT_EQ(first.destroy(), 0);
        EXPECT_EQ(mappings(), before + 1);
    }
    EXPECT_EQ(mappings(), before);
}

/// Completions and receives move from a place to a larger one, to a mapping of its own, and back.
TEST_F(SlabCore, ResizesBetweenPlacesAndMappings)
{
    Cq cq(b.context.get(), 16), neighbour(b.context.get(), 16);
    Srq srq(b.pd.get(), 16, 1);
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), kSmall);
    QpConfig config = kSmall;
    config.srq = srq.get();
    b.qp = std::make_unique<Qp>(b.pd.get(), neighbour.get(), cq.get(), config);
    connect();
    std::uint64_t next = 0;
    for (int entries : {100, 8192, 40, 3000, 33}) {
        for (std::uint64_t i = 0; i < 3; i++)
            srq.post(next + i, {far.sge(0, 64)});
        a.qp->post(SendWr::send({near.sge(0, 64)}).id(next));
        ASSERT_TRUE(is(a.send_cq.one(), next, IBV_WC_SEND));
        ASSERT_EQ(ibv_resize_cq(cq.get(), entries), 0) << entries;
        ASSERT_EQ(srq.modify({static_cast<std::uint32_t>(entries), 0, 0}, IBV_SRQ_MAX_WR), 0);
        for (std::uint64_t i = 1; i < 3; i++) {
            a.qp->post(SendWr::send({near.sge(0, 64)}).id(next + i));
            ASSERT_TRUE(is(a.send_cq.one(), next + i, IBV_WC_SEND));
        }
        for (std::uint64_t i = 0; i < 3; i++, next++)
            EXPECT_TRUE(is(cq.one(), next, IBV_WC_RECV)) << entries;
    }
    EXPECT_TRUE(neighbour.quiet(Millis(1)));
    b.qp.reset();
}

// ---- threads ----

/// A pair of QPs with CQs of its own, of sizes by chance, that checks itself.
struct Connection {
    Connection(const End &a, const End &b, std::mt19937 &chance)
        : send_cq(a.context.get(), size(chance, 1000)),
          recv_cq(b.context.get(), size(chance, 1000)),
          sender(a.pd.get(), send_cq.get(), send_cq.get(), config(chance)),
          receiver(b.pd.get(), recv_cq.get(), recv_cq.get(), config(chance))
    {
        connect(a.context, sender, b.context, receiver);
    }

    /// Sends a message and finds nothing but that.
    void use(const Buffer &near, const Buffer &far, std::uint64_t id) const
    {
        receiver.post_recv(id, {far.sge(0, 64)});
        sender.post(SendWr::send({near.sge(0, 64)}).id(id));
        EXPECT_TRUE(is(recv_cq.one(), id, IBV_WC_RECV));
        EXPECT_TRUE(is(send_cq.one(), id, IBV_WC_SEND));
        ibv_wc wc;
        EXPECT_EQ(ibv_poll_cq(send_cq.get(), 1, &wc), 0);
        EXPECT_EQ(ibv_poll_cq(recv_cq.get(), 1, &wc), 0);
    }

    static int size(std::mt19937 &chance, unsigned most)
    {
        return static_cast<int>(1 + chance() % (1 + chance() % most));
    }
    static QpConfig config(std::mt19937 &chance)
    {
        return {.send_wr = static_cast<std::uint32_t>(size(chance, 300)),
                .recv_wr = static_cast<std::uint32_t>(size(chance, 300)),
                .send_sge = static_cast<std::uint32_t>(size(chance, 4)),
                .recv_sge = static_cast<std::uint32_t>(size(chance, 4))};
    }

    Cq send_cq, recv_cq;
    Qp sender, receiver;
};

/// Some threads make and destroy objects of all sizes, others use theirs meanwhile. A ring that
/// lay in the place of another one, or in memory that is mapped no more, would be seen.
TEST_F(SlabCore, ThreadsMakeDestroyAndUse)
{
    constexpr unsigned kMakers = 3, kUsers = 2, kRounds = 25;
    std::atomic<unsigned> making = kMakers;
    std::vector<std::thread> threads;
    const auto guarded = [](auto body) {
        try {
            body();
        } catch (const std::exception &error) {
            ADD_FAILURE() << error.what();
        }
    };
    const long before = mappings();
    for (unsigned thread = 0; thread < kMakers; thread++)
        threads.emplace_back([&, thread] {
            guarded([&] {
                std::mt19937 chance(thread);
                std::vector<std::unique_ptr<Connection>> kept(4);
                for (unsigned i = 0; i < kRounds; i++) {
                    auto &one = kept[chance() % kept.size()];
                    one.reset();
                    one = std::make_unique<Connection>(a, b, chance);
                    one->use(near, far, i);
                }
            });
            making--;
        });
    for (unsigned thread = 0; thread < kUsers; thread++)
        threads.emplace_back([&, thread] {
            guarded([&] {
                std::mt19937 chance(100 + thread);
                Connection mine(a, b, chance);
                std::uint64_t i = 0;
                do
                    mine.use(near, far, i++);
                while (making);
                std::cout << "# " << i << " messages meanwhile\n";
            });
        });
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_LE(mappings(), before + 2) << "one of each context may be kept";
}

/// One object after the other, so that all memory is given up and taken again.
TEST_F(SlabCore, LastObjectOfASlabInOneThreadFirstOneInAnother)
{
    constexpr unsigned kThreads = 4, kRounds = 200;
    std::vector<std::thread> threads;
    for (unsigned thread = 0; thread < kThreads; thread++)
        threads.emplace_back([&, thread] {
            for (unsigned i = 0; i < kRounds; i++) {
                // A class of its own, which is empty again and again.
                ibv_cq *cq = ibv_create_cq(a.context.get(), 700 + 2000 * (thread % 2 && i % 2),
                                           nullptr, nullptr, 0);
                ASSERT_NE(cq, nullptr);
                ibv_wc wc;
                EXPECT_EQ(ibv_poll_cq(cq, 1, &wc), 0) << "what a former CQ had here";
                EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
                EXPECT_EQ(ibv_destroy_cq(cq), 0);
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

// ---- many ----

/// Three times as many as a process can have mappings, or a few more on debug kernels, where one
/// takes much memory. Prints what one takes, and how long the first ones and the last ones took.
TEST_F(SlabTest, TwoHundredThousandQps)
{
    constexpr std::size_t kStep = 10000;
    const std::size_t kMany = patience_factor() >= 6 ? 70000 : 200000;
    const long before = mappings();
    std::vector<ibv_qp *> qps;
    ibv_qp_init_attr attr = kSmall.attr(a.send_cq.get(), a.recv_cq.get());
    alarm(10 * kLongCaseSeconds);
    const long free_before = sysconf(_SC_AVPHYS_PAGES);
    Stopwatch watch;
    while (qps.size() < kMany) {
        ibv_qp_init_attr wanted = attr;
        ibv_qp *qp = ibv_create_qp(a.pd.get(), &wanted);
        ASSERT_NE(qp, nullptr) << "after " << qps.size() << ": " << errno;
        qps.push_back(qp);
        if (qps.size() % kStep == 0) {
            const auto used = free_before - sysconf(_SC_AVPHYS_PAGES);
            std::cout << "# " << qps.size()
                      << " QPs: " << watch.elapsed().count() * 1000 / static_cast<long>(kStep)
                      << " us for each of the last " << kStep << ", "
                      << used * 4096 / static_cast<long>(qps.size()) << " bytes each, "
                      << mappings() - before << " mappings" << std::endl;
            watch = {};
        }
    }
    EXPECT_LE(mappings() - before, 2000);

    // The program's own memory is there, and so are the QPs.
    std::vector<std::unique_ptr<std::thread>> threads;
    for (int i = 0; i < 8; i++)
        threads.push_back(std::make_unique<std::thread>([] {}));
    for (auto &thread : threads)
        thread->join();
    for (std::size_t i : {std::size_t{0}, kMany / 2, kMany - 1}) {
        ibv_qp_attr state{};
        ibv_qp_init_attr init{};
        EXPECT_EQ(ibv_query_qp(qps[i], &state, IBV_QP_STATE, &init), 0);
        EXPECT_EQ(state.qp_state, IBV_QPS_RESET);
    }
    start();
    expect_works();
    a.qp.reset();
    b.qp.reset();
    watch = {};
    for (ibv_qp *qp : qps)
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
    std::cout << "# " << watch.elapsed().count() * 1000 / static_cast<long>(kMany)
              << " us to destroy one\n";
    EXPECT_LE(mappings(), before + 2) << "one of each context may be kept";
}

/// The same with CQs and SRQs: more of each than a process can have mappings.
TEST_F(SlabTest, SeventyThousandCqsAndSrqs)
{
    constexpr std::size_t kMany = 70000;
    const long before = mappings();
    std::vector<ibv_cq *> cqs;
    std::vector<ibv_srq *> srqs;
    alarm(10 * kLongCaseSeconds);
    Stopwatch watch;
    while (srqs.size() < kMany) {
        ibv_srq_init_attr attr{.srq_context = nullptr, .attr = {4, 1, 0}};
        ibv_cq *cq = ibv_create_cq(a.context.get(), 4, nullptr, nullptr, 0);
        ibv_srq *srq = ibv_create_srq(a.pd.get(), &attr);
        ASSERT_NE(cq, nullptr) << "after " << cqs.size() << ": " << errno;
        ASSERT_NE(srq, nullptr) << "after " << srqs.size() << ": " << errno;
        cqs.push_back(cq);
        srqs.push_back(srq);
    }
    std::cout << "# " << watch.elapsed().count() * 1000 / static_cast<long>(kMany)
              << " us for a CQ and an SRQ, " << mappings() - before << " mappings\n";
    EXPECT_LE(mappings() - before, 1000);
    start();
    expect_works();
    a.qp.reset();
    b.qp.reset();
    for (ibv_srq *srq : srqs)
        EXPECT_EQ(ibv_destroy_srq(srq), 0);
    for (ibv_cq *cq : cqs)
        EXPECT_EQ(ibv_destroy_cq(cq), 0);
    EXPECT_LE(mappings(), before + 2) << "one of each context may be kept";
}

} // namespace
