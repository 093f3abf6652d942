// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Threads that poll in vain for long: the provider lets them sleep, and completions wake them.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <thread>

#include <sys/resource.h>

#include "lib/attribute.h"
#include "lib/pair.h"

using namespace vt;

namespace {

/// What contexts are opened under: where doorbells may be late, nobody sleeps.
struct PunctualDoorbells {
    Setting call{"/sys/module/rox/parameters/call_us", "0"};
};

/// How often this thread has given the CPU up to wait for something. sched_yield() does not count.
long sleeps_of_this_thread()
{
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

/// How often this thread sleeps if it does @p what again and again. @p what returns the number of
/// polls that did not find an empty CQ. It is called without much else in between.
template <typename What>
long sleeps(What what)
{
    const long before = sleeps_of_this_thread();
    int odd = 0;
    for (Deadline end(200ms); !end.passed();)
        for (int i = 0; i < 1000; i++)
            odd += what();
    EXPECT_EQ(odd, 0);
    return sleeps_of_this_thread() - before;
}

int poll(ibv_cq *cq)
{
    ibv_wc wc;
    return ibv_poll_cq(cq, 1, &wc) != 0;
}

class IdleCore : protected PunctualDoorbells, public PairTest {};

TEST_F(IdleCore, PollingAnEmptyCqSleeps)
{
    EXPECT_GE(sleeps([this] { return poll(a.recv_cq.get()); }), 5);
}

TEST_F(IdleCore, ExtendedPollingSleeps)
{
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 16;
    ibv_cq_ex *cq = ibv_create_cq_ex(a.context.get(), &attr);
    ASSERT_NE(cq, nullptr);
    EXPECT_GE(sleeps([cq] {
                  ibv_poll_cq_attr none{};
                  return ibv_start_poll(cq, &none) != ENOENT;
              }),
              5);
    EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(IdleCore, PollingTwoCqsDoesNot)
{
    EXPECT_EQ(sleeps([this] { return poll(a.recv_cq.get()) + poll(a.send_cq.get()); }), 0);
}

TEST_F(IdleCore, PollingNowAndThenDoesNot)
{
    EXPECT_EQ(sleeps([this] {
                  for (const auto end = Clock::now() + 30us; Clock::now() < end;)
                      ;
                  return poll(a.recv_cq.get());
              }),
              0);
}

TEST_F(IdleCore, TheEnvironmentSaysThatItNeverSleeps)
{
    setenv("ROX_POLL_US", "0", 1);
    Context context(device_a());
    unsetenv("ROX_POLL_US");
    const Cq cq(context.get());
    EXPECT_EQ(sleeps([&cq] { return poll(cq.get()); }), 0);
}

/// Messages come after pauses that are as long as what the receiver polls before it sleeps, or as
/// what it sleeps.
TEST_F(IdleCore, NoCompletionIsMissed)
{
    constexpr std::uint64_t messages = 500;
    setenv("ROX_POLL_US", "1", 1);
    End receiver(device_b());
    unsetenv("ROX_POLL_US");
    receiver.qp = std::make_unique<Qp>(receiver.pd.get(), receiver.send_cq.get(),
                                       receiver.recv_cq.get());
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::connect(a.context, *a.qp, receiver.context, *receiver.qp);

    std::atomic<std::uint64_t> received{0};
    std::atomic<long> slept{0};
    std::thread poller([&] {
        const long before = sleeps_of_this_thread();
        receiver.qp->post_recv(0);
        for (std::uint64_t i = 0; i < messages; i++) {
            EXPECT_EQ(receiver.recv_cq.one().wr_id, i);
            if (i + 1 < messages)
                receiver.qp->post_recv(i + 1);
            received.store(i + 1);
        }
        slept.store(sleeps_of_this_thread() - before);
    });
    std::mt19937 random(1);
    for (std::uint64_t i = 0; i < messages; i++) {
        a.qp->post(SendWr::send({}).id(i));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        for (Deadline limit; received.load() <= i && !limit.passed();)
            std::this_thread::yield();
        ASSERT_GT(received.load(), i);
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 4000));
    }
    poller.join();
    EXPECT_GE(slept.load(), 50);
}

} // namespace
