// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// RC: each operation moves just the bytes that it names, in all sizes and MTUs.
#include <array>
#include <cstring>
#include <numeric>

#include <unistd.h>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::size_t kGuard = 64; ///< bytes around the target that must not change

constexpr std::size_t mtu_bytes(ibv_mtu mtu)
{
    return std::size_t(128) << mtu;
}

/// The operations that move a payload.
enum class Op { Send, SendImm, Write, WriteImm, Read };
constexpr Op kOps[] = {Op::Send, Op::SendImm, Op::Write, Op::WriteImm, Op::Read};

const char *name_of(Op op)
{
    switch (op) {
    case Op::Send: return "SEND";
    case Op::SendImm: return "SEND_IMM";
    case Op::Write: return "WRITE";
    case Op::WriteImm: return "WRITE_IMM";
    default: return "READ";
    }
}

class RcTest : public PairTest {
protected:
    /// Does @p op with @p length bytes between buffers of both ends and checks
    /// data, guards and completions. Scatter lists as given, over whole buffers.
    void transfer(Op op, std::size_t length, std::uint64_t seed)
    {
        bool read = op == Op::Read;
        Buffer &source = read ? b_buffer() : a_buffer();
        Buffer &target = read ? a_buffer() : b_buffer();
        fill(source.bytes(kGuard, length), seed);
        std::memset(target.data(), 0, length + 2 * kGuard);
        Sges local = length ? Sges{a_buffer().sge(kGuard, length)} : Sges{};
        Sges receive = length ? Sges{target.sge(kGuard, length)} : Sges{};
        carry_out(op, length, seed, std::move(local), std::move(receive));
        EXPECT_TRUE(all(target.bytes(0, kGuard), 0)) << "before the target";
        EXPECT_TRUE(filled(target.bytes(kGuard, length), seed));
        EXPECT_TRUE(all(target.bytes(kGuard + length, kGuard), 0)) << "behind the target";
    }

    void carry_out(Op op, std::size_t length, std::uint64_t seed, Sges local, Sges receive)
    {
        auto imm = static_cast<std::uint32_t>(0x01020300 + seed);
        Remote far = remote(b_buffer(), kGuard);
        bool takes = op == Op::Send || op == Op::SendImm || op == Op::WriteImm;
        if (takes)
            b.qp->post_recv(seed, op == Op::WriteImm ? Sges{} : std::move(receive));
        switch (op) {
        case Op::Send: a.qp->post(SendWr::send(local).id(seed)); break;
        case Op::SendImm: a.qp->post(SendWr::send(local).imm(imm).id(seed)); break;
        case Op::Write: a.qp->post(SendWr::write(local, far).id(seed)); break;
        case Op::WriteImm: a.qp->post(SendWr::write(local, far).imm(imm).id(seed)); break;
        case Op::Read: a.qp->post(SendWr::read(local, far).id(seed)); break;
        }
        ibv_wc sent = a.send_cq.one(2 * kPatience);
        EXPECT_TRUE(is(sent, seed,
                       op == Op::Read                        ? IBV_WC_RDMA_READ
                       : op == Op::Send || op == Op::SendImm ? IBV_WC_SEND
                                                             : IBV_WC_RDMA_WRITE));
        EXPECT_EQ(sent.qp_num, a.qp->number());
        if (op == Op::Read) {
            EXPECT_EQ(sent.byte_len, length);
        }
        if (!takes)
            return;
        ibv_wc got = b.recv_cq.one();
        EXPECT_TRUE(is(got, seed, op == Op::WriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV));
        EXPECT_EQ(got.byte_len, length);
        EXPECT_EQ(got.qp_num, b.qp->number());
        EXPECT_EQ(!!(got.wc_flags & IBV_WC_WITH_IMM), op != Op::Send);
        if (op != Op::Send) {
            EXPECT_EQ(ntohl(got.imm_data), imm);
        }
    }

    void allocate(std::size_t size)
    {
        a_buffer_.emplace(a.buffer(size + 2 * kGuard));
        b_buffer_.emplace(b.buffer(size + 2 * kGuard));
    }
    Buffer &a_buffer() { return *a_buffer_; }
    Buffer &b_buffer() { return *b_buffer_; }

private:
    std::optional<Buffer> a_buffer_;
    std::optional<Buffer> b_buffer_;
};

class RcDataCore : public RcTest {};

TEST_F(RcDataCore, EveryOperationInEverySizeAroundTheMtu)
{
    start();
    allocate(1 << 20);
    std::size_t mtu = mtu_bytes(IBV_MTU_1024);
    std::uint64_t seed = 1;
    for (std::size_t length :
         {std::size_t(0), std::size_t(1), std::size_t(2), std::size_t(3), std::size_t(4),
          std::size_t(5), mtu - 1, mtu, mtu + 1, 2 * mtu - 1, 2 * mtu, 2 * mtu + 1, 7 * mtu + 13,
          std::size_t(65536), std::size_t(1) << 20})
        for (Op op : kOps) {
            SCOPED_TRACE(testing::Message() << name_of(op) << " of " << length);
            transfer(op, length, seed++);
        }
}

TEST_F(RcDataCore, EveryMtu)
{
    ibv_mtu most = std::min(a.context.port().active_mtu, b.context.port().active_mtu);
    for (int mtu = IBV_MTU_256; mtu <= most; mtu++) {
        Params params;
        params.mtu = static_cast<ibv_mtu>(mtu);
        start({}, params);
        allocate(64 << 10);
        std::size_t bytes = mtu_bytes(params.mtu);
        std::uint64_t seed = 1;
        for (std::size_t length : {bytes - 1, bytes, bytes + 1, 5 * bytes + 2})
            for (Op op : kOps) {
                SCOPED_TRACE(testing::Message()
                             << name_of(op) << " of " << length << ", MTU " << bytes);
                transfer(op, length, seed++);
            }
    }
}

TEST_F(RcDataCore, OverIpv6)
{
    Params params;
    params.family = Family::V6;
    params.traffic_class = 0x20;
    params.flow_label = 0x54321;
    start({}, params);
    allocate(20000);
    std::uint64_t seed = 1;
    for (Op op : kOps)
        for (std::size_t length : {0u, 1u, 1025u, 20000u})
            transfer(op, length, seed++);
}

TEST_F(RcDataCore, SixteenMebibytes)
{
    Params params;
    params.mtu = std::min(a.context.port().active_mtu, b.context.port().active_mtu);
    params.timeout = 18;
    start({}, params);
    allocate(16 << 20);
    transfer(Op::Write, 16 << 20, 1);
    transfer(Op::Read, 16 << 20, 2);
    transfer(Op::Send, 16 << 20, 3);
}

TEST_F(RcDataCore, OddAddresses)
{
    start();
    Buffer source = a.buffer(16384);
    Buffer target = b.buffer(16384);
    for (std::size_t shift = 1; shift < 8; shift++) {
        fill(source.bytes(shift, 3001), shift);
        std::memset(target.data(), 0, target.size());
        a.qp->post(
            SendWr::write({source.sge(shift, 3001)}, remote(target, 4095 - shift * 3)).id(shift));
        EXPECT_TRUE(is(a.send_cq.one(), shift, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(all(target.bytes(0, 4095 - shift * 3), 0));
        EXPECT_TRUE(filled(target.bytes(4095 - shift * 3, 3001), shift));
        EXPECT_TRUE(all(target.bytes(4095 - shift * 3 + 3001, 100), 0));
    }
}

/// Lengths that add up to @p total, odd and all different; some are 0.
std::vector<std::size_t> odd_split(std::size_t total, std::size_t parts)
{
    std::vector<std::size_t> result(parts);
    std::size_t left = total;
    for (std::size_t i = 0; i + 1 < parts; i++) {
        result[i] = i % 5 == 3 ? 0 : std::min(left, (i * 37) % 211 + 1);
        left -= result[i];
    }
    result.back() = left;
    return result;
}

/// The SGEs of that split, each with a gap of 7 bytes behind it.
Sges scatter(const Buffer &buffer, const std::vector<std::size_t> &lengths)
{
    Sges result;
    std::size_t at = 3;
    for (std::size_t length : lengths) {
        result.push_back(buffer.sge(at, length));
        at += length + 7;
    }
    return result;
}

/// What the SGEs cover, one after the other.
std::vector<std::uint8_t> gather(const Sges &sges)
{
    std::vector<std::uint8_t> result;
    for (const ibv_sge &sge : sges) {
        auto *bytes = reinterpret_cast<const std::uint8_t *>(sge.addr);
        result.insert(result.end(), bytes, bytes + sge.length);
    }
    return result;
}

TEST_F(RcDataCore, OneToThirtyTwoSgesWithOddSplits)
{
    QpConfig config;
    config.send_sge = 32;
    config.recv_sge = 32;
    start(config);
    Buffer near = a.buffer(32768);
    Buffer far = b.buffer(32768);
    constexpr std::size_t kTotal = 9001;
    for (std::size_t count = 1; count <= 32; count++) {
        std::vector<std::size_t> split = odd_split(kTotal, count);
        std::vector<std::size_t> other = odd_split(kTotal, 33 - count);
        Sges local = scatter(near, split);
        Sges receive = scatter(far, other);
        fill(near.bytes(), count);
        std::memset(far.data(), 0, far.size());
        b.qp->post_recv(count, receive);
        a.qp->post(SendWr::send(local).id(count));
        EXPECT_TRUE(is(a.send_cq.one(), count, IBV_WC_SEND));
        EXPECT_EQ(b.recv_cq.one().byte_len, kTotal);
        ASSERT_TRUE(same(gather(local), gather(receive))) << "SEND, " << count;

        std::memset(far.data(), 0, far.size());
        a.qp->post(SendWr::write(local, remote(far, 100)).id(count));
        EXPECT_TRUE(is(a.send_cq.one(), count, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(same(gather(local), far.bytes(100, kTotal))) << "WRITE, " << count;
        EXPECT_TRUE(all(far.bytes(100 + kTotal, 100), 0));

        fill(far.bytes(), 100 + count);
        std::memset(near.data(), 0, near.size());
        a.qp->post(SendWr::read(local, remote(far, 200)).id(count));
        EXPECT_TRUE(is(a.send_cq.one(), count, IBV_WC_RDMA_READ));
        ASSERT_TRUE(same(gather(local), far.bytes(200, kTotal))) << "READ, " << count;
        EXPECT_TRUE(all(near.bytes(0, 3), 0)) << "gaps stay untouched";
        EXPECT_TRUE(all(near.bytes(3 + split[0], 7), 0)) << "gaps stay untouched";
    }
}

TEST_F(RcDataCore, ReceiveBufferMayBeLonger)
{
    start();
    Buffer source = a.buffer(4096);
    Buffer target = b.buffer(8192);
    fill(source.bytes(), 4);
    b.qp->post_recv(1, {target.sge(0, 1000), target.sge(2000, 6000)});
    a.qp->post(SendWr::send({source.sge(0, 1500)}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_EQ(b.recv_cq.one().byte_len, 1500u);
    EXPECT_TRUE(filled(target.bytes(0, 1000), 4));
    EXPECT_TRUE(all(target.bytes(1000, 1000), 0));
    EXPECT_TRUE(filled(target.bytes(2000, 500), 4, 1000));
    EXPECT_TRUE(all(target.bytes(2500, 5692), 0));
}

TEST_F(RcDataCore, InlineDataIsTakenAtOnce)
{
    QpConfig config;
    config.inline_data = 512;
    config.send_sge = 4;
    start(config);
    Buffer target = b.buffer(65536);
    std::vector<std::uint8_t> local(512);
    std::size_t at = 0;
    std::uint64_t id = 1;
    for (std::size_t length : {1u, 7u, 64u, 100u, 511u, 512u}) {
        fill(Bytes(local).first(length), id);
        auto address = reinterpret_cast<std::uintptr_t>(local.data());
        auto size = static_cast<std::uint32_t>(length);
        // The key is not looked at, and the memory is free again after posting.
        a.qp->post(SendWr::write({{address, size, 0xdead}}, remote(target, at)).inlined().id(id));
        std::memset(local.data(), 0xee, local.size());
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(filled(target.bytes(at, length), id));
        EXPECT_TRUE(all(target.bytes(at + length, 64), 0));
        at += 2048;
        id++;
    }
}

TEST_F(RcDataCore, InlineDataIsGathered)
{
    QpConfig config;
    config.inline_data = 256;
    start(config);
    Buffer target = b.buffer(4096);
    std::array<std::uint8_t, 200> local{};
    fill(local, 9);
    auto address = reinterpret_cast<std::uintptr_t>(local.data());
    b.qp->post_recv(1, {target.sge(0, 4096)});
    a.qp->post(SendWr::send({{address, 33, 0}, {address + 33, 100, 0}, {address + 133, 67, 0}})
                   .imm(77)
                   .inlined()
                   .id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    ibv_wc got = b.recv_cq.one();
    EXPECT_TRUE(is(got, 1, IBV_WC_RECV));
    EXPECT_EQ(got.byte_len, 200u);
    EXPECT_EQ(ntohl(got.imm_data), 77u);
    EXPECT_TRUE(filled(target.bytes(0, 200), 9));
}

TEST_F(RcDataCore, TooMuchInlineDataIsRefused)
{
    QpConfig config;
    config.inline_data = 64;
    start(config);
    std::uint32_t most = a.qp->query(IBV_QP_CAP).cap.max_inline_data;
    std::vector<std::uint8_t> local(most + 1);
    auto address = reinterpret_cast<std::uintptr_t>(local.data());
    EXPECT_NE(a.qp->try_post(SendWr::send({{address, most + 1, 0}}).inlined()), 0);
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(RcDataCore, ImmediateDataKeepsItsByteOrder)
{
    start();
    b.qp->post_recv(1);
    a.qp->post(SendWr::send({}).imm(0x11223344));
    a.send_cq.one();
    ibv_wc wc = b.recv_cq.one();
    std::array<std::uint8_t, 4> bytes{};
    std::memcpy(bytes.data(), &wc.imm_data, 4);
    EXPECT_EQ(bytes, (std::array<std::uint8_t, 4>{0x11, 0x22, 0x33, 0x44}));
}

TEST_F(RcDataCore, FetchAddReturnsTheOldValueAndAdds)
{
    start();
    Buffer result = a.buffer(4096);
    Buffer target = b.buffer(4096);
    target.word(64) = 0xffffffffffffff00;
    std::uint64_t value = target.word(64);
    for (std::uint64_t addend : {1ull, 0ull, 0x1234567890ull, ~0ull, 0x200ull}) {
        a.qp->post(SendWr::fetch_add(result.sge(8, 8), remote(target, 64), addend).id(addend));
        ibv_wc wc = a.send_cq.one();
        EXPECT_TRUE(is(wc, addend, IBV_WC_FETCH_ADD));
        EXPECT_EQ(wc.byte_len, 8u);
        EXPECT_EQ(result.word(8), value);
        value += addend;
        EXPECT_EQ(target.word(64), value);
    }
    EXPECT_TRUE(all(target.bytes(0, 64), 0));
    EXPECT_TRUE(all(target.bytes(72, 64), 0));
    EXPECT_TRUE(all(result.bytes(0, 8), 0));
    EXPECT_TRUE(all(result.bytes(16, 64), 0));
}

TEST_F(RcDataCore, CompareSwapSwapsOnlyWhenEqual)
{
    start();
    Buffer result = a.buffer(4096);
    Buffer target = b.buffer(4096);
    target.word(8) = 0x1122334455667788;
    a.qp->post(
        SendWr::compare_swap(result.sge(0, 8), remote(target, 8), 0x1122334455667788, 42).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_COMP_SWAP));
    EXPECT_EQ(result.word(0), 0x1122334455667788u);
    EXPECT_EQ(target.word(8), 42u);
    a.qp->post(SendWr::compare_swap(result.sge(0, 8), remote(target, 8), 43, 99).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_COMP_SWAP));
    EXPECT_EQ(result.word(0), 42u);
    EXPECT_EQ(target.word(8), 42u);
}

TEST_F(RcDataCore, AtomicsOfManyRequestsAddUp)
{
    start();
    Buffer result = a.buffer(4096);
    Buffer target = b.buffer(4096);
    constexpr std::size_t kBatches = 10;
    constexpr std::size_t kBatch = 50;
    for (std::size_t batch = 0; batch < kBatches; batch++) {
        for (std::size_t i = 0; i < kBatch; i++)
            a.qp->post(SendWr::fetch_add(result.sge(i * 8, 8), remote(target), 3).id(i));
        std::vector<ibv_wc> wcs = a.send_cq.wait(kBatch);
        for (std::size_t i = 0; i < kBatch; i++) {
            ASSERT_TRUE(is(wcs[i], i, IBV_WC_FETCH_ADD));
            EXPECT_EQ(result.word(i * 8), (batch * kBatch + i) * 3);
        }
    }
    EXPECT_EQ(target.word(0), kBatches * kBatch * 3);
}

TEST_F(RcDataCore, QpConnectedToItself)
{
    Qp self(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Params params;
    params.peer_psn = params.psn;
    self.to_init(params);
    self.to_rtr(params, address_of(a.context, a.context), self.number());
    self.to_rts(params);
    Buffer source = a.buffer(65536);
    Buffer target = a.buffer(65536);
    fill(source.bytes(), 21);
    self.post_recv(1, {target.sge(0, 65536)});
    self.post(SendWr::send({source.sge(0, 50000)}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(a.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(target.bytes(0, 50000), 21));
    std::memset(target.data(), 0, target.size());
    self.post(SendWr::read({target.sge(0, 65536)}, remote(source)).id(3));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(target.bytes(), 21));
    self.post(SendWr::fetch_add(target.sge(0, 8), remote(source), 1).id(4));
    EXPECT_TRUE(is(a.send_cq.one(), 4, IBV_WC_FETCH_ADD));
}

TEST_F(RcDataCore, SourceAndTargetMayBeTheSameMemory)
{
    start();
    Memory memory(32768);
    MrHandle near = reg_mr(a.pd.get(), memory.data(), memory.size());
    MrHandle far = reg_mr(b.pd.get(), memory.data(), memory.size());
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    fill(memory.bytes().first(10000), 2);
    a.qp->post(SendWr::write({{address, 10000, near->lkey}}, {address + 16384, far->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().first(10000), 2));
    EXPECT_TRUE(filled(memory.bytes().subspan(16384, 10000), 2));
}

TEST_F(RcDataCore, BothDirectionsAtOnce)
{
    start();
    Buffer one = a.buffer(1 << 19);
    Buffer two = b.buffer(1 << 19);
    constexpr std::size_t kHalf = 1 << 18;
    fill(one.bytes(0, kHalf), 1);
    fill(two.bytes(0, kHalf), 2);
    for (std::size_t i = 0; i < 8; i++) {
        std::size_t piece = kHalf / 8;
        a.qp->post(
            SendWr::write({one.sge(i * piece, piece)}, remote(two, kHalf + i * piece)).id(i));
        b.qp->post(
            SendWr::write({two.sge(i * piece, piece)}, remote(one, kHalf + i * piece)).id(i));
    }
    std::vector<ibv_wc> from_a = a.send_cq.wait(8);
    std::vector<ibv_wc> from_b = b.send_cq.wait(8);
    for (std::size_t i = 0; i < 8; i++) {
        ASSERT_TRUE(is(from_a[i], i, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(is(from_b[i], i, IBV_WC_RDMA_WRITE));
    }
    EXPECT_TRUE(filled(two.bytes(kHalf, kHalf), 1));
    EXPECT_TRUE(filled(one.bytes(kHalf, kHalf), 2));
}

/// Not in the quick core: 2 GiB take a while under emulation.
class RcHuge : public RcTest {};

TEST_F(RcHuge, TwoGibibyteWrite)
{
    constexpr std::size_t kSize = std::size_t(1) << 31;
    constexpr std::size_t kPeriod = 4 << 20;
    alarm(kLongCaseSeconds);
    Params params;
    params.mtu = std::min(a.context.port().active_mtu, b.context.port().active_mtu);
    params.timeout = 18;
    start({}, params);
    // 2 GiB of addresses over 4 MiB and 20 MiB of memory: the target keeps what was
    // written last to each of its bytes.
    Buffer source(a.pd.get(), Memory::repeating(kSize, kPeriod));
    Buffer target(b.pd.get(), Memory::repeating(kSize, 5 * kPeriod));
    fill(source.bytes(0, kPeriod), 31);
    a.qp->post(SendWr::write({source.sge(0, kSize)}, remote(target)).id(1));
    ibv_wc wc = a.send_cq.one(10 * kPatience);
    EXPECT_TRUE(is(wc, 1, IBV_WC_RDMA_WRITE));
    for (std::size_t at = 0; at < 5 * kPeriod; at += kPeriod)
        EXPECT_TRUE(filled(target.bytes(at, kPeriod), 31)) << at;
}

TEST_F(RcHuge, MoreThanTwoGibibytesIsALengthError)
{
    alarm(kLongCaseSeconds);
    start();
    constexpr std::size_t kSize = std::size_t(1) << 31;
    Buffer source(a.pd.get(), Memory::repeating(kSize + 4096, 4 << 20));
    Buffer target = b.buffer(4096);
    int result = a.qp->try_post(
        SendWr::write({source.sge(0, kSize), source.sge(0, 1)}, remote(target)).id(1));
    if (result)
        EXPECT_EQ(result, EINVAL);
    else
        EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_LEN_ERR));
    EXPECT_TRUE(all(target.bytes(), 0));
}

} // namespace
