/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Polling one completion at a time: ibv_start_poll(), ibv_next_poll(),
 * ibv_end_poll() and the ibv_wc_read_*() functions.
 */
#include "cqe.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <cerrno>

namespace rox {
namespace {

const rox_cqe &current(ibv_cq_ex *cq)
{
    return Cq::of(cq)->queue.current();
}

/* Sets the members of ibv_cq_ex that programs read directly. */
int show_current(ibv_cq_ex *cq)
{
    const rox_cqe &cqe = current(cq);

    cq->wr_id = cqe.wr_id;
    cq->status = static_cast<ibv_wc_status>(cqe.status);
    return 0;
}

int start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr)
{
    if (attr->comp_mask != 0) {
        return EINVAL;
    }
    const int error = Cq::of(cq)->queue.start_poll();

    if (error == ENOENT) {
        Cq::of(cq)->polled_in_vain();
    }
    return error != 0 ? error : show_current(cq);
}

int next_poll(ibv_cq_ex *cq)
{
    const int error = Cq::of(cq)->queue.next_poll();

    return error != 0 ? error : show_current(cq);
}

void end_poll(ibv_cq_ex *cq)
{
    Cq::of(cq)->queue.end_poll();
}

ibv_wc_opcode read_opcode(ibv_cq_ex *cq)
{
    return static_cast<ibv_wc_opcode>(current(cq).opcode);
}

uint32_t read_vendor_err(ibv_cq_ex *cq)
{
    return current(cq).vendor_err;
}

unsigned int read_wc_flags(ibv_cq_ex *cq)
{
    return current(cq).wc_flags;
}

uint32_t read_byte_len(ibv_cq_ex *cq)
{
    return current(cq).byte_len;
}

__be32 read_imm_data(ibv_cq_ex *cq)
{
    return current(cq).ex.imm_data;
}

uint32_t read_qp_num(ibv_cq_ex *cq)
{
    return current(cq).qp_num;
}

uint32_t read_src_qp(ibv_cq_ex *cq)
{
    return is_send(current(cq)) ? 0 : current(cq).src_qp;
}

uint32_t read_slid(ibv_cq_ex *)
{
    return 0;
}

uint8_t read_sl(ibv_cq_ex *cq)
{
    return current(cq).sl;
}

uint8_t read_dlid_path_bits(ibv_cq_ex *cq)
{
    return path_bits(current(cq));
}

uint64_t read_completion_ts(ibv_cq_ex *cq)
{
    return current(cq).timestamp;
}

uint64_t read_completion_wallclock_ns(ibv_cq_ex *cq)
{
    return current(cq).wallclock;
}

} // namespace

void set_poll_functions(ibv_cq_ex &cq, uint64_t wc_flags)
{
    const auto wants = [wc_flags](uint64_t flag) { return (wc_flags & flag) != 0; };

    cq.start_poll = start_poll;
    cq.next_poll = next_poll;
    cq.end_poll = end_poll;
    cq.read_opcode = read_opcode;
    cq.read_vendor_err = read_vendor_err;
    cq.read_wc_flags = read_wc_flags;
    if (wants(IBV_WC_EX_WITH_BYTE_LEN)) {
        cq.read_byte_len = read_byte_len;
    }
    if (wants(IBV_WC_EX_WITH_IMM)) {
        cq.read_imm_data = read_imm_data;
    }
    if (wants(IBV_WC_EX_WITH_QP_NUM)) {
        cq.read_qp_num = read_qp_num;
    }
    if (wants(IBV_WC_EX_WITH_SRC_QP)) {
        cq.read_src_qp = read_src_qp;
    }
    if (wants(IBV_WC_EX_WITH_SLID)) {
        cq.read_slid = read_slid;
    }
    if (wants(IBV_WC_EX_WITH_SL)) {
        cq.read_sl = read_sl;
    }
    if (wants(IBV_WC_EX_WITH_DLID_PATH_BITS)) {
        cq.read_dlid_path_bits = read_dlid_path_bits;
    }
    if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP)) {
        cq.read_completion_ts = read_completion_ts;
    }
    if (wants(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) {
        cq.read_completion_wallclock_ns = read_completion_wallclock_ns;
    }
}

} // namespace rox
