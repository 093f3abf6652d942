// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The counters of all threads, and the flag that stops them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "message.h"

namespace soak {

/// Reasons why a connection could not be made while the network was disturbed.
enum class Absence { NoWay, NoAnswer, SmallMtu, Stale, Broken };
constexpr std::size_t kAbsences = 5;

struct Totals {
    using Count = std::atomic<std::uint64_t>;

    std::array<Count, kKinds> operations{}; ///< completed and correct
    Count bytes{};                          ///< checked
    Count lost{};                           ///< lost UD and UC messages
    Count connections{};                    ///< made and closed
    Count by_cm{};                          ///< of these, by the RDMA CM
    Count registrations{};
    std::array<Count, kAbsences> repeats{}; ///< repeated attempts to connect
    std::atomic<bool> stop{};

    void done(Kind kind, std::size_t length)
    {
        operations[static_cast<std::size_t>(kind)]++;
        bytes += length;
    }
    std::uint64_t all() const;
    std::string text() const;
    std::string repeats_text() const;
};

} // namespace soak
