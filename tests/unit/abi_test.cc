/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Layouts that others rely on: <rdma/rox-abi.h> is shared by kernel and program,
 * and its numbers must be those of the verbs.
 */
#include "abi/pabi.hpp"
#include "message.hpp"

#include <gtest/gtest.h>
#include <rdma/rox-abi.h>

namespace rox::test {
namespace {

TEST(RoxAbi, RingControlHasALineForEachField)
{
    EXPECT_EQ(sizeof(rox_ring_ctrl), 192U);
    EXPECT_EQ(offsetof(rox_ring_ctrl, producer), 0U);
    EXPECT_EQ(offsetof(rox_ring_ctrl, consumer), 64U);
    EXPECT_EQ(offsetof(rox_ring_ctrl, flags), 128U);
}

TEST(RoxAbi, RingFlags)
{
    EXPECT_EQ(ROX_RING_NEED_WAKEUP, 1U);
    EXPECT_EQ(ROX_RING_ARM_SOLICITED, 2U);
    EXPECT_EQ(ROX_RING_ARM_NEXT, 4U);
    EXPECT_EQ(ROX_RING_ERROR, 8U);
}

TEST(RoxAbi, SendWqe)
{
    EXPECT_EQ(sizeof(rox_send_wqe), 64U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr_id), 0U);
    EXPECT_EQ(offsetof(rox_send_wqe, opcode), 8U);
    EXPECT_EQ(offsetof(rox_send_wqe, send_flags), 12U);
    EXPECT_EQ(offsetof(rox_send_wqe, num_sge), 16U);
    EXPECT_EQ(offsetof(rox_send_wqe, inline_len), 20U);
    EXPECT_EQ(offsetof(rox_send_wqe, ex), 24U);
    EXPECT_EQ(offsetof(rox_send_wqe, xrc_srqn), 28U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.rdma.remote_addr), 32U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.rdma.compare_add), 40U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.rdma.swap), 48U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.rdma.rkey), 56U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.ud.ah), 32U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.ud.remote_qpn), 36U);
    EXPECT_EQ(offsetof(rox_send_wqe, wr.ud.remote_qkey), 40U);
}

TEST(RoxAbi, RecvWqeAndSge)
{
    EXPECT_EQ(sizeof(rox_recv_wqe), 16U);
    EXPECT_EQ(offsetof(rox_recv_wqe, num_sge), 8U);
    EXPECT_EQ(sizeof(rox_sge), 16U);
    EXPECT_EQ(offsetof(rox_sge, length), 8U);
    EXPECT_EQ(offsetof(rox_sge, lkey), 12U);
}

TEST(RoxAbi, Cqe)
{
    EXPECT_EQ(sizeof(rox_cqe), 64U);
    EXPECT_EQ(offsetof(rox_cqe, timestamp), 8U);
    EXPECT_EQ(offsetof(rox_cqe, wallclock), 16U);
    EXPECT_EQ(offsetof(rox_cqe, status), 24U);
    EXPECT_EQ(offsetof(rox_cqe, opcode), 28U);
    EXPECT_EQ(offsetof(rox_cqe, byte_len), 32U);
    EXPECT_EQ(offsetof(rox_cqe, ex), 36U);
    EXPECT_EQ(offsetof(rox_cqe, qp_num), 40U);
    EXPECT_EQ(offsetof(rox_cqe, src_qp), 44U);
    EXPECT_EQ(offsetof(rox_cqe, wc_flags), 48U);
    EXPECT_EQ(offsetof(rox_cqe, vendor_err), 52U);
    EXPECT_EQ(offsetof(rox_cqe, pkey_index), 56U);
    EXPECT_EQ(offsetof(rox_cqe, sl), 58U);
    EXPECT_EQ(offsetof(rox_cqe, network_hdr_type), 59U);
}

TEST(RoxAbi, Responses)
{
    EXPECT_EQ(sizeof(rox_ring_desc), 16U);
    EXPECT_EQ(sizeof(rox_mapping), 16U);
    EXPECT_EQ(sizeof(rox_alloc_ucontext_req), 16U);
    EXPECT_EQ(sizeof(rox_alloc_ucontext_resp), 16U);
    EXPECT_EQ(offsetof(rox_alloc_ucontext_resp, max_inline), 4U);
    EXPECT_EQ(offsetof(rox_alloc_ucontext_resp, features), 8U);
    EXPECT_EQ(sizeof(rox_create_ah_resp), 8U);
    EXPECT_EQ(sizeof(rox_create_cq_req), 8U);
    EXPECT_EQ(sizeof(rox_place), 16U);
    EXPECT_EQ(offsetof(rox_place, position), 8U);
    EXPECT_EQ(sizeof(rox_create_cq_resp), 48U);
    EXPECT_EQ(offsetof(rox_create_cq_resp, place), 32U);
    EXPECT_EQ(sizeof(rox_create_srq_resp), 56U);
    EXPECT_EQ(offsetof(rox_create_srq_resp, place), 40U);
    EXPECT_EQ(offsetof(rox_create_srq_resp, srq_num), 32U);
    EXPECT_EQ(sizeof(rox_create_srq_req), 8U);
    EXPECT_EQ(sizeof(rox_modify_srq_req), 16U);
    EXPECT_EQ(offsetof(rox_modify_srq_req, resp_len), 8U);
    EXPECT_EQ(sizeof(rox_create_qp_req), 8U);
    EXPECT_EQ(sizeof(rox_create_qp_resp), 64U);
    EXPECT_EQ(offsetof(rox_create_qp_resp, place), 48U);
    EXPECT_EQ(offsetof(rox_create_qp_resp, rq), 32U);
}

/* The kernel's copies of these numbers are frozen; the program's come from libibverbs. */
TEST(RoxAbi, OpcodesAndFlagsOfTheVerbsAreThoseOfTheKernel)
{
    EXPECT_EQ(int{IBV_WR_RDMA_WRITE}, int{IB_UVERBS_WR_RDMA_WRITE});
    EXPECT_EQ(int{IBV_WR_RDMA_WRITE_WITH_IMM}, int{IB_UVERBS_WR_RDMA_WRITE_WITH_IMM});
    EXPECT_EQ(int{IBV_WR_SEND}, int{IB_UVERBS_WR_SEND});
    EXPECT_EQ(int{IBV_WR_SEND_WITH_IMM}, int{IB_UVERBS_WR_SEND_WITH_IMM});
    EXPECT_EQ(int{IBV_WR_RDMA_READ}, int{IB_UVERBS_WR_RDMA_READ});
    EXPECT_EQ(int{IBV_WR_ATOMIC_CMP_AND_SWP}, int{IB_UVERBS_WR_ATOMIC_CMP_AND_SWP});
    EXPECT_EQ(int{IBV_WR_ATOMIC_FETCH_AND_ADD}, int{IB_UVERBS_WR_ATOMIC_FETCH_AND_ADD});
    EXPECT_EQ(int{IBV_WC_FETCH_ADD}, int{IB_UVERBS_WC_FETCH_ADD});
    EXPECT_EQ(int{IBV_SEND_FENCE}, 1);
    EXPECT_EQ(int{IBV_SEND_SIGNALED}, 2);
    EXPECT_EQ(int{IBV_SEND_SOLICITED}, 4);
    EXPECT_EQ(int{IBV_SEND_INLINE}, 8);
    EXPECT_EQ(int{IBV_WC_RECV}, 128);
    EXPECT_EQ(int{IBV_WC_RECV_RDMA_WITH_IMM}, 129);
    EXPECT_EQ(int{IBV_WC_GRH}, 1);
    EXPECT_EQ(int{IBV_WC_WITH_IMM}, 2);
}

/* The number must be nobody else's: the largest of the kernel's is below 64. */
TEST(RoxAbi, DriverIdIsFarFromTheKernelsOwn)
{
    EXPECT_EQ(ROX_DRIVER_ID, 0x726f78);
}

TEST(Message, DriversPartFollowsTheCores)
{
    Message<ib_uverbs_create_ah_resp, rox_create_ah_resp> small;
    Message<ib_uverbs_ex_create_qp_resp, rox_create_qp_resp> large;

    EXPECT_EQ(small.size(), 12U);
    EXPECT_EQ(reinterpret_cast<std::byte *>(&small.driver) -
                  reinterpret_cast<std::byte *>(small.core()),
              4);
    EXPECT_EQ(large.size(), 104U);
    EXPECT_EQ(reinterpret_cast<std::byte *>(&large.driver) -
                  reinterpret_cast<std::byte *>(large.core()),
              40);
}

} // namespace
} // namespace rox::test
