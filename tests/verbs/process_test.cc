// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// fork, and processes that end with objects alive.
#include <cstring>

#include <unistd.h>

#include "lib/pair.h"
#include "lib/process.h"

using namespace vt;

namespace {

/// ibv_fork_init comes before any other verb.
const int fork_init_result = ibv_fork_init();

class ForkCore : public PairTest {};

TEST_F(ForkCore, ForkInitSucceeds)
{
    EXPECT_EQ(fork_init_result, 0);
    EXPECT_NE(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
}

TEST_F(ForkCore, ParentGoesOnWhileAndAfterTheChildLives)
{
    start();
    Buffer near = a.buffer(65536);
    Buffer far = b.buffer(65536);
    fill(near.bytes(), 1);
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    pid_t child = in_child([&] {
        // The child writes to its own memory; what is registered it must not touch.
        std::vector<char> own(1 << 20, 1);
        char byte = own[5];
        return read(gate[0], &byte, 1) == 1 ? 7 : 8;
    });
    for (std::uint64_t i = 0; i < 20; i++) {
        fill(near.bytes(), i);
        a.qp->post(SendWr::write({near.sge(0, 65536)}, remote(far)).id(i));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(filled(far.bytes(), i)) << "the parent's pages stay its own";
    }
    ASSERT_EQ(write(gate[1], "x", 1), 1);
    EXPECT_TRUE(ends_with(child, 7));
    close(gate[0]);
    close(gate[1]);
    for (std::uint64_t i = 100; i < 120; i++) {
        fill(near.bytes(), i);
        a.qp->post(SendWr::write({near.sge(0, 65536)}, remote(far)).id(i));
        ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(filled(far.bytes(), i));
    }
    expect_works();
}

TEST_F(ForkCore, MemoryOnOnePageWithTheChildsIsTheParents)
{
    start();
    Memory memory(8192);
    MrHandle mr = reg_mr(b.pd.get(), memory.data() + 100, 1000);
    Buffer near = a.buffer(4096);
    fill(near.bytes(), 9);
    pid_t child = in_child([] { return 0; });
    std::memset(memory.data() + 2000, 1, 100); // the same page, not registered
    a.qp->post(SendWr::write({near.sge(0, 1000)},
                             {reinterpret_cast<std::uintptr_t>(memory.data()) + 100, mr->rkey})
                   .id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(memory.bytes().subspan(100, 1000), 9));
    EXPECT_TRUE(ends_with(child, 0));
}

TEST_F(ForkCore, ChildMayUseADeviceOfItsOwn)
{
    start();
    pid_t child = in_child([] {
        // A new opening, as after any fork.
        Context context(device_a());
        Pd pd = alloc_pd(context.get());
        Buffer buffer(pd.get(), 4096);
        return 3;
    });
    EXPECT_TRUE(ends_with(child, 3));
    expect_works();
}

class ExitCore : public ProcessTest {
protected:
    /// In a child: everything there is, with transfers under way; then @p end, which does not
    /// return.
    template <typename EndIt>
    static pid_t run(EndIt end)
    {
        return in_child([end] {
            auto *one = new End(device_a());
            auto *two = new End(device_b());
            auto *srq = new Srq(two->pd.get());
            auto *from = new Buffer(one->pd.get(), 4 << 20);
            auto *to = new Buffer(two->pd.get(), 4 << 20);
            one->qp = std::make_unique<Qp>(one->pd.get(), one->send_cq.get(), one->recv_cq.get());
            two->qp = std::make_unique<Qp>(two->pd.get(), two->send_cq.get(), two->recv_cq.get(),
                                           QpConfig{.srq = srq->get()});
            connect(one->context, *one->qp, two->context, *two->qp);
            srq->post(1, {to->sge(0, 100)});
            two->recv_cq.arm();
            for (std::uint64_t i = 0; i < 40; i++)
                one->qp->post(SendWr::write({from->sge(0, 4 << 20)}, remote(*to)).id(i));
            for (std::uint64_t i = 0; i < 20; i++)
                two->qp->post(SendWr::read({to->sge(0, 1 << 20)}, remote(*from)).id(i));
            end();
            return 98;
        });
    }
};

TEST_F(ExitCore, ProcessMayEndWithEverythingAlive)
{
    for (int round = 0; round < 5; round++) {
        EXPECT_TRUE(ends_with(run([] { _exit(5); }), 5));
    }
}

TEST_F(ExitCore, ProcessMayBeKilledInMidTransfer)
{
    for (int round = 0; round < 10; round++) {
        pid_t child = run([] { pause(); });
        std::this_thread::sleep_for(Millis(20 + 17 * round));
        kill_child(child);
    }
}

TEST_F(ExitCore, PeerOfADeadProcessIsToldByTheRetries)
{
    End here(device_a());
    int up[2];
    ASSERT_EQ(pipe(up), 0);
    Params params;
    params.timeout = 12;
    params.retry_cnt = 3;
    here.qp = std::make_unique<Qp>(here.pd.get(), here.send_cq.get(), here.recv_cq.get());
    std::uint32_t number = here.qp->number();
    pid_t child = in_child([&] {
        // It must not inherit the parent's objects in use: it makes its own.
        auto *there = new End(device_b());
        auto *me = new Context(device_a());
        auto *qp = new Qp(there->pd.get(), there->send_cq.get(), there->recv_cq.get());
        qp->to_init(params);
        qp->to_rtr(params.mirrored(), address_of(there->context, *me), number);
        std::uint32_t mine = qp->number();
        if (write(up[1], &mine, sizeof(mine)) == sizeof(mine))
            pause();
        return 1;
    });
    std::uint32_t peer = 0;
    ASSERT_EQ(read(up[0], &peer, sizeof(peer)), ssize_t(sizeof(peer)));
    {
        Context there(device_b());
        here.qp->to_init(params);
        here.qp->to_rtr(params, address_of(here.context, there), peer);
        here.qp->to_rts(params);
    }
    here.qp->post(SendWr::send({}).id(1)); // waits: no receive there
    EXPECT_TRUE(here.send_cq.quiet());
    kill_child(child);
    EXPECT_TRUE(is_error(here.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));
    for (int fd : up)
        close(fd);
}

} // namespace
