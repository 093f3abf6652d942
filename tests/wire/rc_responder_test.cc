// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The peer asks, the device answers: the responder's rules of reliable connections, IBTA volume 1,
/// 9.7.4 (responder), 9.7.5 (acknowledges), 9.9.3 (responder's errors).
#include "lib/responder.h"

using namespace wire;
using vt::is;
using vt::is_error;

namespace {

constexpr std::uint32_t kImmediate = 0x8badf00d;

// ---- what is in order ----

// 9.7.5.1 (an acknowledge for each request that asks for one), 9.7.5.2 (AETH: credits and MSN).
TEST_F(RcResponder, SendOfOnePacket)
{
    post(2);
    line->receives = 1;
    accepted(line->request(kSendOnly, {}, pattern(101, 1)));
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 0, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, 101U);
    EXPECT_TRUE(vt::filled(inbox.bytes(0, 101), 1));
    line->receives = 0;
    accepted(line->request(kSendOnlyImm, word(kImmediate), pattern(kMtu, 2)));
    wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
    EXPECT_EQ(ntohl(wc.imm_data), kImmediate);
    EXPECT_TRUE(vt::filled(inbox.bytes(4096, kMtu), 2));
}

TEST_F(RcResponder, SendOfSeveralPackets)
{
    for (std::uint8_t last : {kSendLast, kSendLastImm, kSendLastInv}) {
        SCOPED_TRACE(int(last));
        open();
        post(1);
        line->receives = 0;
        vt::Buffer gone = end.buffer(64);
        Octets data = pattern(2 * kMtu + 7, last);
        accepted(line->request(kSendFirst, {}, {data.begin(), data.begin() + kMtu}), 0);
        accepted(line->request(kSendMiddle, {}, {data.begin() + kMtu, data.begin() + 2 * kMtu}), 0);
        Octets extension = last == kSendLastImm   ? word(kImmediate)
                           : last == kSendLastInv ? word(gone.rkey())
                                                  : Octets{};
        if (last == kSendLastInv) {
            // Volume 1, "Remote Invalidate": a region as user space registers them cannot be
            // invalidated by a peer.
            no_access(line->request(last, extension, {data.begin() + 2 * kMtu, data.end()}));
            EXPECT_TRUE(is_error(end.recv_cq.one(), 0, IBV_WC_WR_FLUSH_ERR));
            continue;
        }
        accepted(line->request(last, extension, {data.begin() + 2 * kMtu, data.end()}));
        ibv_wc wc = end.recv_cq.one();
        EXPECT_TRUE(is(wc, 0, IBV_WC_RECV));
        EXPECT_EQ(wc.byte_len, data.size());
        EXPECT_EQ(bool(wc.wc_flags & IBV_WC_WITH_IMM), last == kSendLastImm);
        EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), last));
    }
}

TEST_F(RcResponder, WriteOfOnePacketAndOfSeveral)
{
    accepted(line->request(kWriteOnly, at(3, 5), pattern(5, 1)));
    EXPECT_TRUE(vt::filled(target.bytes(3, 5), 1));
    Octets data = pattern(3 * kMtu, 2);
    accepted(line->request(kWriteFirst, at(100, 3 * kMtu), {data.begin(), data.begin() + kMtu}), 0);
    accepted(line->request(kWriteMiddle, {}, {data.begin() + kMtu, data.begin() + 2 * kMtu}), 0);
    accepted(line->request(kWriteLast, {}, {data.begin() + 2 * kMtu, data.end()}));
    EXPECT_TRUE(vt::filled(target.bytes(100, data.size()), 2));
    EXPECT_TRUE(vt::all(target.bytes(8, 92), 0));
    EXPECT_TRUE(vt::all(target.bytes(100 + data.size(), 100), 0));
    EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
}

// 9.4.3: immediate data take a receive, whose memory is not touched; 9.7.5.2.
TEST_F(RcResponder, WriteWithImmediateTakesAReceive)
{
    post(2, 64);
    line->receives = 1;
    accepted(line->request(kWriteOnlyImm, at(0, 9) + word(kImmediate), pattern(9, 1)));
    ibv_wc wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 0, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(wc.byte_len, 9U);
    EXPECT_EQ(ntohl(wc.imm_data), kImmediate);
    Octets data = pattern(kMtu + 1, 2);
    // The receive is taken when the immediate comes, with the last packet.
    accepted(line->request(kWriteFirst, at(9, kMtu + 1), {data.begin(), data.begin() + kMtu}), 0);
    line->receives = 0;
    accepted(line->request(kWriteLastImm, word(7), {data.begin() + kMtu, data.end()}));
    wc = end.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(wc.byte_len, kMtu + 1);
    EXPECT_TRUE(vt::filled(target.bytes(9, kMtu + 1), 2));
    EXPECT_TRUE(vt::all(inbox.bytes(0, 128), 0));
}

// 9.4.4, 9.7.5.2 (the first and the last response have an AETH, those between do not).
TEST_F(RcResponder, ReadIsAnsweredInPackets)
{
    vt::fill(target.bytes(), 5);
    for (std::size_t length : {0UL, 1UL, 255UL, 256UL, 257UL, 512UL, 513UL, 5000UL}) {
        SCOPED_TRACE(length);
        line->send(line->request(kReadRequest, at(0, static_cast<std::uint32_t>(length))));
        line->msn++;
        read_answered(line->psn, length, pattern(length, 5));
        line->psn = psn_add(line->psn, std::max<std::int64_t>(1, (length + kMtu - 1) / kMtu));
    }
    EXPECT_TRUE(line->alive());
}

// 9.4.5: the answer has what stood there before.
TEST_F(RcResponder, AtomicsAreAnsweredWithTheOriginal)
{
    target.word(8) = 1000;
    auto atomic = [&](std::uint8_t op, std::uint64_t swap_add, std::uint64_t compare,
                      std::uint64_t original) {
        line->msn++;
        ASSERT_TRUE(line->answers(
            line->request(op, atomic_eth(target.address(8), target.rkey(), swap_add, compare)),
            line->from_device(kAtomicAck, line->psn,
                              aeth(line->credits(), line->msn) + atomic_ack_eth(original))));
        line->psn++;
    };
    atomic(kFetchAdd, 5, 0, 1000);
    EXPECT_EQ(target.word(8), 1005U);
    atomic(kCompareSwap, 77, 1004, 1005);
    EXPECT_EQ(target.word(8), 1005U);
    atomic(kCompareSwap, 77, 1005, 1005);
    EXPECT_EQ(target.word(8), 77U);
    atomic(kFetchAdd, ~0ULL, 0, 77);
    EXPECT_EQ(target.word(8), 76U);
    EXPECT_EQ(target.word(0), 0U);
    EXPECT_EQ(target.word(16), 0U);
}

// Annex A19 (ATOMIC WRITE is answered like a READ of nothing).
TEST_F(RcResponder, AtomicWriteIsAnsweredLikeAReadOfNothing)
{
    line->msn++;
    ASSERT_TRUE(line->answers(line->request(kAtomicWrite, at(16, 8), pattern(8, 1)),
                              read_answer(kReadOnly, line->psn, {})));
    EXPECT_TRUE(vt::filled(target.bytes(16, 8), 1));
    line->psn++;
    EXPECT_TRUE(line->alive());
}

// 9.7.5.1: acknowledges may be coalesced; where AckReq is not set none is asked for.
TEST_F(RcResponder, OneAcknowledgeForAllThatCameBefore)
{
    post(3);
    line->receives = 0;
    std::vector<Packet> packets;
    for (std::uint8_t i = 0; i < 3; i++) {
        packets.push_back(line->request(kSendOnly, {}, pattern(40, i)));
        packets.back().ack = i == 2;
        line->psn++;
    }
    line->send(packets);
    line->msn = 3;
    EXPECT_TRUE(line->gets(line->ack(line->psn - 1)));
    for (std::uint8_t i = 0; i < 3; i++)
        EXPECT_TRUE(is(end.recv_cq.one(), i, IBV_WC_RECV));
    EXPECT_TRUE(line->alive());
}

// 9.7.2: SE on the packet that ends a message asks for an event.
TEST_F(RcResponder, SolicitedEventIsRaised)
{
    vt::Channel channel(end.context.get());
    vt::Cq cq(end.context.get(), 16, &channel);
    {
        vt::Qp qp(end.pd.get(), end.send_cq.get(), cq.get());
        cq.arm(true);
        vt::Params params = calm();
        ibv_ah_attr attr = vt::address_of(end.context, end.context, params);
        attr.grh.dgid = peer.gid(vt::Family::V4);
        qp.to_init(params);
        qp.to_rtr(params, attr, kPeerQpn);
        qp.to_rts(params);
        qp.post_recv(0);
        qp.post_recv(1);
        Packet packet = line->request(kSendOnly);
        packet.qpn = qp.number();
        line->send(packet);
        cq.one();
        EXPECT_EQ(channel.wait(vt::Millis(1)), nullptr);
        packet.psn++;
        packet.solicited = true;
        line->send(packet);
        EXPECT_EQ(channel.wait(), cq.get());
    }
}

// 11.6.3.1: the first packet that comes before the program has gone to RTS.
TEST_F(RcResponder, CommunicationEstablished)
{
    vt::Params params = calm();
    line->qp.move(IBV_QPS_RESET);
    line->qp.to_init(params);
    ibv_ah_attr attr = vt::address_of(end.context, end.context, params);
    attr.grh.dgid = peer.gid(vt::Family::V4);
    line->qp.to_rtr(params, attr, kPeerQpn);
    EXPECT_TRUE(line->alive());
    end.context.wait_event(IBV_EVENT_COMM_EST, line->qp.get());
}

// ---- credits: 9.7.7.2, table "End-to-End Flow Control Credit Encoding" ----

TEST_F(RcResponder, CreditsTellThePostedReceives)
{
    vt::QpConfig config;
    config.recv_wr = 600;
    open(IBV_QPT_RC, calm(), config);
    for (std::uint32_t more : {0, 1, 1, 1, 1, 1, 1, 1, 4, 1, 4, 8, 40, 64, 128, 255}) {
        post(more, 64);
        EXPECT_TRUE(line->alive()) << line->receives << " receives";
    }
}

// 9.7.7.2: a responder with a shared receive queue says that its credits mean nothing.
TEST_F(RcResponder, NoCreditsWithASharedReceiveQueue)
{
    vt::Srq srq(end.pd.get());
    vt::QpConfig config;
    config.srq = srq.get();
    srq.post(5, {inbox.sge(0, 64)});
    open(IBV_QPT_RC, calm(), config);
    accepted(line->request(kSendOnly, {}, pattern(64, 1)));
    EXPECT_TRUE(is(end.recv_cq.one(), 5, IBV_WC_RECV));
    line.reset();
}

// ---- order of opcodes: 9.7.4.1; 9.9.3 (class C: NAK "invalid request") ----

struct Ask {
    std::uint8_t op;
    char begins, ends; ///< which kind of message: 's', 'w', 'r' (whole messages), or ' '
};

constexpr Ask kAsks[] = {
    {kSendFirst, 's', ' '},    {kSendMiddle, ' ', ' '},  {kSendLast, ' ', 's'},
    {kSendLastImm, ' ', 's'},  {kSendOnly, 's', 's'},    {kSendOnlyImm, 's', 's'},
    {kWriteFirst, 'w', ' '},   {kWriteMiddle, ' ', ' '}, {kWriteLast, ' ', 'w'},
    {kWriteLastImm, ' ', 'w'}, {kWriteOnly, 'w', 'w'},   {kWriteOnlyImm, 'w', 'w'},
    {kReadRequest, 'r', 'r'},  {kCompareSwap, 'r', 'r'}, {kFetchAdd, 'r', 'r'},
    {kSendLastInv, ' ', 's'},  {kSendOnlyInv, 's', 's'}, {kAtomicWrite, 'r', 'r'},
};

class RcOpcodes : public RcResponder {
protected:
    /// A request that is well-formed by itself.
    Packet make(std::uint8_t op)
    {
        Octets full = pattern(kMtu, op);
        Octets some = pattern(20, op);
        switch (op) {
        case kSendFirst:
        case kSendMiddle:
        case kWriteMiddle: return line->request(op, {}, full);
        case kWriteFirst: return line->request(op, at(0, 3 * kMtu), full);
        case kWriteOnly: return line->request(op, at(0, 20), some);
        case kWriteOnlyImm: return line->request(op, at(0, 20) + word(1), some);
        case kReadRequest: return line->request(op, at(0, 20));
        case kAtomicWrite: return line->request(op, at(0, 8), pattern(8, 1));
        case kCompareSwap:
        case kFetchAdd: return line->request(op, atomic_eth(target.address(), target.rkey(), 1, 1));
        case kSendLastImm:
        case kSendOnlyImm:
        case kWriteLastImm:
        case kSendLastInv:
        case kSendOnlyInv: return line->request(op, word(1), some);
        default: return line->request(op, {}, some);
        }
    }
};

// Between messages only what begins one is valid; within one only its own MIDDLE and LAST are.
TEST_F(RcOpcodes, WhatBreaksTheSequenceIsInvalid)
{
    int cases = 0;
    for (char under_way : {' ', 's', 'w'})
        for (const Ask &ask : kAsks) {
            bool send = ask.op <= kSendOnlyImm || ask.op == kSendLastInv || ask.op == kSendOnlyInv;
            bool continues = ask.begins == ' ' && under_way == (send ? 's' : 'w');
            bool begins = ask.begins != ' ' && under_way == ' ';
            if (begins || continues)
                continue;
            SCOPED_TRACE(std::string("opcode ") + std::to_string(ask.op) + " in '" + under_way +
                         "'");
            open();
            post(2);
            if (under_way != ' ') {
                line->receives -= under_way == 's';
                accepted(make(under_way == 's' ? kSendFirst : kWriteFirst), 0);
            }
            invalid(make(ask.op));
            std::vector<ibv_wc> flushed = end.recv_cq.wait(2);
            EXPECT_TRUE(is_error(flushed[0], 0, IBV_WC_WR_FLUSH_ERR));
            EXPECT_TRUE(is_error(flushed[1], 1, IBV_WC_WR_FLUSH_ERR));
            cases++;
        }
    EXPECT_EQ(cases, 7 + 14 + 15);
}

// 9.9.3, "Unsupported or Reserved OpCode": one of the RC service that is in order is invalid.
TEST_F(RcOpcodes, ReservedOnesAreInvalid)
{
    for (std::uint8_t op : {0x15, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1e, 0x1f}) {
        SCOPED_TRACE(int(op));
        open();
        invalid(line->request(op, {}, pattern(32, op)));
    }
}

// 9.6 (header checks): what is not of the QP's service is dropped, whoever it is meant for.
TEST_F(RcOpcodes, ThoseOfOtherServicesAreDropped)
{
    post(1);
    for (int opcode = 0x20; opcode < 0x100; opcode++) {
        if (opcode == (kCnp | 1))
            continue;
        Packet packet = line->request(0, {}, pattern(64, 3));
        packet.opcode = static_cast<std::uint8_t>(opcode);
        line->send(packet);
    }
    EXPECT_TRUE(line->alive());
}

// A QP that does not let peers do that: 9.9.3, the function is not supported.
TEST_F(RcOpcodes, OperationsThatTheQpDoesNotAllowAreInvalid)
{
    vt::Params params = calm();
    params.access = 0;
    for (std::uint8_t op : {kWriteFirst, kWriteOnly, kWriteOnlyImm, kReadRequest, kCompareSwap,
                            kFetchAdd, kAtomicWrite}) {
        SCOPED_TRACE(int(op));
        open(IBV_QPT_RC, params);
        post(1);
        invalid(make(op));
        EXPECT_TRUE(is_error(end.recv_cq.one(), 0, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(vt::all(target.bytes(0, 64), 0));
    }
}

// ---- PSNs: 9.7.1, 9.7.4.1, figure "Packet Sequence Number space" ----

class RcPsn : public RcResponder {
protected:
    /// ATOMICs that add 10 each, from 0 on, and what they are answered.
    void add_tens(std::uint64_t count)
    {
        for (std::uint64_t i = 0; i < count; i++) {
            packets.push_back(
                line->request(kFetchAdd, atomic_eth(target.address(), target.rkey(), 10, 0)));
            line->msn++;
            replies.push_back(line->from_device(
                kAtomicAck, line->psn, aeth(line->credits(), line->msn) + atomic_ack_eth(10 * i)));
            ASSERT_TRUE(line->answers(packets.back(), replies.back()));
            line->psn++;
        }
    }

    std::vector<Packet> packets, replies;
};

// 9.7.5.2, "PSN Sequence Error": one for the gap, at the PSN that is missing.
TEST_F(RcPsn, AheadOfTheExpectedOneIsNakedOnce)
{
    std::uint32_t missing = line->psn;
    Packet first = line->request(kWriteOnly, at(0, 4), pattern(4, 1));
    for (std::uint32_t ahead : {1U, 2U, 3U, 7U, 0x7ffffdU}) {
        Packet packet = line->request(kWriteOnly, at(64, 4), pattern(4, 9));
        packet.psn = psn_add(missing, ahead);
        line->send(packet);
    }
    EXPECT_TRUE(line->gets(line->nak(kNakSequence, missing)));
    EXPECT_TRUE(vt::all(target.bytes(64, 4), 0));
    // Three of them have waited for this one: rc_early.
    line->msn = 4;
    EXPECT_TRUE(line->answers(first, line->ack(psn_add(missing, 3))));
    line->psn = psn_add(missing, 4);
    EXPECT_TRUE(vt::filled(target.bytes(0, 4), 1));
    EXPECT_TRUE(vt::filled(target.bytes(64, 4), 9));
    EXPECT_TRUE(line->alive());
    // The next gap has its own.
    Packet packet = line->request(kWriteOnly, at(64, 4), pattern(4, 9));
    packet.psn = psn_add(packet.psn, 0x10000);
    EXPECT_TRUE(line->answers(packet, line->nak(kNakSequence, line->psn)));
    EXPECT_TRUE(line->alive());
}

// The circle's other half is behind: 9.7.1, a duplicate is up to 2^23 PSNs old.
TEST_F(RcPsn, HalfTheCircleIsBehind)
{
    Packet packet = line->request(kSendOnly, {}, pattern(4, 9));
    accepted(line->request(kWriteOnly, at(0, 4), pattern(4, 1)));
    packet.psn = psn_add(line->psn, -0x7fffff);
    EXPECT_TRUE(line->answers(packet, line->ack(line->psn - 1)));
    packet.psn = psn_add(line->psn, 0x7ffffe);
    EXPECT_TRUE(line->answers(packet, line->nak(kNakSequence, line->psn)));
    EXPECT_TRUE(line->alive());
}

// 9.7.5.1.3: a repeated SEND or WRITE is acknowledged, up to the newest, and not carried out again.
TEST_F(RcPsn, RepeatedSendAndWriteAreAcknowledgedOnly)
{
    post(2);
    line->receives = 1;
    Packet send = line->request(kSendOnly, {}, pattern(50, 1));
    accepted(send);
    Packet write = line->request(kWriteOnly, at(0, 50), pattern(50, 2));
    accepted(write);
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
    vt::fill(target.bytes(0, 50), 3);
    vt::fill(inbox.bytes(0, 50), 4);
    for (int i = 0; i < 2; i++) {
        EXPECT_TRUE(line->answers(send, line->ack(write.psn)));
        EXPECT_TRUE(line->answers(write, line->ack(write.psn)));
    }
    EXPECT_TRUE(vt::filled(target.bytes(0, 50), 3));
    EXPECT_TRUE(vt::filled(inbox.bytes(0, 50), 4));
    EXPECT_TRUE(line->alive());
    EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
}

// The same within a message: the packet that comes again changes nothing.
TEST_F(RcPsn, RepeatedPacketsOfAMessageUnderWay)
{
    post(1);
    line->receives = 0;
    Octets data = pattern(3 * kMtu, 1);
    Packet first = line->request(kSendFirst, {}, {data.begin(), data.begin() + kMtu});
    accepted(first, 0);
    Packet middle = line->request(kSendMiddle, {}, {data.begin() + kMtu, data.begin() + 2 * kMtu});
    accepted(middle, 0);
    EXPECT_TRUE(line->answers(first, line->ack(middle.psn)));
    EXPECT_TRUE(line->answers(middle, line->ack(middle.psn)));
    accepted(line->request(kSendLast, {}, {data.begin() + 2 * kMtu, data.end()}));
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), 1));
}

// 9.7.5.1.3: a repeated READ is carried out again, on memory as it is then.
TEST_F(RcPsn, RepeatedReadIsDoneAgain)
{
    vt::fill(target.bytes(), 1);
    Packet read = line->request(kReadRequest, at(0, 3 * kMtu));
    std::uint32_t psn = line->psn;
    line->send(read);
    line->msn++;
    read_answered(psn, 3 * kMtu, pattern(3 * kMtu, 1));
    line->psn += 3;
    vt::fill(target.bytes(), 2);
    line->send(read);
    read_answered(psn, 3 * kMtu, pattern(3 * kMtu, 2));
    // The rest only, from its second packet on.
    Packet rest = read;
    rest.psn = psn_add(psn, 1);
    rest.extension = at(kMtu, 2 * kMtu);
    line->send(rest);
    Octets all = pattern(3 * kMtu, 2);
    read_answered(rest.psn, 2 * kMtu, {all.begin() + kMtu, all.end()});
    EXPECT_TRUE(line->alive());
}

// What says it is a repeated READ and asks for something else is not answered; 9.7.5.1.3 has the
// responder check that it lies within the original.
TEST_F(RcPsn, RepeatedReadOfSomethingElseIsDropped)
{
    vt::Buffer other = end.buffer(4096);
    Packet read = line->request(kReadRequest, at(0, 2 * kMtu));
    line->send(read);
    line->msn++;
    read_answered(line->psn, 2 * kMtu, Octets(2 * kMtu));
    line->psn += 2;
    for (const Octets &extension :
         {at(0, 2 * kMtu + 1), at(1, kMtu), reth(other.address(), other.rkey(), 2 * kMtu),
          at(0, 0x7fffffff), reth(target.address(), target.rkey() ^ 1, 2 * kMtu)}) {
        read.extension = extension;
        line->send(read);
    }
    EXPECT_TRUE(line->alive());
}

// 9.7.5.1.3: a repeated ATOMIC is answered with what was saved.
TEST_F(RcPsn, RepeatedAtomicsAreAnsweredFromWhatWasSaved)
{
    ASSERT_NO_FATAL_FAILURE(add_tens(16));
    for (std::size_t i = 0; i < packets.size(); i += 5)
        EXPECT_TRUE(line->answers(packets[i], replies[i]));
    EXPECT_EQ(target.word(0), 160U);
    EXPECT_TRUE(line->alive());
}

// 11.2.5.2 lets the program change in SQD how many are remembered: the newest still are.
TEST_F(RcPsn, AnswersOutliveAChangeOfTheirNumber)
{
    ASSERT_NO_FATAL_FAILURE(add_tens(6));
    ASSERT_EQ(line->qp.move(IBV_QPS_SQD), 0);
    for (std::uint8_t most : {4, 100, 5}) {
        SCOPED_TRACE(int(most));
        ibv_qp_attr attr{};
        attr.qp_state = IBV_QPS_SQD;
        attr.max_dest_rd_atomic = most;
        ASSERT_EQ(line->qp.modify(attr, IBV_QP_STATE | IBV_QP_MAX_DEST_RD_ATOMIC), 0);
        for (std::size_t i = 2; i < packets.size(); i++)
            EXPECT_TRUE(line->answers(packets[i], replies[i]));
        EXPECT_TRUE(line->ignores(packets[1]));
    }
    EXPECT_EQ(target.word(0), 60U);
}

// The device has promised to remember max_dest_rd_atomic of them; older ones get no wrong answer.
TEST_F(RcPsn, AtomicsThatAreTooOldAreNotAnswered)
{
    vt::Params params = calm();
    params.dest_rd_atomic = 2;
    open(IBV_QPT_RC, params);
    Packet first = line->request(kFetchAdd, atomic_eth(target.address(), target.rkey(), 1, 0));
    Packet next = first;
    for (std::uint64_t i = 0; i < 3; i++, next.psn++) {
        line->msn++;
        ASSERT_TRUE(line->answers(
            next, line->from_device(kAtomicAck, next.psn,
                                    aeth(line->credits(), line->msn) + atomic_ack_eth(i))));
    }
    line->psn = next.psn;
    EXPECT_TRUE(line->ignores(first));
    EXPECT_EQ(target.word(0), 3U);
}

// The PSN circle closes in the middle of messages: 9.7.1 (modulo 2^24).
TEST_F(RcPsn, WrapsAround)
{
    vt::fill(target.bytes(), 7);
    for (std::uint32_t before = 1; before <= 4; before++) {
        SCOPED_TRACE(before);
        vt::Params params = calm();
        params.peer_psn = 0x1000000 - before;
        open(IBV_QPT_RC, params);
        post(1);
        line->receives = 0;
        Octets data = pattern(3 * kMtu, before);
        Packet first = line->request(kSendFirst, {}, {data.begin(), data.begin() + kMtu});
        accepted(first, 0);
        accepted(line->request(kSendMiddle, {}, {data.begin() + kMtu, data.begin() + 2 * kMtu}), 0);
        // Ahead of and behind what is expected, on both sides of zero.
        Packet ahead = line->request(kSendLast, {}, pattern(3, 3));
        ahead.psn = psn_add(line->psn, 2);
        EXPECT_TRUE(line->answers(ahead, line->nak(kNakSequence, line->psn)));
        EXPECT_TRUE(line->answers(first, line->ack(psn_add(line->psn, -1))));
        accepted(line->request(kSendLast, {}, {data.begin() + 2 * kMtu, data.end()}));
        EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
        EXPECT_TRUE(vt::filled(inbox.bytes(0, data.size()), before));
        std::uint32_t psn = line->psn;
        Packet read = line->request(kReadRequest, at(0, 4 * kMtu));
        line->msn++;
        for (int twice = 0; twice < 2; twice++) {
            line->send(read);
            read_answered(psn, 4 * kMtu, pattern(4 * kMtu, 7));
        }
        line->psn = psn_add(line->psn, 4);
        EXPECT_TRUE(line->alive());
    }
}

// ---- receiver not ready: 9.7.5.2.8 ----

class RcRnr : public RcResponder {};

TEST_F(RcRnr, NakHasTheTimerOfTheQp)
{
    for (std::uint8_t timer = 0; timer < 32; timer++) {
        vt::Params params = calm();
        params.min_rnr_timer = timer;
        open(IBV_QPT_RC, params);
        Packet send = line->request(kSendOnly, {}, pattern(9, timer));
        EXPECT_TRUE(line->answers(send, line->nak(kRnrNak | timer, line->psn)));
        post(1);
        line->receives = 0;
        accepted(send);
        EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
        EXPECT_TRUE(vt::filled(inbox.bytes(0, 9), timer));
    }
}

// Nothing of a message without a receive is carried out, nor what follows it, which needs no NAK.
TEST_F(RcRnr, WhatFollowsWaits)
{
    Packet send = line->request(kSendOnly, {}, pattern(9, 1));
    Packet write = line->request(kWriteOnly, at(0, 9), pattern(9, 2));
    write.psn++;
    std::uint8_t rnr = kRnrNak | calm().min_rnr_timer;
    line->send({send, write});
    EXPECT_TRUE(line->gets(line->nak(rnr, send.psn)));
    EXPECT_TRUE(line->answers(send, line->nak(rnr, send.psn)));
    EXPECT_TRUE(vt::all(target.bytes(0, 9), 0));
    post(1);
    line->receives = 0;
    line->msn = 2;
    EXPECT_TRUE(line->answers(send, line->ack(write.psn)));
    EXPECT_TRUE(vt::filled(target.bytes(0, 9), 2));
    EXPECT_TRUE(line->answers(write, line->ack(write.psn)));
}

TEST_F(RcRnr, EveryRequestThatNeedsAReceive)
{
    std::uint8_t rnr = kRnrNak | calm().min_rnr_timer;
    EXPECT_TRUE(
        line->answers(line->request(kSendFirst, {}, pattern(kMtu, 1)), line->nak(rnr, line->psn)));
    EXPECT_TRUE(line->answers(line->request(kSendOnlyImm, word(1), pattern(kMtu, 1)),
                              line->nak(rnr, line->psn)));
    EXPECT_TRUE(line->answers(line->request(kSendOnlyInv, word(1), pattern(kMtu, 1)),
                              line->nak(rnr, line->psn)));
    EXPECT_TRUE(line->answers(line->request(kWriteOnlyImm, at(0, 9) + word(1), pattern(9, 1)),
                              line->nak(rnr, line->psn)));
    EXPECT_TRUE(vt::all(target.bytes(0, 9), 0));
    Octets data = pattern(kMtu + 9, 3);
    accepted(line->request(kWriteFirst, at(0, kMtu + 9), {data.begin(), data.begin() + kMtu}), 0);
    Packet last = line->request(kWriteLastImm, word(1), {data.begin() + kMtu, data.end()});
    EXPECT_TRUE(line->answers(last, line->nak(rnr, line->psn)));
    EXPECT_TRUE(vt::all(target.bytes(kMtu, 9), 0));
    post(1);
    line->receives = 0;
    accepted(last);
    EXPECT_TRUE(vt::filled(target.bytes(0, data.size()), 3));
}

} // namespace
