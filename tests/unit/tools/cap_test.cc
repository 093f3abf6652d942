/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-cap: which packets are RoCE v2, how long they are, and the file. */
#include "cap/pcap.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace rox::cap {
namespace {

std::vector<std::byte> packet(std::initializer_list<unsigned> first, size_t size)
{
    std::vector<std::byte> bytes;

    for (const unsigned byte : first)
        bytes.push_back(static_cast<std::byte>(byte));
    bytes.resize(size);
    return bytes;
}

/* A UDP header to a port, at an offset. */
void put_udp(std::vector<std::byte> &bytes, size_t at, unsigned port)
{
    bytes[at + 2] = static_cast<std::byte>(port >> 8);
    bytes[at + 3] = static_cast<std::byte>(port & 0xff);
}

TEST(RoceLength, OfIpv4)
{
    auto bytes = packet({0x45, 0, 0x04, 0x2c, 0, 0, 0x40, 0, 64, 17}, 128);

    put_udp(bytes, 20, 4791);
    EXPECT_EQ(roce_length(bytes), 0x042cU);
    EXPECT_EQ(roce_length(Bytes(bytes).first(28)), 0x042cU);
    EXPECT_EQ(roce_length(Bytes(bytes).first(27)), std::nullopt);
    put_udp(bytes, 20, 4790);
    EXPECT_EQ(roce_length(bytes), std::nullopt);
    put_udp(bytes, 20, 4791);
    bytes[9] = std::byte{6};
    EXPECT_EQ(roce_length(bytes), std::nullopt);
}

TEST(RoceLength, OfIpv6)
{
    auto bytes = packet({0x60, 0, 0, 0, 0x01, 0x00, 17, 64}, 128);

    put_udp(bytes, 40, 4791);
    EXPECT_EQ(roce_length(bytes), 0x0100U + 40);
    EXPECT_EQ(roce_length(Bytes(bytes).first(47)), std::nullopt);
    bytes[6] = std::byte{58};
    EXPECT_EQ(roce_length(bytes), std::nullopt);
}

TEST(RoceLength, OfOthers)
{
    EXPECT_EQ(roce_length({}), std::nullopt);
    EXPECT_EQ(roce_length(packet({0x46}, 128)), std::nullopt);
    EXPECT_EQ(roce_length(packet({0x55}, 128)), std::nullopt);
}

/* The numbers of a file are in the order of this machine. */
TEST(Pcap, File)
{
    const auto bytes = packet({1, 2, 3, 4, 5}, 5);
    std::vector<std::byte> out;
    uint32_t words[6 + 4];

    put_file_header(out, 4224);
    put_packet(out, {.seconds = 7, .nanoseconds = 999'999'999}, bytes, 1000);
    ASSERT_EQ(out.size(), sizeof(words) + 5);
    std::memcpy(words, out.data(), sizeof(words));
    EXPECT_EQ(words[0], 0xa1b23c4dU);
    EXPECT_EQ(words[1], 2U | 4U << 16);
    EXPECT_EQ(words[2], 0U);
    EXPECT_EQ(words[3], 0U);
    EXPECT_EQ(words[4], 4224U);
    EXPECT_EQ(words[5], 101U);
    EXPECT_EQ(words[6], 7U);
    EXPECT_EQ(words[7], 999'999'999U);
    EXPECT_EQ(words[8], 5U);
    EXPECT_EQ(words[9], 1000U);
    EXPECT_EQ(std::memcmp(out.data() + sizeof(words), bytes.data(), bytes.size()), 0);
}

} // namespace
} // namespace rox::cap
