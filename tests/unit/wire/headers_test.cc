// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// Base and extended transport headers.
#include "wire.hpp"

#include <array>
#include <gtest/gtest.h>

namespace {

TEST(Bth, FieldsOfAKnownPacket)
{
    // UC SEND_ONLY of facts.md, K1.
    const Bytes bytes = from_hex("2460ffff000000d300cf1710");
    rox_bth bth{};
    rox_bth_parse(&bth, bytes.data());
    EXPECT_EQ(bth.opcode, 0x24);
    EXPECT_FALSE(bth.solicited);
    EXPECT_TRUE(bth.migreq);
    EXPECT_EQ(bth.pad, 2);
    EXPECT_EQ(bth.tver, 0);
    EXPECT_EQ(bth.pkey, 0xffff);
    EXPECT_FALSE(bth.fecn);
    EXPECT_FALSE(bth.becn);
    EXPECT_EQ(bth.dqpn, 0xd3U);
    EXPECT_FALSE(bth.ackreq);
    EXPECT_EQ(bth.psn, 0xcf1710U);
}

TEST(Bth, FieldsOfACnp)
{
    const Bytes bytes = from_hex("8100ffff4000011800000000");
    rox_bth bth{};
    rox_bth_parse(&bth, bytes.data());
    EXPECT_EQ(bth.opcode, 0x81);
    EXPECT_FALSE(bth.fecn);
    EXPECT_TRUE(bth.becn);
    EXPECT_EQ(bth.dqpn, 0x118U);
    EXPECT_EQ(bth.psn, 0U);
}

TEST(Bth, EveryBitSurvives)
{
    // All bits but the reserved ones, each alone and all together.
    const std::array<std::uint8_t, 12> used = {0xff, 0xff, 0xff, 0xff, 0xc0, 0xff,
                                               0xff, 0xff, 0x80, 0xff, 0xff, 0xff};
    auto round_trip = [](const std::array<std::uint8_t, 12> &in) {
        rox_bth bth{};
        std::array<std::uint8_t, 12> out;
        out.fill(0x55);
        rox_bth_parse(&bth, in.data());
        rox_bth_pack(out.data(), &bth);
        return out;
    };
    EXPECT_EQ(round_trip(used), used);
    for (std::size_t bit = 0; bit < 96; bit++) {
        std::array<std::uint8_t, 12> one{};
        one[bit / 8] = 1 << bit % 8;
        std::array<std::uint8_t, 12> expected = one;
        expected[bit / 8] &= used[bit / 8];
        EXPECT_EQ(round_trip(one), expected) << bit;
    }
}

TEST(Bth, ValuesThatAreTooLargeAreCutOff)
{
    rox_bth bth{};
    bth.pad = 7;
    bth.tver = 0xff;
    bth.dqpn = 0xff000001;
    bth.psn = 0x7f000002;
    std::array<std::uint8_t, 12> out;
    rox_bth_pack(out.data(), &bth);
    EXPECT_EQ(out[1], 0x3f);
    EXPECT_EQ(out[4], 0);
    EXPECT_EQ(out[8], 0);
}

rox_ext_hdrs sample()
{
    rox_ext_hdrs ext{};
    ext.reth = {0x0102030405060708, 0x11121314, 0x21222324};
    ext.atomic = {0x3132333435363738, 0x4142434445464748, 0x5152535455565758, 0x61626364};
    ext.deth = {0x71727374, 0x818283};
    ext.aeth = {0x91, 0xa1a2a3};
    ext.atomic_orig = 0xb1b2b3b4b5b6b7b8;
    ext.imm = __cpu_to_be32(0xc1c2c3c4);
    ext.ieth_rkey = 0xd1d2d3d4;
    ext.xrc_srqn = 0xe1e2e3;
    return ext;
}

Bytes packed(u8 opcode)
{
    const rox_ext_hdrs ext = sample();
    Bytes out(ROX_EXT_MAX, 0);
    out.resize(rox_ext_pack(out.data(), opcode, &ext));
    return out;
}

TEST(Ext, BytesOnTheWire)
{
    EXPECT_EQ(packed(0x04), Bytes{});
    EXPECT_EQ(packed(0x05), from_hex("c1c2c3c4"));
    EXPECT_EQ(packed(0x0a), from_hex("01020304050607081112131421222324"));
    EXPECT_EQ(packed(0x0b), from_hex("01020304050607081112131421222324c1c2c3c4"));
    EXPECT_EQ(packed(0x11), from_hex("91a1a2a3"));
    EXPECT_EQ(packed(0x12), from_hex("91a1a2a3b1b2b3b4b5b6b7b8"));
    EXPECT_EQ(packed(0x13), from_hex("3132333435363738616263644142434445464748"
                                     "5152535455565758"));
    EXPECT_EQ(packed(0x16), from_hex("d1d2d3d4"));
    EXPECT_EQ(packed(0x64), from_hex("7172737400818283"));
    EXPECT_EQ(packed(0x65), from_hex("7172737400818283c1c2c3c4"));
    EXPECT_EQ(packed(0x81), Bytes(16, 0));
    EXPECT_EQ(packed(0xa1), from_hex("00e1e2e3"));
    EXPECT_EQ(packed(0xa5), from_hex("00e1e2e3c1c2c3c4"));
    EXPECT_EQ(packed(0xab), from_hex("00e1e2e301020304050607081112131421222324c1c2c3c4"));
    EXPECT_EQ(packed(0xb1), from_hex("91a1a2a3"));
    EXPECT_EQ(packed(0xb3), from_hex("00e1e2e33132333435363738616263644142434445464748"
                                     "5152535455565758"));
    EXPECT_EQ(packed(0xb7), from_hex("00e1e2e3d1d2d3d4"));
}

TEST(Ext, WhatIsPackedIsParsed)
{
    for (int opcode = 0; opcode < 256; opcode++) {
        const Bytes bytes = packed(opcode);
        rox_ext_hdrs ext{};
        EXPECT_EQ(rox_ext_parse(&ext, opcode, bytes.data()), bytes.size()) << opcode;
        Bytes again(ROX_EXT_MAX, 0);
        again.resize(rox_ext_pack(again.data(), opcode, &ext));
        EXPECT_EQ(again, bytes) << opcode;
    }
}

TEST(Ext, ReservedByteOfXrcethIsNoPartOfTheNumber)
{
    const Bytes bytes = from_hex("ff000002");
    rox_ext_hdrs ext{};
    rox_ext_parse(&ext, 0xa4, bytes.data());
    EXPECT_EQ(ext.xrc_srqn, 2U);
}

TEST(Ext, ReservedByteOfDethIsNoPartOfTheQpn)
{
    const Bytes bytes = from_hex("00000001ff000002");
    rox_ext_hdrs ext{};
    rox_ext_parse(&ext, 0x64, bytes.data());
    EXPECT_EQ(ext.deth.sqpn, 2U);
}

} // namespace
