// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Chance that can be repeated, and how long an attack goes on.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <type_traits>

#include "lib/clock.h"

namespace hostile {

/// ROX_SEED, or 1.
inline std::uint64_t seed()
{
    const char *text = std::getenv("ROX_SEED");
    return text ? std::strtoull(text, nullptr, 0) : 1;
}

/// ROX_SECONDS, or @p otherwise.
inline vt::Millis duration(int otherwise = 3)
{
    const char *text = std::getenv("ROX_SECONDS");
    int seconds = text ? std::atoi(text) : 0;
    return vt::Millis(1000) * (seconds > 0 ? seconds : otherwise);
}

class Chance {
public:
    /// @p stream tells those apart who share the seed.
    explicit Chance(std::uint64_t stream) : engine_(seed() * 0x9e3779b97f4a7c15 + stream) {}

    std::uint64_t bits() { return engine_(); }
    /// 0 to @p n - 1.
    std::uint64_t below(std::uint64_t n) { return engine_() % n; }
    /// True once in @p n.
    bool once_in(std::uint64_t n) { return below(n) == 0; }
    template <typename T, std::size_t N>
    T one_of(const std::array<T, N> &all)
    {
        return all[below(N)];
    }

    /// @p value as a program might get it wrong: a neighbour, a border, a bit, or anything.
    template <typename T>
    T wrong(T value)
    {
        static_assert(std::is_unsigned_v<T>);
        constexpr unsigned kBits = 8 * sizeof(T);
        switch (below(7)) {
        case 0: return static_cast<T>(value + 1);
        case 1: return static_cast<T>(value - 1);
        case 2: return static_cast<T>(value ^ (T{1} << below(kBits)));
        case 3: return static_cast<T>(T{1} << below(kBits));
        case 4: return static_cast<T>((T{1} << below(kBits)) - 1);
        case 5: return static_cast<T>(~T{0} - static_cast<T>(below(64)));
        default: return static_cast<T>(bits() >> below(64));
        }
    }

private:
    std::mt19937_64 engine_;
};

/// How long an attack goes on: duration(), and on a slow machine until it has tried enough.
class AttackTime {
public:
    /// @param enough  has it tried enough so far?
    bool over(bool enough) const { return time_.passed() && (enough || limit_.passed()); }

private:
    vt::Deadline time_{duration()};
    vt::Deadline limit_{20 * duration()};
};

} // namespace hostile
