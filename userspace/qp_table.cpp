/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "qp_table.hpp"

#include <cerrno>

namespace rox {

QpTable::~QpTable()
{
    for (const std::atomic<Leaf *> &leaf : leaves_) {
        delete leaf.load(std::memory_order_relaxed);
    }
}

int QpTable::insert(uint32_t qpn, Qp *qp)
{
    const std::lock_guard guard(lock_);
    std::atomic<Leaf *> &slot = leaves_[leaf_of(qpn)];
    Leaf *leaf = slot.load(std::memory_order_relaxed);

    if (leaf == nullptr) {
        leaf = make_object<Leaf>().release();
        if (leaf == nullptr) {
            return ENOMEM;
        }
        slot.store(leaf, std::memory_order_release);
    }
    leaf->qps[qpn % leaf_size].store(qp, std::memory_order_release);
    leaf->used++;
    return 0;
}

void QpTable::remove(uint32_t qpn)
{
    const std::lock_guard guard(lock_);
    std::atomic<Leaf *> &slot = leaves_[leaf_of(qpn)];
    Leaf *leaf = slot.load(std::memory_order_relaxed);

    leaf->qps[qpn % leaf_size].store(nullptr, std::memory_order_release);
    if (--leaf->used == 0) {
        slot.store(nullptr, std::memory_order_release);
        delete leaf;
    }
}

} // namespace rox
