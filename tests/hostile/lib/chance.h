// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Repeatable random choices, and the duration of attacks.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <type_traits>

#include "lib/clock.h"

namespace hostile {

/// ROX_SEED, or 1.
inline std::uint64_t seed()
{
    return vt::variable_number("ROX_SEED", 1);
}

/// ROX_SECONDS, or @p otherwise.
inline vt::Millis duration(int otherwise = 3)
{
    const auto seconds = static_cast<int>(vt::variable_number("ROX_SECONDS", 0));
    return vt::Millis(1000) * (seconds > 0 ? seconds : otherwise);
}

class Chance {
public:
    /// Objects with the same seed and another @p stream make other choices.
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

    /// A wrong value instead of @p value: a neighbour, a limit, another bit, or a random number.
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

/// The duration of an attack: duration(), or longer on a slow machine, until enough was tried.
class AttackTime {
public:
    /// @param enough true if the attack has tried enough
    bool over(bool enough) const { return time_.passed() && (enough || limit_.passed()); }
    /// How long it lasts if never enough is tried.
    static vt::Millis longest() { return 20 * duration(); }

private:
    vt::Deadline time_{duration()};
    vt::Deadline limit_{longest()};
};

} // namespace hostile
