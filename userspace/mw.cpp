/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Memory windows.
 */
#include "objects.hpp"
#include "verbs.hpp"

#include <cerrno>

namespace rox {

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type)
{
    std::unique_ptr<Mw> mw = make_object<Mw>();
    rdmacore::alloc_mw_cmd cmd = {};
    ib_uverbs_alloc_mw_resp resp = {};

    if (!mw) {
        return nullptr;
    }
    if (const int error = rdmacore::ibv_cmd_alloc_mw(pd, type, &mw->mw, &cmd, sizeof(cmd), &resp,
                                                     sizeof(resp));
        error != 0) {
        errno = error;
        return nullptr;
    }
    return &mw.release()->mw;
}

int dealloc_mw(ibv_mw *mw)
{
    if (const int error = rdmacore::ibv_cmd_dealloc_mw(mw); error != 0) {
        return error;
    }
    delete object_of<Mw>(mw);
    return 0;
}

/* libibverbs passes only windows of type 1. The provider chooses the key: the next one. */
int bind_mw(ibv_qp *ibqp, ibv_mw *mw, ibv_mw_bind *request)
{
    SendQueue &sq = Qp::of(ibqp)->sq;
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    rox_bind bind = {};

    if (const int error = make_bind(bind, *mw, rkey, request->bind_info); error != 0) {
        return error;
    }
    sq.start();
    rox_send_wqe *wqe = sq.begin(request->wr_id, IBV_WR_BIND_MW, request->send_flags);

    if (wqe != nullptr) {
        wqe->wr.bind = bind;
    }
    const Posted posted = sq.complete();

    if (posted.wake) {
        if (const int error = wake_sender(ibqp, posted); error != 0) {
            return error; // the device is gone
        }
    }
    if (posted.error == 0) {
        mw->rkey = rkey;
    }
    return posted.error;
}

} // namespace rox
