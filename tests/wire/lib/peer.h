// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The other end of the wire: a packet socket on the far end of a veth pair, in a namespace whose
/// IP stack has no address there and so says nothing by itself.
#pragma once

#include <optional>
#include <vector>

#include "packet.h"

#include "../../verbs/lib/context.h"

namespace wire {

class Peer {
public:
    /// From the environment: ROX_NETDEV_B in ROX_NS_B; ROX_ADDR_A/B and ROX_ADDR6_A/B.
    Peer();
    ~Peer();
    Peer(const Peer &) = delete;
    Peer &operator=(const Peer &) = delete;

    /// From the peer to the device.
    Route route(vt::Family family) const;
    ibv_gid gid(vt::Family family) const;

    void send(const Octets &frame) const { send_all({&frame, 1}); }
    /// With as few system calls as possible.
    void send_all(std::span<const Octets> frames) const;

    /// The next RoCE frame, or none in that time. What is not RoCE is passed over.
    std::optional<Received> receive(vt::Millis patience = vt::kPatience) const;
    /// Throws away what has arrived; returns how many RoCE frames that were.
    std::size_t drain() const;

private:
    int socket_ = -1;
    Mac mac_{}, device_mac_{};
    Address v4_{}, device_v4_{}, v6_{}, device_v6_{};
};

} // namespace wire
