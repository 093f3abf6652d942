// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// adaptive in networks that are shared, full, far, short of memory or lossy.
#include "network.hpp"

#include <algorithm>
#include <gtest/gtest.h>
#include <ostream>

namespace {

constexpr u64 kRate = mbit(100);

rox_cc_link link_of(const rox_cc_ops *ops, u64 line = mbit(10000))
{
    rox_cc_link link;
    rox_cc_link_init(&link, ops, line);
    return link;
}

struct Flows {
    int rox, cubic = 0;
    u64 apart = 0; // time between their beginnings
};

struct Outcome {
    double used;  // delivered payload, of what the bottleneck can carry
    double share; // rox's part of it
    double fair;  // Jain's index
    double queue; // mean, in bytes
    u64 drops;
};

Outcome run(const Path &path, const Flows &flows, u64 from, u64 to, u32 mtu = 1024,
            unsigned int seed = 1)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    Network network(path, seed);
    for (int i = 0; i < flows.rox; i++)
        network.add<Rox>(link, i * flows.apart, ~0ULL, mtu);
    for (int i = 0; i < flows.cubic; i++)
        network.add<Cubic>(i * flows.apart);
    network.run(from);
    std::vector<double> shares;
    for (const auto &sender : network.senders())
        shares.push_back(-double(sender->delivered));
    const u64 drops = network.drops();
    double queue = 0;
    int samples = 0;
    for (u64 t = from; t <= to; t += kMsec, samples++) {
        network.run(t);
        queue += double(network.queue());
    }
    double all = 0, rox = 0;
    for (std::size_t i = 0; i < shares.size(); i++) {
        shares[i] += double(network.senders()[i]->delivered);
        all += shares[i];
        rox += i < std::size_t(flows.rox) ? shares[i] : 0;
    }
    for (int i = 0; i < flows.rox; i++) {
        const auto &sender = dynamic_cast<const Rox &>(*network.senders()[i]);
        EXPECT_LE(sender.fastest, link.line_rate);
        EXPECT_GE(sender.cc.window, mtu);
        EXPECT_LE(sender.cc.window, ROX_CC_WINDOW_MAX);
    }
    const double payload = double(mtu) / (mtu + Network::kHeaders);
    return {all / (double(path.rate) * payload * double(to - from) / double(kSec)), rox / all,
            jain(shares), queue / samples, network.drops() - drops};
}

u64 bdp(u64 rate, u64 round_trip)
{
    return std::max<u64>(rate * round_trip / kSec, 30'000);
}

// ---- alone and among its own kind ----

struct Distance {
    u64 round_trip;
};
std::ostream &operator<<(std::ostream &out, const Distance &d)
{
    return out << d.round_trip / kUsec << "us";
}

class Distances : public testing::TestWithParam<Distance> {
protected:
    const u64 round_trip = GetParam().round_trip;
    const u64 product = bdp(kRate, round_trip);
};

// Fills the path and leaves most of the buffer empty: a product of bandwidth and delay, or the 2 ms
// that a small window may have, and a burst.
TEST_P(Distances, OneFlowKeepsTheQueueShort)
{
    const Outcome o = run({.rate = kRate, .round_trip = round_trip, .limit = 8 * product},
                          {.rox = 1}, kSec, 5 * kSec);
    EXPECT_GE(o.used, 0.95);
    EXPECT_LE(o.queue, double(std::max(product, bdp(kRate, 3 * kMsec))));
    EXPECT_EQ(o.drops, 0U);
}

// So do packets of which few are a whole window.
TEST_P(Distances, OneFlowOfLargePacketsKeepsTheQueueShort)
{
    const Outcome o = run({.rate = kRate, .round_trip = round_trip, .limit = 4U << 20}, {.rox = 1},
                          kSec, 5 * kSec, 4096);
    EXPECT_GE(o.used, 0.95);
    EXPECT_LE(o.queue, double(std::max(2 * product, bdp(kRate, 4 * kMsec))));
}

// Far away, who comes late is slower to get its share, as with CUBIC: 0.89 at 20 ms.
TEST_P(Distances, EightFlowsShareABufferWithoutMarks)
{
    for (u64 apart : {u64(0), 300 * kMsec}) {
        if (apart && round_trip > 5 * kMsec)
            break;
        const u64 from = 7 * apart + 5 * kSec;
        const Outcome o = run({.rate = kRate, .round_trip = round_trip, .limit = 2 * product},
                              {.rox = 8, .apart = apart}, from, from + 5 * kSec);
        EXPECT_GE(o.used, 0.92) << apart;
        EXPECT_GE(o.fair, 0.95) << apart;
    }
}

TEST_P(Distances, EightFlowsShareAQueueWithMarks)
{
    for (u64 apart : {u64(0), 300 * kMsec}) {
        const u64 from = 7 * apart + 5 * kSec;
        const Outcome o = run({.rate = kRate,
                               .round_trip = round_trip,
                               .limit = 8 * product,
                               .mark_from = product / 2,
                               .mark_all = product / 2},
                              {.rox = 8, .apart = apart}, from, from + 3 * kSec);
        EXPECT_GE(o.used, 0.92) << apart;
        EXPECT_GE(o.fair, 0.95) << apart;
        EXPECT_LE(o.queue, double(product)) << apart;
        EXPECT_EQ(o.drops, 0U) << apart;
    }
}

TEST_P(Distances, OneFlowWithMarks)
{
    const Outcome o = run({.rate = kRate,
                           .round_trip = round_trip,
                           .limit = 8 * product,
                           .mark_from = product / 4,
                           .mark_all = product / 4},
                          {.rox = 1}, kSec, 4 * kSec);
    EXPECT_GE(o.used, 0.92);
    EXPECT_LE(o.queue, double(product));
    EXPECT_EQ(o.drops, 0U);
}

INSTANTIATE_TEST_SUITE_P(RoundTrip, Distances,
                         testing::Values(Distance{100 * kUsec}, Distance{kMsec},
                                         Distance{5 * kMsec}, Distance{20 * kMsec}));

// A path that needs 25 MB in flight.
TEST(Adaptive, GrowsToThePath)
{
    const Outcome o = run({.rate = mbit(10000), .round_trip = 20 * kMsec, .limit = 64 << 20},
                          {.rox = 1}, kSec, 2 * kSec, 4096);
    EXPECT_GE(o.used, 0.9);
}

// ---- incast ----

TEST(Adaptive, IncastLosesNothing)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    for (u64 rate : {mbit(1000), mbit(10000)}) {
        Network network({.rate = rate,
                         .round_trip = 50 * kUsec,
                         .limit = 1 << 20,
                         .mark_from = 100'000,
                         .mark_all = 100'000});
        for (int i = 0; i < 16; i++)
            network.add<Rox>(link, 0, 1 << 20);
        network.run(kSec);
        u64 last = 0;
        for (const auto &sender : network.senders()) {
            ASSERT_NE(sender->finished, 0U);
            last = std::max(last, sender->finished);
        }
        const double ideal = 16.0 * (1 << 20) * 1088 / 1024 / double(rate) * double(kSec);
        EXPECT_EQ(network.drops(), 0U) << rate;
        EXPECT_LE(double(last), 1.3 * ideal) << rate;
    }
}

// ---- beside TCP ----

struct Buffer {
    u64 round_trip;
    double products; // size in bandwidth-delay products
};
std::ostream &operator<<(std::ostream &out, const Buffer &b)
{
    return out << b.round_trip / kUsec << "us, x " << b.products;
}

class BesideCubic : public testing::TestWithParam<Buffer> {};

TEST_P(BesideCubic, EachSideHasItsShare)
{
    const auto [round_trip, products] = GetParam();
    const Outcome o = run({.rate = kRate,
                           .round_trip = round_trip,
                           .limit = u64(double(bdp(kRate, round_trip)) * products)},
                          {.rox = 4, .cubic = 4, .apart = 100 * kMsec}, 5 * kSec, 30 * kSec);
    EXPECT_GE(o.used, 0.92);
    EXPECT_GE(o.share, 0.3);
    EXPECT_LE(o.share, 0.7);
}

INSTANTIATE_TEST_SUITE_P(Buffers, BesideCubic,
                         testing::Values(Buffer{kMsec, 0.5}, Buffer{kMsec, 1}, Buffer{kMsec, 4},
                                         Buffer{5 * kMsec, 0.5}, Buffer{5 * kMsec, 1},
                                         Buffer{5 * kMsec, 4}, Buffer{20 * kMsec, 0.5},
                                         Buffer{20 * kMsec, 1}));

// ---- bad paths ----

TEST(Adaptive, KeepsGoingThroughAQueueOfTenPackets)
{
    for (u64 rate : {mbit(100), mbit(1000)})
        for (u32 mtu : {1024U, 4096U}) {
            const Outcome o = run(
                {.rate = rate, .round_trip = kMsec, .limit = 10 * (mtu + Network::kHeaders)},
                {.rox = 1}, kSec, 4 * kSec, mtu);
            EXPECT_GE(o.used, 0.6) << rate << " " << mtu;
        }
}

TEST(Adaptive, ReachesFarWithJitter)
{
    for (unsigned int seed : {1, 2, 3}) {
        const Outcome o = run(
            {.rate = kRate, .round_trip = 15 * kMsec, .limit = 1 << 20, .jitter = 10 * kMsec},
            {.rox = 1}, kSec, 5 * kSec, 1024, seed);
        EXPECT_GE(o.used, 0.8) << seed;
    }
}

TEST(Adaptive, RandomLossIsNoCongestion)
{
    for (u64 round_trip : {100 * kUsec, kMsec, 5 * kMsec, 20 * kMsec})
        for (u64 rate : {mbit(100), mbit(1000)}) {
            const Outcome o = run({.rate = rate,
                                   .round_trip = round_trip,
                                   .limit = 2 * bdp(rate, round_trip),
                                   .loss = 0.01},
                                  {.rox = 1}, 2 * kSec, 3 * kSec);
            EXPECT_GE(o.used, 0.8) << round_trip << " " << rate;
        }
}

// Hosts that lose their CPUs for milliseconds, as virtual machines do.
TEST(Adaptive, RandomLossIsNoCongestionWhereHostsHalt)
{
    for (u64 each : {5 * kMsec, 10 * kMsec, 20 * kMsec, 50 * kMsec}) {
        const Outcome o = run({.rate = mbit(400),
                               .round_trip = kMsec,
                               .limit = 4U << 20,
                               .loss = 0.01,
                               .stall_each = each,
                               .stall_most = 4 * kMsec},
                              {.rox = 1}, kSec, 8 * kSec, 4096);
        EXPECT_GE(o.used, 0.85) << each / kMsec;
    }
}

// Where they lose them each millisecond, a flow cannot wait for a second without a delay.
TEST(Adaptive, RandomLossIsNoCongestionWhereHostsHaltAllTheTime)
{
    for (u64 each : {1, 2, 3})
        for (unsigned int seed = 1; seed <= 6; seed++) {
            const Outcome o = run({.rate = mbit(400),
                                   .round_trip = kMsec,
                                   .limit = 4U << 20,
                                   .loss = 0.01,
                                   .stall_each = each * kMsec,
                                   .stall_most = 4 * kMsec},
                                  {.rox = 1}, 2 * kSec, 4 * kSec, 4096, seed);
            EXPECT_GE(o.used, 0.85) << each << " " << seed;
        }
}

// 5 % lost: twice what TCP has, or nearly all.
TEST(Adaptive, HeavyLossLeavesMoreThanTcpHas)
{
    for (u64 round_trip : {kMsec, 5 * kMsec, 20 * kMsec}) {
        const Path path = {.rate = kRate,
                           .round_trip = round_trip,
                           .limit = 2 * bdp(kRate, round_trip),
                           .loss = 0.05};
        const Outcome mine = run(path, {.rox = 1}, 2 * kSec, 6 * kSec);
        const Outcome tcp = run(path, {.rox = 0, .cubic = 1}, 2 * kSec, 6 * kSec);
        EXPECT_GE(mine.used, std::min(2 * tcp.used, 0.85)) << round_trip;
    }
}

TEST(Adaptive, TimeoutHalvesTheWindow)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    rox_cc_init(&link, &cc, 1024, 0);
    const u32 before = cc.window;
    link.ops->timeout(&link, &cc, kSec);
    EXPECT_EQ(cc.window, before / 2);
    for (int i = 0; i < 40; i++)
        link.ops->timeout(&link, &cc, kSec + i);
    EXPECT_EQ(cc.window, 1024U);
}

// A queue of a few packets: no packet of the first windows is acknowledged before others are lost.
TEST(Adaptive, SlowStartEndsWithLossesBeforeTheFirstRoundTrip)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    rox_cc_init(&link, &cc, 1024, 0);
    const u32 before = cc.window;
    for (u64 now = kMsec; now < kSec; now += kMsec) {
        const rox_cc_ack ack = {8 * 1024, 16 * 1024, 0};
        link.ops->loss(&link, &cc, 1024, now);
        link.ops->acked(&link, &cc, &ack, now);
    }
    EXPECT_LE(cc.window, before);
}

TEST(Adaptive, LossesCountInRoundsWithoutARoundTrip)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    rox_cc_init(&link, &cc, 1024, 0);
    rox_cc_ack ack = {64 * 1024, 64 * 1024, kMsec};
    link.ops->acked(&link, &cc, &ack, kMsec);
    const u32 before = cc.window;
    ack = {4 * 1024, 64 * 1024, 0};
    for (u64 now = 2 * kMsec; now < 40 * kMsec; now += kMsec) {
        link.ops->loss(&link, &cc, 4 * 1024, now);
        link.ops->acked(&link, &cc, &ack, now);
    }
    EXPECT_LT(cc.window, before / 4);
    EXPECT_GE(cc.window, 1024U);
}

// A host that is busy for a moment delays a round or two. A queue stays.
TEST(Adaptive, OnlyADelayThatStaysShrinksTheWindow)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    u64 now = kSec;
    const auto rounds = [&](int count, u64 round_trip) {
        while (count--) {
            const rox_cc_ack ack = {cc.window, cc.window, round_trip};
            link.ops->acked(&link, &cc, &ack, now += 20 * kMsec);
        }
        return cc.window;
    };
    rox_cc_init(&link, &cc, 1024, now);
    rounds(3, 100 * kUsec);
    rounds(1, 3 * kMsec); // slow start ends
    u32 before = rounds(3, 100 * kUsec);
    for (int delayed : {1, 2}) {
        EXPECT_GE(rounds(delayed, 10 * kMsec), before) << delayed;
        before = rounds(3, 100 * kUsec);
    }
    EXPECT_LT(rounds(3, 10 * kMsec), before);
}

// Losses while the queue is empty are random, also where hosts halt. Once somebody else keeps the
// queue full, or where as many come with a queue, CUBIC's rules hold.
TEST(Adaptive, LossesWithoutAQueueAreRandomUntilOthersFillIt)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    u64 now = kSec;
    const auto rounds = [&](int count, u64 shorter, u64 longer, bool lost) {
        for (int i = 0; i < count; i++) {
            const rox_cc_ack ack = {cc.window, cc.window, i / 8 % 2 ? longer : shorter};
            if (lost && i % 2)
                link.ops->loss(&link, &cc, cc.window / 16, now);
            link.ops->acked(&link, &cc, &ack, now += 20 * kMsec);
        }
    };
    rox_cc_init(&link, &cc, 1024, now);
    rounds(2, kMsec, kMsec, true);
    rounds(200, kMsec, 3 * kMsec, true);
    EXPECT_FALSE(cc.adaptive.trusted); // half of them with a queue
    EXPECT_TRUE(cc.adaptive.shares);
    for (int i = 0; i < 40; i++) {
        rounds(2, 3 * kMsec, 3 * kMsec, false);
        rounds(2, kMsec, kMsec, true);
    }
    EXPECT_TRUE(cc.adaptive.trusted);
    EXPECT_FALSE(cc.adaptive.shares);
    rounds(20, 30 * kMsec, 30 * kMsec, false);
    EXPECT_TRUE(cc.adaptive.shares);
    rounds(2, 30 * kMsec, 30 * kMsec, true);
    EXPECT_FALSE(cc.adaptive.trusted);
}

// A packet that is acknowledged with the one that was lost before it has no round trip of its own.
// A flow that took each loss for congestion finds out that the queue is empty all the same.
TEST(Adaptive, PacketsThatWaitForALostOneAreNoQueue)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    rox_cc cc;
    u64 now = kSec;
    const auto rounds = [&](int count) {
        for (int i = 0; i < count; i++) {
            const bool lost = i % 4 == 0;
            const rox_cc_ack ack = {cc.window, cc.window, lost ? 3 * kMsec : kMsec};
            if (lost)
                link.ops->loss(&link, &cc, 1024, now);
            link.ops->acked(&link, &cc, &ack, now += 2 * kMsec);
        }
        return cc.window;
    };
    rox_cc_init(&link, &cc, 1024, now);
    rounds(4);
    EXPECT_LT(rounds(100), 32U * 1024);
    EXPECT_GT(rounds(1000), 128U * 1024);
}

// CPUs that are taken away make round trips unsteady. A queue makes them long.
TEST(Adaptive, UnsteadyRoundTripsAreNoQueue)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    const auto growth = [&](u64 shortest, u64 longest) {
        rox_cc cc;
        u64 now = kSec;
        const auto acks = [&](int count, u64 even, u64 odd) {
            for (int i = 0; i < count; i++) {
                const rox_cc_ack ack = {cc.window / 4, cc.window, i % 2 ? odd : even};
                link.ops->acked(&link, &cc, &ack, now += kMsec);
            }
            return double(cc.window);
        };
        rox_cc_init(&link, &cc, 1024, now);
        acks(10, 100 * kUsec, 100 * kUsec);
        const double before = acks(20, shortest, longest); // slow start is over
        return acks(80, shortest, longest) / before;
    };
    EXPECT_GT(growth(3 * kMsec, 6 * kMsec), 1);
    EXPECT_LT(growth(3 * kMsec, 3 * kMsec), 0.9);
}

// ---- bursts ----

u32 window_of_burst(const rox_cc &cc)
{
    return cc.burst ? cc.window / cc.burst : 0;
}

u32 after(const Path &path, u64 time)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    Network network(path);
    const Rox &sender = network.add<Rox>(link, 0, ~0ULL, 4096);
    network.run(time);
    return window_of_burst(sender.cc);
}

TEST(Adaptive, BurstsAreAPartOfTheWindowUnlessThePathIsShort)
{
    const u64 limit = 64 << 20;
    EXPECT_EQ(after({.rate = mbit(100000), .round_trip = 40 * kUsec, .limit = limit}, kMsec), 1U);
    EXPECT_EQ(after({.rate = mbit(10000), .round_trip = kMsec, .limit = limit}, 20 * kMsec), 4U);
    // ACKs clock what goes into a queue of our own.
    EXPECT_EQ(after({.rate = mbit(100), .round_trip = 40 * kUsec, .limit = limit}, kSec), 1U);
}

// After a loss of a flow that does not trust its round trip, CUBIC's rules hold for longer.
TEST(Adaptive, BurstsAreAPartOfTheWindowAfterALossOrACnp)
{
    const rox_cc_link link = link_of(&rox_cc_adaptive);
    for (int event : {0, 1, 2}) {
        rox_cc cc;
        u64 now = kSec;
        const auto rounds = [&](int count) {
            const rox_cc_ack ack = {1024, 1024, 20 * kUsec};
            while (count--)
                link.ops->acked(&link, &cc, &ack, now += 20 * kUsec);
            return window_of_burst(cc);
        };
        rox_cc_init(&link, &cc, 1024, now);
        EXPECT_EQ(window_of_burst(cc), 4U);
        EXPECT_EQ(rounds(10), 1U);
        if (event == 0)
            link.ops->cnp(&link, &cc, now);
        else if (event == 1)
            link.ops->timeout(&link, &cc, now);
        else
            link.ops->loss(&link, &cc, 1024, now);
        EXPECT_EQ(window_of_burst(cc), 4U) << event;
        EXPECT_EQ(rounds(90), 4U) << event;
        EXPECT_EQ(rounds(30), event < 2 ? 1U : 4U) << event;
    }
}

// ---- the algorithm without control ----

TEST(None, HasAFixedWindow)
{
    const rox_cc_link link = link_of(&rox_cc_none);
    Network network({.rate = kRate, .round_trip = 20 * kMsec, .loss = 0.02});
    Rox &sender = network.add<Rox>(link);
    network.run(2 * kSec);
    EXPECT_EQ(sender.cc.window, 512U * 1024);
    EXPECT_EQ(sender.cc.rate, 0U);
    EXPECT_GT(sender.delivered, kRate);
}

} // namespace
