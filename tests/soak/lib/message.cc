// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "message.h"

#include <bit>
#include <cstring>

namespace soak {

namespace {

struct Stamp {
    std::uint64_t flow;
    std::uint64_t sequence;
    std::uint64_t length;
    std::uint64_t kind;
    std::uint64_t sum;
};
static_assert(sizeof(Stamp) == kStamped);

std::uint64_t seed_of(const Name &name)
{
    return name.flow * 0x100000001b3 + name.sequence * 8 + static_cast<std::uint64_t>(name.kind);
}

/// In which order the words are, and how many, makes a difference.
std::uint64_t sum_of(vt::ConstBytes bytes, std::uint64_t start)
{
    std::uint64_t sum = start ^ bytes.size();
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
        sum = std::rotl(sum ^ word, 23) * 0x9e3779b97f4a7c15U;
    }
    return sum;
}

std::string text_of(const Name &name, std::size_t length)
{
    return std::string(" (") + name_of(name.kind) + " number " + std::to_string(name.sequence) +
           " of flow " + std::to_string(name.flow) + ", " + std::to_string(length) + " bytes)";
}

} // namespace

const char *name_of(Kind kind)
{
    switch (kind) {
    case Kind::Send: return "send";
    case Kind::SendImm: return "send with immediate";
    case Kind::Write: return "write";
    case Kind::WriteImm: return "write with immediate";
    case Kind::Read: return "read";
    case Kind::FetchAdd: return "fetch-and-add";
    default: return "compare-and-swap";
    }
}

void write_message(vt::Bytes bytes, const Name &name)
{
    vt::fill(bytes, seed_of(name));
    if (bytes.size() < kStamped)
        return;
    Stamp stamp{name.flow, name.sequence, bytes.size(), static_cast<std::uint64_t>(name.kind), 0};
    stamp.sum = sum_of(bytes.subspan(kStamped), seed_of(name));
    std::memcpy(bytes.data(), &stamp, sizeof(stamp));
}

std::string wrong_with(vt::ConstBytes bytes, const Name &name)
{
    if (bytes.size() < kStamped) {
        auto result = vt::filled(bytes, seed_of(name));
        return result ? "" : result.message() + text_of(name, bytes.size());
    }
    Stamp stamp{};
    std::memcpy(&stamp, bytes.data(), sizeof(stamp));
    if (stamp.flow != name.flow || stamp.sequence != name.sequence ||
        stamp.length != bytes.size() || stamp.kind != static_cast<std::uint64_t>(name.kind))
        return "the stamp is that of kind " + std::to_string(stamp.kind) + ", number " +
               std::to_string(stamp.sequence) + " of flow " + std::to_string(stamp.flow) + ", " +
               std::to_string(stamp.length) + " bytes" + text_of(name, bytes.size());
    if (stamp.sum != sum_of(bytes.subspan(kStamped), seed_of(name)))
        return "wrong checksum" + text_of(name, bytes.size());
    return "";
}

} // namespace soak
