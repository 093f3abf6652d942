// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cm_witness.h"

#include "../../verbs/lib/error.h"

namespace wire {

namespace {

constexpr std::uint16_t kPort = 20301;

} // namespace

CmWitness::CmWitness()
    : address_(vt::address(vt::variable("ROX_ADDR_A"), kPort)),
      listener_(vt::cm_listen(server_, "", RDMA_PS_TCP, address_, 16))
{}

void CmWitness::connects()
{
    vt::CmId client = vt::cm_resolved(client_, RDMA_PS_TCP, address_);
    vt::CmQp client_qp(client.get(), IBV_QPT_RC);
    rdma_conn_param param = vt::cm_parameters("");
    vt::check(rdma_connect(client.get(), &param), "rdma_connect");
    vt::CmId server(server_.wait(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    vt::CmQp server_qp(server.get(), IBV_QPT_RC);
    vt::check(rdma_accept(server.get(), &param), "rdma_accept");
    client_.wait(RDMA_CM_EVENT_ESTABLISHED);
    server_.wait(RDMA_CM_EVENT_ESTABLISHED);
    vt::expect_data(client_qp, server_qp);
    vt::check(rdma_disconnect(client.get()), "rdma_disconnect");
    server_.wait(RDMA_CM_EVENT_DISCONNECTED);
    vt::check(rdma_disconnect(server.get()), "the answering rdma_disconnect");
    client_.wait(RDMA_CM_EVENT_DISCONNECTED);
}

} // namespace wire
