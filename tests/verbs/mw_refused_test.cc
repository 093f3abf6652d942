// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory windows: what may not be bound, what is made up, and what happens at once.
#include <array>
#include <cstring>
#include <thread>

#include <sys/mman.h>

#include "lib/process.h"
#include "lib/window.h"

using namespace vt;

namespace {

class MwRefused : public MwTest {};
class MwRefusedCore : public MwTest {};

/* ---- what may be bound ---- */

TEST_F(MwRefusedCore, RegionMustAllowBinding)
{
    Buffer other = b.buffer(4096);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    EXPECT_TRUE(not_bound(bind1(mw.get(), part(other, 0, 4096))));
    EXPECT_TRUE(b.qp->reaches(IBV_QPS_ERR));
}

TEST_F(MwRefusedCore, WindowMustLieInTheRegion)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    const std::array<ibv_mw_bind_info, 5> wrong = {
        part(region, 0, kRegion + 1), part(region, 1, kRegion), part(region, kRegion, 1),
        ibv_mw_bind_info{region.mr().get(), region.address() - 1, 2, kAllRemote},
        ibv_mw_bind_info{region.mr().get(), region.address(1), ~0ull, kAllRemote}};
    for (const ibv_mw_bind_info &info : wrong) {
        EXPECT_TRUE(not_bound(bind1(mw.get(), info))) << info.length;
        reconnect();
    }
    EXPECT_TRUE(bound(bind1(mw.get(), part(region, 0, kRegion))));
}

TEST_F(MwRefusedCore, RightsToChangeNeedTheRegionsLocalWrite)
{
    Buffer closed = b.buffer(4096, IBV_ACCESS_MW_BIND);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    for (unsigned access : {IBV_ACCESS_REMOTE_WRITE, IBV_ACCESS_REMOTE_ATOMIC}) {
        EXPECT_TRUE(not_bound(bind1(mw.get(), part(closed, 0, 4096, access))));
        reconnect();
    }
    EXPECT_TRUE(bound(bind1(mw.get(), part(closed, 0, 4096, IBV_ACCESS_REMOTE_READ))));
    EXPECT_TRUE(is(read({closed.address(), mw->rkey}, 8), 1, IBV_WC_RDMA_READ));
}

TEST_F(MwRefusedCore, FailedBindLeavesTheWindowAsItWas)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    std::uint32_t good = mw->rkey;
    EXPECT_TRUE(not_bound(bind1(mw.get(), part(region, 0, kRegion + 1))));
    reconnect();
    fill(local.bytes(), 10);
    EXPECT_TRUE(is(write({region.address(), good}, 8), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(region.bytes(0, 8), 10));
}

TEST_F(MwRefusedCore, PdsMustAgree)
{
    Pd other = alloc_pd(b.context.get());
    Buffer foreign(other.get(), 4096, kBindable);
    Mw of_other = alloc_mw(other, IBV_MW_TYPE_1);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    Mw two = alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_EQ(try_bind1(*b.qp, mw.get(), part(foreign, 0, 4096)), EPERM);
    // Window and region of another PD than the QP's.
    EXPECT_TRUE(not_bound(bind1(of_other.get(), part(foreign, 0, 4096))));
    reconnect();
    EXPECT_TRUE(not_bound(bind2(two.get(), two->rkey, part(foreign, 0, 4096))));
    reconnect();
    // Bound by a QP of its own PD it is closed to peers of others.
    Qp helper_a(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    Qp helper_b(other.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, helper_a, b.context, helper_b, params);
    ASSERT_EQ(try_bind1(helper_b, of_other.get(), part(foreign, 0, 4096)), 0);
    EXPECT_TRUE(bound(b.send_cq.one()));
    EXPECT_TRUE(is_error(write({foreign.address(), of_other->rkey}, 8), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(foreign.bytes(), 0));
    EXPECT_TRUE(is(write({foreign.address(), of_other->rkey}, 8, &helper_a), 1, IBV_WC_RDMA_WRITE));
}

TEST_F(MwRefusedCore, BadRequestsAreNotPosted)
{
    Mw one = alloc_mw(b.pd, IBV_MW_TYPE_1);
    Mw two = alloc_mw(b.pd, IBV_MW_TYPE_2);
    EXPECT_EQ(try_bind1(*b.qp, two.get(), part(region, 0, 4096)), EINVAL);
    EXPECT_EQ(try_bind1(*b.qp, one.get(), {nullptr, 0, 4096, 0}), EINVAL);
    EXPECT_EQ(try_bind1(*b.qp, one.get(), part(region, 0, 4096, 1 << 15)), EINVAL);
    EXPECT_EQ(b.qp->try_post(bind_wr(one.get(), one->rkey, part(region, 0, 4096))), EINVAL);
    EXPECT_EQ(b.qp->try_post(bind_wr(two.get(), two->rkey, part(region, 0, 0))), EINVAL);
    EXPECT_EQ(b.qp->try_post(bind_wr(two.get(), two->rkey, {})), EINVAL);
    EXPECT_EQ(b.qp->try_post(bind_wr(nullptr, 1, part(region, 0, 1))), EINVAL);
    Qp ud(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {.type = IBV_QPT_UD});
    ud.to_init();
    ud.to_rtr({}, {}, 0);
    ud.to_rts();
    EXPECT_EQ(ud.try_post(bind_wr(two.get(), two->rkey, part(region, 0, 1))), EINVAL);
    EXPECT_TRUE(b.send_cq.quiet());
}

TEST_F(MwRefusedCore, RegionIsBusyWhileAWindowIsBound)
{
    Mw one = alloc_mw(b.pd, IBV_MW_TYPE_1);
    Mw two = alloc_mw(b.pd, IBV_MW_TYPE_2);
    Buffer other = b.buffer(4096, kBindable);
    ASSERT_TRUE(bound(bind1(one.get(), part(region, 0, 4096))));
    ASSERT_TRUE(bound(bind2(two.get(), two->rkey, part(region, 0, 4096))));
    EXPECT_EQ(ibv_dereg_mr(region.mr().get()), EBUSY);
    EXPECT_TRUE(is(write({region.address(), one->rkey}, 8), 1, IBV_WC_RDMA_WRITE));
    ASSERT_TRUE(bound(bind1(one.get(), part(other, 0, 4096)))); // bound elsewhere
    EXPECT_EQ(ibv_dereg_mr(region.mr().get()), EBUSY);
    EXPECT_EQ(two.destroy(), 0); // deallocated
    EXPECT_EQ(region.mr().destroy(), 0);
    EXPECT_EQ(ibv_dereg_mr(other.mr().get()), EBUSY);
    EXPECT_TRUE(bound(unbind1(one.get()))); // unbound
    EXPECT_EQ(other.mr().destroy(), 0);
}

TEST_F(MwRefusedCore, DeallocatedWindowIsClosed)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4096))));
    std::uint32_t rkey = mw->rkey;
    ASSERT_EQ(mw.destroy(), 0);
    EXPECT_TRUE(refused(write({region.address(), rkey}, 8)));
}

/* ---- what a program or its peer makes up ---- */

TEST_F(MwRefusedCore, ForgedRegionsAreNotBoundTo)
{
    Pd other = alloc_pd(b.context.get());
    Buffer foreign(other.get(), kRegion, kBindable);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    Mw open = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(open.get(), part(region, 0, kRegion))));
    for (std::uint32_t lkey : {foreign.lkey(), open->rkey, mw->rkey, region.lkey() ^ 1, 0u}) {
        ibv_mr forged = *region.mr().get();
        forged.lkey = lkey;
        ibv_mw_bind_info info = part(region, 0, 8);
        info.mr = &forged;
        if (lkey == foreign.lkey())
            info.addr = foreign.address();
        EXPECT_TRUE(not_bound(bind2(mw.get(), mw->rkey, info))) << lkey;
        reconnect();
    }
    EXPECT_TRUE(refused(write({region.address(), mw->rkey}, 8)));
    EXPECT_TRUE(all(foreign.bytes(), 0));
    EXPECT_EQ(foreign.mr().destroy(), 0) << "no bind that failed is counted";
}

TEST_F(MwRefusedCore, ForgedWindowsAreNotBound)
{
    Pd other = alloc_pd(b.context.get());
    Mw foreign = alloc_mw(other, IBV_MW_TYPE_2);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_2);
    for (std::uint32_t rkey : {region.rkey(), foreign->rkey, mw->rkey ^ 0x5500u, 0u}) {
        ibv_mw forged = *mw.get();
        forged.rkey = rkey;
        EXPECT_TRUE(not_bound(bind2(&forged, rkey, part(region, 0, 8)))) << rkey;
        reconnect();
    }
    EXPECT_TRUE(is(write(remote(region), 8), 1, IBV_WC_RDMA_WRITE))
        << "the region's key is its own";
    // Type 2 as if it was type 1: bound again and unbound without an invalidate.
    ASSERT_TRUE(bound(bind2(mw.get(), mw->rkey, part(region, 0, 64))));
    ibv_mw forged = *mw.get();
    forged.type = IBV_MW_TYPE_1;
    EXPECT_TRUE(not_bound(bind1(&forged, part(region, 64, 64))));
    reconnect();
    forged.rkey = mw->rkey;
    EXPECT_TRUE(not_bound(unbind1(&forged)));
    EXPECT_EQ(ibv_dereg_mr(region.mr().get()), EBUSY) << "still bound";
}

TEST_F(MwRefusedCore, AtomicsAndReadsAcrossTheEndAreRefused)
{
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 4092))));
    EXPECT_TRUE(refused(add({region.address(4088), mw->rkey})));
    reconnect();
    std::memset(local.data(), 0xee, local.size());
    EXPECT_TRUE(refused(read({region.address(), mw->rkey}, 4093)));
    EXPECT_TRUE(all(local.bytes(), 0xee));
    reconnect();
    EXPECT_TRUE(is(read({region.address(), mw->rkey}, 4092), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(0, 4092), kSeed));
    EXPECT_TRUE(all(local.bytes(4092, 100), 0xee));
}

TEST_F(MwRefused, NothingIsWrittenAfterAnUnbindIsComplete)
{
    constexpr std::size_t kBig = 1 << 20;
    Buffer target = b.buffer(kBig, kBindable);
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    for (int round = 0; round < 12 && !HasFailure(); round++) {
        start_second();
        ASSERT_TRUE(bound(bind1(mw.get(), part(target, 0, kBig))));
        revoke_under_writes(*a2, target.bytes(), {target.address(), mw->rkey},
                            std::chrono::microseconds(200 * round),
                            [&] { EXPECT_TRUE(bound(unbind1(mw.get()))); });
        a2.reset();
        b2.reset();
    }
}

TEST_F(MwRefused, TwoQpsBindOneWindowAtOnce)
{
    // A program's fault, which must not harm the device: each bind succeeds, the last one counts.
    start_second();
    Mw mw = alloc_mw(b.pd, IBV_MW_TYPE_1);
    Cq other(b.context.get());
    Qp c(b.pd.get(), other.get(), other.get()), d(a.pd.get(), a.recv_cq.get(), a.recv_cq.get());
    vt::connect(b.context, c, a.context, d, params);
    ibv_mw copy = *mw.get();
    std::thread thread([&] {
        for (int i = 0; i < 300; i++) {
            ibv_mw_bind request{50, IBV_SEND_SIGNALED, part(region, 4096, 100)};
            check(ibv_bind_mw(c.get(), &copy, &request), "ibv_bind_mw");
            EXPECT_TRUE(bound(other.one()));
        }
    });
    for (int i = 0; i < 300; i++)
        EXPECT_TRUE(bound(bind1(mw.get(), part(region, 0, 100))));
    thread.join();
    ASSERT_TRUE(bound(bind1(mw.get(), part(region, 0, 100))));
    EXPECT_TRUE(is(write({region.address(), mw->rkey}, 100), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(bound(unbind1(mw.get())));
    EXPECT_EQ(region.mr().destroy(), 0);
}

TEST_F(MwRefused, ProcessEndsWithBoundWindows)
{
    // What is left behind shows when the module is to be removed.
    pid_t child = in_child([] {
        auto &context = *new Context(device_b());
        ibv_pd *pd = alloc_pd(context.get()).release();
        ibv_mw *before = need(ibv_alloc_mw(pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
        void *memory = mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                            0);
        ibv_mr *mr = reg_mr(pd, memory, 8192, kBindable).release();
        ibv_mw *after = need(ibv_alloc_mw(pd, IBV_MW_TYPE_1), "ibv_alloc_mw");
        auto *cq = new Cq(context.get());
        auto *qp = new Qp(pd, cq->get(), cq->get());
        auto *qp2 = new Qp(pd, cq->get(), cq->get());
        vt::connect(context, *qp, context, *qp2);
        for (ibv_mw *mw : {before, after}) {
            ibv_mw_bind request{50,
                                IBV_SEND_SIGNALED,
                                {mr, reinterpret_cast<std::uintptr_t>(memory), 4096, kAllRemote}};
            check(ibv_bind_mw(qp->get(), mw, &request), "ibv_bind_mw");
            if (cq->one().status != IBV_WC_SUCCESS)
                return 3;
        }
        return ibv_dereg_mr(mr) == EBUSY ? 7 : 4;
    });
    EXPECT_TRUE(ends_with(child, 7));
}

} // namespace
