// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// XRC: initiators on a, targets on b, and SRQs that the targets of a domain share.
#include <array>
#include <cstdlib>

#include <sys/mman.h>
#include <unistd.h>

#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/xrc.h"

using namespace vt;

namespace {

class XrcCore : public testing::Test {
protected:
    void connect(const Params &params = {})
    {
        vt::connect(a.context, initiator, b.context, target, params);
    }

    /// Posts a receive, sends to it and checks all that comes.
    void expect_works(const XrcSrq &to, const Cq &cq, std::uint64_t seed)
    {
        fill(near.bytes(0, 3000), seed);
        to.post(seed, {far.sge(0, 4096)});
        initiator.post(to_srq(SendWr::send({near.sge(0, 3000)}).id(seed + 1), to.number()));
        EXPECT_TRUE(is(a.send_cq.one(), seed + 1, IBV_WC_SEND));
        ibv_wc wc = cq.one();
        EXPECT_TRUE(is(wc, seed, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, 3000u);
        EXPECT_EQ(wc.qp_num, target.number());
        EXPECT_TRUE(filled(far.bytes(0, 3000), seed));
    }

    /// The request fails with @p status, and the target has said why.
    void expect_refused(SendWr wr, ibv_wc_status status, ibv_event_type event)
    {
        initiator.post(wr.id(66));
        EXPECT_TRUE(is_error(a.send_cq.one(), 66, status));
        b.context.wait_event(event, target.get());
        EXPECT_TRUE(target.reaches(IBV_QPS_ERR));
        EXPECT_TRUE(initiator.reaches(IBV_QPS_ERR));
    }

    End a{device_a()};
    End b{device_b()};
    Xrcd xrcd = open_xrcd(b.context.get());
    XrcSrq srq{b.pd.get(), xrcd.get(), b.recv_cq.get()};
    Qp initiator{xrc_initiator(a.pd.get(), a.send_cq.get(), {.inline_data = 300})};
    Qp target{xrc_target(b.context.get(), xrcd.get())};
    Buffer near = a.buffer(1 << 20);
    Buffer far = b.buffer(1 << 20);
};

TEST_F(XrcCore, DeviceHasIt)
{
    EXPECT_TRUE(b.context.attr().device_cap_flags & IBV_DEVICE_XRC);
    EXPECT_NE(srq.number(), 0u);
    EXPECT_LT(srq.number(), 1u << 24);
}

TEST_F(XrcCore, SendsOfManySizes)
{
    connect();
    for (std::size_t length : {0, 1, 3, 1023, 1024, 1025, 2048, 2049, 65536, 500001}) {
        fill(near.bytes(0, length), length);
        std::ranges::fill(far.bytes(), 0);
        srq.post(length, {far.sge(0, 100), far.sge(1000, 700000)});
        SendWr wr = SendWr::send({near.sge(0, length)}).id(length + 1);
        if (length % 2)
            wr.imm(static_cast<std::uint32_t>(length));
        initiator.post(to_srq(wr, srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), length + 1, IBV_WC_SEND)) << length;
        ibv_wc wc = b.recv_cq.one();
        ASSERT_TRUE(is(wc, length, IBV_WC_RECV)) << length;
        EXPECT_EQ(wc.byte_len, length);
        EXPECT_EQ(wc.qp_num, target.number());
        EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, length % 2 == 1);
        EXPECT_TRUE(length % 2 == 0 || ntohl(wc.imm_data) == length);
        const std::size_t first = std::min<std::size_t>(length, 100);
        EXPECT_TRUE(filled(far.bytes(0, first), length));
        EXPECT_TRUE(same(far.bytes(1000, length - first), near.bytes(first, length - first)));
        EXPECT_TRUE(all(far.bytes(1000 + length - first, 1000), 0)) << "nothing behind it";
    }
}

TEST_F(XrcCore, InlineData)
{
    connect();
    std::array<std::uint8_t, 300> data{};
    fill(data, 6);
    const ibv_sge unregistered{reinterpret_cast<std::uintptr_t>(data.data()), 300, 0};
    srq.post(1, {far.sge(0, 400)});
    initiator.post(to_srq(SendWr::send({unregistered}).inlined().id(2), srq.number()));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 300), 6));
    EXPECT_TRUE(all(far.bytes(300, 100), 0));
}

TEST_F(XrcCore, WritesAndReads)
{
    connect();
    for (std::size_t length : {1, 1024, 1025, 70000, 500001}) {
        fill(near.bytes(0, length), length);
        std::ranges::fill(far.bytes(), 0);
        initiator.post(
            to_srq(SendWr::write({near.sge(0, length)}, remote(far)).id(1), srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE)) << length;
        EXPECT_TRUE(filled(far.bytes(0, length), length));
        EXPECT_TRUE(all(far.bytes(length, 1000), 0));

        std::ranges::fill(near.bytes(), 0);
        initiator.post(
            to_srq(SendWr::read({near.sge(0, length)}, remote(far)).id(2), srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ)) << length;
        EXPECT_TRUE(filled(near.bytes(0, length), length));
        EXPECT_TRUE(all(near.bytes(length, 1000), 0));
    }
    EXPECT_TRUE(b.recv_cq.quiet());
}

TEST_F(XrcCore, WritesWithImmediateTakeAReceive)
{
    connect();
    for (std::size_t length : {0, 700, 5000}) {
        fill(near.bytes(0, length), 40 + length);
        srq.post(length);
        initiator.post(
            to_srq(SendWr::write({near.sge(0, length)}, remote(far)).imm(0x1234 + length).id(1),
                   srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        ibv_wc wc = b.recv_cq.one();
        ASSERT_TRUE(is(wc, length, IBV_WC_RECV_RDMA_WITH_IMM));
        EXPECT_EQ(ntohl(wc.imm_data), 0x1234 + length);
        EXPECT_EQ(wc.byte_len, length);
        EXPECT_EQ(wc.qp_num, target.number());
        EXPECT_TRUE(filled(far.bytes(0, length), 40 + length));
    }
}

TEST_F(XrcCore, Atomics)
{
    connect();
    far.word(64) = 1000;
    for (std::uint64_t i = 0; i < 20; i++) {
        initiator.post(
            to_srq(SendWr::fetch_add(near.sge(0, 8), remote(far, 64), 3).id(i), srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_FETCH_ADD));
        EXPECT_EQ(near.word(0), 1000 + 3 * i);
    }
    initiator.post(to_srq(SendWr::compare_swap(near.sge(8, 8), remote(far, 64), 1060, 5).id(50),
                          srq.number()));
    ASSERT_TRUE(is(a.send_cq.one(), 50, IBV_WC_COMP_SWAP));
    EXPECT_EQ(near.word(8), 1060u);
    EXPECT_EQ(far.word(64), 5u);
}

/// No retries: a page that is not there must not need one.
class XrcOdpCore : public XrcCore {
protected:
    const std::size_t kPage = page_size(), kSize = 150 * kPage;

    void SetUp() override
    {
        Params params;
        params.rnr_retry = 0;
        connect(params);
    }
    void post(SendWr wr) const { initiator.post(to_srq(std::move(wr), srq.number())); }
    static void take_away(const Buffer &buffer)
    {
        ASSERT_EQ(::madvise(buffer.data(), buffer.size(), MADV_DONTNEED), 0);
    }

    Buffer here = a.buffer(kSize, kOnDemand);
    Buffer there = b.buffer(kSize, kOnDemand);
};

TEST_F(XrcOdpCore, WritesReadsAndAtomicsFetchPages)
{
    for (std::uint64_t round = 0; round < 3; round++) {
        fill(here.bytes(), round);
        post(SendWr::write({here.sge(0, kSize)}, remote(there)).id(1));
        ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(filled(there.bytes(), round));
        take_away(here);
        post(SendWr::read({here.sge(0, kSize)}, remote(there)).id(2));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
        EXPECT_TRUE(filled(here.bytes(), round));
        take_away(there);
        take_away(here);
        post(SendWr::fetch_add(here.sge(7 * kPage, 8), remote(there, 9 * kPage), 5).id(3));
        ASSERT_TRUE(is(a.send_cq.one(), 3, IBV_WC_FETCH_ADD));
        EXPECT_EQ(here.word(7 * kPage), 0u);
        EXPECT_EQ(there.word(9 * kPage), 5u);
        take_away(there);
    }
}

TEST_F(XrcOdpCore, SendsAndImmediatesGoToReceivesOnDemand)
{
    fill(here.bytes(), 9);
    srq.post(1, {there.sge(10, 5000), there.sge(20 * kPage, 100 * kPage)});
    post(SendWr::send({here.sge(0, 80 * kPage)}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(same(there.bytes(10, 5000), here.bytes(0, 5000)));
    EXPECT_TRUE(
        same(there.bytes(20 * kPage, 80 * kPage - 5000), here.bytes(5000, 80 * kPage - 5000)));
    take_away(there);
    srq.post(3);
    post(SendWr::write({here.sge(0, kSize)}, remote(there)).imm(4).id(5));
    EXPECT_TRUE(is(a.send_cq.one(), 5, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 3, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_TRUE(filled(there.bytes(), 9));
}

TEST_F(XrcOdpCore, ReceiveOnMemoryThatIsNotThere)
{
    ASSERT_EQ(::mprotect(there.data(), kPage, PROT_NONE), 0);
    srq.post(1, {there.sge(0, kPage)});
    post(SendWr::send({here.sge(0, 100)}).id(2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_REM_OP_ERR));
    EXPECT_TRUE(is_error(b.recv_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(target.reaches(IBV_QPS_ERR));
}

TEST_F(XrcOdpCore, WriteToMemoryThatIsNotThere)
{
    ASSERT_EQ(::mprotect(there.data() + 30 * kPage, kPage, PROT_NONE), 0);
    expect_refused(to_srq(SendWr::write({here.sge(0, kSize)}, remote(there)), srq.number()),
                   IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
}

TEST_F(XrcCore, ExtendedPostsNameTheSrq)
{
    ibv_qp_init_attr_ex init{};
    init.qp_type = IBV_QPT_XRC_SEND;
    init.send_cq = a.send_cq.get();
    init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init.pd = a.pd.get();
    init.cap.max_send_wr = 8;
    init.cap.max_send_sge = 1;
    init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    Qp extended(need(ibv_create_qp_ex(a.context.get(), &init), "ibv_create_qp_ex"));
    vt::connect(a.context, extended, b.context, target);
    ibv_qp_ex *qp = ibv_qp_to_qp_ex(extended.get());
    ASSERT_NE(qp, nullptr);

    fill(near.bytes(0, 2000), 3);
    srq.post(11, {far.sge(0, 2000)});
    srq.post(12);
    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_xrc_srqn(qp, srq.number());
    ibv_wr_set_sge(qp, near.lkey(), near.address(), 2000);
    qp->wr_id = 2;
    ibv_wr_rdma_write_imm(qp, far.rkey(), far.address(4096), htonl(99));
    ibv_wr_set_xrc_srqn(qp, srq.number());
    ibv_wr_set_sge(qp, near.lkey(), near.address(), 1500);
    ASSERT_EQ(ibv_wr_complete(qp), 0);
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 11, IBV_WC_RECV));
    EXPECT_TRUE(is(b.recv_cq.one(), 12, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_TRUE(filled(far.bytes(0, 2000), 3));
    EXPECT_TRUE(filled(far.bytes(4096, 1500), 3));
}

TEST_F(XrcCore, ManySrqsBehindOneTarget)
{
    constexpr std::size_t count = 8, messages = 12, size = 5000;
    struct Receiver {
        Receiver(End &b, ibv_xrcd *xrcd)
            : pd(alloc_pd(b.context.get())), cq(b.context.get(), 64), srq(pd.get(), xrcd, cq.get()),
              buffer(pd.get(), messages * size)
        {}
        Pd pd;
        Cq cq;
        XrcSrq srq;
        Buffer buffer;
    };
    std::vector<std::unique_ptr<Receiver>> receivers;
    for (std::size_t i = 0; i < count; i++) {
        receivers.push_back(std::make_unique<Receiver>(b, xrcd.get()));
        for (std::size_t m = 0; m < messages; m++)
            receivers[i]->srq.post(100 * i + m, {receivers[i]->buffer.sge(m * size, size)});
    }
    connect();
    /* All of them under way at once, to one SRQ after the other. */
    std::vector<SendWr> wrs;
    for (std::size_t m = 0; m < messages; m++) {
        for (std::size_t i = 0; i < count; i++) {
            const std::size_t at = (m * count + i) * size;
            fill(near.bytes(at, size), 1000 * i + m);
            wrs.push_back(to_srq(SendWr::send({near.sge(at, size - i)}).id(m * count + i),
                                 receivers[i]->srq.number()));
            if (wrs.size() == 48) {
                initiator.post(std::move(wrs));
                wrs.clear();
                a.send_cq.wait(48);
            }
        }
    }
    for (std::size_t i = 0; i < count; i++) {
        for (std::size_t m = 0; m < messages; m++) {
            ibv_wc wc = receivers[i]->cq.one();
            ASSERT_TRUE(is(wc, 100 * i + m, IBV_WC_RECV)) << i << ", " << m;
            EXPECT_EQ(wc.byte_len, size - i);
            EXPECT_EQ(wc.qp_num, target.number());
            EXPECT_TRUE(filled(receivers[i]->buffer.bytes(m * size, size - i), 1000 * i + m));
        }
        EXPECT_TRUE(receivers[i]->cq.quiet(Millis(1)));
    }
}

TEST_F(XrcCore, ManyTargetsShareAnSrq)
{
    connect();
    Qp second(xrc_initiator(a.pd.get(), a.send_cq.get()));
    Qp other(xrc_target(b.context.get(), xrcd.get()));
    vt::connect(a.context, second, b.context, other);
    for (std::uint64_t i = 0; i < 20; i++) {
        srq.post(i, {far.sge(i * 2048, 2048)});
        fill(near.bytes(0, 2000), i);
        (i % 2 ? second : initiator)
            .post(to_srq(SendWr::send({near.sge(0, 2000)}).id(i), srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        ibv_wc wc = b.recv_cq.one();
        ASSERT_TRUE(is(wc, i, IBV_WC_RECV));
        EXPECT_EQ(wc.qp_num, (i % 2 ? other : target).number());
        EXPECT_TRUE(filled(far.bytes(i * 2048, 2000), i));
    }
}

TEST_F(XrcCore, MemoryIsThatOfTheSrqsProtectionDomain)
{
    Pd pd = alloc_pd(b.context.get());
    XrcSrq foreign(pd.get(), xrcd.get(), b.recv_cq.get());
    Buffer memory(pd.get(), 4096);
    connect();
    fill(near.bytes(0, 4096), 8);
    /* Each SRQ opens the memory of its own domain ... */
    initiator.post(
        to_srq(SendWr::write({near.sge(0, 4096)}, remote(memory)).id(1), foreign.number()));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    initiator.post(to_srq(SendWr::write({near.sge(0, 4096)}, remote(far)).id(2), srq.number()));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes(), 8));
    EXPECT_TRUE(filled(far.bytes(0, 4096), 8));
    /* ... and no other. */
    std::ranges::fill(memory.bytes(), 0);
    expect_refused(to_srq(SendWr::write({near.sge(0, 4096)}, remote(memory)), srq.number()),
                   IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_TRUE(all(memory.bytes(), 0));
}

class XrcSrqNumberCore : public XrcCore, public testing::WithParamInterface<int> {
protected:
    SendWr request(std::uint32_t number)
    {
        const Remote there = remote(far);
        switch (GetParam()) {
        case 0: return to_srq(SendWr::send({near.sge(0, 5000)}), number);
        case 1: return to_srq(SendWr::send({near.sge(0, 10)}).imm(1), number);
        case 2: return to_srq(SendWr::write({near.sge(0, 5000)}, there), number);
        case 3: return to_srq(SendWr::write({near.sge(0, 10)}, there).imm(1), number);
        case 4: return to_srq(SendWr::read({near.sge(0, 5000)}, there), number);
        case 5: return to_srq(SendWr::fetch_add(near.sge(0, 8), there, 1), number);
        default: return to_srq(SendWr::compare_swap(near.sge(0, 8), there, 0, 1), number);
        }
    }
    void expect_untouched()
    {
        EXPECT_TRUE(all(far.bytes(), 0));
        EXPECT_TRUE(b.recv_cq.quiet(Millis(5)));
        EXPECT_TRUE(b.send_cq.quiet(Millis(1)));
    }
};

TEST_P(XrcSrqNumberCore, OfNobodyIsRefused)
{
    srq.post(1, {far.sge(0, 10000)});
    connect();
    fill(near.bytes(), 1);
    expect_refused(request(srq.number() ^ 0x800000), IBV_WC_REM_ACCESS_ERR,
                   IBV_EVENT_QP_ACCESS_ERR);
    expect_untouched();
}

TEST_P(XrcSrqNumberCore, OfAnotherXrcDomainIsRefused)
{
    Xrcd others = open_xrcd(b.context.get());
    XrcSrq foreign(b.pd.get(), others.get(), b.send_cq.get());
    foreign.post(1, {far.sge(0, 10000)});
    connect();
    fill(near.bytes(), 1);
    expect_refused(request(foreign.number()), IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    expect_untouched();
}

TEST_P(XrcSrqNumberCore, OfAnSrqThatIsGoneIsRefused)
{
    connect();
    expect_works(srq, b.recv_cq, 30);
    std::ranges::fill(far.bytes(), 0);
    const std::uint32_t number = srq.number();
    srq.post(1, {far.sge(0, 10000)});
    ASSERT_EQ(srq.destroy(), 0);
    fill(near.bytes(), 1);
    expect_refused(request(number), IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
    expect_untouched();
}

INSTANTIATE_TEST_SUITE_P(Xrc, XrcSrqNumberCore, testing::Range(0, 7));

TEST_F(XrcCore, EmptySrqIsReceiverNotReady)
{
    connect();
    fill(near.bytes(0, 2000), 4);
    initiator.post(to_srq(SendWr::send({near.sge(0, 2000)}).id(1), srq.number()));
    EXPECT_TRUE(a.send_cq.quiet());
    srq.post(5, {far.sge(0, 2000)});
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 5, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 2000), 4));
}

TEST_F(XrcCore, RnrRetriesEnd)
{
    Params params;
    params.rnr_retry = 2;
    connect(params);
    initiator.post(to_srq(SendWr::send({}).id(1), srq.number()));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RNR_RETRY_EXC_ERR));
    EXPECT_TRUE(initiator.reaches(IBV_QPS_ERR));
}

TEST_F(XrcCore, MessageThatIsTooLong)
{
    connect();
    srq.post(1, {far.sge(0, 3000)});
    srq.post(2, {far.sge(0, 3000)});
    initiator.post(to_srq(SendWr::send({near.sge(0, 3001)}).id(3), srq.number()));
    EXPECT_TRUE(is_error(a.send_cq.one(), 3, IBV_WC_REM_INV_REQ_ERR));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is_error(wc, 1, IBV_WC_LOC_LEN_ERR));
    EXPECT_EQ(wc.qp_num, target.number());
    EXPECT_TRUE(target.reaches(IBV_QPS_ERR));
    EXPECT_TRUE(b.recv_cq.quiet()) << "what is posted to the SRQ stays there";
}

TEST_F(XrcCore, LimitAndResize)
{
    connect();
    for (std::uint64_t i = 0; i < 10; i++)
        srq.post(i, {far.sge(i * 100, 100)});
    ASSERT_EQ(srq.modify({.max_wr = 200, .max_sge = 0, .srq_limit = 0}, IBV_SRQ_MAX_WR), 0);
    ASSERT_EQ(srq.modify({.max_wr = 0, .max_sge = 0, .srq_limit = 9}, IBV_SRQ_LIMIT), 0);
    for (std::uint64_t i = 10; i < 150; i++)
        ASSERT_EQ(srq.try_post(i, {far.sge(i * 100, 100)}), 0);
    fill(near.bytes(0, 100), 1);
    for (std::uint64_t i = 0; i < 142; i++) {
        initiator.post(to_srq(SendWr::send({near.sge(0, 100)}).id(i), srq.number()));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
        ASSERT_TRUE(filled(far.bytes(i * 100, 100), 1));
    }
    b.context.wait_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
}

TEST_F(XrcCore, ErrorOfTheInitiatorFlushesItsWork)
{
    connect();
    initiator.post(to_srq(SendWr::send({}).id(1), srq.number())); // no receive: it waits
    initiator.post(to_srq(SendWr::send({}).id(2), srq.number()));
    ASSERT_EQ(initiator.move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(a.send_cq.wait(2), 1));
    /* Both may begin anew. */
    ASSERT_EQ(initiator.move(IBV_QPS_RESET), 0);
    ASSERT_EQ(target.move(IBV_QPS_RESET), 0);
    connect();
    expect_works(srq, b.recv_cq, 90);
}

TEST_F(XrcCore, ServicesDoNotMix)
{
    Params params;
    params.timeout = 10;
    params.retry_cnt = 1;
    Qp rc(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, initiator, b.context, rc, params);
    rc.post_recv(1, {far.sge(0, 100)});
    initiator.post(to_srq(SendWr::send({near.sge(0, 10)}).id(1), srq.number()));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));

    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    srq.post(2, {far.sge(0, 100)});
    vt::connect(a.context, sender, b.context, target, params);
    sender.post(SendWr::send({near.sge(0, 10)}).id(2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_RETRY_EXC_ERR));
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_TRUE(all(far.bytes(0, 100), 0));
}

/// Whatever is under way when its SRQ goes, nothing is touched afterwards.
TEST_F(XrcCore, SrqMayGoInMidMessage)
{
    for (int round = 0; round < 12; round++) {
        Qp from(xrc_initiator(a.pd.get(), a.send_cq.get()));
        Qp to(xrc_target(b.context.get(), xrcd.get()));
        auto memory = std::make_unique<Buffer>(b.pd.get(), 16 << 20);
        Buffer source = a.buffer(16 << 20);
        XrcSrq victim(b.pd.get(), xrcd.get(), b.recv_cq.get());
        victim.post(1, {memory->sge(0, memory->size())});
        vt::connect(a.context, from, b.context, to);
        if (round % 2)
            from.post(to_srq(SendWr::send({source.sge(0, source.size())}).id(2), victim.number()));
        else
            from.post(to_srq(SendWr::read({source.sge(0, source.size())}, remote(*memory)).id(2),
                             victim.number()));
        std::this_thread::sleep_for(Millis(round));
        ASSERT_EQ(victim.destroy(), 0);
        ibv_wc wc = a.send_cq.one();
        EXPECT_EQ(wc.wr_id, 2u);
        EXPECT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR)
            << ibv_wc_status_str(wc.status);
        std::array<ibv_wc, 2> left{};
        const int got = ibv_poll_cq(b.recv_cq.get(), 2, left.data());
        EXPECT_EQ(got, round % 2 && wc.status == IBV_WC_SUCCESS ? 1 : 0);
    }
}

TEST_F(XrcCore, DomainsAreOpenedAsTheFlagsSay)
{
    std::array<char, 32> name{"/tmp/rox-xrcd-XXXXXX"};
    const int fd = mkstemp(name.data());
    ASSERT_GE(fd, 0);
    unlink(name.data());

    errno = 0;
    EXPECT_EQ(try_open_xrcd(b.context.get(), fd, 0), nullptr) << "nobody has created it";
    EXPECT_EQ(errno, EAGAIN);
    Xrcd first = open_xrcd(b.context.get(), fd, O_CREAT);
    EXPECT_EQ(try_open_xrcd(b.context.get(), fd, O_CREAT | O_EXCL), nullptr);
    EXPECT_EQ(errno, EINVAL);
    Xrcd second = open_xrcd(b.context.get(), fd, 0);
    EXPECT_EQ(try_open_xrcd(b.context.get(), 9999, O_CREAT), nullptr);
    EXPECT_EQ(errno, EBADF);
    ibv_xrcd_init_attr init{};
    init.comp_mask = IBV_XRCD_INIT_ATTR_FD;
    EXPECT_EQ(ibv_open_xrcd(b.context.get(), &init), nullptr);
    EXPECT_EQ(errno, EINVAL);

    /* The two are one domain: an SRQ of the one is behind a target of the other. */
    XrcSrq shared(b.pd.get(), first.get(), b.recv_cq.get());
    Qp to(xrc_target(b.context.get(), second.get()));
    vt::connect(a.context, initiator, b.context, to);
    shared.post(1, {far.sge(0, 100)});
    initiator.post(to_srq(SendWr::send({near.sge(0, 100)}).id(2), shared.number()));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_EQ(first.destroy(), EBUSY) << "the SRQ is of it";
    EXPECT_EQ(second.destroy(), EBUSY) << "the target is of it";
    close(fd);
}

TEST_F(XrcCore, ObjectsInUseAreNotDestroyed)
{
    EXPECT_EQ(xrcd.destroy(), EBUSY);
    EXPECT_EQ(b.pd.destroy(), EBUSY) << "the SRQ is of it";
    EXPECT_EQ(b.recv_cq.destroy(), EBUSY) << "the SRQ completes to it";
    connect();
    expect_works(srq, b.recv_cq, 7);
}

TEST_F(XrcCore, WhatIsMissingIsInvalid)
{
    ibv_qp_init_attr_ex qp{};
    qp.qp_type = IBV_QPT_XRC_RECV;
    qp.comp_mask = IBV_QP_INIT_ATTR_PD;
    qp.pd = b.pd.get();
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(b.context.get(), &qp), nullptr) << "a target without a domain";
    EXPECT_EQ(errno, EINVAL);
    qp.qp_type = IBV_QPT_XRC_SEND;
    errno = 0;
    EXPECT_EQ(ibv_create_qp_ex(b.context.get(), &qp), nullptr) << "an initiator without a CQ";
    EXPECT_EQ(errno, EINVAL);

    ibv_srq_init_attr_ex init{};
    init.attr.max_wr = 1;
    init.attr.max_sge = 1;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = b.pd.get();
    init.xrcd = xrcd.get();
    init.cq = b.recv_cq.get();
    constexpr unsigned parts[] = {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD,
                                  IBV_SRQ_INIT_ATTR_CQ};
    for (unsigned missing : parts) {
        init.comp_mask = (IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                          IBV_SRQ_INIT_ATTR_CQ) &
                         ~missing;
        errno = 0;
        EXPECT_EQ(ibv_create_srq_ex(b.context.get(), &init), nullptr) << missing;
        EXPECT_EQ(errno, EINVAL) << missing;
    }

    Srq basic(b.pd.get());
    std::uint32_t number = 0;
    EXPECT_EQ(ibv_get_srq_num(basic.get(), &number), EINVAL) << "only XRC SRQs have one";
    EXPECT_EQ(try_open_target(b.context.get(), xrcd.get(), target.number() ^ 0x100), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(XrcCore, TargetsPostNothing)
{
    connect();
    EXPECT_EQ(target.try_post(SendWr::send({near.sge(0, 1)})), EINVAL);
    EXPECT_EQ(target.try_post_recv(1, {}), EINVAL);
    EXPECT_EQ(initiator.try_post_recv(1, {}), EINVAL);
    ibv_qp_attr attr = target.query();
    EXPECT_EQ(attr.cap.max_send_wr, 0u);
    EXPECT_EQ(attr.cap.max_recv_wr, 0u);
    EXPECT_EQ(attr.dest_qp_num, initiator.number());
    expect_works(srq, b.recv_cq, 7);
}

TEST_F(XrcCore, TargetLivesAsLongAsAHandleOnIt)
{
    Context other(device_b());
    std::array<char, 32> name{"/tmp/rox-xrcd-XXXXXX"};
    const int fd = mkstemp(name.data());
    ASSERT_GE(fd, 0);
    unlink(name.data());
    Xrcd here = open_xrcd(b.context.get(), fd);
    Xrcd there = open_xrcd(other.get(), fd);
    XrcSrq shared(b.pd.get(), here.get(), b.recv_cq.get());
    Qp first(xrc_target(b.context.get(), here.get()));
    const std::uint32_t number = first.number();
    Qp second(need(try_open_target(other.get(), there.get(), number), "ibv_open_qp"));
    EXPECT_EQ(second.number(), number);
    /* Either handle moves it. */
    initiator.to_init();
    first.to_init();
    EXPECT_EQ(second.state(), IBV_QPS_INIT);
    initiator.to_rtr({}, address_of(a.context, b.context), number);
    second.to_rtr(Params{}.mirrored(), address_of(b.context, a.context), initiator.number());
    initiator.to_rts();
    EXPECT_EQ(first.state(), IBV_QPS_RTR);
    ASSERT_EQ(first.destroy(), 0);

    fill(near.bytes(0, 3000), 12);
    shared.post(1, {far.sge(0, 3000)});
    initiator.post(to_srq(SendWr::send({near.sge(0, 3000)}).id(2), shared.number()));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_EQ(wc.qp_num, number);
    EXPECT_TRUE(filled(far.bytes(0, 3000), 12));
    /* Events go to those who have it open. */
    initiator.post(to_srq(SendWr::send({}).id(3), shared.number() ^ 0x800000));
    EXPECT_TRUE(is_error(a.send_cq.one(), 3, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(second.reaches(IBV_QPS_ERR));
    ASSERT_EQ(second.destroy(), 0);
    EXPECT_EQ(try_open_target(b.context.get(), here.get(), number), nullptr) << "it is gone";
    close(fd);
}

} // namespace
