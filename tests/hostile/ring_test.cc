// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A program that writes anything into the rings which the kernel reads. What becomes of its
/// own QPs is its affair; nobody else notices, and nothing is written that it has no right to.
/// (tests/verbs/event_test.cc has what each ring's owner is told.)
#include <cstdio>
#include <cstring>
#include <functional>
#include <thread>

#include "../verbs/lib/loopback.h"
#include "../verbs/lib/process.h"
#include "lib/prey.h"

using namespace hostile;

namespace {

struct Counts {
    std::uint64_t forged = 0;    ///< entries and words
    std::uint64_t succeeded = 0; ///< completions
    std::uint64_t failed = 0;
    std::uint64_t revived = 0; ///< pairs of QPs that went to an error state
    std::uint64_t lives = 0;   ///< sets of objects
    std::uint64_t over = 0;    ///< lives that ended because a CQ was in error
};

class RingTest : public testing::Test {
protected:
    /// The attacks.
    void work_requests_with_wrong_fields();
    void entries_of_random_bytes();
    void indices_and_flags_that_cannot_be();
    void entries_that_change_while_they_are_read();
    void all_words_of_all_rings_at_once();

    /// One step of an attack on a life.
    using Step = std::function<void(Life &life, Forger &forger)>;

    void TearDown() override
    {
        EXPECT_TRUE(loot_.untouched());
        EXPECT_TRUE(bystander_.goes_on());
        new_qps_work();
    }

    /// Goes on with @p step for the attack's time, on a slow machine until it has tried enough, and
    /// meanwhile with @p racer in another thread.
    /// @p polls: completions are read and their places given back.
    void attack(const Step &step, const Step &racer = {}, bool polls = true)
    {
        AttackTime time;
        auto ended = [&] { return time.over(enough()); };
        Forger forger(1, loot_, bystander_.known());
        for (; !ended(); counts_.lives++) {
            Life life(end_.context, end_.pd);
            std::jthread other; // also joined if something here throws
            if (racer)
                other = std::jthread(
                    [&](const std::stop_token &end_of_life) { race(life, racer, end_of_life); });
            while (!ended() && !life.over()) {
                step(life, forger);
                if (polls)
                    poll(life);
                for (std::size_t i = 0; i < kServices.size(); i++)
                    counts_.revived += life.revive(i);
            }
            counts_.over += life.over();
        }
        report();
    }

    bool enough() const
    {
        return counts_.forged + raced_ > 100 && counts_.revived > 5 &&
               counts_.succeeded >= succeeded_ && counts_.over >= over_;
    }

    /// Posts some good work requests on all QPs, has @p spoil look at each, and rings.
    void post_all(Life &life, Forger &forger,
                  const std::function<void(const Ring &, std::uint32_t, bool send)> &spoil)
    {
        for (std::size_t i = 0; i < Life::kPreys; i++) {
            Prey &prey = life.prey(i), &peer = life.prey(i ^ 1);
            for (int n = 0; n < 2; n++) {
                if (peer.rings.rq.entries)
                    post_recv(forger, peer.rings.rq, peer.rq, spoil);
                else
                    post_recv(forger, life.srq(), life.srq_next(), spoil);
            }
            for (int n = 0; n < 3; n++) {
                forger.write_good(life, prey, peer);
                spoil(prey.rings.sq, prey.sq, true);
                prey.rings.sq.produce(++prey.sq);
            }
            ring_send_doorbell(prey.qp->get());
            if (forger.chance().once_in(4))
                ring_recv_doorbell(prey.qp->get());
        }
    }

    /// Reads the completions as a program does that trusts them.
    void poll(Life &life)
    {
        const Ring &cq = life.cq();
        std::uint32_t consumer = cq.consumer(), producer = cq.producer();
        for (; consumer != producer && producer - consumer <= cq.entries; consumer++) {
            auto *cqe = reinterpret_cast<const rox_cqe *>(cq.at(consumer));
            (cqe->status ? counts_.failed : counts_.succeeded)++;
        }
        Ring::store(cq.ctrl().consumer, consumer);
    }

    void new_qps_work()
    {
        vt::End a(vt::device_a()), b(vt::device_b());
        vt::Buffer source = a.buffer(4096), target = b.buffer(4096);
        vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
        vt::connect(a.context, qa, b.context, qb);
        vt::fill(source.bytes(), 5);
        qa.post(vt::SendWr::write({source.sge(0, 4096)}, vt::remote(target)).id(1));
        EXPECT_TRUE(vt::is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(vt::filled(target.bytes(), 5));
    }

    void race(Life &life, const Step &racer, const std::stop_token &stop)
    {
        Forger forger(2 + counts_.lives, loot_, bystander_.known());
        while (!stop.stop_requested())
            racer(life, forger);
    }

    void report()
    {
        std::printf("# %s: seed %llu: %llu forged, %llu completed well, %llu with errors, "
                    "%llu times revived, %llu lives, %llu of them over, bystander %llu rounds\n",
                    testing::UnitTest::GetInstance()->current_test_info()->name(),
                    static_cast<unsigned long long>(seed()),
                    static_cast<unsigned long long>(counts_.forged + raced_),
                    static_cast<unsigned long long>(counts_.succeeded),
                    static_cast<unsigned long long>(counts_.failed),
                    static_cast<unsigned long long>(counts_.revived),
                    static_cast<unsigned long long>(counts_.lives),
                    static_cast<unsigned long long>(counts_.over),
                    static_cast<unsigned long long>(bystander_.rounds()));
    }

    Bystander bystander_; // before anything is opened here
    vt::End end_{vt::device_a()};
    Loot loot_{end_.context, end_.pd};
    Counts counts_;
    std::atomic<std::uint64_t> raced_{0};
    std::uint64_t succeeded_ = 21; ///< what there must be at least before an attack ends
    std::uint64_t over_ = 0;       ///< likewise, lives that are over

private:
    void post_recv(Forger &forger, const Ring &ring, std::uint32_t &next,
                   const std::function<void(const Ring &, std::uint32_t, bool)> &spoil)
    {
        /* As a program that keeps to the rules: no more than there is room for. */
        if (next - ring.consumer() >= ring.entries)
            return;
        forger.write_good_recv(ring, next);
        spoil(ring, next, false);
        ring.produce(++next);
    }
};

void RingTest::work_requests_with_wrong_fields()
{
    attack([&](Life &life, Forger &forger) {
        post_all(life, forger, [&](const Ring &ring, std::uint32_t index, bool send) {
            if (!forger.chance().once_in(4))
                return;
            send ? forger.mutate_send(ring, index) : forger.mutate_recv(ring, index);
            counts_.forged++;
        });
    });
    EXPECT_GT(counts_.forged, 50u);
    EXPECT_GT(counts_.revived, 5u);
    EXPECT_GT(counts_.succeeded, 20u);
}

void RingTest::entries_of_random_bytes()
{
    attack([&](Life &life, Forger &forger) {
        post_all(life, forger, [&](const Ring &ring, std::uint32_t index, bool) {
            if (!forger.chance().once_in(4))
                return;
            forger.scribble(ring, index);
            counts_.forged++;
        });
    });
    EXPECT_GT(counts_.forged, 50u);
    EXPECT_GT(counts_.revived, 5u);
    EXPECT_GT(counts_.succeeded, 20u);
}

void RingTest::indices_and_flags_that_cannot_be()
{
    over_ = 1;
    attack(
        [&](Life &life, Forger &forger) {
            post_all(life, forger, [](const Ring &, std::uint32_t, bool) {});
            forger.mutate_ctrl(life.rings()[forger.chance().below(life.rings().size())]);
            counts_.forged++;
            for (std::size_t i = 0; i < Life::kPreys; i++)
                ring_send_doorbell(life.prey(i).qp->get());
        },
        {}, true);
    EXPECT_GT(counts_.forged, 20u);
    EXPECT_GT(counts_.revived, 3u);
    EXPECT_GT(counts_.over, 0u) << "no CQ was ever in error";
}

void RingTest::entries_that_change_while_they_are_read()
{
    attack(
        [&](Life &life, Forger &forger) {
            post_all(life, forger, [](const Ring &, std::uint32_t, bool) {});
        },
        [&](Life &life, Forger &forger) {
            Prey &prey = life.prey(forger.chance().below(Life::kPreys));
            /* What the kernel takes next, there and back. */
            const Ring &sq = prey.rings.sq;
            std::uint32_t next = sq.consumer() +
                                 static_cast<std::uint32_t>(forger.chance().below(4));
            rox_send_wqe before;
            std::memcpy(&before, sq.at(next), sizeof(before));
            forger.mutate_send(sq, next);
            std::memcpy(sq.at(next), &before, sizeof(before));
            const Ring &rq = prey.rings.rq.entries ? prey.rings.rq : life.srq();
            forger.mutate_recv(rq, rq.consumer());
            raced_ += 2;
        });
    EXPECT_GT(raced_, 100u);
    EXPECT_GT(counts_.revived, 2u);
    EXPECT_GT(counts_.succeeded, 10u);
}

void RingTest::all_words_of_all_rings_at_once()
{
    succeeded_ = 0;
    over_ = 1;
    attack(
        [&](Life &life, Forger &forger) {
            post_all(life, forger, [](const Ring &, std::uint32_t, bool) {});
        },
        [&](Life &life, Forger &forger) {
            const Ring &ring = life.rings()[forger.chance().below(life.rings().size())];
            if (forger.chance().once_in(50))
                forger.mutate_ctrl(ring);
            else
                forger.scribble(ring, static_cast<std::uint32_t>(forger.chance().bits()));
            raced_++;
        },
        false);
    EXPECT_GT(raced_, 100u);
    EXPECT_GT(counts_.over, 0u) << "no CQ was ever in error";
}

/// The same where packets are frames, as to another host.
class RingFrameTest : public RingTest {
    vt::LoopbackOff frames_;
};

TEST_F(RingTest, WorkRequestsWithWrongFields)
{
    work_requests_with_wrong_fields();
}

TEST_F(RingFrameTest, WorkRequestsWithWrongFields)
{
    work_requests_with_wrong_fields();
}

TEST_F(RingTest, EntriesOfRandomBytes)
{
    entries_of_random_bytes();
}

TEST_F(RingFrameTest, EntriesOfRandomBytes)
{
    entries_of_random_bytes();
}

TEST_F(RingTest, IndicesAndFlagsThatCannotBe)
{
    indices_and_flags_that_cannot_be();
}

TEST_F(RingFrameTest, IndicesAndFlagsThatCannotBe)
{
    indices_and_flags_that_cannot_be();
}

TEST_F(RingTest, EntriesThatChangeWhileTheyAreRead)
{
    entries_that_change_while_they_are_read();
}

TEST_F(RingFrameTest, EntriesThatChangeWhileTheyAreRead)
{
    entries_that_change_while_they_are_read();
}

TEST_F(RingTest, AllWordsOfAllRingsAtOnce)
{
    all_words_of_all_rings_at_once();
}

TEST_F(RingFrameTest, AllWordsOfAllRingsAtOnce)
{
    all_words_of_all_rings_at_once();
}

/// A thread that keeps a send queue full must not keep the kernel in it: a doorbell ends,
/// whatever the work requests are.
class FeedTest : public RingTest {
protected:
    static constexpr std::uint32_t kEntries = 16384;

    /// To itself, if it is connected; in a queue so long that it is never seen empty.
    void start(ibv_qp_type type)
    {
        Mapping mapping = mapped_by(
            [&] { cq_ = std::make_unique<vt::Cq>(end_.context.get(), 2 * kEntries); });
        cq_ring_ = cq_ring_of(mapping, 2 * kEntries);
        mapping = mapped_by([&] {
            qp_ = std::make_unique<vt::Qp>(
                end_.pd.get(), cq_->get(), cq_->get(),
                vt::QpConfig{.type = type, .send_wr = kEntries, .recv_wr = kEntries});
        });
        rings_ = rings_of(mapping, qp_->query().cap);
        vt::Params params;
        params.peer_psn = params.psn;
        qp_->to_init(params);
        qp_->to_rtr(params, vt::address_of(end_.context, end_.context), qp_->number());
        qp_->to_rts(params);
    }

    void TearDown() override
    {
        qp_.reset();
        cq_.reset();
        RingTest::TearDown();
    }

    static void fill(const Ring &ring, const rox_send_wqe &wqe)
    {
        for (std::uint32_t i = 0; i < ring.entries; i++)
            std::memcpy(ring.at(i), &wqe, sizeof(wqe));
    }

    /// Rings again and again while other threads say that @p ring is full and the CQ empty.
    void feed(const Ring &ring, void (*doorbell)(const ibv_qp *))
    {
        std::jthread feeder([&](const std::stop_token &stop) {
            while (!stop.stop_requested()) {
                ring.produce(ring.consumer() + ring.entries);
                Ring::store(cq_ring_.ctrl().consumer, cq_ring_.producer());
            }
        });
        vt::Deadline end(vt::Millis(500));
        vt::Millis longest{0};
        std::uint32_t from = ring.consumer();
        std::uint64_t rung = 0;
        for (; !end.passed(); rung++) {
            vt::Stopwatch time;
            doorbell(qp_->get());
            longest = std::max(longest, time.elapsed());
        }
        std::uint32_t taken = ring.consumer() - from;
        std::printf("# %llu doorbells, the longest %lld ms, %u entries taken\n",
                    static_cast<unsigned long long>(rung), static_cast<long long>(longest.count()),
                    taken);
        EXPECT_GT(taken, 100u);
        EXPECT_LT(longest, vt::kPatience / 5) << "it is kept as long as it is fed";
    }

    std::unique_ptr<vt::Cq> cq_;
    std::unique_ptr<vt::Qp> qp_;
    Ring cq_ring_;
    QpRings rings_;
};

TEST_F(FeedTest, LocalWorkRequestsWithoutEnd)
{
    Window window(end_.pd, IBV_MW_TYPE_1);
    start(IBV_QPT_RC);
    rox_send_wqe unbind{};
    unbind.opcode = IBV_WR_BIND_MW;
    unbind.wr.bind.mw_rkey = window.rkey();
    unbind.wr.bind.new_rkey = window.rkey();
    fill(rings_.sq, unbind);
    feed(rings_.sq, ring_send_doorbell);
    EXPECT_EQ(qp_->state(), IBV_QPS_RTS) << "each of them was a good one";
    EXPECT_EQ(qp_->destroy(), 0);
}

TEST_F(FeedTest, EmptyMessagesWithoutEnd)
{
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        start(type);
        rox_send_wqe empty{};
        empty.opcode = IBV_WR_RDMA_WRITE;
        fill(rings_.sq, empty);
        feed(rings_.sq, ring_send_doorbell);
        EXPECT_EQ(qp_->state(), IBV_QPS_RTS);
        EXPECT_EQ(qp_->destroy(), 0);
    }
}

TEST_F(FeedTest, FlushedWorkRequestsWithoutEnd)
{
    start(IBV_QPT_RC);
    ASSERT_EQ(qp_->move(IBV_QPS_ERR), 0);
    feed(rings_.sq, ring_send_doorbell);
    feed(rings_.rq, ring_recv_doorbell);
    EXPECT_EQ(qp_->destroy(), 0);
}

} // namespace
