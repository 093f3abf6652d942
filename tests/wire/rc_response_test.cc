// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Responses that come before their turn: kept, and used in their turn. Only what is missing is
/// requested again. IBTA volume 1, 9.7.5.1.9 (repeated READs), 9.7.6.1 (order of responses).
#include <cstring>

#include <sys/mman.h>

#include "lib/requester.h"

#include "../verbs/lib/rdmatool.h"

using namespace wire;
using vt::is;
using vt::SendWr;

namespace {

class RcEarlyResponses : public RcResponses {
protected:
    /// Three READs of three packets each, whose answers are pieces 0 to 8.
    void ask_three()
    {
        for (std::uint32_t i = 0; i < 3; i++) {
            line->qp.post(SendWr::read({local.sge(i * 1024, 600)}, kRemote).id(i));
            ASSERT_TRUE(line->gets(rest_of(i, 0)));
        }
    }
    Packet rest_of(std::uint32_t read, std::uint32_t packet)
    {
        Packet rest = rest_from(packet);
        rest.psn = psn_add(rest.psn, 3 * read);
        return rest;
    }
    /// Packet @p i of all answers, with the opcode of its place.
    Packet answer(std::uint32_t i) { return answer(i, kInPlace[i % 3]); }
    Packet answer(std::uint32_t i, std::uint8_t op)
    {
        Packet packet = piece(op, i % 3);
        packet.psn = psn_add(psn(), i);
        return packet;
    }
    std::vector<Packet> answers(std::initializer_list<std::uint32_t> which)
    {
        std::vector<Packet> packets;
        for (std::uint32_t i : which)
            packets.push_back(answer(i));
        return packets;
    }
    void three_done(std::uint32_t from = 0)
    {
        for (std::uint32_t i = from; i < 3; i++) {
            ASSERT_TRUE(is(end.send_cq.one(), i, IBV_WC_RDMA_READ));
            EXPECT_TRUE(vt::filled(local.bytes(i * 1024, 600), 3));
        }
        EXPECT_EQ(peer.drain(), 0U);
    }

    static constexpr std::uint8_t kInPlace[] = {kReadFirst, kReadMiddle, kReadLast};
};

// The end of the message came early, so its middle completes it.
TEST_F(RcEarlyResponses, KeptUntilTheirTurn)
{
    std::uint64_t before = vt::port_counter(vt::device_a(), "rx_early_kept");
    ask();
    line->send({piece(kReadFirst, 0), piece(kReadLast, 2)});
    ASSERT_TRUE(line->gets(rest_from(1)));
    EXPECT_EQ(vt::port_counter(vt::device_a(), "rx_early_kept") - before, 1U);
    EXPECT_TRUE(vt::all(local.bytes(512, 88), 0));
    line->send(piece(kReadFirst, 1));
    done();
    // The rest of the repeated answer is late.
    std::memset(local.data(), 0, 600);
    line->send(piece(kReadLast, 2));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    EXPECT_TRUE(vt::all(local.bytes(0, 600), 0));
}

// Both holes are filled at once, and of the second READ nothing is requested again.
TEST_F(RcEarlyResponses, OnlyTheHolesAreFilled)
{
    ask_three();
    line->send(answers({0, 2, 3, 4, 5, 6, 8}));
    EXPECT_TRUE(line->gets(rest_of(0, 1)));
    EXPECT_TRUE(line->gets(rest_of(2, 1)));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    line->send(answer(1, kReadFirst));
    EXPECT_TRUE(is(end.send_cq.one(), 0, IBV_WC_RDMA_READ));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    line->send(answer(7, kReadFirst));
    three_done(2);
    EXPECT_TRUE(vt::filled(local.bytes(0, 600), 3));
    EXPECT_TRUE(vt::filled(local.bytes(1024, 600), 3));
}

// Whatever order the network brings them in.
TEST_F(RcEarlyResponses, InReverse)
{
    vt::Params params = calm();
    params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(20));
    open(IBV_QPT_RC, params);
    ask_three();
    line->send(answers({8, 7, 6, 5, 4, 3, 2, 1, 0}));
    for (std::uint32_t i = 0; i < 3; i++)
        ASSERT_TRUE(is(end.send_cq.one(), i, IBV_WC_RDMA_READ));
    peer.drain();
    for (std::uint32_t i = 0; i < 3; i++)
        EXPECT_TRUE(vt::filled(local.bytes(i * 1024, 600), 3));
}

// The request for the hole was answered, but the network has lost that, too.
TEST_F(RcEarlyResponses, LostAgain)
{
    ask_three();
    line->send(answers({0, 2, 3, 4, 5}));
    for (int i = 0; i < 3; i++) {
        EXPECT_TRUE(line->gets(rest_of(0, 1))) << i;
        line->send(answer(2));
    }
    EXPECT_TRUE(line->gets(rest_of(0, 1)));
    line->send(answer(1, kReadFirst));
    EXPECT_TRUE(is(end.send_cq.one(), 0, IBV_WC_RDMA_READ));
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    line->send(answers({6, 7, 8}));
    three_done(2);
}

// Nothing comes any more: a probe requests the hole again, long before the ACK timeout.
TEST_F(RcEarlyResponses, AskedForByTime)
{
    vt::Params params = calm();
    params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(20)); // 4 s
    open(IBV_QPT_RC, params);
    ask();
    line->send({piece(kReadFirst, 0), piece(kReadLast, 2)});
    EXPECT_TRUE(line->gets(rest_from(1)));
    EXPECT_TRUE(line->gets(rest_from(1), vt::Millis(2000)));
    line->send(piece(kReadFirst, 1));
    ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(vt::filled(local.bytes(0, 600), 3));
}

// The answers to ATOMICs likewise: the peer executes nothing twice, but it need not remember
// either.
TEST_F(RcEarlyResponses, AtomicsAndAcknowledges)
{
    vt::fill(local.bytes(2048, 10), 9);
    line->qp.post({SendWr::read({local.sge(0, 600)}, kRemote).id(1),
                   SendWr::fetch_add(local.sge(4096, 8), kRemote, 5).id(2),
                   SendWr::send({local.sge(2048, 10)}).id(3)});
    ASSERT_TRUE(line->gets(rest_from(0)));
    ASSERT_TRUE(line->gets(
        asking(kFetchAdd, psn_add(psn(), 3), atomic_eth(kRemote.address, kRemote.rkey, 5, 0))));
    ASSERT_TRUE(line->gets(asking(kSendOnly, psn_add(psn(), 4), {}, pattern(10, 9))));
    line->send(
        {line->response(kAtomicAck, psn_add(psn(), 3), aeth(kNoCredits, 2) + atomic_ack_eth(77)),
         line->ack_of(psn_add(psn(), 4), 3)});
    ASSERT_TRUE(line->gets(rest_from(0)));
    EXPECT_TRUE(end.send_cq.quiet(vt::Millis(0)));
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1), piece(kReadLast, 2)});
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(is(end.send_cq.one(), 2, IBV_WC_FETCH_ADD));
    EXPECT_TRUE(is(end.send_cq.one(), 3, IBV_WC_SEND));
    EXPECT_EQ(local.word(4096), 77U);
    EXPECT_EQ(peer.drain(), 0U);
}

// The first of a response that comes twice counts.
TEST_F(RcEarlyResponses, KeptOnce)
{
    ask();
    Packet last = piece(kReadLast, 2), other = last;
    other.payload = pattern(other.payload.size(), 7);
    line->send({piece(kReadFirst, 0), last});
    ASSERT_TRUE(line->gets(rest_from(1)));
    line->send(other);
    ASSERT_TRUE(line->gets(rest_from(1))) << "its repetition is lost";
    line->send(piece(kReadFirst, 1));
    done();
}

// What they are is looked at in their turn: bad response (9.9.2.1).
TEST_F(RcEarlyResponses, CheckedInTheirTurn)
{
    ask();
    line->send({piece(kReadFirst, 0), piece(kReadMiddle, 2)});
    ASSERT_TRUE(line->gets(rest_from(1)));
    line->send(piece(kReadFirst, 1));
    failed(IBV_WC_BAD_RESP_ERR);
}

// Nothing that was kept is taken for an answer to a later connection of the same QP.
TEST_F(RcEarlyResponses, ForgottenWithTheConnection)
{
    for (bool error : {false, true}) {
        SCOPED_TRACE(error);
        open();
        std::memset(local.data(), 0, 1024);
        ask();
        line->send({piece(kReadFirst, 0), piece(kReadLast, 2)});
        ASSERT_TRUE(line->gets(rest_from(1)));
        if (error) {
            line->qp.move(IBV_QPS_ERR);
            ASSERT_TRUE(vt::is_error(end.send_cq.one(), 1, IBV_WC_WR_FLUSH_ERR));
        }
        line->qp.move(IBV_QPS_RESET);
        line->connect();
        ask();
        line->send({piece(kReadFirst, 0), piece(kReadMiddle, 1)});
        EXPECT_TRUE(end.send_cq.quiet(vt::kQuiet));
        EXPECT_TRUE(vt::all(local.bytes(512, 88), 0));
        line->send(piece(kReadLast, 2));
        done();
    }
}

// A fatal NAK waits for the answers before it, of which some are kept.
TEST_F(RcEarlyResponses, NakBehindWhatIsKept)
{
    ask_three();
    line->qp.post(send(5, 3));
    peer.drain();
    line->send(answers({0, 2, 3, 4, 5, 6, 7, 8}));
    ASSERT_TRUE(line->gets(rest_of(0, 1)));
    line->send(line->ack_of(psn_add(psn(), 9), 3, kNakAccess));
    line->send(answer(1, kReadFirst));
    for (std::uint32_t i = 0; i < 3; i++)
        EXPECT_TRUE(is(end.send_cq.one(), i, IBV_WC_RDMA_READ)) << i;
    failed(IBV_WC_REM_ACCESS_ERR, 3);
}

// Pages on demand of the sink are taken away meanwhile: what finds no place is requested again when
// they are back, and what was kept behind it stays.
class RcEarlyOnDemand : public RcEarlyResponses {
protected:
    const std::size_t kPage = vt::page_size();

    /// Asks for 600 bytes, of which the first packet is on the first page, the others on the
    /// second.
    void ask_across()
    {
        line->qp.post(SendWr::read({sink.sge(kPage - kMtu, 600)}, kRemote).id(1));
        ASSERT_TRUE(line->gets(rest_from(0)));
    }
    void take_away() { ASSERT_EQ(madvise(sink.data() + kPage, kPage, MADV_DONTNEED), 0); }
    /// The page of what is kept goes before the missing packet comes.
    void take_away_from_what_is_kept()
    {
        ask_across();
        line->send({piece(kReadMiddle, 1), piece(kReadLast, 2)});
        ASSERT_TRUE(line->gets(rest_from(0)));
        take_away();
        line->send(piece(kReadFirst, 0));
    }
    void across_done()
    {
        ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
        EXPECT_TRUE(vt::filled(sink.bytes(kPage - kMtu, 600), 3));
        EXPECT_EQ(peer.drain(), 0U);
    }

    vt::Buffer sink = end.buffer(4 * kPage, vt::kOnDemand);
};

TEST_F(RcEarlyOnDemand, TakenAwayBeforeTheMissingOneCame)
{
    ask_across();
    line->send({piece(kReadFirst, 0), piece(kReadLast, 2)});
    ASSERT_TRUE(line->gets(rest_from(1)));
    take_away();
    line->send(piece(kReadFirst, 1));
    ASSERT_TRUE(line->gets(rest_from(1)));
    line->send(piece(kReadFirst, 1));
    across_done();
}

TEST_F(RcEarlyOnDemand, TakenAwayFromWhatIsKept)
{
    take_away_from_what_is_kept();
    ASSERT_TRUE(line->gets(rest_from(1)));
    line->send(piece(kReadFirst, 1));
    across_done();
}

TEST_F(RcEarlyOnDemand, TakenAwayAgainAndAgain)
{
    take_away_from_what_is_kept();
    for (int i = 0; i < 5; i++) {
        ASSERT_TRUE(line->gets(rest_from(1))) << i;
        take_away();
        line->send(piece(kReadFirst, 1));
    }
    ASSERT_TRUE(line->gets(rest_from(1)));
    line->send(piece(kReadFirst, 1));
    across_done();
}

} // namespace
