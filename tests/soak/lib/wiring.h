// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Devices in use by the load, and connections between them.
#pragma once

#include <memory>
#include <string>

#include "lib/cm.h"
#include "lib/context.h"
#include "lib/cq.h"
#include "lib/qp.h"

namespace soak {

/// One end's objects on a device.
struct Side {
    explicit Side(ibv_context *device)
        : context(device), pd(vt::alloc_pd(device)), channel(device), cq(device, 1024, &channel)
    {}

    ibv_context *context;
    vt::Pd pd;
    vt::Channel channel;
    vt::Cq cq;
};

/// A connected pair of QPs. The destructor closes the connection.
class Wiring {
public:
    Wiring() = default;
    virtual ~Wiring() = default;
    Wiring(const Wiring &) = delete;
    Wiring &operator=(const Wiring &) = delete;

    virtual ibv_qp *from() const = 0;
    virtual ibv_qp *to() const = 0;
    /// UD: the address handle for to().
    virtual ibv_ah *way() const { return nullptr; }
};

vt::QpConfig config_of(ibv_qp_type type);
/// Parameters of a connection that survives some seconds without an answer, and detects a loss
/// within two.
vt::Params patient(ibv_mtu mtu, bool v6);

/// A pair that is connected with addresses known to both ends.
class DirectWiring : public Wiring {
public:
    DirectWiring(const vt::Context &from_context, Side &from, const vt::Context &to_context,
                 Side &to, ibv_qp_type type, const vt::Params &params);
    ibv_qp *from() const override { return from_.get(); }
    ibv_qp *to() const override { return to_.get(); }
    ibv_ah *way() const override { return way_.get(); }

private:
    vt::Qp from_;
    vt::Qp to_;
    vt::Ah way_;
};

/// A pair that is connected by the RDMA CM. The CM opens devices itself, so it makes the sides,
/// too.
class CmWiring : public Wiring {
public:
    /// Listens at @p address in the namespace @p where, and connects to it.
    CmWiring(const std::string &where, const std::string &address, std::uint16_t port);
    ~CmWiring() override;
    ibv_qp *from() const override { return client_->qp; }
    ibv_qp *to() const override { return server_->qp; }
    std::shared_ptr<Side> from_side() const { return from_side_; }
    std::shared_ptr<Side> to_side() const { return to_side_; }

private:
    void part() noexcept;
    void resolve(const sockaddr_storage &there);
    void accept(const vt::CmEvent &request);
    vt::CmEvent next(rdma_cm_event_type wanted);

    vt::CmChannel channel_;
    vt::CmId listener_;
    vt::CmId client_;
    vt::CmId server_;
    std::shared_ptr<Side> from_side_;
    std::shared_ptr<Side> to_side_;
    bool connected_ = false;
};

} // namespace soak
