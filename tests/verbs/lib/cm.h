// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// IDs and events of the RDMA CM.
#pragma once

#include <optional>
#include <string>

#include <sys/socket.h>

#include <rdma/rdma_cma.h>

#include "clock.h"
#include "handle.h"

namespace vt {

using CmId = Handle<rdma_cm_id, rdma_destroy_id>;

/// An IPv4 or IPv6 address with a port.
sockaddr_storage address(const std::string &text, std::uint16_t port);

/// Parameters for most connections, with @p data as private data, which is not copied.
rdma_conn_param cm_parameters(const std::string &data);

/// A copy of a CM event, which is acknowledged already.
struct CmEvent {
    rdma_cm_event_type type;
    int status;
    rdma_cm_id *id;
    std::string data;
    rdma_ud_param ud;
};

class CmChannel {
public:
    CmChannel();
    ~CmChannel() { rdma_destroy_event_channel(channel_); }
    CmChannel(const CmChannel &) = delete;
    CmChannel &operator=(const CmChannel &) = delete;
    rdma_event_channel *get() const { return channel_; }

    /// An ID with this event channel.
    CmId make_id(rdma_port_space space, void *context = nullptr) const;
    /// The next event; none if the time is over first.
    std::optional<CmEvent> next(Millis patience = kPatience, bool datagram = false) const;
    /// The next event, which must be of @p type.
    CmEvent wait(rdma_cm_event_type type, bool datagram = false) const;

private:
    rdma_event_channel *channel_;
};

/// An ID that listens at address @p at in the network namespace @p where ("": the program's own).
CmId cm_listen(const CmChannel &channel, const std::string &where, rdma_port_space space,
               const sockaddr_storage &at, int backlog);

/// A client's ID that has resolved address and route of @p to.
CmId cm_resolved(const CmChannel &channel, rdma_port_space space, sockaddr_storage to);

} // namespace vt
