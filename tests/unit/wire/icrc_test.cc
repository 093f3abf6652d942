// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// ICRC against packets that other implementations made.
#include "wire.hpp"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>

namespace {

struct Known {
    const char *name;
    std::size_t link; // bytes before the IP header
    const char *hex;
};

const char *const kZeros64 = "00000000000000000000000000000000000000000000000000000000000000000"
                             "000000000000000000000000000000000000000000000000000000000000000";

std::vector<Known> known_packets()
{
    static const std::string write_middle =
        std::string("4500006cd43100008011684d7f0000017f000001303912b7005809dc"
                    "070000010000000300000000") +
        kZeros64 + "b9abf3bf";
    return {
        {"UC SEND_ONLY, pad 2", 14,
         "248a07a8fa22248a07a8fa22080045010040047840004011b4d5c0a80007c0a80007c00012b7002caca22460"
         "ffff000000d300cf17104630818be28935d90e9a95505401be885e50000078f353f3"},
        {"CNP of a ConnectX-4 Lx", 14,
         "e41d2dab2bc27cfe90643b32080045c2003c718c4000401191610a0011010a001201000012b70028000081"
         "00ffff40000118000000000000000000000000000000000000000082fd002a"},
        {"RC ACK", 14,
         "525400a0e69a1070fd1900950800450000301111400040110000c0a80102c0a8010112b712b7001c0000"
         "1100ffff00006ef6800000001f00000164b5735f"},
        {"RC SEND_ONLY, 64 bytes", 14,
         "1070fd190095525400a0e69a08004500006c1111400040110000c0a80101c0a8010212b712b7005800000400"
         "ffff0000223980000000000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021"
         "22232425262728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f196312ba"},
        {"RC WRITE_MIDDLE, 64 bytes", 0, write_middle.c_str()},
    };
}

// The ICRC that a packet, from the IP header on, should have; payload in steps of @step bytes.
Bytes icrc_of(const Bytes &packet, std::size_t step = 65536)
{
    iphdr ip;
    udphdr udp;
    std::memcpy(&ip, packet.data(), sizeof ip);
    std::memcpy(&udp, packet.data() + sizeof ip, sizeof udp);
    const auto *bth = packet.data() + sizeof ip + sizeof udp;
    const auto *end = packet.data() + packet.size() - ROX_ICRC_LEN;

    rox_icrc_head head;
    rox_icrc_head_v4(&head, &ip, &udp);
    std::memcpy(head.bth, bth, ROX_BTH_LEN);
    u32 state = rox_icrc_begin(&head);
    for (const auto *p = bth + ROX_BTH_LEN; p < end; p += step)
        state = rox_icrc_update(state, p, std::min<std::size_t>(step, end - p));
    const __le32 icrc = rox_icrc_end(state);
    Bytes bytes(sizeof icrc);
    std::memcpy(bytes.data(), &icrc, sizeof icrc);
    return bytes;
}

Bytes ip_packet(const Known &known)
{
    Bytes bytes = from_hex(known.hex);
    bytes.erase(bytes.begin(), bytes.begin() + known.link);
    return bytes;
}

Bytes icrc_in(const Bytes &packet)
{
    return {packet.end() - ROX_ICRC_LEN, packet.end()};
}

TEST(Icrc, KnownAnswers)
{
    for (const auto &known : known_packets()) {
        const Bytes packet = ip_packet(known);
        EXPECT_EQ(icrc_of(packet), icrc_in(packet)) << known.name;
    }
}

TEST(Icrc, PiecesOfAnyLengthGiveTheSame)
{
    const Bytes packet = ip_packet(known_packets()[3]);
    for (std::size_t step = 1; step <= 64; step++)
        EXPECT_EQ(icrc_of(packet, step), icrc_in(packet)) << step;
}

bool is_masked_v4(std::size_t byte)
{
    constexpr std::size_t udp = sizeof(iphdr);
    constexpr std::size_t bth = udp + sizeof(udphdr);
    switch (byte) {
    case 1: // TOS
    case 8: // TTL
    case 10:
    case 11: // header checksum
    case udp + 6:
    case udp + 7: // UDP checksum
    case bth + 4: // FECN, BECN, reserved
        return true;
    default: return false;
    }
}

TEST(Icrc, EveryBitCountsButTheMaskedOnes)
{
    for (const auto &known : known_packets()) {
        const Bytes packet = ip_packet(known);
        for (std::size_t byte = 0; byte < packet.size() - ROX_ICRC_LEN; byte++) {
            for (int bit = 0; bit < 8; bit++) {
                Bytes changed = packet;
                changed[byte] ^= 1 << bit;
                EXPECT_EQ(icrc_of(changed) == icrc_in(packet), is_masked_v4(byte))
                    << known.name << ", byte " << byte;
            }
        }
    }
}

// The definition, over a packet as it stands: eight bytes of ones, masks, complement.
u32 icrc_by_definition_v6(Bytes packet)
{
    packet[0] |= 0x0f; // traffic class, flow label
    packet[1] = packet[2] = packet[3] = 0xff;
    packet[7] = 0xff;                       // hop limit
    packet[40 + 6] = packet[40 + 7] = 0xff; // UDP checksum
    packet[48 + 4] = 0xff;                  // BTH
    packet.insert(packet.begin(), 8, 0xff);
    return ~rox_crc32(~0U, packet.data(), packet.size());
}

TEST(Icrc, Version6AsDefined)
{
    Bytes packet;
    for (int i = 0; i < 40 + 8 + 12 + 21; i++)
        packet.push_back(static_cast<std::uint8_t>(i * 37 + 11));
    packet[0] = 0x6a;

    ipv6hdr ip;
    udphdr udp;
    std::memcpy(&ip, packet.data(), sizeof ip);
    std::memcpy(&udp, packet.data() + sizeof ip, sizeof udp);
    rox_icrc_head head;
    rox_icrc_head_v6(&head, &ip, &udp);
    std::memcpy(head.bth, packet.data() + 48, ROX_BTH_LEN);
    u32 state = rox_icrc_begin(&head);
    state = rox_icrc_update(state, packet.data() + 60, 21);
    EXPECT_EQ(__le32_to_cpu(rox_icrc_end(state)), icrc_by_definition_v6(packet));
}

TEST(Icrc, HeadersAreLeftAlone)
{
    Bytes packet = ip_packet(known_packets()[0]);
    const Bytes before = packet;
    icrc_of(packet);
    EXPECT_EQ(packet, before);
}

} // namespace
