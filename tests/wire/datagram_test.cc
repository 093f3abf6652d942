// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Unreliable services. IBTA volume 1, 9.8.2 (UC: what is out of order costs the message and
/// nothing else, and nothing is acknowledged), 9.8.3 (UD), 9.9.3 (responder's errors).
#include "../verbs/lib/clock.h"
#include "../verbs/lib/rdmatool.h"
#include "lib/line.h"

#include "../verbs/lib/rdmatool.h"

using namespace wire;
using vt::is;
using vt::is_error;
using vt::SendWr;

namespace {

/// Packets that the device has looked at.
std::uint64_t seen()
{
    return vt::port_counter(vt::device_a(), "rx_packets");
}

class Uc : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        open(IBV_QPT_UC);
    }
    /// The next PSN is used up.
    void go(std::uint8_t op, Octets extension = {}, Octets payload = {})
    {
        line->send(line->request(op, std::move(extension), std::move(payload)));
        line->psn = psn_add(line->psn, 1);
    }
    Octets at(std::size_t offset, std::uint32_t length) const
    {
        return reth(target.address(offset), target.rkey(), length);
    }
    /// The payload of a WRITE arrives in the target. Nothing else tells of it.
    bool arrives(std::size_t offset, std::size_t length, std::uint64_t seed) const
    {
        return vt::eventually([&] { return vt::filled(target.bytes(offset, length), seed); });
    }
    /// The QP takes a message as it should be with the receive of that id.
    void works(std::uint64_t id)
    {
        go(kSendOnly, {}, pattern(77, 9));
        ibv_wc wc = end.recv_cq.one();
        ASSERT_TRUE(is(wc, id, IBV_WC_RECV));
        ASSERT_EQ(wc.byte_len, 77U);
        ASSERT_TRUE(vt::filled(inbox.bytes(id * 4096, 77), 9));
        ASSERT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
        ASSERT_EQ(peer.drain(), 0U);
    }
};

TEST_F(Uc, MessagesInOrder)
{
    post(4);
    Octets data = pattern(2 * kMtu + 5, 1);
    Octets first(data.begin(), data.begin() + kMtu);
    Octets middle(data.begin() + kMtu, data.begin() + 2 * kMtu);
    Octets last(data.begin() + 2 * kMtu, data.end());
    go(kSendFirst, {}, first);
    go(kSendMiddle, {}, middle);
    go(kSendLastImm, word(5), last);
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 0, IBV_WC_RECV));
    EXPECT_EQ(ntohl(wc.imm_data), 5U);
    EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), 1));
    go(kWriteFirst, at(8, 2 * kMtu + 5), first);
    go(kWriteMiddle, {}, middle);
    go(kWriteLast, {}, last);
    EXPECT_TRUE(arrives(8, data.size(), 1));
    go(kWriteOnlyImm, at(0, 3) + word(6), pattern(3, 2));
    wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(ntohl(wc.imm_data), 6U);
    EXPECT_TRUE(vt::filled(target.bytes(0, 3), 2));
    works(2);
}

// 9.8.2: a gap before or within a message. Its receive waits for the next one.
TEST_F(Uc, GapsCostTheMessageOnly)
{
    post(3);
    line->psn = psn_add(line->psn, 5);
    works(0);
    go(kSendFirst, {}, pattern(kMtu, 1));
    line->psn = psn_add(line->psn, 1);
    go(kSendLast, {}, pattern(9, 1));
    works(1);
    go(kWriteFirst, at(0, 3 * kMtu), pattern(kMtu, 1));
    line->psn = psn_add(line->psn, 1);
    go(kWriteLast, {}, pattern(kMtu, 2));
    works(2);
    EXPECT_TRUE(vt::all(target.bytes(kMtu, 4 * kMtu), 0));
}

// What is behind is no duplicate here: it is out of order like any other; the expected PSN follows.
TEST_F(Uc, PsnsWrapAroundAndGoBack)
{
    vt::Params params = calm();
    params.peer_psn = 0xfffffe;
    open(IBV_QPT_UC, params);
    post(3);
    Octets data = pattern(3 * kMtu, 1);
    go(kSendFirst, {}, {data.begin(), data.begin() + kMtu});
    go(kSendMiddle, {}, {data.begin() + kMtu, data.begin() + 2 * kMtu});
    go(kSendLast, {}, {data.begin() + 2 * kMtu, data.end()});
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), 1));
    line->psn = 0x1000;
    works(1);
    line->psn = 0x0800;
    works(2);
}

// 9.8.2: MIDDLE or LAST of nothing is dropped; FIRST or ONLY within a message ends that one.
TEST_F(Uc, BrokenSequencesOfOpcodes)
{
    post(4);
    for (std::uint8_t op : {kSendMiddle, kSendLast, kWriteMiddle, kWriteLast})
        go(op, {}, pattern(kMtu, 1));
    go(kSendLastImm, word(1), pattern(4, 1));
    go(kWriteLastImm, word(1), pattern(4, 1));
    works(0);
    go(kSendFirst, {}, pattern(kMtu, 1));
    works(1);
    go(kSendFirst, {}, pattern(kMtu, 1));
    go(kWriteLast, {}, pattern(10, 1));
    works(2);
    go(kWriteFirst, at(0, 2 * kMtu), pattern(kMtu, 1));
    go(kSendLast, {}, pattern(10, 1));
    works(3);
}

// What cannot be carried out is dropped, and nobody is told: 9.9.3 (class D).
TEST_F(Uc, WhatCannotBeDoneIsDropped)
{
    post(2);
    for (std::uint32_t rkey : {target.rkey() ^ 1, 0U, ~0U})
        go(kWriteOnly, reth(target.address(), rkey, 8), pattern(8, 1));
    go(kWriteOnly, reth(target.address() - 1, target.rkey(), 8), pattern(8, 1));
    go(kWriteOnly, at(target.size() - 7, 8), pattern(8, 1));
    go(kWriteOnly, at(0, 9), pattern(8, 1));
    go(kWriteOnly, at(0, 7), pattern(8, 1));
    go(kWriteFirst, at(0, 0x80000001), pattern(kMtu, 1));
    go(kSendFirst, {}, pattern(kMtu - 4, 1));
    go(kSendOnly, {}, pattern(kMtu + 4, 1));
    for (std::uint8_t op = 0x0c; op < 0x20; op++)
        go(op, Octets(28), {});
    works(0);
    EXPECT_TRUE(vt::all(target.bytes(), 0));
    vt::Buffer deaf = end.buffer(4096, IBV_ACCESS_LOCAL_WRITE);
    go(kWriteOnly, reth(deaf.address(), deaf.rkey(), 8), pattern(8, 1));
    works(1);
    EXPECT_TRUE(vt::all(deaf.bytes(), 0));
}

// As with datagrams: the message is lost, and its receive is there for the next one.
TEST_F(Uc, LongerThanItsReceive)
{
    std::uint64_t before = vt::port_counter(vt::device_a(), "resp_local_length_error");
    line->qp.post_recv(0, {inbox.sge(0, 100)});
    go(kSendOnly, {}, pattern(104, 1));
    go(kSendFirst, {}, pattern(kMtu, 1));
    go(kSendMiddle, {}, pattern(kMtu, 1));
    go(kSendLast, {}, pattern(8, 1));
    EXPECT_EQ(vt::port_counter(vt::device_a(), "resp_local_length_error"), before + 2);
    works(0);
    line->qp.post_recv(1, {inbox.sge(4096, kMtu + 99)});
    go(kSendFirst, {}, pattern(kMtu, 1));
    go(kSendLast, {}, pattern(100, 1));
    EXPECT_TRUE(vt::all(inbox.bytes(4096 + kMtu, 200), 0));
    works(1);
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
}

// 9.8.2: without a receive the message is lost.
TEST_F(Uc, WithoutAReceiveTheMessageIsLost)
{
    const std::uint64_t before = seen();
    go(kSendOnly, {}, pattern(8, 1));
    go(kSendFirst, {}, pattern(kMtu, 1));
    go(kWriteOnlyImm, at(0, 8) + word(1), pattern(8, 1));
    ASSERT_TRUE(vt::eventually([&] { return seen() - before >= 3; }));
    post(1);
    go(kSendLast, {}, pattern(8, 1));
    works(0);
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
}

// Sent with the PSNs in a row, and done when sent: nothing is asked for.
TEST_F(Uc, SendsAsItShould)
{
    vt::Buffer local = end.buffer(4096);
    vt::fill(local.bytes(), 5);
    line->qp.post({SendWr::send({local.sge(0, 300)}).id(1),
                   SendWr::write({local.sge(0, 10)}, {0x1234, 0x77}).imm(9).solicited().id(2)});
    Octets data = pattern(300, 5);
    EXPECT_TRUE(line->gets(
        line->from_device(kSendFirst, line->device_psn, {}, {data.begin(), data.begin() + 256})));
    EXPECT_TRUE(line->gets(
        line->from_device(kSendLast, line->device_psn + 1, {}, {data.begin() + 256, data.end()})));
    Packet packet = line->from_device(kWriteOnlyImm, line->device_psn + 2,
                                      reth(0x1234, 0x77, 10) + word(9),
                                      {data.begin(), data.begin() + 10});
    packet.solicited = true;
    EXPECT_TRUE(line->gets(packet));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
    // Responses mean nothing to it.
    line->send(line->ack_of(line->device_psn, 1, kNakInvalid));
    post(1);
    works(0);
}

class Ud : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        open(IBV_QPT_UD);
    }
    Packet datagram(std::size_t length = 50, std::uint32_t qkey = calm().qkey) const
    {
        return line->request(kSendOnly, deth(qkey, 0xabcdef), pattern(length, 3));
    }
    void received(std::uint64_t id, std::size_t length = 50)
    {
        ibv_wc wc = end.recv_cq.one();
        ASSERT_TRUE(is(wc, id, IBV_WC_RECV));
        ASSERT_EQ(wc.byte_len, 40 + length);
        ASSERT_EQ(wc.src_qp, 0xabcdefU);
        ASSERT_TRUE(wc.wc_flags & IBV_WC_GRH);
        ASSERT_TRUE(vt::filled(inbox.bytes(id * 4096 + 40, length), 3));
    }
};

// 11.4.2.1 and annex A17: 40 bytes for the network header, an IPv4 one at their end, as it came.
TEST_F(Ud, NetworkHeaderComesFirst)
{
    post(1);
    Octets frame = line->frame(datagram());
    peer.send(frame);
    received(0);
    Octets header(inbox.data() + 20, inbox.data() + 40);
    Octets sent(frame.begin() + 14, frame.begin() + 34);
    EXPECT_EQ(header, sent);
    vt::Params params = calm();
    params.family = vt::Family::V6;
    open(IBV_QPT_UD, params);
    post(1);
    frame = line->frame(datagram());
    peer.send(frame);
    received(0);
    EXPECT_EQ(Octets(inbox.data(), inbox.data() + 40),
              Octets(frame.begin() + 14, frame.begin() + 54));
}

TEST_F(Ud, ImmediateAndPsnsInAnyOrder)
{
    post(4);
    std::uint64_t id = 0;
    for (std::uint32_t psn : {0xffffffU, 5U, 5U, 0U}) {
        Packet packet = datagram();
        packet.psn = psn;
        packet.opcode = kUd | kSendOnlyImm;
        packet.extension = packet.extension + word(psn);
        line->send(packet);
        ibv_wc wc = end.recv_cq.one();
        EXPECT_TRUE(is(wc, id++, IBV_WC_RECV));
        EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
        EXPECT_EQ(ntohl(wc.imm_data), psn);
    }
}

// 9.6 (Q_Key check): another one is dropped; one with the upper bit is no
// wildcard.
TEST_F(Ud, QKeys)
{
    post(1);
    for (std::uint32_t qkey : {0U, calm().qkey ^ 1, calm().qkey ^ 0x80000000U, 0x80010000U, ~0U})
        line->send(datagram(50, qkey));
    EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
    line->send(datagram());
    received(0);
}

// 9.8.3: a datagram is one packet; other opcodes of the service are not its.
TEST_F(Ud, OtherOpcodes)
{
    post(1);
    for (std::uint8_t op = 0; op < 0x20; op++)
        if (op != kSendOnly && op != kSendOnlyImm) {
            Packet packet = datagram();
            packet.opcode = kUd | op;
            line->send(packet);
        }
    EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
    line->send(datagram());
    received(0);
    EXPECT_EQ(peer.drain(), 0U);
}

// Lost without a receive, and no error; 9.8.3.
TEST_F(Ud, WithoutAReceive)
{
    const std::uint64_t before = seen();
    line->send(datagram());
    ASSERT_TRUE(vt::eventually([&] { return seen() - before >= 1; }));
    post(1);
    line->send(datagram(0));
    received(0, 0);
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
}

// 9.9.3 lets a datagram that its receive has no room for be a local error. As anybody may send it,
// it is dropped and counted, and the receive is there for the next one.
TEST_F(Ud, LongerThanItsReceive)
{
    std::uint64_t before = vt::port_counter(vt::device_a(), "resp_local_length_error");
    line->qp.post_recv(5, {inbox.sge(0, 89)});
    for (std::size_t length : {50U, 51U, 1000U, 4096U})
        line->send(datagram(length));
    line->send(datagram(49));
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 5, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, 89U);
    EXPECT_TRUE(vt::filled(inbox.bytes(40, 49), 3));
    EXPECT_TRUE(vt::all(inbox.bytes(89, 200), 0));
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
    EXPECT_EQ(vt::port_counter(vt::device_a(), "resp_local_length_error"), before + 4);
}

// With an SRQ the receive is still there for the other QPs.
TEST_F(Ud, LongerThanAReceiveOfManyQps)
{
    vt::Srq srq(end.pd.get(), 16);
    open(IBV_QPT_UD, calm(), {.srq = srq.get()});
    Line other(end, peer, IBV_QPT_UD, calm(), {.srq = srq.get()});
    srq.post(5, {inbox.sge(0, 89)});
    for (std::size_t length : {50U, 1000U, 4096U})
        line->send(datagram(length));
    Packet fits = datagram(49);
    fits.qpn = other.qp.number();
    line->send(fits);
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 5, IBV_WC_RECV));
    EXPECT_EQ(wc.qp_num, other.qp.number());
    EXPECT_TRUE(vt::filled(inbox.bytes(40, 49), 3));
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
    line.reset();
}

// The same to a multicast group: none of its members ends by what somebody else sends there.
TEST_F(Ud, GroupKeepsItsMembers)
{
    const std::array<std::uint8_t, 4> group{239, 20, 0, 9};
    ibv_gid gid{};
    gid.raw[10] = gid.raw[11] = 0xff;
    std::copy(group.begin(), group.end(), gid.raw + 12);
    const vt::Qp &first = line->qp;
    const vt::Qp other(end.pd.get(), end.send_cq.get(), end.recv_cq.get(), {.type = IBV_QPT_UD});
    other.to_init(calm());
    other.to_rtr(calm(), {}, 0);
    for (const vt::Qp *qp : {&first, &other}) {
        ASSERT_EQ(ibv_attach_mcast(qp->get(), &gid, 0), 0);
        qp->post_recv(qp == &other, {inbox.sge(qp == &other ? 4096 : 0, 89)});
    }
    const Route honest = line->route();
    std::copy(group.begin(), group.end(), line->route().target.end() - 4);
    line->route().target_mac = {1, 0, 0x5e, 20, 0, 9};
    auto to_group = [&](Packet packet) {
        packet.qpn = 0xffffff;
        line->send(packet);
    };
    for (std::size_t length : {50U, 1000U, 4096U})
        to_group(datagram(length));
    to_group(datagram(49, calm().qkey + 1));
    for (unsigned op = 0; op < 256; op++)
        if (op != (kUd | kSendOnly) && op != (kUd | kSendOnlyImm)) {
            Packet packet = line->request(0, {}, Octets(60));
            packet.opcode = static_cast<std::uint8_t>(op);
            to_group(packet);
        }
    to_group(datagram(49));
    for (int member = 0; member < 2; member++) {
        ibv_wc wc = end.recv_cq.one();
        EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
        EXPECT_TRUE(vt::filled(inbox.bytes(wc.wr_id * 4096 + 40, 49), 3));
    }
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
    EXPECT_EQ(other.state(), IBV_QPS_RTR);
    line->route() = honest;
    for (const vt::Qp *qp : {&first, &other})
        ASSERT_EQ(ibv_detach_mcast(qp->get(), &gid, 0), 0);
}

TEST_F(Ud, SendsAsItShould)
{
    vt::Buffer local = end.buffer(4096);
    vt::fill(local.bytes(), 3);
    ibv_ah_attr attr = vt::address_of(end.context, end.context);
    attr.grh.dgid = peer.gid(vt::Family::V4);
    vt::Ah ah(vt::need(ibv_create_ah(end.pd.get(), &attr), "ibv_create_ah"));
    line->qp.post(
        {SendWr::send({local.sge(0, 50)}).to(ah.get(), kPeerQpn, 0x22222222).id(1),
         SendWr::send({local.sge(0, 1000)}).to(ah.get(), kPeerQpn, 0x33).imm(7).solicited().id(2)});
    Octets data = pattern(1000, 3);
    std::uint32_t number = line->qp.number();
    EXPECT_TRUE(line->gets(line->from_device(kSendOnly, line->device_psn, deth(0x22222222, number),
                                             {data.begin(), data.begin() + 50})));
    Packet packet = line->from_device(kSendOnlyImm, line->device_psn + 1,
                                      deth(0x33, number) + word(7), data);
    packet.solicited = true;
    EXPECT_TRUE(line->gets(packet));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
}

} // namespace
