// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "wiring.h"

#include <cerrno>

#include "lib/diagnose.h"
#include "lib/pair.h"

namespace soak {

namespace {

/// A lost request of the CM is sent again after four seconds, an address that does not resolve is
/// told after this.
constexpr int kResolveMillis = 5000;

void create_qp(rdma_cm_id *id, Side &side)
{
    ibv_qp_init_attr init = config_of(IBV_QPT_RC).attr(side.cq.get(), side.cq.get());
    vt::check(rdma_create_qp(id, side.pd.get(), &init), "rdma_create_qp");
    vt::watch(id->qp);
}

/// What an event says that ends an attempt to connect, as an errno; EPROTO for one that no absence
/// of the network explains. A peer that hears nothing rejects with 4 (timeout), and with 10 (stale)
/// while it does not know that a connection of the same QP has ended.
int error_of(const vt::CmEvent &event)
{
    constexpr int kRejectedTimeout = 4;
    constexpr int kRejectedStale = 10;

    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR: return EHOSTUNREACH;
    case RDMA_CM_EVENT_UNREACHABLE: return ETIMEDOUT;
    case RDMA_CM_EVENT_CONNECT_ERROR: return ECONNABORTED;
    case RDMA_CM_EVENT_REJECTED:
        return event.status == kRejectedTimeout ? ETIMEDOUT
               : event.status == kRejectedStale ? ESTALE
                                                : EPROTO;
    default: return EPROTO;
    }
}

void destroy_qp(rdma_cm_id *id)
{
    if (!id || !id->qp)
        return;
    vt::unwatch(id->qp);
    rdma_destroy_qp(id);
}

} // namespace

vt::QpConfig config_of(ibv_qp_type type)
{
    return {.type = type, .send_sge = 1, .recv_sge = 1, .inline_data = 64};
}

vt::Params patient(ibv_mtu mtu, bool v6)
{
    vt::Params params;
    params.mtu = mtu;
    params.timeout = static_cast<std::uint8_t>(vt::ack_timeout(18));
    params.family = v6 ? vt::Family::V6 : vt::Family::V4;
    return params;
}

DirectWiring::DirectWiring(const vt::Context &from_context, Side &from,
                           const vt::Context &to_context, Side &to, ibv_qp_type type,
                           const vt::Params &params)
    : from_(from.pd.get(), from.cq.get(), from.cq.get(), config_of(type)),
      to_(to.pd.get(), to.cq.get(), to.cq.get(), config_of(type))
{
    vt::connect(from_context, from_, to_context, to_, params);
    if (type == IBV_QPT_UD) {
        ibv_ah_attr attr = vt::address_of(from_context, to_context, params);
        way_ = vt::Ah(vt::need(ibv_create_ah(from.pd.get(), &attr), "ibv_create_ah"));
    }
}

CmWiring::CmWiring(const std::string &where, const std::string &address, std::uint16_t port)
{
    const sockaddr_storage there = vt::address(address, port);
    const std::string nothing;
    rdma_conn_param param = vt::cm_parameters(nothing);

    try {
        listener_ = vt::cm_listen(channel_, where, RDMA_PS_TCP, there, 4);
        resolve(there);
        from_side_ = std::make_shared<Side>(client_->verbs);
        create_qp(client_.get(), *from_side_);
        vt::check(rdma_connect(client_.get(), &param), "rdma_connect");
        accept(next(RDMA_CM_EVENT_CONNECT_REQUEST));
        next(RDMA_CM_EVENT_ESTABLISHED);
        next(RDMA_CM_EVENT_ESTABLISHED);
        connected_ = true;
    } catch (...) {
        part();
        throw;
    }
}

CmWiring::~CmWiring()
{
    try {
        if (connected_) {
            vt::check(rdma_disconnect(client_.get()), "rdma_disconnect");
            next(RDMA_CM_EVENT_DISCONNECTED);
            rdma_disconnect(server_.get());
            next(RDMA_CM_EVENT_DISCONNECTED);
        }
    } catch (const vt::Failure &failure) {
        ADD_FAILURE() << failure.what();
    }
    part();
}

void CmWiring::part() noexcept
{
    destroy_qp(client_.get());
    destroy_qp(server_.get());
}

void CmWiring::resolve(const sockaddr_storage &there)
{
    sockaddr_storage to = there;
    client_ = channel_.make_id(RDMA_PS_TCP);
    vt::check(rdma_resolve_addr(client_.get(), nullptr, reinterpret_cast<sockaddr *>(&to),
                                kResolveMillis),
              "rdma_resolve_addr");
    next(RDMA_CM_EVENT_ADDR_RESOLVED);
    // The CM's own would be over after some seconds on Linux 6.12; the other end takes it, too.
    std::uint8_t timeout = patient(IBV_MTU_1024, false).timeout;
    vt::check(rdma_set_option(client_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
                              sizeof(timeout)),
              "rdma_set_option");
    vt::check(rdma_resolve_route(client_.get(), kResolveMillis), "rdma_resolve_route");
    next(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void CmWiring::accept(const vt::CmEvent &request)
{
    const std::string nothing;
    rdma_conn_param param = vt::cm_parameters(nothing);
    server_ = vt::CmId(request.id);
    to_side_ = std::make_shared<Side>(server_->verbs);
    create_qp(server_.get(), *to_side_);
    vt::check(rdma_accept(server_.get(), &param), "rdma_accept");
}

/// Several requests of the CM may get lost, one after another. A connection that stands is told
/// UNREACHABLE whenever its neighbour's address is not known for a while (cma_netevent_callback in
/// the kernel's cma.c), and stands all the same. One that is being made may fail: the caller tries
/// again.
vt::CmEvent CmWiring::next(rdma_cm_event_type wanted)
{
    for (;;) {
        auto event = channel_.next(4 * vt::kPatience);
        if (!event)
            vt::fail(std::string("no CM event ") + rdma_event_str(wanted) +
                     vt::state_of_everything());
        if (event->type == wanted)
            return *event;
        // One end's time wait may be over before the other one knows, if messages were lost.
        if (!connected_ || (event->type != RDMA_CM_EVENT_UNREACHABLE &&
                            event->type != RDMA_CM_EVENT_TIMEWAIT_EXIT))
            vt::fail(std::string("CM event ") + rdma_event_str(event->type) + " (status " +
                         std::to_string(event->status) + ") instead of " + rdma_event_str(wanted),
                     connected_ ? EPROTO : error_of(*event));
    }
}

} // namespace soak
