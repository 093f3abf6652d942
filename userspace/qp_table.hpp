/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Which QP of a context has a number: pollers look it up for each completion.
 */
#ifndef ROX_QP_TABLE_HPP
#define ROX_QP_TABLE_HPP

#include "lock.hpp"
#include "memory.hpp"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace rox {

struct Qp;

/**
 * A table of two levels over the 24 bits of a QP number. Looking up takes no
 * lock: whoever looks a number up knows that its QP is not removed meanwhile.
 */
class QpTable : public HeapObject {
public:
    ~QpTable();

    /// The QP, or nullptr if the number is nobody's.
    Qp *find(uint32_t qpn) const
    {
        const Leaf *leaf = leaves_[leaf_of(qpn)].load(std::memory_order_acquire);

        return leaf != nullptr ? leaf->qps[qpn % leaf_size].load(std::memory_order_acquire)
                               : nullptr;
    }

    /// 0 or ENOMEM.
    int insert(uint32_t qpn, Qp *qp);
    void remove(uint32_t qpn);

private:
    static constexpr size_t leaf_size = 4096;
    static constexpr size_t qpn_bits = 24;
    static constexpr size_t leaf_count = (size_t{1} << qpn_bits) / leaf_size;

    struct Leaf : HeapObject {
        uint32_t used; // entries that are set, under lock_
        std::array<std::atomic<Qp *>, leaf_size> qps;
    };

    static constexpr size_t leaf_of(uint32_t qpn) { return qpn / leaf_size % leaf_count; }

    SpinLock lock_;
    std::array<std::atomic<Leaf *>, leaf_count> leaves_;
};

} // namespace rox

#endif // ROX_QP_TABLE_HPP
