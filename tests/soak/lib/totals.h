// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What all threads have done, and whether they are to go on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "message.h"

namespace soak {

struct Totals {
    using Count = std::atomic<std::uint64_t>;

    std::array<Count, kKinds> operations{}; ///< that have ended and were right
    Count bytes{};                          ///< looked at
    Count lost{};                           ///< datagrams and UC messages that did not come
    Count connections{};                    ///< made and ended
    Count by_cm{};                          ///< of these, by the RDMA CM
    Count registrations{};
    Count repeats{}; ///< connections that had to be tried again: the network was away
    std::atomic<bool> stop{};

    void done(Kind kind, std::size_t length)
    {
        operations[static_cast<std::size_t>(kind)]++;
        bytes += length;
    }
    std::uint64_t all() const;
    std::string text() const;
};

} // namespace soak
