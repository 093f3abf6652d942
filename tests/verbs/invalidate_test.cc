// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A key that nobody may invalidate stays good, and who tries is told.
#include "lib/diagnose.h"
#include "lib/pair.h"

using namespace vt;

namespace {

class InvalidateCore : public PairTest {
protected:
    ibv_wc result_of(ibv_wr_opcode opcode, std::uint32_t key)
    {
        start({.send_sge = 4, .recv_sge = 4});
        b.qp->post_recv(1, {far.sge(0, 100)});
        SendWr wr = SendWr::send({});
        wr.id(7).fields().opcode = opcode;
        wr.fields().invalidate_rkey = key;
        a.qp->post(wr);
        return a.send_cq.one();
    }

    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

TEST_F(InvalidateCore, APeerCannotInvalidateAnOrdinaryRegion)
{
    EXPECT_TRUE(is_error(result_of(IBV_WR_SEND_WITH_INV, far.rkey()), 7, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(b.qp->reaches(IBV_QPS_ERR));
}

TEST_F(InvalidateCore, APeerCannotInvalidateAnUnknownKey)
{
    EXPECT_TRUE(
        is_error(result_of(IBV_WR_SEND_WITH_INV, far.rkey() ^ 0xff00), 7, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(InvalidateCore, AnOrdinaryRegionIsNotInvalidatedLocally)
{
    EXPECT_TRUE(is_error(result_of(IBV_WR_LOCAL_INV, near.lkey()), 7, IBV_WC_MW_BIND_ERR));
    EXPECT_TRUE(a.qp->reaches(IBV_QPS_ERR));
}

} // namespace
