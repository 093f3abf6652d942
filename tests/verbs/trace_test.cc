// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What can be seen from outside: tracepoints of one transfer, counters of the port.
#include <fstream>
#include <string>
#include <vector>

#include <sys/mount.h>

#include "lib/pair.h"
#include "lib/rdmatool.h"

using namespace vt;

namespace {

/// rox' tracepoints, on as long as this lives; other users of them are not expected.
class Trace {
public:
    Trace()
    {
        // `ip netns exec` gives a /sys of its own, without tracefs.
        if (!exists(kRoot + "trace") && mount("tracefs", kRoot.c_str(), "tracefs", 0, nullptr))
            fail("mount tracefs", errno);
        write("trace", "");
        write("events/rox/enable", "1");
    }
    ~Trace() { write("events/rox/enable", "0"); }

    /// Lines of @p event that contain all of @p words.
    static std::size_t count(const std::string &event, const std::vector<std::string> &words)
    {
        std::ifstream file(kRoot + "trace");
        std::size_t found = 0;
        for (std::string line; std::getline(file, line);) {
            line += ' ';
            bool match = line.find(" " + event + ": ") != std::string::npos;
            for (const std::string &word : words)
                match = match && line.find(" " + word + " ") != std::string::npos;
            found += match;
        }
        return found;
    }

private:
    static bool exists(const std::string &path) { return std::ifstream(path).good(); }
    static void write(const std::string &name, const std::string &text)
    {
        std::ofstream file(kRoot + name);
        if (!(file << text << std::flush))
            fail("write to " + kRoot + name);
    }

    static inline const std::string kRoot = "/sys/kernel/tracing/";
};

std::string is_now(const char *name, std::uint64_t value)
{
    return name + ("=" + std::to_string(value));
}

class TraceCore : public PairTest {
protected:
    Buffer near = a.buffer(65536);
    Buffer far = b.buffer(65536);
};

TEST_F(TraceCore, PostPacketsAndCompletionsOfATransferAreSeen)
{
    start();
    const std::string from = is_now("qpn", a.qp->number());
    const std::string to = is_now("qpn", b.qp->number());
    Trace trace;
    b.qp->post_recv(4242, {far.sge(0, 5000)});
    a.qp->post(SendWr::send({near.sge(0, 5000)}).id(777));
    ASSERT_TRUE(is(a.send_cq.one(), 777, IBV_WC_SEND));
    ASSERT_TRUE(is(b.recv_cq.one(), 4242, IBV_WC_RECV));

    const std::string psn = is_now("psn", Params{}.psn);
    EXPECT_EQ(trace.count("rox_post_send", {from, "wr_id=777", "length=5000", psn}), 1U);
    EXPECT_GE(trace.count("rox_packet_out", {from, is_now("dqpn", b.qp->number()), psn}), 1U);
    EXPECT_GE(trace.count("rox_packet_in", {to, psn}), 1U);
    // The ACK on its way back.
    EXPECT_GE(trace.count("rox_packet_out", {to, "opcode=0x11"}), 1U);
    EXPECT_GE(trace.count("rox_packet_in", {from, "opcode=0x11"}), 1U);
    EXPECT_EQ(trace.count("rox_completion", {from, "wr_id=777", "status=0"}), 1U);
    EXPECT_EQ(trace.count("rox_completion", {to, "wr_id=4242", "status=0", "byte_len=5000"}), 1U);
    EXPECT_EQ(trace.count("rox_cq", {"depth=1"}), 2U);
    EXPECT_EQ(trace.count("rox_retry", {}), 0U);
}

TEST_F(TraceCore, RetriesAreSeenWithTheirCause)
{
    Params params;
    params.min_rnr_timer = 14; // 1.28 ms
    start({}, params);
    Trace trace;
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(1));
    EXPECT_TRUE(eventually([&] {
        return trace.count("rox_retry", {is_now("qpn", a.qp->number()), "cause=RNR"}) > 0;
    }));
    b.qp->post_recv(2, {far.sge(0, 100)});
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
}

/// What a counter of the port has gained since this was made.
class Gain {
public:
    Gain(const End &end, std::string name) : end_(end), name_(std::move(name)), before_(now()) {}
    std::uint64_t operator()() const { return now() - before_; }

private:
    std::uint64_t now() const { return port_counter(end_.context.name(), name_); }

    const End &end_;
    std::string name_;
    std::uint64_t before_;
};

class CountersCore : public PairTest {
protected:
    Buffer near = a.buffer(65536);
    Buffer far = b.buffer(65536);
};

TEST_F(CountersCore, PacketsBytesAndRequestsAreCounted)
{
    start();
    Gain tx_packets(a, "tx_packets"), rx_packets(b, "rx_packets"), tx_bytes(a, "tx_bytes");
    Gain writes(b, "rx_write_requests"), reads(b, "rx_read_requests");
    Gain atomics(b, "rx_atomic_requests"), doorbells(a, "doorbells");
    a.qp->post(SendWr::write({near.sge(0, 10 * 1024)}, remote(far)).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    a.qp->post(SendWr::read({near.sge(0, 3000)}, remote(far)).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
    a.qp->post(SendWr::fetch_add(near.sge(0, 8), remote(far), 1).id(3));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_FETCH_ADD));
    // 10 packets of the WRITE, one request each for READ and atomic; ACKs and what a single
    // device sends to itself come on top.
    EXPECT_GE(tx_packets(), 12U);
    EXPECT_LE(tx_packets(), 40U);
    EXPECT_GE(rx_packets(), 12U);
    EXPECT_GE(tx_bytes(), 10U * 1024U);
    EXPECT_EQ(writes(), 1U);
    EXPECT_EQ(reads(), 1U);
    EXPECT_EQ(atomics(), 1U);
    EXPECT_GE(doorbells(), 1U);
}

TEST_F(CountersCore, WhatGoesWrongIsCountedWhereItHappens)
{
    Params params;
    params.min_rnr_timer = 14; // 1.28 ms
    params.rnr_retry = 2;
    start({}, params);
    Gain sent(b, "rnr_nak_sent"), exceeded(a, "req_rnr_retries_exceeded");
    Gain errors(a, "req_cqe_error"), flushed(a, "req_cqe_flush_error");
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(1));
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RNR_RETRY_EXC_ERR));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_WR_FLUSH_ERR));
    EXPECT_GE(sent(), 3U);
    EXPECT_EQ(exceeded(), 1U);
    EXPECT_EQ(errors(), 1U);
    EXPECT_EQ(flushed(), 1U);
}

TEST_F(CountersCore, RefusedKeysAreCountedOnBothSides)
{
    start();
    Gain here(a, "req_remote_access_errors"), there(b, "resp_remote_access_errors");
    a.qp->post(SendWr::write({near.sge(0, 100)}, {far.address(), far.rkey() ^ 0x5500}).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_EQ(here(), 1U);
    EXPECT_EQ(there(), 1U);
}

} // namespace
