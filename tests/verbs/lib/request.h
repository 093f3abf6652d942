// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A pair with a as requester: single RDMA requests to the memory of b, and what must hold when b
/// revokes that memory.
#pragma once

#include <functional>

#include "pair.h"

namespace vt {

/// All work requests of a have the id 1.
class RequestTest : public PairTest {
protected:
    void SetUp() override
    {
        params.timeout = 12;
        start({}, params);
    }

    /// Replaces both QPs, after a failure has moved them to ERR.
    void reconnect()
    {
        a.qp.reset();
        b.qp.reset();
        start({}, params);
    }

    ibv_wc write(Remote to, std::size_t length, const Qp *qp = nullptr)
    {
        (qp ? qp : a.qp.get())->post(SendWr::write({local.sge(0, length)}, to).id(1));
        return a.send_cq.one();
    }
    ibv_wc read(Remote from, std::size_t length)
    {
        a.qp->post(SendWr::read({local.sge(0, length)}, from).id(1));
        return a.send_cq.one();
    }
    ibv_wc add(Remote at)
    {
        a.qp->post(SendWr::fetch_add(local.sge(0, 8), at, 1).id(1));
        return a.send_cq.one();
    }
    ibv_wc atomic_write(Remote to)
    {
        a.qp->post(SendWr::atomic_write(local.sge(0, 8), to).id(1));
        return a.send_cq.one();
    }

    static testing::AssertionResult written(const ibv_wc &wc)
    {
        return is(wc, 1, IBV_WC_RDMA_WRITE);
    }
    static testing::AssertionResult refused(const ibv_wc &wc)
    {
        return is_error(wc, 1, IBV_WC_REM_ACCESS_ERR);
    }

    /// Lets @p from write to all of @p target, and calls @p revoke @p delay after the first write.
    /// Checks that nothing is written to @p target once @p revoke has returned.
    void revoke_under_writes(const Qp &from, Bytes target, Remote to,
                             std::chrono::microseconds delay, const std::function<void()> &revoke);

    Params params;
    Buffer local = a.buffer(1 << 16);
};

} // namespace vt
