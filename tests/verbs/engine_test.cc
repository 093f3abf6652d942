// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The engine that stays awake: while it watches a send queue, no doorbell is rung.
/// A post that falls between its watch and its end would stay where it is for ever,
/// so all of these post at that moment again and again, and count completions.
#include <array>
#include <atomic>
#include <iostream>
#include <random>
#include <span>
#include <string_view>

#include <sched.h>
#include <unistd.h>

#include "lib/attribute.h"
#include "lib/diagnose.h"
#include "lib/elided.h"
#include "lib/pair.h"
#include "lib/process.h"
#include "lib/rdmatool.h"
#include "lib/thread.h"

using namespace vt;

namespace {

constexpr std::size_t kSize = 64;
constexpr std::uint64_t kDepth = 32;

/// Why there is none; on one CPU, what waits would take it from who posts.
const char *without_engine()
{
    return sysconf(_SC_NPROCESSORS_ONLN) < 2 ? "on one CPU it does not wait" : nullptr;
}

/// While it lives, the engine waits so many microseconds; 0: there is none.
class Spin : public Setting {
public:
    explicit Spin(unsigned us) : Setting("/sys/module/rox/parameters/spin_us", std::to_string(us))
    {}
};

/// Keeps the CPU, so that the other one stays the only idle one.
void pause(Micros time)
{
    auto end = Clock::now() + time;
    while (Clock::now() < end)
        ;
}

/// Small writes through one QP whose CQ nobody else uses; each is waited for.
class Flow {
public:
    Flow(const Qp &qp, const Cq &cq, const Buffer &near, const Buffer &far)
        : qp_(qp), cq_(cq), near_(near), far_(far)
    {}

    std::uint64_t posted() const { return posted_; }
    std::uint64_t failed() const { return failed_; }
    /// Its posts and its looks for completions are steps of @p pace.
    void keep(Pace *pace) { pace_ = pace; }

    void post()
    {
        reap_to(kDepth - 1);
        qp_.post(SendWr::write({near_.sge(0, kSize)}, remote(far_)).id(posted_));
        posted_++;
        step();
    }
    /// So fast that the engine wakes, if it may at all.
    void burst(int count)
    {
        while (count--)
            post();
        reap_to(0);
    }
    void one()
    {
        post();
        reap_to(0);
    }
    /// Waits until no more than @p left are outstanding; completions are in order. Between two
    /// looks it sleeps for @p nap.
    void reap_to(std::uint64_t left, Micros nap = Micros(0))
    {
        std::array<ibv_wc, 16> wcs{};
        Deadline deadline;
        for (unsigned looks = 1; posted_ - done_ > left; looks++) {
            int n = ibv_poll_cq(cq_.get(), wcs.size(), wcs.data());
            step();
            for (int i = 0; i < n; i++)
                count(wcs[static_cast<std::size_t>(i)]);
            if (n == 0 && nap.count())
                std::this_thread::sleep_for(nap);
            if ((nap.count() || looks % 1024 == 0) && deadline.passed())
                fail(std::to_string(posted_ - done_) + " completions are missing, next is " +
                     std::to_string(done_) + state_of_everything());
        }
    }

private:
    void step()
    {
        if (pace_)
            pace_->step();
    }
    void count(const ibv_wc &wc)
    {
        if (wc.wr_id != done_)
            fail("completion " + std::to_string(wc.wr_id) + " instead of " + std::to_string(done_));
        done_++;
        failed_ += wc.status != IBV_WC_SUCCESS;
    }

    const Qp &qp_;
    const Cq &cq_;
    const Buffer &near_;
    const Buffer &far_;
    std::uint64_t posted_ = 0;
    std::uint64_t done_ = 0;
    std::uint64_t failed_ = 0;
    Pace *pace_ = nullptr;
};

class EngineTest : public PairTest {
protected:
    Flow flow() { return {*a.qp, a.send_cq, near, far}; }

    std::uint64_t doorbells() { return port_counter(device_a(), "doorbells"); }

    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
};

class EngineCore : public EngineTest {};

void reap_all(std::span<Flow> flows)
{
    for (Flow &flow : flows) {
        flow.reap_to(0);
        EXPECT_EQ(flow.failed(), 0U);
    }
}

/// A case measures more than once only if that was quick. On a host under load a measurement takes
/// up to a minute, as few windows tell, and a case has a minute and a half.
constexpr Millis kQuick{20000};

/// A thread takes turns with all of them.
testing::AssertionResult elided(std::span<Flow> flows)
{
    std::size_t next = 0;
    Elided elided(1000us);
    for (Flow &flow : flows)
        flow.keep(&elided.pace());
    elided.measure([&] { flows[next++ % flows.size()].post(); }, [&] { reap_all(flows); });
    for (Flow &flow : flows)
        flow.keep(nullptr);
    std::cout << "# " << elided.text() << "\n";
    return elided.verdict();
}

/// Wakes the engine, lets it go to sleep, more or less, and posts one.
void hand_over(Flow &flow, unsigned spin, Millis time)
{
    std::minstd_rand random(1);
    int rounds = 0;
    // A doorbell in each half of the time that the engine would wait, and some more.
    int hot = 60;
    for (Deadline end(time); !end.passed(); rounds++) {
        flow.burst(hot);
        unsigned wide = random() % (2 * spin);
        unsigned close = spin - 20 + random() % 60;
        pause(Micros(rounds % 2 ? wide : close));
        flow.one();
    }
    EXPECT_EQ(flow.failed(), 0U);
    std::cout << "# " << rounds << " times\n";
}

TEST_F(EngineCore, NoDoorbellWhileItWatches)
{
    if (const char *why = without_engine())
        GTEST_SKIP() << why;
    start();
    Spin spin(1000);
    Flow small = flow();
    EXPECT_TRUE(elided({&small, 1}));
    EXPECT_EQ(small.failed(), 0U);
}

TEST_F(EngineCore, SwitchedOff)
{
    start();
    Spin spin(0);
    Flow small = flow();
    // What watched before has ended.
    std::this_thread::sleep_for(5ms);
    std::uint64_t before = doorbells();
    for (int i = 0; i < 3000; i++)
        small.one();
    EXPECT_EQ(small.failed(), 0U);
    // Where a post is complete before the next one there is nothing else that runs the queue.
    // Over two devices the answer to one may run the queue when the next is posted.
    const std::uint64_t rung = doorbells() - before;
    std::cout << "# " << rung << " doorbells of " << small.posted() << " posts\n";
    if (one_device())
        EXPECT_EQ(rung, small.posted());
    else
        EXPECT_GE(rung, small.posted() * 9 / 10);
}

TEST_F(EngineCore, PausesAroundItsLimit)
{
    start();
    Spin spin(200);
    Flow small = flow();
    hand_over(small, 200, 1500ms);
}

TEST_F(EngineCore, PausesOfAllLengths)
{
    start();
    Spin spin(200);
    Flow small = flow();
    std::minstd_rand random(2);
    for (Deadline end(600ms); !end.passed();) {
        // Long enough series of any distance keep it awake, wake it, or let it sleep.
        Micros distance(random() % 300);
        for (int i = 0; i < 20; i++) {
            pause(distance);
            small.one();
        }
        small.burst(static_cast<int>(random() % 60));
    }
    EXPECT_EQ(small.failed(), 0U);
}

TEST_F(EngineCore, SwitchedOnAndOffMeanwhile)
{
    start();
    Spin spin(200);
    Flow small = flow();
    std::minstd_rand random(3);
    for (Deadline end(500ms); !end.passed();) {
        spin.set(random() % 2 ? "0" : "1000");
        small.burst(static_cast<int>(random() % 80));
        small.one();
    }
    EXPECT_EQ(small.failed(), 0U);
}

/// A thread of real-time priority, as pollers have it.
void real_time()
{
    const sched_param highest{.sched_priority = sched_get_priority_max(SCHED_FIFO)};
    check(sched_setscheduler(0, SCHED_FIFO, &highest), "sched_setscheduler");
}

// The engine, an ordinary task, may lose its CPU to another task of real-time priority for as long
// as that wants. While it waits the program sleeps: before Linux 6.5 packets between two devices
// may need ksoftirqd, which is an ordinary task as well.
TEST_F(EngineCore, NotForRealTime)
{
    start();
    Spin spin(1000);
    Flow small = flow();
    std::this_thread::sleep_for(5ms);
    const std::uint64_t before = doorbells();
    in_thread([&] {
        real_time();
        for (int round = 0; round < 100; round++) {
            for (int i = 0; i < 30; i++)
                small.post();
            small.reap_to(0, Micros(50));
        }
    });
    EXPECT_EQ(small.failed(), 0U);
    EXPECT_GE(doorbells() - before, small.posted() * (one_device() ? 10 : 9) / 10);
}

// One thread polls for both ends and never sleeps, so no other task runs on its CPU.
TEST_F(EngineTest, RealTimeOnOneCpu)
{
    constexpr std::size_t kLarge = 1 << 20;
    Buffer source = a.buffer(kLarge);
    Buffer sink = b.buffer(kLarge);
    start();
    on_one_cpu([&] {
        real_time();
        for (std::uint64_t i = 1; i <= 30; i++) {
            fill(source.bytes(), i);
            b.qp->post_recv(i, {sink.sge(0, kLarge)});
            a.qp->post(SendWr::send({source.sge(0, kLarge)}).id(i));
            ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
            ASSERT_TRUE(filled(sink.bytes(), i));
            fill(sink.bytes(), i + 100);
            a.qp->post(SendWr::read({source.sge(0, kLarge)}, remote(sink)).id(i));
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_READ));
            ASSERT_TRUE(filled(source.bytes(), i + 100));
        }
    });
}

TEST_F(EngineCore, SomebodyElseWantsItsCpu)
{
    start();
    Spin spin(1000);
    Flow small = flow();
    std::atomic<bool> stop = false;
    std::thread other([&] {
        std::minstd_rand random(4);
        while (!stop) {
            std::this_thread::sleep_for(Micros(random() % 400));
            pause(Micros(random() % 200));
        }
    });
    std::minstd_rand random(5);
    try {
        for (Deadline end(1s); !end.passed();) {
            small.burst(30);
            pause(Micros(random() % 100));
            small.one();
        }
    } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
    }
    stop = true;
    other.join();
    EXPECT_EQ(small.failed(), 0U);
}

/// Queue pairs with a completion queue each.
class Queues {
public:
    Queues(End &a, End &b, const Buffer &near, const Buffer &far, std::size_t count)
    {
        for (std::size_t i = 0; i < count; i++) {
            cqs_.push_back(std::make_unique<Cq>(a.context.get()));
            senders_.push_back(std::make_unique<Qp>(a.pd.get(), cqs_[i]->get(), a.recv_cq.get()));
            receivers_.push_back(
                std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get()));
            vt::connect(a.context, *senders_[i], b.context, *receivers_[i]);
            flows.emplace_back(*senders_[i], *cqs_[i], near, far);
        }
    }

    void destroy(std::size_t i)
    {
        flows[i].reap_to(0);
        ASSERT_EQ(senders_[i]->destroy(), 0);
    }

    /// Posts once to each from @p first on.
    void turn(std::size_t first = 0)
    {
        for (std::size_t i = first; i < flows.size(); i++)
            flows[i].post();
    }
    void rest(std::size_t first = 0) { reap_all(std::span(flows).subspan(first)); }
    /// One thread that takes turns with all from @p first on.
    void turns(int rounds, std::size_t first = 0)
    {
        while (rounds--)
            turn(first);
        rest(first);
    }

    std::vector<Flow> flows;

private:
    std::vector<std::unique_ptr<Cq>> cqs_;
    std::vector<std::unique_ptr<Qp>> senders_;
    std::vector<std::unique_ptr<Qp>> receivers_;
};

// Threads with a QP each; pauses are sleeps, so that engines find CPUs for a while.
TEST_F(EngineCore, SeveralQps)
{
    Queues queues(a, b, near, far, 3);
    Spin spin(400);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < queues.flows.size(); i++)
        threads.emplace_back([&, i] {
            Flow &small = queues.flows[i];
            std::minstd_rand random(static_cast<unsigned>(i) + 6);
            try {
                for (Deadline end(1200ms); !end.passed();) {
                    small.burst(40);
                    std::this_thread::sleep_for(Micros(random() % 600));
                    small.one();
                }
                EXPECT_EQ(small.failed(), 0U);
            } catch (const std::exception &error) {
                ADD_FAILURE() << error.what();
            }
        });
    for (std::thread &thread : threads)
        thread.join();
}

/// Why an engine does not get several queues: it waits for the next doorbell 4 ms at most. With
/// KASAN and lockdep under emulation one takes longer.
const char *slow_doorbells(Queues &queues)
{
    Spin spin(0);
    Clock::duration shortest = kPatience;
    for (Flow &flow : queues.flows) {
        const auto begin = Clock::now();
        flow.one();
        shortest = std::min(shortest, Clock::now() - begin);
    }
    return shortest > 2ms ? "a doorbell takes longer than it waits for the next" : nullptr;
}

TEST_F(EngineCore, WatchesWhatAThreadTakesTurnsWith)
{
    if (const char *why = without_engine())
        GTEST_SKIP() << why;
    Queues queues(a, b, near, far, 16);
    if (const char *why = slow_doorbells(queues))
        GTEST_SKIP() << why;
    Spin spin(1000);
    EXPECT_TRUE(elided(queues.flows));
}

// Each CPU has an engine of its own. On two CPUs only one of them can poll while the thread posts.
TEST_F(EngineCore, WatchesWhatAThreadHadOnAnotherCpu)
{
    if (const char *why = without_engine())
        GTEST_SKIP() << why;
    std::minstd_rand random(7);
    const Deadline quick(kQuick);
    for (int times = 0; times < 3 && !quick.passed(); times++) {
        Queues queues(a, b, near, far, 16);
        if (const char *why = slow_doorbells(queues))
            GTEST_SKIP() << why;
        Spin spin(1000);
        for (std::size_t round = 0; round < 8; round++) {
            OneCpu(round % 2); // from where it goes on, free to leave it
            for (Deadline end(Millis(5 + random() % 40)); !end.passed();)
                queues.turn(15 - round);
        }
        EXPECT_TRUE(elided(queues.flows));
    }
}

// Where CPUs share no cache, as in many VMs, the scheduler wakes it on the CPU that it had last.
// That may be the one from which the program rings.
TEST_F(EngineCore, LeavesTheProgramsCpu)
{
    if (const char *why = without_engine())
        GTEST_SKIP() << why;
    start();
    Spin spin(1000);
    Flow small = flow();
    const Deadline quick(kQuick);
    for (int times = 0; times < 4 && !quick.passed(); times++) {
        bool moved = false;
        for (Deadline end; !moved && !end.passed();) {
            const std::vector<pid_t> engines = engines_of(getpid());
            small.burst(100); // one of them polls
            for (pid_t engine : engines)
                moved |= move_to_cpu(engine, static_cast<std::size_t>(sched_getcpu()));
        }
        EXPECT_TRUE(moved);
        EXPECT_TRUE(elided({&small, 1}));
    }
}

/// It watches 64.
TEST_F(EngineCore, MoreQpsThanItWatches)
{
    Queues queues(a, b, near, far, 80);
    Spin spin(1000);
    for (Deadline end(1s); !end.passed();)
        queues.turns(10);
}

TEST_F(EngineCore, OneOfSeveralQpsIsDestroyed)
{
    Queues queues(a, b, near, far, 12);
    Spin spin(1000);
    for (std::size_t i = 0; i < queues.flows.size(); i++) {
        queues.turns(60, i);
        queues.destroy(i);
    }
}

TEST_F(EngineCore, SeveralThreadsOnOneQp)
{
    constexpr std::uint64_t kThreads = 3;
    start({.send_wr = 256});
    Spin spin(200);
    std::atomic<std::uint64_t> posted = 0;
    std::atomic<std::uint64_t> done = 0;
    std::atomic<bool> ended = false;
    std::vector<std::thread> threads;
    for (std::uint64_t i = 0; i < kThreads; i++)
        threads.emplace_back([&, i] {
            std::minstd_rand random(static_cast<unsigned>(i) + 20);
            for (Deadline end(800ms); !end.passed();) {
                if (posted - done < 128 &&
                    !a.qp->try_post(SendWr::write({near.sge(0, kSize)}, remote(far))))
                    posted++;
                else
                    std::this_thread::yield();
                if (random() % 64 == 0)
                    std::this_thread::sleep_for(Micros(random() % 400));
            }
        });
    std::thread reaper([&] {
        ibv_wc wc{};
        for (Deadline end; !end.passed() && !(ended && done == posted);)
            if (ibv_poll_cq(a.send_cq.get(), 1, &wc) == 1) {
                EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
                done++;
            } else {
                std::this_thread::sleep_for(20us);
            }
    });
    for (std::thread &thread : threads)
        thread.join();
    ended = true;
    reaper.join();
    EXPECT_EQ(done, posted) << state_of_everything();
}

/// What happens to a QP just when its queue is watched, for a millisecond from the burst on.
class EngineStateCore : public EngineTest {
protected:
    static constexpr int kRounds = 25;

    void round(const std::function<void(Flow &)> &body)
    {
        Spin spin(1000);
        std::minstd_rand random(30);
        for (int i = 0; i < kRounds; i++) {
            start();
            Flow small = flow();
            small.burst(40);
            pause(Micros(random() % 1200));
            body(small);
        }
    }
};

TEST_F(EngineStateCore, Err)
{
    round([&](Flow &small) {
        ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
        small.burst(3);
        EXPECT_EQ(small.failed(), 3U);
    });
}

TEST_F(EngineStateCore, ErrByItself)
{
    round([&](Flow &small) {
        Remote nowhere{far.address(), far.rkey() ^ 0xff00};
        a.qp->post(SendWr::write({near.sge(0, kSize)}, nowhere).id(1));
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
        Flow after = flow();
        after.burst(3);
        EXPECT_EQ(after.failed(), 3U);
        EXPECT_EQ(small.failed(), 0U);
    });
}

TEST_F(EngineStateCore, ResetAndAnew)
{
    round([&](Flow &) {
        ASSERT_EQ(a.qp->move(IBV_QPS_RESET), 0);
        ASSERT_EQ(b.qp->move(IBV_QPS_RESET), 0);
        connect();
        Flow again = flow();
        // As many as before: the index is where it was.
        for (int i = 0; i < 40; i++)
            again.one();
        EXPECT_EQ(again.failed(), 0U);
    });
}

TEST_F(EngineStateCore, SqdAndBack)
{
    round([&](Flow &small) {
        ASSERT_EQ(a.qp->move(IBV_QPS_SQD), 0);
        small.post();
        ibv_wc wc{};
        pause(Micros(300));
        EXPECT_EQ(ibv_poll_cq(a.send_cq.get(), 1, &wc), 0) << "nothing is begun in SQD";
        ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
        small.reap_to(0);
        small.burst(40);
        EXPECT_EQ(small.failed(), 0U);
    });
}

TEST_F(EngineStateCore, Destroy)
{
    round([&](Flow &small) {
        for (int i = 0; i < 8; i++)
            small.post();
        ASSERT_EQ(a.qp->destroy(), 0);
        std::vector<ibv_wc> rest(64);
        while (ibv_poll_cq(a.send_cq.get(), 64, rest.data()) > 0)
            ;
    });
}

class EngineProcessCore : public ProcessTest {};

TEST_F(EngineProcessCore, KilledWhilePosting)
{
    Spin spin(1000);
    for (int i = 0; i < 6; i++) {
        pid_t child = in_child([] {
            End a(device_a());
            End b(device_b());
            Qp near(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
            Qp far(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
            vt::connect(a.context, near, b.context, far);
            Buffer from = a.buffer(4096);
            Buffer to = b.buffer(4096);
            Flow small(near, a.send_cq, from, to);
            for (;;)
                small.burst(100);
            return 0;
        });
        std::this_thread::sleep_for(Millis(150 + 7 * i));
        kill_child(child);
    }
}

} // namespace
