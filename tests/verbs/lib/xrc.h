// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// XRC domains, SRQs, initiator and target QPs.
#pragma once

#include <fcntl.h>

#include "qp.h"

namespace vt {

/// ibv_close_xrcd() itself is static inline: Handle would be another type in each source file.
int close_xrcd(ibv_xrcd *xrcd);

using Xrcd = Handle<ibv_xrcd, close_xrcd>;

/// May return null, with errno.
ibv_xrcd *try_open_xrcd(ibv_context *context, int fd = -1, int oflags = O_CREAT);
Xrcd open_xrcd(ibv_context *context, int fd = -1, int oflags = O_CREAT);

class XrcSrq {
public:
    XrcSrq(ibv_pd *pd, ibv_xrcd *xrcd, ibv_cq *cq, std::uint32_t wr = 64, std::uint32_t sge = 4);

    ibv_srq *get() const { return handle_.get(); }
    std::uint32_t number() const;
    int try_post(std::uint64_t wr_id, Sges sges) const;
    void post(std::uint64_t wr_id, Sges sges = {}) const
    {
        check(try_post(wr_id, std::move(sges)), "ibv_post_srq_recv");
    }
    int modify(ibv_srq_attr attr, int mask) const { return ibv_modify_srq(get(), &attr, mask); }
    int destroy() { return handle_.destroy(); }

private:
    Handle<ibv_srq, ibv_destroy_srq> handle_;
};

/// An initiator QP, which has no receive queue. For class Qp.
ibv_qp *xrc_initiator(ibv_pd *pd, ibv_cq *cq, const QpConfig &config = {});
/// A target QP, which receives into the SRQs of its domain.
ibv_qp *xrc_target(ibv_context *context, ibv_xrcd *xrcd);
/// Another handle of a target. May return null, with errno.
ibv_qp *try_open_target(ibv_context *context, ibv_xrcd *xrcd, std::uint32_t qp_num);

/// @p wr with @p number as its remote SRQ.
inline SendWr to_srq(SendWr wr, std::uint32_t number)
{
    wr.fields().qp_type.xrc.remote_srqn = number;
    return wr;
}

} // namespace vt
