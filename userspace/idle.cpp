/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "idle.hpp"

#include "method.hpp"
#include "objects.hpp"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <system_error>

namespace rox {
namespace {

constexpr int64_t ns_per_us = 1000;
constexpr int64_t default_poll_us = 100;
constexpr int64_t most_poll_us = 1'000'000'000;

constexpr int64_t longest_sleep = 1'000'000; // ns
/*
 * Who moves messages of so many bytes at least waits for them to be moved, so a thread's wake-up is
 * short beside that. Others may wait for an answer, and poll longer before they sleep.
 */
constexpr uint32_t long_message = 16384;
constexpr int64_t longer = 50;
/*
 * A thread does nothing but poll if its polls are so many readings of the clock apart at most. Both
 * take some ten nanoseconds, more under emulation. Where the clock is slow, the time counts.
 */
constexpr int64_t most_readings = 8;
constexpr int64_t most_apart = 10'000; // ns

/* The polls in vain of a thread. */
struct VainPolls {
    const Cq *cq;   // of the last one
    uint32_t count; // of all CQs
    uint32_t taken; // how many completions of the CQ were taken until the last turn
    int64_t since;  // ns: a turn before which some were taken; 0: after that another CQ was polled
    int64_t turn_end; // ns: the end of the last turn
};

thread_local constinit VainPolls polls = {};

/* How long it takes to read the clock, in ns: the shortest that was seen. */
constinit std::atomic<int64_t> reading{most_apart};

int64_t clock_ns()
{
    constexpr int64_t ns_per_s = 1'000'000'000;
    timespec time = {};

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * ns_per_s + time.tv_nsec;
}

/* The limit for the time from poll to poll, in ns. @now: the clock was just read. */
int64_t limit_apart(int64_t now)
{
    const int64_t took = std::max<int64_t>(clock_ns() - now, 1);

    if (took < reading.load(std::memory_order_relaxed)) {
        reading.store(took, std::memory_order_relaxed);
    }
    return std::min(most_readings * reading.load(std::memory_order_relaxed), most_apart);
}

/* How long to sleep now, in ns; 0: not at all. */
int64_t sleep_time(Cq &cq, int64_t idle_ns)
{
    const int64_t now = clock_ns();
    const int64_t limit = limit_apart(now) * cq.vain_turn;
    const CompletionQueue::Taken taken = cq.queue.taken();

    if (polls.since == 0 || taken.number != polls.taken) {
        polls.taken = taken.number;
        polls.since = now;
        return 0;
    }

    const int64_t least = taken.length >= long_message ? idle_ns : longer * idle_ns;

    if (now - polls.since < least || now - polls.turn_end > limit) {
        return 0;
    }
    return std::min((now - polls.since) / 2, longest_sleep);
}

int wait_cq(const Cq &cq, int64_t ns)
{
    Method<2> method(UVERBS_OBJECT_CQ, ROX_METHOD_CQ_WAIT);

    method.set(0, ROX_ATTR_CQ_WAIT_CQ, cq.vcq.cq.handle);
    method.set_value(1, ROX_ATTR_CQ_WAIT_NS, static_cast<uint32_t>(ns));
    return method.call(cq.vcq.cq.context->cmd_fd);
}

} // namespace

/* Without strtoll(), which glibc 2.38 has given a new version; see library.cpp. */
int64_t wanted_idle_ns()
{
    const char *value = std::getenv("ROX_POLL_US");
    int64_t us = 0;

    if (value == nullptr) {
        us = default_poll_us;
    } else if (std::from_chars(value, value + std::strlen(value), us).ec ==
               std::errc::result_out_of_range) {
        us = most_poll_us;
    }
    return std::clamp<int64_t>(us, 0, most_poll_us) * ns_per_us;
}

/*
 * sched_yield(): packets that keep a CPU busy for long are left to a thread of the kernel of
 * ordinary priority (ksoftirqd). If the program polls on that CPU, and with few CPUs it does, the
 * thread would wait until the program's turn ends: milliseconds, in which the peer gets no answer.
 */
void idle_poll(Cq &cq)
{
    if (polls.cq != &cq) {
        polls.cq = &cq;
        polls.since = 0;
    }
    if ((++polls.count & (cq.vain_turn - 1)) != 0) {
        return;
    }

    const int64_t idle_ns = Context::of(cq.vcq.cq.context)->idle_ns;
    const int64_t ns = idle_ns != 0 ? sleep_time(cq, idle_ns) : 0;

    /* The kernel may refuse, as by a filter of system calls. */
    if (const int error = ns != 0 ? wait_cq(cq, ns) : EAGAIN; error != 0 && error != EINTR) {
        sched_yield();
    }
    polls.turn_end = idle_ns != 0 ? clock_ns() : 0;
}

} // namespace rox
