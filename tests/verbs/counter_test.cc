// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// `rdma statistic`: counters of single QPs, by hand and by themselves, and optional counters.
#include <cstdio>

#include <unistd.h>

#include "lib/diagnose.h"
#include "lib/loopback.h"
#include "lib/pair.h"
#include "lib/process.h"
#include "lib/rdmatool.h"

using namespace vt;

namespace {

class Counter : public PairTest {
protected:
    void TearDown() override
    {
        more_a.reset();
        more_b.reset();
        PairTest::TearDown();
        reset();
    }

    std::string link() const { return "link " + a.context.name() + "/1"; }
    int statistic(const std::string &arguments) const
    {
        std::string output;
        int status = shell("exec rdma statistic " + arguments, &output);
        if (status)
            std::printf("rdma statistic %s: %s", arguments.c_str(), output.c_str());
        return status;
    }
    /// Nothing bound by itself any more, nothing optional.
    void reset() const
    {
        EXPECT_EQ(statistic("qp set " + link() + " auto off"), 0);
        EXPECT_EQ(statistic("unset " + link() + " optional-counters"), 0);
    }
    Record port() const { return port_counters(a.context.name()); }
    Records counters() const { return rdma_tool("statistic qp show " + link()); }
    /// The counter that a QP is bound to; an empty record if there is none.
    Record of(const Qp &qp) const
    {
        for (const Record &record : counters())
            if (record.has("lqpn") && record.lists("lqpn", qp.number()))
                return record;
        return {};
    }
    int bind(const Qp &qp, std::uint64_t counter = 0) const
    {
        std::string to = counter ? " cntn " + std::to_string(counter) : "";
        return statistic("qp bind " + link() + " lqpn " + std::to_string(qp.number()) + to);
    }
    int unbind(const Qp &qp, std::uint64_t counter) const
    {
        return statistic("qp unbind " + link() + " cntn " + std::to_string(counter) + " lqpn " +
                         std::to_string(qp.number()));
    }

    /// A second connection beside the fixture's.
    void start_more(const QpConfig &config = {}, const Params &params = {})
    {
        more_a = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), config);
        more_b = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), config);
        vt::connect(a.context, *more_a, b.context, *more_b, params);
    }
    /// @p count messages of 2,500 bytes, that is three packets each, one by one.
    void send(const Qp &from, const Qp &to, int count)
    {
        for (int i = 0; i < count; i++) {
            to.post_recv(1, {far.sge(0, 4096)});
            from.post(SendWr::send({near.sge(0, 2500)}).id(2));
            ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
            ASSERT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
        }
    }

    Buffer near = a.buffer(8 << 20);
    Buffer far = b.buffer(8 << 20);
    std::unique_ptr<Qp> more_a, more_b;
};

TEST_F(Counter, BoundQpIsCountedByItselfAndThePortHasTheSum)
{
    start();
    start_more();
    Record before = port();
    ASSERT_EQ(bind(*a.qp), 0);
    send(*a.qp, *b.qp, 4);
    send(*more_a, *more_b, 3);

    Record one = of(*a.qp);
    EXPECT_TRUE(shows(one, {{"tx_packets", 12},
                            {"tx_bytes", 4 * 2500},
                            {"doorbells", 4},
                            {"rx_acks", 4},
                            {"rx_packets", 4},
                            {"rx_bytes", 0},
                            {"tx_acks", 0},
                            {"retransmitted_packets", 0}}));

    Record after = port();
    // With one device the receivers' ACKs are its own as well.
    std::uint64_t own = one_device() ? 7 : 0;
    EXPECT_EQ(after.number("tx_packets") - before.number("tx_packets"), 21 + own);
    EXPECT_EQ(after.number("tx_bytes") - before.number("tx_bytes"), 7u * 2500);
    EXPECT_EQ(after.number("rx_acks") - before.number("rx_acks"), 7u);
}

TEST_F(Counter, ResponderCountsWhatItIsAsked)
{
    start();
    std::string peer = "link " + b.context.name() + "/1";
    ASSERT_EQ(statistic("qp bind " + peer + " lqpn " + std::to_string(b.qp->number())), 0);
    a.qp->post(SendWr::write({near.sge(0, 5000)}, remote(far)).id(1));
    a.qp->post(SendWr::read({near.sge(0, 3000)}, remote(far)).id(2));
    a.qp->post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(3));
    a.send_cq.wait(3);
    Records all = rdma_tool("statistic qp show " + peer);
    ASSERT_EQ(all.size(), 1u);
    EXPECT_TRUE(shows(all[0], {{"rx_write_requests", 1},
                               {"rx_read_requests", 1},
                               {"rx_atomic_requests", 1},
                               {"rx_packets", 7},
                               {"rx_bytes", 5000},
                               {"tx_bytes", 3000},
                               {"doorbells", 0}}));
}

/// In `make check` on each kernel, as the RDMA cores differ in what they call of a driver.
class CounterCore : public Counter {};

TEST_F(CounterCore, WhatAQpHadCountedStaysInThePortWhenItLeaves)
{
    start();
    Record before = port();
    ASSERT_EQ(bind(*a.qp), 0);
    send(*a.qp, *b.qp, 2);
    std::uint64_t id = of(*a.qp).number("cntn");
    ASSERT_EQ(unbind(*a.qp, id), 0);
    EXPECT_TRUE(counters().empty());
    send(*a.qp, *b.qp, 2);
    EXPECT_EQ(port().number("tx_bytes") - before.number("tx_bytes"), 4u * 2500);

    ASSERT_EQ(bind(*a.qp), 0);
    EXPECT_EQ(of(*a.qp).number("tx_bytes"), 0u) << "a new counter begins at nothing";
    send(*a.qp, *b.qp, 1);
    EXPECT_EQ(of(*a.qp).number("tx_bytes"), 2500u);
    a.qp.reset();
    EXPECT_TRUE(counters().empty()) << "it ends with its last QP";
    EXPECT_EQ(port().number("tx_bytes") - before.number("tx_bytes"), 5u * 2500);
}

TEST_F(Counter, OneCounterCountsSeveralQps)
{
    start();
    start_more();
    ASSERT_EQ(bind(*a.qp), 0);
    std::uint64_t id = of(*a.qp).number("cntn");
    send(*a.qp, *b.qp, 1);
    ASSERT_EQ(bind(*more_a, id), 0);
    send(*more_a, *more_b, 2);
    Record both = of(*more_a);
    EXPECT_EQ(both.number("cntn"), id);
    EXPECT_TRUE(both.lists("lqpn", a.qp->number()));
    EXPECT_EQ(both.number("tx_bytes"), 3u * 2500);
    ASSERT_EQ(unbind(*a.qp, id), 0);
    send(*a.qp, *b.qp, 1);
    Record left = of(*more_a);
    EXPECT_FALSE(left.lists("lqpn", a.qp->number()));
    EXPECT_EQ(left.number("tx_bytes"), 3u * 2500) << "what it had counted stays";
}

TEST_F(Counter, WrongBindingsAreRefused)
{
    start();
    start_more();
    ASSERT_EQ(bind(*a.qp), 0);
    std::uint64_t id = of(*a.qp).number("cntn");
    // Not to a new counter: the RDMA core of 6.12 then counts one that is not there.
    EXPECT_NE(bind(*a.qp, id), 0) << "it is bound";
    EXPECT_NE(bind(*more_a, id + 1000), 0) << "no such counter";
    EXPECT_NE(unbind(*more_a, id), 0) << "not bound";
    EXPECT_NE(unbind(*a.qp, id + 1), 0) << "bound to another one";
    EXPECT_NE(statistic("qp bind " + link() + " lqpn 16777214"), 0) << "no such QP";
    EXPECT_NE(statistic("qp set " + link() + " auto type on"), 0) << "there is one by hand";
    EXPECT_EQ(of(*a.qp).number("cntn"), id);
    send(*a.qp, *b.qp, 1);
    EXPECT_EQ(of(*a.qp).number("tx_packets"), 3u);
}

TEST_F(Counter, ByTypeEveryNewQpIsCountedWithItsKind)
{
    start_more();
    ASSERT_EQ(statistic("qp set " + link() + " auto type on"), 0);
    start();
    Qp ud(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {.type = IBV_QPT_UD});
    ud.to_init();
    Qp second(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    second.to_init();
    EXPECT_FALSE(of(*more_a).has("cntn")) << "it was there before";
    Record connected = of(*a.qp);
    EXPECT_TRUE(connected.lists("lqpn", second.number()));
    EXPECT_FALSE(connected.lists("lqpn", ud.number()));
    EXPECT_NE(of(ud).number("cntn"), connected.number("cntn"));
    EXPECT_NE(bind(*more_a), 0) << "not while counters come by themselves";

    send(*a.qp, *b.qp, 2);
    // With one device the receiver is of the same kind.
    EXPECT_EQ(of(*a.qp).number("tx_bytes"), 2u * 2500);
    EXPECT_EQ(of(ud).number("tx_bytes"), 0u);
}

TEST_F(Counter, ByPidEveryProcessHasItsOwn)
{
    ASSERT_EQ(statistic("qp set " + link() + " auto pid on"), 0);
    start();
    Qp ud(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), {.type = IBV_QPT_UD});
    ud.to_init();
    EXPECT_EQ(of(ud).number("cntn"), of(*a.qp).number("cntn"));
    EXPECT_EQ(of(ud).number("pid"), static_cast<std::uint64_t>(getpid()));

    pid_t child = in_child([] {
        End end(device_a());
        Qp qp(end.pd.get(), end.send_cq.get(), end.recv_cq.get());
        qp.to_init();
        return pause();
    });
    auto of_child = [&] { return with(counters(), "pid", static_cast<std::uint64_t>(child)); };
    EXPECT_TRUE(eventually([&] { return of_child().size() == 1; }));
    kill_child(child);
    EXPECT_TRUE(eventually([&] { return of_child().empty(); }));
    send(*a.qp, *b.qp, 1);
    EXPECT_EQ(of(*a.qp).number("tx_bytes"), 2500u);
}

TEST_F(Counter, TrafficDoesNotNoticeThatItIsBoundAndUnbound)
{
    start();
    Record before = port();
    std::uint64_t bytes = 0;
    for (Deadline deadline(1500ms); !deadline.passed();) {
        fill(near.bytes(0, 100000), bytes);
        for (std::uint64_t i = 0; i < 8; i++)
            a.qp->post(SendWr::write({near.sge(0, 100000)}, remote(far, i * 100000)).id(i));
        ASSERT_EQ(bind(*a.qp), 0);
        std::uint64_t id = of(*a.qp).number("cntn");
        a.qp->post(SendWr::write({near.sge(0, 100000)}, remote(far, 800000)).id(8));
        ASSERT_EQ(unbind(*a.qp, id), 0);
        a.send_cq.wait(9);
        for (std::uint64_t i = 0; i < 9; i++)
            ASSERT_TRUE(filled(far.bytes(i * 100000, 100000), bytes));
        bytes += 900000;
    }
    // A set that has ended gives back what it still had after a grace period.
    EXPECT_TRUE(
        eventually([&] { return port().number("tx_bytes") - before.number("tx_bytes") >= bytes; }));
}

const char *const kOptional[] = {"cc_rx_ce_pkts",  "tx_stall_window", "tx_stall_credits",
                                 "tx_stall_reads", "tx_stall_pace",   "work_deferred"};

class Optional : public Counter {
protected:
    void on(const std::string &names) const
    {
        ASSERT_EQ(statistic("set " + link() + " optional-counters " + names), 0);
    }
    /// What @p name of the port grows by in @p what.
    template <typename What>
    std::uint64_t grows(const char *name, What what)
    {
        std::uint64_t before = port().number(name);
        what();
        return port().number(name) - before;
    }
};

TEST_F(Optional, AreOffUntilTheyAreNamed)
{
    for (const char *name : kOptional)
        EXPECT_FALSE(port().has(name)) << name;
    std::string supported;
    EXPECT_EQ(shell("rdma statistic mode supported " + link(), &supported), 0);
    for (const char *name : kOptional)
        EXPECT_NE(supported.find(name), std::string::npos) << supported;
    on("tx_stall_reads,cc_rx_ce_pkts");
    EXPECT_TRUE(port().has("tx_stall_reads"));
    EXPECT_TRUE(port().has("cc_rx_ce_pkts"));
    EXPECT_FALSE(port().has("tx_stall_window"));
    std::string mode;
    EXPECT_EQ(shell("rdma statistic mode " + link(), &mode), 0);
    EXPECT_NE(mode.find("tx_stall_reads"), std::string::npos) << mode;
    on("tx_stall_window");
    EXPECT_FALSE(port().has("tx_stall_reads")) << "a new list replaces the old one";
    EXPECT_TRUE(port().has("tx_stall_window"));
    EXPECT_NE(statistic("set " + link() + " optional-counters tx_packets"), 0);
    EXPECT_NE(statistic("set " + link() + " optional-counters nonsense"), 0);
    EXPECT_EQ(statistic("unset " + link() + " optional-counters"), 0);
    EXPECT_FALSE(port().has("tx_stall_window"));
}

TEST_F(Optional, CountWhySendingStops)
{
    LoopbackOff wire;
    Params params;
    params.rd_atomic = params.dest_rd_atomic = 1;
    start({}, params);
    on("tx_stall_window,tx_stall_credits,tx_stall_reads");
    EXPECT_GT(grows("tx_stall_reads",
                    [&] {
                        for (std::uint64_t i = 0; i < 3; i++)
                            a.qp->post(SendWr::read({near.sge(0, 500000)}, remote(far)).id(i));
                        a.send_cq.wait(3);
                    }),
              0u);
    EXPECT_GT(grows("tx_stall_window",
                    [&] {
                        a.qp->post(SendWr::write({near.sge(0, 8 << 20)}, remote(far)).id(1));
                        a.send_cq.one();
                    }),
              0u);
    std::uint64_t window = port().number("tx_stall_window");
    EXPECT_GT(grows("tx_stall_credits",
                    [&] {
                        a.qp->post(SendWr::send({}).id(1));
                        a.qp->post(SendWr::send({}).id(2));
                        b.qp->post_recv(1);
                        b.qp->post_recv(2);
                        a.send_cq.wait(2);
                        b.recv_cq.wait(2);
                    }),
              0u);
    EXPECT_EQ(port().number("tx_stall_window"), window);
}

/// More in one go than whoever rings the doorbell does himself.
TEST_F(Optional, CountWorkThatIsLeftToWorkers)
{
    start({.type = IBV_QPT_UC, .send_wr = 1024});
    on("work_deferred");
    EXPECT_GT(grows("work_deferred",
                    [&] {
                        std::vector<SendWr> chain;
                        for (std::uint64_t i = 0; i < 1000; i++)
                            chain.push_back(SendWr::write({near.sge(0, 8)}, remote(far)).id(i));
                        for (std::size_t i = 0; i < 999; i++)
                            chain[i].unsignaled();
                        a.qp->post(chain);
                        EXPECT_TRUE(is(a.send_cq.one(), 999, IBV_WC_RDMA_WRITE));
                    }),
              0u);
}

TEST_F(Optional, AreCountedForBoundQpsAsWell)
{
    Params params;
    params.rd_atomic = params.dest_rd_atomic = 1;
    start({}, params);
    ASSERT_EQ(bind(*a.qp), 0);
    EXPECT_FALSE(of(*a.qp).has("tx_stall_reads"));
    on("tx_stall_reads");
    std::uint64_t before = port().number("tx_stall_reads");
    for (std::uint64_t i = 0; i < 3; i++)
        a.qp->post(SendWr::read({near.sge(0, 500000)}, remote(far)).id(i));
    a.send_cq.wait(3);
    EXPECT_GT(of(*a.qp).number("tx_stall_reads"), 0u);
    EXPECT_EQ(port().number("tx_stall_reads") - before, of(*a.qp).number("tx_stall_reads"));
}

} // namespace
