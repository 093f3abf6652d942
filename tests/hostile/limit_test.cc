// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Limits of what a program may have: locked memory, its cgroup's memory, its cgroup's share of
/// the device. At each of them it gets an errno, loses nothing, and goes on when it has given
/// something back. (That the device's own limits are refused is in tests/verbs/qp_create_test.cc,
/// cq_test.cc and srq_test.cc.)
#include <cstdio>
#include <functional>
#include <vector>

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/cgroup.h"

using namespace hostile;

namespace {

constexpr uid_t kNobody = 65534;

class LimitTest : public vt::ProcessTest {};

/// Creates until it fails, @p most times at most: the errno, 0 if it never did.
template <typename T>
int exhaust(std::vector<T *> &all, std::size_t most, const std::function<T *()> &create)
{
    while (all.size() < most) {
        errno = 0;
        T *one = create();
        if (!one)
            return errno ? errno : -1;
        all.push_back(one);
    }
    return 0;
}

/// Fails with the line, in a child whose assertions nobody counts.
#define CHILD_EXPECT(condition)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            std::fprintf(stderr, "%s:%d: not so: %s (errno %d)\n", __FILE__, __LINE__, #condition, \
                         errno);                                                                   \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

void become_nobody()
{
    if (setgid(kNobody) || setuid(kNobody))
        vt::fail("setuid", errno);
}

TEST_F(LimitTest, LockedMemoryBoundsWhatIsRegistered)
{
    pid_t child = vt::in_child([] {
        constexpr rlim_t kLimit = 1 << 20;
        constexpr std::size_t kPart = 256 << 10;
        rlimit limit{kLimit, kLimit};
        CHILD_EXPECT(!setrlimit(RLIMIT_MEMLOCK, &limit));
        become_nobody();
        vt::Context context(vt::device_a());
        vt::Pd pd = vt::alloc_pd(context.get());
        vt::Memory memory(4 * kLimit);
        std::vector<ibv_mr *> all;
        int error = exhaust<ibv_mr>(all, 16, [&] {
            return ibv_reg_mr(pd.get(), memory.data() + all.size() * kPart, kPart, vt::kAllAccess);
        });
        CHILD_EXPECT(error == ENOMEM);
        CHILD_EXPECT(all.size() >= 3 && all.size() <= kLimit / kPart);
        /* What is on demand is not pinned. */
        ibv_mr *on_demand = ibv_reg_mr(pd.get(), memory.data(), memory.size(), vt::kOnDemand);
        CHILD_EXPECT(on_demand && !ibv_dereg_mr(on_demand));
        CHILD_EXPECT(!ibv_dereg_mr(all.back()));
        all.back() = ibv_reg_mr(pd.get(), memory.data(), kPart, vt::kAllAccess);
        CHILD_EXPECT(all.back());
        for (ibv_mr *mr : all)
            CHILD_EXPECT(!ibv_dereg_mr(mr));
        return 0;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

/// In a group of its own: every kind of object until there is no more memory.
int exhaust_memory(const Cgroup &group)
{
    group.enter();
    vt::Context context(vt::device_a());
    vt::Pd pd = vt::alloc_pd(context.get());
    vt::Cq cq(context.get(), 16);
    ibv_qp_init_attr qp_init = vt::QpConfig{.send_wr = 8192, .recv_wr = 8192}.attr(cq.get(),
                                                                                   cq.get());
    ibv_srq_init_attr srq_init{nullptr, {65536, 4, 0}};
    std::vector<ibv_qp *> qps;
    std::vector<ibv_cq *> cqs;
    std::vector<ibv_srq *> srqs;
    for (int round = 0; round < 2; round++) {
        CHILD_EXPECT(exhaust<ibv_qp>(qps, 1000, [&] {
                         ibv_qp_init_attr init = qp_init;
                         return ibv_create_qp(pd.get(), &init);
                     }) == ENOMEM);
        CHILD_EXPECT(!qps.empty());
        for (ibv_qp *qp : qps)
            CHILD_EXPECT(!ibv_destroy_qp(qp));
        CHILD_EXPECT(exhaust<ibv_cq>(cqs, 1000, [&] {
                         return ibv_create_cq(context.get(), 65536, nullptr, nullptr, 0);
                     }) == ENOMEM);
        CHILD_EXPECT(!cqs.empty());
        /* Growing is refused as well, and what was there stays. */
        CHILD_EXPECT(ibv_resize_cq(cqs[0], 1 << 20) == ENOMEM);
        CHILD_EXPECT(cqs[0]->cqe >= 65535);
        for (ibv_cq *one : cqs)
            CHILD_EXPECT(!ibv_destroy_cq(one));
        CHILD_EXPECT(exhaust<ibv_srq>(srqs, 1000, [&] {
                         ibv_srq_init_attr init = srq_init;
                         return ibv_create_srq(pd.get(), &init);
                     }) == ENOMEM);
        CHILD_EXPECT(!srqs.empty());
        for (ibv_srq *srq : srqs)
            CHILD_EXPECT(!ibv_destroy_srq(srq));
        std::printf("# until ENOMEM: %zu QPs, %zu CQs, %zu SRQs\n", qps.size(), cqs.size(),
                    srqs.size());
        std::fflush(stdout);
        qps.clear();
        cqs.clear();
        srqs.clear();
    }
    return 0;
}

TEST_F(LimitTest, MemoryOfTheCgroupBoundsQueues)
{
    Cgroup group("queues");
    group.set("memory.max", "48M");
    pid_t child = vt::in_child([&] { return exhaust_memory(group); });
    EXPECT_TRUE(vt::ends_with(child, 0));
    EXPECT_EQ(group.number("memory.events", "oom_kill"), 0u);
    EXPECT_GT(group.number("memory.events", "max"), 0u) << "the limit was not reached";
}

TEST_F(LimitTest, QueuesAreChargedToTheCgroup)
{
    Cgroup group("charged");
    pid_t child = vt::in_child([&] {
        group.enter();
        vt::Context context(vt::device_a());
        vt::Cq small(context.get(), 16);
        std::uint64_t before = group.number("memory.stat", "vmalloc");
        {
            vt::Cq large(context.get(), 131072); // 8 MiB
            CHILD_EXPECT(group.number("memory.stat", "vmalloc") >= before + (8 << 20));
        }
        CHILD_EXPECT(vt::eventually(
            [&] { return group.number("memory.stat", "vmalloc") < before + (1 << 20); }));
        return 0;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

TEST_F(LimitTest, OnDemandPagesAreChargedToTheCgroup)
{
    Cgroup group("demand");
    pid_t child = vt::in_child([&] {
        group.enter();
        vt::End a(vt::device_a()), b(vt::device_b());
        vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
        vt::connect(a.context, qa, b.context, qb);
        vt::Buffer source = a.buffer(4096);
        constexpr std::size_t kStep = 2 << 20, kSteps = 64;
        /* One page in each 2 MiB: what is known of them takes as much as they do. */
        vt::Memory space(kStep * kSteps, MAP_NORESERVE);
        vt::MrHandle on_demand = vt::reg_mr(b.pd.get(), space.data(), space.size(), vt::kOnDemand);
        std::uint64_t before = group.number("memory.stat", "vmalloc") +
                               group.number("memory.stat", "slab");
        for (std::size_t i = 0; i < kSteps; i++) {
            std::uint64_t to = reinterpret_cast<std::uintptr_t>(space.data()) + i * kStep;
            space.data()[i * kStep] = 1; // the page itself is the process's doing
            qa.post(vt::SendWr::write({source.sge(0, 8)}, {to, on_demand->rkey}).id(i));
            CHILD_EXPECT(vt::is(a.send_cq.one(), i, IBV_WC_RDMA_WRITE));
        }
        std::uint64_t after = group.number("memory.stat", "vmalloc") +
                              group.number("memory.stat", "slab");
        CHILD_EXPECT(after >= before + kSteps * 4096);
        return 0;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

TEST_F(LimitTest, ShareOfTheDeviceBoundsObjects)
{
    Cgroup group("share");
    group.set("rdma.max", vt::device_a() + " hca_object=12");
    pid_t child = vt::in_child([&] {
        group.enter();
        vt::Context context(vt::device_a());
        std::vector<ibv_pd *> pds;
        CHILD_EXPECT(exhaust<ibv_pd>(pds, 100, [&] { return ibv_alloc_pd(context.get()); }) ==
                     EAGAIN);
        CHILD_EXPECT(pds.size() >= 8);
        CHILD_EXPECT(!ibv_dealloc_pd(pds.back()));
        pds.back() = ibv_alloc_pd(context.get());
        CHILD_EXPECT(pds.back());
        for (ibv_pd *pd : pds)
            CHILD_EXPECT(!ibv_dealloc_pd(pd));
        return 0;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

} // namespace
