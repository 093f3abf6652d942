/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Queue pairs over the fake kernel: creation, states, doorbells, what a reset drops. */
#include "provider_fixture.h"

#include <array>
#include <cerrno>
#include <vector>

namespace rox::test {
namespace {

class ProviderQpTest : public QpFixture {};

TEST_F(ProviderQpTest, EachStateTakesWhatTheVerbsSay)
{
    struct Rule {
        ibv_qp_state state;
        int send;
        int recv;
    };
    const std::array<Rule, 7> rules = {{{IBV_QPS_INIT, EINVAL, 0},
                                        {IBV_QPS_RTR, EINVAL, 0},
                                        {IBV_QPS_RTS, 0, 0},
                                        {IBV_QPS_SQD, 0, 0},
                                        {IBV_QPS_SQE, 0, 0},
                                        {IBV_QPS_ERR, 0, 0},
                                        {IBV_QPS_RESET, EINVAL, EINVAL}}};

    ibv_qp *qp = create();

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(post_send(qp), EINVAL);
    EXPECT_EQ(post_recv(qp), EINVAL);
    for (const Rule &rule : rules) {
        ASSERT_EQ(set_state(qp, rule.state), 0);
        EXPECT_EQ(post_send(qp), rule.send) << rule.state;
        EXPECT_EQ(post_recv(qp), rule.recv) << rule.state;
        /* All is complete and polled. */
        fake(qp).sq.ctrl().consumer = fake(qp).sq.ctrl().producer;
        Qp::of(qp)->sq.complete_to(fake(qp).sq.ctrl().producer);
        for (; fake(qp).rq.waiting() != 0; fake(qp).rq.ctrl().consumer++) {
            Qp::of(qp)->rq.complete(1);
        }
    }
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, ModifyWithoutAStateKeepsTheState)
{
    ibv_qp *qp = create();
    ibv_qp_attr attr = {};

    ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    attr.qp_state = IBV_QPS_RESET; // not in the mask
    EXPECT_EQ(ops->modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, RefusedModifyKeepsTheState)
{
    ibv_qp *qp = create();

    kernel.fail_next("ibv_cmd_modify_qp", EINVAL);
    EXPECT_EQ(set_state(qp, IBV_QPS_RTS), EINVAL);
    EXPECT_EQ(post_send(qp), EINVAL);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, AwakeEngineGetsNoDoorbell)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_RTS);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_TRUE(kernel.send_doorbells.empty());
    EXPECT_TRUE(kernel.recv_doorbells.empty());
    EXPECT_EQ(fake(qp).sq.waiting(), 1U);
    EXPECT_EQ(fake(qp).rq.waiting(), 1U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, SleepingEngineGetsOneDoorbellForEachPostOfAList)
{
    ibv_qp *qp = create();
    std::array<ibv_send_wr, 3> wrs = {};
    ibv_send_wr *bad = nullptr;

    set_state(qp, IBV_QPS_RTS);
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    for (size_t i = 0; i < wrs.size(); i++) {
        wrs[i].opcode = IBV_WR_SEND;
        wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
    }
    EXPECT_EQ(ops->post_send(qp, wrs.data(), &bad), 0);
    EXPECT_EQ(kernel.send_doorbells, std::vector<uint32_t>{qp->handle});
    EXPECT_EQ(fake(qp).sq.waiting(), 3U);
    EXPECT_TRUE(kernel.recv_doorbells.empty());
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, ReceiveDoorbellOnlyIfTheReceiveRingAsks)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_ERR);
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_TRUE(kernel.recv_doorbells.empty());
    fake(qp).rq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(kernel.recv_doorbells, std::vector<uint32_t>{qp->handle});
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, DoorbellGoesByIoctlIfWriteIsForbidden)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_RTS);
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    fake(qp).rq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    kernel.doorbell_error = EACCES;
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(kernel.ioctl_doorbells, (std::vector<uint32_t>{qp->handle, qp->handle}));
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, DoorbellIsRungAgainWhenTheKernelHasNoMemory)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_RTS);
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    fake(qp).rq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    kernel.doorbell_error = ENOMEM;
    kernel.doorbell_failures = 3;
    EXPECT_EQ(post_send(qp), 0) << "it is posted: nobody must post it again";
    EXPECT_EQ(kernel.send_doorbells, std::vector<uint32_t>{qp->handle});
    kernel.doorbell_error = ENOMEM;
    kernel.doorbell_failures = 1;
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(kernel.recv_doorbells, std::vector<uint32_t>{qp->handle});
    EXPECT_EQ(fake(qp).sq.waiting(), 1U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, PostToADeviceThatIsGoneFails)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_RTS);
    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    fake(qp).rq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    kernel.doorbell_error = EIO;
    EXPECT_EQ(post_send(qp), EIO);
    EXPECT_EQ(post_recv(qp), EIO);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, ResetForgetsWorkAndCompletions)
{
    ibv_qp *qp = create();
    ibv_wc wc;

    set_state(qp, IBV_QPS_RTS);
    post_send(qp);
    post_recv(qp);
    kernel.cqs.at(send_cq->handle).add(completion(1, qp->qp_num));
    kernel.cqs.at(send_cq->handle).add(completion(2, qp->qp_num + 1));
    kernel.cqs.at(recv_cq->handle).add(completion(3, qp->qp_num));
    ASSERT_EQ(set_state(qp, IBV_QPS_RESET), 0);
    ASSERT_EQ(ops->poll_cq(send_cq, 1, &wc), 1);
    EXPECT_EQ(wc.wr_id, 2U);
    EXPECT_EQ(ops->poll_cq(send_cq, 1, &wc), 0);
    EXPECT_EQ(ops->poll_cq(recv_cq, 1, &wc), 0);
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_EQ(fake(qp).rq.waiting(), 0U);

    /* and the rings work in the next life */
    set_state(qp, IBV_QPS_RTS);
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_EQ(post_send(qp, i), 0);
        EXPECT_EQ(post_recv(qp, i), 0);
    }
    EXPECT_EQ(post_send(qp), ENOMEM);
    EXPECT_EQ(post_recv(qp), ENOMEM);
    EXPECT_EQ(fake(qp).sq.take<rox_send_wqe>().wr_id, 0U);
    EXPECT_EQ(fake(qp).rq.take<rox_recv_wqe>().wr_id, 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, PlacesAreFreeWhenTheirCompletionsArePolled)
{
    ibv_qp *qp = create();
    rox_cqe sent = completion(2, qp->qp_num);
    rox_cqe received = completion(3, qp->qp_num);
    ibv_wc wc;

    set_state(qp, IBV_QPS_RTS);
    for (uint64_t i = 0; i < 4; i++) {
        EXPECT_EQ(post_send(qp, i), 0);
        EXPECT_EQ(post_recv(qp, i), 0);
        fake(qp).sq.take<rox_send_wqe>();
        fake(qp).rq.take<rox_recv_wqe>();
    }
    EXPECT_EQ(post_send(qp), ENOMEM);
    EXPECT_EQ(post_recv(qp), ENOMEM);
    sent.sq_consumer = 3; // the two before it were not signalled
    kernel.cqs.at(send_cq->handle).add(sent);
    received.opcode = IBV_WC_RECV;
    kernel.cqs.at(recv_cq->handle).add(received);
    EXPECT_EQ(post_send(qp), ENOMEM);
    ASSERT_EQ(ops->poll_cq(send_cq, 1, &wc), 1);
    EXPECT_EQ(wc.src_qp, 0U);
    ASSERT_EQ(ops->poll_cq(recv_cq, 1, &wc), 1);
    for (uint64_t i = 0; i < 3; i++) {
        EXPECT_EQ(post_send(qp, i), 0);
    }
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(post_send(qp), ENOMEM);
    EXPECT_EQ(post_recv(qp), ENOMEM);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, ContextKnowsItsQpsByNumber)
{
    ibv_qp *qp = create();

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(Context::of(context)->qps->find(qp->qp_num), Qp::of(qp));
    const uint32_t qpn = qp->qp_num;

    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(Context::of(context)->qps->find(qpn), nullptr);
}

TEST_F(ProviderQpTest, OtherTransitionsKeepTheCompletions)
{
    ibv_qp *qp = create();
    ibv_wc wc;

    set_state(qp, IBV_QPS_RTS);
    kernel.cqs.at(send_cq->handle).add(completion(1, qp->qp_num));
    set_state(qp, IBV_QPS_ERR);
    EXPECT_EQ(ops->poll_cq(send_cq, 1, &wc), 1);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, DestroyTakesItsCompletionsWithIt)
{
    ibv_qp *qp = create();
    const uint32_t qp_num = qp->qp_num;
    ibv_wc wc;

    kernel.cqs.at(send_cq->handle).add(completion(1, qp_num));
    kernel.cqs.at(recv_cq->handle).add(completion(2, qp_num));
    kernel.cqs.at(recv_cq->handle).add(completion(3, qp_num + 1));
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->poll_cq(send_cq, 1, &wc), 0);
    ASSERT_EQ(ops->poll_cq(recv_cq, 1, &wc), 1);
    EXPECT_EQ(wc.wr_id, 3U);
}

TEST_F(ProviderQpTest, DestroyOfAnSrqQpTakesItsCompletionsWithIt)
{
    ibv_srq_init_attr srq_attr = {};
    ibv_qp_init_attr attr = init_attr();
    ibv_wc wc;

    srq_attr.attr = {.max_wr = 4, .max_sge = 1, .srq_limit = 0};
    ibv_srq *srq = ops->create_srq(pd, &srq_attr);

    attr.srq = srq;
    ibv_qp *qp = ops->create_qp(pd, &attr);

    ASSERT_NE(qp, nullptr);
    set_state(qp, IBV_QPS_RTS);
    EXPECT_EQ(post_recv(qp), EINVAL); // it has no receive queue of its own
    kernel.cqs.at(recv_cq->handle).add(completion(1, qp->qp_num));
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->poll_cq(recv_cq, 1, &wc), 0);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderQpTest, OneCqForBothSidesIsPurgedToo)
{
    ibv_qp_init_attr attr = init_attr();
    ibv_wc wc;

    attr.recv_cq = send_cq;
    ibv_qp *qp = ops->create_qp(pd, &attr);

    kernel.cqs.at(send_cq->handle).add(completion(1, qp->qp_num));
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->poll_cq(send_cq, 1, &wc), 0);
}

TEST_F(ProviderQpTest, DestroyThatTheKernelRefusesKeepsTheQp)
{
    ibv_qp *qp = create();

    set_state(qp, IBV_QPS_RTS);
    kernel.fail_next("ibv_cmd_destroy_qp", EBUSY);
    EXPECT_EQ(ops->destroy_qp(qp), EBUSY);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, CapabilitiesAreThoseThatTheKernelGives)
{
    ibv_qp_init_attr attr = init_attr();

    attr.cap.max_send_wr = 5;
    attr.cap.max_recv_wr = 3;
    ibv_qp *qp = ops->create_qp(pd, &attr);

    EXPECT_EQ(attr.cap.max_send_wr, 8U);
    EXPECT_EQ(attr.cap.max_recv_wr, 4U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, QpWithoutReceivesOrWithoutSends)
{
    ibv_qp_init_attr attr = init_attr();

    attr.cap.max_recv_wr = 0;
    ibv_qp *sender = ops->create_qp(pd, &attr);

    ASSERT_NE(sender, nullptr);
    set_state(sender, IBV_QPS_RTS);
    EXPECT_EQ(post_recv(sender), EINVAL);
    EXPECT_EQ(post_send(sender), 0);
    attr = init_attr();
    attr.cap.max_send_wr = 0;
    ibv_qp *receiver = ops->create_qp(pd, &attr);

    ASSERT_NE(receiver, nullptr);
    set_state(receiver, IBV_QPS_RTS);
    EXPECT_EQ(post_send(receiver), EINVAL);
    EXPECT_EQ(post_recv(receiver), 0);
    EXPECT_EQ(ops->destroy_qp(sender), 0);
    EXPECT_EQ(ops->destroy_qp(receiver), 0);
}

TEST_F(ProviderQpTest, FailuresLeaveErrnoAndNoQp)
{
    kernel.fail_next("ibv_cmd_create_qp_ex2", ENOSPC);
    errno = 0;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    kernel.refuse_mmap = true;
    EXPECT_EQ(create(), nullptr);
    kernel.refuse_mmap = false;
    kernel.spoil_offer = true;
    EXPECT_EQ(create(), nullptr);
    EXPECT_EQ(errno, EPROTO);
}

TEST_F(ProviderQpTest, QueryAsksTheKernel)
{
    ibv_qp *qp = create();
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init = {};

    fake(qp).state = IBV_QPS_SQE;
    EXPECT_EQ(ops->query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    EXPECT_EQ(attr.qp_state, IBV_QPS_SQE);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, ParentDomainInUseIsNotFreed)
{
    const ParentDomain domain(*ops, pd, ParentDomain::Td::none);
    ibv_qp_init_attr attr = init_attr();
    ibv_qp *qp = ops->create_qp(domain.pd(), &attr);

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(ops->dealloc_pd(domain.pd()), EBUSY);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderQpTest, QpOfAThreadDomainHasNoLocks)
{
    const ParentDomain domain(*ops, pd, ParentDomain::Td::own);
    ibv_qp_init_attr attr = init_attr();
    ibv_qp *single = ops->create_qp(domain.pd(), &attr);
    ibv_qp *shared = create();

    EXPECT_TRUE(Qp::of(single)->sq.lock().elided());
    EXPECT_TRUE(Qp::of(single)->rq.lock().elided());
    EXPECT_FALSE(Qp::of(shared)->sq.lock().elided());
    EXPECT_FALSE(Qp::of(shared)->rq.lock().elided());
    EXPECT_EQ(ops->destroy_qp(single), 0);
    EXPECT_EQ(ops->destroy_qp(shared), 0);
}

TEST_F(ProviderQpTest, UnknownAttributesAreRefused)
{
    ibv_qp_init_attr_ex attr = {};

    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.qp_type = IBV_QPT_RC;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr); // no PD
    EXPECT_EQ(errno, EINVAL);
    attr.pd = pd;
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.recv_cq = nullptr;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

} // namespace
} // namespace rox::test
