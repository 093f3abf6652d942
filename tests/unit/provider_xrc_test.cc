/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The provider's XRC domains, SRQs and QPs over the fake kernel. */
#include "provider_fixture.h"

#include <array>
#include <cerrno>

namespace rox::test {
namespace {

class ProviderXrcTest : public QpFixture {
protected:
    void SetUp() override
    {
        QpFixture::SetUp();
        ibv_xrcd_init_attr attr = {};

        attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        attr.fd = -1;
        xrcd = ops->open_xrcd(context, &attr);
        ASSERT_NE(xrcd, nullptr);
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->close_xrcd(xrcd), 0);
        EXPECT_TRUE(kernel.srqs.empty());
        QpFixture::TearDown();
    }

    ibv_srq_init_attr_ex srq_attr()
    {
        ibv_srq_init_attr_ex attr = {};

        attr.srq_context = this;
        attr.attr = {.max_wr = 5, .max_sge = 2, .srq_limit = 0};
        attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                         IBV_SRQ_INIT_ATTR_CQ;
        attr.srq_type = IBV_SRQT_XRC;
        attr.pd = pd;
        attr.xrcd = xrcd;
        attr.cq = recv_cq;
        return attr;
    }

    ibv_qp_init_attr_ex qp_attr(ibv_qp_type type)
    {
        ibv_qp_init_attr_ex attr = {};

        attr.qp_type = type;
        attr.cap = init_attr().cap;
        attr.send_cq = send_cq;
        attr.recv_cq = recv_cq;
        attr.pd = pd;
        attr.xrcd = xrcd;
        attr.comp_mask = type == IBV_QPT_XRC_RECV ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
        return attr;
    }

    ibv_xrcd *xrcd = nullptr;
};

TEST_F(ProviderXrcTest, DomainThatTheKernelRefuses)
{
    ibv_xrcd_init_attr attr = {};

    errno = 0;
    EXPECT_EQ(ops->open_xrcd(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    kernel.fail_next("ibv_cmd_open_xrcd", EAGAIN);
    EXPECT_EQ(ops->open_xrcd(context, &attr), nullptr);
    EXPECT_EQ(errno, EAGAIN);
    kernel.fail_next("ibv_cmd_close_xrcd", EBUSY);
    EXPECT_EQ(ops->close_xrcd(xrcd), EBUSY);
}

TEST_F(ProviderXrcTest, SrqHasANumberAndARing)
{
    ibv_srq_init_attr_ex attr = srq_attr();
    ibv_srq *srq = ops->create_srq_ex(context, &attr);
    uint32_t number = 0;

    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(srq->context, context);
    EXPECT_EQ(srq->srq_context, this);
    EXPECT_EQ(srq->pd, pd);
    EXPECT_EQ(attr.attr.max_wr, 8U);
    EXPECT_EQ(ops->get_srq_num(srq, &number), 0);
    EXPECT_EQ(number, 78U);

    ibv_sge sge = {.addr = 0x1000, .length = 10, .lkey = 3};
    ibv_recv_wr wr = {.wr_id = 9, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr *bad = nullptr;

    EXPECT_EQ(ops->post_srq_recv(srq, &wr, &bad), 0);
    EXPECT_EQ(kernel.srqs.at(srq->handle).take<rox_recv_wqe>().wr_id, 9U);
    EXPECT_EQ(ops->dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderXrcTest, SrqThatLacksSomethingIsRefused)
{
    for (const uint32_t missing :
         {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD, IBV_SRQ_INIT_ATTR_CQ}) {
        ibv_srq_init_attr_ex attr = srq_attr();

        attr.comp_mask &= ~missing;
        errno = 0;
        EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr) << missing;
        EXPECT_EQ(errno, EINVAL) << missing;
    }
    ibv_srq_init_attr_ex attr = srq_attr();

    kernel.fail_next("ibv_cmd_create_srq_ex", ENOSPC);
    EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    kernel.spoil_offer = true;
    EXPECT_EQ(ops->create_srq_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EPROTO);
}

TEST_F(ProviderXrcTest, BasicSrqHasNoNumber)
{
    ibv_srq_init_attr attr = {.srq_context = nullptr,
                              .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
    ibv_srq *srq = ops->create_srq(pd, &attr);
    uint32_t number = 5;

    ASSERT_NE(srq, nullptr);
    EXPECT_EQ(ops->get_srq_num(srq, &number), EINVAL);
    EXPECT_EQ(number, 5U);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

TEST_F(ProviderXrcTest, TargetUsesNoObjectsThatMayGoBeforeIt)
{
    ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_XRC_RECV);
    ibv_qp *qp = ops->create_qp_ex(context, &attr);

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->send_cq, nullptr);
    EXPECT_EQ(qp->recv_cq, nullptr);
    EXPECT_EQ(qp->pd, nullptr);
    EXPECT_EQ(attr.send_cq, send_cq) << "the program's structure is its own";
    EXPECT_EQ(attr.cap.max_send_wr, 0U);
    EXPECT_EQ(Context::of(context)->qps->find(qp->qp_num), nullptr);
    EXPECT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    EXPECT_EQ(post_send(qp), EINVAL);
    EXPECT_EQ(post_recv(qp), EINVAL);
    EXPECT_EQ(set_state(qp, IBV_QPS_RESET), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);

    /* A PD that the program names is there to be read, and no more. */
    ibv_pd *other = ops->alloc_pd(context);

    attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr.pd = other;
    qp = ops->create_qp_ex(context, &attr);
    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->pd, other);
    EXPECT_EQ(ops->dealloc_pd(other), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(ProviderXrcTest, TargetNeedsADomain)
{
    ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_XRC_RECV);

    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    errno = 0;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    attr.xrcd = nullptr;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(ProviderXrcTest, InitiatorOnlySends)
{
    ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_XRC_SEND);

    attr.cap.max_recv_wr = 0;
    ibv_qp *qp = ops->create_qp_ex(context, &attr);

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->send_cq, send_cq);
    EXPECT_EQ(qp->recv_cq, nullptr);
    EXPECT_EQ(Context::of(context)->qps->find(qp->qp_num), Qp::of(qp));
    EXPECT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_recv(qp), EINVAL);
    EXPECT_EQ(ops->dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops->destroy_qp(qp), 0);

    attr.send_cq = nullptr;
    EXPECT_EQ(ops->create_qp_ex(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

TEST_F(ProviderXrcTest, OpenedTargetIsMovedAndDestroyed)
{
    ibv_qp_open_attr attr = {};

    attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    attr.qp_num = 0x1234;
    attr.qp_type = IBV_QPT_XRC_RECV;
    attr.xrcd = xrcd;
    kernel.fail_next("ibv_cmd_open_qp", EINVAL);
    EXPECT_EQ(ops->open_qp(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    ibv_qp *qp = ops->open_qp(context, &attr);

    ASSERT_NE(qp, nullptr);
    EXPECT_EQ(qp->qp_num, 0x1234U);
    EXPECT_EQ(set_state(qp, IBV_QPS_ERR), 0);
    EXPECT_EQ(set_state(qp, IBV_QPS_RESET), 0);
    EXPECT_EQ(post_send(qp), EINVAL);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

/* The QP of a receive may be another process's, and its number nobody's here. */
TEST_F(ProviderXrcTest, CompletionsOfForeignTargetsArePolled)
{
    rox_cqe cqe = {};
    ibv_wc wc = {};

    cqe.wr_id = 4;
    cqe.opcode = IBV_WC_RECV;
    cqe.qp_num = 0xabcdef;
    kernel.cqs.at(recv_cq->handle).add(cqe);
    ASSERT_EQ(ops->poll_cq(recv_cq, 1, &wc), 1);
    EXPECT_EQ(wc.wr_id, 4U);
    EXPECT_EQ(wc.qp_num, 0xabcdefU);
}

/* A CQ for the receives of an XRC SRQ and of a QP: the QP's places come back all the same. */
TEST_F(ProviderXrcTest, SrqsCqServesQpsToo)
{
    ibv_srq_init_attr_ex attr = srq_attr();
    ibv_srq *srq = ops->create_srq_ex(context, &attr);
    ibv_qp *qp = create();
    rox_cqe cqe = {};
    std::array<ibv_wc, 3> wcs;

    ASSERT_NE(srq, nullptr);
    ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    for (uint64_t i = 0; i < 4; i++) {
        ASSERT_EQ(post_recv(qp, i), 0);
    }
    ASSERT_EQ(post_recv(qp), ENOMEM);
    cqe.opcode = IBV_WC_RECV;
    for (const uint32_t number : {0xabcdefU, qp->qp_num, 0xabcdefU}) {
        cqe.qp_num = number;
        kernel.cqs.at(recv_cq->handle).add(cqe);
    }
    fake(qp).rq.take<rox_recv_wqe>();
    EXPECT_EQ(ops->poll_cq(recv_cq, wcs.size(), wcs.data()), 3);
    EXPECT_EQ(post_recv(qp), 0);
    EXPECT_EQ(post_recv(qp), ENOMEM);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
    EXPECT_EQ(ops->destroy_srq(srq), 0);
}

} // namespace
} // namespace rox::test
