// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Connections by the RDMA CM over the device under test, whatever else its QP 1 gets.
#pragma once

#include "../../verbs/lib/cm_qp.h"

namespace wire {

/// Listens at the device's own address, and connects to it, as rping does on one device.
class CmWitness {
public:
    CmWitness();

    /// A connection by five MADs (REQ, REP, RTU, DREQ, DREP), with a message in each direction.
    /// Throws if it does not come about in time.
    void connects();

private:
    vt::CmChannel server_, client_;
    sockaddr_storage address_;
    vt::CmId listener_;
};

} // namespace wire
