// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A process that must not notice any attack: it moves checked data over a QP pair of its own all
/// the time.
#pragma once

#include <atomic>
#include <cstdint>

#include <sys/types.h>

#include <gtest/gtest.h>

namespace hostile {

/// What the attackers know about the bystander, as if they had learnt it.
struct Known {
    std::atomic<std::uint64_t> rounds; ///< of checked data
    std::atomic<std::uint32_t> ready;
    std::atomic<std::uint32_t> stop;
    std::uint32_t key;     ///< of its memory
    std::uint64_t address; ///< of that memory
    std::uint32_t qpns[2]; ///< its RC pair
    std::uint32_t ud_qpn;  ///< a UD QP that nobody sends to, ...
    std::uint32_t ah;      ///< and the first handle of an AH in its process
    std::uint32_t mismatches;
};

/// Runs from its creation on. Must be created before this process opens a device.
class Bystander {
public:
    Bystander();
    ~Bystander();
    Bystander(const Bystander &) = delete;
    Bystander &operator=(const Bystander &) = delete;

    const Known &known() const { return *known_; }
    /// True if it has completed some rounds since the last call.
    testing::AssertionResult goes_on();
    /// Ends it. True if it had no error and no wrong byte.
    testing::AssertionResult ends_well();
    std::uint64_t rounds() const { return known_->rounds; }

private:
    Known *known_;
    pid_t child_ = -1;
    std::uint64_t seen_ = 0;
};

} // namespace hostile
