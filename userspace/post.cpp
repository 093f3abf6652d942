/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Posting to a QP: ibv_post_send(), ibv_post_recv() and ibv_wr_*().
 */
#include "objects.hpp"
#include "verbs.hpp"

#include <array>

namespace rox {

int wake_sender(ibv_qp *qp, const Posted &posted)
{
    LateDoorbells *late = Context::of(qp->context)->late;

    return posted.later && late != nullptr && late->put_off(*Qp::of(qp), posted.count)
               ? 0
               : ring_send_doorbell(qp);
}

int post_send(ibv_qp *ibqp, ibv_send_wr *wr, ibv_send_wr **bad_wr)
{
    const Posted posted = Qp::of(ibqp)->sq.post(wr, bad_wr);

    if (posted.wake) {
        if (const int error = wake_sender(ibqp, posted); error != 0) {
            *bad_wr = wr; // the device is gone: nothing of the chain will be executed
            return error;
        }
    }
    return posted.error;
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    const Posted posted = Qp::of(ibqp)->rq.post(wr, bad_wr);

    if (posted.wake) {
        if (const int error = ring_recv_doorbell(ibqp); error != 0) {
            *bad_wr = wr;
            return error;
        }
    }
    return posted.error;
}

namespace {

/* Starts a work request with the program's qp->wr_id and qp->wr_flags. */
rox_send_wqe *begin(ibv_qp_ex *qp, ibv_wr_opcode opcode)
{
    return Qp::of(qp)->sq.begin(qp->wr_id, opcode, qp->wr_flags);
}

rox_send_wqe *begin_rdma(ibv_qp_ex *qp, ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr)
{
    rox_send_wqe *wqe = begin(qp, opcode);

    if (wqe != nullptr) {
        wqe->wr.rdma.remote_addr = remote_addr;
        wqe->wr.rdma.rkey = rkey;
    }
    return wqe;
}

void wr_atomic_cmp_swp(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t compare,
                       uint64_t swap)
{
    rox_send_wqe *wqe = begin_rdma(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr);

    if (wqe != nullptr) {
        wqe->wr.rdma.compare_add = compare;
        wqe->wr.rdma.swap = swap;
    }
}

void wr_atomic_fetch_add(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
    rox_send_wqe *wqe = begin_rdma(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr);

    if (wqe != nullptr) {
        wqe->wr.rdma.compare_add = add;
    }
}

/* The value is an argument of the call, so the program sets no SGE list afterwards. */
void wr_atomic_write(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, const void *atomic_wr)
{
    const std::array<ibv_data_buf, 1> value = {
        {{.addr = const_cast<void *>(atomic_wr), .length = sizeof(uint64_t)}}};

    if (begin_rdma(qp, IBV_WR_ATOMIC_WRITE, rkey, remote_addr) != nullptr) {
        Qp::of(qp)->sq.set_inline(value);
    }
}

void wr_rdma_read(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

void wr_rdma_write(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}

void wr_rdma_write_imm(ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr, __be32 imm_data)
{
    rox_send_wqe *wqe = begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr);

    if (wqe != nullptr) {
        wqe->ex.imm_data = imm_data;
    }
}

void wr_send(ibv_qp_ex *qp)
{
    begin(qp, IBV_WR_SEND);
}

void wr_send_imm(ibv_qp_ex *qp, __be32 imm_data)
{
    rox_send_wqe *wqe = begin(qp, IBV_WR_SEND_WITH_IMM);

    if (wqe != nullptr) {
        wqe->ex.imm_data = imm_data;
    }
}

void wr_send_inv(ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    rox_send_wqe *wqe = begin(qp, IBV_WR_SEND_WITH_INV);

    if (wqe != nullptr) {
        wqe->ex.invalidate_rkey = invalidate_rkey;
    }
}

void wr_local_inv(ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    rox_send_wqe *wqe = begin(qp, IBV_WR_LOCAL_INV);

    if (wqe != nullptr) {
        wqe->ex.invalidate_rkey = invalidate_rkey;
    }
}

void wr_bind_mw(ibv_qp_ex *qp, ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info *bind_info)
{
    begin(qp, IBV_WR_BIND_MW);
    Qp::of(qp)->sq.set_bind(mw, rkey, *bind_info);
}

void wr_set_ud_addr(ibv_qp_ex *qp, ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
    Qp::of(qp)->sq.set_ud(ah, remote_qpn, remote_qkey);
}

void wr_set_xrc_srqn(ibv_qp_ex *qp, uint32_t remote_srqn)
{
    Qp::of(qp)->sq.set_xrc_srqn(remote_srqn);
}

void wr_set_inline_data(ibv_qp_ex *qp, void *addr, size_t length)
{
    const std::array<ibv_data_buf, 1> buffer = {{{.addr = addr, .length = length}}};

    Qp::of(qp)->sq.set_inline(buffer);
}

void wr_set_inline_data_list(ibv_qp_ex *qp, size_t num_buf, const ibv_data_buf *buf_list)
{
    Qp::of(qp)->sq.set_inline({buf_list, num_buf});
}

void wr_set_sge(ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const std::array<ibv_sge, 1> sge = {{{.addr = addr, .length = length, .lkey = lkey}}};

    Qp::of(qp)->sq.set_sges(sge);
}

void wr_set_sge_list(ibv_qp_ex *qp, size_t num_sge, const ibv_sge *sg_list)
{
    Qp::of(qp)->sq.set_sges({sg_list, num_sge});
}

void wr_start(ibv_qp_ex *qp)
{
    Qp::of(qp)->sq.start();
}

int wr_complete(ibv_qp_ex *qp)
{
    const Posted posted = Qp::of(qp)->sq.complete();

    return posted.wake ? wake_sender(&qp->qp_base, posted) : posted.error;
}

void wr_abort(ibv_qp_ex *qp)
{
    Qp::of(qp)->sq.abort();
}

} // namespace

uint64_t supported_send_ops(ibv_qp_type type)
{
    constexpr uint64_t sends = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    constexpr uint64_t writes = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM;
    constexpr uint64_t fetches = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;

    constexpr uint64_t keys = IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW;

    switch (type) {
    case IBV_QPT_RC:
        return sends | writes | fetches | keys | IBV_QP_EX_WITH_SEND_WITH_INV |
               IBV_QP_EX_WITH_ATOMIC_WRITE;
    case IBV_QPT_XRC_SEND: return sends | writes | fetches | keys | IBV_QP_EX_WITH_SEND_WITH_INV;
    case IBV_QPT_UC: return sends | writes | keys;
    case IBV_QPT_UD: return sends;
    default: return 0;
    }
}

void set_send_functions(ibv_qp_ex &qp, uint64_t send_ops)
{
    const auto wants = [send_ops](uint64_t op) { return (send_ops & op) != 0; };

    if (wants(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP)) {
        qp.wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    }
    if (wants(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)) {
        qp.wr_atomic_fetch_add = wr_atomic_fetch_add;
    }
    if (wants(IBV_QP_EX_WITH_ATOMIC_WRITE)) {
        qp.wr_atomic_write = wr_atomic_write;
    }
    if (wants(IBV_QP_EX_WITH_RDMA_READ)) {
        qp.wr_rdma_read = wr_rdma_read;
    }
    if (wants(IBV_QP_EX_WITH_RDMA_WRITE)) {
        qp.wr_rdma_write = wr_rdma_write;
    }
    if (wants(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM)) {
        qp.wr_rdma_write_imm = wr_rdma_write_imm;
    }
    if (wants(IBV_QP_EX_WITH_SEND)) {
        qp.wr_send = wr_send;
    }
    if (wants(IBV_QP_EX_WITH_SEND_WITH_IMM)) {
        qp.wr_send_imm = wr_send_imm;
    }
    if (wants(IBV_QP_EX_WITH_SEND_WITH_INV)) {
        qp.wr_send_inv = wr_send_inv;
    }
    if (wants(IBV_QP_EX_WITH_BIND_MW)) {
        qp.wr_bind_mw = wr_bind_mw;
    }
    if (wants(IBV_QP_EX_WITH_LOCAL_INV)) {
        qp.wr_local_inv = wr_local_inv;
    }
    qp.wr_set_ud_addr = wr_set_ud_addr;
    qp.wr_set_xrc_srqn = wr_set_xrc_srqn;
    qp.wr_set_inline_data = wr_set_inline_data;
    qp.wr_set_inline_data_list = wr_set_inline_data_list;
    qp.wr_set_sge = wr_set_sge;
    qp.wr_set_sge_list = wr_set_sge_list;
    qp.wr_start = wr_start;
    qp.wr_complete = wr_complete;
    qp.wr_abort = wr_abort;
}

} // namespace rox
