/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * SpinLock: short, elided for single-threaded objects. Mutex: anything longer.
 * Both work with std::lock_guard.
 */
#ifndef ROX_LOCK_HPP
#define ROX_LOCK_HPP

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <mutex> // IWYU pragma: export

namespace rox {

/// Tells the processor that this is a busy-wait loop.
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
    /// Makes lock() and unlock() do nothing, after the program has promised to use one thread.
    void elide() { elided_ = true; }

    /// For the tests of that promise.
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
    /* The holder may have been preempted on this very CPU, so do not spin for long. */
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

/// Sleeps while it waits, so it may be held across system calls. (std::mutex would pull in the
/// C++ runtime, see HeapObject.)
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

} // namespace rox

#endif // ROX_LOCK_HPP
