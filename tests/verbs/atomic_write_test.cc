// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// ATOMIC WRITE: eight bytes that are written whole, after all that was written before them
/// (IBTA annex A19). What a bad network does to it is in loss_test.cc.
#include <array>
#include <atomic>
#include <cstring>
#include <thread>

#include <sys/mman.h>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::uint64_t kDeviceAtomicWrite = 1ULL << 40; ///< no name in rdma-core 44

/// As another processor sees it: whole.
std::uint64_t look(const std::uint64_t &word)
{
    return std::atomic_ref(const_cast<std::uint64_t &>(word)).load(std::memory_order_acquire);
}

class AtomicWriteCore : public PairTest {
protected:
    SendWr wr(std::size_t from, Remote to) const
    {
        return SendWr::atomic_write(near.sge(from, 8), to);
    }
    ibv_qp *create_ex(std::uint64_t ops) const
    {
        return try_create_ex(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {}, ops);
    }
    void expect_refused(SendWr bad, ibv_wc_status status)
    {
        std::memset(far.data(), 0x5a, 4096);
        a.qp->post(bad.id(9));
        EXPECT_TRUE(is_error(a.send_cq.one(), 9, status));
        EXPECT_TRUE(all(far.bytes(0, 4096), 0x5a)) << "nothing was written";
        EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
    }

    Buffer near = a.buffer(1 << 20);
    Buffer far = b.buffer(1 << 20);
};

TEST_F(AtomicWriteCore, DeviceSaysThatItCan)
{
    ibv_device_attr_ex attr{};
    ASSERT_EQ(ibv_query_device_ex(a.context.get(), nullptr, &attr), 0);
    EXPECT_TRUE(attr.device_cap_flags_ex & kDeviceAtomicWrite);
}

TEST_F(AtomicWriteCore, WritesItsEightBytesAndNoOther)
{
    start();
    for (std::size_t at = 0; at < 4096; at += 8)
        near.word(at) = 0x0123456789abcdefU * (at + 1);
    for (std::size_t at : {0, 8, 16, 2040, 4080, 4088}) {
        std::memset(far.data(), 0xee, 8192);
        a.qp->post(wr(at, remote(far, at)).id(at));
        ibv_wc wc = a.send_cq.one();
        ASSERT_TRUE(is(wc, at, IBV_WC_ATOMIC_WRITE));
        EXPECT_EQ(wc.qp_num, a.qp->number());
        ASSERT_TRUE(same(far.bytes(at, 8), near.bytes(at, 8)));
        ASSERT_TRUE(all(far.bytes(0, at), 0xee));
        ASSERT_TRUE(all(far.bytes(at + 8, 4096), 0xee));
    }
    EXPECT_TRUE(b.recv_cq.quiet()) << "it takes no receive";
}

TEST_F(AtomicWriteCore, ValueMayBeInPiecesOrInline)
{
    start();
    fill(near.bytes(0, 64), 1);
    a.qp->post(SendWr::atomic_write(near.sge(1, 3), remote(far)).add(near.sge(20, 5)).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_ATOMIC_WRITE));
    EXPECT_TRUE(same(far.bytes(0, 3), near.bytes(1, 3)));
    EXPECT_TRUE(same(far.bytes(3, 5), near.bytes(20, 5)));

    std::uint64_t value = 0xfedcba9876543210U;
    ibv_sge unregistered{reinterpret_cast<std::uintptr_t>(&value), 8, 0};
    SendWr inlined = SendWr::atomic_write(unregistered, remote(far, 64));
    a.qp->post(inlined.inlined().id(2));
    value = 0;
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_ATOMIC_WRITE));
    EXPECT_EQ(far.word(64), 0xfedcba9876543210U);
}

TEST_F(AtomicWriteCore, ExtendedInterfaceTakesTheValueItself)
{
    make();
    a.qp = std::make_unique<Qp>(need(
        create_ex(IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_RDMA_WRITE), "ibv_create_qp_ex"));
    connect();
    ibv_qp_ex *ex = ibv_qp_to_qp_ex(a.qp->get());

    fill(near.bytes(0, 1000), 2);
    ibv_wr_start(ex);
    for (std::uint64_t i = 0; i < 3; i++) {
        std::uint64_t value = 100 + i;
        ex->wr_id = i;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_atomic_write(ex, far.rkey(), far.address(i * 8), &value);
    }
    ex->wr_id = 3;
    ibv_wr_rdma_write(ex, far.rkey(), far.address(100));
    ibv_wr_set_sge(ex, near.lkey(), near.address(), 1000);
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    for (std::uint64_t i = 0; i < 3; i++) {
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_ATOMIC_WRITE));
        EXPECT_EQ(far.word(i * 8), 100 + i);
    }
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(100, 1000), 2));
}

TEST_F(AtomicWriteCore, IsForReliableConnectionsOnly)
{
    for (ibv_qp_type type : {IBV_QPT_UC, IBV_QPT_UD}) {
        start({.type = type});
        EXPECT_EQ(a.qp->try_post(wr(0, remote(far))), EINVAL);
    }
}

TEST_F(AtomicWriteCore, OtherLengthsAreAnErrorOfTheRequester)
{
    for (std::size_t length : {0, 1, 4, 7, 9, 16, 4096}) {
        start();
        expect_refused(SendWr::atomic_write(near.sge(0, length), remote(far)), IBV_WC_LOC_LEN_ERR);
    }
}

TEST_F(AtomicWriteCore, AddressesThatAreNotAlignedAreInvalidRequests)
{
    for (std::size_t offset : {1, 2, 4, 7}) {
        start();
        expect_refused(wr(0, remote(far, offset)), IBV_WC_REM_INV_REQ_ERR);
        b.context.wait_event(IBV_EVENT_QP_REQ_ERR, b.qp->get());
        EXPECT_TRUE(b.qp->reaches(IBV_QPS_ERR));
    }
}

TEST_F(AtomicWriteCore, RightsAndBoundsAreThoseOfAWrite)
{
    Buffer readable = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                         IBV_ACCESS_REMOTE_ATOMIC);
    const std::array<Remote, 4> wrong{remote(readable), remote(far, far.size()),
                                      remote(far, far.size() + 4096),
                                      Remote{far.address(), far.rkey() ^ 0x1000}};
    for (const Remote &to : wrong) {
        start();
        expect_refused(wr(0, to), IBV_WC_REM_ACCESS_ERR);
        b.context.wait_event(IBV_EVENT_QP_ACCESS_ERR, b.qp->get());
    }
    Params params;
    params.access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    start({}, params);
    expect_refused(wr(0, remote(far)), IBV_WC_REM_INV_REQ_ERR);
    Buffer writable = b.buffer(4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    params.access = IBV_ACCESS_REMOTE_WRITE;
    start({}, params);
    near.word(0) = 5;
    a.qp->post(wr(0, remote(writable)).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_ATOMIC_WRITE)) << "the right to write is enough";
    EXPECT_EQ(writable.word(0), 5u);
}

TEST_F(AtomicWriteCore, LocalMemoryMustBeOnesOwn)
{
    start();
    expect_refused(SendWr::atomic_write({near.address(), 8, near.lkey() ^ 0x1000}, remote(far)),
                   IBV_WC_LOC_PROT_ERR);
    start();
    expect_refused(
        SendWr::atomic_write({near.address() + near.size() - 4, 8, near.lkey()}, remote(far)),
        IBV_WC_LOC_PROT_ERR);
}

TEST_F(AtomicWriteCore, NeedsResourcesAsReadsDo)
{
    Params params;
    params.rd_atomic = 0;
    start({}, params);
    expect_refused(wr(0, remote(far)), IBV_WC_LOC_QP_OP_ERR);
    params.rd_atomic = 1;
    params.dest_rd_atomic = 0;
    start({}, params);
    expect_refused(wr(0, remote(far)), IBV_WC_REM_INV_REQ_ERR);
}

TEST_F(AtomicWriteCore, ChainsAreDoneInOrderWhateverIsBetween)
{
    Params params;
    params.rd_atomic = params.dest_rd_atomic = 2;
    start({}, params);
    near.word(0) = 11;
    near.word(8) = 22;
    far.word(0) = 1;
    b.qp->post_recv(50, {far.sge(8192, 100)});
    a.qp->post({SendWr::read({near.sge(64, 8)}, remote(far)).id(1), wr(0, remote(far)).id(2),
                SendWr::read({near.sge(72, 8)}, remote(far)).id(3),
                SendWr::fetch_add(near.sge(80, 8), remote(far), 5).id(4),
                wr(8, remote(far)).unsignaled().id(5), SendWr::send({near.sge(0, 100)}).id(6),
                SendWr::fetch_add(near.sge(88, 8), remote(far), 7).fence().id(7)});
    const std::array<std::pair<std::uint64_t, ibv_wc_opcode>, 6> wanted{{{1, IBV_WC_RDMA_READ},
                                                                         {2, IBV_WC_ATOMIC_WRITE},
                                                                         {3, IBV_WC_RDMA_READ},
                                                                         {4, IBV_WC_FETCH_ADD},
                                                                         {6, IBV_WC_SEND},
                                                                         {7, IBV_WC_FETCH_ADD}}};
    for (auto [id, opcode] : wanted)
        ASSERT_TRUE(is(a.send_cq.one(), id, opcode));
    EXPECT_TRUE(is(b.recv_cq.one(), 50, IBV_WC_RECV));
    EXPECT_EQ(near.word(64), 1u);
    EXPECT_EQ(near.word(72), 11u);
    EXPECT_EQ(near.word(80), 11u);
    EXPECT_EQ(near.word(88), 22u);
    EXPECT_EQ(far.word(0), 29u);
}

TEST_F(AtomicWriteCore, ManyAreUnderWayWithinTheLimit)
{
    for (std::uint8_t limit : {1, 4, 128}) {
        Params params;
        params.rd_atomic = params.dest_rd_atomic = limit;
        start({.send_wr = 512}, params);
        std::vector<SendWr> chain;
        for (std::uint64_t i = 0; i < 500; i++) {
            near.word(i * 8) = i * limit + 77;
            chain.push_back(wr(i * 8, remote(far, i * 16)).id(i));
        }
        a.qp->post(chain);
        std::vector<ibv_wc> wcs = a.send_cq.wait(500);
        for (std::uint64_t i = 0; i < 500; i++) {
            ASSERT_TRUE(is(wcs[i], i, IBV_WC_ATOMIC_WRITE));
            ASSERT_EQ(far.word(i * 16), i * limit + 77);
        }
    }
}

/// The use of it: data by a WRITE, then a flag that another processor looks at.
TEST_F(AtomicWriteCore, WhatWasWrittenBeforeIsThereWhenItIs)
{
    constexpr std::size_t size = 300000;
    start();
    for (std::uint64_t round = 1; round <= 30; round++) {
        fill(near.bytes(4096, size), round);
        near.word(0) = round;
        std::thread reader([&] {
            ASSERT_TRUE(eventually([&] { return look(far.word(0)) == round; }));
            EXPECT_TRUE(filled(far.bytes(4096, size), round));
        });
        a.qp->post({SendWr::write({near.sge(4096, size)}, remote(far, 4096)).unsignaled(),
                    wr(0, remote(far)).id(round)});
        reader.join();
        ASSERT_TRUE(is(a.send_cq.one(), round, IBV_WC_ATOMIC_WRITE));
    }
}

/* ---- memory on demand ---- */

class AtomicWriteOdpCore : public PairTest {
protected:
    static constexpr std::size_t kPages = 64;
    const std::size_t kPage = page_size();

    /// No retries: a page fault must not need one.
    void begin()
    {
        Params params;
        params.rnr_retry = 0;
        start({}, params);
    }
    ibv_wc move(std::size_t from, std::size_t to)
    {
        a.qp->post(SendWr::atomic_write(near.sge(from, 8), remote(far, to)).id(1));
        return a.send_cq.one();
    }
    testing::AssertionResult moved(const ibv_wc &wc) { return is(wc, 1, IBV_WC_ATOMIC_WRITE); }

    Buffer near = a.buffer(kPages * kPage, kOnDemand);
    Buffer far = b.buffer(kPages * kPage, kOnDemand);
};

TEST_F(AtomicWriteOdpCore, PagesThatWereNeverTouched)
{
    begin();
    near.word(0) = 7;
    for (std::size_t page = 1; page < kPages; page += 9) {
        ASSERT_TRUE(moved(move(0, page * kPage + 16))) << page;
        EXPECT_EQ(far.word(page * kPage + 16), 7u);
        EXPECT_TRUE(all(far.bytes(page * kPage, 16), 0));
        EXPECT_TRUE(all(far.bytes(page * kPage + 24, 64), 0));
    }
    std::memset(far.data(), 0xff, kPage);
    ASSERT_TRUE(moved(move(5 * kPage, 8)));
    EXPECT_EQ(far.word(8), 0u) << "a source that was never touched";
    // The value from two pages, one of them given up.
    near.word(9 * kPage) = 0x1122334455667788;
    std::memset(near.data() + 9 * kPage - 4, 0x99, 4);
    ASSERT_EQ(::madvise(near.data() + 8 * kPage, kPage, MADV_DONTNEED), 0);
    a.qp->post(SendWr::atomic_write(near.sge(9 * kPage - 4, 8), remote(far, 16)).id(2));
    ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_ATOMIC_WRITE));
    EXPECT_EQ(far.word(16), 0x5566778800000000U);
}

TEST_F(AtomicWriteOdpCore, PagesThatAreTakenAwayInBetween)
{
    begin();
    for (std::uint64_t round = 1; round <= 40; round++) {
        near.word(0) = round;
        // The bytes before it and the word itself are on pages that are not there.
        fill(near.bytes(kPage, 20 * kPage), round);
        ASSERT_EQ(::madvise(far.data(), far.size(), MADV_DONTNEED), 0);
        a.qp->post({SendWr::write({near.sge(kPage, 20 * kPage)}, remote(far, kPage)).unsignaled(),
                    SendWr::atomic_write(near.sge(0, 8), remote(far, 40 * kPage)).id(1),
                    SendWr::read({near.sge(30 * kPage, 8)}, remote(far, 40 * kPage)).id(2)});
        ASSERT_TRUE(moved(a.send_cq.one()));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
        ASSERT_EQ(far.word(40 * kPage), round);
        ASSERT_EQ(near.word(30 * kPage), round);
        ASSERT_TRUE(filled(far.bytes(kPage, 20 * kPage), round));
    }
}

TEST_F(AtomicWriteOdpCore, PagesThatMayNotBeWrittenOrAreNotThere)
{
    begin();
    near.word(0) = 3;
    far.word(kPage) = 5;
    ASSERT_EQ(::mprotect(far.data() + kPage, kPage, PROT_READ), 0);
    EXPECT_TRUE(is_error(move(0, kPage), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(far.word(kPage), 5u);
    begin();
    ASSERT_EQ(::mprotect(near.data() + kPage, kPage, PROT_NONE), 0);
    EXPECT_TRUE(is_error(move(kPage, 0), 1, IBV_WC_LOC_PROT_ERR));
    EXPECT_EQ(far.word(0), 0u);
}

/* ---- several processors ---- */

TEST_F(AtomicWriteCore, NobodySeesHalfOfIt)
{
    start();
    std::atomic<bool> over = false;
    std::uint64_t torn = 0, changes = 0;
    near.word(0) = 0;
    near.word(8) = ~std::uint64_t(0);
    far.word(0) = 0;
    std::thread reader([&] {
        std::uint64_t last = 0;
        while (!over) {
            std::uint64_t now = look(far.word(0));
            torn += now != 0 && now != ~std::uint64_t(0);
            changes += now != last;
            last = now;
        }
    });
    for (std::uint64_t i = 0; i < 100; i++) {
        std::vector<SendWr> chain;
        for (std::uint64_t j = 0; j < 20; j++)
            chain.push_back(wr(j % 2 ? 0 : 8, remote(far)).id(j));
        a.qp->post(chain);
        a.send_cq.wait(20);
    }
    over = true;
    reader.join();
    EXPECT_EQ(torn, 0u);
    EXPECT_EQ(far.word(0), 0u);
    RecordProperty("changes", static_cast<int>(changes));
}

/// FLUSH came together with it into the specification, but rdma-core 44 has no name for it.
TEST_F(AtomicWriteCore, FlushIsNotSupportedAndSaysSo)
{
    constexpr int flush_opcode = 14, flush_access = 1 << 8;
    constexpr std::uint64_t flush_caps = 3ULL << 38, flush_ops = 1 << 13;
    ibv_device_attr_ex attr{};
    ASSERT_EQ(ibv_query_device_ex(a.context.get(), nullptr, &attr), 0);
    EXPECT_FALSE(attr.device_cap_flags_ex & flush_caps);

    start();
    SendWr flush = wr(0, remote(far));
    std::memcpy(&flush.fields().opcode, &flush_opcode, sizeof(flush_opcode));
    EXPECT_EQ(a.qp->try_post(flush), EINVAL);

    errno = 0;
    EXPECT_EQ(create_ex(flush_ops), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);

    errno = 0;
    EXPECT_EQ(ibv_reg_mr(a.pd.get(), near.data(), 4096, IBV_ACCESS_LOCAL_WRITE | flush_access),
              nullptr);
    // The core of 6.1 does not know the flag, that of 6.12 asks the device.
    EXPECT_TRUE(errno == EINVAL || errno == EOPNOTSUPP) << errno;
    expect_works();
}

} // namespace
