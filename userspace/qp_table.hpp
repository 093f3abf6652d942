/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The QPs of a context by number. Polling looks up the QP of each completion.
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
 * A two-level table over the 24 bits of a QP number. A leaf is freed with its last QP:
 * numbers are given out in turn, so a program that creates and destroys QPs for a long
 * time would otherwise end up with all leaves, 128 MiB.
 */
class QpTable : public HeapObject {
public:
    ~QpTable();

    /// The QP, or nullptr. Takes no lock: the caller ensures that the QP of this number is not
    /// removed meanwhile, which also keeps its leaf.
    Qp *find(uint32_t qpn) const
    {
        const Leaf *leaf = leaves_[leaf_of(qpn)].load(std::memory_order_acquire);

        return leaf != nullptr ? leaf->qps[qpn % leaf_size].load(std::memory_order_acquire)
                               : nullptr;
    }

    /// The same for a number that the table may not hold, so that nothing keeps the leaf.
    Qp *find_unknown(uint32_t qpn) const
    {
        const std::lock_guard guard(lock_);

        return find(qpn);
    }

    /// 0 or ENOMEM.
    int insert(uint32_t qpn, Qp *qp);
    void remove(uint32_t qpn);

private:
    static constexpr size_t leaf_size = 4096;
    static constexpr size_t qpn_bits = 24;
    static constexpr size_t leaf_count = (size_t{1} << qpn_bits) / leaf_size;

    struct Leaf : HeapObject {
        uint32_t used; // number of QPs in the leaf, under lock_
        std::array<std::atomic<Qp *>, leaf_size> qps;
    };

    static constexpr size_t leaf_of(uint32_t qpn) { return qpn / leaf_size % leaf_count; }

    mutable SpinLock lock_;
    std::array<std::atomic<Leaf *>, leaf_count> leaves_;
};

} // namespace rox

#endif // ROX_QP_TABLE_HPP
