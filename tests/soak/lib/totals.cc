// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "totals.h"

namespace soak {

std::uint64_t Totals::all() const
{
    std::uint64_t sum = 0;
    for (const Count &count : operations)
        sum += count;
    return sum;
}

std::string Totals::text() const
{
    std::string text = std::to_string(all()) + " operations (";
    for (std::size_t kind = 0; kind < kKinds; kind++)
        text += std::string(kind ? ", " : "") + name_of(static_cast<Kind>(kind)) + " " +
                std::to_string(operations[kind]);
    return text + "), " + std::to_string(bytes >> 20) + " MiB verified, " +
           std::to_string(connections) + " connections (" + std::to_string(by_cm) +
           " by the RDMA CM), " + std::to_string(registrations) + " registrations, " +
           std::to_string(lost) + " of UC and UD lost";
}

std::string Totals::repeats_text() const
{
    constexpr std::array kNames{"no way", "no answer", "MTU too small", "stale", "broken off"};
    std::string text;
    for (std::size_t i = 0; i < kAbsences; i++)
        text += std::string(i ? "," : "") + kNames[i] + ":" + std::to_string(repeats[i]);
    return text;
}

} // namespace soak
