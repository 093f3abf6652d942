// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What the device sends again, towards a peer that keeps requests that come early and one that
/// does not (Documentation/design.md, "Reliable transport"). On the wire both are as IBTA volume
/// 1, 9.7.5, has them.
#include "lib/requester.h"

#include "../verbs/lib/clock.h"

using namespace wire;
using vt::is;
using vt::SendWr;
using namespace std::chrono_literals;

namespace {

class RcRecovery : public RcRequester {
protected:
    void SetUp() override
    {
        RcRequester::SetUp();
        begin();
    }
    void begin()
    {
        next = psn();
        answered = 0;
        vt::fill(local.bytes(), 3);
    }
    /// The same with a new QP.
    void anew(const vt::Params &params)
    {
        open(IBV_QPT_RC, params);
        begin();
    }

    void nak(std::uint32_t at) { line->send(line->ack_of(at, answered, kNakSequence)); }
    /// One SEND of @p count packets, which all come; its packets.
    std::vector<Packet> posted(std::size_t count)
    {
        line->qp.post(send(count * kMtu));
        std::vector<Packet> packets = message(false, next, count * kMtu);
        next = psn_add(next, static_cast<std::int64_t>(count));
        comes(packets);
        return packets;
    }
    /// Packets @p from to @p to come, and the last one asks for an ACK.
    void again(std::vector<Packet> packets, std::size_t from, std::size_t to)
    {
        packets[to].ack = true;
        for (std::size_t i = from; i <= to; i++)
            ASSERT_TRUE(line->gets(packets[i])) << "packet " << i << " again";
    }
    /// The ACK of all that was sent ends @p messages.
    void completed(int messages)
    {
        acknowledge(psn_add(next, -1));
        for (int i = 0; i < messages; i++)
            ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    }

    /// Makes the device take a round trip for something like a fifth of a second. READs are not
    /// asked for again before the ACK timeout.
    void slow()
    {
        for (std::uint64_t id = 1; id <= 4; id++) {
            line->qp.post(SendWr::read({local.sge(0, 10)}, kRemote).id(id));
            Packet read = asking(kReadRequest, next, reth(kRemote.address, kRemote.rkey, 10));
            ASSERT_TRUE(line->gets(read));
            std::this_thread::sleep_for(500ms);
            line->send(
                line->response(kReadOnly, read.psn, aeth(kNoCredits, ++answered), pattern(10, 1)));
            ASSERT_TRUE(is(end.send_cq.one(), id, IBV_WC_RDMA_READ));
            next = psn_add(next, 1);
        }
    }

    /// So many gaps of which the peer tells, and which have closed by the next packet, bring
    /// nothing. False where that packet may have been too late for it.
    bool gaps_close(int gaps)
    {
        constexpr auto kInTime = 50ms; // half of what slow() makes of half a round trip
        for (int gap = 0; gap < gaps; gap++) {
            std::vector<Packet> packets = posted(30);
            vt::Stopwatch watch;
            line->send({line->ack_of(packets[4].psn, answered, kNakSequence),
                        line->ack_of(packets[20].psn, answered, kNakSequence),
                        line->ack_of(packets[29].psn, answered + 1)});
            answered++;
            EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
            if (watch.elapsed() > kInTime)
                return false;
            EXPECT_TRUE(line->silent());
        }
        return true;
    }

    std::uint32_t next = 0;
};

// From the missing one on, not many, and no more until there is an answer.
TEST_F(RcRecovery, AGapIsFilledAndNotAllRepeated)
{
    std::vector<Packet> packets = posted(30);
    nak(packets[4].psn);
    again(packets, 4, 7);
    EXPECT_TRUE(line->silent());
    // New ones go on.
    posted(3);
    nak(packets[20].psn);
    again(packets, 20, 23);
    completed(2);
    EXPECT_TRUE(line->silent());
}

// The peer gets no farther than what was sent again: by a NAK, or by an ACK if nothing follows.
TEST_F(RcRecovery, ALongerGapIsFilledInLargerPieces)
{
    std::vector<Packet> packets = posted(40);
    nak(packets[4].psn);
    again(packets, 4, 7);
    nak(packets[8].psn);
    again(packets, 8, 15);
    line->send(line->ack_of(packets[15].psn, answered));
    again(packets, 16, 31);
    // It is filled, and the next one is a new one.
    nak(packets[34].psn);
    again(packets, 34, 39);
    completed(1);
    packets = posted(40);
    nak(packets[0].psn);
    again(packets, 0, 3);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// The gap goes over the ends of messages.
TEST_F(RcRecovery, GapsOfSmallMessages)
{
    std::vector<Packet> packets;
    for (int i = 0; i < 9; i++)
        packets.push_back(posted(1).front());
    nak(packets[2].psn);
    ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    comes({packets.begin() + 2, packets.begin() + 6});
    EXPECT_TRUE(line->silent());
    completed(7);
}

// 9.7.5.1 leaves it to the requester which packets ask for an ACK. The window is full, and ACKs
// that nobody has asked for (those of duplicates) open it by two packets each: what goes out by
// twos must not ask each time, or it would for ever.
TEST_F(RcRecovery, SmallAcknowledgesBringNoSmallQuestions)
{
    constexpr std::size_t kLength = 1 << 16, kPackets = kLength / kMtu;
    constexpr std::size_t kWindow = (512 << 10) / kMtu, kAhead = kWindow / kPackets;
    std::uint32_t first = next;
    for (std::size_t i = 0; i < kAhead; i++, next = psn_add(next, kPackets)) {
        line->qp.post(send(kLength));
        comes(message(false, next, kLength));
    }
    line->qp.post(send(kLength));
    EXPECT_TRUE(line->silent());
    std::vector<Packet> last = message(false, next, kLength);
    for (std::size_t i = 0; i < kPackets; i += 2) {
        line->send(line->ack_of(psn_add(first, static_cast<std::int64_t>(i + 1)), 0));
        for (std::size_t sent = i; sent < i + 2; sent++) {
            Packet packet = line->get().packet;
            EXPECT_EQ(packet.psn, last[sent].psn);
            EXPECT_EQ(packet.ack, sent == kPackets - 1) << sent;
        }
    }
    next = psn_add(next, kPackets);
    completed(static_cast<int>(kAhead + 1));
    EXPECT_TRUE(line->silent());
}

// What was only overtaken is not sent again: the device waits for half of a round trip, which is
// long here by the peer's doing. (It does so for the first gap, and for those behind one that
// closed.)
TEST_F(RcRecovery, AGapThatClosesByItselfIsNotFilled)
{
    // Where this program had to wait for its CPU, the gap did not close in time: once more then.
    constexpr int kTries = 5;
    bool in_time = false;
    for (int tries = 0; tries < kTries && !in_time && !HasFailure(); tries++) {
        anew(calm());
        slow();
        in_time = gaps_close(3);
    }
    ASSERT_TRUE(in_time) << "never";
    // One that does not is filled.
    std::vector<Packet> packets = posted(30);
    nak(packets[4].psn);
    again(packets, 4, 7);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// One that never has more than what was sent again has dropped the rest: it gets all of it.
TEST_F(RcRecovery, APeerThatDropsGetsAll)
{
    std::vector<Packet> packets = posted(200);
    std::size_t from = 0;
    for (std::size_t count : {4, 8, 16, 32, 64}) {
        nak(packets[from].psn);
        again(packets, from, from + count - 1);
        from += count;
    }
    nak(packets[from].psn);
    again(packets, from, 199);
    completed(1);
    // From now on at once.
    packets = posted(60);
    nak(packets[3].psn);
    again(packets, 3, 59);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// Where packets overtake each other, what was sent again may be what asks for the ACK.
TEST_F(RcRecovery, AcknowledgesThatEndThereProveNothing)
{
    std::vector<Packet> packets = posted(200);
    nak(packets[0].psn);
    std::size_t from = 0;
    for (std::size_t count : {4, 8, 16, 32, 64, 64, 12}) {
        again(packets, from, from + count - 1);
        from += count;
        line->send(line->ack_of(packets[from - 1].psn, answered));
    }
    ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    packets = posted(60);
    nak(packets[3].psn);
    again(packets, 3, 34);
    EXPECT_TRUE(line->silent());
    completed(1);
}

// What is lost may have been a READ or an atomic: then it goes back, as ever.
TEST_F(RcRecovery, ReadsAreAskedForAgain)
{
    line->qp.post(SendWr::read({local.sge(0, 10)}, kRemote).id(1));
    Packet read = asking(kReadRequest, psn(), reth(kRemote.address, kRemote.rkey, 10));
    ASSERT_TRUE(line->gets(read));
    next = psn_add(next, 1);
    std::vector<Packet> packets = posted(10);
    nak(read.psn);
    ASSERT_TRUE(line->gets(read));
    comes(packets);
    line->send(line->response(kReadOnly, read.psn, aeth(kNoCredits, ++answered), pattern(10, 1)));
    ASSERT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_READ));
    completed(1);
}

// The last ones are lost, or the answer: the peer is asked long before the ACK timeout (17 s).
TEST_F(RcRecovery, APeerThatSaysNothingIsAsked)
{
    vt::Params params = calm();
    params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(22));
    params.retry_cnt = 0;
    anew(params);
    // A question after some milliseconds might come while this program waits for its CPU.
    slow();
    vt::Stopwatch watch;
    std::vector<Packet> packets = posted(6);
    // Three times, if it does not answer, by the oldest one.
    for (int i = 0; i < 3; i++)
        again(packets, 0, 0);
    EXPECT_LT(watch.elapsed(), 17s);
    EXPECT_TRUE(line->silent());
    // It has no more than that one.
    line->send(line->ack_of(packets[0].psn, answered));
    again(packets, 1, 5);
    completed(1);
    EXPECT_TRUE(line->silent());
}

} // namespace
