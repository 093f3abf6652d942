/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Locks: that of one side of a queue, which is held for tens of nanoseconds, and
 * not at all for objects that their owner has promised to use from one thread at
 * a time; and one for what takes longer.
 */
#ifndef ROX_LOCK_HPP
#define ROX_LOCK_HPP

#include <pthread.h>
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

/// Held across system calls; who waits for it sleeps.
class Mutex {
public:
    Mutex() = default;
    ~Mutex() { pthread_mutex_destroy(&mutex_); }
    Mutex(const Mutex &) = delete;
    Mutex &operator=(const Mutex &) = delete;

    void lock() { pthread_mutex_lock(&mutex_); }
    void unlock() { pthread_mutex_unlock(&mutex_); }

private:
    pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
};

/// Holds a lock for a scope.
template <typename Lock>
class Guard {
public:
    explicit Guard(Lock &lock) : lock_(lock) { lock_.lock(); }
    ~Guard() { lock_.unlock(); }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

private:
    Lock &lock_;
};

} // namespace rox

#endif // ROX_LOCK_HPP
