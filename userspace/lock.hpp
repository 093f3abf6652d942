/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The lock of one side of a queue. Held for tens of nanoseconds, and not at all
 * for objects that their owner has promised to use from one thread at a time.
 */
#ifndef ROX_LOCK_HPP
#define ROX_LOCK_HPP

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace rox {

/// Tells the processor that we are waiting for another one.
inline void cpu_relax()
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield" ::: "memory");
#endif
}

class SpinLock {
public:
    /// After this, lock() and unlock() do nothing: the user has promised one thread.
    void elide() { elided_ = true; }

    bool elided() const { return elided_; }

    void lock()
    {
        if (elided_) {
            return;
        }
        while (taken_.exchange(true, std::memory_order_acquire)) {
            wait();
        }
    }

    void unlock()
    {
        if (!elided_) {
            taken_.store(false, std::memory_order_release);
        }
    }

private:
    /* The holder may have been preempted on our own CPU, so do not spin for long. */
    void wait() const
    {
        for (uint32_t spins = 0; taken_.load(std::memory_order_relaxed); spins++) {
            if (spins < spin_limit) {
                cpu_relax();
            } else {
                sched_yield();
            }
        }
    }

    static constexpr uint32_t spin_limit = 128;

    std::atomic<bool> taken_{false};
    bool elided_ = false;
};

/// Holds a lock for a scope.
class Guard {
public:
    explicit Guard(SpinLock &lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    SpinLock &lock_;
};

} // namespace rox

#endif // ROX_LOCK_HPP
