/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The pcap format: packets that begin with an IP header, with times in nanoseconds.
 */
#ifndef ROX_TOOLS_PCAP_HPP
#define ROX_TOOLS_PCAP_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace rox::cap {

using Bytes = std::span<const std::byte>;

/// When a packet was seen, since 1970.
struct Time {
    uint32_t seconds = 0, nanoseconds = 0;
};

/**
 * The length on a network of a RoCE v2 packet, of which the first bytes are known; nothing if they
 * are of another packet.
 */
std::optional<uint32_t> roce_length(Bytes packet);

/// Appends the header of a file to @p out. @p most: no packet has more bytes.
void put_file_header(std::vector<std::byte> &out, uint32_t most);
/// Appends a packet. @p length: its length on a network, of which @p packet may be the beginning.
void put_packet(std::vector<std::byte> &out, Time time, Bytes packet, uint32_t length);

} // namespace rox::cap

#endif // ROX_TOOLS_PCAP_HPP
