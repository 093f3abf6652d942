// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// dcqcn against the formulas of the SIGCOMM 2015 paper: each event, the fixed point of the fluid
// model, convergence.
#include "network.hpp"

#include <cmath>
#include <gtest/gtest.h>

namespace {

constexpr u64 kLine = mbit(40000);

// The paper's parameters, for a line of 40 Gbit/s.
rox_cc_link paper(u64 line = kLine)
{
    rox_cc_link link;
    rox_cc_link_init(&link, &rox_cc_dcqcn, line);
    link.params.dce_tcp_g = 1020; // g = 1/256
    link.params.dce_tcp_rtt = 55;
    link.params.rpg_time_reset = 55;
    link.params.rpg_byte_reset = 10'000'000;
    link.params.rpg_threshold = 5;
    link.params.rpg_ai_rate = 40;
    link.params.rpg_hai_rate = 200;
    return link;
}

// The state of the paper's algorithm, in exact arithmetic.
struct Model {
    double rc = double(kLine), rt = double(kLine), alpha = 1023.0 / 1024;
    int timer = 0, bytes = 0;

    void cnp()
    {
        rt = rc;
        rc *= 1 - alpha / 2;
        alpha += (1 - alpha) / 256;
        timer = bytes = 0;
    }
    void no_cnp() { alpha *= 255.0 / 256; }
    void increase()
    {
        if (std::min(timer, bytes) > 5)
            rt += double(mbit(200)) * (std::min(timer, bytes) - 5);
        else if (std::max(timer, bytes) > 5)
            rt += double(mbit(40));
        rt = std::min(rt, double(kLine));
        rc = (rt + rc) / 2;
    }
};

class Dcqcn : public testing::Test {
protected:
    Dcqcn() : link(paper()) { rox_cc_init(&link, &cc, 1024, kStart); }

    void cnp(u64 at)
    {
        link.ops->cnp(&link, &cc, at);
        model.cnp();
    }
    void expect_model() const
    {
        EXPECT_NEAR(double(cc.rate), model.rc, model.rc * 1e-3);
        EXPECT_NEAR(double(cc.dcqcn.target), model.rt, model.rt * 1e-3);
        EXPECT_NEAR(cc.dcqcn.alpha / 65536.0, model.alpha, 1e-3);
    }

    static constexpr u64 kStart = 12345;
    rox_cc_link link;
    rox_cc cc{};
    Model model;
};

TEST_F(Dcqcn, BeginsAtTheRateOfTheLine)
{
    EXPECT_EQ(cc.rate, kLine);
    EXPECT_EQ(cc.window, ROX_CC_WINDOW_MAX);
    EXPECT_EQ(rox_cc_quota(&cc, 0, kStart), ROX_CC_BURST_MAX);
}

TEST_F(Dcqcn, CnpReducesRateByHalfOfAlpha)
{
    for (int i = 0; i < 8; i++) {
        cnp(kStart + i * 50 * kUsec);
        expect_model();
    }
}

TEST_F(Dcqcn, AlphaFallsWithoutCnp)
{
    cnp(kStart);
    for (int i = 1; i <= 1000; i++) {
        // Not exactly when the period ends.
        rox_cc_sent(&link, &cc, 0, kStart + i * 55 * kUsec + i % 50 * kUsec);
        model.no_cnp();
        ASSERT_NEAR(cc.dcqcn.alpha / 65536.0, model.alpha, 0.005) << i;
    }
}

TEST_F(Dcqcn, AlphaOfManyPeriodsAtOnceIsTheSame)
{
    for (int periods : {1, 2, 3, 10, 100, 1000}) {
        rox_cc_init(&link, &cc, 1024, kStart);
        link.ops->cnp(&link, &cc, kStart);
        const double before = cc.dcqcn.alpha / 65536.0;
        rox_cc_sent(&link, &cc, 0, kStart + periods * 55 * kUsec);
        EXPECT_NEAR(cc.dcqcn.alpha / 65536.0, before * std::pow(255.0 / 256, periods), 0.005)
            << periods;
    }
}

TEST_F(Dcqcn, TimerLeadsThroughFastRecoveryToAdditiveIncrease)
{
    cnp(kStart);
    for (int i = 1; i <= 40; i++) {
        rox_cc_sent(&link, &cc, 0, kStart + i * 55 * kUsec);
        model.no_cnp();
        model.timer++;
        model.increase();
        SCOPED_TRACE(i);
        EXPECT_NEAR(double(cc.rate), model.rc, model.rc * 1e-4);
        EXPECT_NEAR(double(cc.dcqcn.target), model.rt, model.rt * 1e-4);
    }
}

TEST_F(Dcqcn, ByteCounterIncreasesTheSameWay)
{
    cnp(kStart);
    for (int i = 1; i <= 40; i++) {
        rox_cc_sent(&link, &cc, 10'000'000, kStart + i);
        model.bytes++;
        model.increase();
        SCOPED_TRACE(i);
        expect_model();
    }
}

TEST_F(Dcqcn, BothTogetherLeadToHyperIncrease)
{
    cnp(kStart);
    cnp(kStart + 50 * kUsec);
    const u64 from = kStart + 50 * kUsec;
    for (int i = 1; i <= 12; i++) {
        model.timer++;
        model.increase();
        model.bytes++;
        model.increase();
        rox_cc_sent(&link, &cc, 10'000'000, from + i * 55 * kUsec);
        SCOPED_TRACE(i);
        EXPECT_NEAR(double(cc.rate), model.rc, model.rc * 1e-4);
        EXPECT_NEAR(double(cc.dcqcn.target), model.rt, model.rt * 1e-4);
    }
    EXPECT_GT(model.timer, 5);
}

TEST_F(Dcqcn, TimerDoesNotDrift)
{
    cnp(kStart);
    const u64 from = kStart;
    std::mt19937_64 random(7);
    u64 now = from;
    u32 most = 0;
    // Looked at whenever it happens to be, the timer has fired once for each period.
    while (now < from + 3 * kSec) {
        now += random() % (200 * kUsec);
        rox_cc_sent(&link, &cc, 0, now);
        ASSERT_EQ(cc.dcqcn.timer_count, (now - from) / (55 * kUsec)) << now;
        most = cc.dcqcn.timer_count;
    }
    EXPECT_GT(most, 50000U);
}

TEST_F(Dcqcn, IdleTimeCountsAsItsPeriods)
{
    // As many periods at once as one after the other.
    for (u64 periods : {10, 64, 65, 100, 900}) {
        rox_cc stepped{};
        rox_cc_init(&link, &cc, 1024, kStart);
        rox_cc_init(&link, &stepped, 1024, kStart);
        for (int i = 0; i < 6; i++) {
            link.ops->cnp(&link, &cc, kStart + i * 50 * kUsec);
            link.ops->cnp(&link, &stepped, kStart + i * 50 * kUsec);
        }
        const u64 from = kStart + 250 * kUsec;
        for (u64 i = 1; i <= periods; i++)
            rox_cc_sent(&link, &stepped, 0, from + i * 55 * kUsec);
        rox_cc_sent(&link, &cc, 0, from + periods * 55 * kUsec);
        EXPECT_NEAR(double(cc.rate), double(stepped.rate), double(stepped.rate) * 1e-6) << periods;
        EXPECT_EQ(cc.dcqcn.target, stepped.dcqcn.target) << periods;
        EXPECT_EQ(cc.dcqcn.timer_count, stepped.dcqcn.timer_count) << periods;
    }
}

TEST_F(Dcqcn, FloodOfCnpsEndsAtTheMinimumAndIsForgotten)
{
    u64 now = kStart;
    for (int i = 0; i < 10000; i++, now += 4 * kUsec) {
        link.ops->cnp(&link, &cc, now);
        ASSERT_GE(cc.rate, mbit(1));
        ASSERT_LE(cc.rate, kLine);
    }
    EXPECT_EQ(cc.rate, mbit(1));
    // Additive increase alone takes 1,000 periods to the line.
    rox_cc_sent(&link, &cc, 0, now + 1100 * 55 * kUsec);
    EXPECT_EQ(cc.rate, kLine);
}

TEST_F(Dcqcn, ParametersLimitReductions)
{
    link.params.rpg_min_dec_fac = 80;
    link.ops->cnp(&link, &cc, kStart);
    EXPECT_EQ(cc.rate, kLine * 80 / 100);
    // Not twice within rate_reduce_monitor_period.
    link.ops->cnp(&link, &cc, kStart + 3 * kUsec);
    EXPECT_EQ(cc.rate, kLine * 80 / 100);
    link.ops->cnp(&link, &cc, kStart + 4 * kUsec);
    EXPECT_EQ(cc.rate, kLine * 80 / 100 * 80 / 100);

    link.params.rate_to_set_on_first_cnp = 1000;
    rox_cc_init(&link, &cc, 1024, kStart);
    link.ops->cnp(&link, &cc, kStart);
    EXPECT_EQ(cc.rate, mbit(1000));
    EXPECT_EQ(cc.dcqcn.target, mbit(1000));

    link.params.rpg_max_rate = 5000;
    rox_cc_init(&link, &cc, 1024, kStart);
    EXPECT_EQ(cc.rate, mbit(5000));
}

TEST_F(Dcqcn, TimeoutCountsAsCnpAndLossChangesNothing)
{
    EXPECT_EQ(link.ops->loss, nullptr);
    link.ops->timeout(&link, &cc, kStart);
    model.cnp();
    expect_model();
}

// ---- the fluid model ----

// Flows with DCQCN at a bottleneck that marks with a probability that grows linearly.
struct Fluid {
    double rate; // of the bottleneck, in packets a second
    double flows;
    double slope;              // marking probability for each byte in the queue
    double from;               // bytes in the queue from which on packets are marked
    double tau = 50e-6;        // CNP interval
    double period = 55e-6;     // of alpha and of the timer
    double bytes = 1e7 / 1024; // byte counter, in packets
    double f = 5;
    double step; // additive increase, in packets a second

    // Zero at the fixed point (equation 11 of Zhu et al., CoNEXT 2016).
    double excess(double p) const
    {
        const double r = rate / flows, l = std::log1p(-p);
        const double a = -std::expm1(l * tau * r);
        const double b = p / std::expm1(-l * bytes), c = std::exp(l * f * bytes) * b;
        const double d = p / std::expm1(-l * period * r), e = std::exp(l * f * period * r) * d;
        return a * a * alpha(p) - (b + d) * (c + e) * tau * tau * step * r;
    }
    double alpha(double p) const { return -std::expm1(std::log1p(-p) * period * rate / flows); }
    double queue(double p) const { return from + p / slope; }
    double fixed_point() const
    {
        double low = 1e-9, high = 0.5;
        for (int i = 0; i < 100; i++) {
            const double middle = std::sqrt(low * high);
            (excess(middle) > 0 ? high : low) = middle;
        }
        return low;
    }
};

class FixedPoint : public testing::TestWithParam<int> {};

TEST_P(FixedPoint, OfTheFluidModel)
{
    const int flows = GetParam();
    const rox_cc_link link = paper();
    Network network({.rate = kLine,
                     .round_trip = 4 * kUsec,
                     .mark_from = 5'000,
                     .mark_all = 20'005'000,
                     .mark_most = 0.1,
                     .mark_leaving = true});
    std::vector<Rox *> senders;
    for (int i = 0; i < flows; i++) {
        senders.push_back(&network.add<Rox>(link));
        senders.back()->longest_burst = 1024;
    }
    double queue = 0, alpha = 0, rate = 0, fastest = 0;
    int samples = 0;
    for (u64 t = 0; t < 250 * kMsec; t += 20 * kUsec) {
        network.run(t);
        if (t < 100 * kMsec)
            continue;
        samples++;
        queue += double(network.queue());
        for (const Rox *sender : senders) {
            alpha += sender->cc.dcqcn.alpha / 65536.0 / flows;
            rate += double(sender->cc.rate) / flows;
        }
    }
    for (const Rox *sender : senders) {
        fastest = std::max(fastest, double(sender->fastest));
        EXPECT_GE(sender->slowest, mbit(1));
    }
    EXPECT_LE(fastest, double(kLine));

    const double packet = 1024 + Network::kHeaders;
    const Fluid fluid = {.rate = double(kLine) / packet,
                         .flows = double(flows),
                         .slope = 0.1 / 20e6,
                         .from = 5'000,
                         .step = double(mbit(40)) / packet};
    const double p = fluid.fixed_point();
    // The rate is one of payload.
    const double fair = double(kLine) / flows * 1024 / packet;
    EXPECT_NEAR(rate / samples, fair, fair * 0.1);
    EXPECT_NEAR(alpha / samples, fluid.alpha(p), fluid.alpha(p) * 0.1);
    EXPECT_NEAR(queue / samples, fluid.queue(p), fluid.queue(p) * 0.1);
}

INSTANTIATE_TEST_SUITE_P(Flows, FixedPoint, testing::Values(2, 8, 64));

// A second flow comes when the first one has the line: how long until the rates are equal?
TEST(Convergence, TwoFlowsShareWithinATenthOfASecond)
{
    const rox_cc_link link = paper();
    Network network({.rate = kLine,
                     .round_trip = 4 * kUsec,
                     .mark_from = 5'000,
                     .mark_all = 200'000,
                     .mark_most = 0.01,
                     .mark_leaving = true});
    Rox &first = network.add<Rox>(link);
    Rox &second = network.add<Rox>(link, 50 * kMsec);
    first.longest_burst = second.longest_burst = 1024;
    network.run(150 * kMsec);
    const u64 before[] = {first.delivered, second.delivered};
    network.run(250 * kMsec);
    const std::vector<double> shares = {double(first.delivered - before[0]),
                                        double(second.delivered - before[1])};
    EXPECT_GE(jain(shares), 0.95);
    EXPECT_GE((shares[0] + shares[1]) * 10, double(kLine) * 0.92 * 1024 / 1088);
}

} // namespace
