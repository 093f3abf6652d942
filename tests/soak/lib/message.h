// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Messages that say what they are: whose, which number, how long, and a checksum over all of it.
#pragma once

#include <cstdint>
#include <string>

#include "lib/memory.h"

namespace soak {

enum class Kind : std::uint32_t { Send, SendImm, Write, WriteImm, Read, FetchAdd, CompareSwap };
constexpr std::size_t kKinds = 7;
const char *name_of(Kind kind);

/// Which one it is of all messages of a run.
struct Name {
    std::uint64_t flow;
    std::uint64_t sequence;
    Kind kind;
};

/// Shorter ones have no room for the stamp: all of their bytes tell the name.
constexpr std::size_t kStamped = 40;

/// Makes @p bytes the message of that name.
void write_message(vt::Bytes bytes, const Name &name);
/// Is it the message of that name, whole, and with the right checksum? "", or what is wrong.
std::string wrong_with(vt::ConstBytes bytes, const Name &name);

} // namespace soak
