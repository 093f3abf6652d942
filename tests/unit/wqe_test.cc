/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Each operation's WQE, byte by byte, and what is refused. */
#include "objects.hpp"
#include "wqe.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

namespace rox::test {
namespace {

using Bytes = std::vector<uint8_t>;

/* Little endian, as x86 and the other machines that we run on. */
template <typename T>
void append(Bytes &bytes, T value)
{
    const auto *begin = reinterpret_cast<const uint8_t *>(&value);

    bytes.insert(bytes.end(), begin, begin + sizeof(value));
}

class SendWqeTest : public testing::Test {
protected:
    static constexpr uint8_t stale = 0xee; // what an earlier WQE left in the entry

    SendWqeTest() { slot.fill(std::byte{stale}); }

    int encode(ibv_qp_type type = IBV_QPT_RC)
    {
        return encode_send(slot.data(), wr, {.type = type, .max_sge = 4, .max_inline = 64});
    }

    /* The first @p size bytes of the entry. */
    Bytes bytes(size_t size) const
    {
        const auto *begin = reinterpret_cast<const uint8_t *>(slot.data());

        return {begin, begin + size};
    }

    /* The header, with 8 words for the operation. */
    static Bytes header(uint32_t opcode, uint32_t flags, uint32_t num_sge, uint32_t inline_len,
                        uint32_t ex, std::array<uint64_t, 4> operation = {}, uint32_t xrc_srqn = 0)
    {
        Bytes expected;

        append(expected, uint64_t{0x1122334455667788});
        for (uint32_t word : {opcode, flags, num_sge, inline_len, ex, xrc_srqn}) {
            append(expected, word);
        }
        for (uint64_t word : operation) {
            append(expected, word);
        }
        return expected;
    }

    alignas(64) std::array<std::byte, 64 + 64> slot;
    std::array<ibv_sge, 8> sges = {{{0x1000, 100, 0xaaaa}, {0x2000, 200, 0xbbbb}}};
    ibv_send_wr wr = {.wr_id = 0x1122334455667788,
                      .next = nullptr,
                      .sg_list = sges.data(),
                      .num_sge = 0,
                      .opcode = IBV_WR_SEND,
                      .send_flags = 0,
                      .imm_data = 0,
                      .wr = {},
                      .qp_type = {},
                      .bind_mw = {}};
};

TEST_F(SendWqeTest, Send)
{
    wr.send_flags = IBV_SEND_SIGNALED;
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(2, 2, 0, 0, 0));
}

TEST_F(SendWqeTest, SendWithImmediateKeepsItsByteOrder)
{
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htobe32(0x01020304);
    wr.send_flags = IBV_SEND_SOLICITED | IBV_SEND_FENCE;
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(3, 5, 0, 0, 0x04030201));
}

TEST_F(SendWqeTest, SendWithInvalidateHasTheKeyInHostOrder)
{
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = 0x01020304;
    wr.num_sge = 1;
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(IBV_WR_SEND_WITH_INV, 0, 1, 0, 0x01020304));
    EXPECT_EQ(encode(IBV_QPT_UC), EINVAL);
}

TEST_F(SendWqeTest, LocalInvalidateHasNoPayload)
{
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = 0x01020304;
    wr.num_sge = 2;
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(IBV_WR_LOCAL_INV, 0, 0, 0, 0x01020304));
    wr.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(encode(), EINVAL);
}

TEST_F(SendWqeTest, BindIsForWindowsOfType2AndDoesNotUnbind)
{
    ibv_mr mr = {};
    ibv_mw mw = {};

    mr.lkey = 9;
    mw.type = IBV_MW_TYPE_2;
    mw.rkey = 0x701;
    wr.opcode = IBV_WR_BIND_MW;
    wr.num_sge = 2;
    wr.bind_mw.mw = &mw;
    wr.bind_mw.rkey = 0x755;
    wr.bind_mw.bind_info = {&mr, 0x1000, 1ULL << 40, IBV_ACCESS_REMOTE_READ};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(IBV_WR_BIND_MW, 0, 0, 0, 0,
                                {0x1000, 1ULL << 40, 0x701ULL << 32 | 9,
                                 uint64_t{IBV_ACCESS_REMOTE_READ} << 32 | 0x755}));
    EXPECT_EQ(encode(IBV_QPT_UC), 0);
    EXPECT_EQ(encode(IBV_QPT_UD), EINVAL);
    wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_MW_BIND;
    EXPECT_EQ(encode(), EINVAL);
    wr.bind_mw.bind_info = {&mr, 0x1000, 0, 0};
    EXPECT_EQ(encode(), EINVAL);
    wr.bind_mw.bind_info = {nullptr, 0x1000, 1, 0};
    EXPECT_EQ(encode(), EINVAL);
    wr.bind_mw.bind_info = {&mr, 0x1000, 1, 0};
    EXPECT_EQ(encode(), 0);
    mw.type = IBV_MW_TYPE_1;
    EXPECT_EQ(encode(), EINVAL);
    wr.bind_mw.mw = nullptr;
    EXPECT_EQ(encode(), EINVAL);
}

TEST_F(SendWqeTest, Write)
{
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {.remote_addr = 0xdeadbeef00, .rkey = 0x77};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(0, 0, 0, 0, 0, {0xdeadbeef00, 0, 0, 0x77}));
}

TEST_F(SendWqeTest, WriteWithImmediate)
{
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = htobe32(1);
    wr.wr.rdma = {.remote_addr = 0x5000, .rkey = 0x88};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(1, 0, 0, 0, 0x01000000, {0x5000, 0, 0, 0x88}));
}

TEST_F(SendWqeTest, Read)
{
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma = {.remote_addr = 0x6000, .rkey = 0x99};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(4, 0, 0, 0, 0, {0x6000, 0, 0, 0x99}));
}

TEST_F(SendWqeTest, CompareAndSwap)
{
    wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    wr.wr.atomic = {.remote_addr = 0x7000, .compare_add = 11, .swap = 22, .rkey = 0xab};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(5, 0, 0, 0, 0, {0x7000, 11, 22, 0xab}));
}

TEST_F(SendWqeTest, FetchAndAdd)
{
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic = {.remote_addr = 0x7008, .compare_add = 33, .swap = 0, .rkey = 0xcd};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(6, 0, 0, 0, 0, {0x7008, 33, 0, 0xcd}));
}

TEST_F(SendWqeTest, AtomicWrite)
{
    wr.opcode = IBV_WR_ATOMIC_WRITE;
    wr.wr.rdma = {.remote_addr = 0x7010, .rkey = 0xef};
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(64), header(15, 0, 0, 0, 0, {0x7010, 0, 0, 0xef}));
}

TEST_F(SendWqeTest, UdHasTheNumberOfItsAddressHandle)
{
    Ah ah = {};

    ah.index = 0x1234;
    wr.wr.ud = {.ah = &ah.ah, .remote_qpn = 0x55, .remote_qkey = 0x66};
    ASSERT_EQ(encode(IBV_QPT_UD), 0);
    EXPECT_EQ(bytes(64), header(2, 0, 0, 0, 0, {0x5500001234, 0x66, 0, 0}));
}

TEST_F(SendWqeTest, UdFieldsOfOtherTypesAreNotLookedAt)
{
    wr.wr.ud = {.ah = reinterpret_cast<ibv_ah *>(8), .remote_qpn = 1, .remote_qkey = 2};
    ASSERT_EQ(encode(IBV_QPT_RC), 0);
    EXPECT_EQ(bytes(64), header(2, 0, 0, 0, 0));
}

TEST_F(SendWqeTest, XrcNamesTheSrqForEveryOpcode)
{
    wr.qp_type.xrc.remote_srqn = 0x123456;
    ASSERT_EQ(encode(IBV_QPT_XRC_SEND), 0);
    EXPECT_EQ(bytes(64), header(2, 0, 0, 0, 0, {}, 0x123456));
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma = {.remote_addr = 0x7000, .rkey = 0xcd};
    ASSERT_EQ(encode(IBV_QPT_XRC_SEND), 0);
    EXPECT_EQ(bytes(64), header(4, 0, 0, 0, 0, {0x7000, 0, 0, 0xcd}, 0x123456));
    ASSERT_EQ(encode(IBV_QPT_RC), 0);
    EXPECT_EQ(bytes(64), header(4, 0, 0, 0, 0, {0x7000, 0, 0, 0xcd}));
}

TEST_F(SendWqeTest, SgeListFollowsTheHeader)
{
    Bytes expected = header(2, 0, 2, 0, 0);

    wr.num_sge = 2;
    append(expected, uint64_t{0x1000});
    append(expected, uint32_t{100});
    append(expected, uint32_t{0xaaaa});
    append(expected, uint64_t{0x2000});
    append(expected, uint32_t{200});
    append(expected, uint32_t{0xbbbb});
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(96), expected);
    EXPECT_EQ(slot[96], std::byte{stale});
}

TEST_F(SendWqeTest, InlinePayloadIsGatheredBehindTheHeader)
{
    std::array<char, 3> one = {'a', 'b', 'c'};
    std::array<char, 4> two = {'d', 'e', 'f', 'g'};
    Bytes expected = header(2, IBV_SEND_INLINE, 0, 7, 0);

    sges[0] = {reinterpret_cast<uintptr_t>(one.data()), 3, 0};
    sges[1] = {0, 0, 0};
    sges[2] = {reinterpret_cast<uintptr_t>(two.data()), 4, 0xffffffff};
    wr.num_sge = 3;
    wr.send_flags = IBV_SEND_INLINE;
    for (char c : {'a', 'b', 'c', 'd', 'e', 'f', 'g'}) {
        expected.push_back(static_cast<uint8_t>(c));
    }
    ASSERT_EQ(encode(), 0);
    EXPECT_EQ(bytes(71), expected);
    EXPECT_EQ(slot[71], std::byte{stale});
}

TEST_F(SendWqeTest, InlineOfTheLargestSizeIsTaken)
{
    std::array<char, 64> data = {};

    sges[0] = {reinterpret_cast<uintptr_t>(data.data()), 64, 0};
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(encode(), 0);
}

TEST_F(SendWqeTest, InlineOneByteTooLongIsRefused)
{
    std::array<char, 65> data = {};

    sges[0] = {reinterpret_cast<uintptr_t>(data.data()), 65, 0};
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(encode(), EINVAL);
}

TEST_F(SendWqeTest, InlineLengthsThatWrapAreRefused)
{
    std::array<char, 64> data = {};

    sges[0] = {reinterpret_cast<uintptr_t>(data.data()), 60, 0};
    sges[1] = {reinterpret_cast<uintptr_t>(data.data()), 0xffffffff, 0};
    wr.num_sge = 2;
    wr.send_flags = IBV_SEND_INLINE;
    EXPECT_EQ(encode(), EINVAL);
}

TEST_F(SendWqeTest, InlineReadsAndAtomicsAreRefused)
{
    wr.send_flags = IBV_SEND_INLINE;
    for (auto opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
        wr.opcode = opcode;
        EXPECT_EQ(encode(), EINVAL) << opcode;
    }
}

TEST_F(SendWqeTest, MoreSgesThanTheQueueHasAreRefused)
{
    wr.num_sge = 4;
    EXPECT_EQ(encode(), 0);
    wr.num_sge = 5;
    EXPECT_EQ(encode(), EINVAL);
    wr.num_sge = -1;
    EXPECT_EQ(encode(), EINVAL);
}

TEST_F(SendWqeTest, UdWithoutAddressHandleIsRefused)
{
    EXPECT_EQ(encode(IBV_QPT_UD), EINVAL);
}

TEST_F(SendWqeTest, UnknownFlagsAreRefused)
{
    for (unsigned int bit = 5; bit < 32; bit++) {
        wr.send_flags = 1U << bit;
        EXPECT_EQ(encode(), EINVAL) << bit;
    }
}

/* As with adapters whose QPs have no checksums. The kernel would refuse the flag. */
TEST_F(SendWqeTest, ChecksumFlagIsTakenAndNotPassedOn)
{
    wr.send_flags = IBV_SEND_IP_CSUM | IBV_SEND_SIGNALED;
    EXPECT_EQ(encode(), 0);
    EXPECT_EQ(reinterpret_cast<const rox_send_wqe *>(slot.data())->send_flags,
              static_cast<uint32_t>(IBV_SEND_SIGNALED));
}

TEST_F(SendWqeTest, EachTypeTakesItsOwnOpcodesAndNoOther)
{
    Ah ah = {};
    const std::vector<int> sends = {IBV_WR_SEND, IBV_WR_SEND_WITH_IMM};
    const std::vector<int> writes = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM};
    const std::vector<int> answered = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP,
                                       IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_WRITE};
    const auto has = [](const std::vector<int> &set, int opcode) {
        return std::find(set.begin(), set.end(), opcode) != set.end();
    };

    for (int opcode = -2; opcode < 40; opcode++) {
        std::memcpy(&wr.opcode, &opcode, sizeof(opcode)); // as a C program can
        wr.wr.ud.ah = nullptr;
        EXPECT_EQ(encode(IBV_QPT_RC) == 0,
                  has(sends, opcode) || has(writes, opcode) || has(answered, opcode) ||
                      opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_LOCAL_INV)
            << opcode;
        EXPECT_EQ(encode(IBV_QPT_UC) == 0,
                  has(sends, opcode) || has(writes, opcode) || opcode == IBV_WR_LOCAL_INV)
            << opcode;
        EXPECT_EQ(encode(IBV_QPT_XRC_SEND) == 0,
                  encode(IBV_QPT_RC) == 0 && opcode != IBV_WR_ATOMIC_WRITE)
            << opcode;
        EXPECT_EQ(encode(IBV_QPT_XRC_RECV), EINVAL) << opcode;
        wr.wr.ud.ah = &ah.ah;
        EXPECT_EQ(encode(IBV_QPT_UD) == 0, has(sends, opcode)) << opcode;
        EXPECT_EQ(encode(IBV_QPT_RAW_PACKET), EINVAL) << opcode;
    }
}

TEST(RecvWqe, HeaderAndSgeList)
{
    std::array<ibv_sge, 2> sges = {{{0x1000, 100, 0xaaaa}, {0x2000, 200, 0xbbbb}}};
    const ibv_recv_wr wr = {.wr_id = 0x42, .next = nullptr, .sg_list = sges.data(), .num_sge = 2};
    alignas(16) std::array<std::byte, 64> slot;
    Bytes expected;

    slot.fill(std::byte{0xee});
    append(expected, uint64_t{0x42});
    append(expected, uint32_t{2});
    append(expected, uint32_t{0});
    append(expected, uint64_t{0x1000});
    append(expected, uint32_t{100});
    append(expected, uint32_t{0xaaaa});
    append(expected, uint64_t{0x2000});
    append(expected, uint32_t{200});
    append(expected, uint32_t{0xbbbb});
    ASSERT_EQ(encode_recv(slot.data(), wr, 2), 0);
    EXPECT_EQ(std::memcmp(slot.data(), expected.data(), expected.size()), 0);
    EXPECT_EQ(slot[48], std::byte{0xee});
}

TEST(RecvWqe, NoSgesAreLegalAndTooManyAreNot)
{
    std::array<ibv_sge, 3> sges = {};
    ibv_recv_wr wr = {.wr_id = 0, .next = nullptr, .sg_list = nullptr, .num_sge = 0};
    alignas(16) std::array<std::byte, 64> slot;

    EXPECT_EQ(encode_recv(slot.data(), wr, 2), 0);
    wr.sg_list = sges.data();
    wr.num_sge = 3;
    EXPECT_EQ(encode_recv(slot.data(), wr, 2), EINVAL);
    wr.num_sge = -1;
    EXPECT_EQ(encode_recv(slot.data(), wr, 2), EINVAL);
}

} // namespace
} // namespace rox::test
