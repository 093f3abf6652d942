// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Work requests, built in one expression.
#pragma once

#include <cstdint>
#include <vector>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#include "memory.h"

namespace vt {

using Sges = std::vector<ibv_sge>;

/// Memory of the peer.
struct Remote {
    std::uint64_t address;
    std::uint32_t rkey;
};

inline Remote remote(const Buffer &buffer, std::size_t offset = 0)
{
    return {buffer.address(offset), buffer.rkey()};
}

/// A send work request, signaled by default.
class SendWr {
public:
    static SendWr send(Sges sges) { return {IBV_WR_SEND, std::move(sges)}; }
    static SendWr write(Sges sges, Remote to) { return {IBV_WR_RDMA_WRITE, std::move(sges), to}; }
    static SendWr read(Sges sges, Remote from) { return {IBV_WR_RDMA_READ, std::move(sges), from}; }
    static SendWr compare_swap(ibv_sge result, Remote at, std::uint64_t expected,
                               std::uint64_t value)
    {
        return {IBV_WR_ATOMIC_CMP_AND_SWP, result, at, expected, value};
    }
    static SendWr fetch_add(ibv_sge result, Remote at, std::uint64_t addend)
    {
        return {IBV_WR_ATOMIC_FETCH_AND_ADD, result, at, addend, 0};
    }

    static SendWr atomic_write(ibv_sge value, Remote to)
    {
        return {IBV_WR_ATOMIC_WRITE, Sges{value}, to};
    }

    /// Adds an SGE.
    SendWr &add(ibv_sge sge)
    {
        sges_.push_back(sge);
        return *this;
    }
    SendWr &id(std::uint64_t wr_id)
    {
        wr_.wr_id = wr_id;
        return *this;
    }
    /// Makes it a SEND or WRITE with immediate data, in host order.
    SendWr &imm(std::uint32_t data)
    {
        wr_.opcode = wr_.opcode == IBV_WR_SEND ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
        wr_.imm_data = htonl(data);
        return *this;
    }
    SendWr &to(ibv_ah *ah, std::uint32_t qp_num, std::uint32_t qkey)
    {
        wr_.wr.ud = {ah, qp_num, qkey};
        return *this;
    }
    SendWr &unsignaled() { return clear(IBV_SEND_SIGNALED); }
    SendWr &solicited() { return set(IBV_SEND_SOLICITED); }
    SendWr &fence() { return set(IBV_SEND_FENCE); }
    SendWr &inlined() { return set(IBV_SEND_INLINE); }

    /// For the verbs; valid while this object exists and is not moved.
    ibv_send_wr *raw()
    {
        wr_.sg_list = sges_.data();
        wr_.num_sge = static_cast<int>(sges_.size());
        return &wr_;
    }
    ibv_send_wr &fields() { return wr_; }

private:
    SendWr(ibv_wr_opcode opcode, Sges sges) : sges_(std::move(sges))
    {
        wr_.opcode = opcode;
        wr_.send_flags = IBV_SEND_SIGNALED;
    }
    SendWr(ibv_wr_opcode opcode, Sges sges, Remote remote) : SendWr(opcode, std::move(sges))
    {
        wr_.wr.rdma = {remote.address, remote.rkey};
    }
    SendWr(ibv_wr_opcode opcode, ibv_sge result, Remote at, std::uint64_t compare_add,
           std::uint64_t swap)
        : SendWr(opcode, Sges{result})
    {
        wr_.wr.atomic = {at.address, compare_add, swap, at.rkey};
    }
    SendWr &set(unsigned flag)
    {
        wr_.send_flags |= flag;
        return *this;
    }
    SendWr &clear(unsigned flag)
    {
        wr_.send_flags &= ~flag;
        return *this;
    }

    ibv_send_wr wr_{};
    Sges sges_;
};

} // namespace vt
