/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cap/pcap.hpp"

#include <array>

namespace rox::cap {

namespace {

constexpr uint16_t roce_port = 4791;
constexpr size_t v4_length = 20, v6_length = 40, udp_length = 8;

uint16_t number_at(Bytes packet, size_t offset)
{
    return static_cast<uint16_t>(std::to_integer<unsigned>(packet[offset]) << 8 |
                                 std::to_integer<unsigned>(packet[offset + 1]));
}

bool is_udp_to_roce(Bytes packet, size_t protocol, size_t ip_length)
{
    constexpr std::byte udp{17};

    return packet.size() >= ip_length + udp_length && packet[protocol] == udp &&
           number_at(packet, ip_length + 2) == roce_port;
}

/// Appends the bytes of an object as this machine has them: readers look at the magic number.
template <typename T>
void put(std::vector<std::byte> &out, const T &object)
{
    const auto bytes = std::as_bytes(std::span(&object, 1));

    out.insert(out.end(), bytes.begin(), bytes.end());
}

} // namespace

std::optional<uint32_t> roce_length(Bytes packet)
{
    constexpr std::byte v4{0x45};
    constexpr unsigned v6 = 6;

    if (packet.size() >= v4_length && packet[0] == v4 && is_udp_to_roce(packet, 9, v4_length))
        return number_at(packet, 2);
    if (packet.size() >= v6_length && std::to_integer<unsigned>(packet[0]) >> 4 == v6 &&
        is_udp_to_roce(packet, 6, v6_length))
        return number_at(packet, 4) + static_cast<uint32_t>(v6_length);
    return std::nullopt;
}

void put_file_header(std::vector<std::byte> &out, uint32_t most)
{
    struct {
        uint32_t magic = 0xa1b23c4d; // times in nanoseconds
        uint16_t major = 2, minor = 4;
        uint32_t zone = 0, accuracy = 0;
        uint32_t most;
        uint32_t link_type = 101; // LINKTYPE_RAW: an IP header
    } const header{.most = most};

    put(out, header);
}

void put_packet(std::vector<std::byte> &out, Time time, Bytes packet, uint32_t length)
{
    put(out,
        std::array{time.seconds, time.nanoseconds, static_cast<uint32_t>(packet.size()), length});
    out.insert(out.end(), packet.begin(), packet.end());
}

} // namespace rox::cap
