/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Shared receive queues over the fake kernel. */
#include "provider_fixture.h"

#include <cerrno>

namespace rox::test {
namespace {

class ProviderSrqTest : public ProviderFixture {
protected:
    void SetUp() override
    {
        ProviderFixture::SetUp();
        pd = ops->alloc_pd(context);
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->dealloc_pd(pd), 0);
        ProviderFixture::TearDown();
    }

    ibv_srq *create_in(ibv_pd *domain, uint32_t max_wr = 4)
    {
        ibv_srq_init_attr attr = {};

        attr.attr = {.max_wr = max_wr, .max_sge = 1, .srq_limit = 0};
        ibv_srq *srq = ops->create_srq(domain, &attr);

        EXPECT_TRUE(srq == nullptr || attr.attr.max_wr >= max_wr);
        return srq;
    }
    ibv_srq *create(uint32_t max_wr = 4) { return create_in(pd, max_wr); }

    int post(ibv_srq *srq, uint64_t wr_id, int num_sge = 1)
    {
        ibv_recv_wr wr = {.wr_id = wr_id, .next = nullptr, .sg_list = &sge, .num_sge = num_sge};

        return post_one(ops->post_srq_recv, srq, wr);
    }

    KernelRing &ring_of(ibv_srq *srq) { return kernel.srqs.at(srq->handle); }

    ibv_pd *pd = nullptr;
    ibv_sge sge = {0x1000, 64, 7};
};

TEST_F(ProviderSrqTest, PostsIntoSharedMemoryWithoutASystemCall)
{
    ibv_srq *srq = create();

    ASSERT_NE(srq, nullptr);
    ring_of(srq).ctrl().flags = ROX_RING_NEED_WAKEUP; // means nothing for an SRQ
    EXPECT_EQ(post(srq, 9), 0);
    EXPECT_TRUE(kernel.recv_doorbells.empty());
    ASSERT_EQ(ring_of(srq).waiting(), 1U);
    EXPECT_EQ(ring_of(srq).take<rox_recv_wqe>().wr_id, 9U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, FullIsEnomemAndTooManySgesAreEinval)
{
    ibv_srq *srq = create();

    EXPECT_EQ(post(srq, 0, 2), EINVAL);
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_EQ(post(srq, i), 0);
    }
    EXPECT_EQ(post(srq, 4), ENOMEM);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, ResizeKeepsWhatIsPostedAndTakesMore)
{
    ibv_srq *srq = create();
    ibv_srq_attr attr = {.max_wr = 16, .max_sge = 0, .srq_limit = 0};

    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_EQ(post(srq, i), 0);
    }
    ring_of(srq).take<rox_recv_wqe>();
    ASSERT_EQ(ops->modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
    for (uint64_t i = 4; i < 17; i++) {
        EXPECT_EQ(post(srq, i), 0);
    }
    EXPECT_EQ(post(srq, 17), ENOMEM);
    for (uint64_t i = 1; i < 17; i++) {
        EXPECT_EQ(ring_of(srq).take<rox_recv_wqe>().wr_id, i);
    }
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, LimitIsPassedOnWithoutAResize)
{
    ibv_srq *srq = create();
    ibv_srq_attr attr = {.max_wr = 0, .max_sge = 0, .srq_limit = 2};

    EXPECT_EQ(ops->modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(kernel.srq_masks, std::vector<int>{IBV_SRQ_LIMIT});
    EXPECT_EQ(post(srq, 1), 0);
    EXPECT_EQ(ring_of(srq).waiting(), 1U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, ResizeAndLimitAreTwoCommands)
{
    ibv_srq *srq = create();
    ibv_srq_attr attr = {.max_wr = 8, .max_sge = 0, .srq_limit = 2};

    EXPECT_EQ(ops->modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
    EXPECT_EQ(kernel.srq_masks, (std::vector<int>{IBV_SRQ_MAX_WR, IBV_SRQ_LIMIT}));
    EXPECT_EQ(post(srq, 1), 0);
    EXPECT_EQ(ring_of(srq).waiting(), 1U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, RefusedResizeChangesNothing)
{
    ibv_srq *srq = create();
    ibv_srq_attr attr = {.max_wr = 1, .max_sge = 0, .srq_limit = 0};

    kernel.fail_next("ibv_cmd_modify_srq", EINVAL);
    EXPECT_EQ(ops->modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
    EXPECT_TRUE(kernel.srq_masks.empty());
    EXPECT_EQ(post(srq, 1), 0);
    EXPECT_EQ(ring_of(srq).waiting(), 1U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, ResizeWhoseRingCannotBeMappedTakesNothingMore)
{
    ibv_srq *srq = create();
    ibv_srq_attr attr = {.max_wr = 16, .max_sge = 0, .srq_limit = 0};

    kernel.refuse_mmap = true;
    EXPECT_NE(ops->modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
    EXPECT_EQ(post(srq, 1), EINVAL);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, QueryAsksTheKernel)
{
    ibv_srq *srq = create(7);
    ibv_srq_attr attr = {};

    EXPECT_EQ(ops->query_srq(srq, &attr), 0);
    EXPECT_EQ(attr.max_wr, 8U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, FailuresLeaveErrnoAndNoSrq)
{
    kernel.fail_next("ibv_cmd_create_srq", EINVAL);
    errno = 0;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, EINVAL);
    kernel.refuse_mmap = true;
    EXPECT_EQ(create(), nullptr);
    kernel.refuse_mmap = false;
    kernel.spoil_offer = true;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, EPROTO);
}

TEST_F(ProviderSrqTest, DestroyThatTheKernelRefusesKeepsTheSrq)
{
    ibv_srq *srq = create();

    kernel.fail_next("ibv_cmd_destroy_srq", EBUSY);
    EXPECT_EQ(ops->destroy_srq(srq), EBUSY);
    EXPECT_EQ(post(srq, 1), 0);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, ExtendedCreateOfABasicSrq)
{
    ibv_srq_init_attr_ex attr = {};

    attr.srq_context = this;
    attr.attr = {.max_wr = 5, .max_sge = 1, .srq_limit = 0};
    attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
    attr.srq_type = IBV_SRQT_BASIC;
    attr.pd = pd;
    ibv_srq *srq = ops->create_srq_ex(context, &attr);

    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(srq->srq_context, this);
    EXPECT_EQ(srq->pd, pd);
    EXPECT_EQ(attr.attr.max_wr, 8U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, ExtendedCreateOfOtherTypesIsRefused)
{
    ibv_srq_init_attr_ex attr = {};

    attr.attr.max_wr = 4;
    EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
    attr.pd = pd;
    attr.srq_type = IBV_SRQT_TM;
    EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TM;
    EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ProviderSrqTest, ParentDomainInUseIsNotFreed)
{
    const ParentDomain domain(*ops, pd, ParentDomain::Td::none);
    ibv_srq *srq = create_in(domain.pd());

    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(ops->dealloc_pd(domain.pd()), EBUSY);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderSrqTest, SrqOfAThreadDomainHasNoLock)
{
    const ParentDomain domain(*ops, pd, ParentDomain::Td::own);
    ibv_srq *shared = create();
    ibv_srq *single = create_in(domain.pd());

    EXPECT_FALSE(Srq::of(shared)->queue.lock().elided());
    EXPECT_TRUE(Srq::of(single)->queue.lock().elided());
    EXPECT_EQ(ops->destroy_srq(shared), 0);
    EXPECT_EQ(ops->destroy_srq(single), 0);
}

} // namespace
} // namespace rox::test
