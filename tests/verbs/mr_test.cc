// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory regions: what may be registered, and that every access is checked.
#include <array>
#include <cstring>
#include <fstream>

#include <sys/mman.h>

#include "lib/pair.h"

using namespace vt;

namespace {

/// a asks for things of b's memory.
class MrCore : public PairTest {
protected:
    void SetUp() override
    {
        Params params;
        params.timeout = 12;
        start({}, params);
    }

    ibv_wc do_write(const Buffer &source, std::size_t length, Remote to)
    {
        a.qp->post(SendWr::write({source.sge(0, length)}, to).id(1));
        return a.send_cq.one();
    }
    ibv_wc do_read(const Buffer &target, std::size_t length, Remote from)
    {
        a.qp->post(SendWr::read({target.sge(0, length)}, from).id(1));
        return a.send_cq.one();
    }
    ibv_wc do_add(const Buffer &result, Remote at)
    {
        a.qp->post(SendWr::fetch_add(result.sge(0, 8), at, 1).id(1));
        return a.send_cq.one();
    }

    Buffer local = a.buffer(1 << 16);
};

TEST_F(MrCore, KeysDifferFromRegionToRegion)
{
    Buffer one = b.buffer(4096);
    Buffer two = b.buffer(4096);
    EXPECT_NE(one.rkey(), two.rkey());
    EXPECT_NE(one.lkey(), two.lkey());
}

TEST_F(MrCore, RemembersWhatItWasGiven)
{
    Memory memory(10000);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 123, 5001);
    EXPECT_EQ(mr->addr, memory.data() + 123);
    EXPECT_EQ(mr->length, 5001u);
    EXPECT_EQ(mr->pd, b.pd.get());
    EXPECT_EQ(mr->context, b.context.get());
}

TEST_F(MrCore, OddOffsetsAndLengthsAreExact)
{
    Memory memory(20000);
    fill(local.bytes(), 5);
    for (std::size_t offset : {1u, 4095u, 4097u, 8191u}) {
        std::memset(memory.data(), 0, memory.size());
        MrHandle mr = reg_mr(b.pd.get(), memory.data() + offset, 4099);
        auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + offset;
        EXPECT_TRUE(is(do_write(local, 4099, {address, mr->rkey}), 1, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(filled(memory.bytes().subspan(offset, 4099), 5));
        EXPECT_TRUE(all(memory.bytes().first(offset), 0));
        EXPECT_TRUE(all(memory.bytes().subspan(offset + 4099), 0));
    }
}

TEST_F(MrCore, OneByteBeyondTheEndIsRefused)
{
    Memory memory(3 * 4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 100, 5000);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + 100;
    fill(local.bytes(), 5);
    EXPECT_TRUE(is_error(do_write(local, 5000, {address + 1, mr->rkey}), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(memory.bytes().subspan(5100), 0));
}

TEST_F(MrCore, OneByteBeforeTheBeginningIsRefused)
{
    Memory memory(3 * 4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 100, 5000);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + 100;
    EXPECT_TRUE(is_error(do_write(local, 10, {address - 1, mr->rkey}), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(memory.bytes(), 0));
}

TEST_F(MrCore, AddressesThatWrapAroundAreRefused)
{
    Buffer target = b.buffer(4096);
    EXPECT_TRUE(
        is_error(do_write(local, 4096, {~0ull - 100, target.rkey()}), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, WriteNeedsRemoteWrite)
{
    Buffer target = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_ATOMIC);
    fill(local.bytes(), 1);
    EXPECT_TRUE(is_error(do_write(local, 8, remote(target)), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(target.bytes(), 0));
}

TEST_F(MrCore, ReadNeedsRemoteRead)
{
    Buffer target = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_ATOMIC);
    fill(target.bytes(), 1);
    EXPECT_TRUE(is_error(do_read(local, 8, remote(target)), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(local.bytes(), 0));
}

TEST_F(MrCore, AtomicNeedsRemoteAtomic)
{
    Buffer target = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                       IBV_ACCESS_REMOTE_READ);
    EXPECT_TRUE(is_error(do_add(local, remote(target)), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(target.word(0), 0u);
}

TEST_F(MrCore, ReadOnlyMemoryCanBeSentFromAndReadRemotely)
{
    Memory memory(8192);
    fill(memory.bytes(), 8);
    ASSERT_EQ(mprotect(memory.data(), memory.size(), PROT_READ), 0);
    Buffer target(b.pd.get(), std::move(memory), IBV_ACCESS_REMOTE_READ);
    EXPECT_TRUE(is(do_read(local, 8192, remote(target)), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(0, 8192), 8));
}

TEST_F(MrCore, ReadIntoARegionWithoutLocalWriteIsALocalProtectionError)
{
    Buffer target = b.buffer(4096);
    Buffer closed = a.buffer(4096, 0);
    fill(target.bytes(), 3);
    EXPECT_TRUE(is_error(do_read(closed, 8, remote(target)), 1, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(all(closed.bytes(), 0));
}

TEST_F(MrCore, AtomicResultInARegionWithoutLocalWriteIsALocalProtectionError)
{
    Buffer target = b.buffer(4096);
    Buffer closed = a.buffer(4096, 0);
    EXPECT_TRUE(is_error(do_add(closed, remote(target)), 1, IBV_WC_LOC_PROT_ERR));
}

TEST_F(MrCore, RemoteWriteWithoutLocalWriteIsInvalid)
{
    Memory memory(4096);
    for (int access : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(b.pd.get(), memory.data(), 4096, access), nullptr);
        EXPECT_EQ(errno, EINVAL);
    }
}

TEST_F(MrCore, RkeyOfAnotherPdIsRefused)
{
    Pd other = alloc_pd(b.context.get());
    Buffer target(other.get(), 4096);
    EXPECT_TRUE(is_error(do_write(local, 8, remote(target)), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(target.bytes(), 0));
}

TEST_F(MrCore, LkeyOfAnotherPdIsRefused)
{
    Pd other = alloc_pd(a.context.get());
    Buffer source(other.get(), 4096);
    Buffer target = b.buffer(4096);
    fill(source.bytes(), 1);
    EXPECT_TRUE(is_error(do_write(source, 8, remote(target)), 1, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(all(target.bytes(), 0));
}

TEST_F(MrCore, RkeyAfterDeregistrationIsRefused)
{
    Buffer target = b.buffer(4096);
    Remote to = remote(target);
    EXPECT_TRUE(is(do_write(local, 8, to), 1, IBV_WC_RDMA_WRITE));
    ASSERT_EQ(target.mr().destroy(), 0);
    EXPECT_TRUE(is_error(do_write(local, 8, to), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, LkeyAfterDeregistrationIsRefused)
{
    Buffer source = a.buffer(4096);
    Buffer target = b.buffer(4096);
    ibv_sge sge = source.sge(0, 8);
    ASSERT_EQ(source.mr().destroy(), 0);
    a.qp->post(SendWr::write({sge}, remote(target)).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
}

/// The regions that an idle QP has used last do not wait for its next message.
TEST_F(MrCore, AnIdleQpGivesItsRegionsBack)
{
    for (int used = 1; used < 6; used++) {
        Buffer source = a.buffer(4096);
        Buffer target = b.buffer(4096);
        Remote to = remote(target);
        for (int i = 0; i < used; i++)
            ASSERT_TRUE(is(do_write(source, 8, to), 1, IBV_WC_RDMA_WRITE));
        ASSERT_EQ(source.mr().destroy(), 0);
        ASSERT_EQ(target.mr().destroy(), 0);
    }
    Buffer target = b.buffer(4096);
    Remote to = remote(target);
    for (int i = 0; i < 4; i++)
        ASSERT_TRUE(is(do_write(local, 8, to), 1, IBV_WC_RDMA_WRITE));
    ASSERT_EQ(target.mr().destroy(), 0);
    EXPECT_TRUE(is_error(do_write(local, 8, to), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, KeysAreNotReusedAtOnce)
{
    Memory memory(4096);
    MrHandle first = reg_mr(b.pd.get(), memory.data(), 4096);
    std::uint32_t old = first->rkey;
    first.reset();
    MrHandle second = reg_mr(b.pd.get(), memory.data(), 4096);
    EXPECT_NE(second->rkey, old);
}

TEST_F(MrCore, IovaReplacesTheAddress)
{
    Memory memory(3 * 4096);
    std::uint64_t iova = 0x7700000000000000 + 0x123;
    MrHandle mr(need(ibv_reg_mr_iova(b.pd.get(), memory.data() + 0x123, 6000, iova, kAllAccess),
                     "ibv_reg_mr_iova"));
    fill(local.bytes(), 6);
    EXPECT_TRUE(is(do_write(local, 6000, {iova, mr->rkey}), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(0x123, 6000), 6));
    EXPECT_TRUE(
        is_error(do_write(local, 8, {reinterpret_cast<std::uintptr_t>(memory.data()), mr->rkey}), 1,
                 IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, ZeroBasedRegionsBeginAtZero)
{
    Memory memory(3 * 4096);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 77, 6000, kAllAccess | IBV_ACCESS_ZERO_BASED);
    fill(local.bytes(), 7);
    EXPECT_TRUE(is(do_write(local, 5990, {10, mr->rkey}), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(87, 5990), 7));
    EXPECT_TRUE(all(memory.bytes().first(87), 0));
    EXPECT_TRUE(is_error(do_write(local, 8, {5993, mr->rkey}), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, ZeroBasedRegionsServeLocally)
{
    Memory memory(8192);
    MrHandle mr = reg_mr(a.pd.get(), memory.data() + 99, 4000, kAllAccess | IBV_ACCESS_ZERO_BASED);
    fill(memory.bytes().subspan(99, 4000), 9);
    Buffer target = b.buffer(4096);
    a.qp->post(SendWr::write({{0, 4000, mr->lkey}}, remote(target)).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(target.bytes(0, 4000), 9));
}

TEST_F(MrCore, RegionsMayOverlap)
{
    Memory memory(8192);
    MrHandle one = reg_mr(b.pd.get(), memory.data(), 8192);
    MrHandle two = reg_mr(b.pd.get(), memory.data() + 4000, 1000, IBV_ACCESS_REMOTE_READ);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data()) + 4000;
    fill(local.bytes(), 10);
    EXPECT_TRUE(is(do_write(local, 1000, {address, one->rkey}), 1, IBV_WC_RDMA_WRITE));
    Buffer back = a.buffer(4096);
    EXPECT_TRUE(is(do_read(back, 1000, {address, two->rkey}), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(back.bytes(0, 1000), 10));
}

TEST_F(MrCore, UnmappedMemoryIsRefused)
{
    void *gone = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(gone, MAP_FAILED);
    ASSERT_EQ(munmap(gone, 8192), 0);
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), gone, 8192, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(MrCore, ReadOnlyMemoryIsNotRegisteredForWriting)
{
    Memory memory(4096);
    ASSERT_EQ(mprotect(memory.data(), 4096, PROT_READ), 0);
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), memory.data(), 4096, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EFAULT);
}

TEST_F(MrCore, LengthsThatWrapAroundAreRefused)
{
    Memory memory(4096);
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), memory.data(), ~std::size_t(0) - 100, IBV_ACCESS_LOCAL_WRITE),
              nullptr);
}

TEST_F(MrCore, RelaxedOrderingIsAccepted)
{
    Buffer target = b.buffer(4096, kAllAccess | IBV_ACCESS_RELAXED_ORDERING);
    EXPECT_TRUE(is(do_write(local, 8, remote(target)), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MrCore, ManyRegionsAtOnce)
{
    Memory memory(4096);
    std::vector<MrHandle> mrs;
    for (int i = 0; i < 500; i++)
        mrs.push_back(reg_mr(b.pd.get(), memory.data(), 4096));
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    for (std::size_t i : {0u, 250u, 499u})
        EXPECT_TRUE(is(do_write(local, 8, {address, mrs[i]->rkey}), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MrCore, HugePagesServeAcrossTheirBorders)
{
    constexpr std::size_t kHuge = 2 << 20;
    std::ofstream("/proc/sys/vm/nr_hugepages") << 8;
    Buffer target(b.pd.get(), Memory(3 * kHuge, MAP_HUGETLB | MAP_POPULATE));
    Buffer source = a.buffer(200000);
    fill(source.bytes(), 11);
    for (std::size_t at : {std::size_t(0), kHuge - 100001, 2 * kHuge - 3, 3 * kHuge - 200000})
        EXPECT_TRUE(is(do_write(source, 200000, remote(target, at)), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(target.bytes(kHuge - 100001, 200000), 11));
    EXPECT_TRUE(filled(target.bytes(2 * kHuge - 3, 200000), 11));
    EXPECT_TRUE(filled(target.bytes(3 * kHuge - 200000, 200000), 11));
    EXPECT_TRUE(all(target.bytes(200000, kHuge - 100001 - 200000), 0));
}

TEST_F(MrCore, HugePageRegionsMayBeginAndEndWithinAPage)
{
    constexpr std::size_t kHuge = 2 << 20;
    std::ofstream("/proc/sys/vm/nr_hugepages") << 8;
    Memory memory(2 * kHuge, MAP_HUGETLB | MAP_POPULATE);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 12345, kHuge + 777);
    auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    fill(local.bytes(), 12);
    std::size_t last = 12345 + kHuge + 777 - 65536;
    EXPECT_TRUE(is(do_write(local, 65536, {address + last, mr->rkey}), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(last, 65536), 12));
    EXPECT_TRUE(
        is_error(do_write(local, 65536, {address + last + 1, mr->rkey}), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(MrCore, SharedMemoryIsSeenThroughBothMappings)
{
    const std::size_t piece = 2 * page_size();
    Memory twice = Memory::repeating(2 * piece, piece);
    Buffer target(b.pd.get(), std::move(twice));
    fill(local.bytes(), 13);
    EXPECT_TRUE(is(do_write(local, 8192, remote(target, piece)), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(target.bytes(0, 8192), 13));
}

TEST_F(MrCore, RegionStaysPinnedWhenItsMappingGoes)
{
    auto memory = std::make_unique<Memory>(8192);
    MrHandle mr = reg_mr(b.pd.get(), memory->data(), 8192);
    auto address = reinterpret_cast<std::uintptr_t>(memory->data());
    memory.reset();
    fill(local.bytes(), 14);
    EXPECT_TRUE(is(do_write(local, 8192, {address, mr->rkey}), 1, IBV_WC_RDMA_WRITE));
    Buffer back = a.buffer(8192);
    EXPECT_TRUE(is(do_read(back, 8192, {address, mr->rkey}), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(back.bytes(), 14));
}

TEST_F(MrCore, ZeroLengthAccessNeedsNoValidKey)
{
    // C9-88: the R_Key of a zero-length RDMA request is not checked.
    a.qp->post(SendWr::write({}, {0, 0}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    a.qp->post(SendWr::read({}, {0, 0}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
}

} // namespace
