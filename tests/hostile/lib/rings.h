// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The rings that the provider has mapped into this process, and doorbells without the provider.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include <infiniband/verbs.h>

#include "../../../include/uapi/rdma/rox-abi.h"

namespace hostile {

/// A ring in the memory of the program.
struct Ring {
    std::uint8_t *base = nullptr; ///< its struct rox_ring_ctrl
    std::uint32_t entries = 0;
    std::uint32_t stride = 0;

    rox_ring_ctrl &ctrl() const { return *reinterpret_cast<rox_ring_ctrl *>(base); }
    std::uint8_t *at(std::uint32_t index) const
    {
        return base + sizeof(rox_ring_ctrl) + std::size_t{index & (entries - 1)} * stride;
    }
    /// Bytes from the control block to the end of the last entry.
    std::size_t size() const { return sizeof(rox_ring_ctrl) + std::size_t{entries} * stride; }

    static std::uint32_t load(__u32 &index) { return std::atomic_ref<__u32>(index).load(); }
    static void store(__u32 &index, std::uint32_t value)
    {
        std::atomic_ref<__u32>(index).store(value);
    }
    std::uint32_t producer() const { return load(ctrl().producer); }
    std::uint32_t consumer() const { return load(ctrl().consumer); }
    void produce(std::uint32_t to) const { store(ctrl().producer, to); }
};

/// A mapping of the device's command fd, from the rings of an object on.
struct Mapping {
    std::uint8_t *base = nullptr;
    std::size_t size = 0;
};

/// Calls @p create, which creates one object, and returns where the kernel has put its rings. The
/// mapping may hold rings of other objects, too.
Mapping mapped_by(const std::function<void()> &create);

struct QpRings {
    Ring sq, rq;
};
/// The rings of a QP with capabilities @p cap in its mapping (Documentation/abi.md).
QpRings rings_of(const Mapping &mapping, const ibv_qp_cap &cap, bool srq = false);
Ring srq_ring_of(const Mapping &mapping, std::uint32_t entries, std::uint32_t max_sge);
Ring cq_ring_of(const Mapping &mapping, std::uint32_t entries);

/// POST_SEND or POST_RECV without work requests. Fails if the kernel refuses it.
void ring_send_doorbell(const ibv_qp *qp);
void ring_recv_doorbell(const ibv_qp *qp);

} // namespace hostile
