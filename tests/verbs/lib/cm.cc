// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cm.h"

#include <cerrno>
#include <cstdlib>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>

#include "diagnose.h"
#include "error.h"
#include "thread.h"

namespace vt {

sockaddr_storage address(const std::string &text, std::uint16_t port)
{
    sockaddr_storage storage{};
    auto *v4 = reinterpret_cast<sockaddr_in *>(&storage);
    auto *v6 = reinterpret_cast<sockaddr_in6 *>(&storage);
    if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
    } else if (inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
    } else {
        fail("not an address: " + text);
    }
    return storage;
}

rdma_conn_param cm_parameters(const std::string &data)
{
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    param.responder_resources = 4;
    param.initiator_depth = 4;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    return param;
}

CmChannel::CmChannel() : channel_(need(rdma_create_event_channel(), "rdma_create_event_channel"))
{
    fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
}

CmId CmChannel::make_id(rdma_port_space space, void *context) const
{
    rdma_cm_id *id = nullptr;
    check(rdma_create_id(channel_, &id, context, space), "rdma_create_id");
    return CmId(id);
}

std::optional<CmEvent> CmChannel::next(Millis patience, bool datagram) const
{
    Deadline deadline(patience);
    rdma_cm_event *event = nullptr;
    while (rdma_get_cm_event(channel_, &event)) {
        if (errno != EAGAIN && errno != EINTR)
            fail("rdma_get_cm_event", errno);
        if (deadline.passed())
            return {};
        pollfd poll_fd{channel_->fd, POLLIN, 0};
        poll(&poll_fd, 1, static_cast<int>(deadline.left().count()));
    }
    CmEvent copy{event->event, event->status, event->id, {}, {}};
    const void *data = datagram ? event->param.ud.private_data : event->param.conn.private_data;
    std::size_t length = datagram ? event->param.ud.private_data_len
                                  : event->param.conn.private_data_len;
    if (data)
        copy.data.assign(static_cast<const char *>(data), length);
    if (datagram)
        copy.ud = event->param.ud;
    rdma_ack_cm_event(event);
    return copy;
}

CmEvent CmChannel::wait(rdma_cm_event_type type, bool datagram) const
{
    std::optional<CmEvent> event = next(kPatience, datagram);
    if (!event)
        fail(std::string("no CM event ") + rdma_event_str(type) + state_of_everything());
    if (event->type != type)
        fail(std::string("CM event ") + rdma_event_str(event->type) + " (status " +
             std::to_string(event->status) + ") instead of " + rdma_event_str(type));
    return *event;
}

CmId cm_listen(const CmChannel &channel, const std::string &where, rdma_port_space space,
               const sockaddr_storage &at, int backlog)
{
    CmId listener;
    in_namespace(where, [&] {
        sockaddr_storage here = at;
        listener = channel.make_id(space);
        check(rdma_bind_addr(listener.get(), reinterpret_cast<sockaddr *>(&here)),
              "rdma_bind_addr");
        check(rdma_listen(listener.get(), backlog), "rdma_listen");
    });
    return listener;
}

CmId cm_resolved(const CmChannel &channel, rdma_port_space space, sockaddr_storage to)
{
    constexpr int patience_ms = 3000;
    CmId id = channel.make_id(space);
    check(rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr *>(&to), patience_ms),
          "rdma_resolve_addr");
    channel.wait(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id.get(), patience_ms), "rdma_resolve_route");
    channel.wait(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

} // namespace vt
