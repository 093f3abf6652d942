// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The device's peer: a packet socket on the other end of a veth pair. It is in a namespace whose
/// IP stack has no address on that end and so sends nothing by itself.
#pragma once

#include <optional>
#include <vector>

#include "packet.h"

#include "../../verbs/lib/context.h"

namespace wire {

class Peer {
public:
    /// Reads the environment: ROX_NETDEV_B in ROX_NS_B, ROX_ADDR_A/B and ROX_ADDR6_A/B.
    Peer();
    ~Peer();
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

    /// Addresses for packets from the peer to the device.
    Route route(vt::Family family) const;
    ibv_gid gid(vt::Family family) const;

    void send(const Octets &frame) const { send_all({&frame, 1}); }
    /// Sends the frames with as few system calls as possible.
    void send_all(std::span<const Octets> frames) const;

    /// The next RoCE frame; none if the time is over first. Skips other frames.
    std::optional<Received> receive(vt::Millis patience = vt::kPatience) const;
    /// Discards the frames that have arrived. Returns how many of them were RoCE.
    std::size_t drain() const;

private:
    int socket_ = -1;
    Mac mac_{}, device_mac_{};
    Address v4_{}, device_v4_{}, v6_{}, device_v6_{};
};

} // namespace wire
