// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A QP of the device under test, connected to the tests' own peer, and the fixture with both.
#pragma once

#include <memory>

#include "peer.h"

#include "../../verbs/lib/pair.h"

namespace wire {

/// The peer's QP number. Any number would do.
constexpr std::uint32_t kPeerQpn = 0x00beef;
/// Payload of a full packet in most cases.
constexpr std::uint32_t kMtu = 256;

/// Parameters with which the device retransmits only if a NAK asks for it, as most cases need.
vt::Params calm();

/// @p length bytes of the pattern of @p seed.
Octets pattern(std::size_t length, std::uint64_t seed);

/// A connection between a QP of the device and the peer. It builds the peer's packets and checks
/// those of the device.
class Line {
public:
    Line(const vt::End &end, const Peer &peer, ibv_qp_type type = IBV_QPT_RC,
         const vt::Params &params = calm(), const vt::QpConfig &config = {});
    /// Of an existing QP in RESET; @p peer_qpn is the peer's QP number.
    Line(const vt::End &end, const Peer &peer, ibv_qp *qp, const vt::Params &params,
         std::uint32_t peer_qpn);

    /// Moves the QP from RESET to RTS and resets the PSNs.
    void connect();

    vt::Qp qp;

    /// @name The peer as requester
    /// @{
    std::uint32_t psn;          ///< of the peer's next request
    std::uint32_t msn = 0;      ///< messages that the device has completed
    std::uint32_t receives = 0; ///< receives that are posted and not used
    bool srq = false;           ///< with an SRQ the device reports no credits
    /// @}
    /// PSN of the device's first request; a case may advance it to that of the next one.
    std::uint32_t device_psn;

    /// A request with PSN psn, which is not advanced.
    Packet request(std::uint8_t op, Octets extension = {}, Octets payload = {}) const;
    /// A response to the device's request with PSN @p to_psn.
    Packet response(std::uint8_t op, std::uint32_t to_psn, Octets extension = {},
                    Octets payload = {}) const;
    Packet ack_of(std::uint32_t to_psn, std::uint32_t number,
                  std::uint8_t syndrome = kNoCredits) const
    {
        return response(kAck, to_psn, aeth(syndrome, number));
    }

    void send(const Packet &packet) const { peer_.send(frame(packet)); }
    /// Sends the packets in this order, with one system call.
    void send(const std::vector<Packet> &packets) const;
    Octets frame(const Packet &packet) const { return encode(route_, packet); }

    /// @name Packets that the device is expected to send
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

    /// True if the next frame is exactly @p packet, except for the IP ID, the UDP source port (any
    /// from 0xc000 on, but always the same), and the UDP checksum (correct or 0).
    testing::AssertionResult gets(const Packet &packet, vt::Millis patience = vt::kPatience);
    /// The next frame of any content.
    Received get();
    /// True if no frame comes within a short time.
    testing::AssertionResult silent() const;

    /// Sends @p packet. True if @p answer comes.
    testing::AssertionResult answers(const Packet &packet, const Packet &answer);
    /// Sends an empty WRITE. True if the next frame is its ACK: the device sent nothing before it.
    testing::AssertionResult alive();
    /// Sends @p packet. True if the device ignores it.
    testing::AssertionResult ignores(const Packet &packet)
    {
        send(packet);
        return alive();
    }

    /// Makes gets() and the like skip frames to other QP numbers, because other QPs send, too.
    void skip_other_qps() { alone_ = false; }
    /// Likewise for ACKs of PSNs before @c psn: where runs are long and on several CPUs, ACKs may
    /// overtake each other.
    void skip_late_acks() { late_ = psn; }
    std::uint32_t peer_qpn() const { return peer_qpn_; }
    Route &route() { return route_; } ///< addresses of the peer's packets; cases may forge them
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
    std::optional<std::uint32_t> late_;
    std::optional<std::uint16_t> source_port_;
};

class WireTest : public testing::Test {
protected:
    static void SetUpTestSuite();
    void SetUp() override { peer.drain(); }
    void TearDown() override { line.reset(); }

    void open(ibv_qp_type type = IBV_QPT_RC, const vt::Params &params = calm(),
              const vt::QpConfig &config = {});
    /// Posts @p count receives of @p size bytes each into @c inbox, with ids from 0 on.
    void post(std::uint32_t count, std::size_t size = 4096);

    vt::End end{vt::device_a()};
    Peer peer;
    vt::Buffer target = end.buffer(1 << 16); ///< for the peer's RDMA operations
    vt::Buffer inbox = end.buffer(1 << 20);
    std::unique_ptr<Line> line;
};

} // namespace wire
