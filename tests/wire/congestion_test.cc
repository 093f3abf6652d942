// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Congestion: the mark of ECN and the CNP that answers it (annex A17.9), what a CNP does to the
/// sender, and the files that choose algorithm and parameters.
#include <chrono>
#include <cstring>
#include <sstream>

#include "../verbs/lib/clock.h"
#include "../verbs/lib/rdmatool.h"
#include "../verbs/lib/xrc.h"
#include "lib/line.h"
#include "lib/settings.h"

using namespace wire;
using vt::eventually;
using vt::is;
using vt::SendWr;

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint8_t kEct0 = 2;
constexpr std::uint8_t kCe = 3; ///< "congestion experienced"
constexpr std::uint8_t kDscp = 26 << 2;
constexpr std::uint64_t kMbit = 1000; ///< kbit/s

std::uint64_t counted(const char *name)
{
    return vt::port_counter(vt::device_a(), name);
}

/// The packets that are expected have ECT(0). The device does not look at these bits.
vt::Params ecn()
{
    vt::Params params = calm();
    params.traffic_class = kEct0;
    return params;
}

class Congestion : public WireTest {
protected:
    /// A connection of a device with this algorithm.
    void use(const std::string &algorithm, ibv_qp_type type = IBV_QPT_RC,
             const vt::Params &params = ecn())
    {
        ASSERT_EQ(settings.set("algorithm", algorithm), 0);
        open(type, params);
    }
    Packet marked(Packet packet) const
    {
        packet.tos |= kCe;
        return packet;
    }
    /// An empty WRITE.
    Packet write_nothing() const { return line->request(kWriteOnly, reth(0, 0, 0)); }
    /// Empty WRITEs with the mark, in one go.
    void send_marked(std::uint32_t count)
    {
        std::vector<Packet> packets;
        for (std::uint32_t i = 0; i < count; i++) {
            packets.push_back(marked(write_nothing()));
            line->psn = psn_add(line->psn, 1);
            line->msn = psn_add(line->msn, 1);
        }
        line->send(packets);
    }
    /// The CNP that the device sends to @p qpn.
    Packet cnp(std::uint32_t qpn = kPeerQpn, std::uint8_t dscp = 48) const
    {
        Packet packet = line->from_device(0, 0, Octets(16));
        packet.opcode = kCnp | 1;
        packet.qpn = qpn;
        packet.migrated = false;
        packet.becn = true;
        packet.tos = static_cast<std::uint8_t>(dscp << 2);
        return packet;
    }
    /// A CNP from the peer.
    Packet peer_cnp() const
    {
        Packet packet = line->response(0, 0, Octets(16));
        packet.opcode = kCnp | 1;
        packet.migrated = false;
        packet.becn = true;
        return packet;
    }
    /// A field of the QP in `rdma resource show qp -dd`.
    std::uint64_t field(const char *name) const
    {
        auto all = vt::rdma_tool("resource show qp link " + vt::device_a() + "/1");
        auto own = vt::with(all, "lqpn", line->qp.number());
        return own.size() == 1 ? own[0].number(name) : 0;
    }
    SendWr write(std::size_t length)
    {
        return SendWr::write({local.sge(0, length)}, {0x1000, 0x2222}).id(1);
    }
    /// The opcodes and PSNs of the frames that are there, until none comes for a while.
    std::vector<Packet> all()
    {
        std::vector<Packet> packets;
        while (auto came = peer.receive(vt::kQuiet))
            packets.push_back(came->packet);
        return packets;
    }

    Settings settings;
    vt::Buffer local = end.buffer(1 << 20);
};

// ---- the notification point ----

TEST_F(Congestion, AMarkedPacketIsAnsweredByACnp)
{
    for (vt::Family family : {vt::Family::V4, vt::Family::V6}) {
        vt::Params params = calm();
        params.family = family;
        params.traffic_class = kDscp;
        params.flow_label = family == vt::Family::V6 ? 0x12345 : 0;
        open(IBV_QPT_RC, params);
        std::uint64_t marks = counted("np_ecn_marked_roce_packets"), sent = counted("np_cnp_sent");
        ASSERT_TRUE(line->alive()) << "no mark, no CNP";
        EXPECT_EQ(counted("np_cnp_sent"), sent);
        line->msn++;
        ASSERT_TRUE(line->answers(marked(write_nothing()), line->ack(line->psn)));
        line->psn++;
        ASSERT_TRUE(line->gets(cnp()));
        EXPECT_EQ(counted("np_ecn_marked_roce_packets") - marks, 1U);
        EXPECT_EQ(counted("np_cnp_sent") - sent, 1U);
        EXPECT_TRUE(line->alive());
    }
}

TEST_F(Congestion, CnpsAreNotMoreFrequentThanAllowed)
{
    open();
    ASSERT_EQ(settings.set("min_time_between_cnps", "4000"), 0);
    std::uint64_t marks = counted("np_ecn_marked_roce_packets"), sent = counted("np_cnp_sent");
    auto begin = Clock::now();
    for (int i = 0; i < 20; i++)
        send_marked(1);
    ASSERT_TRUE(eventually([&] { return counted("np_ecn_marked_roce_packets") - marks >= 20; }));
    std::uint64_t us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
    std::uint64_t cnps = counted("np_cnp_sent") - sent;
    EXPECT_GE(cnps, 1U);
    EXPECT_LE(cnps, 1 + us / 4000) << us << " us";
    std::size_t came = 0;
    for (const Packet &packet : all())
        came += packet.opcode == (kCnp | 1);
    EXPECT_EQ(came, cnps);

    // 0: one for each run of packets.
    ASSERT_EQ(settings.set("min_time_between_cnps", "0"), 0);
    sent = counted("np_cnp_sent");
    for (int i = 0; i < 5; i++)
        send_marked(1);
    EXPECT_TRUE(eventually([&] { return counted("np_cnp_sent") - sent == 5; }));
}

TEST_F(Congestion, CnpsHaveTheirOwnDscp)
{
    vt::Params params = calm();
    params.traffic_class = kDscp;
    use("adaptive", IBV_QPT_RC, params);
    ASSERT_EQ(settings.set("cnp_dscp", "10"), 0);
    line->send(marked(write_nothing()));
    EXPECT_EQ(line->get().packet.opcode, kAck);
    EXPECT_TRUE(line->gets(cnp(kPeerQpn, 10)));
}

TEST_F(Congestion, UcAndUdAreAnswered)
{
    open(IBV_QPT_UC);
    line->send(marked(line->request(kWriteOnly, reth(target.address(), target.rkey(), 0))));
    EXPECT_TRUE(line->gets(cnp()));

    open(IBV_QPT_UD);
    post(1);
    line->send(marked(line->request(kSendOnly, deth(calm().qkey, 0xabcdef), pattern(50, 3))));
    auto came = peer.receive();
    ASSERT_TRUE(came);
    EXPECT_EQ(came->packet.opcode, kCnp | 1);
    EXPECT_EQ(came->packet.qpn, 0xabcdefU) << "the QP in the DETH";
    EXPECT_EQ(came->packet.tos, 48 << 2);
    EXPECT_TRUE(came->packet.becn);
    EXPECT_TRUE(came->icrc_ok);
    EXPECT_TRUE(is(end.recv_cq.one(), 0, IBV_WC_RECV));
}

// XRC: a target answers marks, and what it sends may be marked; an initiator reacts.
TEST_F(Congestion, XrcTargets)
{
    vt::Xrcd xrcd = vt::open_xrcd(end.context.get());
    vt::XrcSrq srq(end.pd.get(), xrcd.get(), end.recv_cq.get());
    for (const char *algorithm : {"none", "adaptive"}) {
        SCOPED_TRACE(algorithm);
        std::uint8_t ect = std::strcmp(algorithm, "none") ? kEct0 : 0;
        ASSERT_EQ(settings.set("algorithm", algorithm), 0);
        line = std::make_unique<Line>(end, peer, vt::xrc_target(end.context.get(), xrcd.get()),
                                      ecn(), kPeerQpn);
        line->send(marked(line->request(kWriteOnly, word(srq.number()) + reth(0, 0, 0))));
        Received ack = line->get();
        EXPECT_EQ(ack.packet.opcode, kXrc | kAck);
        EXPECT_EQ(ack.packet.tos, ect);
        EXPECT_TRUE(line->gets(cnp()));
        line->psn = psn_add(line->psn, 1);
        line->send(line->request(kReadRequest,
                                 word(srq.number()) + reth(target.address(0), target.rkey(), 64)));
        Received data = line->get();
        EXPECT_EQ(data.packet.opcode, kXrc | kReadOnly);
        EXPECT_EQ(data.packet.tos, ect) << "its requester decides what marks on that mean";
        // It sends no requests that could be slowed down.
        std::uint64_t ignored = counted("rp_cnp_ignored");
        line->send(peer_cnp());
        EXPECT_TRUE(eventually([&] { return counted("rp_cnp_ignored") - ignored == 1; }));
        line.reset();
    }
}

TEST_F(Congestion, XrcInitiators)
{
    for (const char *algorithm : {"none", "dcqcn", "adaptive"}) {
        SCOPED_TRACE(algorithm);
        std::uint8_t ect = std::strcmp(algorithm, "none") ? kEct0 : 0;
        ASSERT_EQ(settings.set("algorithm", algorithm), 0);
        line = std::make_unique<Line>(end, peer, vt::xrc_initiator(end.pd.get(), end.send_cq.get()),
                                      ecn(), kPeerQpn);
        line->qp.post(vt::to_srq(write(100), 5));
        Received request = line->get();
        EXPECT_EQ(request.packet.opcode, kXrc | kWriteOnly);
        EXPECT_EQ(request.packet.tos, ect);
        line->send(marked(line->ack_of(line->device_psn, 1)));
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(line->gets(cnp()));
        std::uint64_t handled = counted("rp_cnp_handled");
        bool shown = vt::rdma_shows_drivers();
        std::uint64_t rate = shown ? field("drv_cc_rate_kbit") : 0;
        line->send(peer_cnp());
        if (!ect)
            continue;
        EXPECT_TRUE(eventually([&] { return counted("rp_cnp_handled") - handled == 1; }));
        if (shown && !std::strcmp(algorithm, "dcqcn")) {
            EXPECT_TRUE(eventually([&] { return field("drv_cc_rate_kbit") < rate; }));
        }
    }
    line.reset();
}

// Who is not the peer, or sends nothing good, gets no CNP; a CNP is not answered either.
TEST_F(Congestion, WhatIsNotAnswered)
{
    open();
    std::uint64_t sent = counted("np_cnp_sent");
    Packet wrong = marked(write_nothing());
    wrong.icrc_error = 1;
    EXPECT_TRUE(line->ignores(wrong));
    wrong = marked(write_nothing());
    wrong.qpn ^= 0x800000;
    EXPECT_TRUE(line->ignores(wrong));
    Route right = line->route();
    line->route().source[15] ^= 4;
    line->send(marked(write_nothing()));
    line->route() = right;
    EXPECT_TRUE(line->alive());
    EXPECT_TRUE(line->ignores(marked(peer_cnp())));
    for (std::uint8_t ecn : {1, 2}) { // ECT(1), ECT(0)
        Packet packet = write_nothing();
        packet.tos = ecn;
        line->msn++;
        EXPECT_TRUE(line->answers(packet, line->ack(line->psn)));
        line->psn++;
    }
    EXPECT_EQ(counted("np_cnp_sent"), sent);
    EXPECT_TRUE(line->silent());
}

// ---- ECT ----

TEST_F(Congestion, EctIsWhereTheAlgorithmReacts)
{
    for (std::uint8_t own : {0, 1, 3}) { // the program's bits of ECN do not matter
        vt::Params params = calm();
        params.traffic_class = kDscp | own;
        for (const char *algorithm : {"none", "dcqcn", "adaptive"}) {
            std::uint8_t ect = std::strcmp(algorithm, "none") ? kEct0 : 0;
            for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
                SCOPED_TRACE(std::string(algorithm) + " " + std::to_string(type));
                use(algorithm, type, params);
                line->qp.post(write(100));
                EXPECT_EQ(line->get().packet.tos, kDscp | ect);
            }
        }
        use("adaptive", IBV_QPT_RC, params);
        line->send(write_nothing());
        EXPECT_EQ(line->get().packet.tos, kDscp | kEct0) << "the ACK";
        use("adaptive", IBV_QPT_UD, params);
        ibv_ah_attr attr = vt::address_of(end.context, end.context, params);
        attr.grh.dgid = peer.gid(vt::Family::V4);
        vt::Ah ah(vt::need(ibv_create_ah(end.pd.get(), &attr), "ibv_create_ah"));
        line->qp.post(SendWr::send({local.sge(0, 50)}).to(ah.get(), kPeerQpn, 1).id(1));
        EXPECT_EQ(line->get().packet.tos, kDscp) << "UD";
        EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_SEND));
    }
}

// ---- the reaction point ----

TEST_F(Congestion, ACnpSlowsTheSender)
{
    if (!vt::rdma_shows_drivers())
        GTEST_SKIP() << "rdma prints no rates and windows on this kernel";
    use("dcqcn");
    ASSERT_EQ(settings.set("rpg_time_reset", "131071"), 0);
    ASSERT_EQ(settings.set("rpg_max_rate", "1000"), 0);
    open(IBV_QPT_RC, ecn());
    EXPECT_EQ(field("drv_cc_rate_kbit"), 1000 * kMbit);
    std::uint64_t handled = counted("rp_cnp_handled"), ignored = counted("rp_cnp_ignored");
    line->send(peer_cnp());
    ASSERT_TRUE(eventually([&] { return counted("rp_cnp_handled") - handled == 1; }));
    ASSERT_TRUE(eventually([&] { return field("drv_cc_rate_kbit") < 1000 * kMbit; }));
    EXPECT_NEAR(static_cast<double>(field("drv_cc_rate_kbit")), 500.0 * kMbit, 2.0 * kMbit);
    EXPECT_EQ(counted("rp_cnp_ignored"), ignored);
    EXPECT_TRUE(line->alive());

    // `none` does not react.
    use("none");
    line->send(peer_cnp());
    EXPECT_TRUE(eventually([&] { return counted("rp_cnp_ignored") - ignored == 1; }));
    EXPECT_EQ(counted("rp_cnp_handled") - handled, 1U);
    EXPECT_EQ(field("drv_cc_rate_kbit"), 0U);
}

TEST_F(Congestion, ForgedAndMalformedCnpsAreIgnored)
{
    if (!vt::rdma_shows_drivers())
        GTEST_SKIP() << "rdma prints no rates and windows on this kernel";
    use("dcqcn");
    std::uint64_t rate = field("drv_cc_rate_kbit"), handled = counted("rp_cnp_handled");
    std::uint64_t lost = counted("rx_no_qp"), bad = counted("rx_icrc_encapsulated");
    Packet packet = peer_cnp();
    packet.icrc_error = 1;
    line->send(packet);
    packet = peer_cnp();
    packet.qpn ^= 0x800000;
    line->send(packet);
    Route right = line->route();
    line->route().source[15] ^= 4;
    line->send(peer_cnp());
    line->route() = right;
    EXPECT_TRUE(line->alive());
    EXPECT_EQ(counted("rx_no_qp") - lost, 2U) << "unknown QP, not the peer";
    EXPECT_EQ(counted("rx_icrc_encapsulated") - bad, 1U);
    lost = counted("rx_malformed");
    for (std::size_t length : {0, 8, 20}) {
        packet = peer_cnp();
        packet.extension.resize(length);
        line->send(packet);
    }
    EXPECT_TRUE(line->alive());
    EXPECT_EQ(counted("rx_malformed") - lost, 3U);
    EXPECT_EQ(counted("rp_cnp_handled"), handled);
    EXPECT_EQ(field("drv_cc_rate_kbit"), rate);
}

// The rate has a floor, and comes back.
TEST_F(Congestion, AFloodOfCnps)
{
    if (!vt::rdma_shows_drivers())
        GTEST_SKIP() << "rdma prints no rates and windows on this kernel";
    use("dcqcn");
    ASSERT_EQ(settings.set("rpg_max_rate", "1000"), 0);
    ASSERT_EQ(settings.set("rpg_min_rate", "100"), 0);
    ASSERT_EQ(settings.set("rpg_ai_rate", "1000"), 0);
    ASSERT_EQ(settings.set("rpg_time_reset", "131071"), 0);
    open(IBV_QPT_RC, ecn());
    for (int i = 0; i < 50; i++)
        line->send(std::vector<Packet>(20, peer_cnp()));
    EXPECT_TRUE(line->alive());
    ASSERT_TRUE(eventually([&] { return field("drv_cc_rate_kbit") == 100 * kMbit; }));
    ASSERT_EQ(settings.set("rpg_time_reset", "1000"), 0);
    // ACKs drive the clock of the algorithm.
    EXPECT_TRUE(eventually([&] {
        line->qp.post(SendWr::send({}).id(7));
        line->send(line->ack_of(line->get().packet.psn, 1));
        EXPECT_TRUE(is(end.send_cq.one(), 7, IBV_WC_SEND));
        return field("drv_cc_rate_kbit") == 1000 * kMbit;
    }));
}

// ---- window and pace ----

TEST_F(Congestion, ARateIsKept)
{
    use("dcqcn");
    ASSERT_EQ(settings.set("rpg_max_rate", "1"), 0);
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        open(type);
        // Not after the post: on a busy host packets leave before this thread goes on.
        auto begin = Clock::now();
        line->qp.post(write(20 * kMtu));
        for (std::uint32_t i = 0; i < 20; i++)
            ASSERT_EQ(line->get().packet.psn, psn_add(line->device_psn, i));
        double took = std::chrono::duration<double>(Clock::now() - begin).count();
        // Each packet is a burst of 2 ms.
        EXPECT_GE(took, 18.0 * kMtu / 125000);
    }
    EXPECT_TRUE(is(end.send_cq.one(), 1, IBV_WC_RDMA_WRITE)) << "UC";
}

TEST_F(Congestion, TheWindowOpensWithAcks)
{
    if (!vt::rdma_shows_drivers())
        GTEST_SKIP() << "rdma prints no rates and windows on this kernel";
    use("adaptive");
    line->qp.post(write(4096 * kMtu));
    std::vector<Packet> first = all();
    ASSERT_EQ(first.size(), 64U) << "16 KiB";
    EXPECT_TRUE(first.back().ack);
    line->send(line->ack_of(first.back().psn, 0));
    std::vector<Packet> second = all();
    EXPECT_EQ(second.size(), 128U) << "as much again as was acknowledged";
    EXPECT_EQ(field("drv_window"), 128U);
    EXPECT_EQ(second.front().psn, psn_add(line->device_psn, 64));
}

// ---- the files ----

TEST_F(Congestion, AlgorithmsAndParametersAreFiles)
{
    EXPECT_EQ(Settings::get("available_algorithms"), "none dcqcn adaptive");
    EXPECT_EQ(Settings::get("algorithm"), "none");
    EXPECT_EQ(settings.set("algorithm", "adaptive\n"), 0);
    EXPECT_EQ(Settings::get("algorithm"), "adaptive");
    for (const char *wrong : {"", "nonesuch", "non", "none ", "nonenone"})
        EXPECT_EQ(settings.set("algorithm", wrong), *wrong ? EINVAL : 0) << wrong;
    EXPECT_EQ(Settings::get("algorithm"), "adaptive");

    EXPECT_EQ(Settings::get("min_time_between_cnps"), "50");
    EXPECT_EQ(Settings::get("cnp_dscp"), "48");
    EXPECT_EQ(Settings::get("rpg_byte_reset"), "32767");
    EXPECT_EQ(settings.set("cnp_dscp", "63\n"), 0);
    EXPECT_EQ(Settings::get("cnp_dscp"), "63");
    for (const char *wrong : {"64", "-1", "1x", "x", "4294967296", "99999999999999999999"})
        EXPECT_EQ(settings.set("cnp_dscp", wrong), EINVAL) << wrong;
    EXPECT_EQ(settings.set("rpg_min_rate", "0"), EINVAL);
    EXPECT_EQ(Settings::get("cnp_dscp"), "63");
}

// A connection takes the algorithm of its DSCP, or the device's, when it begins.
TEST_F(Congestion, AlgorithmsByDscp)
{
    vt::Params params = calm();
    params.traffic_class = kDscp;
    for (const char *wrong : {"64 dcqcn", "-1 dcqcn", "26 nonesuch", "dcqcn", "26 dcqcn x"})
        EXPECT_EQ(settings.set("algorithm_of_dscp", wrong), EINVAL) << wrong;
    ASSERT_EQ(settings.set("algorithm_of_dscp", "26 dcqcn\n"), 0);
    EXPECT_EQ(Settings::get("algorithm_of_dscp"), "26 dcqcn");
    auto ect = [&] {
        line->qp.post(write(1));
        return line->get().packet.tos & 3;
    };
    open(IBV_QPT_RC, params);
    EXPECT_EQ(ect(), kEct0);
    std::unique_ptr<Line> old = std::move(line);
    ASSERT_EQ(settings.set("algorithm_of_dscp", "26"), 0);
    EXPECT_EQ(Settings::get("algorithm_of_dscp"), "");
    open(IBV_QPT_RC, params);
    EXPECT_EQ(ect(), 0);
    std::swap(old, line);
    line->send(line->ack_of(line->device_psn, 1));
    EXPECT_EQ(ect(), kEct0) << "that connection has not changed";
}

// The optional counter of mlx5 for the same.
TEST_F(Congestion, MarksAreCountedOnRequest)
{
    const std::string link = "link " + vt::device_a() + "/1";
    auto statistic = [&](const std::string &what) {
        return std::system(("rdma statistic " + what).c_str());
    };
    ASSERT_EQ(statistic("set " + link + " optional-counters cc_rx_ce_pkts"), 0);
    open();
    std::uint64_t before = counted("cc_rx_ce_pkts");
    ASSERT_TRUE(line->alive());
    EXPECT_EQ(counted("cc_rx_ce_pkts"), before);
    send_marked(6);
    EXPECT_TRUE(eventually([&] { return counted("cc_rx_ce_pkts") - before == 6; }));
    EXPECT_EQ(statistic("unset " + link + " optional-counters"), 0);
}

} // namespace
