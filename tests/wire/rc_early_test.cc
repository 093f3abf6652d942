// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Requests that come before their turn: kept, and executed in their turn as if they had come then.
/// IBTA volume 1, 9.7.4.1 (order), 9.7.5.1.2 (coalesced acknowledges), 9.7.5.2.4 (one NAK for a
/// gap). The bounds are the device's own, see Documentation/security.md.
#include "lib/responder.h"

#include "../verbs/lib/rdmatool.h"

using namespace wire;
using vt::is;
using vt::is_error;

namespace {

/// How far ahead a request is kept (Documentation/design.md).
constexpr std::uint32_t kFarthest = 4096;
/// Bytes of memory that a QP and the device keep.
constexpr std::size_t kQpBytes = 2U << 20;
constexpr std::size_t kDeviceBytes = 64U << 20;

class RcEarly : public RcResponder {
protected:
    /// @p packet with a PSN that is @p ahead of the line's next one.
    Packet ahead(Packet packet, std::uint32_t ahead) const
    {
        packet.psn = psn_add(line->psn, ahead);
        return packet;
    }
    /// WRITE of one packet.
    Packet write(std::size_t offset, std::uint32_t length, std::uint64_t seed) const
    {
        return line->request(kWriteOnly, at(offset, length), pattern(length, seed));
    }
    /// The NAK for the gap at the line's next PSN.
    Packet gap() const { return line->nak(kNakSequence, line->psn); }
    /// @p packet fills the gap: it and what was kept is executed, @p packets with @p messages in
    /// all, and one ACK says so.
    void fills(const Packet &packet, std::uint32_t packets, std::uint32_t messages)
    {
        line->msn = psn_add(line->msn, messages);
        ASSERT_TRUE(line->answers(packet, line->ack(psn_add(packet.psn, packets - 1))));
        line->psn = psn_add(packet.psn, packets);
    }
    static std::uint64_t kept() { return vt::port_counter(vt::device_a(), "rx_early_kept"); }
};

TEST_F(RcEarly, ExecutedInOrderWithOneAcknowledge)
{
    std::uint64_t before = kept();
    // All to the same place: the last one is what stays.
    std::vector<Packet> packets;
    for (std::uint32_t i : {1, 2, 3, 4})
        packets.push_back(ahead(write(0, 64, i), i));
    line->send(packets);
    ASSERT_TRUE(line->gets(gap()));
    EXPECT_EQ(kept() - before, 4U);
    EXPECT_TRUE(vt::all(target.bytes(0, 64), 0));
    fills(write(0, 128, 9), 5, 5);
    EXPECT_TRUE(vt::filled(target.bytes(0, 64), 4));
    EXPECT_FALSE(vt::all(target.bytes(64, 64), 0));
    // What the sender repeats meanwhile was executed: it is told so, and nothing happens again.
    vt::fill(target.bytes(0, 64), 7);
    EXPECT_TRUE(line->answers(packets[1], line->ack(psn_add(line->psn, -1))));
    EXPECT_TRUE(vt::filled(target.bytes(0, 64), 7));
    EXPECT_TRUE(line->alive());
}

// A message in pieces, some early; immediate data; the receives are taken in order.
TEST_F(RcEarly, SendsTakeTheirReceivesInOrder)
{
    post(3);
    Octets data = pattern(3 * kMtu + 5, 1);
    auto part = [&](std::uint8_t op, std::size_t from, std::size_t to, Octets extension = {}) {
        return line->request(op, std::move(extension),
                             {data.begin() + static_cast<std::ptrdiff_t>(from),
                              data.begin() + static_cast<std::ptrdiff_t>(to)});
    };
    std::vector<Packet> packets = {
        ahead(part(kSendLastImm, 3 * kMtu, data.size(), word(77)), 3),
        ahead(part(kSendMiddle, 2 * kMtu, 3 * kMtu), 2),
        ahead(line->request(kSendOnly, {}, pattern(40, 2)), 4),
        ahead(line->request(kWriteOnlyImm, at(0, 50) + word(78), pattern(50, 3)), 5),
        // Not asked to acknowledge: it does, as the sender is to stop repeating.
        ahead(part(kSendFirst, 0, kMtu), 0),
    };
    for (Packet &packet : packets)
        packet.ack = false;
    line->send(packets);
    ASSERT_TRUE(line->gets(line->nak(kNakSequence, line->psn)));
    ASSERT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
    line->psn++;
    line->receives = 0;
    fills(part(kSendMiddle, kMtu, 2 * kMtu), 5, 3);
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 0, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, data.size());
    EXPECT_EQ(ntohl(wc.imm_data), 77U);
    EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), 1));
    wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_TRUE(vt::filled(inbox.bytes(4096, 40), 2));
    wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 2, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(ntohl(wc.imm_data), 78U);
    EXPECT_TRUE(vt::filled(target.bytes(0, 50), 3));
    EXPECT_TRUE(line->alive());
}

// Each is answered by itself, in its turn, and sees what those before it have done.
TEST_F(RcEarly, ReadsAndAtomicsAreAnsweredInTheirTurn)
{
    target.word(0) = 1000;
    Octets add = atomic_eth(target.address(), target.rkey(), 5, 0);
    line->send({ahead(line->request(kReadRequest, at(64, 2 * kMtu)), 1),
                ahead(line->request(kFetchAdd, add), 3),
                ahead(line->request(kAtomicWrite, at(8, 8), pattern(8, 6)), 4),
                ahead(line->request(kFetchAdd, add), 5),
                ahead(line->request(kReadRequest, at(8, 8)), 6)});
    ASSERT_TRUE(line->gets(gap()));
    EXPECT_EQ(target.word(0), 1000U);
    std::uint32_t psn = line->psn;
    line->send(write(64, kMtu, 2));
    Octets read = pattern(kMtu, 2);
    read.resize(2 * kMtu);
    line->msn = 2;
    read_answered(psn + 1, 2 * kMtu, read);
    for (std::uint64_t original : {1000, 1005}) {
        line->msn++;
        ASSERT_TRUE(line->gets(
            line->from_device(kAtomicAck, original == 1000 ? psn + 3 : psn + 5,
                              aeth(line->credits(), line->msn) + atomic_ack_eth(original))));
        line->msn++;
        if (original == 1000) {
            ASSERT_TRUE(line->gets(read_answer(kReadOnly, psn + 4, {})));
        } else {
            ASSERT_TRUE(line->gets(read_answer(kReadOnly, psn + 6, pattern(8, 6))));
        }
    }
    EXPECT_EQ(target.word(0), 1010U);
    line->psn = psn + 7;
    EXPECT_TRUE(line->alive());
}

// 9.7.5.2.4: one for the gap. When what is kept comes once more the sender has begun anew, and lost
// the same again; what comes for the first time, though late, has been overtaken on its way.
TEST_F(RcEarly, OneNakForAGapUntilTheSenderBeginsAnew)
{
    std::vector<Packet> packets;
    for (std::uint32_t i : {4, 5, 2, 6, 1, 3})
        packets.push_back(ahead(write(0, 4, i), i));
    line->send(packets);
    ASSERT_TRUE(line->gets(gap()));
    ASSERT_TRUE(line->answers(packets[4], gap())); // 1, after 3
    line->send({packets[2], packets[5], packets[0]});
    ASSERT_TRUE(line->answers(packets[2], gap())); // 2, after 4
    fills(write(0, 4, 9), 7, 7);
    EXPECT_TRUE(vt::filled(target.bytes(0, 4), 6));
    EXPECT_TRUE(line->alive());
}

// A second gap: an ACK up to it; its NAK when the sender's repetition shows that it is there still.
TEST_F(RcEarly, TwoGaps)
{
    std::vector<Packet> packets;
    for (std::uint32_t i : {1, 2, 4, 5})
        packets.push_back(ahead(write(0, 4, i), i));
    Packet second = ahead(write(0, 4, 3), 3);
    line->send(packets);
    ASSERT_TRUE(line->gets(gap()));
    fills(write(0, 4, 9), 3, 3);
    EXPECT_TRUE(vt::filled(target.bytes(0, 4), 2));
    ASSERT_TRUE(line->answers(packets[2], gap()));
    fills(second, 3, 3);
    EXPECT_TRUE(vt::filled(target.bytes(0, 4), 5));
    EXPECT_TRUE(line->alive());
}

TEST_F(RcEarly, TheFirstOfARequestThatComesTwiceCounts)
{
    post(1);
    std::uint64_t before = kept();
    Packet send = ahead(line->request(kSendOnly, {}, pattern(30, 1)), 1);
    Packet other = ahead(write(0, 30, 2), 1);
    Packet broken = ahead(write(32, 30, 3), 2);
    broken.icrc_error = 1;
    line->send(send);
    ASSERT_TRUE(line->gets(gap()));
    for (int i = 0; i < 3; i++)
        ASSERT_TRUE(line->answers(i % 2 ? send : other, gap()));
    line->send(broken);
    EXPECT_EQ(kept() - before, 1U);
    line->receives = 0;
    fills(write(64, 30, 4), 2, 2);
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(vt::filled(inbox.bytes(0, 30), 1));
    EXPECT_TRUE(vt::all(target.bytes(0, 64), 0));
    EXPECT_TRUE(line->alive());
}

TEST_F(RcEarly, NoFartherAheadThanTheLimit)
{
    std::uint64_t before = kept();
    line->send({ahead(write(0, 8, 1), kFarthest), ahead(write(8, 8, 2), kFarthest + 1),
                ahead(write(8, 8, 2), 0x7ffffe)});
    ASSERT_TRUE(line->gets(gap()));
    EXPECT_EQ(kept() - before, 1U);
    std::vector<Packet> between;
    for (std::uint32_t i = 0; i < kFarthest; i++) {
        between.push_back(ahead(line->request(kWriteOnly, reth(0, 0, 0)), i));
        between.back().ack = false;
    }
    line->send(between);
    line->msn = kFarthest + 1;
    line->psn = psn_add(line->psn, kFarthest + 1);
    ASSERT_TRUE(line->gets(line->ack(psn_add(line->psn, -1))));
    EXPECT_TRUE(vt::filled(target.bytes(0, 8), 1));
    EXPECT_TRUE(line->alive());
    EXPECT_TRUE(vt::all(target.bytes(8, 8), 0));
}

class RcEarlyLimits : public RcEarly {
protected:
    static constexpr std::uint32_t kLarge = 4096;

    void SetUp() override
    {
        WireTest::SetUp();
        vt::Params params = calm();
        params.mtu = IBV_MTU_4096;
        open(IBV_QPT_RC, params);
        Packet packet = line->request(kWriteOnly, at(0, kLarge), pattern(kLarge, 1));
        // The memory of a frame is more than its length, but not much more than twice that.
        for (std::uint32_t i = 0; i < kQpBytes / kLarge * 2 / 3; i++) {
            packet.psn = psn_add(packet.psn, 1);
            frames.push_back(line->frame(packet));
        }
    }
    /// Sends more than is kept, behind a gap.
    void fill_up()
    {
        peer.send_all(frames);
        ASSERT_TRUE(line->gets(gap()));
    }
    /// The same; returns how many packets are kept.
    std::uint64_t filled_up()
    {
        std::uint64_t before = kept();
        fill_up();
        return kept() - before;
    }

    std::vector<Octets> frames; ///< from the PSN behind the first one on
};

TEST_F(RcEarlyLimits, NoMoreBytesOfAQueuePair)
{
    std::uint64_t count = filled_up();
    EXPECT_GT(count, kQpBytes / kLarge / 8);
    EXPECT_LT(count, frames.size());
    EXPECT_LE(count * kLarge, kQpBytes);
    // What was not kept is missing when its turn comes. There may be an ACK for each run.
    line->send(write(0, 8, 2));
    line->msn = static_cast<std::uint32_t>(count) + 1;
    line->psn = psn_add(line->psn, line->msn);
    Received ack = line->get();
    while (ack.packet.psn != psn_add(line->psn, -1) && ack.syndrome() == line->credits())
        ack = line->get();
    EXPECT_EQ(ack.packet.extension, line->ack(0).extension);
    line->skip_late_acks();
    EXPECT_TRUE(line->alive());
}

// Whatever ends what is kept gives back its memory: else the device would soon keep no more.
TEST_F(RcEarlyLimits, NothingIsLeftOfQueuePairsThatEnd)
{
    std::uint64_t count = filled_up();
    ASSERT_GT(count, 0U);
    for (std::size_t i = 0; i < kDeviceBytes / kQpBytes + 4; i++) {
        SCOPED_TRACE(i);
        if (i % 2 == 0) {
            // Not invalid(): what it sends at last may come when the QP has begun anew.
            Packet wrong = line->request(kSendMiddle, {}, pattern(kLarge, 1));
            ASSERT_TRUE(line->answers(wrong, line->nak(kNakInvalid, line->psn)));
            ASSERT_TRUE(line->qp.reaches(IBV_QPS_ERR));
        }
        line->qp.move(IBV_QPS_RESET);
        line->connect();
        fill_up();
    }
    line->qp.move(IBV_QPS_RESET);
    line->connect();
    EXPECT_GE(filled_up(), count);
}

// The key was right when the packet came, and is gone when its turn has come.
TEST_F(RcEarly, KeysAreCheckedInTheirTurn)
{
    vt::Memory memory(4096);
    vt::MrHandle mr = vt::reg_mr(end.pd.get(), memory.data(), memory.size());
    Packet packet = ahead(
        line->request(kWriteOnly,
                      reth(reinterpret_cast<std::uintptr_t>(memory.data()), mr->rkey, 8),
                      pattern(8, 1)),
        1);
    Packet after = ahead(write(8, 8, 2), 2);
    line->send({packet, after});
    ASSERT_TRUE(line->gets(gap()));
    mr.reset();
    line->msn = 1;
    ASSERT_TRUE(line->answers(write(0, 8, 3), line->nak(kNakAccess, packet.psn)));
    ASSERT_TRUE(line->qp.reaches(IBV_QPS_ERR));
    end.context.wait_event(IBV_EVENT_QP_ACCESS_ERR, line->qp.get());
    EXPECT_TRUE(vt::filled(target.bytes(0, 8), 3));
    EXPECT_TRUE(vt::all(target.bytes(8, 8), 0));
    EXPECT_TRUE(vt::all(memory.bytes(), 0));
}

// Without a receive: RNR NAK in its turn, and what is kept behind it waits for its repetition.
TEST_F(RcEarly, ReceiverNotReadyInItsTurn)
{
    std::uint8_t rnr = kRnrNak | calm().min_rnr_timer;
    Packet send = ahead(line->request(kSendOnly, {}, pattern(9, 1)), 1);
    line->send({send, ahead(write(0, 9, 2), 2)});
    ASSERT_TRUE(line->gets(gap()));
    line->msn = 1;
    ASSERT_TRUE(line->answers(write(16, 9, 3), line->nak(rnr, send.psn)));
    line->psn = send.psn;
    EXPECT_TRUE(line->answers(send, line->nak(rnr, send.psn)));
    EXPECT_TRUE(vt::all(target.bytes(0, 9), 0));
    post(1);
    line->receives = 0;
    fills(send, 2, 2);
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(vt::filled(target.bytes(0, 9), 2));
    EXPECT_TRUE(line->alive());
}

// What the kept ones are is looked at in their turn as well: here the rest of a message is missing.
TEST_F(RcEarly, OrderOfOpcodesIsCheckedInItsTurn)
{
    line->send(ahead(line->request(kReadRequest, at(0, 8)), 1));
    ASSERT_TRUE(line->gets(gap()));
    line->send(line->request(kWriteFirst, at(64, 2 * kMtu), pattern(kMtu, 1)));
    ASSERT_TRUE(line->gets(line->nak(kNakInvalid, psn_add(line->psn, 1))));
    ASSERT_TRUE(line->qp.reaches(IBV_QPS_ERR));
    end.context.wait_event(IBV_EVENT_QP_REQ_ERR, line->qp.get());
}

TEST_F(RcEarly, WrapsAround)
{
    for (std::uint32_t before = 0; before <= 5; before++) {
        SCOPED_TRACE(before);
        vt::Params params = calm();
        params.peer_psn = (0x1000000 - before) & kMask24;
        open(IBV_QPT_RC, params);
        std::vector<Packet> packets;
        for (std::uint32_t i : {5, 2, 1, 4, 3})
            packets.push_back(ahead(write(0, 64, i + 10 * before), i));
        line->send(packets);
        ASSERT_TRUE(line->gets(gap()));
        fills(write(0, 64, 9), 6, 6);
        EXPECT_TRUE(vt::filled(target.bytes(0, 64), 5 + 10 * before));
        EXPECT_TRUE(line->alive());
    }
}

} // namespace
