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
 * A table of two levels over the 24 bits of a QP number. A leaf is freed with the
 * last QP in it: numbers go round, so that a program which makes and destroys QPs
 * for long enough would end with all leaves, 128 MiB.
 */
class QpTable : public HeapObject {
public:
    ~QpTable();

    /// The QP, or nullptr if the number is nobody's. Takes no lock: the caller knows
    /// that a QP of this number, and so the leaf, is not removed meanwhile.
    Qp *find(uint32_t qpn) const
    {
        const Leaf *leaf = leaves_[leaf_of(qpn)].load(std::memory_order_acquire);

        return leaf != nullptr ? leaf->qps[qpn % leaf_size].load(std::memory_order_acquire)
                               : nullptr;
    }

    /// The same for a number of which nothing is known.
    Qp *find_foreign(uint32_t qpn) const
    {
        const Guard guard(lock_);

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
        uint32_t used; // entries that are set, under lock_
        std::array<std::atomic<Qp *>, leaf_size> qps;
    };

    static constexpr size_t leaf_of(uint32_t qpn) { return qpn / leaf_size % leaf_count; }

    mutable SpinLock lock_;
    std::array<std::atomic<Leaf *>, leaf_count> leaves_;
};

} // namespace rox

#endif // ROX_QP_TABLE_HPP
