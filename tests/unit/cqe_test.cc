/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Completions as the kernel writes them into completions as the program reads them. */
#include "cqe.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

namespace rox::test {
namespace {

rox_cqe sample()
{
    rox_cqe cqe = {};

    cqe.wr_id = 0x1122334455667788;
    cqe.timestamp = 1;
    cqe.wallclock = 2;
    cqe.byte_len = 0xfffffff0;
    cqe.ex.imm_data = htobe32(0xcafe);
    cqe.qp_num = 0x123456;
    cqe.src_qp = 0x654321;
    cqe.wc_flags = IBV_WC_GRH | IBV_WC_WITH_IMM;
    cqe.vendor_err = 0x99;
    cqe.pkey_index = 7;
    cqe.sl = 5;
    cqe.network_hdr_type = 2;
    cqe.sgid_index = 9;
    return cqe;
}

class DecodeTest : public testing::TestWithParam<std::tuple<ibv_wc_status, ibv_wc_opcode>> {};

TEST_P(DecodeTest, EveryFieldOfTheCompletion)
{
    rox_cqe cqe = sample();
    ibv_wc wc;

    std::memset(&wc, 0xee, sizeof(wc));
    cqe.status = std::get<0>(GetParam());
    cqe.opcode = std::get<1>(GetParam());
    decode(cqe, wc);
    EXPECT_EQ(wc.wr_id, 0x1122334455667788U);
    EXPECT_EQ(wc.status, std::get<0>(GetParam()));
    EXPECT_EQ(wc.opcode, std::get<1>(GetParam()));
    EXPECT_EQ(wc.vendor_err, 0x99U);
    EXPECT_EQ(wc.byte_len, 0xfffffff0U);
    EXPECT_EQ(wc.imm_data, htobe32(0xcafe));
    EXPECT_EQ(wc.qp_num, 0x123456U);
    /* What stands there in a send's completion is not for the program. */
    EXPECT_EQ(wc.src_qp, (std::get<1>(GetParam()) & IBV_WC_RECV) != 0 ? 0x654321U : 0U);
    EXPECT_EQ(wc.wc_flags, static_cast<unsigned int>(IBV_WC_GRH | IBV_WC_WITH_IMM));
    EXPECT_EQ(wc.pkey_index, 7);
    EXPECT_EQ(wc.slid, 0);
    EXPECT_EQ(wc.sl, 5);
    EXPECT_EQ(wc.dlid_path_bits, (std::get<1>(GetParam()) & IBV_WC_RECV) != 0 ? 9 : 0);
}

INSTANTIATE_TEST_SUITE_P(EveryOpcode, DecodeTest,
                         testing::Combine(testing::Values(IBV_WC_SUCCESS),
                                          testing::Values(IBV_WC_SEND, IBV_WC_RDMA_WRITE,
                                                          IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
                                                          IBV_WC_FETCH_ADD, IBV_WC_RECV,
                                                          IBV_WC_RECV_RDMA_WITH_IMM)));

INSTANTIATE_TEST_SUITE_P(
    EveryStatus, DecodeTest,
    testing::Combine(testing::Values(IBV_WC_LOC_LEN_ERR, IBV_WC_LOC_QP_OP_ERR, IBV_WC_LOC_PROT_ERR,
                                     IBV_WC_WR_FLUSH_ERR, IBV_WC_BAD_RESP_ERR,
                                     IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR,
                                     IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_OP_ERR, IBV_WC_RETRY_EXC_ERR,
                                     IBV_WC_RNR_RETRY_EXC_ERR, IBV_WC_REM_ABORT_ERR,
                                     IBV_WC_FATAL_ERR, IBV_WC_RESP_TIMEOUT_ERR, IBV_WC_GENERAL_ERR),
                     testing::Values(IBV_WC_SEND, IBV_WC_RECV)));

} // namespace
} // namespace rox::test
