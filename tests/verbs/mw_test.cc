// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory windows: what a peer may do through them, and when it may not any more.
/// What is refused must not have changed a byte.
#include <cstring>
#include <thread>

#include "lib/window.h"

using namespace vt;

namespace {

class MwCore : public MwTest {};

TEST_F(MwCore, DeviceSaysWhatItHas)
{
    ibv_device_attr attr = a.context.attr();
    EXPECT_GE(attr.max_mw, 1 << 16);
    EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
    EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    EXPECT_FALSE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) << "one or the other";
}

TEST_F(MwCore, WindowsComeAndGo)
{
    for (ibv_mw_type type : {IBV_MW_TYPE_1, IBV_MW_TYPE_2}) {
        Mw mw = alloc_mw(b.pd, type);
        Mw other = alloc_mw(b.pd, type);
        EXPECT_EQ(mw->type, type);
        EXPECT_EQ(mw->pd, b.pd.get());
        EXPECT_EQ(mw->context, b.context.get());
        EXPECT_NE(mw->rkey >> 8, other->rkey >> 8);
    }
    errno = 0;
    EXPECT_EQ(ibv_alloc_mw(b.pd.get(), static_cast<ibv_mw_type>(3)), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(MwCore, WindowHoldsItsPd)
{
    Pd pd = alloc_pd(b.context.get());
    Mw mw = alloc_mw(pd, IBV_MW_TYPE_1);
    EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
    EXPECT_EQ(mw.destroy(), 0);
}

/* ---- what a peer may do ---- */

TEST_F(MwCore, UnboundWindowsAreClosed)
{
    Mw one = alloc_mw(b.pd, IBV_MW_TYPE_1);
    EXPECT_TRUE(refused(write({region.address(), one->rkey}, 8)));
    reconnect();
    Mw two = alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_TRUE(refused(write({region.address(), two->rkey}, 8)));
}

TEST_F(MwCore, PeerReachesExactlyWhatIsBound)
{
    constexpr std::size_t kAt = 4096 + 77, kLength = 2 * 4096 + 13;
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, kAt, kLength))));
    fill(local.bytes(), 5);
    EXPECT_TRUE(is(write({region.address(kAt), mw->rkey}, kLength), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(region.bytes(kAt, kLength), 5));
    EXPECT_TRUE(filled(region.bytes(0, kAt), kSeed));
    EXPECT_TRUE(filled(region.bytes(kAt + kLength, kRegion - kAt - kLength), kSeed, kAt + kLength));
    std::memset(local.data(), 0, local.size());
    EXPECT_TRUE(is(read({region.address(kAt + 4000), mw->rkey}, 100), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(0, 100), 5, 4000));
    region.word(8192) = 40;
    EXPECT_TRUE(is(add({region.address(8192), mw->rkey}), 1, IBV_WC_FETCH_ADD));
    EXPECT_EQ(region.word(8192), 41u);
}

TEST_F(MwCore, OneByteOutsideIsRefused)
{
    constexpr std::size_t kAt = 4096 + 77, kLength = 4096;
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, kAt, kLength))));
    EXPECT_TRUE(refused(write({region.address(kAt - 1), mw->rkey}, 8)));
    reconnect();
    EXPECT_TRUE(refused(write({region.address(kAt + kLength - 7), mw->rkey}, 8)));
    reconnect();
    EXPECT_TRUE(refused(write({region.address(kAt), mw->rkey}, kLength + 1)));
    reconnect();
    EXPECT_TRUE(refused(write({~0ull - 3, mw->rkey}, 8)));
    reconnect();
    EXPECT_TRUE(is(write({region.address(kAt + kLength - 8), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MwCore, EachRightIsAskedFor)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096, IBV_ACCESS_REMOTE_READ))));
    EXPECT_TRUE(is(read({region.address(), mw->rkey}, 4096), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(0, 4096), kSeed));
    EXPECT_TRUE(refused(write({region.address(), mw->rkey}, 8)));
    reconnect();
    EXPECT_TRUE(refused(add({region.address(), mw->rkey})));
    reconnect();
    std::memset(local.data(), 0, local.size());
    ASSERT_TRUE(bound(bind1(
        mw.get(), part(region, 0, 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC))));
    EXPECT_TRUE(refused(read({region.address(), mw->rkey}, 8)));
    EXPECT_TRUE(all(local.bytes(), 0));
}

TEST_F(MwCore, AtomicWriteReachesWhatIsBound)
{
    constexpr std::size_t kAt = 4096, kLength = 4096 + 12;
    constexpr std::uint64_t kValue = 0x0123456789abcdef;
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, kAt, kLength, IBV_ACCESS_REMOTE_WRITE))));
    local.word(0) = kValue;
    // The last one has four bytes in the window and four behind it.
    for (std::size_t at : {kAt - 8, kAt + kLength - 4, kAt + kLength + 4}) {
        EXPECT_TRUE(refused(atomic_write({region.address(at), mw->rkey}))) << at;
        reconnect();
    }
    for (std::size_t at : {kAt, kAt + 4088, kAt + 4096}) {
        EXPECT_TRUE(is(atomic_write({region.address(at), mw->rkey}), 1, IBV_WC_ATOMIC_WRITE)) << at;
        EXPECT_EQ(region.word(at), kValue) << at;
        EXPECT_TRUE(filled(region.bytes(at - 8, 8), kSeed, at - 8)) << at;
        EXPECT_TRUE(filled(region.bytes(at + 8, 8), kSeed, at + 8)) << at;
        fill(region.bytes(), kSeed);
    }
    EXPECT_TRUE(
        is_error(atomic_write({region.address(kAt + 4), mw->rkey}), 1, IBV_WC_REM_INV_REQ_ERR));
}

TEST_F(MwCore, AtomicWriteAsksForTheRightToWrite)
{
    local.word(0) = 1;
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(
        bound(bind2(mw.get(), mw->rkey,
                    part(region, 0, 4096, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC))));
    EXPECT_TRUE(refused(atomic_write({region.address(), mw->rkey})));
}

TEST_F(MwCore, AtomicWriteEndsWithTheWindow)
{
    start_second();
    local.word(0) = 77;
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    a2->post(SendWr::atomic_write(local.sge(0, 8), {region.address(), mw->rkey}).id(1));
    EXPECT_TRUE(refused(a.send_cq.one())) << "of another QP";
    EXPECT_TRUE(is(atomic_write({region.address(), mw->rkey}), 1, IBV_WC_ATOMIC_WRITE));
    EXPECT_EQ(region.word(0), 77u);
    EXPECT_TRUE(invalidates(mw->rkey));
    fill(region.bytes(), kSeed);
    EXPECT_TRUE(refused(atomic_write({region.address(), mw->rkey})));
}

TEST_F(MwCore, WindowGivesWhatTheRegionKeepsFromPeers)
{
    Buffer closed = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(closed, 0, 4096))));
    fill(local.bytes(), 6);
    EXPECT_TRUE(is(write({closed.address(), mw->rkey}, 4096), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(closed.bytes(), 6));
    EXPECT_TRUE(is_error(write(remote(closed), 8), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MwCore, ZeroBasedWindowsBeginAtZero)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(
        bound(bind1(mw.get(), part(region, 100, 5000, kAllRemote | IBV_ACCESS_ZERO_BASED))));
    fill(local.bytes(), 7);
    EXPECT_TRUE(is(write({10, mw->rkey}, 4990), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(region.bytes(110, 4990), 7));
    EXPECT_TRUE(filled(region.bytes(0, 110), kSeed));
    EXPECT_TRUE(filled(region.bytes(5100, kRegion - 5100), kSeed, 5100));
    EXPECT_TRUE(is_error(write({4993, mw->rkey}, 8), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MwCore, RegionsWithTheirOwnAddressesCanBeBoundTo)
{
    Memory memory(3 * 4096);
    std::uint64_t iova = 0x7700000000000000 + 0x123;
    MrHandle mr(need(ibv_reg_mr_iova(b.pd.get(), memory.data() + 0x123, 6000, iova, kBindable),
                     "ibv_reg_mr_iova"));
    MrHandle zero = reg_mr(b.pd.get(), memory.data() + 50, 8000, kBindable | IBV_ACCESS_ZERO_BASED);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), {mr.get(), iova + 1000, 4500, kAllRemote})));
    fill(local.bytes(), 8);
    EXPECT_TRUE(is(write({iova + 1000, mw->rkey}, 4500), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(0x123 + 1000, 4500), 8));
    EXPECT_TRUE(all(memory.bytes().first(0x123 + 1000), 0));
    ASSERT_TRUE(bound(bind1(mw.get(), {zero.get(), 6000, 2000, kAllRemote})));
    EXPECT_TRUE(is(write({6000, mw->rkey}, 2000), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(6050, 2000), 8));
    EXPECT_TRUE(unbind1(mw.get()).status == IBV_WC_SUCCESS);
}

TEST_F(MwCore, WindowsHaveNoLkey)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    b.qp->post(SendWr::write({{region.address(), 8, mw->rkey}}, remote(local)).id(2));
    EXPECT_TRUE(is_error(b.send_cq.one(), 2, IBV_WC_LOC_PROT_ERR));
    reconnect();
    a.qp->post(SendWr::send({local.sge(0, 8)}).id(3));
    b.qp->post_recv(4, {{region.address(), 8, mw->rkey}});
    EXPECT_TRUE(is_error(b.recv_cq.one(), 4, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(filled(region.bytes(), kSeed));
}

/* ---- type 1 ---- */

TEST_F(MwCore, EveryBindGivesANewKey)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    std::uint32_t old = mw->rkey;
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 4096, 4096))));
    EXPECT_NE(mw->rkey, old);
    EXPECT_EQ(mw->rkey >> 8, old >> 8);
    EXPECT_TRUE(is(write({region.address(4096), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE));
    fill(region.bytes(), kSeed);
    EXPECT_TRUE(refused(write({region.address(4096), old}, 8)));
    reconnect();
    EXPECT_TRUE(refused(write({region.address(), mw->rkey}, 8))) << "the former range";
}

TEST_F(MwCore, BindsManyTimes)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    for (std::uint64_t i = 0; i < 300; i++) {
        std::size_t at = i * 37 % 4096;
        ASSERT_TRUE(bound(bind1(mw.get(), part(region, at, 64))));
        fill(local.bytes(0, 64), i);
        ASSERT_TRUE(is(write({region.address(at), mw->rkey}, 64), 1, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(filled(region.bytes(at, 64), i));
    }
}

TEST_F(MwCore, LengthZeroUnbinds)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    std::uint32_t old = mw->rkey;
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 0, 0))));
    EXPECT_TRUE(refused(write({region.address(), mw->rkey}, 8)));
    reconnect();
    EXPECT_TRUE(refused(write({region.address(), old}, 8)));
    reconnect();
    EXPECT_TRUE(bound(unbind1(mw.get()))) << "again, and without a region";
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MwCore, EveryQpOfThePdServesType1)
{
    start_second();
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    fill(local.bytes(), 9);
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 100, a2.get()), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(region.bytes(0, 100), 9));
    ibv_mw_bind request{51, IBV_SEND_SIGNALED, part(region, 4096, 4096)};
    ASSERT_EQ(ibv_bind_mw(b2->get(), mw.get(), &request), 0);
    EXPECT_TRUE(is(b.send_cq.one(), 51, IBV_WC_BIND_MW));
    EXPECT_TRUE(is(write({region.address(4096), mw->rkey}, 100), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MwCore, Type1CannotBeInvalidated)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    b.qp->post(invalidate_wr(IBV_WR_LOCAL_INV, mw->rkey).id(50));
    EXPECT_TRUE(not_bound(b.send_cq.one()));
    reconnect();
    b.qp->post_recv(4, {});
    a.qp->post(invalidate_wr(IBV_WR_SEND_WITH_INV, mw->rkey).id(1));
    EXPECT_TRUE(refused(a.send_cq.one()));
    reconnect();
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE)) << "still bound";
}

/* ---- type 2 ---- */

TEST_F(MwCore, Type2HasTheKeyThatItsOwnerChooses)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    std::uint32_t rkey = variant(mw->rkey, static_cast<std::uint8_t>(mw->rkey + 100));
    ASSERT_TRUE(bound(bind2(mw.get(), rkey, part(region, 100, 4096))));
    fill(local.bytes(), 11);
    EXPECT_TRUE(is(write({region.address(100), rkey}, 4096), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(region.bytes(100, 4096), 11));
    fill(region.bytes(), kSeed);
    EXPECT_TRUE(refused(write({region.address(100), mw->rkey}, 8))) << "the key before";
}

TEST_F(MwCore, Type2KeepsItsIndex)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    Mw other = alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_TRUE(not_bound(bind2(mw.get(), other->rkey, part(region, 0, 4096))));
    reconnect();
    EXPECT_TRUE(not_bound(bind2(mw.get(), mw->rkey ^ 0x100, part(region, 0, 4096))));
    reconnect();
    EXPECT_TRUE(refused(write({region.address(), other->rkey}, 8)));
}

TEST_F(MwCore, Type2IsBoundOnlyWhenItIsFree)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    std::uint32_t rkey = mw->rkey;
    ASSERT_TRUE(bound(bind2(mw.get(), rkey, part(region, 0, 4096))));
    EXPECT_TRUE(invalidates(rkey));
    ASSERT_TRUE(bound(bind2(mw.get(), variant(rkey, 7), part(region, 4096, 4096))));
    EXPECT_TRUE(not_bound(bind2(mw.get(), variant(rkey, 8), part(region, 0, 4096))));
}

TEST_F(MwCore, OnlyTheQpOfType2Serves)
{
    start_second();
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    EXPECT_TRUE(refused(write({region.address(), mw->rkey}, 8, a2.get())));
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MwCore, OnlyTheQpOfType2Invalidates)
{
    start_second();
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    b2->post_recv(4, {});
    a2->post(invalidate_wr(IBV_WR_SEND_WITH_INV, mw->rkey).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(b2->reaches(IBV_QPS_ERR));
    EXPECT_TRUE(is_error(b.recv_cq.one(), 4, IBV_WC_WR_FLUSH_ERR));
    a2.reset();
    b2.reset();
    start_second();
    b2->post(invalidate_wr(IBV_WR_LOCAL_INV, mw->rkey).id(50));
    EXPECT_TRUE(not_bound(b.send_cq.one()));
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE)) << "still bound";
}

TEST_F(MwCore, PeersOfAnotherPdDoNotInvalidate)
{
    Pd other = alloc_pd(b.context.get());
    Qp far_a(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Qp far_b(other.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, far_a, b.context, far_b, params);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    far_b.post_recv(4, {});
    far_a.post(invalidate_wr(IBV_WR_SEND_WITH_INV, mw->rkey).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_WRITE)) << "still bound";
}

TEST_F(MwCore, LocalInvalidateClosesForGood)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    std::uint32_t rkey = mw->rkey;
    ASSERT_TRUE(bound(bind2(mw.get(), rkey, part(region, 0, 4096))));
    EXPECT_TRUE(invalidates(rkey));
    EXPECT_TRUE(refused(write({region.address(), rkey}, 8)));
    // All that can be guessed: every variant of the key.
    for (unsigned low = 0; low < 256; low += 51) {
        reconnect();
        EXPECT_TRUE(
            refused(write({region.address(), variant(rkey, static_cast<std::uint8_t>(low))}, 8)));
    }
    EXPECT_EQ(region.mr().destroy(), 0) << "not bound any more";
}

TEST_F(MwCore, InvalidateNeedsTheKeyThatIsGood)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    b.qp->post(invalidate_wr(IBV_WR_LOCAL_INV, mw->rkey ^ 1).id(50));
    EXPECT_TRUE(not_bound(b.send_cq.one()));
}

TEST_F(MwCore, PeerInvalidates)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    std::uint32_t rkey = variant(mw->rkey, 0x5a);
    ASSERT_TRUE(bound(bind2(mw.get(), rkey, part(region, 0, 4096))));
    Buffer inbox = b.buffer(64);
    fill(local.bytes(), 12);
    b.qp->post_recv(4, {inbox.sge(0, 64)});
    a.qp->post(invalidate_wr(IBV_WR_SEND_WITH_INV, rkey, {local.sge(0, 20)}).id(3));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_SEND));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 4, IBV_WC_RECV));
    EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
    EXPECT_EQ(wc.invalidated_rkey, rkey);
    EXPECT_EQ(wc.byte_len, 20u);
    EXPECT_TRUE(filled(inbox.bytes(0, 20), 12));
    EXPECT_TRUE(refused(write({region.address(), rkey}, 8)));
}

TEST_F(MwCore, OneRoundAfterAnother)
{
    // As storage targets use them: bind, tell, write, invalidate; nothing is waited for but
    // messages.
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    Buffer mail = b.buffer(64), told = a.buffer(64);
    std::uint8_t low = 0;
    for (std::uint64_t i = 0; i < 300; i++) {
        std::size_t at = i * 61 % 8192, length = 1 + i * 97 % 4096;
        std::uint32_t rkey = variant(mw->rkey, low++);
        fill(region.bytes(), kSeed);
        a.qp->post_recv(1, {told.sge(0, 4)});
        b.qp->post_recv(2, {});
        std::memcpy(mail.data(), &rkey, 4);
        b.qp->post({bind_wr(mw.get(), rkey, part(region, at, length)).unsignaled(),
                    SendWr::send({mail.sge(0, 4)}).id(3)});
        ASSERT_TRUE(is(a.recv_cq.one(), 1, IBV_WC_RECV));
        std::memcpy(&rkey, told.data(), 4);
        fill(local.bytes(0, length), i);
        a.qp->post({SendWr::write({local.sge(0, length)}, {region.address(at), rkey}).unsignaled(),
                    invalidate_wr(IBV_WR_SEND_WITH_INV, rkey).id(4)});
        ASSERT_TRUE(is(b.recv_cq.one(), 2, IBV_WC_RECV));
        ASSERT_TRUE(is(b.send_cq.one(), 3, IBV_WC_SEND));
        ASSERT_TRUE(is(a.send_cq.one(), 4, IBV_WC_SEND));
        ASSERT_TRUE(filled(region.bytes(at, length), i));
        ASSERT_TRUE(filled(region.bytes(0, at), kSeed));
        ASSERT_TRUE(filled(region.bytes(at + length, 100), kSeed, at + length));
    }
}

TEST_F(MwCore, ExtendedPosting)
{
    constexpr std::uint64_t kOps = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_SEND_WITH_INV;
    a2 = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    b2 = std::make_unique<Qp>(need(
        try_create_ex(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {}, kOps), "ibv_create_qp_ex"));
    vt::connect(a.context, *a2, b.context, *b2, params);
    ibv_qp_ex *qpx = ibv_qp_to_qp_ex(b2->get());
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    std::uint32_t rkey = variant(mw->rkey, 1);
    ibv_mw_bind_info info = part(region, 0, 4096);

    ibv_wr_start(qpx);
    qpx->wr_id = 50;
    qpx->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_bind_mw(qpx, mw.get(), rkey, &info);
    ASSERT_EQ(ibv_wr_complete(qpx), 0);
    EXPECT_TRUE(bound(b.send_cq.one()));
    EXPECT_TRUE(is(write({region.address(), rkey}, 8, a2.get()), 1, IBV_WC_RDMA_WRITE));
    fill(region.bytes(), kSeed);

    // The peer's key is named only for its refusal: a's memory cannot be invalidated.
    ibv_wr_start(qpx);
    qpx->wr_id = 51;
    ibv_wr_local_inv(qpx, rkey);
    qpx->wr_id = 52;
    ibv_wr_send_inv(qpx, local.rkey());
    ASSERT_EQ(ibv_wr_complete(qpx), 0);
    a2->post_recv(4, {});
    EXPECT_TRUE(is(b.send_cq.one(), 51, IBV_WC_LOCAL_INV));
    EXPECT_TRUE(is_error(b.send_cq.one(), 52, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(region.mr().destroy(), 0);

    info.length = 0;
    ibv_wr_start(qpx);
    ibv_wr_bind_mw(qpx, mw.get(), rkey, &info);
    EXPECT_EQ(ibv_wr_complete(qpx), EINVAL);
}

TEST_F(MwTest, UcBindsToo)
{
    a.qp.reset();
    b.qp.reset();
    start({.type = IBV_QPT_UC}, params);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 4096))));
    fill(local.bytes(), 13);
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 4096), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(eventually([&] { return bool(filled(region.bytes(0, 4096), 13)); }));
    EXPECT_TRUE(invalidates(mw->rkey));
    fill(region.bytes(), kSeed);
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 4096), 1, IBV_WC_RDMA_WRITE));
    std::this_thread::sleep_for(kQuiet);
    EXPECT_TRUE(filled(region.bytes(), kSeed)) << "UC drops what it refuses";
}

TEST_F(MwTest, FenceOrdersABindBehindReads)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    Buffer from = a.buffer(1 << 16), to = b.buffer(1 << 16);
    fill(from.bytes(), 14);
    b.qp->post({SendWr::read({to.sge(0, 1 << 16)}, remote(from)).id(2),
                bind_wr(mw.get(), mw->rkey, part(region, 0, 64)).id(50).fence()});
    EXPECT_TRUE(is(b.send_cq.one(), 2, IBV_WC_RDMA_READ));
    EXPECT_TRUE(bound(b.send_cq.one()));
    EXPECT_TRUE(filled(to.bytes(), 14));
}

} // namespace
