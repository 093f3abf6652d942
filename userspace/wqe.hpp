/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Encoding of work requests as ring entries (WQEs). Pure functions.
 */
#ifndef ROX_WQE_HPP
#define ROX_WQE_HPP

#include <infiniband/verbs.h>
#include <rdma/rox-abi.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace rox {

/// What a send queue accepts. Anything else is EINVAL.
struct SendLimits {
    ibv_qp_type type = IBV_QPT_RC;
    uint32_t max_sge = 0;
    uint32_t max_inline = 0;
};

/// Bytes of a send WQE before its SGE list or inline payload.
constexpr size_t send_header_size = sizeof(rox_send_wqe);
/// Bytes of a receive WQE before its SGE list.
constexpr size_t recv_header_size = sizeof(rox_recv_wqe);

/// True if QPs of @p type can send @p opcode, which may be any number.
bool opcode_is_legal(ibv_qp_type type, uint32_t opcode);

/// True if the payload of @p opcode may be inline.
constexpr bool opcode_takes_inline(ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
           opcode == IBV_WR_ATOMIC_WRITE;
}

/// Key operations have no payload; an SGE list that comes with one is ignored.
constexpr bool has_payload(uint32_t opcode)
{
    return opcode != IBV_WR_LOCAL_INV && opcode != IBV_WR_BIND_MW;
}

/// The index by which WQEs name an address handle.
uint32_t ah_index(const ibv_ah *ah);

/**
 * Encodes the binding of @p mw, of either type, with @p rkey as its new key.
 * @return 0 or EINVAL
 */
int make_bind(rox_bind &bind, const ibv_mw &mw, uint32_t rkey, const ibv_mw_bind_info &info);

/// The same for IBV_WR_BIND_MW, which takes windows of type 2 only and cannot unbind.
int make_posted_bind(rox_bind &bind, const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info);

/// Writes the SGE list of a send WQE. 0 or EINVAL.
int put_sge_list(std::byte *slot, std::span<const ibv_sge> list, const SendLimits &limits);

/// Gathers @p buffers into the inline payload of a send WQE. 0 or EINVAL.
int put_inline(std::byte *slot, std::span<const ibv_data_buf> buffers, const SendLimits &limits);

/**
 * Writes @p wr into @p slot, an entry of a send ring.
 * @return 0, or EINVAL: then the content of the entry is undefined
 */
int encode_send(std::byte *slot, const ibv_send_wr &wr, const SendLimits &limits);

/// Writes @p wr into @p slot, an entry of a receive ring. 0 or EINVAL.
int encode_recv(std::byte *slot, const ibv_recv_wr &wr, uint32_t max_sge);

} // namespace rox

#endif // ROX_WQE_HPP
