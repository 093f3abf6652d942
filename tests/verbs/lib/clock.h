// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Every wait of the tests has an end.
#pragma once

#include <chrono>
#include <cstdlib>
#include <thread>

namespace vt {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Millis = std::chrono::milliseconds;

/// Time limits are so many times what a machine that is not busy would need; more on the debug
/// kernel (tests/lib.sh).
inline int patience_factor()
{
    const char *factor = std::getenv("ROX_PATIENCE");
    return factor && std::atoi(factor) > 0 ? std::atoi(factor) : 3;
}

/// The code of an ACK timeout for a peer that may be as much slower as patience_factor() says: each
/// code doubles the time.
inline int ack_timeout(int code)
{
    for (int factor = patience_factor(); factor >= 6; factor /= 2)
        ++code;
    return code;
}

/// What a healthy device needs much less than, even under emulation.
inline const Millis kPatience = patience_factor() * 5s;
/// How late a timer may be noticed.
inline const Millis kLate = kPatience / 15;
/// How long something that must not happen is given to happen.
constexpr Millis kQuiet = 60ms;

/// What a case with thousands of objects or gigabytes may take, for alarm(); others have 30 seconds
/// where this is 80.
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

/// Asks @p condition again and again until it holds; false if it did not in time.
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
