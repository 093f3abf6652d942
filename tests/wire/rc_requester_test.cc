// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The device asks, the peer answers: the requester's rules of reliable connections, IBTA volume 1,
/// 9.7.3 (requests), 9.7.5.2 (AETH), 9.7.6 (what a requester does with responses), 9.9.2 (its
/// errors).
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "../verbs/lib/cm.h"
#include "../verbs/lib/rdmatool.h"
#include "../verbs/lib/window.h"
#include "lib/requester.h"

using namespace wire;
using vt::is;
using vt::is_error;
using vt::SendWr;

namespace {

// ---- requests as they should be: 9.2 to 9.4, 9.7.3 ----

TEST_F(RcRequester, SendsAndWritesOfAllKindsOfLengths)
{
    vt::fill(local.bytes(), 5);
    std::uint32_t next = psn();
    for (bool write : {false, true})
        for (std::size_t length : {0, 1, 2, 3, 255, 256, 257, 512, 600, 1024}) {
            SCOPED_TRACE(length);
            line->qp.post(write ? SendWr::write({local.sge(0, length)}, kRemote).id(1)
                                : send(length));
            std::vector<Packet> packets = message(write, next, length);
            comes(packets);
            next = psn_add(packets.back().psn, 1);
            acknowledge(packets.back().psn);
            ASSERT_TRUE(is(end.send_cq.one(), 1, write ? IBV_WC_RDMA_WRITE : IBV_WC_SEND));
        }
}

TEST_F(RcRequester, SendsAndWritesOverIpv6WithTrafficClass)
{
    vt::Params params = calm();
    params.family = vt::Family::V6;
    params.traffic_class = 0xa8;
    params.flow_label = 0x12345;
    open(IBV_QPT_RC, params);
    vt::fill(local.bytes(), 5);
    line->qp.post({send(600), SendWr::write({local.sge(0, 300)}, kRemote).id(2)});
    comes(message(false, psn(), 600));
    comes(message(true, psn() + 3, 300));
    line->send(line->ack_of(psn() + 4, 2));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
}

/// While it lives, the route to the peer has this hop limit: where the RDMA core takes it from.
class HopLimit {
public:
    HopLimit(vt::Family family, int limit) : v6_(family == vt::Family::V6)
    {
        run("replace", " hoplimit " + std::to_string(limit));
    }
    ~HopLimit() { run("delete", ""); }
    HopLimit(const HopLimit &) = delete;
    HopLimit &operator=(const HopLimit &) = delete;

private:
    void run(const std::string &verb, const std::string &more) const
    {
        std::string command = std::string(v6_ ? "ip -6" : "ip") + " route " + verb + " " +
                              vt::variable(v6_ ? "ROX_ADDR6_B" : "ROX_ADDR_B") +
                              (v6_ ? "/128" : "/32") + " dev " + vt::variable("ROX_NETDEV_A");
        EXPECT_EQ(std::system((command + more).c_str()), 0) << command << more;
    }

    bool v6_;
};

TEST_F(RcRequester, HopLimitIsTheRoutes)
{
    for (vt::Family family : {vt::Family::V4, vt::Family::V6}) {
        for (std::uint8_t limit : {9, 200}) {
            SCOPED_TRACE(limit);
            HopLimit route(family, limit);
            vt::Params params = calm();
            params.family = family;
            params.hop_limit = limit; // what comes is compared with it
            open(IBV_QPT_RC, params);
            vt::fill(local.bytes(), 5);
            line->qp.post(send(600));
            comes(message(false, psn(), 600));
            line->send(line->ack_of(psn() + 2, 1));
            EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
        }
    }
}

TEST_F(RcRequester, ImmediateInvalidateAndSolicited)
{
    vt::fill(local.bytes(), 5);
    Octets bytes(local.data(), local.data() + 10);
    line->qp.post(send(10).imm(0xcafe0123).solicited());
    Packet packet = asking(kSendOnlyImm, psn(), word(0xcafe0123), bytes);
    packet.solicited = true;
    EXPECT_TRUE(line->gets(packet));
    line->qp.post(SendWr::write({local.sge(0, 10)}, kRemote).imm(7).id(2));
    EXPECT_TRUE(line->gets(asking(kWriteOnlyImm, psn() + 1,
                                  reth(kRemote.address, kRemote.rkey, 10) + word(7), bytes)));
    SendWr invalidate = send(10, 3);
    invalidate.fields().opcode = IBV_WR_SEND_WITH_INV;
    invalidate.fields().invalidate_rkey = 0x01020304;
    line->qp.post(invalidate);
    EXPECT_TRUE(line->gets(asking(kSendOnlyInv, psn() + 2, word(0x01020304), bytes)));
    line->qp.post(SendWr::write({local.sge(0, 300)}, kRemote).imm(8).solicited().id(4));
    Packet first = message(true, psn() + 3, 300)[0];
    EXPECT_TRUE(line->gets(first));
    Packet last = asking(kWriteLastImm, psn() + 4, word(8),
                         {local.data() + 256, local.data() + 300});
    last.solicited = true;
    EXPECT_TRUE(line->gets(last));
    line->send(line->ack_of(psn() + 4, 4));
    EXPECT_EQ(end.send_cq.wait(4).back().wr_id, 4U);
}

TEST_F(RcRequester, ReadAndAtomics)
{
    line->qp.post({SendWr::read({local.sge(0, 600)}, kRemote).id(1),
                   SendWr::fetch_add(local.sge(1024, 8), kRemote, 5).id(2),
                   SendWr::compare_swap(local.sge(1032, 8), kRemote, 6, 7).id(3)});
    EXPECT_TRUE(line->gets(asking(kReadRequest, psn(), reth(kRemote.address, kRemote.rkey, 600))));
    EXPECT_TRUE(
        line->gets(asking(kFetchAdd, psn() + 3, atomic_eth(kRemote.address, kRemote.rkey, 5, 0))));
    EXPECT_TRUE(line->gets(
        asking(kCompareSwap, psn() + 4, atomic_eth(kRemote.address, kRemote.rkey, 7, 6))));
    Octets data = pattern(600, 3);
    line->send(
        {line->response(kReadFirst, psn(), aeth(kNoCredits, 1), {data.begin(), data.begin() + 256}),
         line->response(kReadMiddle, psn() + 1, {}, {data.begin() + 256, data.begin() + 512}),
         line->response(kReadLast, psn() + 2, aeth(kNoCredits, 1),
                        {data.begin() + 512, data.end()}),
         line->response(kAtomicAck, psn() + 3, aeth(kNoCredits, 2) + atomic_ack_eth(1111)),
         line->response(kAtomicAck, psn() + 4, aeth(kNoCredits, 3) + atomic_ack_eth(2222))});
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_FETCH_ADD));
    EXPECT_TRUE(is(end.send_cq.one(), 3, IBV_WC_COMP_SWAP));
    EXPECT_TRUE(vt::filled(local.bytes(0, 600), 3));
    EXPECT_TRUE(vt::all(local.bytes(600, 424), 0));
    EXPECT_EQ(local.word(1024), 1111U);
    EXPECT_EQ(local.word(1032), 2222U);
}

// A READ that must not be sent yet is looked at when the response to the one before comes.
TEST_F(RcRequester, NoDoorbellsWhileReadsWaitForTheOneBefore)
{
    const std::uint32_t count = 10, length = 100;
    vt::Params params = calm();
    params.rd_atomic = 1;
    params.timeout = 22; // without a timer nothing else might look
    open(IBV_QPT_RC, params);
    const auto post = [this](std::uint32_t id) {
        line->qp.post(SendWr::read({local.sge(0, length)}, kRemote).id(id));
    };
    const auto rung = [] { return vt::port_counter(vt::device_a(), "doorbells"); };
    post(0); // is sent
    post(1); // waits
    std::uint64_t before = rung();
    for (std::uint32_t id = 2; id < count; id++)
        post(id);
    EXPECT_EQ(rung(), before);
    for (std::uint32_t id = 0; id < count; id++) {
        SCOPED_TRACE(id);
        EXPECT_TRUE(line->gets(
            asking(kReadRequest, psn_add(psn(), id), reth(kRemote.address, kRemote.rkey, length))));
        line->send(line->response(kReadOnly, psn_add(psn(), id), aeth(kNoCredits, id + 1),
                                  pattern(length, 3)));
        EXPECT_TRUE(is(end.send_cq.one(), id, IBV_WC_RDMA_READ));
    }
}

// 9.7.1: PSNs are counted modulo 2^24.
TEST_F(RcRequester, PsnsWrapAround)
{
    vt::fill(local.bytes(), 6);
    for (std::uint32_t before : {1U, 2U, 3U}) {
        vt::Params params = calm();
        params.psn = 0x1000000 - before;
        open(IBV_QPT_RC, params);
        line->qp.post(send(1000));
        std::vector<Packet> packets = message(false, psn(), 1000);
        comes(packets);
        // A part of it, on this side of zero; then the rest is asked for again.
        line->send(line->ack_of(psn(), 0));
        line->send(line->ack_of(packets[1].psn, 0, kNakSequence));
        comes({packets.begin() + 1, packets.end()});
        line->send(line->ack_of(packets.back().psn, 1));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    }
}

// ---- acknowledges: 9.7.6.1 ----

// 9.7.5.1: one acknowledge may stand for many requests.
TEST_F(RcRequester, OneAcknowledgeCompletesAllBefore)
{
    line->qp.post({send(1, 1), send(300, 2), send(0, 3), send(4, 4)});
    peer.drain();
    line->send(line->ack_of(psn() + 3, 3));
    for (std::uint64_t id = 1; id <= 3; id++)
        EXPECT_TRUE(is(end.send_cq.one(), id, IBV_WC_SEND));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    line->send(line->ack_of(psn() + 4, 4));
    EXPECT_TRUE(is(end.send_cq.one(), 4, IBV_WC_SEND));
}

// 9.7.6, "ghost" acknowledges: neither what was never sent nor what is long done.
TEST_F(RcRequester, AcknowledgesOfWhatWasNeverSentAreDropped)
{
    line->qp.post(send(10));
    Packet packet = message(false, psn(), 10)[0];
    EXPECT_TRUE(line->gets(packet));
    for (std::int64_t off : {-1, -2, 1, 2, 100, 0x7fffff, -0x7fffff, 0x800000})
        for (std::uint8_t syndrome : {kNoCredits, kRnrNak, kNakSequence, kNakInvalid, kNakAccess,
                                      kNakOperation, kNakInvalidRd})
            line->send(line->ack_of(psn_add(psn(), off), 1, syndrome));
    for (std::int64_t off : {-1, 1, 0x7fffff}) {
        std::uint32_t at = psn_add(psn(), off);
        line->send(line->response(kReadOnly, at, aeth(kNoCredits, 1), pattern(10, 1)));
        line->send(line->response(kAtomicAck, at, aeth(kNoCredits, 1) + atomic_ack_eth(1)));
    }
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    EXPECT_EQ(peer.drain(), 0U);
    acknowledge(psn());
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
}

// The same where nothing is outstanding at all.
TEST_F(RcRequester, AcknowledgesOfNothingAreDropped)
{
    for (std::int64_t off : {-1, 0, 1})
        for (std::uint8_t syndrome : {kNoCredits, kRnrNak, kNakSequence, kNakAccess})
            line->send(line->ack_of(psn_add(psn(), off), 1, syndrome));
    line->qp.post(send(10));
    EXPECT_TRUE(line->gets(message(false, psn(), 10)[0]));
    acknowledge(psn());
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
}

// 9.7.6.1.3: what is not acknowledged in time is sent again, the same bytes.
TEST_F(RcRequester, LostAcknowledgesAreFoundOutByTime)
{
    vt::Params params = calm();
    params.timeout = 12; // 16.8 ms
    open(IBV_QPT_RC, params);
    vt::fill(local.bytes(), 5);
    // From here, because a busy host may see the first packets late.
    vt::Stopwatch watch;
    line->qp.post(send(600));
    std::vector<Packet> packets = message(false, psn(), 600);
    comes(packets);
    // Only AckReq may differ the second time.
    EXPECT_TRUE(line->gets(packets[0]));
    EXPECT_GE(watch.elapsed(), vt::Millis(16));
    line->send(line->ack_of(packets.back().psn, 1));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
}

// 9.9.2.1 (retry counter): once and as many times more as the program has allowed.
TEST_F(RcRequester, RetriesAreCounted)
{
    for (std::uint8_t retries : {0, 1, 3}) {
        vt::Params params = calm();
        params.timeout = 10; // 4 ms
        params.retry_cnt = retries;
        open(IBV_QPT_RC, params);
        line->qp.post({send(5), send(6, 2)});
        failed(IBV_WC_RETRY_EXC_ERR);
        EXPECT_TRUE(is_error(end.send_cq.one(), 2, IBV_WC_WR_FLUSH_ERR));
        std::size_t first = 0;
        while (auto came = peer.receive(vt::Millis(0)))
            first += came->packet.psn == psn();
        EXPECT_EQ(first, retries + 1U);
    }
}

// ---- NAKs: 9.7.5.2, table "AETH Syndrome"; 9.9.2.1 ----

constexpr std::pair<std::uint8_t, ibv_wc_status> kFatalNaks[] = {
    {kNakInvalid, IBV_WC_REM_INV_REQ_ERR},
    {kNakAccess, IBV_WC_REM_ACCESS_ERR},
    {kNakOperation, IBV_WC_REM_OP_ERR},
    {kNakInvalidRd, IBV_WC_REM_INV_RD_REQ_ERR},
};

TEST_F(RcRequester, NaksThatEndTheConnection)
{
    for (auto [syndrome, status] : kFatalNaks) {
        SCOPED_TRACE(int(syndrome));
        open();
        line->qp.post({send(1, 1), send(2, 2), send(3, 3)});
        peer.drain();
        // It acknowledges what came before it.
        line->send(line->ack_of(psn() + 1, 1, syndrome));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
        failed(status, 2);
        EXPECT_TRUE(is_error(end.send_cq.one(), 3, IBV_WC_WR_FLUSH_ERR));
    }
}

// Reserved codes and a reserved kind of syndrome say nothing.
TEST_F(RcRequester, ReservedSyndromesAreDropped)
{
    line->qp.post(send(1));
    peer.drain();
    for (int syndrome = 0x40; syndrome < 0x60; syndrome++)
        line->send(line->ack_of(psn(), 1, static_cast<std::uint8_t>(syndrome)));
    for (int syndrome = 0x65; syndrome < 0x80; syndrome++)
        line->send(line->ack_of(psn(), 1, static_cast<std::uint8_t>(syndrome)));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    EXPECT_EQ(peer.drain(), 0U);
    acknowledge(psn());
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
}

// "PSN sequence error": all from there on again; what is before is acknowledged.
TEST_F(RcRequester, SequenceErrorIsFollowedByTheRest)
{
    vt::fill(local.bytes(), 5);
    line->qp.post({send(10, 1), send(600, 2), send(10, 3)});
    peer.drain();
    line->send(line->ack_of(psn() + 2, 1, kNakSequence));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    std::vector<Packet> packets = message(false, psn() + 1, 600);
    comes({packets.begin() + 1, packets.end()});
    EXPECT_TRUE(line->gets(message(false, psn() + 4, 10)[0]));
    line->send(line->ack_of(psn() + 4, 3));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 3, IBV_WC_SEND));
}

// 9.7.5.2.8: not before the time that the NAK asks for, from the packet that it names.
TEST_F(RcRequester, RnrNakIsWaitedFor)
{
    vt::fill(local.bytes(), 5);
    for (std::uint8_t timer : {1, 14, 21, 25}) {
        SCOPED_TRACE(int(timer));
        open();
        line->qp.post({send(10, 1), send(20, 2)});
        peer.drain();
        auto began = vt::Clock::now();
        line->send(line->ack_of(psn() + 1, 1, kRnrNak | timer));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
        EXPECT_TRUE(line->gets(message(false, psn() + 1, 20)[0]));
        EXPECT_GE(vt::Clock::now() - began, std::chrono::microseconds(rnr_microseconds(timer)));
        line->send(line->ack_of(psn() + 1, 2));
        EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
    }
}

TEST_F(RcRequester, RnrRetriesAreCounted)
{
    for (std::uint8_t retries : {0, 1, 3}) {
        vt::Params params = calm();
        params.rnr_retry = retries;
        open(IBV_QPT_RC, params);
        line->qp.post(send(5));
        for (int i = 0; i <= retries; i++) {
            EXPECT_TRUE(line->gets(message(false, psn(), 5)[0]));
            line->send(line->ack_of(psn(), 0, kRnrNak | 1));
        }
        failed(IBV_WC_RNR_RETRY_EXC_ERR);
        EXPECT_EQ(peer.drain(), 0U);
    }
}

// ---- credits: 9.7.7.2 ----

// Without credits one SEND may go at a time; WRITEs need none.
TEST_F(RcRequester, CreditsLimitSends)
{
    line->qp.post(send(1, 1));
    EXPECT_TRUE(line->gets(message(false, psn(), 1)[0]));
    line->send(line->ack_of(psn(), 1, credit_code(0)));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    line->qp.post({send(2, 2), send(3, 3), send(4, 4), send(5, 5)});
    EXPECT_TRUE(line->gets(message(false, psn() + 1, 2)[0]));
    EXPECT_EQ(peer.drain(), 0U);
    line->send(line->ack_of(psn() + 1, 2, credit_code(2)));
    EXPECT_TRUE(line->gets(message(false, psn() + 2, 3)[0]));
    EXPECT_TRUE(line->gets(message(false, psn() + 3, 4)[0]));
    EXPECT_EQ(peer.drain(), 0U);
    // 9.7.7.2: an unsolicited acknowledge, the newest one again, brings credits.
    line->send(line->ack_of(psn() + 3, 4, credit_code(0)));
    EXPECT_TRUE(line->gets(message(false, psn() + 4, 5)[0]));
    line->send(line->ack_of(psn() + 4, 5, kNoCredits));
    EXPECT_EQ(end.send_cq.wait(4).back().wr_id, 5U);
    line->qp.post({send(6, 6), send(7, 7)});
    EXPECT_TRUE(line->gets(message(false, psn() + 5, 6)[0]));
    EXPECT_TRUE(line->gets(message(false, psn() + 6, 7)[0]));
}

// 9.7.7.2: the limit is on messages. One that the peer has begun to receive has used up its
// credit, and is sent to its end whatever is acknowledged meanwhile. The ACK timeout is never.
// What two CPUs send may overtake each other: a veth has a queue for each.
TEST_F(RcRequester, MessageUnderWayNeedsNoCredit)
{
    constexpr std::uint32_t kLength = 1 << 20, kPackets = kLength / 1024;
    vt::Params params = calm();
    params.mtu = IBV_MTU_1024;
    open(IBV_QPT_RC, params);
    vt::Buffer large = end.buffer(kLength);
    line->qp.post({send(64, 1), SendWr::send({large.sge(0, kLength)}).id(2)});
    std::vector<bool> came(kPackets + 1), asks(kPackets + 1);
    std::uint32_t seen = 0; // all before it have come
    std::int64_t asked = -1;
    while (seen <= kPackets) {
        auto frame = peer.receive(vt::kPatience);
        ASSERT_TRUE(frame) << "after packet " << seen << ", of which " << asked << " has asked";
        for (; frame; frame = peer.receive(vt::kQuiet)) {
            const std::uint32_t i = psn_add(frame->packet.psn, -std::int64_t{psn()});
            ASSERT_LE(i, kPackets);
            ASSERT_FALSE(came[i]) << i;
            came[i] = true;
            asks[i] = frame->packet.ack;
        }
        for (; seen <= kPackets && came[seen]; seen++)
            if (asks[seen])
                asked = seen;
        bool all = asked == kPackets;
        if (asked >= 0)
            line->send(line->ack_of(psn_add(psn(), asked), all ? 2 : 1, credit_code(0)));
    }
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
}

// What is acknowledged was executed, even if it could not have been sent a second time.
TEST_F(RcRequester, AcknowledgedIsDone)
{
    vt::fill(local.bytes(), 5);
    auto gone = std::make_unique<vt::Buffer>(end.buffer(4096));
    line->qp.post({send(10, 1), SendWr::send({gone->sge(0, 20)}).id(2)});
    EXPECT_TRUE(line->gets(message(false, psn(), 10)[0]));
    line->get();
    // Code 0 is the longest wait, 655 ms.
    line->send(line->ack_of(psn(), 0, kRnrNak));
    gone.reset();
    EXPECT_TRUE(line->gets(message(false, psn(), 10)[0]));
    EXPECT_EQ(peer.drain(), 0U);
    line->send(line->ack_of(psn() + 1, 2));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
    line->qp.post(send(30, 3));
    EXPECT_TRUE(line->gets(message(false, psn() + 2, 30)[0]));
    line->send(line->ack_of(psn() + 2, 3));
    EXPECT_TRUE(is(end.send_cq.one(), 3, IBV_WC_SEND));
}

// ---- responses with data: 9.7.6.1, 9.9.2.1 ("bad response") ----

// What is missing is asked for again, and only that; the answer to that begins with a FIRST.
TEST_F(RcResponses, MissingPiecesAreAskedForAgain)
{
    ask();
    line->send(piece(kReadFirst, 0));
    line->send(piece(kReadLast, 2));
    EXPECT_TRUE(line->gets(rest_from(1)));
    line->send({piece(kReadFirst, 1), piece(kReadLast, 2)});
    done();

    open();
    ask();
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), line->ack_of(psn() + 2, 1)});
    EXPECT_TRUE(line->gets(rest_from(2)));
    line->send(piece(kReadOnly, 2));
    done();
}

// 9.7.6.1: the acknowledge of a later request shows that the response was lost. It counts when the
// response has come, so the later request is not repeated.
TEST_F(RcResponses, LaterAcknowledgeShowsThatAReadWasLost)
{
    vt::fill(local.bytes(1024, 10), 9);
    line->qp.post({SendWr::read({local.sge(0, 600)}, kRemote).id(1),
                   SendWr::send({local.sge(1024, 10)}).id(2)});
    EXPECT_TRUE(line->gets(rest_from(0)));
    Packet behind = asking(kSendOnly, psn() + 3, {}, pattern(10, 9));
    EXPECT_TRUE(line->gets(behind));
    line->send(line->ack_of(psn() + 3, 2));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    EXPECT_TRUE(line->gets(rest_from(0)));
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
    done();
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_SEND));
}

TEST_F(RcResponses, RepeatedPiecesChangeNothing)
{
    ask();
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1)});
    // A busy kernel handles them later.
    EXPECT_TRUE(vt::eventually([&] { return bool(vt::filled(local.bytes(0, 512), 3)); }));
    std::memset(local.data(), 0, 512);
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1)});
    EXPECT_TRUE(vt::all(local.bytes(0, 512), 0));
    line->send(piece(kReadLast, 2));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
    EXPECT_TRUE(vt::all(local.bytes(0, 512), 0));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    EXPECT_EQ(line->qp.state(), IBV_QPS_RTS);
}

// 9.9.2.1, "Bad Response": at the expected PSN, but not what can be there.
TEST_F(RcResponses, OpcodesThatCannotBeThere)
{
    struct Case {
        std::uint32_t before; ///< pieces that came as they should
        std::uint8_t op;
    };
    for (Case c : {Case{0, kReadMiddle},
                   {0, kReadLast},
                   {0, kReadOnly},
                   {0, kAtomicAck},
                   {1, kReadLast},
                   {1, kReadOnly},
                   {1, kAtomicAck},
                   {2, kReadFirst},
                   {2, kReadMiddle},
                   {2, kAtomicAck}}) {
        SCOPED_TRACE(std::to_string(c.op) + " after " + std::to_string(c.before));
        open();
        ask();
        for (std::uint32_t i = 0; i < c.before; i++)
            line->send(piece(i ? kReadMiddle : kReadFirst, i));
        line->send(c.op == kAtomicAck ? line->response(kAtomicAck, psn_add(psn(), c.before),
                                                       aeth(kNoCredits, 1) + atomic_ack_eth(1))
                                      : piece(c.op, c.before));
        failed(IBV_WC_BAD_RESP_ERR);
    }
}

TEST_F(RcResponses, LengthsThatCannotBeThere)
{
    struct Case {
        std::uint32_t before;
        std::uint8_t op;
        std::size_t length;
    };
    for (Case c : {Case{0, kReadFirst, 0},
                   {0, kReadFirst, 255},
                   {0, kReadFirst, 257},
                   {1, kReadMiddle, 0},
                   {1, kReadMiddle, 252},
                   {1, kReadMiddle, 260},
                   {2, kReadLast, 0},
                   {2, kReadLast, 87},
                   {2, kReadLast, 89},
                   {2, kReadLast, 256}}) {
        SCOPED_TRACE(std::to_string(c.length) + " after " + std::to_string(c.before));
        open();
        std::memset(local.data(), 0, 1024);
        ask();
        for (std::uint32_t i = 0; i < c.before; i++)
            line->send(piece(i ? kReadMiddle : kReadFirst, i));
        Packet packet = piece(c.op, c.before);
        packet.payload = pattern(c.length, 8);
        line->send(packet);
        failed(IBV_WC_BAD_RESP_ERR);
        EXPECT_TRUE(vt::all(local.bytes(600, 424), 0));
    }
}

// The same of requests that are not answered with data, or with other data.
TEST_F(RcResponses, DataThatNobodyAskedFor)
{
    open();
    line->qp.post(send(10));
    line->send(line->response(kReadOnly, psn(), aeth(kNoCredits, 1), pattern(10, 1)));
    failed(IBV_WC_BAD_RESP_ERR);
    open();
    line->qp.post(send(10));
    line->send(line->response(kAtomicAck, psn(), aeth(kNoCredits, 1) + atomic_ack_eth(1)));
    failed(IBV_WC_BAD_RESP_ERR);
    open();
    line->qp.post(SendWr::fetch_add(local.sge(0, 8), kRemote, 5).id(1));
    line->send(line->response(kReadOnly, psn(), aeth(kNoCredits, 1), pattern(8, 1)));
    failed(IBV_WC_BAD_RESP_ERR);
    EXPECT_TRUE(vt::all(local.bytes(0, 64), 0));
}

// 9.7.5.2: a READ that is refused is answered with a NAK.
TEST_F(RcResponses, NakInPlaceOfData)
{
    ask();
    line->send(line->ack_of(psn(), 0, kNakAccess));
    failed(IBV_WC_REM_ACCESS_ERR);
    // In the middle: what was to be read went away.
    open();
    ask();
    line->send({piece(kReadFirst, 0), line->ack_of(psn() + 1, 0, kNakAccess)});
    failed(IBV_WC_REM_ACCESS_ERR);
}

// 9.9.2.1: it is about the request that has its PSN. The responder is in error and repeats nothing:
// a READ before that, of which the answer was lost, cannot complete, and has not failed itself.
TEST_F(RcResponses, NakIsAboutTheRequestThatItNames)
{
    for (auto [syndrome, status] : kFatalNaks) {
        SCOPED_TRACE(int(syndrome));
        open();
        line->qp.post({send(5, 1), SendWr::read({local.sge(0, 600)}, kRemote).id(2), send(5, 3),
                       SendWr::write({local.sge(0, 600)}, kRemote).id(4), send(5, 5)});
        peer.drain();
        line->send(line->ack_of(psn() + 6, 3, syndrome));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
        EXPECT_TRUE(is_error(end.send_cq.one(), 2, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(is_error(end.send_cq.one(), 3, IBV_WC_WR_FLUSH_ERR));
        failed(status, 4);
        EXPECT_TRUE(is_error(end.send_cq.one(), 5, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    }
}

// A veth has a queue for each CPU: the NAK may overtake answers that were sent before it.
TEST_F(RcResponses, NakOvertakesTheDataBeforeIt)
{
    for (auto [syndrome, status] : kFatalNaks) {
        SCOPED_TRACE(int(syndrome));
        open();
        std::memset(local.data(), 0, 1024);
        ask();
        line->qp.post({send(5, 2), send(5, 3)});
        peer.drain();
        line->send(line->ack_of(psn() + 3, 1, syndrome));
        for (std::uint32_t i = 0; i < 3; i++)
            line->send(piece(i == 0 ? kReadFirst : i == 1 ? kReadMiddle : kReadLast, i));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
        failed(status, 2);
        EXPECT_TRUE(is_error(end.send_cq.one(), 3, IBV_WC_WR_FLUSH_ERR));
        EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    }
}

// An RNR NAK ends nothing: it shows that the answer was lost, which is asked for again.
TEST_F(RcResponses, RnrNakShowsThatAReadWasLost)
{
    vt::Params params = calm();
    params.rnr_retry = 0;
    open(IBV_QPT_RC, params);
    vt::fill(local.bytes(1024, 10), 9);
    line->qp.post({SendWr::read({local.sge(0, 600)}, kRemote).id(1),
                   SendWr::send({local.sge(1024, 10)}).id(2)});
    Packet behind = asking(kSendOnly, psn() + 3, {}, pattern(10, 9));
    EXPECT_TRUE(line->gets(rest_from(0)));
    EXPECT_TRUE(line->gets(behind));
    line->send(line->ack_of(psn() + 3, 1, kRnrNak | 1));
    EXPECT_TRUE(line->gets(rest_from(0)));
    EXPECT_TRUE(line->gets(behind));
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
    done();
    line->send(line->ack_of(psn() + 3, 1, kRnrNak | 1));
    failed(IBV_WC_RNR_RETRY_EXC_ERR, 2);
}

// The memory that a response is for goes away: a local error, nothing written.
TEST_F(RcResponses, NowhereToPutIt)
{
    ask();
    local.mr().reset();
    line->send(piece(kReadFirst, 0));
    failed(IBV_WC_LOC_PROT_ERR);
    EXPECT_TRUE(vt::all(local.bytes(0, 600), 0));
}

// Not a response, but it comes to the requester: 9.9.2, reserved opcodes are no responses; a
// congestion notification (annex A17) is taken and changes nothing.
TEST_F(RcResponses, WhatIsNoResponse)
{
    ask();
    for (std::uint8_t op : {0x15, 0x18, 0x1e, 0x1f}) {
        Packet packet = line->response(op, psn(), aeth(kNoCredits, 1));
        packet.opcode |= kUc;
        line->send(packet);
    }
    Packet cnp = line->response(0, 0, Octets(16));
    cnp.opcode = kCnp | 1;
    cnp.becn = true;
    line->send(cnp);
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
    done();
}

// ---- a window of the device's host that is bound behind a READ: 10.8.3.3 (fence) ----

class RcBinds : public RcResponses {
protected:
    /// Binds behind a READ whose answer does not come. @p flags: of the bind.
    void bind_behind_a_read(unsigned flags)
    {
        for (Line *each : {line.get(), before.get(), after.get()})
            each->skip_other_qps();
        ask();
        ibv_mw_bind bind{2, IBV_SEND_SIGNALED | flags, vt::part(region, 0, 64)};
        ASSERT_EQ(ibv_bind_mw(line->qp.get(), mw.get(), &bind), 0);
    }
    /// The peer's WRITE by the window.
    Packet write(const Line &by)
    {
        return by.request(kWriteOnly, reth(region.address(), mw->rkey, 8), pattern(8, 6));
    }
    /// Another connection.
    std::unique_ptr<Line> open_other(std::uint32_t peer_qpn)
    {
        ibv_qp_init_attr init = vt::QpConfig{}.attr(end.send_cq.get(), end.recv_cq.get());
        return std::make_unique<Line>(end, peer,
                                      vt::need(ibv_create_qp(end.pd.get(), &init), "ibv_create_qp"),
                                      calm(), peer_qpn);
    }
    void answer()
    {
        line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
        ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
        ASSERT_TRUE(is(end.send_cq.one(), 2, IBV_WC_BIND_MW));
    }

    vt::Buffer region = end.buffer(4096, vt::kBindable);
    vt::Mw mw = vt::alloc_mw(end.pd, IBV_MW_TYPE_1);
    std::unique_ptr<Line> before = open_other(kPeerQpn + 1);
    std::unique_ptr<Line> after = open_other(kPeerQpn + 2);
};

TEST_F(RcBinds, WithAFenceItWaitsForTheAnswer)
{
    bind_behind_a_read(IBV_SEND_FENCE);
    EXPECT_TRUE(before->answers(write(*before), before->nak(kNakAccess, before->psn)));
    EXPECT_TRUE(vt::all(region.bytes(), 0));
    answer();
    after->msn++;
    EXPECT_TRUE(after->answers(write(*after), after->ack(after->psn)));
    EXPECT_TRUE(vt::filled(region.bytes(0, 8), 6));
}

TEST_F(RcBinds, WithoutAFenceItDoesNot)
{
    bind_behind_a_read(0);
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    before->msn++;
    EXPECT_TRUE(before->answers(write(*before), before->ack(before->psn)));
    EXPECT_TRUE(vt::filled(region.bytes(0, 8), 6));
    answer();
}

} // namespace
