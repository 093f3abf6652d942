// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// QP 1, which all programs' RDMA CM shares and which anybody on the network can send to. Whatever
/// comes, connections can be made. IBTA volume 1, 13.4.2: a MAD has 256 bytes.
#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>

#include "lib/cm_witness.h"
#include "lib/line.h"

#include "../verbs/lib/rdmatool.h"

using namespace wire;

namespace {

constexpr std::uint32_t kGsiQkey = 0x80010000;
constexpr std::size_t kMad = 256;
/// Receives that the RDMA core keeps at QP 1.
constexpr std::size_t kGsiReceives = 512;

/// A running `ip`. To start one for each command may take longer than a packet waits.
class Ip {
public:
    Ip() : input_(popen("ip -batch -", "w"))
    {
        if (!input_)
            vt::fail("ip -batch -", errno);
    }
    Ip(const Ip &) = delete;
    Ip &operator=(const Ip &) = delete;
    ~Ip() { pclose(input_); }

    void tell(const std::string &command)
    {
        std::fprintf(input_, "%s\n", command.c_str());
        std::fflush(input_);
    }

private:
    FILE *input_;
};

class Gsi : public WireTest {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        open(IBV_QPT_UD);
    }
    void TearDown() override
    {
        EXPECT_NO_THROW(cm.connects());
        WireTest::TearDown();
    }

    /// A datagram to QP 1 with that many bytes, all of them 0 but what @p head has.
    Packet datagram(std::size_t length, std::uint8_t op = kSendOnly, const Octets &head = {}) const
    {
        Octets extension = deth(kGsiQkey, 1);
        Octets payload = head;
        payload.resize(length);
        Packet packet = line->request(op, op == kSendOnlyImm ? extension + word(1) : extension,
                                      payload);
        packet.qpn = 1;
        return packet;
    }
    void send(const std::vector<Packet> &packets)
    {
        line->send(packets);
        peer.drain();
        ASSERT_NO_THROW(cm.connects());
    }
    std::uint64_t counted(const char *name) const { return vt::port_counter(vt::device_a(), name); }
    /// Sends the frames four times; connections are made meanwhile.
    void flood(const std::vector<Octets> &frames)
    {
        for (int i = 0; i < 4; i++) {
            peer.send_all(frames);
            ASSERT_NO_THROW(cm.connects());
        }
    }
    Octets host_mac() const
    {
        const Mac &mac = line->route().source_mac;
        return Octets(mac.begin(), mac.end());
    }
    Octets device_mac() const
    {
        const Mac &mac = line->route().target_mac;
        return Octets(mac.begin(), mac.end());
    }

    /// A REQ of the CM (12.6.5) with the path in it that its sender has, for a service that nobody
    /// offers.
    Packet connection_request(std::uint32_t id) const
    {
        Octets mad = Octets{1, 7, 2, 3, 0, 0, 0, 0} + word(0) + word(id) + word(0x00100000) +
                     word(0);
        mad.resize(24);
        Octets body = word(id) + word(0) + word(0) + word(0x01060001);
        mad = mad + body;
        mad.resize(kMad);
        const Route &route = line->route();
        // Primary path: LIDs, then the GIDs of the sender and of the device.
        std::copy(route.source.begin(), route.source.end(), mad.begin() + 24 + 56);
        std::copy(route.target.begin(), route.target.end(), mad.begin() + 24 + 72);
        return datagram(kMad, kSendOnly, mad);
    }

    /// 3,000 of them, from the addresses that @p choose sets. Connections are made meanwhile.
    void requests_from_nobody(const std::function<void(std::uint32_t, Address &)> &choose)
    {
        const Route honest = line->route();
        std::vector<Octets> frames;
        for (std::uint32_t i = 0; i < 3000; i++) {
            choose(i, line->route().source);
            frames.push_back(line->frame(connection_request(i + 1)));
        }
        line->route() = honest;
        std::uint64_t before = counted("rx_dropped");
        peer.send_all(frames);
        vt::Stopwatch watch;
        ASSERT_NO_THROW(cm.connects());
        EXPECT_LT(watch.elapsed().count(), 2000 * vt::patience_factor());
        // Who could not wait any more was counted.
        EXPECT_TRUE(vt::eventually([&] { return counted("rx_dropped") > before + 500; }));
        vt::shell("ip neighbour flush nud incomplete nud failed dev " +
                  vt::variable("ROX_NETDEV_A"));
    }

    CmWitness cm;
};

TEST_F(Gsi, ConnectsAtAll)
{
    ASSERT_NO_THROW(cm.connects());
}

// The first datagram that is longer than the receive behind it ended the RDMA CM of the device.
TEST_F(Gsi, OneByteMoreThanAMad)
{
    std::uint64_t before = counted("rx_malformed");
    send({datagram(kMad + 1)});
    EXPECT_EQ(counted("rx_malformed"), before + 1);
}

TEST_F(Gsi, AnyLength)
{
    std::vector<Packet> packets;
    for (std::size_t length = 0; length <= 4096; length += length < 300 ? 1 : 61)
        for (std::uint8_t op : {kSendOnly, kSendOnlyImm})
            packets.push_back(datagram(length, op));
    packets.push_back(datagram(4096));
    send(packets);
}

TEST_F(Gsi, AnyOpcode)
{
    std::vector<Packet> packets;
    for (unsigned op = 0; op < 256; op++)
        for (std::size_t length : {std::size_t{0}, kMad, kMad + 4}) {
            Packet packet = line->request(0, {}, Octets(length + 28));
            packet.opcode = static_cast<std::uint8_t>(op);
            packet.qpn = 1;
            packets.push_back(packet);
        }
    send(packets);
}

// MADs of all classes, versions and methods: what is nobody's is dropped, and its receive comes
// back.
TEST_F(Gsi, AnyClass)
{
    for (unsigned method : {0x01U, 0x02U, 0x03U, 0x81U, 0x92U, 0xffU}) {
        std::vector<Packet> packets;
        for (unsigned management_class = 0; management_class < 256; management_class++)
            for (unsigned version : {1U, 2U, 0x80U})
                packets.push_back(datagram(kMad, kSendOnly,
                                           {1, static_cast<std::uint8_t>(management_class),
                                            static_cast<std::uint8_t>(version),
                                            static_cast<std::uint8_t>(method)}));
        ASSERT_NO_FATAL_FAILURE(send(packets));
    }
}

// The classes that have agents in the kernel, and others, with lengths that no MAD has.
TEST_F(Gsi, AnyClassAndLength)
{
    std::vector<Packet> packets;
    for (unsigned management_class : {0x01U, 0x03U, 0x04U, 0x06U, 0x07U, 0x09U, 0x30U, 0x81U})
        for (std::size_t length : {0U, 1U, 4U, 23U, 24U, 64U, 255U, 256U, 257U, 260U, 2048U, 4096U})
            for (unsigned attribute = 0x10; attribute < 0x1c; attribute++)
                packets.push_back(
                    datagram(length, kSendOnly,
                             {1, static_cast<std::uint8_t>(management_class), 2, 3, 0, 0, 0, 0, 0,
                              0, 0, 1, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(attribute)}));
    send(packets);
}

// More than there are receives, of a class that the core answers to nobody.
TEST_F(Gsi, Flood)
{
    std::vector<Packet> packets(4 * kGsiReceives, datagram(kMad, kSendOnly, {1, 0x30, 1, 1}));
    for (int i = 0; i < 4; i++)
        ASSERT_NO_FATAL_FAILURE(send(packets));
}

// From addresses that are not on the link, nobody's, and the device's own.
TEST_F(Gsi, AnySource)
{
    std::vector<Octets> frames;
    const Route honest = line->route();
    for (std::array<std::uint8_t, 4> from : {std::array<std::uint8_t, 4>{10, 0, 0, 77},
                                             {192, 0, 2, 1},
                                             {127, 0, 0, 1},
                                             {0, 0, 0, 0},
                                             {255, 255, 255, 255},
                                             {224, 0, 0, 1},
                                             {10, 0, 0, 1}})
        for (std::size_t length : {std::size_t{0}, kMad - 1, kMad, kMad + 1, std::size_t{1000}}) {
            std::copy(from.begin(), from.end(), line->route().source.end() - 4);
            frames.push_back(line->frame(datagram(length)));
        }
    line->route() = honest;
    peer.send_all(frames);
}

// The RDMA core resolves the neighbour that a request came from, up to a second for each. Hosts
// that are not there keep nobody waiting: 3,000 requests would have done so for most of an hour.
TEST_F(Gsi, RequestsFromNobody)
{
    requests_from_nobody([](std::uint32_t i, Address &source) {
        source.back() = static_cast<std::uint8_t>(20 + i % 200);
    });
}

// Where no route leads to an IPv4 address, the RDMA core looks for it on the link. These are more
// than Linux' table of neighbours has room for.
TEST_F(Gsi, RequestsFromNobodyOffTheLink)
{
    requests_from_nobody([](std::uint32_t i, Address &source) {
        const std::array<std::uint8_t, 4> from{192, 0, static_cast<std::uint8_t>(2 + i / 250),
                                               static_cast<std::uint8_t>(1 + i % 250)};
        std::copy(from.begin(), from.end(), source.end() - 4);
    });
}

TEST_F(Gsi, RequestsFromNobodyOverIpv6)
{
    vt::Params params = calm();
    params.family = vt::Family::V6;
    open(IBV_QPT_UD, params);
    requests_from_nobody([](std::uint32_t i, Address &source) {
        source.back() = static_cast<std::uint8_t>(20 + i % 200);
    });
}

TEST_F(Gsi, RequestsFromLinkLocalAddressesOfNobody)
{
    vt::Params params = calm();
    params.family = vt::Family::V6;
    open(IBV_QPT_UD, params);
    requests_from_nobody([](std::uint32_t i, Address &source) {
        source = {0xfe, 0x80};
        source.back() = static_cast<std::uint8_t>(20 + i % 200);
    });
}

// An honest host whose MAC is not known yet waits until it is.
TEST_F(Gsi, RequestOfAHostThatIsResolvedLater)
{
    const Route honest = line->route();
    const std::string netdev = vt::variable("ROX_NETDEV_A");
    Ip ip;
    ip.tell("neighbour replace 10.0.0.251 lladdr 02:00:00:00:00:fb nud permanent dev " + netdev);
    ASSERT_TRUE(vt::eventually(
        [] { return !vt::shell("ip neighbour show nud permanent | grep -q ^10.0.0.251"); }));
    line->route().source.back() = 250;
    line->send(connection_request(77));
    EXPECT_FALSE(peer.receive(vt::Millis(100)));
    ip.tell("neighbour replace 10.0.0.250 lladdr 02:00:00:00:00:fa nud permanent dev " + netdev);
    auto answer = peer.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->packet.qpn, 1U);
    EXPECT_EQ(answer->route.target, line->route().source);
    ip.tell("neighbour delete 10.0.0.250 dev " + netdev);
    ip.tell("neighbour delete 10.0.0.251 dev " + netdev);
    line->route() = honest;
}

// Ten thousand requests of one host for a service that nobody offers. Each is refused; connections
// are made meanwhile.
TEST_F(Gsi, RequestsOfOneHost)
{
    constexpr std::uint32_t kRequests = 10000, kBatch = 500;
    std::size_t answers = 0;
    for (std::uint32_t id = 1; id < kRequests; id += kBatch) {
        std::vector<Octets> frames;
        for (std::uint32_t i = 0; i < kBatch; i++)
            frames.push_back(line->frame(connection_request(id + i)));
        peer.send_all(frames);
        if (id % (4 * kBatch) == 1) {
            ASSERT_NO_THROW(cm.connects());
        }
        answers += peer.drain();
    }
    EXPECT_GT(answers, kGsiReceives);
    // The receives have come back, and the next request is answered.
    ASSERT_NO_THROW(cm.connects());
    peer.drain();
    EXPECT_TRUE(vt::eventually([&] {
        line->send(connection_request(kRequests + 1));
        return peer.receive(vt::Millis(100)).has_value();
    }));
}

// Requests to join a multicast group, as to a subnet manager: RoCE has none.
TEST_F(Gsi, JoinsOfMulticastGroups)
{
    constexpr std::uint8_t kSubnetAdministration = 3, kSet = 2, kGetTable = 0x12,
                           kMemberRecord = 0x38;
    std::vector<Packet> packets;
    for (unsigned i = 0; i < 3000; i++) {
        Octets mad{1, kSubnetAdministration, 2, i % 2 ? kSet : kGetTable};
        mad = mad + word(0) + word(0) + word(i) + Octets{0, kMemberRecord, 0, 0};
        packets.push_back(datagram(kMad, kSendOnly, mad));
    }
    send(packets);
}

// What is not RoCE: ARP requests and answers of hosts that nobody asked for.
TEST_F(Gsi, FloodOfArp)
{
    constexpr std::uint8_t kRequest = 1, kReply = 2;
    const Octets everybody(6, 0xff);
    std::vector<Octets> frames;
    for (unsigned i = 0; i < 8000; i++) {
        const std::uint8_t kind = i % 2 ? kRequest : kReply;
        const Octets from{10, 0, static_cast<std::uint8_t>(1 + i / 250),
                          static_cast<std::uint8_t>(3 + i % 250)};
        Octets frame = (kind == kRequest ? everybody : device_mac()) + host_mac();
        frame = frame + Octets{8, 6, 0, 1, 8, 0, 6, 4, 0, kind} + host_mac() + from + device_mac() +
                Octets(line->route().target.end() - 4, line->route().target.end());
        frame.resize(60);
        frames.push_back(frame);
    }
    flood(frames);
}

// Neighbour solicitations and advertisements (RFC 4861) of hosts that nobody asked for.
TEST_F(Gsi, FloodOfNeighbourDiscovery)
{
    constexpr std::uint8_t kSolicitation = 135, kAdvertisement = 136, kTargetMac = 2,
                           kSourceMac = 1;
    vt::Params params = calm();
    params.family = vt::Family::V6;
    open(IBV_QPT_UD, params);
    const Route &route = line->route();
    std::vector<Octets> frames;
    for (unsigned i = 0; i < 8000; i++) {
        const bool asks = i % 2;
        Address from = route.source;
        from[13] = static_cast<std::uint8_t>(1 + i / 200);
        from[15] = static_cast<std::uint8_t>(20 + i % 200);
        const Address &about = asks ? route.target : from;
        Octets icmp = Octets{asks ? kSolicitation : kAdvertisement, 0, 0, 0} +
                      (asks ? word(0) : word(0x60000000)) + Octets(about.begin(), about.end()) +
                      Octets{asks ? kSourceMac : kTargetMac, 1} + host_mac();
        const Octets addresses = Octets(from.begin(), from.end()) +
                                 Octets(route.target.begin(), route.target.end());
        const std::uint32_t check = ~internet_sum(
            addresses + word(static_cast<std::uint32_t>(icmp.size())) + word(58) + icmp);
        icmp[2] = static_cast<std::uint8_t>(check >> 8);
        icmp[3] = static_cast<std::uint8_t>(check);
        frames.push_back(
            device_mac() + host_mac() +
            Octets{0x86, 0xdd, 0x60, 0, 0, 0, 0, static_cast<std::uint8_t>(icmp.size()), 58, 255} +
            addresses + icmp);
    }
    flood(frames);
    vt::shell("ip -6 neighbour flush nud stale nud incomplete nud failed dev " +
              vt::variable("ROX_NETDEV_A"));
}

// IGMP queries (RFC 2236), general ones and for groups, which ask for an answer at once.
TEST_F(Gsi, FloodOfGroupQueries)
{
    const Route &route = line->route();
    std::vector<Octets> frames;
    for (unsigned i = 0; i < 8000; i++) {
        const std::uint8_t group = static_cast<std::uint8_t>(i % 250);
        const Octets asked = group ? Octets{239, 20, 0, group} : Octets(4, 0);
        const Octets target = group ? asked : Octets{224, 0, 0, 1};
        const unsigned sum = 0x1101 + (group ? 0xef14 + group : 0);
        const unsigned check = ~(sum + (sum >> 16)) & 0xffff;
        Octets frame = Octets{1, 0, 0x5e, target[1], 0, target[3]} + host_mac() + Octets{8, 0};
        frame = frame + Octets{0x45, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0, 0} +
                Octets(route.source.end() - 4, route.source.end()) + target +
                Octets{0x11, 1, static_cast<std::uint8_t>(check >> 8),
                       static_cast<std::uint8_t>(check)} +
                asked;
        repair_ip(frame);
        frame.resize(60);
        frames.push_back(frame);
    }
    flood(frames);
}

} // namespace
