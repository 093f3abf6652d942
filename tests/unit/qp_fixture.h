/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A QP of the provider over the fake kernel.
 */
#ifndef ROX_TESTS_QP_FIXTURE_H
#define ROX_TESTS_QP_FIXTURE_H

#include "fake_kernel.h"
#include "objects.hpp"

#include <gtest/gtest.h>

namespace rox::test {

class QpFixture : public testing::Test {
protected:
    void SetUp() override
    {
        context = kernel.open();
        ASSERT_NE(context, nullptr);
        ops = &kernel.ops();
        pd = ops->alloc_pd(context);
        send_cq = ops->create_cq(context, 16, nullptr, 0);
        recv_cq = ops->create_cq(context, 16, nullptr, 0);
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->destroy_cq(send_cq), 0);
        EXPECT_EQ(ops->destroy_cq(recv_cq), 0);
        EXPECT_EQ(ops->dealloc_pd(pd), 0);
        EXPECT_TRUE(kernel.qps.empty());
        EXPECT_TRUE(kernel.dontfork.empty());
    }

    ibv_qp_init_attr init_attr(ibv_qp_type type = IBV_QPT_RC)
    {
        ibv_qp_init_attr attr = {};

        attr.send_cq = send_cq;
        attr.recv_cq = recv_cq;
        attr.qp_type = type;
        attr.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 2,
                    .max_recv_sge = 1,
                    .max_inline_data = 32};
        return attr;
    }

    ibv_qp *create(ibv_qp_type type = IBV_QPT_RC)
    {
        ibv_qp_init_attr attr = init_attr(type);

        return ops->create_qp(pd, &attr);
    }

    int set_state(ibv_qp *qp, ibv_qp_state state)
    {
        ibv_qp_attr attr = {};

        attr.qp_state = state;
        return ops->modify_qp(qp, &attr, IBV_QP_STATE);
    }

    int post_send(ibv_qp *qp, uint64_t wr_id = 1)
    {
        ibv_send_wr wr = {};
        ibv_send_wr *bad = nullptr;

        wr.wr_id = wr_id;
        wr.opcode = IBV_WR_SEND;
        const int error = ops->post_send(qp, &wr, &bad);

        EXPECT_EQ(bad, error != 0 ? &wr : nullptr);
        return error;
    }

    int post_recv(ibv_qp *qp, uint64_t wr_id = 1)
    {
        ibv_recv_wr wr = {};
        ibv_recv_wr *bad = nullptr;

        wr.wr_id = wr_id;
        const int error = ops->post_recv(qp, &wr, &bad);

        EXPECT_EQ(bad, error != 0 ? &wr : nullptr);
        return error;
    }

    FakeQp &fake(ibv_qp *qp) { return kernel.qps.at(qp->handle); }

    FakeKernel kernel;
    ibv_context *context = nullptr;
    const rdmacore::verbs_context_ops *ops = nullptr;
    ibv_pd *pd = nullptr;
    ibv_cq *send_cq = nullptr;
    ibv_cq *recv_cq = nullptr;
};

} // namespace rox::test

#endif // ROX_TESTS_QP_FIXTURE_H
