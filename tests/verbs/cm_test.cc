// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The RDMA CM between two ids of one process: connecting, refusing, private
/// data, disconnecting, for RC, UC and UD. The listening side lives in the
/// namespace of the second device (ROX_NS_B), where a thread creates it.
#include <poll.h>

#include "lib/cm_qp.h"
#include "lib/pair.h"
#include "lib/pkey.h"
#include "lib/thread.h"

using namespace vt;

namespace {

class CmCore : public testing::Test {
protected:
    /// Listens on b's address.
    void listen(rdma_port_space space)
    {
        listener = cm_listen(server_channel, variable("ROX_NS_B"), space,
                             address(server_address, port), 16);
    }
    /// A client id on a that knows its route to b.
    CmId resolved(rdma_port_space space)
    {
        return cm_resolved(client_channel, space, address(server_address, port));
    }
    static bool starts_with(const std::string &text, const std::string &beginning)
    {
        return text.compare(0, beginning.size(), beginning) == 0;
    }
    void connect_and_part(const std::string &server, std::uint16_t at)
    {
        server_address = server;
        port = at;
        listen(RDMA_PS_TCP);
        CmId client = resolved(RDMA_PS_TCP);
        EXPECT_EQ(device_a(), ibv_get_device_name(client->verbs->device));
        CmQp client_qp(client.get(), IBV_QPT_RC);
        std::string hello = "hello from the client";
        rdma_conn_param param = cm_parameters(hello);
        check(rdma_connect(client.get(), &param), "rdma_connect");

        CmEvent request = server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST);
        EXPECT_TRUE(starts_with(request.data, hello));
        CmId accepted(request.id);
        EXPECT_EQ(device_b(), ibv_get_device_name(accepted->verbs->device));
        {
            CmQp server_qp(accepted.get(), IBV_QPT_RC);
            std::string welcome = "welcome by the server";
            param = cm_parameters(welcome);
            check(rdma_accept(accepted.get(), &param), "rdma_accept");
            CmEvent established = client_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
            EXPECT_TRUE(starts_with(established.data, welcome));
            server_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
            expect_data(client_qp, server_qp);

            client_qp.post_recv(9, 0, 100);
            check(rdma_disconnect(client.get()), "rdma_disconnect");
            server_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
            check(rdma_disconnect(accepted.get()), "the answering rdma_disconnect");
            client_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
            EXPECT_TRUE(is_error(client_qp.cq.one(), 9, IBV_WC_WR_FLUSH_ERR))
                << "disconnecting moves the QP to ERR";
        }
    }

    CmChannel server_channel;
    CmChannel client_channel;
    CmId listener;
    std::string server_address = variable("ROX_ADDR_B");
    std::uint16_t port = 20101;
};

TEST_F(CmCore, RcConnectsSendsAndDisconnects)
{
    connect_and_part(variable("ROX_ADDR_B"), 20102);
}

TEST_F(CmCore, RcOverIpv6)
{
    connect_and_part(variable("ROX_ADDR6_B"), 20103);
}

TEST_F(CmCore, RejectionCarriesItsDataAndReason)
{
    listen(RDMA_PS_TCP);
    CmId client = resolved(RDMA_PS_TCP);
    CmQp client_qp(client.get(), IBV_QPT_RC);
    rdma_conn_param param = cm_parameters("");
    check(rdma_connect(client.get(), &param), "rdma_connect");
    CmEvent request = server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST);
    CmId refused(request.id);
    std::string reason = "no room";
    check(rdma_reject(refused.get(), reason.data(), std::uint8_t(reason.size())), "rdma_reject");
    CmEvent rejected = client_channel.wait(RDMA_CM_EVENT_REJECTED);
    EXPECT_TRUE(starts_with(rejected.data, reason));
    EXPECT_EQ(rejected.status, 28) << "consumer defined";
}

TEST_F(CmCore, NobodyListeningIsARejection)
{
    port = 20999;
    CmId client = resolved(RDMA_PS_TCP);
    CmQp client_qp(client.get(), IBV_QPT_RC);
    rdma_conn_param param = cm_parameters("");
    check(rdma_connect(client.get(), &param), "rdma_connect");
    EXPECT_EQ(client_channel.wait(RDMA_CM_EVENT_REJECTED).status, 8) << "invalid service id";
}

TEST_F(CmCore, UnreachableAddressesDoNotResolve)
{
    CmId client = client_channel.make_id(RDMA_PS_TCP);
    sockaddr_storage there = address("203.0.113.77", 1);
    // No route: either at once or by an event.
    if (!rdma_resolve_addr(client.get(), nullptr, reinterpret_cast<sockaddr *>(&there), 1000))
        client_channel.wait(RDMA_CM_EVENT_ADDR_ERROR);
    else
        EXPECT_NE(errno, 0);
}

TEST_F(CmCore, ServerMayDisconnect)
{
    listen(RDMA_PS_TCP);
    CmId client = resolved(RDMA_PS_TCP);
    CmQp client_qp(client.get(), IBV_QPT_RC);
    rdma_conn_param param = cm_parameters("");
    check(rdma_connect(client.get(), &param), "rdma_connect");
    CmId accepted(server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    CmQp server_qp(accepted.get(), IBV_QPT_RC);
    check(rdma_accept(accepted.get(), &param), "rdma_accept");
    client_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
    server_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
    check(rdma_disconnect(accepted.get()), "rdma_disconnect");
    client_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
    check(rdma_disconnect(client.get()), "the answering rdma_disconnect");
    server_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(CmCore, UdResolvesItsPeer)
{
    listen(RDMA_PS_UDP);
    CmId client = resolved(RDMA_PS_UDP);
    CmQp client_qp(client.get(), IBV_QPT_UD);
    std::string hello = "a datagram";
    rdma_conn_param param = cm_parameters(hello);
    check(rdma_connect(client.get(), &param), "rdma_connect");
    CmEvent request = server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST, true);
    EXPECT_TRUE(starts_with(request.data, hello));
    CmId accepted(request.id);
    CmQp server_qp(accepted.get(), IBV_QPT_UD);
    rdma_conn_param answer = cm_parameters("");
    answer.qp_num = accepted->qp->qp_num;
    check(rdma_accept(accepted.get(), &answer), "rdma_accept");
    CmEvent established = client_channel.wait(RDMA_CM_EVENT_ESTABLISHED, true);
    EXPECT_EQ(established.ud.qp_num, accepted->qp->qp_num);

    Ah ah(need(ibv_create_ah(client_qp.pd.get(), &established.ud.ah_attr), "ibv_create_ah"));
    fill(client_qp.buffer.bytes(0, 1000), 8);
    server_qp.post_recv(1, 8192, 4096);
    client_qp.post(SendWr::send({client_qp.buffer.sge(0, 1000)})
                       .id(2)
                       .to(ah.get(), established.ud.qp_num, established.ud.qkey));
    EXPECT_TRUE(is(client_qp.cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(server_qp.cq.one(), 1, IBV_WC_RECV));
    EXPECT_TRUE(filled(server_qp.buffer.bytes(8192 + 40, 1000), 8));
}

TEST_F(CmCore, UcConnects)
{
    // Only rdma_create_ep makes ids for UC.
    auto endpoint = [&](bool passive) {
        rdma_addrinfo hints{};
        rdma_addrinfo *info = nullptr;
        hints.ai_port_space = RDMA_PS_IB; // the kernel takes TCP for RC
        hints.ai_qp_type = IBV_QPT_UC;
        hints.ai_flags = RAI_NUMERICHOST | (passive ? RAI_PASSIVE : 0);
        check(rdma_getaddrinfo(server_address.c_str(), "20104", &hints, &info), "rdma_getaddrinfo");
        rdma_cm_id *id = nullptr;
        int result = rdma_create_ep(&id, info, nullptr, nullptr);
        int error = errno;
        rdma_freeaddrinfo(info);
        if (result)
            fail("rdma_create_ep", error);
        return id;
    };
    auto destroy = [](rdma_cm_id *id) {
        if (id)
            rdma_destroy_ep(id);
    };
    std::unique_ptr<rdma_cm_id, decltype(destroy)> passive(nullptr, destroy);
    in_namespace(variable("ROX_NS_B"), [&] {
        passive.reset(endpoint(true));
        check(rdma_listen(passive.get(), 4), "rdma_listen");
    });
    std::unique_ptr<rdma_cm_id, decltype(destroy)> active(endpoint(false), destroy);
    check(rdma_migrate_id(active.get(), client_channel.get()), "rdma_migrate_id");
    check(rdma_migrate_id(passive.get(), server_channel.get()), "rdma_migrate_id");
    CmQp client_qp(active.get(), IBV_QPT_UC);
    rdma_conn_param param = cm_parameters("");
    check(rdma_connect(active.get(), &param), "rdma_connect");
    CmId accepted(server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST).id);
    CmQp server_qp(accepted.get(), IBV_QPT_UC);
    check(rdma_accept(accepted.get(), &param), "rdma_accept");
    client_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
    server_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
    EXPECT_EQ(active->qp->qp_type, IBV_QPT_UC);
    expect_data(client_qp, server_qp);
    check(rdma_disconnect(active.get()), "rdma_disconnect");
    server_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
    check(rdma_disconnect(accepted.get()), "the answering rdma_disconnect");
    client_channel.wait(RDMA_CM_EVENT_DISCONNECTED);
}

TEST_F(CmCore, FiftyConnectionsAtOnce)
{
    constexpr std::size_t kCount = 50;
    listen(RDMA_PS_TCP);
    std::vector<CmId> ids;
    std::vector<std::unique_ptr<CmQp>> qps;
    rdma_conn_param param = cm_parameters("");
    for (std::size_t i = 0; i < kCount; i++) {
        ids.push_back(resolved(RDMA_PS_TCP));
        qps.push_back(std::make_unique<CmQp>(ids.back().get(), IBV_QPT_RC));
        check(rdma_connect(ids.back().get(), &param), "rdma_connect");
        ids.emplace_back(server_channel.wait(RDMA_CM_EVENT_CONNECT_REQUEST).id);
        qps.push_back(std::make_unique<CmQp>(ids.back().get(), IBV_QPT_RC));
        check(rdma_accept(ids.back().get(), &param), "rdma_accept");
        client_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
        server_channel.wait(RDMA_CM_EVENT_ESTABLISHED);
    }
    for (std::size_t i = 0; i < 2 * kCount; i += 2)
        expect_data(*qps[i], *qps[i + 1]);
    qps.clear();
}

// ---- P_Keys of the GSI QP, which is in all partitions of its port's table ----

class CmPkeyCore : public CmCore {
protected:
    Context near{device_a()};
    Context far{device_b()};
    PkeyTable near_table{near};
    PkeyTable far_table{far};
};

TEST_F(CmPkeyCore, RequestAndReplyAreSentAndReportedWithTheEntryThatMatches)
{
    near_table.set(3, 0xffff);
    far_table.set(5, 0xffff);
    near_table.set(0, 0x8005);
    far_table.set(0, 0x8006);
    connect_and_part(variable("ROX_ADDR_B"), 20120);
}

TEST_F(CmPkeyCore, LimitedMembersDoNotConnect)
{
    near_table.set(0, 0x7fff);
    far_table.set(0, 0x7fff);
    listen(RDMA_PS_TCP);
    auto refused = far.port().bad_pkey_cntr;
    {
        CmId client = resolved(RDMA_PS_TCP);
        CmQp client_qp(client.get(), IBV_QPT_RC);
        rdma_conn_param param = cm_parameters("");
        check(rdma_connect(client.get(), &param), "rdma_connect");
        EXPECT_TRUE(eventually([&] { return far.port().bad_pkey_cntr > refused; }));
        pollfd poll_fd{server_channel.get()->fd, POLLIN, 0};
        EXPECT_EQ(poll(&poll_fd, 1, int(kQuiet.count())), 0) << "the request has arrived";
    }
    listener.reset();
    far_table.set(0, 0xffff);
    connect_and_part(variable("ROX_ADDR_B"), 20121);
}

} // namespace
