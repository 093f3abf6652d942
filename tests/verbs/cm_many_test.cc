// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Very many connections of the RDMA CM, all at once and one after another, each with a message
/// that is looked at. Both ends and one event channel are this program's. ROX_AT_ONCE and
/// ROX_IN_TURN are how many, 1,000 and 100 unless told (`make soak`: 20,000 in turn). Nothing may
/// be left of them.
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>

#include <unistd.h>

#include "lib/cm.h"
#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/process.h"

using namespace vt;

namespace {

constexpr std::size_t kMessage = 300;

/// What the connections of one device share.
struct Station {
    Station(ibv_context *context, std::size_t connections)
        : pd(alloc_pd(context)), cq(context, static_cast<int>(4 * connections + 64)),
          sent(pd.get(), connections * kMessage), received(pd.get(), connections * kMessage)
    {}

    Pd pd;
    Cq cq;
    Buffer sent;
    Buffer received;
};

/// Number @p index of the connections: what its ends have come to.
struct Connection {
    CmId client;
    CmId server;
};

class CmMany : public ProcessTest {
protected:
    /// The library opens devices when it first needs them, and keeps them: before we look.
    static void SetUpTestSuite()
    {
        int count = 0;
        rdma_free_devices(need(rdma_get_devices(&count), "rdma_get_devices"));
    }

    /// Room for so many at a time.
    void begin(std::size_t connections, std::uint16_t port)
    {
        size = connections;
        there = address(variable("ROX_ADDR_B"), port);
        listener = cm_listen(channel, variable("ROX_NS_B"), RDMA_PS_TCP, there, 1024);
    }
    void finish()
    {
        listener.reset();
        stations.clear();
    }
    void TearDown() override
    {
        connections.clear();
        finish();
        ProcessTest::TearDown();
    }

    Station &station(rdma_cm_id *id)
    {
        auto &place = stations[id->verbs];
        if (!place)
            place = std::make_unique<Station>(id->verbs, size);
        return *place;
    }
    void create_qp(rdma_cm_id *id)
    {
        Station &own = station(id);
        ibv_qp_init_attr init = QpConfig{.send_wr = 2, .recv_wr = 2, .send_sge = 1, .recv_sge = 1}
                                    .attr(own.cq.get(), own.cq.get());
        check(rdma_create_qp(id, own.pd.get(), &init), "rdma_create_qp");
    }

    /// Asks for connection @p index; the rest is done as events come.
    void ask(std::size_t index)
    {
        Connection &one = connections[index];
        one.client = channel.make_id(RDMA_PS_TCP, reinterpret_cast<void *>(index));
        sockaddr_storage to = there;
        check(rdma_resolve_addr(one.client.get(), nullptr, reinterpret_cast<sockaddr *>(&to),
                                int(kWait.count())),
              "rdma_resolve_addr");
    }
    void send(std::size_t index)
    {
        rdma_cm_id *id = connections[index].client.get();
        Buffer &buffer = station(id).sent;
        fill(buffer.bytes(index * kMessage, kMessage), stamp(index));
        ibv_send_wr *bad = nullptr;
        SendWr wr = SendWr::send({buffer.sge(index * kMessage, kMessage)}).id(index);
        check(ibv_post_send(id->qp, wr.raw(), &bad), "ibv_post_send");
    }
    /// No two messages of a run are the same.
    std::uint64_t stamp(std::size_t index) const { return serial + index; }

    void step(const CmEvent &event);
    void requested(const CmEvent &event);
    void until(rdma_cm_event_type type, std::size_t wanted);
    void collect(std::size_t messages);
    void part(std::size_t first, std::size_t many);
    std::string how_far() const;

    static constexpr Millis kWait{60000};

    std::size_t size = 0;
    std::uint64_t serial = 0;
    sockaddr_storage there{};
    CmChannel channel;
    std::map<ibv_context *, std::unique_ptr<Station>> stations;
    CmId listener;
    std::map<std::size_t, Connection> connections;
    std::map<rdma_cm_event_type, std::size_t> seen;
};

/// The request says by its private data which connection is asked for.
void CmMany::requested(const CmEvent &event)
{
    CmId server(event.id);
    std::size_t index = 0;
    std::memcpy(&index, event.data.data(), std::min(event.data.size(), sizeof(index)));
    if (!connections.contains(index) || connections[index].server)
        fail("a request for a connection that nobody has asked for: " + std::to_string(index));
    create_qp(server.get());
    ibv_sge place = station(server.get()).received.sge(index * kMessage, kMessage);
    ibv_recv_wr wr{index, nullptr, &place, 1};
    ibv_recv_wr *bad = nullptr;
    check(ibv_post_recv(server->qp, &wr, &bad), "ibv_post_recv");
    rdma_conn_param param = cm_parameters("");
    check(rdma_accept(server.get(), &param), "rdma_accept");
    connections[index].server = std::move(server);
}

/// Does what comes after an event.
void CmMany::step(const CmEvent &event)
{
    seen[event.type]++;
    switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        check(rdma_resolve_route(event.id, int(kWait.count())), "rdma_resolve_route");
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED: {
        auto index = reinterpret_cast<std::size_t>(event.id->context);
        std::string data(reinterpret_cast<const char *>(&index), sizeof(index));
        rdma_conn_param param = cm_parameters(data);
        create_qp(event.id);
        check(rdma_connect(event.id, &param), "rdma_connect");
        break;
    }
    case RDMA_CM_EVENT_CONNECT_REQUEST: requested(event); break;
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT: break;
    case RDMA_CM_EVENT_DISCONNECTED:
        // The one that has asked for it is told, too, once the other one has answered.
        rdma_disconnect(event.id);
        break;
    default:
        fail(std::string("CM event ") + rdma_event_str(event.type) + ", status " +
             std::to_string(event.status) + how_far());
    }
}

std::string CmMany::how_far() const
{
    std::string text = "; so far";
    for (const auto &[type, times] : seen)
        text += std::string(" ") + rdma_event_str(type) + ": " + std::to_string(times);
    return text;
}

/// Events until there were @p wanted more of that type.
void CmMany::until(rdma_cm_event_type type, std::size_t wanted)
{
    const std::size_t end = seen[type] + wanted;
    while (seen[type] < end) {
        // Not one of many may be slow for long; requests that get lost are sent again after 4 s.
        auto event = channel.next(2 * kPatience + kWait);
        if (!event)
            fail("no CM event any more" + how_far() + state_of_everything());
        step(*event);
    }
}

/// The completions of so many messages, at both ends, and what has come.
void CmMany::collect(std::size_t messages)
{
    std::size_t sends = 0;
    std::size_t receives = 0;
    Deadline deadline(kPatience + kWait);
    while (sends + receives < 2 * messages) {
        if (deadline.passed())
            fail(std::to_string(sends) + " messages sent, " + std::to_string(receives) +
                 " received of " + std::to_string(messages) + state_of_everything());
        for (auto &[context, own] : stations) {
            std::array<ibv_wc, 64> wcs{};
            int got = ibv_poll_cq(own->cq.get(), int(wcs.size()), wcs.data());
            check(got < 0, "ibv_poll_cq");
            for (int i = 0; i < got; i++) {
                const ibv_wc &wc = wcs[static_cast<std::size_t>(i)];
                if (wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_SEND) {
                    sends++;
                    continue;
                }
                ASSERT_TRUE(is(wc, wc.wr_id, IBV_WC_RECV));
                ASSERT_EQ(wc.byte_len, kMessage);
                ASSERT_TRUE(
                    filled(own->received.bytes(wc.wr_id * kMessage, kMessage), stamp(wc.wr_id)));
                receives++;
            }
        }
    }
    ASSERT_EQ(sends, messages);
}

/// Disconnects, until each end knows, and destroys.
void CmMany::part(std::size_t first, std::size_t many)
{
    for (std::size_t i = first; i < first + many; i++)
        check(rdma_disconnect(connections[i].client.get()), "rdma_disconnect");
    until(RDMA_CM_EVENT_DISCONNECTED, 2 * many);
    for (std::size_t i = first; i < first + many; i++) {
        rdma_destroy_qp(connections[i].client.get());
        rdma_destroy_qp(connections[i].server.get());
        connections.erase(i);
    }
}

TEST_F(CmMany, AtOnce)
{
    const std::size_t many = variable_number("ROX_AT_ONCE", 1000);
    Stopwatch watch;
    alarm(kLongCaseSeconds);
    begin(many, 20200);
    for (std::size_t i = 0; i < many; i++)
        ask(i);
    until(RDMA_CM_EVENT_ESTABLISHED, 2 * many);
    auto opened = watch.elapsed();
    for (std::size_t i = 0; i < many; i++)
        send(i);
    collect(many);
    ASSERT_FALSE(HasFatalFailure());
    part(0, many);
    std::printf("# %zu connections at once: opened in %lld ms, all in %lld ms\n", many,
                static_cast<long long>(opened.count()),
                static_cast<long long>(watch.elapsed().count()));
}

TEST_F(CmMany, OneAfterAnother)
{
    const std::size_t many = variable_number("ROX_IN_TURN", 100);
    Stopwatch watch;
    begin(1, 20201);
    for (serial = 0; serial < many; serial++) {
        if (serial % 500 == 0)
            alarm(kLongCaseSeconds);
        ask(0);
        until(RDMA_CM_EVENT_ESTABLISHED, 2);
        send(0);
        collect(1);
        ASSERT_FALSE(HasFatalFailure());
        part(0, 1);
    }
    std::printf("# %zu connections one after another in %lld ms\n", many,
                static_cast<long long>(watch.elapsed().count()));
}

} // namespace
