/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Fixtures of the tests that call the provider's operations over the fake kernel.
 */
#ifndef ROX_TESTS_PROVIDER_FIXTURE_H
#define ROX_TESTS_PROVIDER_FIXTURE_H

#include "fake_kernel.h"
#include "objects.hpp"

#include <gtest/gtest.h>

namespace rox::test {

/// Attributes of a QP with queues of four entries.
inline ibv_qp_init_attr small_qp_attr(ibv_cq *send_cq, ibv_cq *recv_cq,
                                      ibv_qp_type type = IBV_QPT_RC)
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

/// Posts @p wr alone to @p queue. Returns the error of @p verb, which must set bad_wr accordingly.
template <typename Queue, typename Wr>
int post_one(int (*verb)(Queue *, Wr *, Wr **), Queue *queue, Wr wr)
{
    Wr *bad = nullptr;
    const int error = verb(queue, &wr, &bad);

    EXPECT_EQ(bad, error != 0 ? &wr : nullptr);
    return error;
}

/// An open context. All queues must have been destroyed at the end.
class ProviderFixture : public testing::Test {
protected:
    void SetUp() override
    {
        context = kernel.open();
        ASSERT_NE(context, nullptr);
        ops = &kernel.ops();
    }

    void TearDown() override
    {
        EXPECT_TRUE(kernel.cqs.empty());
        EXPECT_TRUE(kernel.srqs.empty());
        EXPECT_TRUE(kernel.qps.empty());
    }

    int set_state(ibv_qp *qp, ibv_qp_state state)
    {
        ibv_qp_attr attr = {};

        attr.qp_state = state;
        return ops->modify_qp(qp, &attr, IBV_QP_STATE);
    }

    /// Posts a SEND without payload.
    int post_send(ibv_qp *qp, uint64_t wr_id = 1)
    {
        ibv_send_wr wr = {};

        wr.wr_id = wr_id;
        wr.opcode = IBV_WR_SEND;
        return post_one(ops->post_send, qp, wr);
    }

    /// Posts a receive without buffers.
    int post_recv(ibv_qp *qp, uint64_t wr_id = 1)
    {
        ibv_recv_wr wr = {};

        wr.wr_id = wr_id;
        return post_one(ops->post_recv, qp, wr);
    }

    FakeQp &fake(ibv_qp *qp) { return kernel.qps.at(qp->handle); }

    FakeKernel kernel;
    ibv_context *context = nullptr;
    const rdmacore::verbs_context_ops *ops = nullptr;
};

/// An open context with a PD and two CQs.
class QpFixture : public ProviderFixture {
protected:
    void SetUp() override
    {
        ProviderFixture::SetUp();
        pd = ops->alloc_pd(context);
        send_cq = ops->create_cq(context, 16, nullptr, 0);
        recv_cq = ops->create_cq(context, 16, nullptr, 0);
    }

    void TearDown() override
    {
        EXPECT_EQ(ops->destroy_cq(send_cq), 0);
        EXPECT_EQ(ops->destroy_cq(recv_cq), 0);
        EXPECT_EQ(ops->dealloc_pd(pd), 0);
        ProviderFixture::TearDown();
    }

    ibv_qp_init_attr init_attr(ibv_qp_type type = IBV_QPT_RC)
    {
        return small_qp_attr(send_cq, recv_cq, type);
    }

    ibv_qp *create(ibv_qp_type type = IBV_QPT_RC)
    {
        ibv_qp_init_attr attr = init_attr(type);

        return ops->create_qp(pd, &attr);
    }

    ibv_pd *pd = nullptr;
    ibv_cq *send_cq = nullptr;
    ibv_cq *recv_cq = nullptr;
};

/// A parent domain of a PD, with or without a thread domain, both freed by the destructor.
class ParentDomain {
public:
    enum class Td { none, own };

    ParentDomain(const rdmacore::verbs_context_ops &ops, ibv_pd *pd, Td td) : ops_(ops)
    {
        ibv_td_init_attr td_attr = {};
        ibv_parent_domain_init_attr attr = {};

        td_ = td == Td::own ? ops_.alloc_td(pd->context, &td_attr) : nullptr;
        attr.pd = pd;
        attr.td = td_;
        parent_ = ops_.alloc_parent_domain(pd->context, &attr);
        EXPECT_NE(parent_, nullptr);
    }
    ~ParentDomain()
    {
        EXPECT_EQ(ops_.dealloc_pd(parent_), 0);
        if (td_ != nullptr) {
            EXPECT_EQ(ops_.dealloc_td(td_), 0);
        }
    }
    ParentDomain(const ParentDomain &) = delete;
    ParentDomain &operator=(const ParentDomain &) = delete;

    ibv_pd *pd() const { return parent_; }

private:
    const rdmacore::verbs_context_ops &ops_;
    ibv_td *td_ = nullptr;
    ibv_pd *parent_ = nullptr;
};

} // namespace rox::test

#endif // ROX_TESTS_PROVIDER_FIXTURE_H
