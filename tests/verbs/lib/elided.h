// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// How many doorbells an engine saves.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "clock.h"

namespace vt {

using Micros = std::chrono::microseconds;

/// How long a thread has gone without the CPU: the longest time between two of its steps.
class Pace {
public:
    void step()
    {
        const auto now = Clock::now();
        longest_ = std::max(longest_, now - last_);
        last_ = now;
    }
    /// Return: the longest since the last call.
    Micros take()
    {
        step();
        return std::chrono::ceil<Micros>(std::exchange(longest_, {}));
    }

private:
    Clock::time_point last_ = Clock::now();
    Clock::duration longest_{};
};

/// Reads the count of doorbells of device_a() without a process, which would take the idle CPU, and
/// so soon that the engine does not rest meanwhile. The counters are in the sysfs of the first
/// namespace. The RDMA core looks at them once a tick at most, with a "lifespan" of 0. Throws what
/// fail() throws.
class Doorbells {
public:
    Doorbells();
    ~Doorbells();
    Doorbells(const Doorbells &) = delete;
    Doorbells &operator=(const Doorbells &) = delete;

    /// Return: those since the last call, which was in an earlier tick.
    std::uint64_t more();

private:
    int fd_;
    std::uint64_t count_ = 0;
};

/// How many posts go without a doorbell while the engine waits for them, from tick to tick. A
/// window is measured when a tick has rung hardly a doorbell, or after many ticks. Where there is
/// an engine, nine of ten posts need none: that must be so in half of the windows that tell. The
/// host decides when the engine's CPU runs, and ours. So a window tells nothing if the program was
/// without its CPU for so long that the engine had gone. A host that takes our CPU so often takes
/// the engine's as often, and is allowed the same share of the windows that tell.
class Elided {
public:
    /// The engine waits for @p limit.
    explicit Elided(Micros limit) : limit_(limit) {}

    /// @p post posts one, and waits until there is room for it; @p rest waits for all.
    void measure(const std::function<void()> &post, const std::function<void()> &rest);
    /// Who posts keeps it.
    Pace &pace() { return pace_; }
    testing::AssertionResult verdict() const;
    std::string text() const;

private:
    struct Window {
        std::uint64_t posts = 0;
        std::uint64_t rung = 0;
        Micros gap{0}; ///< the longest time without the CPU

        bool good() const { return rung * 10 <= posts; }
    };

    void wake(const std::function<void()> &post);
    Window one(const std::function<void()> &post);

    Doorbells doorbells_;
    Pace pace_;
    Micros limit_;
    int all_ = 0;
    int telling_ = 0;
    int good_ = 0;
};

} // namespace vt
