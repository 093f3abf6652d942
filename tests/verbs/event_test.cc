// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Asynchronous events that no other file has: the connection's, the port's
/// and the device's, and those of rings that were written over. (CQ_ERR and
/// QP_FATAL for an overflow are in cq_test.cc, SRQ_LIMIT in srq_test.cc,
/// SQ_DRAINED in flush_test.cc, PKEY_CHANGE in pkey_test.cc, QP_ACCESS_ERR and
/// QP_REQ_ERR at the target of RC requests in error_test.cc. There is no APM,
/// no LID, no subnet manager and no WQ, so that no event speaks of them.)
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "../../include/uapi/rdma/rox-abi.h"
#include "lib/diagnose.h"
#include "lib/pair.h"

using namespace vt;

namespace {

class EventCore : public PairTest {
protected:
    /// Waits until there is an event.
    static bool is_readable(int fd)
    {
        pollfd wait{fd, POLLIN, 0};
        return poll(&wait, 1, static_cast<int>(kPatience.count())) == 1;
    }
    /// Checks that @p destroy does not return before @p acknowledge is called, and then 0.
    static void expect_waits(const std::function<int()> &destroy,
                             const std::function<void()> &acknowledge)
    {
        std::atomic<bool> destroyed = false;
        std::thread destroyer([&] {
            EXPECT_EQ(destroy(), 0);
            destroyed = true;
        });
        std::this_thread::sleep_for(kQuiet);
        EXPECT_FALSE(destroyed);
        acknowledge();
        destroyer.join();
    }

    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
};

TEST_F(EventCore, FirstMessageInRtrEstablishesTheConnection)
{
    make();
    a.qp->to_init();
    b.qp->to_init();
    Params params;
    a.qp->to_rtr(params, address_of(a.context, b.context), b.qp->number());
    b.qp->to_rtr(params.mirrored(), address_of(b.context, a.context), a.qp->number());
    a.qp->to_rts(params);
    b.qp->post_recv(1, {far.sge(0, 100)});
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV)) << "RTR receives";
    b.context.wait_event(IBV_EVENT_COMM_EST, b.qp->get());
    a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(3));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_WRITE));
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_COMM_EST, b.qp->get())) << "only once";
    EXPECT_EQ(b.qp->state(), IBV_QPS_RTR);
    b.qp->to_rts(params.mirrored());
    expect_works();
}

TEST_F(EventCore, MessageInRtsEstablishesNothing)
{
    start();
    expect_works();
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_COMM_EST, b.qp->get()));
}

TEST_F(EventCore, LastWqeOfAnSrqQpIsReportedOnceInErr)
{
    Srq srq(b.pd.get());
    make({}, {.srq = srq.get()});
    connect();
    srq.post(1, {far.sge(0, 100)});
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    b.context.wait_event(IBV_EVENT_QP_LAST_WQE_REACHED, b.qp->get());
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_QP_LAST_WQE_REACHED, b.qp->get()));
    b.qp.reset();
}

TEST_F(EventCore, LastWqeIsReportedWhenTheDeviceItselfFailsTheQp)
{
    Srq srq(b.pd.get());
    make({}, {.srq = srq.get()});
    connect();
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    a.qp->post(SendWr::write({near.sge(0, 8)}, bad).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    b.context.wait_event(IBV_EVENT_QP_LAST_WQE_REACHED, b.qp->get());
    b.qp.reset();
}

TEST_F(EventCore, LocalErrorOfTheRequesterRaisesNoEvent)
{
    start();
    ibv_sge bad = near.sge(0, 8);
    bad.lkey ^= 0x00ff00;
    a.qp->post(SendWr::send({bad}).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_LOC_PROT_ERR));
    EXPECT_FALSE(a.context.has_event(IBV_EVENT_QP_FATAL, a.qp->get())) << "the completion says it";
}

TEST_F(EventCore, DestroyWaitsForTheEventToBeAcknowledged)
{
    start();
    Remote bad = remote(far);
    bad.rkey ^= 0x00ff00;
    a.qp->post(SendWr::write({near.sge(0, 8)}, bad).id(1));
    a.send_cq.one();
    ASSERT_TRUE(is_readable(b.context.get()->async_fd));
    ibv_async_event event{};
    ASSERT_EQ(ibv_get_async_event(b.context.get(), &event), 0);
    EXPECT_EQ(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    EXPECT_EQ(event.element.qp, b.qp->get());
    expect_waits([&] { return b.qp->destroy(); }, [&] { ibv_ack_async_event(&event); });
    b.qp.reset();
}

TEST_F(EventCore, DestroyWaitsForTheEventOfACqToBeAcknowledged)
{
    ibv_comp_channel *channel = ibv_create_comp_channel(b.context.get());
    ASSERT_NE(channel, nullptr);
    ibv_cq *cq = ibv_create_cq(b.context.get(), 8, nullptr, channel, 0);
    ASSERT_NE(cq, nullptr);
    {
        Qp sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        Qp receiver(b.pd.get(), b.send_cq.get(), cq);
        vt::connect(a.context, sender, b.context, receiver);
        ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
        receiver.post_recv(1, {far.sge(0, 100)});
        sender.post(SendWr::send({near.sge(0, 100)}).id(2));
        EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    }
    ASSERT_TRUE(is_readable(channel->fd));
    ibv_cq *of = nullptr;
    void *tag = nullptr;
    ASSERT_EQ(ibv_get_cq_event(channel, &of, &tag), 0);
    EXPECT_EQ(of, cq);
    expect_waits([&] { return ibv_destroy_cq(cq); }, [&] { ibv_ack_cq_events(cq, 1); });
    EXPECT_EQ(ibv_destroy_comp_channel(channel), 0);
}

// ---- programs that write over their rings: the error of that object, and of no other ----

/// Where this process has mapped rings.
std::set<std::uintptr_t> ring_mappings()
{
    std::set<std::uintptr_t> starts;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        if (line.find("/uverbs") != std::string::npos)
            starts.insert(std::stoull(line, nullptr, 16));
    return starts;
}

class RingCore : public PairTest {
protected:
    /// The indices of the first ring of what @p create creates.
    template <typename Create>
    static rox_ring_ctrl &ring_of(Create create)
    {
        std::set<std::uintptr_t> before = ring_mappings();
        create();
        for (std::uintptr_t start : ring_mappings())
            if (!before.count(start))
                return *reinterpret_cast<rox_ring_ctrl *>(start);
        fail("no new mapping");
    }
    /// More entries than there can be.
    static void spoil(__u32 &index) { std::atomic_ref<__u32>(index).fetch_add(1U << 30); }

    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
};

TEST_F(RingCore, SrqIsInError)
{
    std::optional<Srq> srq;
    rox_ring_ctrl &ring = ring_of([&] { srq.emplace(b.pd.get()); });
    make({}, {.srq = srq->get()});
    connect();
    Qp other_sender(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Qp other(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {.srq = srq->get()});
    vt::connect(a.context, other_sender, b.context, other);
    srq->post(1, {far.sge(0, 100)});
    spoil(ring.producer);
    a.qp->post(SendWr::send({near.sge(0, 8)}).id(2));
    EXPECT_EQ(b.context.wait_event(IBV_EVENT_SRQ_ERR, srq->get()).element, srq->get());
    b.context.wait_event(IBV_EVENT_QP_FATAL, b.qp->get());
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_REM_OP_ERR));
    EXPECT_EQ(other.state(), IBV_QPS_RTS) << "it has not taken from it";
    other_sender.post(SendWr::send({near.sge(0, 8)}).id(3));
    b.context.wait_event(IBV_EVENT_QP_FATAL, other.get());
    EXPECT_TRUE(is_error(a.send_cq.one(), 3, IBV_WC_REM_OP_ERR));
    EXPECT_FALSE(b.context.has_event(IBV_EVENT_SRQ_ERR, srq->get())) << "only once";
    b.qp.reset();
    other.destroy();
    EXPECT_EQ(srq->destroy(), 0);
    start();
    expect_works();
}

TEST_F(RingCore, CqIsInError)
{
    std::optional<Cq> cq;
    rox_ring_ctrl &ring = ring_of([&] { cq.emplace(b.context.get(), 64); });
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), cq->get());
    connect();
    b.qp->post_recv(1);
    spoil(ring.consumer);
    a.qp->post(SendWr::send({}).id(2));
    EXPECT_EQ(b.context.wait_event(IBV_EVENT_CQ_ERR, cq->get()).element, cq->get());
    b.context.wait_event(IBV_EVENT_QP_FATAL, b.qp->get());
    EXPECT_TRUE(b.qp->reaches(IBV_QPS_ERR));
    b.qp.reset();
    EXPECT_EQ(cq->destroy(), 0);
    start();
    expect_works();
}

TEST_F(RingCore, QpIsInError)
{
    rox_ring_ctrl &ring = ring_of(
        [&] { a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get()); });
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    connect();
    spoil(ring.producer);
    // The next post would set it right; this has the device look.
    ASSERT_EQ(a.qp->move(IBV_QPS_SQD), 0);
    ASSERT_EQ(a.qp->move(IBV_QPS_RTS), 0);
    a.context.wait_event(IBV_EVENT_QP_FATAL, a.qp->get());
    EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
    EXPECT_EQ(b.qp->state(), IBV_QPS_RTS);
    start();
    expect_works();
}

/// A device of its own on a veth pair in this namespace.
class PortCore : public testing::Test {
protected:
    static constexpr const char *kDevice = "roxevent";

    void SetUp() override
    {
        const std::string type = variable("ROX_TYPE", "rox");
        run("ip link add roxev0 mtu 9000 type veth peer name roxev1 mtu 9000");
        run("ip address add 10.77.0.1/24 dev roxev0");
        run("ip link set roxev0 up");
        run("ip link set roxev1 up");
        run(std::string("rdma link add ") + kDevice + " type " + type + " netdev roxev0");
        ASSERT_TRUE(eventually([] { return access("/sys/class/infiniband/roxevent", F_OK) == 0; }));
    }
    void TearDown() override
    {
        if (access("/sys/class/infiniband/roxevent", F_OK) == 0) {
            EXPECT_EQ(shell(std::string("rdma link delete ") + kDevice), 0);
        }
        shell("ip link delete roxev0");
        EXPECT_TRUE(eventually([] { return access("/sys/class/infiniband/roxevent", F_OK) != 0; }));
    }

    /// Objects of every kind, as a program holds them when its device goes.
    struct Program {
        ibv_context *context = need(open_device(kDevice), "open");
        ibv_pd *pd = need(ibv_alloc_pd(context), "pd");
        Memory memory{8192};
        ibv_mr *mr = need(ibv_reg_mr(pd, memory.data(), 8192, kAllAccess), "mr");
        ibv_comp_channel *channel = need(ibv_create_comp_channel(context), "channel");
        ibv_cq *cq = need(ibv_create_cq(context, 16, nullptr, channel, 0), "cq");
        ibv_qp *qp = create_qp();

        ibv_qp *create_qp() const
        {
            ibv_qp_init_attr init = QpConfig{}.attr(cq, cq);
            return need(ibv_create_qp(pd, &init), "qp");
        }
        /// Each call may say that the device is gone, but each must return.
        void end() const
        {
            for (int result :
                 {ibv_destroy_qp(qp), ibv_destroy_cq(cq), ibv_destroy_comp_channel(channel),
                  ibv_dereg_mr(mr), ibv_dealloc_pd(pd)})
                EXPECT_TRUE(result == 0 || result == EIO || result == ENODEV || result == EBUSY)
                    << result;
            EXPECT_EQ(ibv_close_device(context), 0);
        }
    };
    static bool fatal(ibv_context *context, Millis patience = kPatience)
    {
        ibv_async_event event{};
        int flags = fcntl(context->async_fd, F_GETFL);
        fcntl(context->async_fd, F_SETFL, flags | O_NONBLOCK);
        return eventually(
            [&] {
                if (ibv_get_async_event(context, &event))
                    return false;
                ibv_ack_async_event(&event);
                return event.event_type == IBV_EVENT_DEVICE_FATAL;
            },
            patience);
    }
};

TEST_F(PortCore, LinkDownAndUpAreReported)
{
    Context context(kDevice);
    EXPECT_EQ(context.port().state, IBV_PORT_ACTIVE);
    run("ip link set roxev0 down");
    EXPECT_EQ(context.wait_event(IBV_EVENT_PORT_ERR).port, 1);
    EXPECT_EQ(context.port().state, IBV_PORT_DOWN);
    run("ip link set roxev0 up");
    EXPECT_EQ(context.wait_event(IBV_EVENT_PORT_ACTIVE).port, 1);
    EXPECT_EQ(context.port().state, IBV_PORT_ACTIVE);
}

TEST_F(PortCore, LossOfCarrierIsReported)
{
    Context context(kDevice);
    run("ip link set roxev1 down");
    context.wait_event(IBV_EVENT_PORT_ERR);
    EXPECT_EQ(context.port().state, IBV_PORT_DOWN);
    run("ip link set roxev1 up");
    context.wait_event(IBV_EVENT_PORT_ACTIVE);
    EXPECT_EQ(context.port().state, IBV_PORT_ACTIVE);
}

TEST_F(PortCore, ActiveMtuFollowsTheNetdev)
{
    Context context(kDevice);
    EXPECT_EQ(context.port().active_mtu, IBV_MTU_4096);
    run("ip link set roxev0 mtu 1500");
    EXPECT_TRUE(eventually([&] { return context.port().active_mtu == IBV_MTU_1024; }));
    run("ip link set roxev0 mtu 2300");
    EXPECT_TRUE(eventually([&] { return context.port().active_mtu == IBV_MTU_2048; }));
    run("ip link set roxev0 mtu 9000");
    EXPECT_TRUE(eventually([&] { return context.port().active_mtu == IBV_MTU_4096; }));
}

TEST_F(PortCore, AddressesComeAndGoInTheGidTable)
{
    Context context(kDevice);
    auto has = [&] {
        std::string gids;
        shell("cat /sys/class/infiniband/roxevent/ports/1/gids/*", &gids);
        return gids.find("0000:0000:0000:0000:0000:ffff:0a4d:0042") != std::string::npos;
    };
    EXPECT_FALSE(has());
    run("ip address add 10.77.0.66/24 dev roxev0");
    EXPECT_TRUE(eventually(has));
    context.wait_event(IBV_EVENT_GID_CHANGE);
    run("ip address del 10.77.0.66/24 dev roxev0");
    EXPECT_TRUE(eventually([&] { return !has(); }));
    context.wait_event(IBV_EVENT_GID_CHANGE);
}

/// It ends with the netdev or by itself, and the first one does not notice.
TEST_F(PortCore, SecondLinkOnANetdevIsADeviceOfItsOwn)
{
    const std::string type = variable("ROX_TYPE", "rox");
    if (type != "rox")
        GTEST_SKIP() << type << " refuses it";
    Program program;
    run("rdma link add roxsecond type rox netdev roxev0");
    {
        Context second("roxsecond");
        EXPECT_NE(ibv_get_device_guid(second.get()->device),
                  ibv_get_device_guid(program.context->device));
    }
    run("timeout 20 rdma link delete roxsecond");
    EXPECT_FALSE(fatal(program.context, 500ms));
    program.end();
}

TEST_F(PortCore, DeletingTheLinkIsFatalForItsUsers)
{
    Program program;
    run(std::string("timeout 20 rdma link delete ") + kDevice);
    EXPECT_TRUE(fatal(program.context));
    ibv_wc wc{};
    EXPECT_LE(ibv_poll_cq(program.cq, 1, &wc), 0) << "there is nothing in it";
    EXPECT_EQ(ibv_alloc_pd(program.context), nullptr);
    program.end();
}

TEST_F(PortCore, RemovingTheNetdevIsFatalForItsUsers)
{
    Program program;
    run("timeout 20 ip link delete roxev0");
    EXPECT_TRUE(fatal(program.context));
    program.end();
    EXPECT_TRUE(eventually([] { return access("/sys/class/infiniband/roxevent", F_OK) != 0; }));
}

TEST_F(PortCore, MovingTheNetdevToAnotherNamespaceRemovesTheDevice)
{
    Program program;
    run("ip netns add roxelsewhere");
    run("timeout 20 ip link set roxev0 netns roxelsewhere");
    EXPECT_TRUE(fatal(program.context));
    program.end();
    EXPECT_TRUE(eventually([] { return access("/sys/class/infiniband/roxevent", F_OK) != 0; }));
    run("ip netns delete roxelsewhere");
}

TEST_F(PortCore, DeletingTheLinkInMidTransferReturns)
{
    Context context(kDevice);
    Pd pd = alloc_pd(context.get());
    Cq cq(context.get());
    Memory memory(1 << 20);
    ibv_mr *mr = need(ibv_reg_mr(pd.get(), memory.data(), 1 << 20, kAllAccess), "mr");
    ibv_qp_init_attr init = QpConfig{}.attr(cq.get(), cq.get());
    ibv_qp *raw = need(ibv_create_qp(pd.get(), &init), "qp");
    {
        Qp self(raw);
        Params params;
        params.peer_psn = params.psn;
        self.to_init(params);
        self.to_rtr(params, address_of(context, context), self.number());
        self.to_rts(params);
        auto address = reinterpret_cast<std::uintptr_t>(memory.data());
        for (std::uint64_t i = 0; i < 20; i++)
            self.post(SendWr::write({{address, 1 << 19, mr->lkey}}, {address + (1 << 19), mr->rkey})
                          .id(i));
        run(std::string("timeout 20 rdma link delete ") + kDevice);
        context.wait_event(IBV_EVENT_DEVICE_FATAL);
        self.release();
    }
    // The device is gone: what these return is of no matter, that they return is.
    ibv_destroy_qp(raw);
    ibv_destroy_cq(cq.release());
    ibv_dereg_mr(mr);
    ibv_dealloc_pd(pd.release());
    EXPECT_EQ(context.close(), 0);
}

} // namespace
