// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// UC: data, and that a message which cannot be placed is dropped in silence.
#include <cstring>

#include "lib/pair.h"
#include "lib/thread.h"

using namespace vt;

namespace {

class UcCore : public PairTest {
protected:
    void SetUp() override { start({.type = IBV_QPT_UC, .inline_data = 64}); }
    Buffer near = a.buffer(1 << 17);
    Buffer far = b.buffer(1 << 17);
};

TEST_F(UcCore, SendInAllSizes)
{
    std::uint64_t id = 1;
    for (std::size_t length : {0u, 1u, 3u, 1023u, 1024u, 1025u, 4099u, 65536u}) {
        fill(near.bytes(0, length), id);
        std::memset(far.data(), 0, far.size());
        b.qp->post_recv(id, {far.sge(0, 70000)});
        a.qp->post(SendWr::send({near.sge(0, length)}).imm(std::uint32_t(id)).id(id));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_SEND));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, id, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, length);
        EXPECT_EQ(ntohl(wc.imm_data), id);
        EXPECT_TRUE(filled(far.bytes(0, length), id));
        EXPECT_TRUE(all(far.bytes(length, 64), 0));
        id++;
    }
}

TEST_F(UcCore, SendWithoutImmediateSaysSo)
{
    b.qp->post_recv(1);
    a.qp->post(SendWr::send({}).id(1));
    EXPECT_FALSE(b.recv_cq.one().wc_flags & IBV_WC_WITH_IMM);
}

TEST_F(UcCore, WriteInAllSizes)
{
    std::uint64_t id = 1;
    for (std::size_t length : {1u, 3u, 1023u, 1024u, 1025u, 4099u, 65536u}) {
        fill(near.bytes(0, length), id);
        std::memset(far.data(), 0, far.size());
        a.qp->post(SendWr::write({near.sge(0, length)}, remote(far, 33)).id(id));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(eventually([&] { return bool(filled(far.bytes(33, length), id)); }));
        EXPECT_TRUE(all(far.bytes(33 + length, 64), 0));
        id++;
    }
}

TEST_F(UcCore, WriteWithImmediateCompletesAtTheReceiver)
{
    std::uint64_t id = 1;
    for (std::size_t length : {0u, 1u, 1024u, 5000u, 65536u}) {
        fill(near.bytes(0, length), id);
        b.qp->post_recv(id);
        a.qp->post(SendWr::write({near.sge(0, length)}, remote(far)).imm(7).id(id));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_RDMA_WRITE));
        ibv_wc wc = b.recv_cq.one();
        EXPECT_TRUE(is(wc, id, IBV_WC_RECV_RDMA_WITH_IMM));
        EXPECT_EQ(wc.byte_len, length);
        EXPECT_EQ(ntohl(wc.imm_data), 7u);
        EXPECT_TRUE(filled(far.bytes(0, length), id));
        id++;
    }
}

TEST_F(UcCore, InlineData)
{
    std::vector<std::uint8_t> local(64);
    fill(local, 3);
    b.qp->post_recv(1, {far.sge(0, 100)});
    a.qp->post(
        SendWr::send({{reinterpret_cast<std::uintptr_t>(local.data()), 64, 0}}).inlined().id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 64), 3));
}

TEST_F(UcCore, MessageWithoutAReceiveIsDropped)
{
    a.qp->post(SendWr::send({near.sge(0, 5000)}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND)) << "the sender does not learn of it";
    EXPECT_TRUE(b.recv_cq.quiet());
    expect_works();
}

TEST_F(UcCore, WriteWithABadKeyIsDropped)
{
    a.qp->post(SendWr::write({near.sge(0, 5000)}, {far.address(), far.rkey() ^ 0x5a5a00}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(a.send_cq.quiet());
    EXPECT_TRUE(all(far.bytes(), 0));
    EXPECT_EQ(a.qp->state(), IBV_QPS_RTS);
}

TEST_F(UcCore, ReadsAndAtomicsAreNotForUc)
{
    for (SendWr wr : {SendWr::read({near.sge(0, 8)}, remote(far)).id(1),
                      SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(1)}) {
        Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {.type = IBV_QPT_UC});
        Qp receiver(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {.type = IBV_QPT_UC});
        vt::connect(a.context, sender, b.context, receiver);
        // Either at once or by a completion, but never in silence.
        int result = sender.try_post(wr);
        if (result)
            EXPECT_EQ(result, EINVAL);
        else
            EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_QP_OP_ERR));
        EXPECT_TRUE(all(far.bytes(0, 64), 0));
    }
}

TEST_F(UcCore, ManyMessagesInOrder)
{
    constexpr std::size_t kWindow = 32;
    std::uint64_t sent = 0;
    for (std::uint64_t i = 0; i < kWindow; i++)
        b.qp->post_recv(i, {far.sge(i * 2048, 2048)});
    const OneCpu cpu; // what two CPUs send may change places on a veth, and UC drops it
    for (std::uint64_t got = 0; got < 300; got++) {
        while (sent < 300 && sent < got + kWindow) {
            fill(near.bytes((sent % kWindow) * 2048, 1500), sent);
            a.qp->post(SendWr::send({near.sge((sent % kWindow) * 2048, 1500)}).id(sent));
            sent++;
        }
        std::uint64_t slot = got % kWindow;
        ASSERT_TRUE(is(b.recv_cq.one(), slot, IBV_WC_RECV));
        ASSERT_TRUE(filled(far.bytes(slot * 2048, 1500), got));
        ASSERT_TRUE(is(a.send_cq.one(), got, IBV_WC_SEND));
        b.qp->post_recv(slot, {far.sge(slot * 2048, 2048)});
    }
}

TEST_F(UcCore, PsnsWrapAround)
{
    Params params;
    params.psn = 0xfffffe;
    start({.type = IBV_QPT_UC}, params);
    for (int i = 0; i < 4; i++)
        expect_works();
}

TEST_F(UcCore, OverIpv6)
{
    Params params;
    params.family = Family::V6;
    start({.type = IBV_QPT_UC}, params);
    expect_works();
}

} // namespace
