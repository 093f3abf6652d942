// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "line.h"

#include <sched.h>

namespace wire {

vt::Params calm()
{
    vt::Params params;
    params.mtu = IBV_MTU_256;
    params.timeout = 0; // never
    params.min_rnr_timer = 12;
    return params;
}

Octets pattern(std::size_t length, std::uint64_t seed)
{
    Octets bytes(length);
    vt::fill(bytes, seed);
    return bytes;
}

namespace {

ibv_ah_attr to_peer(const vt::End &end, const Peer &peer, const vt::Params &params)
{
    ibv_ah_attr attr = vt::address_of(end.context, end.context, params);
    attr.grh.dgid = peer.gid(params.family);
    return attr;
}

std::uint8_t service_of(ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_UC: return kUc;
    case IBV_QPT_UD: return kUd;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: return kXrc;
    default: return kRc;
    }
}

ibv_qp *create(const vt::End &end, vt::QpConfig config, ibv_qp_type type)
{
    config.type = type;
    ibv_qp_init_attr init = config.attr(end.send_cq.get(), end.recv_cq.get());
    return vt::need(ibv_create_qp(end.pd.get(), &init), "ibv_create_qp");
}

} // namespace

Line::Line(const vt::End &end, const Peer &peer, ibv_qp_type type, const vt::Params &params,
           const vt::QpConfig &config)
    : Line(end, peer, create(end, config, type), params, kPeerQpn)
{
    srq = config.srq;
}

Line::Line(const vt::End &end, const Peer &peer, ibv_qp *made, const vt::Params &params,
           std::uint32_t peer_qpn)
    : qp(made), psn(params.peer_psn), device_psn(params.psn), peer_(peer),
      route_(peer.route(params.family)), back_{route_.target_mac, route_.source_mac, route_.target,
                                               route_.source},
      service_(service_of(made->qp_type)), params_(params), address_(to_peer(end, peer, params)),
      peer_qpn_(peer_qpn)
{
    connect();
}

void Line::connect()
{
    psn = params_.peer_psn;
    device_psn = params_.psn;
    msn = 0;
    receives = 0;
    qp.to_init(params_);
    qp.to_rtr(params_, address_, peer_qpn_);
    qp.to_rts(params_);
}

Packet Line::request(std::uint8_t op, Octets extension, Octets payload) const
{
    Packet packet{.opcode = static_cast<std::uint8_t>(service_ | op),
                  .qpn = qp.number(),
                  .psn = psn,
                  .extension = std::move(extension),
                  .payload = std::move(payload)};
    packet.ack = true;
    return packet;
}

Packet Line::response(std::uint8_t op, std::uint32_t to_psn, Octets extension, Octets payload) const
{
    Packet packet = request(op, std::move(extension), std::move(payload));
    packet.psn = to_psn;
    packet.ack = false;
    return packet;
}

void Line::send(const std::vector<Packet> &packets) const
{
    std::vector<Octets> frames;
    for (const Packet &packet : packets)
        frames.push_back(frame(packet));
    peer_.send_all(frames);
}

Packet Line::from_device(std::uint8_t op, std::uint32_t with_psn, Octets extension,
                         Octets payload) const
{
    Packet packet{.opcode = static_cast<std::uint8_t>(service_ | op),
                  .qpn = peer_qpn_,
                  .psn = with_psn,
                  .extension = std::move(extension),
                  .payload = std::move(payload)};
    packet.ttl = params_.hop_limit;
    packet.tos = params_.traffic_class;
    packet.flow_label = params_.flow_label;
    return packet;
}

std::optional<Received> Line::receive(vt::Millis patience) const
{
    vt::Deadline deadline(patience);
    for (;;) {
        auto came = peer_.receive(deadline.left());
        if (!came)
            return came;
        const Packet &packet = came->packet;
        if (late_ && packet.opcode == (service_ | kAck) && came->syndrome() >> 5 == 0 &&
            psn_diff(packet.psn, *late_) < 0)
            continue;
        if (alone_ || packet.qpn == peer_qpn_)
            return came;
    }
}

testing::AssertionResult Line::gets(const Packet &packet, vt::Millis patience)
{
    auto came = receive(patience);
    if (!came)
        return testing::AssertionFailure() << "nothing came, expected " << describe(packet);
    Packet expected = packet;
    if (!source_port_)
        source_port_ = came->packet.source_port;
    expected.source_port = *source_port_;
    expected.ip_id = came->packet.ip_id;
    expected.udp_checksum = came->udp_checksum;
    Octets bytes = encode(back_, expected);
    if (bytes != came->frame) {
        auto failure = testing::AssertionFailure();
        failure << "came     " << describe(came->packet) << "\nexpected " << describe(packet);
        for (std::size_t i = 0; i < std::max(bytes.size(), came->frame.size()); i++)
            if (i >= bytes.size() || i >= came->frame.size() || bytes[i] != came->frame[i])
                return failure << "\nfirst difference at byte " << i << " of the frame, which has "
                               << came->frame.size() << ", not " << bytes.size();
    }
    if (*source_port_ < 0xc000)
        return testing::AssertionFailure() << "UDP source port " << *source_port_;
    return testing::AssertionSuccess();
}

Received Line::get()
{
    auto came = receive(vt::kPatience);
    if (!came)
        vt::fail("nothing came");
    return *came;
}

testing::AssertionResult Line::silent() const
{
    auto came = receive(vt::kQuiet);
    if (!came)
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "there came " << describe(came->packet);
}

testing::AssertionResult Line::answers(const Packet &packet, const Packet &answer)
{
    send(packet);
    return gets(answer);
}

testing::AssertionResult Line::alive()
{
    Packet probe = request(kWriteOnly, reth(0, 0, 0));
    msn = psn_add(msn, 1);
    testing::AssertionResult result = answers(probe, ack(psn));
    psn = psn_add(psn, 1);
    return result;
}

void WireTest::SetUpTestSuite()
{
    // Frames of one CPU stay in order, and are delivered before the call that sends them returns.
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    vt::check(sched_setaffinity(0, sizeof(one), &one), "sched_setaffinity");
}

void WireTest::open(ibv_qp_type type, const vt::Params &params, const vt::QpConfig &config)
{
    line.reset();
    peer.drain();
    line = std::make_unique<Line>(end, peer, type, params, config);
}

void WireTest::post(std::uint32_t count, std::size_t size)
{
    for (std::uint32_t i = 0; i < count; i++)
        line->qp.post_recv(i, {inbox.sge(i * size, size)});
    line->receives += count;
}

} // namespace wire
