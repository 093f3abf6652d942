// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Random numbers that depend on the seed only, on every machine (splitmix64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace wire {

class Random {
public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next()
    {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15U;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9U;
        z = (z ^ z >> 27) * 0x94d049bb133111ebU;
        return z ^ z >> 31;
    }
    /// 0 to @p n - 1.
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
    /// True once in @p n times.
    bool once_in(std::size_t n) { return !below(n); }
    template <typename T>
    T one_of(std::initializer_list<T> values)
    {
        return values.begin()[below(values.size())];
    }
    std::uint8_t byte() { return static_cast<std::uint8_t>(next()); }

private:
    std::uint64_t state_;
};

} // namespace wire
