/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A ring in plain memory, with the peer's end for the test to play.
 */
#ifndef ROX_TESTS_PLAIN_RING_H
#define ROX_TESTS_PLAIN_RING_H

#include "ring.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace rox::test {

class PlainRing {
public:
    /// @param first both indices begin here
    PlainRing(uint32_t entries, uint32_t stride, uint32_t first = 0)
        : desc_{.ctrl_offset = 0,
                .entries_offset = sizeof(rox_ring_ctrl),
                .entries = entries,
                .stride = stride},
          memory_((sizeof(rox_ring_ctrl) + size_t{entries} * stride) / sizeof(Line))
    {
        ctrl().producer = first;
        ctrl().consumer = first;
    }

    RingView view() { return {bytes(), desc_}; }
    rox_ring_ctrl &ctrl() { return *reinterpret_cast<rox_ring_ctrl *>(bytes()); }

    std::byte *at(uint32_t index)
    {
        return bytes() + desc_.entries_offset + size_t{index & (desc_.entries - 1)} * desc_.stride;
    }

    /// The peer's end, as a consumer: how many entries are waiting.
    uint32_t waiting()
    {
        return view().producer().load(std::memory_order_acquire) - ctrl().consumer;
    }

    /// Copies the oldest entry and takes it.
    template <typename T>
    T take()
    {
        T value;

        std::memcpy(&value, at(ctrl().consumer), sizeof(value));
        view().consumer().store(ctrl().consumer + 1, std::memory_order_release);
        return value;
    }

    /// The peer's end, as a producer.
    template <typename T>
    void add(const T &value)
    {
        std::memcpy(at(ctrl().producer), &value, sizeof(value));
        view().producer().store(ctrl().producer + 1, std::memory_order_release);
    }

private:
    struct alignas(16) Line {
        std::byte bytes[16];
    };

    std::byte *bytes() { return memory_.data()->bytes; }

    rox_ring_desc desc_;
    std::vector<Line> memory_;
};

/// A completion of QP @p qp_num.
inline rox_cqe completion(uint64_t wr_id, uint32_t qp_num = 1)
{
    rox_cqe cqe = {};

    cqe.wr_id = wr_id;
    cqe.qp_num = qp_num;
    return cqe;
}

} // namespace rox::test

#endif // ROX_TESTS_PLAIN_RING_H
