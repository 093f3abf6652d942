/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The provider over modules that are older and newer than it: requests and
 * responses that lack their last members, or have more than it knows, and
 * longer entries in the rings (Documentation/abi.md). ASan sees what is written
 * beyond a response.
 */
#include "provider_fixture.h"

#include <fcntl.h>

#include <array>
#include <cerrno>
#include <cstdlib>

namespace rox::test {
namespace {

class VersionTest : public ProviderFixture {
protected:
    /* The tests open the context themselves, once the kernel has the version that they want. */
    void SetUp() override {}

    void TearDown() override
    {
        ProviderFixture::TearDown();
        EXPECT_TRUE(kernel.others.empty());
    }

    void open()
    {
        ProviderFixture::SetUp();
        ASSERT_NE(context, nullptr);
        EXPECT_EQ(Context::of(context)->max_inline, 512U);
        pd = ops->alloc_pd(context);
        ASSERT_NE(pd, nullptr);
    }

    ibv_srq *create_srq()
    {
        ibv_srq_init_attr attr = {.srq_context = nullptr,
                                  .attr = {.max_wr = 4, .max_sge = 2, .srq_limit = 0}};

        return ops->create_srq(pd, &attr);
    }

    ibv_qp *create_qp(ibv_cq *cq)
    {
        ibv_qp_init_attr attr = small_qp_attr(cq, cq);

        return ops->create_qp(pd, &attr);
    }

    /* Completions arrive, before and after a resize. */
    void use_cq(ibv_cq *cq, uint32_t count)
    {
        KernelRing &ring = kernel.cqs.at(cq->handle);
        std::array<ibv_wc, 16> wcs;

        for (uint64_t i = 0; i < count; i++) {
            rox_cqe cqe = {};

            cqe.wr_id = i;
            cqe.opcode = IBV_WC_RECV;
            ring.add(cqe);
        }
        ASSERT_EQ(ops->poll_cq(cq, static_cast<int>(wcs.size()), wcs.data()),
                  static_cast<int>(count));
        for (uint64_t i = 0; i < count; i++) {
            EXPECT_EQ(wcs[i].wr_id, i);
        }
    }

    void use_srq(ibv_srq *srq, uint64_t count)
    {
        for (uint64_t i = 0; i < count; i++) {
            ibv_recv_wr wr = {};

            wr.wr_id = i;
            ASSERT_EQ(post_one(ops->post_srq_recv, srq, wr), 0);
        }
        for (uint64_t i = 0; i < count; i++) {
            EXPECT_EQ(kernel.srqs.at(srq->handle).take<rox_recv_wqe>().wr_id, i);
        }
    }

    void use_qp(ibv_qp *qp)
    {
        ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        for (uint64_t i = 0; i < 4; i++) {
            ASSERT_EQ(post_send(qp, i), 0);
            ASSERT_EQ(post_recv(qp, i), 0);
        }
        for (uint64_t i = 0; i < 4; i++) {
            EXPECT_EQ(fake(qp).sq.take<rox_send_wqe>().wr_id, i);
            EXPECT_EQ(fake(qp).rq.take<rox_recv_wqe>().wr_id, i);
        }
    }

    /* A CQ for 4 entries works, and with 16 as well. */
    void cq_grows(ibv_cq *cq)
    {
        ASSERT_NE(cq, nullptr);
        use_cq(cq, 4);
        ASSERT_EQ(ops->resize_cq(cq, 16), 0);
        use_cq(cq, 16);
    }

    /* The same for an SRQ. */
    void srq_grows(ibv_srq *srq)
    {
        ibv_srq_attr attr = {.max_wr = 16, .max_sge = 0, .srq_limit = 0};

        ASSERT_NE(srq, nullptr);
        use_srq(srq, 4);
        ASSERT_EQ(ops->modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
        use_srq(srq, 16);
    }

    void qp_works(ibv_cq *cq)
    {
        ibv_qp *qp = create_qp(cq);

        ASSERT_NE(qp, nullptr);
        use_qp(qp);
        EXPECT_EQ(ops->destroy_qp(qp), 0);
    }

    /* Every command that has a driver's part, and that what it makes can be used. */
    void everything_works()
    {
        ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);
        ibv_srq *srq = create_srq();
        ibv_ah_attr ah_attr = {};
        ibv_ah *ah = ops->create_ah(pd, &ah_attr);

        ASSERT_NE(ah, nullptr);
        EXPECT_EQ(object_of<Ah>(ah)->index, 0x700U);
        cq_grows(cq);
        srq_grows(srq);
        qp_works(cq);
        EXPECT_EQ(ops->destroy_srq(srq), 0);
        EXPECT_EQ(ops->destroy_cq(cq), 0);
        EXPECT_EQ(ops->destroy_ah(ah), 0);
        EXPECT_EQ(ops->dealloc_pd(pd), 0);
    }

    ibv_pd *pd = nullptr;
};

TEST_F(VersionTest, ModuleOfTheSameAge)
{
    open();
    everything_works();
}

TEST_F(VersionTest, OlderModuleAnswersWithoutTheLastMembers)
{
    /* Each response without its last word or words, but with all that is needed. */
    kernel.answers_only = offsetof(rox_alloc_ucontext_resp, features);
    open();
    kernel.answers_only = offsetof(rox_create_srq_resp, srq_num);

    ibv_srq *srq = create_srq();

    srq_grows(srq);
    EXPECT_EQ(ops->destroy_srq(srq), 0);

    kernel.answers_only = offsetof(rox_create_ah_resp, reserved);
    ibv_ah_attr ah_attr = {};
    ibv_ah *ah = ops->create_ah(pd, &ah_attr);

    ASSERT_NE(ah, nullptr);
    EXPECT_EQ(object_of<Ah>(ah)->index, 0x700U);
    EXPECT_EQ(ops->destroy_ah(ah), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

/* A module whose objects share mappings. What it has shared is given back. */
class SharingTest : public VersionTest {
protected:
    void open()
    {
        kernel.shares = true;
        VersionTest::open();
        EXPECT_EQ(kernel.asked_features, uint64_t{ROX_FEATURE_SLABS | ROX_FEATURE_LATE_DOORBELL});
    }

    void TearDown() override
    {
        EXPECT_EQ(kernel.slabs(), 0U);
        VersionTest::TearDown();
    }
};

TEST_F(SharingTest, EverythingWorks)
{
    open();
    everything_works();
}

TEST_F(SharingTest, ObjectsBesideEachOther)
{
    open();

    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);
    std::array<ibv_cq *, 40> cqs = {};
    std::array<ibv_qp *, 40> qps = {};

    ASSERT_NE(cq, nullptr);
    for (size_t i = 0; i < qps.size(); i++) {
        cqs[i] = ops->create_cq(context, 4, nullptr, 0);
        qps[i] = create_qp(cq);
        ASSERT_NE(qps[i], nullptr);
    }
    EXPECT_GT(kernel.slabs(), 1U);
    EXPECT_LT(kernel.slabs(), 20U);
    for (size_t i = 0; i < qps.size(); i++) {
        use_qp(qps[i]);
        use_cq(cqs[i], 4);
    }
    for (size_t i = 0; i < qps.size(); i += 2) {
        EXPECT_EQ(ops->destroy_qp(qps[i]), 0);
        EXPECT_EQ(ops->resize_cq(cqs[i], 8), 0);
    }
    for (size_t i = 0; i < qps.size(); i++) {
        use_cq(cqs[i], 4);
        EXPECT_EQ(ops->destroy_cq(cqs[i]), 0);
        if (i % 2 != 0) {
            ASSERT_EQ(set_state(qps[i], IBV_QPS_RESET), 0);
            use_qp(qps[i]);
            EXPECT_EQ(ops->destroy_qp(qps[i]), 0);
        }
    }
    EXPECT_EQ(ops->destroy_cq(cq), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(SharingTest, OlderModuleSaysNoPlace)
{
    kernel.answers_only = offsetof(rox_create_srq_resp, place);
    open();

    ibv_srq *srq = create_srq();

    srq_grows(srq);
    kernel.answers_only = offsetof(rox_create_cq_resp, place);
    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);

    cq_grows(cq);
    kernel.answers_only = offsetof(rox_create_qp_resp, place);
    ibv_qp *qp = create_qp(cq);

    ASSERT_NE(qp, nullptr);
    use_qp(qp);
    EXPECT_EQ(kernel.slabs(), 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(SharingTest, MappingThatIsRefusedLeavesNothing)
{
    open();
    kernel.refuse_mmap = true;
    EXPECT_EQ(ops->create_cq(context, 4, nullptr, 0), nullptr);
    EXPECT_EQ(create_srq(), nullptr);
    kernel.refuse_mmap = false;
    everything_works();
}

TEST_F(VersionTest, OlderModuleKnowsNoneOfTheEmptyRequests)
{
    kernel.knows_of_requests = 0;
    open();

    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);
    ibv_srq *srq = create_srq();

    ASSERT_NE(cq, nullptr);
    ASSERT_NE(srq, nullptr);
    qp_works(cq);
    use_cq(cq, 4);
    use_srq(srq, 4);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

/* What it asks for with a flag it does not get in silence. */
TEST_F(VersionTest, OlderModuleRefusesWhatItDoesNotKnow)
{
    open();
    kernel.knows_of_requests = 0;

    ibv_cq_init_attr_ex attr = {};

    attr.cqe = 4;
    attr.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
    errno = 0;
    EXPECT_EQ(ops->create_cq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    kernel.knows_of_requests = sizeof(uint32_t);
    ibv_cq_ex *cq = ops->create_cq_ex(context, &attr);

    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(kernel.cq_request_flags, uint32_t{ROX_CQ_TIMESTAMP});
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(VersionTest, NewerModuleAnswersMore)
{
    for (size_t more : {4U, 8U, 64U, 4096U}) {
        kernel.answers_more = more;
        kernel.next_ah = 0x700;
        open();
        everything_works();
        kernel.close();
    }
}

TEST_F(VersionTest, NewerModuleHasFeaturesThatNobodyKnows)
{
    kernel.features = ~uint64_t{0};
    open();
    everything_works();
}

TEST_F(VersionTest, NewerModuleHasLongerEntries)
{
    for (size_t more : {16U, 64U, 192U}) {
        kernel.longer_entries = more;
        kernel.next_ah = 0x700;
        open();
        everything_works();
        kernel.close();
    }
}

TEST_F(VersionTest, ResponsesThatEndTooEarlyLeaveNothing)
{
    open();
    for (size_t length : {0U, 4U, 16U, 28U}) {
        kernel.answers_only = length;
        EXPECT_EQ(ops->create_cq(context, 4, nullptr, 0), nullptr) << length;
        EXPECT_EQ(create_srq(), nullptr) << length;
    }
    kernel.answers_only = SIZE_MAX;
    ibv_cq *cq = ops->create_cq(context, 4, nullptr, 0);

    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST(AbiVersion, OfAnyOtherModuleIsRefused)
{
    for (uint32_t version : {0U, 2U, ROX_ABI_VERSION + 1U, ~0U}) {
        FakeKernel kernel;

        kernel.abi_version = version;
        errno = 0;
        EXPECT_EQ(kernel.open(), nullptr);
        EXPECT_EQ(errno, EPROTONOSUPPORT);
    }
}

/* A module with the doorbell object, or one that has it not, or not for us. */
class DoorbellTest : public VersionTest {
protected:
    void open(uint64_t features)
    {
        kernel.features = features;
        VersionTest::open();
        cq = ops->create_cq(context, 16, nullptr, 0);
        ASSERT_NE(cq, nullptr);
        qp = create_qp(cq);
        ASSERT_NE(qp, nullptr);
        ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
        fake(qp).rq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    }

    void TearDown() override
    {
        if (qp != nullptr) {
            EXPECT_EQ(ops->destroy_qp(qp), 0);
            EXPECT_EQ(ops->destroy_cq(cq), 0);
            EXPECT_EQ(ops->dealloc_pd(pd), 0);
        }
        VersionTest::TearDown();
    }

    /* One doorbell of each kind, by the uverbs commands. */
    void rings_by_commands()
    {
        EXPECT_EQ(post_send(qp), 0);
        EXPECT_EQ(post_recv(qp), 0);
        EXPECT_TRUE(kernel.bells.empty());
        EXPECT_EQ(kernel.send_doorbells, std::vector<uint32_t>{qp->handle});
        EXPECT_EQ(kernel.recv_doorbells, std::vector<uint32_t>{qp->handle});
    }

    ibv_cq *cq = nullptr;
    ibv_qp *qp = nullptr;
};

TEST_F(DoorbellTest, RingsTheObjectByTheNumberOfTheQp)
{
    open(ROX_FEATURE_DOORBELL);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(kernel.bells,
              (std::vector<unsigned long>{qp->qp_num, qp->qp_num | ROX_DOORBELL_RECV}));
    EXPECT_TRUE(kernel.send_doorbells.empty());
    EXPECT_TRUE(kernel.recv_doorbells.empty());
}

TEST_F(DoorbellTest, OlderModuleHasNone)
{
    open(~uint64_t{ROX_FEATURE_DOORBELL});
    rings_by_commands();
}

class NoEngineTest : public VersionTest {
protected:
    void SetUp() override { setenv("ROX_ENGINE", "0", 1); }
    void TearDown() override
    {
        unsetenv("ROX_ENGINE");
        VersionTest::TearDown();
    }
};

TEST_F(NoEngineTest, ProgramAsksForNone)
{
    open();
    EXPECT_EQ(kernel.asked_features,
              uint64_t{ROX_FEATURE_NO_ENGINE | ROX_FEATURE_SLABS | ROX_FEATURE_LATE_DOORBELL});
    everything_works();
}

TEST_F(NoEngineTest, FirstModulesTakeNoSuchRequest)
{
    kernel.knows_of_requests = 0;
    open();
    EXPECT_EQ(kernel.asked_features, 0U);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(DoorbellTest, NoFileDescriptorIsLeft)
{
    kernel.fail_next("alloc_bell", EMFILE);
    open(ROX_FEATURE_DOORBELL);
    rings_by_commands();
}

TEST_F(DoorbellTest, IsRefusedOrClosedByTheProgram)
{
    open(ROX_FEATURE_DOORBELL);
    kernel.bell_error = EPERM;
    rings_by_commands();
}

TEST_F(DoorbellTest, DeviceIsGone)
{
    open(ROX_FEATURE_DOORBELL);
    kernel.bell_error = EIO;
    EXPECT_EQ(post_send(qp), EIO);
    EXPECT_EQ(post_recv(qp), EIO);
    EXPECT_TRUE(kernel.send_doorbells.empty());
}

TEST_F(DoorbellTest, IsClosedWithTheContext)
{
    open(ROX_FEATURE_DOORBELL);

    const int fd = kernel.bell_fd();

    ASSERT_GE(fcntl(fd, F_GETFD), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->destroy_cq(cq), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
    qp = nullptr;
    kernel.close();
    EXPECT_LT(fcntl(fd, F_GETFD), 0);
}

} // namespace
} // namespace rox::test
