// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// The opcode table, code tables and PSN arithmetic.
#include "wire.hpp"

#include <gtest/gtest.h>
#include <map>

namespace {

struct Row {
    rox_op_kind kind;
    unsigned int ext_len;
    const char *flags; // q request, f first, l last, p payload, r takes a receive WQE
};

// Written from the specification's table, not from the code.
std::map<int, Row> expected()
{
    std::map<int, Row> rows;
    for (int service : {0x00, 0x20, 0xa0}) {
        rows[service | 0x00] = {ROX_KIND_SEND, 0, "qfp"};
        rows[service | 0x01] = {ROX_KIND_SEND, 0, "qp"};
        rows[service | 0x02] = {ROX_KIND_SEND, 0, "qlpr"};
        rows[service | 0x03] = {ROX_KIND_SEND, 4, "qlpr"};
        rows[service | 0x04] = {ROX_KIND_SEND, 0, "qflpr"};
        rows[service | 0x05] = {ROX_KIND_SEND, 4, "qflpr"};
        rows[service | 0x06] = {ROX_KIND_WRITE, 16, "qfp"};
        rows[service | 0x07] = {ROX_KIND_WRITE, 0, "qp"};
        rows[service | 0x08] = {ROX_KIND_WRITE, 0, "qlp"};
        rows[service | 0x09] = {ROX_KIND_WRITE, 4, "qlpr"};
        rows[service | 0x0a] = {ROX_KIND_WRITE, 16, "qflp"};
        rows[service | 0x0b] = {ROX_KIND_WRITE, 20, "qflpr"};
    }
    for (int service : {0x00, 0xa0}) {
        rows[service | 0x0c] = {ROX_KIND_READ_REQ, 16, "qfl"};
        rows[service | 0x0d] = {ROX_KIND_READ_RESP, 4, "fp"};
        rows[service | 0x0e] = {ROX_KIND_READ_RESP, 0, "p"};
        rows[service | 0x0f] = {ROX_KIND_READ_RESP, 4, "lp"};
        rows[service | 0x10] = {ROX_KIND_READ_RESP, 4, "flp"};
        rows[service | 0x11] = {ROX_KIND_ACK, 4, "fl"};
        rows[service | 0x12] = {ROX_KIND_ATOMIC_ACK, 12, "fl"};
        rows[service | 0x13] = {ROX_KIND_CMP_SWAP, 28, "qfl"};
        rows[service | 0x14] = {ROX_KIND_FETCH_ADD, 28, "qfl"};
        rows[service | 0x16] = {ROX_KIND_SEND, 4, "qlpr"};
        rows[service | 0x17] = {ROX_KIND_SEND, 4, "qflpr"};
    }
    // 9.9.3: reserved ones are requests as well, invalid ones.
    for (int service : {0x00, 0xa0})
        for (int op : {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f})
            rows[service | op] = {ROX_KIND_NONE, 0, "qflp"};
    rows[0x1d] = {ROX_KIND_ATOMIC_WRITE, 16, "qflp"};
    rows[0x64] = {ROX_KIND_SEND, 8, "qflpr"};
    rows[0x65] = {ROX_KIND_SEND, 12, "qflpr"};
    rows[0x81] = {ROX_KIND_CNP, 16, "fl"};
    rows[0xc1] = {ROX_KIND_UNCUT, 0, "fl"};
    // Annex A14: every request names an SRQ, responses do not.
    for (auto &[opcode, row] : rows)
        if ((opcode & 0xe0) == 0xa0 && row.flags[0] == 'q')
            row.ext_len += 4;
    return rows;
}

unsigned int flag_bits(std::string_view letters)
{
    unsigned int bits = ROX_OP_VALID;
    for (char c : letters)
        bits |= c == 'q'   ? ROX_OP_REQUEST
                : c == 'f' ? ROX_OP_FIRST
                : c == 'l' ? ROX_OP_LAST
                : c == 'p' ? ROX_OP_PAYLOAD
                           : ROX_OP_RECV;
    return bits;
}

TEST(Opcodes, AsSpecified)
{
    const auto rows = expected();
    for (int opcode = 0; opcode < 256; opcode++) {
        const rox_opcode_info &info = rox_opcodes[opcode];
        const auto row = rows.find(opcode);
        if (row == rows.end()) {
            EXPECT_EQ(info.flags, 0) << opcode;
            EXPECT_EQ(info.ext_len, 0) << opcode;
            EXPECT_EQ(info.ext, 0) << opcode;
            continue;
        }
        EXPECT_EQ(info.kind, row->second.kind) << opcode;
        EXPECT_EQ(info.ext_len, row->second.ext_len) << opcode;
        EXPECT_EQ(info.flags, flag_bits(row->second.flags)) << opcode;
        EXPECT_LE(info.ext_len, ROX_EXT_MAX) << opcode;
    }
}

TEST(Opcodes, LengthIsThatOfTheHeaders)
{
    const std::map<int, unsigned int> lengths = {
        {ROX_EXT_DETH, 8},       {ROX_EXT_RETH, 16}, {ROX_EXT_ATOMIC, 28}, {ROX_EXT_AETH, 4},
        {ROX_EXT_ATOMIC_ACK, 8}, {ROX_EXT_IMM, 4},   {ROX_EXT_IETH, 4},    {ROX_EXT_XRC, 4},
    };
    for (const auto &info : rox_opcodes) {
        unsigned int sum = info.kind == ROX_KIND_CNP ? 16 : 0;
        for (const auto &[bit, length] : lengths)
            sum += info.ext & bit ? length : 0;
        EXPECT_EQ(info.ext_len, sum);
    }
}

TEST(Credits, CodesOfTheTable)
{
    const u32 table[] = {0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                         48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                         2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};
    ASSERT_EQ(std::size(table), 31U);
    for (unsigned int code = 0; code < 31; code++) {
        EXPECT_EQ(rox_credit_decode(code), table[code]);
        EXPECT_EQ(rox_credit_encode(table[code]), code);
    }
}

TEST(Credits, RoundedDown)
{
    for (u32 n = 0; n < 70000; n++) {
        const u8 code = rox_credit_encode(n);
        ASSERT_LE(rox_credit_decode(code), n);
        ASSERT_LT(code, ROX_AETH_NO_CREDITS);
        ASSERT_TRUE(code == 30 || rox_credit_decode(code + 1) > n);
    }
    EXPECT_EQ(rox_credit_encode(~0U), 30);
}

TEST(Timers, Rnr)
{
    EXPECT_EQ(rox_rnr_timer_ns(0), 655360000U);
    EXPECT_EQ(rox_rnr_timer_ns(1), 10000U);
    EXPECT_EQ(rox_rnr_timer_ns(4), 40000U);
    EXPECT_EQ(rox_rnr_timer_ns(5), 60000U);
    EXPECT_EQ(rox_rnr_timer_ns(12), 640000U);
    EXPECT_EQ(rox_rnr_timer_ns(13), 960000U);
    EXPECT_EQ(rox_rnr_timer_ns(30), 327680000U);
    EXPECT_EQ(rox_rnr_timer_ns(31), 491520000U);
    for (u8 code = 1; code < 31; code++)
        EXPECT_LT(rox_rnr_timer_ns(code), rox_rnr_timer_ns(code + 1));
    for (u8 code = 4; code < 30; code++)
        EXPECT_EQ(rox_rnr_timer_ns(code + 2), 2 * rox_rnr_timer_ns(code));
}

TEST(Timers, LocalAckTimeout)
{
    EXPECT_EQ(rox_ack_timeout_ns(0), 0U);
    EXPECT_EQ(rox_ack_timeout_ns(1), 8192U);
    EXPECT_EQ(rox_ack_timeout_ns(14), 67108864U);
    EXPECT_EQ(rox_ack_timeout_ns(31), 8796093022208U);
}

TEST(Psn, Circle)
{
    EXPECT_EQ(rox_psn_add(0xffffff, 1), 0U);
    EXPECT_EQ(rox_psn_add(0xfffff0, 0x20), 0x10U);
    EXPECT_EQ(rox_psn_diff(0, 0xffffff), 1);
    EXPECT_EQ(rox_psn_diff(0xffffff, 0), -1);
    EXPECT_EQ(rox_psn_diff(0x7fffff, 0), 0x7fffff);
    EXPECT_EQ(rox_psn_diff(0x800000, 0), -0x800000);
    EXPECT_EQ(rox_psn_diff(5, 5), 0);
}

} // namespace
