/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "late.hpp"

#include "objects.hpp"
#include "verbs.hpp"

#include <sched.h>

namespace rox {
namespace {

/* With so many work requests the kernel has something to do. */
constexpr uint32_t most_posts = 64;
/* On one CPU, after so many polls in vain in a row each of them lets others run. */
constexpr uint32_t most_vain = 16;

} // namespace

bool LateDoorbells::put_off(Qp &qp, uint32_t count)
{
    if (qp.late.posts.fetch_add(count, std::memory_order_relaxed) + count >= most_posts) {
        qp.late.posts.store(0, std::memory_order_relaxed);
        return false;
    }
    if (!qp.late.listed.exchange(true, std::memory_order_acq_rel)) {
        const std::lock_guard guard(lock_);

        qp.late.next = first_;
        first_ = &qp;
        any_.store(true, std::memory_order_relaxed);
        vain_.store(0, std::memory_order_relaxed);
    }
    return true;
}

/*
 * The lock is held until the doorbells are rung, so that no QP is freed before. An error is that
 * the device is gone, of which the program learns otherwise: its posts have succeeded.
 */
void LateDoorbells::ring_all()
{
    const std::lock_guard guard(lock_);

    any_.store(false, std::memory_order_relaxed);
    while (first_ != nullptr) {
        Qp &qp = *first_;

        first_ = qp.late.next;
        qp.late.listed.exchange(false, std::memory_order_acq_rel);
        if (qp.late.posts.exchange(0, std::memory_order_relaxed) != 0) {
            ring_send_doorbell(&qp.vqp.qp);
        }
    }
}

/*
 * On one CPU nothing completes while a program polls, and system calls are dear where the clock
 * interrupts it after milliseconds only.
 */
void LateDoorbells::polled_in_vain()
{
    ring();
    if (one_cpu_ && vain_.fetch_add(1, std::memory_order_relaxed) >= most_vain) {
        sched_yield();
    }
}

void LateDoorbells::forget(Qp &qp)
{
    const std::lock_guard guard(lock_);

    for (Qp **link = &first_; *link != nullptr; link = &(*link)->late.next) {
        if (*link == &qp) {
            *link = qp.late.next;
            break;
        }
    }
}

} // namespace rox
