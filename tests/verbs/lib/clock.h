// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Time limits: every wait of the tests has one.
#pragma once

#include <chrono>
#include <thread>

#include "environment.h"

namespace vt {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

/// Time limits are this many times what an idle machine would need, and more on debug kernels
/// (tests/lib.sh).
inline int patience_factor()
{
    const auto factor = static_cast<int>(variable_number("ROX_PATIENCE", 3));
    return factor > 0 ? factor : 3;
}

/// An ACK timeout (as in ibv_qp_attr::timeout) that grows with patience_factor(). Each step of the
/// code doubles the time.
inline int ack_timeout(int code)
{
    for (int factor = patience_factor(); factor >= 6; factor /= 2)
        ++code;
    return code;
}

/// The usual time limit. A healthy device needs much less, even under emulation.
inline const Millis kPatience = patience_factor() * 5s;
/// How much later than due the expiry of a timer may be observed.
inline const Millis kLate = kPatience / 15;
/// How long a test waits before it concludes that something does not happen.
constexpr Millis kQuiet = 60ms;

/// Limit for alarm() in a case with thousands of objects or gigabytes; all other cases have 3/8 of
/// it.
inline const unsigned kLongCaseSeconds = 80 * static_cast<unsigned>(patience_factor());

class Deadline {
public:
    explicit Deadline(Millis in = kPatience) : end_(Clock::now() + in) {}

    bool passed() const { return Clock::now() >= end_; }

    Millis left() const
    {
        auto now = Clock::now();
        return now >= end_ ? 0ms : std::chrono::ceil<Millis>(end_ - now);
    }

private:
    Clock::time_point end_;
};

class Stopwatch {
public:
    Millis elapsed() const { return std::chrono::duration_cast<Millis>(Clock::now() - begin_); }

private:
    Clock::time_point begin_ = Clock::now();
};

/// Polls @p condition until it is true; false if the time is over first.
template <typename Condition>
bool eventually(Condition condition, Millis patience = kPatience)
{
    Deadline deadline(patience);
    for (;;) {
        if (condition())
            return true;
        if (deadline.passed())
            return false;
        std::this_thread::sleep_for(1ms);
    }
}

} // namespace vt
