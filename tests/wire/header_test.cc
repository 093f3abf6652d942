// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What a receiver looks at before it looks at the request: IBTA volume 1, 9.6 (packet header
/// validation), annex A17 (RoCE v2: addresses, ports, ICRC, ECN). What fails there is dropped
/// silently. Each case is made for reliable connections and datagrams, IPv4 and IPv6.
#include "lib/line.h"

using namespace wire;
using vt::is;

namespace {

struct How {
    ibv_qp_type type;
    vt::Family family;
};

class Headers : public WireTest, public testing::WithParamInterface<How> {
protected:
    void SetUp() override
    {
        WireTest::SetUp();
        params.family = GetParam().family;
        open(GetParam().type, params);
        post(8);
    }

    bool datagrams() const { return GetParam().type == IBV_QPT_UD; }
    bool v4() const { return GetParam().family == vt::Family::V4; }

    /// A SEND that is as it should be.
    Packet good(std::size_t length = 20) const
    {
        return line->request(kSendOnly, datagrams() ? deth(params.qkey, kPeerQpn) : Octets{},
                             pattern(length, 4));
    }
    /// It is received, and acknowledged where that is the service's way.
    void received(const Packet &packet, std::size_t length = 20)
    {
        line->send(packet);
        accepted(packet, length);
    }
    /// The same of one that was sent.
    void accepted(const Packet &packet, std::size_t length)
    {
        line->receives--;
        line->msn++;
        if (!datagrams()) {
            ASSERT_TRUE(line->gets(line->ack(packet.psn)));
        }
        line->psn = psn_add(line->psn, 1);
        std::size_t grh = datagrams() ? 40 : 0;
        ibv_wc wc = end.recv_cq.one();
        ASSERT_TRUE(is(wc, taken++, IBV_WC_RECV));
        ASSERT_EQ(wc.byte_len, grh + length);
        ASSERT_TRUE(vt::filled(inbox.bytes(wc.wr_id * 4096 + grh, length), 4));
    }
    /// As if they had never come; the QP goes on.
    void dropped(const std::vector<Packet> &packets)
    {
        line->send(packets);
        received(good());
        EXPECT_EQ(peer.drain(), 0U);
        EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
    }
    template <typename Change>
    Packet with(Change change) const
    {
        Packet packet = good();
        change(packet);
        return packet;
    }

    vt::Params params = calm();
    std::uint64_t taken = 0;
};

INSTANTIATE_TEST_SUITE_P(, Headers,
                         testing::Values(How{IBV_QPT_RC, vt::Family::V4},
                                         How{IBV_QPT_RC, vt::Family::V6},
                                         How{IBV_QPT_UD, vt::Family::V4},
                                         How{IBV_QPT_UD, vt::Family::V6}),
                         [](const auto &info) {
                             return std::string(info.param.type == IBV_QPT_UD ? "Ud" : "Rc") +
                                    (info.param.family == vt::Family::V4 ? "4" : "6");
                         });

// 9.6: the variant CRC is Ethernet's; this is the invariant one (annex A17).
TEST_P(Headers, WrongIcrc)
{
    std::vector<Packet> packets;
    for (int bit = 0; bit < 32; bit += 5)
        packets.push_back(with([&](Packet &p) { p.icrc_error = 1U << bit; }));
    packets.push_back(with([](Packet &p) { p.icrc_error = ~0U; }));
    dropped(packets);
}

// 9.6: TVer is 0.
TEST_P(Headers, OtherTransportVersions)
{
    std::vector<Packet> packets;
    for (std::uint8_t version = 1; version < 16; version++)
        packets.push_back(with([&](Packet &p) { p.version = version; }));
    dropped(packets);
}

// Cut off after each byte, in all lengths, the last four bytes a right ICRC: no more than what
// its headers need may be read.
TEST_P(Headers, CutOffAfterEachByte)
{
    std::vector<Packet> packets;
    std::size_t whole = 12 + (datagrams() ? 8 : 0) + 20 + 4;
    // From the whole payload on it would be a shorter message.
    std::size_t headers = 12 + (datagrams() ? 8 : 0) + 4;
    for (std::size_t left = 0; left < headers; left++)
        packets.push_back(with([&](Packet &p) { p.cut = whole - left; }));
    for (std::size_t left : {headers + 1, headers + 2, headers + 3, whole - 1})
        packets.push_back(with([&](Packet &p) { p.cut = whole - left; }));
    dropped(packets);
}

// The UDP length is not what the IP header says.
TEST_P(Headers, UdpLengthThatIsWrong)
{
    std::vector<Packet> packets;
    for (std::int32_t more : {-44, -20, -4, -1, 1, 4, 1000, 60000})
        packets.push_back(with([&](Packet &p) { p.udp_more = more; }));
    dropped(packets);
}

// More pad than there is payload: 9.2, "PadCnt".
TEST_P(Headers, PadThatIsMoreThanThePayload)
{
    std::vector<Packet> packets;
    for (std::uint8_t pad = 1; pad < 4; pad++) {
        packets.push_back(with([&](Packet &p) {
            p.payload.clear();
            p.pad = pad;
        }));
    }
    dropped(packets);
}

// 10.9.3: the keys' partitions are the same, and one of both is a full member.
TEST_P(Headers, PartitionKeys)
{
    std::vector<Packet> packets;
    for (std::uint16_t pkey : {0x0000, 0x8000, 0x0001, 0x8001, 0xfffe, 0x7ffe})
        packets.push_back(with([&](Packet &p) { p.pkey = pkey; }));
    dropped(packets);
    received(with([](Packet &p) { p.pkey = 0x7fff; }));
}

// 9.6: no such QP, or one of another number.
TEST_P(Headers, OtherQueuePairs)
{
    std::vector<Packet> packets;
    for (std::uint32_t change : {0x800000U, 0x000001U, 0xffffffU})
        packets.push_back(with([&](Packet &p) { p.qpn ^= change; }));
    for (std::uint32_t qpn : {0x000000U, 0xffffffU})
        packets.push_back(with([&](Packet &p) { p.qpn = qpn; }));
    dropped(packets);
}

// Annex A17: who sends it is told by the addresses, for a connection; never by the source port.
TEST_P(Headers, SourceAddressAndPort)
{
    Route right = line->route();
    Octets bytes = line->frame(good());
    line->route().source[15] ^= 1;
    Octets wrong = line->frame(good());
    line->route() = right;
    if (!datagrams()) {
        peer.send(wrong);
        dropped({});
    }
    for (std::uint16_t port : {1, 4791, 0xbfff, 0xc000, 0xffff})
        received(with([&](Packet &p) { p.source_port = port; }));
}

// A destination that is not the device's: nobody's, or another one's of this host.
TEST_P(Headers, DestinationAddressAndPort)
{
    Route right = line->route();
    line->route().target[15] ^= 0x40;
    Octets wrong = line->frame(good());
    line->route() = right;
    peer.send(wrong);
    dropped({with([](Packet &p) { p.target_port = 4790; }),
             with([](Packet &p) { p.target_port = 4792; })});
}

// What may change on the way, and what is reserved, is not looked at: 9.2, annex A17.
TEST_P(Headers, FieldsThatDoNotMatter)
{
    received(with([](Packet &p) { p.reserved_byte = 0x3f; }));
    received(with([](Packet &p) { p.reserved_seven = 0x7f; }));
    received(with([](Packet &p) { p.ttl = 1; }));
    received(with([](Packet &p) { p.tos = 0xfc; }));
    received(with([](Packet &p) { p.flow_label = 0xfffff; }));
    received(with([](Packet &p) { p.fragment = 0; }));
}

// Congestion experienced (IP), FECN and BECN (BTH): the packet is as good as any. Only the first
// one is answered by a notification (annex A17; congestion_test.cc).
TEST_P(Headers, CongestionMarks)
{
    for (std::uint8_t ecn : {1, 2, 3}) {
        received(with([&](Packet &p) { p.tos = ecn; }));
        EXPECT_EQ(peer.drain(), ecn == 3 ? 1U : 0U);
    }
    received(with([](Packet &p) { p.fecn = true; }));
    received(with([](Packet &p) { p.becn = true; }));
    EXPECT_EQ(peer.drain(), 0U);
}

// 17.2.8 (automatic path migration), which RoCE devices do not offer: the bit means nothing.
TEST_P(Headers, MigrationBit)
{
    received(with([](Packet &p) { p.migrated = false; }));
    received(good());
    EXPECT_EQ(line->qp.query().path_mig_state, IBV_MIG_MIGRATED);
}

// UDP: a checksum of 0 is none, over IPv6 too. UDP itself checks that of a short packet. Nobody
// checks that of a longer one, because the ICRC covers all that it covers.
TEST_P(Headers, UdpChecksum)
{
    received(with([](Packet &p) { p.udp_checksum = true; }));
    dropped({with([](Packet &p) {
        p.udp_checksum = true;
        p.udp_checksum_error = 0x0101;
    })});
    Packet longer = good(200);
    longer.udp_checksum = true;
    longer.udp_checksum_error = 0x0101;
    received(longer, 200);
}

// A single packet has no checksum over IPv4, and has one over IPv6 (RFC 6935, section 5).
TEST_P(Headers, UdpChecksumOfOnePacket)
{
    if (datagrams()) {
        received(good());
        return;
    }
    line->send(good());
    EXPECT_EQ(line->get().udp_checksum == 0, v4());
}

constexpr std::size_t kIp6 = 40;

/// The fragment of a UDP datagram that has its bytes from @p from to @p to, both multiples of 8 but
/// at the end.
Octets fragment(const Octets &whole, bool v4, std::size_t from, std::size_t to)
{
    std::size_t udp = kEthernet + (v4 ? 20 : kIp6);
    Octets out(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(udp));
    bool more = udp + to < whole.size();
    if (!v4) {
        out[kEthernet + 6] = 44;
        out.insert(out.end(), {17, 0, 0, 0, 0, 0, 0, 9});
        set16(out, udp + 2, static_cast<std::uint16_t>(from | (more ? 1 : 0)));
    }
    out.insert(out.end(), whole.begin() + static_cast<std::ptrdiff_t>(udp + from),
               whole.begin() + static_cast<std::ptrdiff_t>(udp + to));
    auto length = static_cast<std::uint16_t>(out.size() - kEthernet);
    if (v4) {
        set16(out, kEthernet + 2, length);
        set16(out, kEthernet + 6, static_cast<std::uint16_t>(from / 8 | (more ? 0x2000 : 0)));
        repair_ip(out);
    } else {
        set16(out, kEthernet + 4, static_cast<std::uint16_t>(length - kIp6));
    }
    return out;
}

// Whole again when UDP gets it, so as good as any: wherever it was cut, and in each order.
TEST_P(Headers, FragmentsOfOneDatagram)
{
    constexpr std::size_t kLength = 200;
    std::vector<std::size_t> cuts = {8, 24, 200};
    for (std::size_t i = 0; i < 2 * cuts.size(); i++) {
        Packet packet = good(kLength);
        packet.fragment = 0;
        packet.ip_id = static_cast<std::uint16_t>(100 + i);
        Octets whole = line->frame(packet);
        std::size_t bytes = whole.size() - kEthernet - (v4() ? 20 : kIp6);
        std::vector<Octets> parts = {fragment(whole, v4(), 0, cuts[i / 2]),
                                     fragment(whole, v4(), cuts[i / 2], bytes)};
        if (i % 2)
            std::swap(parts[0], parts[1]);
        peer.send(parts[0]);
        EXPECT_TRUE(end.recv_cq.quiet(vt::Millis(0)));
        peer.send(parts[1]);
        accepted(packet, kLength);
    }
    // One that changed on its way.
    Packet packet = good(kLength);
    packet.fragment = 0;
    packet.icrc_error = 1;
    Octets whole = line->frame(packet);
    peer.send(fragment(whole, v4(), 0, 48));
    peer.send(fragment(whole, v4(), 48, whole.size() - kEthernet - (v4() ? 20 : kIp6)));
    dropped({});
}

// The ICRC is that of a packet without them.
TEST_P(Headers, ExtensionHeadersOfIpv6)
{
    if (v4()) {
        received(good());
        return;
    }
    for (std::uint8_t type : {0, 60}) {
        Octets frame = line->frame(good());
        frame[kEthernet + 6] = type;
        // PadN: four octets of 0.
        const Octets options = {17, 0, 1, 4, 0, 0, 0, 0};
        frame.insert(frame.begin() + kEthernet + kIp6, options.begin(), options.end());
        set16(frame, kEthernet + 4, static_cast<std::uint16_t>(frame.size() - kEthernet - kIp6));
        peer.send(frame);
    }
    dropped({});
}

// Annex A17: no IP options, and no fragments.
TEST_P(Headers, OptionsAndFragments)
{
    if (!v4()) {
        received(good());
        return;
    }
    std::vector<Packet> packets;
    for (std::size_t bytes : {4, 20, 40})
        packets.push_back(with([&](Packet &p) { p.ip_options.assign(bytes, 1); }));
    packets.push_back(with([](Packet &p) { p.fragment = 0x2000; }));
    packets.push_back(with([](Packet &p) { p.fragment = 0x0003; }));
    dropped(packets);
}

// 10.3.1: a QP in INIT or RESET takes nothing.
TEST_P(Headers, StatesThatDoNotReceive)
{
    vt::QpConfig config;
    config.type = GetParam().type;
    vt::Qp other(end.pd.get(), end.send_cq.get(), end.recv_cq.get(), config);
    Packet packet = good();
    packet.qpn = other.number();
    line->send(packet);
    other.to_init(params);
    other.post_recv(77, {inbox.sge(1 << 19, 4096)});
    dropped({packet});
}

} // namespace
