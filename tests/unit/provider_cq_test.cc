/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completion queues over the fake kernel: creation, resize, extended polling. */
#include "provider_fixture.h"

#include <array>
#include <cerrno>

namespace rox::test {
namespace {

class ProviderCqTest : public ProviderFixture {
protected:
    KernelRing &ring_of(ibv_cq *cq) { return kernel.cqs.at(cq->handle); }

    int poll(ibv_cq *cq) { return ops->poll_cq(cq, wcs.size(), wcs.data()); }

    ibv_cq_ex *create_ex(uint64_t wc_flags, uint32_t flags = 0)
    {
        ibv_cq_init_attr_ex attr = {};

        attr.cqe = 8;
        attr.wc_flags = wc_flags;
        attr.flags = flags;
        attr.comp_mask = flags != 0 ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0;
        return ops->create_cq_ex(context, &attr);
    }

    std::array<ibv_wc, 16> wcs;
};

TEST_F(ProviderCqTest, PollsWhatTheKernelAdds)
{
    ibv_cq *cq = ops->create_cq(context, 5, nullptr, 0);

    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(cq->cqe, 8);
    EXPECT_EQ(poll(cq), 0);
    ring_of(cq).add(completion(11));
    ring_of(cq).add(completion(12));
    ASSERT_EQ(poll(cq), 2);
    EXPECT_EQ(wcs[0].wr_id, 11U);
    EXPECT_EQ(wcs[1].wr_id, 12U);
    EXPECT_EQ(ring_of(cq).waiting(), 0U);
    EXPECT_EQ(ops->poll_cq(cq, -1, wcs.data()), -EINVAL);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, ArmsInSharedMemory)
{
    ibv_cq *cq = ops->create_cq(context, 8, nullptr, 0);

    EXPECT_EQ(ops->req_notify_cq(cq, 1), 0);
    EXPECT_EQ(ring_of(cq).ctrl().flags, static_cast<uint32_t>(ROX_RING_ARM_SOLICITED));
    EXPECT_EQ(ops->req_notify_cq(cq, 0), 0);
    EXPECT_EQ(ring_of(cq).ctrl().flags,
              static_cast<uint32_t>(ROX_RING_ARM_SOLICITED | ROX_RING_ARM_NEXT));
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, NoEntriesAreRefused)
{
    EXPECT_EQ(ops->create_cq(context, 0, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(ProviderCqTest, FailuresLeaveErrnoAndNoCq)
{
    kernel.fail_next("ibv_cmd_create_cq_ex", ENOMEM);
    errno = 0;
    EXPECT_EQ(ops->create_cq(context, 8, nullptr, 0), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    kernel.refuse_mmap = true;
    EXPECT_EQ(ops->create_cq(context, 8, nullptr, 0), nullptr);
    kernel.refuse_mmap = false;
    kernel.spoil_offer = true;
    errno = 0;
    EXPECT_EQ(ops->create_cq(context, 8, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EPROTO);
}

TEST_F(ProviderCqTest, DestroyThatTheKernelRefusesKeepsTheCq)
{
    ibv_cq *cq = ops->create_cq(context, 8, nullptr, 0);

    kernel.fail_next("ibv_cmd_destroy_cq", EBUSY);
    EXPECT_EQ(ops->destroy_cq(cq), EBUSY);
    EXPECT_EQ(poll(cq), 0);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, ResizeKeepsWhatIsOutstandingAndTheArming)
{
    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);

    for (uint64_t i = 0; i < 4; i++) {
        ring_of(cq).add(completion(i));
    }
    ASSERT_EQ(ops->poll_cq(cq, 1, wcs.data()), 1);
    ops->req_notify_cq(cq, 0);
    ASSERT_EQ(ops->resize_cq(cq, 64), 0);
    EXPECT_EQ(cq->cqe, 64);
    EXPECT_EQ(ring_of(cq).ctrl().flags, static_cast<uint32_t>(ROX_RING_ARM_NEXT));
    for (uint64_t i = 4; i < 10; i++) {
        ring_of(cq).add(completion(i));
    }
    ASSERT_EQ(poll(cq), 9);
    for (uint64_t i = 0; i < 9; i++) {
        EXPECT_EQ(wcs[i].wr_id, i + 1);
    }
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, ResizeThatTheKernelRefusesChangesNothing)
{
    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);

    ring_of(cq).add(completion(1));
    kernel.fail_next("ibv_cmd_resize_cq", EINVAL);
    EXPECT_EQ(ops->resize_cq(cq, 2), EINVAL);
    EXPECT_EQ(ops->resize_cq(cq, 0), EINVAL);
    EXPECT_EQ(poll(cq), 1);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, ResizeWhoseRingCannotBeMappedFailsEveryPollAfter)
{
    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);

    kernel.refuse_mmap = true;
    EXPECT_NE(ops->resize_cq(cq, 16), 0);
    EXPECT_EQ(poll(cq), -EIO);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
}

TEST_F(ProviderCqTest, ExtendedPollReadsEveryField)
{
    ibv_cq_ex *cq = create_ex(IBV_WC_STANDARD_FLAGS |
                              uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP} |
                              uint64_t{IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK});
    ibv_poll_cq_attr attr = {};
    rox_cqe cqe = completion(5, 0x77);

    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(kernel.cq_request_flags, static_cast<uint32_t>(ROX_CQ_TIMESTAMP));
    cqe.status = IBV_WC_REM_OP_ERR;
    cqe.opcode = IBV_WC_RECV;
    cqe.vendor_err = 3;
    cqe.byte_len = 4;
    cqe.ex.imm_data = 6;
    cqe.src_qp = 8;
    cqe.wc_flags = IBV_WC_GRH;
    cqe.sl = 2;
    cqe.timestamp = 1000;
    cqe.wallclock = 2000;
    ring_of(ibv_cq_ex_to_cq(cq)).add(cqe);
    ring_of(ibv_cq_ex_to_cq(cq)).add(completion(6));

    ASSERT_EQ(ibv_start_poll(cq, &attr), 0);
    EXPECT_EQ(cq->wr_id, 5U);
    EXPECT_EQ(cq->status, IBV_WC_REM_OP_ERR);
    EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_vendor_err(cq), 3U);
    EXPECT_EQ(ibv_wc_read_byte_len(cq), 4U);
    EXPECT_EQ(ibv_wc_read_imm_data(cq), 6U);
    EXPECT_EQ(ibv_wc_read_qp_num(cq), 0x77U);
    EXPECT_EQ(ibv_wc_read_src_qp(cq), 8U);
    EXPECT_EQ(ibv_wc_read_wc_flags(cq), static_cast<unsigned int>(IBV_WC_GRH));
    EXPECT_EQ(ibv_wc_read_slid(cq), 0U);
    EXPECT_EQ(ibv_wc_read_sl(cq), 2);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0);
    EXPECT_EQ(ibv_wc_read_completion_ts(cq), 1000U);
    EXPECT_EQ(ibv_wc_read_completion_wallclock_ns(cq), 2000U);
    ASSERT_EQ(ibv_next_poll(cq), 0);
    EXPECT_EQ(cq->wr_id, 6U);
    EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
    EXPECT_EQ(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    EXPECT_EQ(ibv_start_poll(cq, &attr), ENOENT);
    attr.comp_mask = 1;
    EXPECT_EQ(ibv_start_poll(cq, &attr), EINVAL);
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(ProviderCqTest, TimestampsAreTakenOnlyIfAskedFor)
{
    ibv_cq_ex *cq = create_ex(IBV_WC_EX_WITH_BYTE_LEN);

    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(kernel.cq_request_flags, 0U);
    EXPECT_EQ(cq->read_completion_ts, nullptr);
    EXPECT_EQ(cq->read_imm_data, nullptr);
    EXPECT_NE(cq->read_byte_len, nullptr);
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(ProviderCqTest, WhatWeCannotGiveIsRefused)
{
    ibv_cq_init_attr_ex attr = {};

    EXPECT_EQ(create_ex(IBV_WC_EX_WITH_CVLAN), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(create_ex(IBV_WC_EX_WITH_FLOW_TAG), nullptr);
    EXPECT_EQ(create_ex(0, 1U << 20), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.cqe = 8;
    attr.comp_mask = 1U << 20;
    EXPECT_EQ(ops->create_cq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    EXPECT_EQ(ops->create_cq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(ProviderCqTest, SingleThreadedCqHasNoLocks)
{
    ibv_cq_ex *plain = create_ex(0);
    ibv_cq_ex *single = create_ex(0, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);

    EXPECT_FALSE(Cq::of(plain)->queue.lock().elided());
    EXPECT_TRUE(Cq::of(single)->queue.lock().elided());
    EXPECT_TRUE(Cq::of(single)->queue.arm_lock().elided());
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(plain)), 0);
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(single)), 0);
}

TEST_F(ProviderCqTest, CqOfAThreadDomainHasNoLocks)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_cq_init_attr_ex attr = {};

    attr.cqe = 8;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    {
        const ParentDomain domain(*ops, pd, ParentDomain::Td::own);

        attr.parent_domain = domain.pd();
        ibv_cq_ex *cq = ops->create_cq_ex(context, &attr);

        ASSERT_NE(cq, nullptr);
        EXPECT_TRUE(Cq::of(cq)->queue.lock().elided());
        EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    }
    attr.parent_domain = pd; // not a parent domain
    EXPECT_EQ(ops->create_cq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

} // namespace
} // namespace rox::test
