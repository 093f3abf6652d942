// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// RC: order, fences, signalling, many requests under way, PSN wrap-around.
#include <cstring>
#include <random>

#include "lib/pair.h"

using namespace vt;

namespace {

class RcOrderCore : public PairTest {};

TEST_F(RcOrderCore, CompletionsComeInOrderOfPosting)
{
    start({.send_wr = 256});
    Buffer near = a.buffer(1 << 16);
    Buffer far = b.buffer(1 << 16);
    std::minstd_rand random(7);
    std::uint64_t posted = 0;
    for (int round = 0; round < 10; round++) {
        std::vector<ibv_wc_opcode> expected;
        for (int i = 0; i < 25; i++) {
            auto length = static_cast<std::size_t>(random() % 5000);
            switch (random() % 4) {
            case 0:
                a.qp->post(SendWr::write({near.sge(0, length)}, remote(far)).id(posted++));
                expected.push_back(IBV_WC_RDMA_WRITE);
                break;
            case 1:
                a.qp->post(SendWr::read({near.sge(8192, length)}, remote(far)).id(posted++));
                expected.push_back(IBV_WC_RDMA_READ);
                break;
            case 2:
                a.qp->post(
                    SendWr::fetch_add(near.sge(16384, 8), remote(far, 32768), 1).id(posted++));
                expected.push_back(IBV_WC_FETCH_ADD);
                break;
            default:
                b.qp->post_recv(posted, {far.sge(8192, 8192)});
                a.qp->post(SendWr::send({near.sge(0, length)}).id(posted++));
                expected.push_back(IBV_WC_SEND);
            }
        }
        std::vector<ibv_wc> wcs = a.send_cq.wait(expected.size());
        for (std::size_t i = 0; i < wcs.size(); i++)
            ASSERT_TRUE(is(wcs[i], posted - expected.size() + i, expected[i]));
    }
}

TEST_F(RcOrderCore, LaterWritesOverwriteEarlierOnes)
{
    start();
    Buffer near = a.buffer(64 * 4096);
    Buffer far = b.buffer(4096);
    for (std::size_t i = 0; i < 50; i++) {
        fill(near.bytes(i * 4096, 4096), i);
        a.qp->post(SendWr::write({near.sge(i * 4096, 4096)}, remote(far)).id(i));
    }
    a.send_cq.wait(50);
    EXPECT_TRUE(filled(far.bytes(), 49));
}

TEST_F(RcOrderCore, ReadSeesTheWriteBeforeIt)
{
    start();
    Buffer near = a.buffer(1 << 17);
    Buffer far = b.buffer(1 << 16);
    for (std::uint64_t i = 0; i < 10; i++) {
        fill(near.bytes(0, 40000), i);
        a.qp->post(SendWr::write({near.sge(0, 40000)}, remote(far)).id(1).unsignaled());
        a.qp->post(SendWr::read({near.sge(65536, 40000)}, remote(far)).id(2));
        EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
        EXPECT_TRUE(filled(near.bytes(65536, 40000), i));
    }
}

TEST_F(RcOrderCore, SendArrivesAfterTheWritesBeforeIt)
{
    start();
    Buffer near = a.buffer(1 << 16);
    Buffer far = b.buffer(1 << 16);
    for (std::uint64_t i = 1; i <= 20; i++) {
        fill(near.bytes(), i);
        b.qp->post_recv(i);
        a.qp->post(SendWr::write({near.sge(0, near.size())}, remote(far)).unsignaled());
        a.qp->post(SendWr::send({}).id(i));
        EXPECT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
        EXPECT_TRUE(filled(far.bytes(), i)) << "when the SEND completes the data is there";
        a.send_cq.one();
    }
}

TEST_F(RcOrderCore, FencedSendCarriesWhatTheReadBeforeItBrought)
{
    start();
    Buffer near = a.buffer(1 << 16);
    Buffer far = b.buffer(1 << 17);
    for (std::uint64_t i = 1; i <= 20; i++) {
        fill(far.bytes(0, 60000), i);
        std::memset(near.data(), 0, near.size());
        a.qp->post(SendWr::read({near.sge(0, 60000)}, remote(far)).unsignaled());
        a.qp->post(SendWr::write({near.sge(0, 60000)}, remote(far, 65536)).fence().id(i));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(filled(far.bytes(65536, 60000), i));
    }
}

TEST_F(RcOrderCore, FencedSendCarriesWhatTheAtomicBeforeItBrought)
{
    start();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (std::uint64_t i = 1; i <= 20; i++) {
        far.word(0) = i * 1000;
        a.qp->post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).unsignaled());
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far, 64)).fence().id(i));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        EXPECT_EQ(far.word(64), i * 1000);
    }
}

TEST_F(RcOrderCore, UnsignalledRequestsDoNotComplete)
{
    start();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (std::uint64_t i = 0; i < 30; i++)
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(i).unsignaled());
    a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(99));
    EXPECT_TRUE(is(a.send_cq.one(), 99, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(RcOrderCore, SqSigAllSignalsEverything)
{
    start({.sig_all = true});
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (std::uint64_t i = 0; i < 30; i++)
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(i).unsignaled());
    std::vector<ibv_wc> wcs = a.send_cq.wait(30);
    for (std::uint64_t i = 0; i < 30; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RDMA_WRITE));
}

TEST_F(RcOrderCore, UnsignalledRequestsFreeTheirPlaces)
{
    start({.send_wr = 8});
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (std::uint64_t i = 0; i < 200; i++) {
        SendWr wr = SendWr::write({near.sge(0, 8)}, remote(far)).id(i);
        a.qp->post(i % 8 == 7 ? wr : wr.unsignaled());
        if (i % 8 == 7) {
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        }
    }
}

TEST_F(RcOrderCore, FullSendQueueRefusesMoreAndTakesThemLater)
{
    start({.send_wr = 16});
    // Nothing is received, so nothing completes.
    std::uint64_t posted = 0;
    int result = 0;
    std::uint32_t promised = a.qp->query(IBV_QP_CAP).cap.max_send_wr;
    while (!result && posted < 4 * promised + 64) {
        result = a.qp->try_post(SendWr::send({}).id(posted));
        posted += !result;
    }
    EXPECT_EQ(result, ENOMEM);
    EXPECT_GE(posted, promised);
    for (std::uint64_t i = 0; i < posted; i++) {
        b.qp->post_recv(i);
        EXPECT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
    }
    b.qp->post_recv(1000);
    a.qp->post(SendWr::send({}).id(1000));
    EXPECT_TRUE(is(a.send_cq.one(), 1000, IBV_WC_SEND));
}

TEST_F(RcOrderCore, PlacesAreTakenUntilTheirCompletionsArePolled)
{
    start({.send_wr = 16, .recv_wr = 16});
    Buffer near = a.buffer(64);
    Buffer far = b.buffer(64);
    const std::uint32_t sends = a.qp->query(IBV_QP_CAP).cap.max_send_wr;
    const std::uint32_t recvs = b.qp->query(IBV_QP_CAP).cap.max_recv_wr;
    for (std::uint64_t i = 0; i < recvs; i++)
        b.qp->post_recv(i);
    for (std::uint64_t i = 0; i < sends; i++) {
        near.word(0) = i + 1;
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).imm(1).id(i));
        EXPECT_TRUE(eventually([&] { return far.word(0) == i + 1; }));
    }
    // All is done, and nobody has looked: as with an adapter, nothing more fits.
    EXPECT_EQ(a.qp->try_post(SendWr::write({near.sge(0, 8)}, remote(far))), ENOMEM);
    EXPECT_EQ(b.qp->try_post_recv(recvs, {}), ENOMEM);
    EXPECT_TRUE(is(a.send_cq.one(), 0, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(is(b.recv_cq.one(), 0, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(a.qp->try_post(SendWr::write({near.sge(0, 8)}, remote(far))), 0);
    EXPECT_EQ(b.qp->try_post_recv(recvs, {}), 0);
    EXPECT_EQ(a.qp->try_post(SendWr::write({near.sge(0, 8)}, remote(far))), ENOMEM);
    EXPECT_EQ(b.qp->try_post_recv(recvs, {}), ENOMEM);
}

TEST_F(RcOrderCore, ChainIsPostedUpToTheBadRequest)
{
    start();
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    std::vector<SendWr> chain;
    for (std::uint64_t i = 0; i < 6; i++)
        chain.push_back(SendWr::write(Sges(i == 4 ? 33 : 1, near.sge(0, 8)), remote(far)).id(i));
    std::size_t posted = 0;
    EXPECT_EQ(a.qp->try_post(chain, &posted), EINVAL);
    EXPECT_EQ(posted, 4u);
    std::vector<ibv_wc> wcs = a.send_cq.wait(4);
    for (std::uint64_t i = 0; i < 4; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(a.send_cq.quiet());
}

TEST_F(RcOrderCore, LongChainsGoOutWhole)
{
    start({.send_wr = 128});
    Buffer near = a.buffer(128 * 512);
    Buffer far = b.buffer(128 * 512);
    fill(near.bytes(), 3);
    std::vector<SendWr> chain;
    for (std::uint64_t i = 0; i < 128; i++)
        chain.push_back(SendWr::write({near.sge(i * 512, 512)}, remote(far, i * 512)).id(i));
    a.qp->post(chain);
    std::vector<ibv_wc> wcs = a.send_cq.wait(128);
    for (std::uint64_t i = 0; i < 128; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(), 3));
}

TEST_F(RcOrderCore, MoreReadsThanResponderResources)
{
    Params params;
    params.rd_atomic = 2;
    params.dest_rd_atomic = 2;
    start({}, params);
    Buffer near = a.buffer(1 << 18);
    Buffer far = b.buffer(1 << 18);
    fill(far.bytes(), 5);
    for (std::size_t i = 0; i < 50; i++)
        a.qp->post(SendWr::read({near.sge(i * 5000, 5000)}, remote(far, i * 5000)).id(i));
    std::vector<ibv_wc> wcs = a.send_cq.wait(50);
    for (std::size_t i = 0; i < 50; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(near.bytes(0, 250000), 5));
}

TEST_F(RcOrderCore, HundredTwentyEightReadsUnderWay)
{
    Params params;
    params.rd_atomic = 128;
    params.dest_rd_atomic = 128;
    start({.send_wr = 256}, params);
    Buffer near = a.buffer(200 * 1024);
    Buffer far = b.buffer(200 * 1024);
    fill(far.bytes(), 6);
    std::vector<SendWr> chain;
    for (std::size_t i = 0; i < 200; i++)
        chain.push_back(SendWr::read({near.sge(i * 1024, 1024)}, remote(far, i * 1024)).id(i));
    a.qp->post(chain);
    std::vector<ibv_wc> wcs = a.send_cq.wait(200);
    for (std::size_t i = 0; i < 200; i++)
        ASSERT_TRUE(is(wcs[i], i, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(near.bytes(), 6));
}

TEST_F(RcOrderCore, PsnsWrapAroundIn24Bits)
{
    Params params;
    params.psn = 0xfffff0;
    params.peer_psn = 0xfffffa;
    start({.send_wr = 128}, params);
    Buffer near = a.buffer(1 << 18);
    Buffer far = b.buffer(1 << 18);
    fill(near.bytes(0, 100000), 1);
    b.qp->post_recv(1, {far.sge(0, 100000)});
    a.qp->post(SendWr::send({near.sge(0, 10000)}).id(1)); // 10 packets: up to 0xfffff9
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 10000), 1));
    a.qp->post(SendWr::write({near.sge(0, 100000)}, remote(far)).id(2)); // across 0
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(0, 100000), 1));
    EXPECT_LT(a.qp->query(IBV_QP_SQ_PSN).sq_psn, 0x1000u);

    fill(far.bytes(131072, 50000), 2);
    b.qp->post(SendWr::read({far.sge(131072, 50000)}, remote(near)).id(3)); // b's wrap
    EXPECT_TRUE(is(b.send_cq.one(), 3, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(far.bytes(131072, 50000), 1));
}

TEST_F(RcOrderCore, ReadResponsesWrapAround)
{
    Params params;
    params.psn = 0xffffff;
    params.peer_psn = 0xffffff;
    start({}, params);
    Buffer near = a.buffer(1 << 16);
    Buffer far = b.buffer(1 << 16);
    fill(far.bytes(), 4);
    for (std::uint64_t i = 0; i < 5; i++) {
        std::memset(near.data(), 0, near.size());
        a.qp->post(SendWr::read({near.sge(0, near.size())}, remote(far)).id(i));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_READ));
        EXPECT_TRUE(filled(near.bytes(), 4));
    }
}

TEST_F(RcOrderCore, AtomicsAndSmallMessagesWrapAround)
{
    Params params;
    params.psn = 0xfffff0;
    start({}, params);
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    for (std::uint64_t i = 0; i < 40; i++) {
        a.qp->post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(i));
        EXPECT_TRUE(is(a.send_cq.one(), i, IBV_WC_FETCH_ADD));
        EXPECT_EQ(near.word(0), i);
    }
}

/// All operations mixed at random, with a model of what the memory of b must hold.
TEST_F(RcOrderCore, RandomMixMatchesAModel)
{
    start({.send_wr = 128, .recv_wr = 128});
    constexpr std::size_t kSize = 1 << 16;
    Buffer near = a.buffer(kSize);
    Buffer far = b.buffer(kSize);
    std::vector<std::uint8_t> model(kSize);
    std::minstd_rand random(11);
    fill(near.bytes(), 1);
    for (int round = 0; round < 20; round++) {
        std::size_t count = random() % 60 + 1;
        std::size_t receives = 0;
        for (std::size_t i = 0; i < count; i++) {
            std::size_t length = random() % 4000;
            std::size_t from = random() % (kSize - length);
            std::size_t to = random() % (kSize - length);
            auto copy = [&] { std::memcpy(&model[to], near.data() + from, length); };
            if (random() % 3 == 0) {
                b.qp->post_recv(receives, {far.sge(to, length)});
                receives++;
                a.qp->post(SendWr::send({near.sge(from, length)}).id(i));
            } else {
                a.qp->post(SendWr::write({near.sge(from, length)}, remote(far, to)).id(i));
            }
            copy();
        }
        std::vector<ibv_wc> wcs = a.send_cq.wait(count);
        for (std::size_t i = 0; i < count; i++)
            ASSERT_EQ(wcs[i].status, IBV_WC_SUCCESS);
        b.recv_cq.wait(receives);
        ASSERT_TRUE(same(far.bytes(), model)) << "round " << round;
    }
}

} // namespace
