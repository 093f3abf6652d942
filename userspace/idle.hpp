/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Polls in vain: who polls for long and finds nothing lets others have the CPU.
 *
 * Now and then a poll in vain is a system call: sched_yield(), or, if nothing has completed for
 * idle_ns, a sleep in the kernel. A completion ends that sleep, so it costs what it takes to wake a
 * thread. It is also limited to half of the time that the thread has waited: what comes by another
 * way, as a store of another program, is seen late by half of its time at most.
 *
 * After short messages, which may be questions and answers, a thread polls 50 times as long.
 *
 * Only a thread that does nothing but poll one CQ sleeps. If it polls several CQs, or does
 * something else between polls, it may have more to wait for than completions.
 */
#ifndef ROX_IDLE_HPP
#define ROX_IDLE_HPP

#include <cstdint>

namespace rox {

struct Cq;

/// ROX_POLL_US of the environment in nanoseconds: how long a thread polls in vain before it sleeps.
/// 0: it never sleeps.
int64_t wanted_idle_ns();

/// After so many polls in vain one is a system call; a power of two. With several CPUs that is some
/// tens of microseconds; on one CPU nothing completes until others have run.
constexpr uint32_t vain_turn_for(long cpus)
{
    return cpus == 1 ? 32 : 1024;
}

/// The thread has polled @p cq and found nothing. Without any lock of the CQ.
void idle_poll(Cq &cq);

} // namespace rox

#endif // ROX_IDLE_HPP
