/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Decoding of completion ring entries into work completions.
 */
#ifndef ROX_CQE_HPP
#define ROX_CQE_HPP

#include <infiniband/verbs.h>
#include <rdma/rox-abi.h>

namespace rox {

/// True if the completion is of a send work request, false if of a receive.
inline bool is_send(const rox_cqe &cqe)
{
    return (cqe.opcode & IBV_WC_RECV) == 0;
}

/// Of datagrams: the GID table entry that the packet was for, if it is not the first one with its
/// GID (see create_ah()), else 0.
inline uint8_t path_bits(const rox_cqe &cqe)
{
    return is_send(cqe) ? 0 : static_cast<uint8_t>(cqe.sgid_index);
}

/// RoCE has no LIDs, so slid is always 0.
inline void decode(const rox_cqe &cqe, ibv_wc &wc)
{
    wc.wr_id = cqe.wr_id;
    wc.status = static_cast<ibv_wc_status>(cqe.status);
    wc.opcode = static_cast<ibv_wc_opcode>(cqe.opcode);
    wc.vendor_err = cqe.vendor_err;
    wc.byte_len = cqe.byte_len;
    wc.imm_data = cqe.ex.imm_data;
    wc.qp_num = cqe.qp_num;
    wc.src_qp = is_send(cqe) ? 0 : cqe.src_qp;
    wc.wc_flags = cqe.wc_flags;
    wc.pkey_index = cqe.pkey_index;
    wc.slid = 0;
    wc.sl = cqe.sl;
    wc.dlid_path_bits = path_bits(cqe);
}

} // namespace rox

#endif // ROX_CQE_HPP
