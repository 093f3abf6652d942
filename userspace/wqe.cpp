/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "wqe.hpp"

#include "objects.hpp"

#include <cerrno>
#include <cstring>

namespace rox {

/* SGE lists, opcodes and flags are copied unchanged. */
static_assert(sizeof(rox_sge) == sizeof(ibv_sge));
static_assert(offsetof(rox_sge, addr) == offsetof(ibv_sge, addr));
static_assert(offsetof(rox_sge, length) == offsetof(ibv_sge, length));
static_assert(offsetof(rox_sge, lkey) == offsetof(ibv_sge, lkey));

namespace {

constexpr uint32_t bit(ibv_wr_opcode opcode)
{
    return 1U << opcode;
}

constexpr uint32_t send_opcodes = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
constexpr uint32_t key_opcodes = bit(IBV_WR_LOCAL_INV) | bit(IBV_WR_BIND_MW);
constexpr uint32_t write_opcodes = bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);
constexpr uint32_t fetch_opcodes = bit(IBV_WR_RDMA_READ) | bit(IBV_WR_ATOMIC_CMP_AND_SWP) |
                                   bit(IBV_WR_ATOMIC_FETCH_AND_ADD);

constexpr unsigned int send_flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED |
                                    IBV_SEND_INLINE;
/* Accepted and ignored, as adapters do. */
constexpr unsigned int ignored_send_flags = IBV_SEND_IP_CSUM;

constexpr uint32_t legal_opcodes(ibv_qp_type type)
{
    switch (type) {
    case IBV_QPT_RC: return legal_opcodes(IBV_QPT_XRC_SEND) | bit(IBV_WR_ATOMIC_WRITE);
    case IBV_QPT_XRC_SEND:
        return send_opcodes | bit(IBV_WR_SEND_WITH_INV) | key_opcodes | write_opcodes |
               fetch_opcodes;
    case IBV_QPT_UC: return send_opcodes | key_opcodes | write_opcodes;
    case IBV_QPT_UD: return send_opcodes;
    default: return 0;
    }
}

rox_send_wqe *send_header(std::byte *slot)
{
    return reinterpret_cast<rox_send_wqe *>(slot);
}

/* A C program can store any number in wr.opcode, even one that is no value of the enumeration. */
uint32_t opcode_of(const ibv_send_wr &wr)
{
    uint32_t opcode = 0;

    static_assert(sizeof(opcode) == sizeof(wr.opcode));
    std::memcpy(&opcode, &wr.opcode, sizeof(opcode));
    return opcode;
}

/* Writes the members that depend on the operation. 0 or EINVAL. */
int put_operation(rox_send_wqe &wqe, const ibv_send_wr &wr, ibv_qp_type type)
{
    switch (wr.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
        wqe.wr.rdma.remote_addr = wr.wr.rdma.remote_addr;
        wqe.wr.rdma.rkey = wr.wr.rdma.rkey;
        return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        wqe.wr.rdma.remote_addr = wr.wr.atomic.remote_addr;
        wqe.wr.rdma.compare_add = wr.wr.atomic.compare_add;
        wqe.wr.rdma.swap = wr.wr.atomic.swap;
        wqe.wr.rdma.rkey = wr.wr.atomic.rkey;
        return 0;
    case IBV_WR_BIND_MW:
        return make_posted_bind(wqe.wr.bind, wr.bind_mw.mw, wr.bind_mw.rkey, wr.bind_mw.bind_info);
    default: break;
    }

    if (type == IBV_QPT_UD) {
        if (wr.wr.ud.ah == nullptr) {
            return EINVAL;
        }
        wqe.wr.ud.ah = ah_index(wr.wr.ud.ah);
        wqe.wr.ud.remote_qpn = wr.wr.ud.remote_qpn;
        wqe.wr.ud.remote_qkey = wr.wr.ud.remote_qkey;
    }
    return 0;
}

/* Copies the payload that an SGE list names into the WQE; its keys are ignored. 0 or EINVAL. */
int put_inline_sges(std::byte *slot, std::span<const ibv_sge> list, const SendLimits &limits)
{
    std::byte *const payload = slot + send_header_size;
    size_t length = 0;

    for (const ibv_sge &sge : list) {
        if (sge.length > limits.max_inline - length) {
            return EINVAL;
        }
        if (sge.length != 0) {
            std::memcpy(payload + length, reinterpret_cast<const void *>(sge.addr), sge.length);
        }
        length += sge.length;
    }
    send_header(slot)->inline_len = static_cast<uint32_t>(length);
    return 0;
}

} // namespace

bool opcode_is_legal(ibv_qp_type type, uint32_t opcode)
{
    return opcode < 32 && (legal_opcodes(type) >> opcode & 1) != 0;
}

uint32_t ah_index(const ibv_ah *ah)
{
    return object_of<const Ah>(ah)->index;
}

int make_bind(rox_bind &bind, const ibv_mw &mw, uint32_t rkey, const ibv_mw_bind_info &info)
{
    constexpr unsigned int known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                   IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
    const bool bound = info.mr != nullptr;

    if ((info.mw_access_flags & ~known) != 0 || (!bound && info.length != 0)) {
        return EINVAL;
    }
    bind = {.addr = info.addr,
            .length = info.length,
            .mr_lkey = bound ? info.mr->lkey : 0,
            .mw_rkey = mw.rkey,
            .new_rkey = rkey,
            .access = info.mw_access_flags};
    return 0;
}

int make_posted_bind(rox_bind &bind, const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info)
{
    if (mw == nullptr || mw->type != IBV_MW_TYPE_2 || info.mr == nullptr || info.length == 0) {
        return EINVAL;
    }
    return make_bind(bind, *mw, rkey, info);
}

int put_sge_list(std::byte *slot, std::span<const ibv_sge> list, const SendLimits &limits)
{
    if (list.size() > limits.max_sge) {
        return EINVAL;
    }
    send_header(slot)->num_sge = static_cast<uint32_t>(list.size());
    if (list.size() == 1) { // the usual case needs no call
        *reinterpret_cast<ibv_sge *>(slot + send_header_size) = list.front();
    } else if (!list.empty()) {
        std::memcpy(slot + send_header_size, list.data(), list.size_bytes());
    }
    return 0;
}

int put_inline(std::byte *slot, std::span<const ibv_data_buf> buffers, const SendLimits &limits)
{
    std::byte *const payload = slot + send_header_size;
    size_t length = 0;

    for (const ibv_data_buf &buffer : buffers) {
        if (buffer.length > limits.max_inline - length) {
            return EINVAL;
        }
        if (buffer.length != 0) {
            std::memcpy(payload + length, buffer.addr, buffer.length);
        }
        length += buffer.length;
    }
    send_header(slot)->inline_len = static_cast<uint32_t>(length);
    send_header(slot)->send_flags |= IBV_SEND_INLINE;
    return 0;
}

int encode_send(std::byte *slot, const ibv_send_wr &wr, const SendLimits &limits)
{
    const auto num_sge = static_cast<uint32_t>(wr.num_sge);

    if (!opcode_is_legal(limits.type, opcode_of(wr)) ||
        (wr.send_flags & ~(send_flags | ignored_send_flags)) != 0 || num_sge > limits.max_sge) {
        return EINVAL;
    }

    rox_send_wqe wqe = {};

    wqe.wr_id = wr.wr_id;
    wqe.opcode = wr.opcode;
    wqe.send_flags = wr.send_flags & send_flags;
    wqe.ex.imm_data = wr.imm_data; // or invalidate_rkey: both structures have a union
    if (limits.type == IBV_QPT_XRC_SEND) {
        wqe.xrc_srqn = wr.qp_type.xrc.remote_srqn;
    }
    if (const int error = put_operation(wqe, wr, limits.type); error != 0) {
        return error;
    }
    *send_header(slot) = wqe;

    const std::span<const ibv_sge> list(wr.sg_list, has_payload(wr.opcode) ? num_sge : 0);

    if ((wr.send_flags & IBV_SEND_INLINE) == 0) {
        return put_sge_list(slot, list, limits);
    }
    return opcode_takes_inline(wr.opcode) ? put_inline_sges(slot, list, limits) : EINVAL;
}

int encode_recv(std::byte *slot, const ibv_recv_wr &wr, uint32_t max_sge)
{
    const auto num_sge = static_cast<uint32_t>(wr.num_sge);

    if (num_sge > max_sge) {
        return EINVAL;
    }
    *reinterpret_cast<rox_recv_wqe *>(slot) = {
        .wr_id = wr.wr_id, .num_sge = num_sge, .reserved = 0};
    if (num_sge != 0) {
        std::memcpy(slot + recv_header_size, wr.sg_list, num_sge * sizeof(rox_sge));
    }
    return 0;
}

} // namespace rox
