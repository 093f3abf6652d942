// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A QP of the device under test and the peer's end of it, and the fixture that has both.
#pragma once

#include <memory>

#include "peer.h"

#include "../../verbs/lib/pair.h"

namespace wire {

/// The peer's QP number; nobody looks it up.
constexpr std::uint32_t kPeerQpn = 0x00beef;
/// Payload of a full packet in most cases.
constexpr std::uint32_t kMtu = 256;

/// As most cases want it: nothing is repeated by the device unless it is told to.
vt::Params calm();

/// @p length bytes that tell @p seed.
Octets pattern(std::size_t length, std::uint64_t seed);

class Line {
public:
    Line(const vt::End &end, const Peer &peer, ibv_qp_type type = IBV_QPT_RC,
         const vt::Params &params = calm(), const vt::QpConfig &config = {});
    /// Of a QP in RESET that is there already; @p peer_qpn is what the peer is called.
    Line(const vt::End &end, const Peer &peer, ibv_qp *qp, const vt::Params &params,
         std::uint32_t peer_qpn);

    /// RESET to RTS; PSNs begin anew.
    void connect();

    vt::Qp qp;

    /// @name The peer as requester
    /// @{
    std::uint32_t psn;          ///< of its next request
    std::uint32_t msn = 0;      ///< messages that the device has completed
    std::uint32_t receives = 0; ///< what the device has posted and not used
    bool srq = false;           ///< then the device counts no credits
    /// @}
    /// What the device's first request has, and its next one where a case counts on.
    std::uint32_t device_psn;

    /// A request with the next PSN, which stays the next one.
    Packet request(std::uint8_t op, Octets extension = {}, Octets payload = {}) const;
    /// A response to the device's request of that PSN.
    Packet response(std::uint8_t op, std::uint32_t to_psn, Octets extension = {},
                    Octets payload = {}) const;
    Packet ack_of(std::uint32_t to_psn, std::uint32_t number,
                  std::uint8_t syndrome = kNoCredits) const
    {
        return response(kAck, to_psn, aeth(syndrome, number));
    }

    void send(const Packet &packet) const { peer_.send(frame(packet)); }
    /// In the order given, by one system call.
    void send(const std::vector<Packet> &packets) const;
    Octets frame(const Packet &packet) const { return encode(route_, packet); }

    /// @name What the device should send
    /// @{
    Packet from_device(std::uint8_t op, std::uint32_t with_psn, Octets extension = {},
                       Octets payload = {}) const;
    std::uint8_t credits() const { return srq ? kNoCredits : credit_code(receives); }
    /// The ACK of all requests up to @p of_psn.
    Packet ack(std::uint32_t of_psn) const
    {
        return from_device(kAck, of_psn, aeth(credits(), msn));
    }
    Packet nak(std::uint8_t syndrome, std::uint32_t at_psn) const
    {
        return from_device(kAck, at_psn, aeth(syndrome, msn));
    }
    /// @}

    /// Is the next frame exactly @p packet? Left to the device: IP ID, UDP source port (from
    /// 0xc000 on, always the same), and the UDP checksum, which must be right or 0.
    testing::AssertionResult gets(const Packet &packet, vt::Millis patience = vt::kPatience);
    /// The next frame, whatever it is.
    Received get();
    /// Nothing comes within a short time.
    testing::AssertionResult silent() const;

    /// Sends @p packet and gets @p answer.
    testing::AssertionResult answers(const Packet &packet, const Packet &answer);
    /// Completes an empty WRITE: the next frame is the ACK of that, nothing else was sent since.
    testing::AssertionResult alive();
    /// Sends @p packet, of which the device takes no notice.
    testing::AssertionResult ignores(const Packet &packet)
    {
        send(packet);
        return alive();
    }

    /// Others of the device send as well: frames to other QP numbers are passed over.
    void share_the_wire() { alone_ = false; }
    std::uint32_t peer_qpn() const { return peer_qpn_; }
    Route &route() { return route_; } ///< of what the peer sends; for cases that lie about it
    std::uint8_t service() const { return service_; }

private:
    std::optional<Received> receive(vt::Millis patience) const;

    const Peer &peer_;
    Route route_, back_;
    std::uint8_t service_;
    vt::Params params_;
    ibv_ah_attr address_;
    std::uint32_t peer_qpn_;
    bool alone_ = true;
    std::optional<std::uint16_t> source_port_;
};

class WireTest : public testing::Test {
protected:
    static void SetUpTestSuite();
    void SetUp() override { peer.drain(); }
    void TearDown() override { line.reset(); }

    void open(ibv_qp_type type = IBV_QPT_RC, const vt::Params &params = calm(),
              const vt::QpConfig &config = {});
    /// Posts receives of @p size bytes each into @c inbox, with ids from 0 on.
    void post(std::uint32_t count, std::size_t size = 4096);

    vt::End end{vt::device_a()};
    Peer peer;
    vt::Buffer target = end.buffer(1 << 16); ///< what remote operations of the peer reach
    vt::Buffer inbox = end.buffer(1 << 20);
    std::unique_ptr<Line> line;
};

} // namespace wire
