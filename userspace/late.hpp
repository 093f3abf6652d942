/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Late doorbells: one for many posts, where the kernel says that system calls are dear.
 */
#ifndef ROX_LATE_HPP
#define ROX_LATE_HPP

#include "lock.hpp"
#include "memory.hpp"

#include <atomic>
#include <cstdint>

namespace rox {

struct Qp;

/// The part of a QP that has to do with late doorbells.
struct LateDoorbell {
    std::atomic<uint32_t> posts{0};  // since the last doorbell
    std::atomic<bool> listed{false}; // in the context's list
    Qp *next = nullptr;              // there
};

/**
 * The QPs of a context that have posted without a doorbell. Any thread may ring for them, as
 * the kernel does if no thread does.
 *
 * No post is overlooked: a thread publishes it before it finds the QP in the list, and who rings
 * takes the QP out of the list before the kernel reads the ring.
 */
class LateDoorbells : public HeapObject {
public:
    explicit LateDoorbells(bool one_cpu) : one_cpu_(one_cpu) {}

    /// After @p count work requests were posted: false if it is time to ring.
    bool put_off(Qp &qp, uint32_t count);

    /// Rings for all. Called when the program may be about to wait for completions.
    void ring()
    {
        if (any_.load(std::memory_order_relaxed)) {
            ring_all();
        }
    }

    /// The program has polled a CQ and found nothing.
    void polled_in_vain();

    /// Takes a QP out that is to be freed.
    void forget(Qp &qp);

private:
    void ring_all();

    Mutex lock_;
    Qp *first_ = nullptr;
    std::atomic<bool> any_{false};
    std::atomic<uint32_t> vain_{0}; // polls in vain since the last doorbell was put off
    bool one_cpu_;
};

} // namespace rox

#endif // ROX_LATE_HPP
