// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A bad network (netem on both netdevs: frames lost, doubled and out of order):
/// RC delivers everything exactly once, UC and UD what arrives arrives whole.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include <sys/mman.h>

#include "lib/diagnose.h"
#include "lib/loopback.h"
#include "lib/pair.h"
#include "lib/thread.h"
#include "lib/xrc.h"

using namespace vt;

namespace {

class LossTest : public PairTest {
protected:
    /// @p qdisc with its parameters, for frames in both directions.
    void queue(const std::string &qdisc)
    {
        for (const std::string &command : commands("replace"))
            run(command + qdisc);
    }
    /// @p what as netem has it.
    void disturb(const std::string &what) { queue("netem limit 10000 " + what); }
    void TearDown() override
    {
        PairTest::TearDown();
        for (const std::string &command : commands("delete"))
            shell(command);
    }
    static Params patient()
    {
        Params params;
        params.timeout = ack_timeout(12); // 17 ms
        params.retry_cnt = 7;
        params.rnr_retry = 7;
        return params;
    }
    static Params hasty()
    {
        Params params;
        params.timeout = 12;
        params.retry_cnt = 3;
        return params;
    }

    /// SENDs, WRITEs and READs of all sizes; @p rounds of them.
    void move_data(std::uint64_t rounds)
    {
        start({}, patient());
        Buffer near = a.buffer(1 << 17);
        Buffer far = b.buffer(1 << 17);
        std::minstd_rand random(5);
        for (std::uint64_t i = 0; i < rounds; i++) {
            std::size_t length = random() % 65536 + 1;
            fill(near.bytes(0, length), i);
            std::memset(far.data(), 0, far.size());
            b.qp->post_recv(i, {far.sge(0, 65536)});
            a.qp->post({SendWr::send({near.sge(0, length)}).id(1),
                        SendWr::write({near.sge(0, length)}, remote(far, 65536)).id(2),
                        SendWr::read({near.sge(65536, length)}, remote(far, 65536)).id(3)});
            ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
            ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
            ASSERT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_READ));
            ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
            ASSERT_TRUE(filled(far.bytes(0, length), i));
            ASSERT_TRUE(filled(far.bytes(65536, length), i));
            ASSERT_TRUE(filled(near.bytes(65536, length), i));
        }
    }

    /// Fetch-and-adds, many under way: each must happen once, and each answer be its own.
    void count(std::uint64_t batches)
    {
        start({}, patient());
        Buffer near = a.buffer(4096);
        Buffer far = b.buffer(4096);
        std::uint64_t value = 0;
        for (std::uint64_t batch = 0; batch < batches; batch++) {
            for (std::size_t i = 0; i < 40; i++)
                a.qp->post(SendWr::fetch_add(near.sge(i * 8, 8), remote(far), 1).id(i));
            std::vector<ibv_wc> wcs = a.send_cq.wait(40);
            for (std::size_t i = 0; i < 40; i++) {
                ASSERT_TRUE(is(wcs[i], i, IBV_WC_FETCH_ADD));
                ASSERT_EQ(near.word(i * 8), value++);
            }
        }
        EXPECT_EQ(far.word(0), value);
    }

    /// Atomic writes to one word, many under way: none may be done again after a later one.
    void write_word(std::uint64_t batches)
    {
        start({}, patient());
        Buffer near = a.buffer(4096);
        Buffer far = b.buffer(4096);
        for (std::uint64_t batch = 0; batch < batches; batch++) {
            for (std::uint64_t i = 0; i < 40; i++) {
                near.word(i * 8) = batch * 40 + i + 1;
                a.qp->post(SendWr::atomic_write(near.sge(i * 8, 8), remote(far)).id(i));
            }
            std::vector<ibv_wc> wcs = a.send_cq.wait(40);
            for (std::size_t i = 0; i < 40; i++)
                ASSERT_TRUE(is(wcs[i], i, IBV_WC_ATOMIC_WRITE));
            ASSERT_EQ(far.word(0), batch * 40 + 40);
        }
        std::this_thread::sleep_for(kQuiet);
        EXPECT_EQ(far.word(0), batches * 40);
    }

    /// READs of whole pages, @p count under way, into memory on demand that is taken away
    /// meanwhile.
    void read_on_demand(std::uint64_t batches, std::size_t count)
    {
        constexpr std::size_t kLength = 32 << 10;
        start({}, patient());
        Buffer far = b.buffer(count * kLength);
        Buffer near = a.buffer(count * kLength, kOnDemand);
        fill(far.bytes(), 7);
        std::atomic<bool> stop = false;
        std::thread thief([&] {
            const std::size_t page = page_size();
            for (std::size_t at = 0; !stop; at = (at + 5 * page) % near.size()) {
                madvise(near.data() + at, page, MADV_DONTNEED);
                std::this_thread::sleep_for(std::chrono::microseconds(300));
            }
        });
        for (std::uint64_t batch = 0; batch <= batches; batch++) {
            if (batch == batches) {
                stop = true;
                thief.join();
            }
            for (std::size_t i = 0; i < count; i++)
                a.qp->post(
                    SendWr::read({near.sge(i * kLength, kLength)}, remote(far, i * kLength)).id(i));
            std::vector<ibv_wc> wcs = a.send_cq.wait(count);
            for (std::size_t i = 0; i < count; i++)
                EXPECT_TRUE(is(wcs[i], i, IBV_WC_RDMA_READ)) << "batch " << batch;
            /* What was taken away after it came is 0. */
            for (std::size_t at = 0; at < near.size(); at += 256)
                ASSERT_TRUE(std::memcmp(near.data() + at, far.data() + at, 256) == 0 ||
                            (batch < batches && all(near.bytes(at, 256), 0)))
                    << at << " of batch " << batch;
            if (HasFailure())
                break;
        }
        if (thief.joinable()) {
            stop = true;
            thief.join();
        }
    }

private:
    LoopbackOff wire_;

    /// `tc qdisc OPERATION` of the root of each netdev that frames pass.
    static std::vector<std::string> commands(const std::string &operation)
    {
        auto tc = [&](const std::string &netns, const std::string &dev) {
            return (netns.empty() ? "" : "ip netns exec " + netns + " ") + "tc qdisc " + operation +
                   " dev " + dev + " root ";
        };
        if (one_device())
            return {tc("", "lo")};
        return {tc("", variable("ROX_NETDEV_A")),
                tc(variable("ROX_NS_B"), variable("ROX_NETDEV_B"))};
    }
};

class LossCore : public LossTest {};
class Loss : public LossTest {}; ///< not in the quick core

TEST_F(LossCore, RcDataArrivesDespiteLosses)
{
    disturb("loss 5%");
    move_data(40);
}

TEST_F(Loss, RcDataArrivesOnceDespiteDuplicates)
{
    disturb("duplicate 20%");
    move_data(40);
}

TEST_F(Loss, RcDataArrivesInOrderDespiteReordering)
{
    disturb("delay 2ms reorder 70%");
    move_data(20);
}

TEST_F(Loss, AtomicsHappenOnceDespiteLosses)
{
    disturb("loss 5%");
    count(20);
}

TEST_F(LossCore, ReadsOnDemandArriveDespiteLosses)
{
    disturb("loss 4%");
    read_on_demand(6, 16);
}

TEST_F(Loss, ReadsOnDemandArriveDespiteEverything)
{
    disturb("loss 2% duplicate 5% delay 1ms reorder 50%");
    read_on_demand(30, 16);
}

TEST_F(LossCore, AtomicsHappenOnceDespiteDuplicates)
{
    disturb("duplicate 30%");
    count(20);
}

TEST_F(Loss, AtomicsHappenOnceDespiteEverything)
{
    disturb("loss 2% duplicate 10% delay 1ms reorder 50%");
    count(10);
}

TEST_F(LossCore, AtomicWritesHappenOnceDespiteDuplicates)
{
    disturb("duplicate 30%");
    write_word(20);
}

TEST_F(Loss, AtomicWritesHappenOnceDespiteEverything)
{
    disturb("loss 2% duplicate 10% delay 1ms reorder 50%");
    write_word(10);
}

TEST_F(Loss, XrcDataArrivesDespiteLosses)
{
    disturb("loss 4% duplicate 4%");
    Xrcd xrcd = open_xrcd(b.context.get());
    XrcSrq one(b.pd.get(), xrcd.get(), b.recv_cq.get());
    XrcSrq two(b.pd.get(), xrcd.get(), b.send_cq.get());
    Qp initiator(xrc_initiator(a.pd.get(), a.send_cq.get()));
    Qp target(xrc_target(b.context.get(), xrcd.get()));
    vt::connect(a.context, initiator, b.context, target, patient());
    Buffer near = a.buffer(1 << 17);
    Buffer far = b.buffer(1 << 17);
    std::minstd_rand random(7);
    far.word(0) = 0;
    for (std::uint64_t i = 0; i < 30; i++) {
        const XrcSrq &to = i % 2 ? one : two;
        const Cq &cq = i % 2 ? b.recv_cq : b.send_cq;
        std::size_t length = random() % 30000 + 1;
        fill(near.bytes(0, length), i);
        std::memset(far.data() + 8, 0, far.size() - 8);
        to.post(i, {far.sge(8, 40000)});
        initiator.post(
            {to_srq(SendWr::send({near.sge(0, length)}).id(1), to.number()),
             to_srq(SendWr::write({near.sge(0, length)}, remote(far, 65536)).id(2), to.number()),
             to_srq(SendWr::read({near.sge(65536, length)}, remote(far, 65536)).id(3), to.number()),
             to_srq(SendWr::fetch_add(near.sge(130000, 8), remote(far), 1).id(4), to.number())});
        ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_READ));
        ASSERT_TRUE(is(a.send_cq.one(), 4, IBV_WC_FETCH_ADD));
        ASSERT_TRUE(is(cq.one(), i, IBV_WC_RECV));
        ASSERT_TRUE(filled(far.bytes(8, length), i));
        ASSERT_TRUE(filled(far.bytes(65536, length), i));
        ASSERT_TRUE(filled(near.bytes(65536, length), i));
        ASSERT_EQ(near.word(130000), i);
    }
}

TEST_F(LossCore, UcMessagesArriveWholeOrNotAtAll)
{
    disturb("loss 20% duplicate 5%");
    start({.type = IBV_QPT_UC, .recv_wr = 256});
    Buffer near = a.buffer(64 * 8192);
    Buffer far = b.buffer(256 * 8192);
    for (std::size_t i = 0; i < 200; i++)
        b.qp->post_recv(i, {far.sge(i * 8192, 8192)});
    on_one_cpu([&] {
        for (std::size_t i = 0; i < 200; i++) {
            std::size_t slot = i % 64;
            fill(near.bytes(slot * 8192, 5000), i);
            a.qp->post(SendWr::send({near.sge(slot * 8192, 5000)}).imm(std::uint32_t(i)).id(i));
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND)) << "losses are not the sender's";
        }
    });
    ASSERT_FALSE(HasFatalFailure());
    std::size_t arrived = 0;
    std::uint32_t last = 0;
    ibv_wc wc{};
    while (eventually([&] { return ibv_poll_cq(b.recv_cq.get(), 1, &wc) > 0; }, 300ms)) {
        ASSERT_TRUE(is(wc, arrived, IBV_WC_RECV)) << "receives are used in order";
        EXPECT_EQ(wc.byte_len, 5000u);
        std::uint32_t which = ntohl(wc.imm_data);
        ASSERT_TRUE(filled(far.bytes(arrived * 8192, 5000), which));
        if (arrived) {
            // A doubled frame is a message of its own for UC: a first packet
            // begins one whatever its PSN.
            ASSERT_GE(which, last) << "in order";
        }
        last = which;
        arrived++;
    }
    EXPECT_GT(arrived, 50u);
    EXPECT_LT(arrived, 200u);
    EXPECT_EQ(b.qp->state(), IBV_QPS_RTS);
}

TEST_F(Loss, UdMessagesAreLostWithoutErrors)
{
    disturb("loss 30%");
    start({.type = IBV_QPT_UD, .recv_wr = 256});
    Ah to_b = ah(a, b);
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(200 * 2048);
    for (std::size_t i = 0; i < 200; i++)
        b.qp->post_recv(i, {far.sge(i * 2048, 2048)});
    for (std::size_t i = 0; i < 200; i++) {
        fill(near.bytes(0, 1000), i);
        a.qp->post(SendWr::send({near.sge(0, 1000)})
                       .imm(std::uint32_t(i))
                       .id(i)
                       .to(to_b.get(), b.qp->number(), Params{}.qkey));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
    }
    std::size_t arrived = 0;
    ibv_wc wc{};
    while (eventually([&] { return ibv_poll_cq(b.recv_cq.get(), 1, &wc) > 0; }, 300ms)) {
        ASSERT_TRUE(is(wc, arrived, IBV_WC_RECV));
        ASSERT_TRUE(filled(far.bytes(arrived * 2048 + 40, 1000), ntohl(wc.imm_data)));
        arrived++;
    }
    EXPECT_GT(arrived, 50u);
    EXPECT_LT(arrived, 200u);
}

TEST_F(LossCore, TotalLossExhaustsTheRetries)
{
    start({}, hasty());
    expect_works();
    disturb("loss 100%");
    a.qp->post(SendWr::send({}).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));
}

/// Short packets behind one that is refused fit into the queue, but must neither overtake it nor
/// count as progress.
TEST_F(LossCore, AQueueThatRefusesOnlyLongPacketsExhaustsTheRetries)
{
    start({}, hasty());
    expect_works();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    queue("bfifo limit 1000");
    a.qp->post({SendWr::write({near.sge(0, 1024)}, remote(far)).id(1),
                SendWr::read({near.sge(2048, 8)}, remote(far, 2048)).id(2),
                SendWr::write({near.sge(0, 1024)}, remote(far)).id(3),
                SendWr::read({near.sge(2048, 8)}, remote(far, 2048)).id(4)});
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));
    for (std::uint64_t id = 2; id <= 4; id++)
        EXPECT_TRUE(is_error(a.send_cq.one(), id, IBV_WC_WR_FLUSH_ERR));
}

/// A side whose packets were refused goes on by itself: the frames of others may wake it at any
/// moment, also too early, and need not do so again.
TEST_F(LossCore, RefusedPacketsAreSentAgainAlsoWhenOthersFallSilent)
{
    Cq short_cq(a.context.get(), 16);
    Qp short_a(a.pd.get(), short_cq.get(), a.recv_cq.get(), {});
    Qp short_b(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {});
    vt::connect(a.context, short_a, b.context, short_b);
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (int round = 0; round < 6; round++) {
        start({}, hasty());
        expect_works();
        queue("bfifo limit 1000");
        a.qp->post({SendWr::write({near.sge(0, 1024)}, remote(far)).id(1)});
        for (int i = 0; i < round * 5; i++) {
            short_a.post(SendWr::write({near.sge(0, 8)}, remote(far)).id(2));
            ASSERT_TRUE(is(short_cq.one(), 2, IBV_WC_RDMA_WRITE));
        }
        ASSERT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR)) << "round " << round;
        queue("pfifo limit 1000");
    }
}

TEST_F(Loss, ShortOutageIsSurvived)
{
    Params params;
    params.timeout = ack_timeout(16); // 268 ms, eight times
    start({}, params);
    Buffer near = a.buffer(1 << 20);
    Buffer far = b.buffer(1 << 20);
    fill(near.bytes(), 3);
    disturb("loss 100%");
    a.qp->post(SendWr::write({near.sge(0, 1 << 20)}, remote(far)).id(1));
    EXPECT_TRUE(a.send_cq.quiet(400ms));
    disturb("loss 0%");
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(), 3));
}

} // namespace
