// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// ibv_rereg_mr: one region becomes another under the same keys.
#include <atomic>
#include <cstring>
#include <thread>

#include <sys/mman.h>

#include "lib/request.h"

using namespace vt;

namespace {

constexpr int kTranslation = IBV_REREG_MR_CHANGE_TRANSLATION;
constexpr int kPd = IBV_REREG_MR_CHANGE_PD;
constexpr int kAccess = IBV_REREG_MR_CHANGE_ACCESS;

std::uint64_t address_of(const Memory &memory, std::size_t offset = 0)
{
    return reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
}

/// a asks for things of b's memory, which b registers anew.
class ReregTest : public RequestTest {
protected:
    void SetUp() override
    {
        fill(local.bytes(), 1);
        RequestTest::SetUp();
    }
};

class ReregCore : public ReregTest {};

TEST_F(ReregCore, TranslationMovesAndKeysStay)
{
    Memory before(3 * 4096), after(5 * 4096);
    MrHandle mr = reg_mr(b.pd.get(), before.data() + 10, 5000);
    std::uint32_t lkey = mr->lkey, rkey = mr->rkey;
    EXPECT_TRUE(written(write({address_of(before, 10), rkey}, 5000)));
    std::memset(before.data(), 0, before.size());
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, after.data() + 77, 9001, 0), 0);
    EXPECT_EQ(mr->lkey, lkey);
    EXPECT_EQ(mr->rkey, rkey);
    EXPECT_EQ(mr->addr, after.data() + 77);
    EXPECT_EQ(mr->length, 9001u);
    EXPECT_TRUE(written(write({address_of(after, 77), rkey}, 9001)));
    EXPECT_TRUE(filled(after.bytes().subspan(77, 9001), 1));
    EXPECT_TRUE(all(after.bytes().first(77), 0));
    EXPECT_TRUE(all(after.bytes().subspan(77 + 9001), 0));
    EXPECT_TRUE(refused(write({address_of(after, 78), rkey}, 9001)));
    reconnect();
    EXPECT_TRUE(refused(write({address_of(before, 10), rkey}, 8)));
    EXPECT_TRUE(all(before.bytes(), 0));
}

TEST_F(ReregCore, LkeyLeadsToTheNewMemory)
{
    Memory before(4096), after(4096);
    MrHandle mr = reg_mr(a.pd.get(), before.data(), 4096);
    Buffer target = b.buffer(4096);
    fill(after.bytes(), 5);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, after.data(), 4096, 0), 0);
    a.qp->post(SendWr::write({{address_of(after), 4096, mr->lkey}}, remote(target)).id(1));
    EXPECT_TRUE(written(a.send_cq.one()));
    EXPECT_TRUE(filled(target.bytes(), 5));
    a.qp->post(SendWr::write({{address_of(before), 8, mr->lkey}}, remote(target)).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
}

TEST_F(ReregCore, AccessIsGivenAndTaken)
{
    Memory memory(8192);
    Remote all_of_it{address_of(memory), 0};
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 8192, IBV_ACCESS_REMOTE_READ);
    all_of_it.rkey = mr->rkey;
    EXPECT_TRUE(is(read(all_of_it, 8192), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(all(local.bytes(0, 8192), 0));
    EXPECT_TRUE(refused(write(all_of_it, 8)));
    reconnect();
    fill(local.bytes(), 1);
    // The pages were pinned for reading: they are pinned again.
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess), 0);
    EXPECT_EQ(all_of_it.rkey, mr->rkey);
    EXPECT_TRUE(written(write(all_of_it, 8192)));
    EXPECT_TRUE(filled(memory.bytes(), 1)) << "and are the program's";
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
              0);
    EXPECT_TRUE(written(write(all_of_it, 100)));
    EXPECT_TRUE(is_error(read(all_of_it, 8), 1, IBV_WC_REM_ACCESS_ERR));
    reconnect();
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, 0), 0);
    fill(local.bytes(), 2);
    EXPECT_TRUE(refused(write(all_of_it, 8)));
    EXPECT_TRUE(filled(memory.bytes(), 1));
}

TEST_F(ReregCore, PdMoves)
{
    Pd other = alloc_pd(b.context.get());
    Qp far_a(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Qp far_b(other.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, far_a, b.context, far_b, params);
    Memory memory(4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 4096);
    Remote to{address_of(memory), mr->rkey};
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kPd, other.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(mr->pd, other.get());
    EXPECT_EQ(mr->rkey, to.rkey);
    EXPECT_TRUE(written(write(to, 4096, &far_a)));
    EXPECT_TRUE(filled(memory.bytes(), 1));
    std::memset(memory.data(), 0, 4096);
    EXPECT_TRUE(refused(write(to, 8)));
    EXPECT_TRUE(all(memory.bytes(), 0));
}

TEST_F(ReregCore, PdIsHeldByTheRegionThatIsInIt)
{
    Pd first = alloc_pd(b.context.get());
    Pd second = alloc_pd(b.context.get());
    Memory memory(4096);
    MrHandle mr = reg_mr(first.get(), memory.data(), 4096);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kPd, second.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(first.destroy(), 0);
    EXPECT_EQ(ibv_dealloc_pd(second.get()), EBUSY);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kPd, b.pd.get(), nullptr, 0, 0), 0);
    EXPECT_EQ(second.destroy(), 0);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kPd, b.pd.get(), nullptr, 0, 0), 0) << "where it is already";
    EXPECT_TRUE(written(write({address_of(memory), mr->rkey}, 8)));
}

TEST_F(ReregCore, AllAtOnce)
{
    Pd other = alloc_pd(b.context.get());
    Memory before(4096), after(2 * 4096);
    for (int flags : {kTranslation | kPd | kAccess, kTranslation | kAccess, kTranslation | kPd,
                      kPd | kAccess}) {
        SCOPED_TRACE(flags);
        bool moves = flags & kTranslation, opens = flags & kAccess;
        MrHandle mr = reg_mr(flags & kPd ? other.get() : b.pd.get(), before.data(), 4096,
                             opens ? IBV_ACCESS_REMOTE_READ : kAllAccess);
        std::uint32_t rkey = mr->rkey;
        std::memset(after.data(), 0, after.size());
        std::memset(before.data(), 0, before.size());
        ASSERT_EQ(ibv_rereg_mr(mr.get(), flags, b.pd.get(), after.data() + 50, 5000,
                               opens ? kAllAccess : 0),
                  0);
        EXPECT_EQ(mr->rkey, rkey);
        const Memory &used = moves ? after : before;
        std::size_t at = moves ? 50 : 0, length = moves ? 5000 : 4096;
        EXPECT_TRUE(written(write({address_of(used, at), rkey}, length)));
        EXPECT_TRUE(filled(used.bytes().subspan(at, length), 1));
        EXPECT_TRUE(all(used.bytes().subspan(at + length), 0));
        EXPECT_TRUE(all((moves ? before : after).bytes(), 0));
    }
}

TEST_F(ReregCore, ZeroBasedStaysAndGoes)
{
    Memory before(8192), after(8192);
    MrHandle mr = reg_mr(b.pd.get(), before.data() + 5, 4096, kAllAccess | IBV_ACCESS_ZERO_BASED);
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, after.data() + 9, 5000, 0), 0);
    EXPECT_TRUE(written(write({1, mr->rkey}, 4999)));
    EXPECT_TRUE(filled(after.bytes().subspan(10, 4999), 1));
    EXPECT_TRUE(all(after.bytes().first(10), 0));
    ASSERT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess), 0);
    std::memset(after.data(), 0, after.size());
    EXPECT_TRUE(written(write({address_of(after, 9), mr->rkey}, 5000)));
    EXPECT_TRUE(filled(after.bytes().subspan(9, 5000), 1));
    EXPECT_TRUE(refused(write({1, mr->rkey}, 8)));
}

TEST_F(ReregCore, BadInputLeavesTheRegionAsItWas)
{
    Memory memory(4096), other(4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 4096);
    void *gone = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(gone, MAP_FAILED);
    ASSERT_EQ(munmap(gone, 8192), 0);
    // libibverbs' own checks
    EXPECT_EQ(ibv_rereg_mr(mr.get(), 1 << 5, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, nullptr, 1, 0), IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, other.data(), 0, 0),
              IBV_REREG_MR_ERR_INPUT);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kPd, b.pd.get(), nullptr, 0, kAllAccess),
              IBV_REREG_MR_ERR_INPUT);
    // the provider's and the kernel's
    EXPECT_EQ(ibv_rereg_mr(mr.get(), 0, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kPd, nullptr, nullptr, 0, 0), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, gone, 8192, 0), IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, other.data(), ~std::size_t(0) - 100, 0),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, 1 << 19), IBV_REREG_MR_ERR_CMD);
    EXPECT_TRUE(written(write({address_of(memory), mr->rkey}, 4096)));
    EXPECT_TRUE(filled(memory.bytes(), 1));
    EXPECT_EQ(mr.destroy(), 0);
}

TEST_F(ReregCore, WritingIsNotGivenToReadOnlyMemory)
{
    Memory memory(4096);
    fill(memory.bytes(), 6);
    ASSERT_EQ(mprotect(memory.data(), 4096, PROT_READ), 0);
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 4096, IBV_ACCESS_REMOTE_READ);
    EXPECT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, kAllAccess),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_TRUE(is(read({address_of(memory), mr->rkey}, 4096), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(0, 4096), 6));
    EXPECT_TRUE(refused(write({address_of(memory), mr->rkey}, 8)));
    EXPECT_TRUE(filled(memory.bytes(), 6));
}

TEST_F(ReregCore, NotWhileAWindowIsBound)
{
    Buffer region = b.buffer(4096, kAllAccess | IBV_ACCESS_MW_BIND);
    Handle<ibv_mw, ibv_dealloc_mw> mw(
        need(ibv_alloc_mw(b.pd.get(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
    ibv_mw_bind request{50,
                        IBV_SEND_SIGNALED,
                        {region.mr().get(), region.address(), 4096, IBV_ACCESS_REMOTE_WRITE}};
    ASSERT_EQ(ibv_bind_mw(b.qp->get(), mw.get(), &request), 0);
    ASSERT_TRUE(is(b.send_cq.one(), 50, IBV_WC_BIND_MW));
    EXPECT_EQ(ibv_rereg_mr(region.mr().get(), kAccess, nullptr, nullptr, 0, 0),
              IBV_REREG_MR_ERR_CMD);
    EXPECT_TRUE(written(write({region.address(), mw->rkey}, 8)));
    EXPECT_TRUE(written(write(remote(region), 8)));
    ASSERT_EQ(mw.destroy(), 0);
    ASSERT_EQ(ibv_rereg_mr(region.mr().get(), kAccess, nullptr, nullptr, 0, kAllAccess), 0);
    EXPECT_TRUE(written(write(remote(region), 8)));
}

TEST_F(ReregTest, WhatBothAllowIsNeverRefused)
{
    // A peer writes without a pause while region, rights and PD change under it and back.
    constexpr std::size_t kPiece = 60000;
    Memory memory(1 << 18);
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 1 << 16);
    std::atomic<int> rounds = 0;
    std::atomic<bool> stop = false;
    std::thread thread([&] {
        for (int i = 0; !stop; i++, rounds++) {
            int wanted = i & 1 ? kAllAccess : IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
            EXPECT_EQ(ibv_rereg_mr(mr.get(), kAccess, nullptr, nullptr, 0, wanted), 0);
            EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, memory.data(),
                                   i & 1 ? 1 << 16 : 1 << 18, 0),
                      0);
        }
    });
    for (std::uint64_t i = 0; i < 150 || rounds < 20; i++) {
        if (i > 20000)
            break;
        fill(local.bytes(0, kPiece), i);
        ibv_wc wc = write({address_of(memory), mr->rkey}, kPiece);
        EXPECT_TRUE(written(wc)) << i;
        EXPECT_TRUE(filled(memory.bytes().first(kPiece), i));
        if (HasFailure())
            break;
    }
    stop = true;
    thread.join();
    EXPECT_GE(rounds, 20);
}

TEST_F(ReregTest, NothingIsWrittenToTheOldMemoryAfterwards)
{
    constexpr std::size_t kBig = 1 << 20;
    Memory before(kBig), after(4096);
    for (int round = 0; round < 10 && !HasFailure(); round++) {
        MrHandle mr = reg_mr(b.pd.get(), before.data(), kBig);
        revoke_under_writes(
            *a.qp, before.bytes(), {address_of(before), mr->rkey},
            std::chrono::microseconds(200 * round), [&] {
                EXPECT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, after.data(), 4096, 0), 0);
            });
        reconnect();
    }
}

TEST_F(ReregTest, ManyTimes)
{
    Memory memory(64 * 4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data(), 4096);
    for (std::uint64_t i = 0; i < 200; i++) {
        std::size_t at = i * 1237 % (60 * 4096);
        fill(local.bytes(0, 4096), i);
        ASSERT_EQ(ibv_rereg_mr(mr.get(), kTranslation, nullptr, memory.data() + at, 4096, 0), 0);
        ASSERT_TRUE(written(write({address_of(memory, at), mr->rkey}, 4096)));
        ASSERT_TRUE(filled(memory.bytes().subspan(at, 4096), i));
    }
}

} // namespace
