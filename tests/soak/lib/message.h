// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Messages with a header: flow, sequence number, length, and a checksum of the whole message.
#pragma once

#include <cstdint>
#include <string>

#include "lib/memory.h"

namespace soak {

enum class Kind : std::uint32_t { Send, SendImm, Write, WriteImm, Read, FetchAdd, CompareSwap };
constexpr std::size_t kKinds = 7;
const char *name_of(Kind kind);

/// The identity of a message in a run.
struct Name {
    std::uint64_t flow;
    std::uint64_t sequence;
    Kind kind;
};

/// Bytes of the header. All bytes of a shorter message are a pattern that depends on its name.
constexpr std::size_t kStamped = 40;

/// Writes the message @p name to @p bytes.
void write_message(vt::Bytes bytes, const Name &name);
/// Checks that @p bytes are the complete message @p name. "", or an error.
std::string wrong_with(vt::ConstBytes bytes, const Name &name);

} // namespace soak
