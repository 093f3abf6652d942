/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* ibv_wr_*(): each builds the same WQE as ibv_post_send() does. */
#include "provider_fixture.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <utility>

namespace rox::test {
namespace {

constexpr uint64_t rc_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                            IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                            IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                            IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |
                            IBV_QP_EX_WITH_ATOMIC_WRITE;
constexpr uint64_t xrc_ops = rc_ops & ~uint64_t{IBV_QP_EX_WITH_ATOMIC_WRITE};
constexpr uint64_t ud_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

constexpr uint64_t ops_of(ibv_qp_type type)
{
    return type == IBV_QPT_UD ? ud_ops : type == IBV_QPT_XRC_SEND ? xrc_ops : rc_ops;
}

/* The largest WQE of the fixture's QPs. */
struct Wqe {
    rox_send_wqe header;
    std::array<rox_sge, 2> sges;
};

class WrTest : public QpFixture {
protected:
    ibv_qp *create_ex(ibv_qp_type type, uint64_t send_ops)
    {
        const ibv_qp_init_attr base = init_attr(type);
        ibv_qp_init_attr_ex attr = {};

        attr.send_cq = base.send_cq;
        attr.recv_cq = base.recv_cq;
        attr.qp_type = base.qp_type;
        attr.cap = base.cap;
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = pd;
        attr.send_ops_flags = send_ops;
        ibv_qp *qp = ops->create_qp_ex(context, &attr);

        if (qp != nullptr) {
            EXPECT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        }
        return qp;
    }

    static ibv_qp_ex *ex(ibv_qp *qp) { return reinterpret_cast<ibv_qp_ex *>(qp); }

    Wqe take(ibv_qp *qp)
    {
        Wqe wqe = {};

        EXPECT_EQ(fake(qp).sq.waiting(), 1U);
        std::memcpy(&wqe, fake(qp).sq.at(fake(qp).sq.ctrl().consumer++), sizeof(wqe));
        return wqe;
    }

    /* Builds with ibv_wr_*(), posts @p wr, and compares. */
    void expect_same(ibv_qp_type type, ibv_send_wr wr,
                     const std::function<void(ibv_qp_ex *)> &build)
    {
        ibv_qp *qp = create_ex(type, ops_of(type));
        ibv_send_wr *bad = nullptr;

        ASSERT_NE(qp, nullptr);
        wr.wr_id = 0x1234;
        wr.send_flags |= IBV_SEND_SIGNALED;
        ASSERT_EQ(ops->post_send(qp, &wr, &bad), 0);
        const Wqe expected = take(qp);

        fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
        ibv_wr_start(ex(qp));
        ex(qp)->wr_id = 0x1234;
        ex(qp)->wr_flags = IBV_SEND_SIGNALED;
        build(ex(qp));
        ASSERT_EQ(ibv_wr_complete(ex(qp)), 0);
        EXPECT_EQ(kernel.send_doorbells.size(), 1U);
        const Wqe built = take(qp);

        EXPECT_EQ(std::memcmp(&built, &expected, sizeof(built)), 0);
        EXPECT_EQ(ops->destroy_qp(qp), 0);
    }

    static ibv_send_wr send_wr(ibv_wr_opcode opcode)
    {
        ibv_send_wr wr = {};

        wr.opcode = opcode;
        return wr;
    }

    std::array<ibv_sge, 2> sges = {{{0x1000, 10, 1}, {0x2000, 20, 2}}};
};

TEST_F(WrTest, Send)
{
    expect_same(IBV_QPT_RC, send_wr(IBV_WR_SEND), [](ibv_qp_ex *qp) { ibv_wr_send(qp); });
}

TEST_F(WrTest, SendWithOneSge)
{
    ibv_send_wr wr = send_wr(IBV_WR_SEND);

    wr.sg_list = sges.data();
    wr.num_sge = 1;
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) {
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, 1, 0x1000, 10);
    });
}

TEST_F(WrTest, SendImmWithSgeList)
{
    ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_IMM);

    wr.imm_data = 77;
    wr.sg_list = sges.data();
    wr.num_sge = 2;
    expect_same(IBV_QPT_RC, wr, [this](ibv_qp_ex *qp) {
        ibv_wr_send_imm(qp, 77);
        ibv_wr_set_sge_list(qp, sges.size(), sges.data());
    });
}

TEST_F(WrTest, Write)
{
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE);

    wr.wr.rdma = {.remote_addr = 0x9000, .rkey = 5};
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_rdma_write(qp, 5, 0x9000); });
}

TEST_F(WrTest, WriteImm)
{
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE_WITH_IMM);

    wr.wr.rdma = {.remote_addr = 0x9000, .rkey = 5};
    wr.imm_data = 3;
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_rdma_write_imm(qp, 5, 0x9000, 3); });
}

TEST_F(WrTest, Read)
{
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_READ);

    wr.wr.rdma = {.remote_addr = 0x9000, .rkey = 5};
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_rdma_read(qp, 5, 0x9000); });
}

TEST_F(WrTest, CompareAndSwap)
{
    ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_CMP_AND_SWP);

    wr.wr.atomic = {.remote_addr = 0x9000, .compare_add = 1, .swap = 2, .rkey = 5};
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_atomic_cmp_swp(qp, 5, 0x9000, 1, 2); });
}

TEST_F(WrTest, FetchAndAdd)
{
    ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_FETCH_AND_ADD);

    wr.wr.atomic = {.remote_addr = 0x9000, .compare_add = 1, .swap = 0, .rkey = 5};
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_atomic_fetch_add(qp, 5, 0x9000, 1); });
}

TEST_F(WrTest, AtomicWrite)
{
    uint64_t value = 0x1122334455667788;
    ibv_sge sge = {reinterpret_cast<uintptr_t>(&value), sizeof(value), 0};
    ibv_send_wr wr = send_wr(IBV_WR_ATOMIC_WRITE);

    wr.send_flags = IBV_SEND_INLINE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr.rdma = {.remote_addr = 0x9000, .rkey = 5};
    expect_same(IBV_QPT_RC, wr, [&](ibv_qp_ex *qp) { ibv_wr_atomic_write(qp, 5, 0x9000, &value); });
}

TEST_F(WrTest, SendWithInvalidate)
{
    ibv_send_wr wr = send_wr(IBV_WR_SEND_WITH_INV);

    wr.invalidate_rkey = 5;
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_send_inv(qp, 5); });
}

TEST_F(WrTest, LocalInvalidate)
{
    ibv_send_wr wr = send_wr(IBV_WR_LOCAL_INV);

    wr.invalidate_rkey = 5;
    expect_same(IBV_QPT_RC, wr, [](ibv_qp_ex *qp) { ibv_wr_local_inv(qp, 5); });
}

TEST_F(WrTest, BindWindow)
{
    ibv_mr mr = {};
    ibv_mw mw = {.context = context, .pd = pd, .rkey = 0x700, .handle = 1, .type = IBV_MW_TYPE_2};
    ibv_send_wr wr = send_wr(IBV_WR_BIND_MW);

    mr.pd = pd;
    mr.lkey = 9;
    wr.bind_mw.mw = &mw;
    wr.bind_mw.rkey = 0x755;
    wr.bind_mw.bind_info = {
        .mr = &mr, .addr = 0x1000, .length = 5, .mw_access_flags = IBV_ACCESS_REMOTE_READ};
    expect_same(IBV_QPT_RC, wr, [&wr](ibv_qp_ex *qp) {
        ibv_wr_bind_mw(qp, wr.bind_mw.mw, 0x755, &wr.bind_mw.bind_info);
    });
    ibv_qp *qp = create_ex(IBV_QPT_RC, rc_ops);

    wr.bind_mw.bind_info.length = 0;
    ibv_wr_start(ex(qp));
    ibv_wr_bind_mw(ex(qp), &mw, 0x755, &wr.bind_mw.bind_info);
    EXPECT_EQ(ibv_wr_complete(ex(qp)), EINVAL);
    ibv_wr_start(ex(qp));
    ibv_wr_local_inv(ex(qp), 1);
    ibv_wr_set_sge(ex(qp), 1, 0x1000, 1);
    EXPECT_EQ(ibv_wr_complete(ex(qp)), EINVAL);
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, BindOfType1ChoosesTheNextKeyWhenItIsPosted)
{
    ibv_qp *qp = create_ex(IBV_QPT_RC, rc_ops);
    ibv_mw *mw = ops->alloc_mw(pd, IBV_MW_TYPE_1);
    ibv_mr mr = {};
    ibv_mw_bind bind = {.wr_id = 7,
                        .send_flags = IBV_SEND_SIGNALED,
                        .bind_info = {&mr, 0x1000, 5, IBV_ACCESS_REMOTE_WRITE}};

    mr.lkey = 9;
    ASSERT_EQ(mw->rkey, 0x5500ffU);
    ASSERT_EQ(ops->bind_mw(qp, mw, &bind), 0);
    const rox_send_wqe wqe = take(qp).header;

    EXPECT_EQ(wqe.wr_id, 7U);
    EXPECT_EQ(wqe.opcode, static_cast<uint32_t>(IBV_WR_BIND_MW));
    EXPECT_EQ(wqe.send_flags, static_cast<uint32_t>(IBV_SEND_SIGNALED));
    EXPECT_EQ(wqe.wr.bind.addr, 0x1000U);
    EXPECT_EQ(wqe.wr.bind.length, 5U);
    EXPECT_EQ(wqe.wr.bind.mr_lkey, 9U);
    EXPECT_EQ(wqe.wr.bind.mw_rkey, 0x5500ffU);
    EXPECT_EQ(wqe.wr.bind.new_rkey, 0x550000U);
    EXPECT_EQ(wqe.wr.bind.access, static_cast<uint32_t>(IBV_ACCESS_REMOTE_WRITE));
    EXPECT_EQ(mw->rkey, 0x550000U);

    bind.bind_info.mw_access_flags = 1U << 15;
    EXPECT_EQ(ops->bind_mw(qp, mw, &bind), EINVAL);
    ASSERT_EQ(set_state(qp, IBV_QPS_RESET), 0);
    bind.bind_info = {};
    EXPECT_EQ(ops->bind_mw(qp, mw, &bind), EINVAL);
    EXPECT_EQ(mw->rkey, 0x550000U) << "only what is posted changes it";
    EXPECT_EQ(ops->dealloc_mw(mw), 0);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, InlineData)
{
    std::array<char, 7> data = {'a', 'b', 'c', 'd', 'e', 'f', 'g'};
    ibv_sge sge = {reinterpret_cast<uintptr_t>(data.data()), 7, 0};
    ibv_send_wr wr = send_wr(IBV_WR_SEND);

    wr.send_flags = IBV_SEND_INLINE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    expect_same(IBV_QPT_RC, wr, [&data](ibv_qp_ex *qp) {
        ibv_wr_send(qp);
        ibv_wr_set_inline_data(qp, data.data(), data.size());
    });
}

TEST_F(WrTest, InlineDataList)
{
    std::array<char, 7> data = {'a', 'b', 'c', 'd', 'e', 'f', 'g'};
    ibv_sge sge = {reinterpret_cast<uintptr_t>(data.data()), 7, 0};
    ibv_send_wr wr = send_wr(IBV_WR_SEND);

    wr.send_flags = IBV_SEND_INLINE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    expect_same(IBV_QPT_RC, wr, [&data](ibv_qp_ex *qp) {
        const std::array<ibv_data_buf, 2> buffers = {{{data.data(), 3}, {&data[3], 4}}};

        ibv_wr_send(qp);
        ibv_wr_set_inline_data_list(qp, buffers.size(), buffers.data());
    });
}

TEST_F(WrTest, UdAddress)
{
    ibv_ah_attr ah_attr = {};
    ibv_ah *ah = ops->create_ah(pd, &ah_attr);
    ibv_send_wr wr = send_wr(IBV_WR_SEND);

    wr.wr.ud = {.ah = ah, .remote_qpn = 9, .remote_qkey = 8};
    expect_same(IBV_QPT_UD, wr, [ah](ibv_qp_ex *qp) {
        ibv_wr_send(qp);
        ibv_wr_set_ud_addr(qp, ah, 9, 8);
    });
    EXPECT_EQ(ops->destroy_ah(ah), 0);
}

TEST_F(WrTest, XrcSrqNumber)
{
    ibv_send_wr wr = send_wr(IBV_WR_RDMA_WRITE);

    wr.wr.rdma = {.remote_addr = 0x5000, .rkey = 7};
    wr.qp_type.xrc.remote_srqn = 0x4321;
    expect_same(IBV_QPT_XRC_SEND, wr, [](ibv_qp_ex *qp) {
        ibv_wr_rdma_write(qp, 7, 0x5000);
        ibv_wr_set_xrc_srqn(qp, 0x4321);
    });
}

TEST_F(WrTest, XrcSrqNumberIsForXrc)
{
    ibv_qp *qp = create_ex(IBV_QPT_RC, rc_ops);

    ibv_wr_start(ex(qp));
    ibv_wr_send(ex(qp));
    ibv_wr_set_xrc_srqn(ex(qp), 1);
    EXPECT_EQ(ibv_wr_complete(ex(qp)), EINVAL);
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, TooLongInlineFailsTheBatchAndPostsNothing)
{
    std::array<char, 4096> data = {};
    ibv_qp *qp = create_ex(IBV_QPT_RC, rc_ops);

    ibv_wr_start(ex(qp));
    ibv_wr_send(ex(qp));
    ibv_wr_send(ex(qp));
    ibv_wr_set_inline_data(ex(qp), data.data(), data.size());
    EXPECT_EQ(ibv_wr_complete(ex(qp)), EINVAL);
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_TRUE(kernel.send_doorbells.empty());
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, AbortPostsNothingAndRingsNothing)
{
    ibv_qp *qp = create_ex(IBV_QPT_RC, rc_ops);

    fake(qp).sq.ctrl().flags = ROX_RING_NEED_WAKEUP;
    ibv_wr_start(ex(qp));
    ibv_wr_send(ex(qp));
    ibv_wr_abort(ex(qp));
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_TRUE(kernel.send_doorbells.empty());
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, OnlyTheFunctionsAskedForAreThere)
{
    ibv_qp *qp = create_ex(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);

    ASSERT_NE(qp, nullptr);
    EXPECT_NE(ex(qp)->wr_send, nullptr);
    EXPECT_EQ(ex(qp)->wr_rdma_read, nullptr);
    EXPECT_NE(qp_mask(Qp::of(qp)->vqp) & rdmacore::QP_MASK_EX, 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, QpWithoutSendOpsIsNoExtendedQp)
{
    ibv_qp *qp = create();

    EXPECT_EQ(qp_mask(Qp::of(qp)->vqp) & rdmacore::QP_MASK_EX, 0U);
    EXPECT_EQ(ops->destroy_qp(qp), 0);
}

TEST_F(WrTest, OperationsThatTheTypeDoesNotHaveAreRefused)
{
    EXPECT_EQ(create_ex(IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_WRITE), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(create_ex(IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ), nullptr);
    EXPECT_EQ(create_ex(IBV_QPT_XRC_SEND, IBV_QP_EX_WITH_ATOMIC_WRITE), nullptr);
    EXPECT_EQ(create_ex(IBV_QPT_RC, IBV_QP_EX_WITH_TSO), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

} // namespace
} // namespace rox::test
