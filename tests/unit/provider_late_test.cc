/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Late doorbells: what the provider puts off, and when it rings.
 */
#include "provider_fixture.h"

namespace rox::test {
namespace {

class LateTest : public QpFixture {
protected:
    void SetUp() override
    {
        kernel.features = features();
        QpFixture::SetUp();
        qp = ready();
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->destroy_qp(qp), 0);
        QpFixture::TearDown();
    }

    virtual uint64_t features() const { return ROX_FEATURE_LATE_DOORBELL; }

    /* A QP that takes 200 work requests, whose doorbell may be late. */
    ibv_qp *ready()
    {
        ibv_qp_init_attr attr = init_attr();

        attr.cap.max_send_wr = 200;
        ibv_qp *made = ops->create_qp(pd, &attr);
        set_state(made, IBV_QPS_RTS);
        fake(made).sq.ctrl().flags = ROX_RING_NEED_WAKEUP | ROX_RING_WAKE_LATER;
        return made;
    }

    size_t rung() const { return kernel.send_doorbells.size(); }

    int poll()
    {
        ibv_wc wc = {};

        return ops->poll_cq(recv_cq, 1, &wc);
    }

    ibv_qp *qp = nullptr;
};

TEST_F(LateTest, ProgramAsksForIt)
{
    EXPECT_NE(kernel.asked_features & ROX_FEATURE_LATE_DOORBELL, 0U);
}

TEST_F(LateTest, PollInVainRingsOnceForAll)
{
    for (int i = 0; i < 10; i++) {
        EXPECT_EQ(post_send(qp), 0);
    }
    EXPECT_EQ(rung(), 0U);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(kernel.send_doorbells, std::vector<uint32_t>{qp->handle});
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(rung(), 1U);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(rung(), 1U);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(rung(), 2U);
}

TEST_F(LateTest, PollThatTakesSomethingDoesNotRing)
{
    EXPECT_EQ(post_send(qp), 0);
    kernel.cqs.at(recv_cq->handle).add(rox_cqe{});
    EXPECT_EQ(poll(), 1);
    EXPECT_EQ(rung(), 0U);
}

TEST_F(LateTest, ManyPostsRing)
{
    for (int i = 0; i < 63; i++) {
        EXPECT_EQ(post_send(qp), 0);
    }
    EXPECT_EQ(rung(), 0U);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(rung(), 1U);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(rung(), 1U);
    for (int i = 0; i < 64; i++) {
        EXPECT_EQ(post_send(qp), 0);
    }
    EXPECT_EQ(rung(), 2U);
}

TEST_F(LateTest, AllQpsOfTheContextAreRung)
{
    ibv_qp *other = ready();

    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_send(other), 0);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(std::set(kernel.send_doorbells.begin(), kernel.send_doorbells.end()),
              (std::set{qp->handle, other->handle}));
    EXPECT_EQ(rung(), 2U);
    EXPECT_EQ(ops->destroy_qp(other), 0);
}

TEST_F(LateTest, ArmingRings)
{
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(ops->req_notify_cq(send_cq, 0), 0);
    EXPECT_EQ(rung(), 1U);
}

TEST_F(LateTest, StartPollInVainRings)
{
    ibv_cq_init_attr_ex attr = {};
    ibv_poll_cq_attr poll_attr = {};

    attr.cqe = 4;
    ibv_cq_ex *cq = ops->create_cq_ex(context, &attr);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(ibv_start_poll(cq, &poll_attr), ENOENT);
    EXPECT_EQ(rung(), 1U);
    EXPECT_EQ(ops->destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

TEST_F(LateTest, ModifyAndDestroyRingBefore)
{
    EXPECT_EQ(post_send(qp), 0);
    kernel.during_modify_qp = [this] { EXPECT_EQ(rung(), 1U); };
    EXPECT_EQ(set_state(qp, IBV_QPS_SQD), 0);
    kernel.during_modify_qp = nullptr;

    ibv_qp *other = ready();

    EXPECT_EQ(post_send(other), 0);
    EXPECT_EQ(ops->destroy_qp(other), 0);
    EXPECT_EQ(rung(), 2U);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(rung(), 2U);
}

TEST_F(LateTest, OnTimeIfTheRingDoesNotSayLater)
{
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(rung(), 1U);
    fake(qp).sq.ctrl().flags = 0;
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(poll(), 0);
    EXPECT_EQ(rung(), 1U);
}

/* A module that says nothing of late doorbells, whatever is in its rings. */
class OnTimeTest : public LateTest {
    uint64_t features() const override { return 0; }
};

TEST_F(OnTimeTest, WithoutTheFeature)
{
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(rung(), 1U);
}

} // namespace
} // namespace rox::test
