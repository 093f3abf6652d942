// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The QP of an ID of the RDMA CM.
#pragma once

#include "cm.h"
#include "diagnose.h"
#include "pair.h"

namespace vt {

/// A QP with its own PD, CQ and memory on a CM id.
struct CmQp {
    CmQp(rdma_cm_id *cm_id, ibv_qp_type type)
        : id(cm_id), pd(alloc_pd(cm_id->verbs)), cq(cm_id->verbs, 64), buffer(pd.get(), 16384)
    {
        ibv_qp_init_attr init = QpConfig{.type = type}.attr(cq.get(), cq.get());
        check(rdma_create_qp(id, pd.get(), &init), "rdma_create_qp");
        watch(id->qp);
    }
    ~CmQp()
    {
        unwatch(id->qp);
        rdma_destroy_qp(id);
    }
    CmQp(const CmQp &) = delete;
    CmQp &operator=(const CmQp &) = delete;

    void post_recv(std::uint64_t wr_id, std::size_t offset, std::size_t length) const
    {
        ibv_sge sge = buffer.sge(offset, length);
        ibv_recv_wr wr{wr_id, nullptr, &sge, 1};
        ibv_recv_wr *bad = nullptr;
        check(ibv_post_recv(id->qp, &wr, &bad), "ibv_post_recv");
    }
    void post(SendWr wr) const
    {
        ibv_send_wr *bad = nullptr;
        check(ibv_post_send(id->qp, wr.raw(), &bad), "ibv_post_send");
    }

    rdma_cm_id *id;
    Pd pd;
    Cq cq;
    Buffer buffer;
};

/// Both ends send to the other.
inline void expect_data(const CmQp &one, const CmQp &two)
{
    for (auto [from, to] : {std::pair{&one, &two}, {&two, &one}}) {
        fill(from->buffer.bytes(0, 3000), 5);
        to->post_recv(1, 8192, 4096);
        from->post(SendWr::send({from->buffer.sge(0, 3000)}).id(2));
        EXPECT_TRUE(is(from->cq.one(), 2, IBV_WC_SEND));
        EXPECT_TRUE(is(to->cq.one(), 1, IBV_WC_RECV));
        EXPECT_TRUE(filled(to->buffer.bytes(8192, 3000), 5));
    }
}

} // namespace vt
