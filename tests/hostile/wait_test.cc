// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The method of CQs in which a thread sleeps that polls in vain.
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <thread>

#include <pthread.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/method.h"
#include "lib/spare.h"

using namespace hostile;

namespace {

constexpr std::uint32_t kLong = ~0U;

/// Sleeps in a CQ, for @p ns at most. 0 or errno.
int sleep_in(const vt::Context &context, std::uint32_t handle, std::uint32_t ns)
{
    std::array<ib_uverbs_attr, 2> attrs{};
    attrs[0].attr_id = ROX_ATTR_CQ_WAIT_CQ;
    attrs[0].data = handle;
    attrs[1].attr_id = ROX_ATTR_CQ_WAIT_NS;
    attrs[1].len = sizeof(ns);
    attrs[1].data = ns;
    return call_method(context.get()->cmd_fd, UVERBS_OBJECT_CQ, ROX_METHOD_CQ_WAIT, attrs);
}

class WaitTest : public vt::ProcessTest {};

TEST_F(WaitTest, EndsWhenTheTimeIsOver)
{
    vt::End end(vt::device_a());
    for (std::uint32_t ns : {0U, 1'000'000U, kLong}) {
        const vt::Stopwatch watch;
        EXPECT_EQ(sleep_in(end.context, end.recv_cq.get()->handle, ns), 0) << ns;
        EXPECT_LT(watch.elapsed(), vt::Millis(1000) + vt::kLate) << ns;
    }
}

TEST_F(WaitTest, NeedsACqOfItsContext)
{
    vt::End end(vt::device_a()), other(vt::device_a());
    const vt::Cq more(other.context.get());
    for (std::uint32_t handle : {more.get()->handle, end.pd.get()->handle, kLong}) {
        const int error = sleep_in(end.context, handle, kLong);
        EXPECT_TRUE(error == ENOENT || error == EINVAL) << handle << ": " << error;
    }
    EXPECT_EQ(sleep_in(other.context, more.get()->handle, 0), 0);
}

TEST_F(WaitTest, ASignalEndsIt)
{
    struct sigaction action = {}, before = {};
    action.sa_handler = [](int) {};
    action.sa_flags = SA_RESTART;
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    vt::End end(vt::device_a());
    {
        const pthread_t sleeper = pthread_self();
        std::atomic<bool> stop = false;
        std::jthread sender([&] {
            while (!stop) {
                pthread_kill(sleeper, SIGUSR1);
                std::this_thread::sleep_for(vt::Millis(1));
            }
        });
        EXPECT_TRUE(vt::eventually(
            [&] { return sleep_in(end.context, end.recv_cq.get()->handle, kLong) == EINTR; }));
        stop = true;
    }
    ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

/// Who destroys the CQ waits, or learns that it is busy. Afterwards nobody sleeps there. The thread
/// is out of the CQ at times, and sleeps each time for another time: whoever tries to destroy it
/// once a millisecond would else always find it there.
TEST_F(WaitTest, TheCqEndsMeanwhile)
{
    vt::End end(vt::device_a());
    for (int round = 0; round < 10; round++) {
        vt::Cq cq(end.context.get());
        const std::uint32_t handle = cq.get()->handle;
        std::atomic<bool> begun = false;
        std::atomic<int> last = 0;
        std::jthread sleeper([&](const std::stop_token &stop) {
            for (std::uint32_t ns = 0; !stop.stop_requested(); ns = (ns + 70'000) % 1'000'000) {
                last = sleep_in(end.context, handle, ns);
                if (last != 0)
                    break;
                begun = true;
                std::this_thread::sleep_for(std::chrono::microseconds(300));
            }
        });
        ASSERT_TRUE(vt::eventually([&] { return begun.load(); }));
        ASSERT_TRUE(vt::eventually([&] {
            const int error = cq.destroy();
            EXPECT_TRUE(error == 0 || error == EBUSY) << error;
            return error == 0;
        }));
        sleeper.join();
        EXPECT_TRUE(last == ENOENT || last == EBUSY) << last;
    }
}

TEST_F(WaitTest, DeviceGoesAway)
{
    const SpareDevice device("roxwait");
    vt::End end(device.name());
    std::atomic<bool> begun = false;
    std::atomic<int> last = 0;
    std::jthread sleeper([&] {
        while ((last = sleep_in(end.context, end.recv_cq.get()->handle, kLong)) == 0)
            begun = true;
    });
    ASSERT_TRUE(vt::eventually([&] { return begun.load(); }));
    device.remove();
    sleeper.join();
    EXPECT_EQ(last, EIO);
}

} // namespace
