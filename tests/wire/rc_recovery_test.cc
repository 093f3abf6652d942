// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What the device sends again, to a peer that keeps requests that come early, to one that does
/// not, and to one of which it does not know (Documentation/design.md, "Loss recovery"). On the
/// wire all are as IBTA volume 1, 9.7.5, has them.
#include "lib/requester.h"

#include "../verbs/lib/clock.h"
#include "../verbs/lib/rdmatool.h"

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

    /// The peer shows that it keeps requests that come early. The round trip is long, so that the
    /// device waits for the answer to its trial, on a busy machine, too.
    void trusted(vt::Millis answer = 500ms)
    {
        slow(answer);
        std::vector<Packet> packets = posted(10);
        nak(packets[0].psn);
        again(packets, 0, 0);
        completed(1);
    }
    /// The same with a new QP.
    void trusted_anew(const vt::Params &params, vt::Millis answer = 500ms)
    {
        anew(params);
        trusted(answer);
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

    /// Makes the device take a mean round trip for something like 0.4 of @p answer. The least one
    /// is short, so that no answer comes too soon to be one. READs are not asked for again before
    /// the ACK timeout.
    void slow(vt::Millis answer = 500ms)
    {
        constexpr std::uint64_t kQuick = 8, kSlow = 4;
        for (std::uint64_t id = 0; id < kQuick + kSlow; id++) {
            line->qp.post(SendWr::read({local.sge(0, 10)}, kRemote).id(id));
            Packet read = asking(kReadRequest, next, reth(kRemote.address, kRemote.rkey, 10));
            ASSERT_TRUE(line->gets(read));
            if (id >= kQuick)
                std::this_thread::sleep_for(answer);
            line->send(
                line->response(kReadOnly, read.psn, aeth(kNoCredits, ++answered), pattern(10, 1)));
            ASSERT_TRUE(is(end.send_cq.one(), id, IBV_WC_RDMA_READ));
            next = psn_add(next, 1);
        }
    }

    std::uint32_t next = 0;
};

/// Round trips of seconds, which cost nothing in virtual time only.
class RcRecoveryFar : public RcRecovery {
protected:
    /// For a round trip so long that a QP waits for what it expects on a busy machine, too.
    static constexpr vt::Millis kFar = 2000ms;
    static vt::Params far_params()
    {
        vt::Params params = calm();
        params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(22));
        return params;
    }
    void far()
    {
        anew(far_params());
        slow(kFar);
    }

    /// So many gaps of which the peer tells, and which have closed by the next packet, bring
    /// nothing. False where that packet may have been too late for it.
    bool gaps_close(int gaps)
    {
        constexpr auto kInTime = 50ms; // a sixteenth of what kFar makes of a round trip
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
    /// With a new QP, the peer has shown that it keeps requests that come early, and so many gaps
    /// have closed. Where this program had to wait for its CPU, one did not in time: then once
    /// more.
    void trusted_and_overtaken(int gaps)
    {
        constexpr int kTries = 5;
        bool in_time = false;
        for (int tries = 0; tries < kTries && !in_time && !HasFailure(); tries++) {
            trusted_anew(far_params(), kFar);
            in_time = gaps_close(gaps);
        }
        ASSERT_TRUE(in_time) << "never";
    }
};

// Nothing is known of a peer at first. It gets the missing packet alone, and nothing new, until
// its answer shows that it has the packets behind it. From then on only gaps are filled.
TEST_F(RcRecoveryFar, APeerThatKeepsIsKnownByItsAnswer)
{
    far();
    std::vector<Packet> packets = posted(30);
    nak(packets[4].psn);
    again(packets, 4, 4);
    line->qp.post(send(kMtu));
    EXPECT_TRUE(line->silent());
    line->send(line->ack_of(packets[19].psn, answered));
    // Now the new one comes.
    comes(message(false, next, kMtu));
    next = psn_add(next, 1);
    nak(packets[20].psn);
    again(packets, 20, 23);
    completed(2);
    EXPECT_TRUE(line->silent());
}

// A peer that drops what comes early gets each packet from the missing one on, once and in order,
// and new ones behind them. Its answers do not tell it from one that lacks the next packet, too.
TEST_F(RcRecoveryFar, APeerThatDropsGetsAllOnceAndNothingInBetween)
{
    far();
    std::vector<Packet> packets = posted(40);
    nak(packets[3].psn);
    // Trials: one packet, then a burst, but half of what is outstanding at most.
    again(packets, 3, 3);
    line->qp.post(send(kMtu));
    EXPECT_TRUE(line->silent());
    line->send(line->ack_of(packets[3].psn, answered));
    again(packets, 4, 39);
    comes(message(false, next, kMtu));
    next = psn_add(next, 1);
    nak(packets[10].psn);
    again(packets, 10, 24);
    EXPECT_TRUE(line->silent());
    line->send(line->ack_of(packets[24].psn, answered));
    packets.push_back(message(false, psn_add(next, -1), kMtu).front());
    comes({packets.begin() + 25, packets.end()});
    EXPECT_TRUE(line->silent());
    // The third NAK is not worth a trial.
    nak(packets[30].psn);
    comes({packets.begin() + 30, packets.end()});
    EXPECT_TRUE(line->silent());
    completed(2);
}

// What was sent again is lost again: the NAK for it, or silence, ends the trial.
TEST_F(RcRecoveryFar, ATrialThatIsLost)
{
    far();
    std::vector<Packet> packets = posted(20);
    nak(packets[3].psn);
    again(packets, 3, 3);
    nak(packets[3].psn);
    again(packets, 3, 19);
    completed(1);
    packets = posted(20);
    nak(packets[3].psn);
    again(packets, 3, 10);
    nak(packets[5].psn);
    again(packets, 5, 19);
    completed(1);
    // A few are not worth a trial.
    packets = posted(8);
    nak(packets[1].psn);
    comes({packets.begin() + 1, packets.end()});
    completed(1);
    // Without an ACK timeout, and with one retry for the NAK.
    vt::Params params = calm();
    params.timeout = 0;
    params.retry_cnt = 1;
    anew(params);
    packets = posted(20);
    nak(packets[3].psn);
    again(packets, 3, 3);
    again(packets, 3, 19); // after silence
    completed(1);
    EXPECT_TRUE(line->silent());
}

// From the missing one on, not many, and no more until there is an answer.
TEST_F(RcRecovery, AGapIsFilledAndNotAllRepeated)
{
    trusted();
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

// An ACK that ends before what had been sent already is as good as a NAK.
TEST_F(RcRecovery, TheNextGapIsFilledWithoutItsNak)
{
    trusted();
    std::vector<Packet> packets = posted(30);
    nak(packets[4].psn);
    again(packets, 4, 7);
    line->send(line->ack_of(packets[19].psn, answered));
    again(packets, 20, 23);
    line->send(line->ack_of(packets[27].psn, answered));
    again(packets, 28, 29);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// The peer gets no farther than what was sent again: by a NAK, or by an ACK if nothing follows.
TEST_F(RcRecovery, ALongerGapIsFilledInLargerPieces)
{
    trusted();
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
    trusted();
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

// What was only overtaken is not sent again: the device waits for a round trip, which is long here
// by the peer's doing. (It does so for the first gap, and for those behind one that
// closed.)
TEST_F(RcRecoveryFar, AGapThatClosesByItselfIsNotFilled)
{
    ASSERT_NO_FATAL_FAILURE(trusted_and_overtaken(3));
    // One that does not is filled.
    std::vector<Packet> packets = posted(30);
    nak(packets[4].psn);
    again(packets, 4, 7);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// One that never has more than what was sent again has dropped the rest: it gets all of it.
TEST_F(RcRecovery, APeerThatDropsLosesTrust)
{
    trusted();
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

// Also where the network changes the order of packets, after more of them: what was late may have
// looked as if the peer had kept it.
TEST_F(RcRecoveryFar, APeerThatDropsLosesTrustWherePacketsOvertakeEachOther)
{
    ASSERT_NO_FATAL_FAILURE(trusted_and_overtaken(5));
    std::vector<Packet> packets = posted(60);
    std::size_t from = 0;
    for (int gap = 0; gap < 10; gap++) {
        nak(packets[from].psn);
        again(packets, from, from + 3);
        from += 4;
    }
    nak(packets[from].psn);
    again(packets, from, 59);
    completed(1);
    EXPECT_TRUE(line->silent());
}

// Where packets overtake each other, what was sent again may be what asks for the ACK.
TEST_F(RcRecovery, AcknowledgesThatEndThereProveNothing)
{
    trusted();
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

// A peer that gets frames as they are made needs a CRC of their headers only, and says so. If it is
// wrong, nothing of them is good, and it gets all again with an ICRC.
TEST_F(RcRecovery, FramesThatComeUncutNeedNoIcrc)
{
    constexpr std::size_t kCount = 40;
    const auto left_out = [] { return vt::port_counter(vt::device_a(), "tx_icrc_left_out"); };
    const std::uint64_t before = left_out();
    vt::Params params = calm();
    params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(18));
    params.retry_cnt = 7;
    anew(params);
    Packet told = line->response(0, 0, {});
    told.opcode = kUncut;
    line->send(told);
    line->qp.post(send(kCount * kMtu));
    const std::uint32_t first = next;
    next = psn_add(next, kCount);
    std::size_t without = 0;
    std::uint32_t lacks = first;
    while (lacks == first) {
        std::optional<Received> got = peer.receive();
        ASSERT_TRUE(got.has_value());
        without += !got->icrc_ok;
        lacks = psn_add(lacks, got->icrc_ok);
    }
    EXPECT_GE(without, 4U);
    constexpr int kRounds = 200;
    for (int rounds = 0; lacks != next && rounds < kRounds;) {
        std::optional<Received> got = peer.receive(20ms);
        if (!got) {
            line->send(line->ack_of(psn_add(lacks, -1), answered));
            rounds++;
        } else {
            without += !got->icrc_ok;
            lacks = psn_add(lacks, got->packet.psn == lacks && got->icrc_ok);
        }
    }
    EXPECT_EQ(lacks, next);
    completed(1);
    EXPECT_EQ(left_out() - before, without);
}

// The ICRC covers the IPv4 ID. Something that cuts frames into packets with other IDs than Linux
// spoils all but the first packet of each. The device then sends packets one by one, which a UDP
// checksum of 0 shows (Headers.UdpChecksumOfOnePacket).
TEST_F(RcRecovery, FramesThatAreCutWithOtherIdsAreGivenUp)
{
    constexpr std::size_t kCount = 40;
    constexpr int kRounds = 200;
    const auto given_up = [] {
        return vt::port_counter(vt::device_a(), "tx_segmentation_given_up");
    };
    const std::uint64_t before = given_up();
    vt::Params params = calm();
    params.retry_cnt = 7;
    anew(params);
    line->qp.post(send(kCount * kMtu));
    std::uint32_t lacks = next;
    next = psn_add(next, kCount);
    bool spoilt = false; // no more packets of a frame until the next NAK
    int rounds = 0;
    while (lacks != next && rounds < kRounds) {
        std::optional<Received> got = peer.receive(20ms);
        if (!got) {
            nak(lacks);
            spoilt = false;
            rounds++;
        } else if (got->packet.psn == lacks && !(spoilt && got->udp_checksum != 0)) {
            spoilt = got->udp_checksum != 0;
            lacks = psn_add(lacks, 1);
        }
    }
    EXPECT_EQ(lacks, next) << rounds << " rounds";
    EXPECT_EQ(given_up() - before, 1U);
    completed(1);
    line->qp.post(send(kCount * kMtu));
    lacks = next;
    next = psn_add(next, kCount);
    // The losses have made the window small.
    for (rounds = 0; lacks != next && rounds < kRounds;) {
        std::optional<Received> got = peer.receive(20ms);
        if (!got) {
            line->send(line->ack_of(psn_add(lacks, -1), answered));
            rounds++;
            continue;
        }
        EXPECT_EQ(got->udp_checksum, 0);
        if (got->packet.psn == lacks)
            lacks = psn_add(lacks, 1);
    }
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
