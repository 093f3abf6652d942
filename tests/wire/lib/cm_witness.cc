// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cm_witness.h"

#include "../../verbs/lib/error.h"

namespace wire {

namespace {

constexpr std::uint16_t kPort = 20301;
constexpr int kResolveMs = 3000;

} // namespace

CmWitness::CmWitness()
    : address_(vt::address(vt::variable("ROX_ADDR_A"), kPort)),
      listener_(vt::cm_listen(server_, "", RDMA_PS_TCP, address_, 16))
{}

vt::CmId CmWitness::resolved()
{
    vt::CmId id = client_.make_id(RDMA_PS_TCP);
    vt::check(
        rdma_resolve_addr(id.get(), nullptr, reinterpret_cast<sockaddr *>(&address_), kResolveMs),
        "rdma_resolve_addr");
    client_.wait(RDMA_CM_EVENT_ADDR_RESOLVED);
    vt::check(rdma_resolve_route(id.get(), kResolveMs), "rdma_resolve_route");
    client_.wait(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
}

void CmWitness::exchange(const vt::CmQp &from, const vt::CmQp &to)
{
    to.post_recv(1, 8192, 4096);
    from.post(vt::SendWr::send({from.buffer.sge(0, 3000)}).id(2));
    EXPECT_TRUE(vt::is(from.cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(vt::is(to.cq.one(), 1, IBV_WC_RECV));
}

void CmWitness::connects()
{
    vt::CmId client = resolved();
    vt::CmQp client_qp(client.get(), IBV_QPT_RC);
    rdma_conn_param param = vt::cm_parameters("");
    vt::check(rdma_connect(client.get(), &param), "rdma_connect");
    vt::CmId server(server_.wait(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    vt::CmQp server_qp(server.get(), IBV_QPT_RC);
    vt::check(rdma_accept(server.get(), &param), "rdma_accept");
    client_.wait(RDMA_CM_EVENT_ESTABLISHED);
    server_.wait(RDMA_CM_EVENT_ESTABLISHED);
    exchange(client_qp, server_qp);
    exchange(server_qp, client_qp);
    vt::check(rdma_disconnect(client.get()), "rdma_disconnect");
    server_.wait(RDMA_CM_EVENT_DISCONNECTED);
    vt::check(rdma_disconnect(server.get()), "the answering rdma_disconnect");
    client_.wait(RDMA_CM_EVENT_DISCONNECTED);
}

} // namespace wire
