// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Shared receive queues.
#include <array>
#include <atomic>
#include <set>

#include "lib/pair.h"

using namespace vt;

namespace {

class SrqCore : public PairTest {
protected:
    /// A sender on a and a receiver on b that takes from the SRQ.
    struct Link {
        Link(SrqCore &test, ibv_qp_type type = IBV_QPT_RC)
            : sender(test.a.pd.get(), test.a.send_cq.get(), test.a.recv_cq.get(), {.type = type}),
              receiver(test.b.pd.get(), test.b.send_cq.get(), test.b.recv_cq.get(),
                       {.type = type, .srq = test.srq.get()})
        {
            vt::connect(test.a.context, sender, test.b.context, receiver);
        }
        Qp sender;
        Qp receiver;
    };

    ibv_sge slot(std::size_t i) const { return target.sge(i * 256, 256); }

    void send(Qp &sender, std::uint64_t seed, std::size_t length = 200)
    {
        fill(source.bytes(0, length), seed);
        sender.post(SendWr::send({source.sge(0, length)}).id(seed));
        EXPECT_TRUE(is(a.send_cq.one(), seed, IBV_WC_SEND));
    }

    Srq srq{b.pd.get(), 64, 4};
    Buffer source = a.buffer(4096);
    Buffer target = b.buffer(256 * 256);
};

TEST_F(SrqCore, QueryReturnsAtLeastWhatWasAsked)
{
    ibv_srq_attr attr = srq.query();
    EXPECT_GE(attr.max_wr, 64u);
    EXPECT_GE(attr.max_sge, 4u);
    EXPECT_EQ(attr.srq_limit, 0u);
}

TEST_F(SrqCore, SizesOutOfRangeAreInvalid)
{
    ibv_device_attr attr = b.context.attr();
    for (auto [wr, sge] : {std::pair{attr.max_srq_wr + 1, 1}, {1, attr.max_srq_sge + 1}, {0, 1}}) {
        ibv_srq_init_attr init{};
        init.attr.max_wr = static_cast<std::uint32_t>(wr);
        init.attr.max_sge = static_cast<std::uint32_t>(sge);
        errno = 0;
        ibv_srq *made = ibv_create_srq(b.pd.get(), &init);
        EXPECT_EQ(made, nullptr) << wr << ", " << sge;
        EXPECT_EQ(errno, EINVAL);
        if (made)
            ibv_destroy_srq(made);
    }
}

TEST_F(SrqCore, LargestSizesCanBeHad)
{
    auto sge = static_cast<std::uint32_t>(b.context.attr().max_srq_sge);
    EXPECT_EQ(Srq(b.pd.get(), 16 << 10, 1).destroy(), 0);
    EXPECT_EQ(Srq(b.pd.get(), 16, sge).destroy(), 0);
}

TEST_F(SrqCore, TakesInOrderOfPosting)
{
    Link link(*this);
    for (std::size_t i = 0; i < 20; i++)
        srq.post(100 + i, {slot(i)});
    for (std::size_t i = 0; i < 20; i++) {
        send(link.sender, i);
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, 100 + i, IBV_WC_RECV));
        EXPECT_EQ(wc.qp_num, link.receiver.number());
        EXPECT_TRUE(filled(target.bytes(i * 256, 200), i));
        EXPECT_TRUE(all(target.bytes(i * 256 + 200, 56), 0));
    }
}

TEST_F(SrqCore, ChainsArePostedWhole)
{
    Link link(*this);
    std::array<ibv_recv_wr, 10> wrs{};
    std::array<ibv_sge, 10> sges{};
    for (std::size_t i = 0; i < wrs.size(); i++) {
        sges[i] = slot(i);
        wrs[i] = {i, i + 1 < wrs.size() ? &wrs[i + 1] : nullptr, &sges[i], 1};
    }
    ibv_recv_wr *bad = nullptr;
    ASSERT_EQ(ibv_post_srq_recv(srq.get(), wrs.data(), &bad), 0);
    for (std::size_t i = 0; i < wrs.size(); i++) {
        send(link.sender, i);
        EXPECT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
    }
}

TEST_F(SrqCore, ServesSeveralQps)
{
    constexpr std::size_t kLinks = 8;
    std::vector<std::unique_ptr<Link>> links;
    for (std::size_t i = 0; i < kLinks; i++)
        links.push_back(std::make_unique<Link>(*this));
    for (std::size_t i = 0; i < 40; i++)
        srq.post(i, {slot(i)});
    for (std::size_t i = 0; i < 40; i++) {
        Link &link = *links[i % kLinks];
        send(link.sender, i);
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, i, IBV_WC_RECV));
        EXPECT_EQ(wc.qp_num, link.receiver.number());
        EXPECT_TRUE(filled(target.bytes(i * 256, 200), i));
    }
}

/* Whatever domain the QP is of. */
TEST_F(SrqCore, ReceivesUseMemoryOfItsProtectionDomain)
{
    Pd pd = alloc_pd(b.context.get());
    Buffer memory(pd.get(), 4096);
    Srq foreign(pd.get(), 8, 1);
    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {});
    Qp receiver(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {.srq = foreign.get()});
    vt::connect(a.context, sender, b.context, receiver);
    foreign.post(1, {memory.sge(0, 256)});
    send(sender, 1);
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(memory.bytes(0, 200), 1));

    foreign.post(2, {slot(0)});
    sender.post(SendWr::send({source.sge(0, 200)}).id(2));
    EXPECT_EQ(a.send_cq.one().status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(b.recv_cq.one().status, IBV_WC_LOC_PROT_ERR);
    EXPECT_TRUE(all(target.bytes(), 0));
}

TEST_F(SrqCore, ReceivesOfUdUseMemoryOfItsProtectionDomain)
{
    Pd pd = alloc_pd(b.context.get());
    Buffer memory(pd.get(), 4096);
    Srq foreign(pd.get(), 8, 1);
    Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {.type = IBV_QPT_UD});
    Qp receiver(b.pd.get(), b.send_cq.get(), b.recv_cq.get(),
                {.type = IBV_QPT_UD, .srq = foreign.get()});
    Ah to_b = ah(a, b);
    vt::connect(a.context, sender, b.context, receiver);
    fill(source.bytes(0, 200), 3);
    foreign.post(1, {memory.sge(0, 256)});
    sender.post(
        SendWr::send({source.sge(0, 200)}).to(to_b.get(), receiver.number(), Params{}.qkey));
    EXPECT_EQ(a.send_cq.one().status, IBV_WC_SUCCESS);
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(memory.bytes(40, 200), 3));
}

TEST_F(SrqCore, ServesUd)
{
    Link link(*this, IBV_QPT_UD);
    Ah to_b = ah(a, b);
    for (std::size_t i = 0; i < 10; i++)
        srq.post(i, {slot(i)});
    fill(source.bytes(0, 200), 3);
    for (std::size_t i = 0; i < 10; i++) {
        link.sender.post(SendWr::send({source.sge(0, 200)})
                             .id(i)
                             .to(to_b.get(), link.receiver.number(), Params{}.qkey));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, i, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, 240u);
        EXPECT_TRUE(filled(target.bytes(i * 256 + 40, 200), 3));
    }
}

TEST_F(SrqCore, WriteWithImmediateTakesOne)
{
    Link link(*this);
    srq.post(1, {});
    link.sender.post(SendWr::write({source.sge(0, 10)}, remote(target)).imm(5).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV_RDMA_WITH_IMM));
}

TEST_F(SrqCore, MessageWaitsUntilOneIsPosted)
{
    Link link(*this);
    link.sender.post(SendWr::send({source.sge(0, 10)}).id(1));
    EXPECT_TRUE(a.send_cq.quiet());
    srq.post(2, {slot(0)});
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 2, IBV_WC_RECV));
}

TEST_F(SrqCore, FullQueueRefusesMore)
{
    ibv_srq_attr attr = srq.query();
    for (std::uint32_t i = 0; i < attr.max_wr; i++)
        ASSERT_EQ(srq.try_post(i, {slot(0)}), 0) << i;
    int result = 0;
    // The ring may have more room than it promised, but it has an end.
    for (std::uint32_t i = 0; !result && i <= attr.max_wr; i++)
        result = srq.try_post(i, {slot(0)});
    EXPECT_EQ(result, ENOMEM);
}

TEST_F(SrqCore, TooManySgesAreRefused)
{
    Sges sges(srq.query().max_sge + 1, slot(0));
    EXPECT_EQ(srq.try_post(1, sges), EINVAL);
}

TEST_F(SrqCore, RingServesManyTimesItsSize)
{
    Link link(*this);
    for (std::size_t i = 0; i < 300; i++) {
        srq.post(i, {slot(i % 8)});
        send(link.sender, i, 20);
        ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
    }
}

TEST_F(SrqCore, LimitEventComesOnceBelowTheLimit)
{
    Link link(*this);
    for (std::size_t i = 0; i < 8; i++)
        srq.post(i, {slot(i)});
    ibv_srq_attr attr{};
    attr.srq_limit = 5;
    ASSERT_EQ(srq.modify(attr, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(srq.query().srq_limit, 5u);
    for (std::size_t i = 0; i < 3; i++)
        send(link.sender, i);
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get()))
        << "5 are left, which is not below 5";
    send(link.sender, 4);
    b.context.wait_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
    EXPECT_EQ(srq.query().srq_limit, 0u) << "disarmed by the event";
    send(link.sender, 5);
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get()));
    b.recv_cq.wait(5);
}

TEST_F(SrqCore, LimitCanBeArmedAgain)
{
    Link link(*this);
    ibv_srq_attr attr{};
    attr.srq_limit = 2;
    for (int round = 0; round < 3; round++) {
        for (std::size_t i = 0; i < 2; i++)
            srq.post(i, {slot(i)});
        ASSERT_EQ(srq.modify(attr, IBV_SRQ_LIMIT), 0);
        send(link.sender, 1);
        b.context.wait_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
        send(link.sender, 2);
        b.recv_cq.wait(2);
    }
}

TEST_F(SrqCore, LimitAboveTheSizeIsInvalid)
{
    ibv_srq_attr attr{};
    attr.srq_limit = srq.query().max_wr + 1;
    EXPECT_EQ(srq.modify(attr, IBV_SRQ_LIMIT), EINVAL);
}

TEST_F(SrqCore, ResizeKeepsWhatIsPosted)
{
    Link link(*this);
    for (std::size_t i = 0; i < 30; i++)
        srq.post(i, {slot(i)});
    for (std::size_t i = 0; i < 5; i++)
        send(link.sender, i);
    ibv_srq_attr attr{};
    attr.max_wr = 500;
    ASSERT_EQ(srq.modify(attr, IBV_SRQ_MAX_WR), 0);
    EXPECT_GE(srq.query().max_wr, 500u);
    for (std::size_t i = 30; i < 200; i++)
        srq.post(i, {slot(i)});
    for (std::size_t i = 5; i < 200; i++)
        send(link.sender, i);
    std::vector<ibv_wc> wcs = b.recv_cq.wait(200);
    for (std::size_t i = 0; i < 200; i++) {
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RECV));
        EXPECT_TRUE(filled(target.bytes(i * 256, 200), i));
    }
}

TEST_F(SrqCore, ResizeBelowWhatIsPostedIsInvalid)
{
    for (std::size_t i = 0; i < 40; i++)
        srq.post(i, {slot(i)});
    ibv_srq_attr attr{};
    attr.max_wr = 8;
    EXPECT_EQ(srq.modify(attr, IBV_SRQ_MAX_WR), EINVAL);
    attr.max_wr = static_cast<std::uint32_t>(b.context.attr().max_srq_wr) + 1;
    EXPECT_EQ(srq.modify(attr, IBV_SRQ_MAX_WR), EINVAL);
    EXPECT_GE(srq.query().max_wr, 64u);
}

/// A thread that posts, one that resizes, and messages that take from it meanwhile.
TEST_F(SrqCore, ResizeUnderTrafficLosesNothing)
{
    constexpr std::uint64_t kMessages = 1000;
    Link link(*this);
    std::atomic<bool> stop = false;
    std::atomic<std::uint64_t> received = 0;
    std::thread resizer([&] {
        for (int i = 0; !stop; i++) {
            ibv_srq_attr attr{};
            attr.max_wr = i % 2 ? 1000 : 40;
            EXPECT_EQ(srq.modify(attr, IBV_SRQ_MAX_WR), 0);
            std::this_thread::sleep_for(std::chrono::microseconds(500));
        }
    });
    std::thread poster([&] {
        for (std::uint64_t i = 0; i < kMessages; i++) {
            // No more than the smaller size takes.
            while (i >= received + 32)
                std::this_thread::yield();
            srq.post(i, {slot(i % 64)});
        }
    });
    std::thread sender([&] {
        for (std::uint64_t i = 0; i < kMessages; i++) {
            link.sender.post(SendWr::send({source.sge(0, 100)}).id(i));
            EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        }
    });
    for (std::uint64_t i = 0; i < kMessages; i++, received++)
        EXPECT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV)) << i;
    poster.join();
    sender.join();
    stop = true;
    resizer.join();
    EXPECT_TRUE(b.recv_cq.quiet());
}

/// Only the limit's event makes the program post more: were one lost, all would stop.
TEST_F(SrqCore, LimitEventsKeepAStreamGoing)
{
    constexpr std::uint64_t kMessages = 400;
    constexpr std::uint32_t kLimit = 8;
    constexpr std::uint64_t kRefill = 24;
    Link link(*this);
    Link second(*this);
    std::uint64_t posted = 0;
    ibv_srq_attr attr{};
    attr.srq_limit = kLimit;
    auto refill = [&] {
        for (std::uint64_t i = 0; i < kRefill; i++, posted++)
            srq.post(posted, {slot(posted % 64)});
        EXPECT_EQ(srq.modify(attr, IBV_SRQ_LIMIT), 0);
    };
    refill();
    std::thread sender([&] {
        for (std::uint64_t i = 0; i < kMessages; i++) {
            Link &next = i % 3 ? link : second;
            next.sender.post(SendWr::send({source.sge(0, 100)}).id(i));
            EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        }
    });
    while (posted < kMessages + kLimit) {
        b.context.wait_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get());
        refill();
    }
    sender.join();
    EXPECT_EQ(b.recv_cq.wait(kMessages).size(), kMessages);
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_SRQ_LIMIT_REACHED, srq.get()))
        << posted - kMessages << " are left";
}

TEST_F(SrqCore, UsedByAQpIsNotDestroyed)
{
    Link link(*this);
    EXPECT_EQ(srq.destroy(), EBUSY);
}

TEST_F(SrqCore, QpWithAnSrqHasNoReceiveQueue)
{
    Link link(*this);
    EXPECT_NE(link.receiver.try_post_recv(1, {slot(0)}), 0);
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    ASSERT_EQ(ibv_query_qp(link.receiver.get(), &attr, IBV_QP_CAP, &init), 0);
    EXPECT_EQ(init.srq, srq.get());
}

TEST_F(SrqCore, ErrorOfOneQpLeavesTheOthersWorking)
{
    Link bad(*this);
    Link good(*this);
    for (std::size_t i = 0; i < 4; i++)
        srq.post(i, {slot(i)});
    ASSERT_EQ(bad.receiver.move(IBV_QPS_ERR), 0);
    b.context.wait_event(IBV_EVENT_QP_LAST_WQE_REACHED, bad.receiver.get());
    send(good.sender, 9);
    EXPECT_TRUE(is(b.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(b.recv_cq.quiet()) << "what is in the SRQ is not flushed";
}

TEST_F(SrqCore, OfAnotherContextIsRefused)
{
    Context other(device_b());
    Pd pd = alloc_pd(other.get());
    Cq cq(other.get());
    ibv_qp_init_attr init = QpConfig{.srq = srq.get()}.attr(cq.get(), cq.get());
    ibv_qp *made = ibv_create_qp(pd.get(), &init);
    // Handles are per context: the number may exist there by chance, but no SRQ was made there.
    EXPECT_EQ(made, nullptr);
    if (made)
        ibv_destroy_qp(made);
}

} // namespace
