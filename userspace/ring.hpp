/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The program's end of the rings in <rdma/rox-abi.h>. No locks, no system
 * calls: the owner of a ring has both.
 *
 * Each end keeps its own index in private memory and publishes it; the peer's
 * index is read, checked and cached.
 */
#ifndef ROX_RING_HPP
#define ROX_RING_HPP

#include <rdma/rox-abi.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>

namespace rox {

/// Where a ring lies in memory.
class RingView {
public:
    RingView() = default;

    RingView(std::byte *map, const rox_ring_desc &desc)
        : ctrl_(reinterpret_cast<rox_ring_ctrl *>(map + desc.ctrl_offset)),
          base_(map + desc.entries_offset), entries_(desc.entries), stride_(desc.stride)
    {}

    explicit operator bool() const { return entries_ != 0; }
    uint32_t entries() const { return entries_; }
    uint32_t stride() const { return stride_; }

    std::byte *at(uint32_t index) const
    {
        return base_ + static_cast<size_t>(index & (entries_ - 1)) * stride_;
    }

    std::atomic_ref<uint32_t> producer() const { return std::atomic_ref(ctrl_->producer); }
    std::atomic_ref<uint32_t> consumer() const { return std::atomic_ref(ctrl_->consumer); }
    std::atomic_ref<uint32_t> flags() const { return std::atomic_ref(ctrl_->flags); }

private:
    rox_ring_ctrl *ctrl_ = nullptr;
    std::byte *base_ = nullptr;
    uint32_t entries_ = 0;
    uint32_t stride_ = 0;
};

/**
 * The end that adds entries: SQ, RQ and SRQ.
 *
 * reserve() any number of entries, fill them, then publish() them together or
 * roll_back() to what was published.
 */
class ProducerRing {
public:
    /**
     * @param limit the most entries that may be in the ring, if fewer than it holds
     * @param freed entries ever given back; nullptr if the consumer's index says it
     */
    void attach(const RingView &view, uint32_t limit, const std::atomic<uint32_t> *freed = nullptr)
    {
        view_ = view;
        freed_ = freed;
        limit_ = std::min(limit, view.entries());
        head_ = view ? view.producer().load(std::memory_order_relaxed) : 0;
        published_ = head_;
        consumer_ = head_ - limit_; // forces a look at the first reserve()
    }

    explicit operator bool() const { return static_cast<bool>(view_); }
    const RingView &view() const { return view_; }

    /// The next entry, or nullptr; then why_not() tells.
    std::byte *reserve()
    {
        if (head_ - consumer_ >= limit_ && !refresh()) {
            return nullptr;
        }
        return view_.at(head_++);
    }

    /// Why reserve() failed: ENOMEM for a full ring, EIO for an index that cannot be.
    int why_not() const { return head_ - consumer_ > view_.entries() ? EIO : ENOMEM; }

    /// The index of the entry that reserve() gives next.
    uint32_t head() const { return head_; }

    /// Takes back the last reserve().
    void drop_last() { head_--; }

    /// Makes all that is reserved visible to the consumer. False if there was nothing.
    bool publish()
    {
        if (head_ == published_) {
            return false;
        }
        published_ = head_;
        view_.producer().store(head_, std::memory_order_release);
        return true;
    }

    void roll_back() { head_ = published_; }

    /// After publish(): does the consumer sleep, so that it must be woken by a doorbell?
    bool needs_wakeup() const
    {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return (view_.flags().load(std::memory_order_relaxed) & ROX_RING_NEED_WAKEUP) != 0;
    }

    /// The QP went to RESET: whatever the consumer has not taken is forgotten.
    void reset()
    {
        if (!view_) {
            return;
        }
        head_ = view_.consumer().load(std::memory_order_acquire);
        published_ = head_;
        consumer_ = head_;
        view_.producer().store(head_, std::memory_order_release);
    }

private:
    bool refresh()
    {
        consumer_ = freed_ != nullptr ? freed_->load(std::memory_order_acquire)
                                      : view_.consumer().load(std::memory_order_acquire);
        return head_ - consumer_ < limit_;
    }

    RingView view_;
    const std::atomic<uint32_t> *freed_ = nullptr;
    uint32_t limit_ = 0;
    uint32_t head_ = 0;      // next entry to reserve
    uint32_t published_ = 0; // what the consumer may see
    uint32_t consumer_ = 0;  // the consumer's index, or what was freed, as last seen
};

/**
 * The end that takes entries: a CQ.
 *
 * peek() and pop() go through the entries; release() gives all that was popped
 * back to the producer.
 */
class ConsumerRing {
public:
    /// Begins at the ring's own consumer index; used again after a resize.
    void attach(const RingView &view)
    {
        view_ = view;
        tail_ = view.consumer().load(std::memory_order_relaxed);
        producer_ = tail_;
        corrupted_ = false;
    }

    const RingView &view() const { return view_; }

    /// The oldest entry, or nullptr if there is none or corrupted().
    std::byte *peek()
    {
        if (tail_ == producer_ && !refresh()) {
            return nullptr;
        }
        return view_.at(tail_);
    }

    void pop() { tail_++; }

    void release() { view_.consumer().store(tail_, std::memory_order_release); }

    /// The producer's index cannot be right; the ring stays unusable.
    bool corrupted() const { return corrupted_; }

    /// The producer has given up the ring; no entry will be added.
    bool failed() const
    {
        return (view_.flags().load(std::memory_order_acquire) & ROX_RING_ERROR) != 0;
    }

    /// Asks for an event; @p bits are ROX_RING_ARM_*.
    void arm(uint32_t bits)
    {
        view_.flags().fetch_or(bits, std::memory_order_seq_cst);
        std::atomic_thread_fence(std::memory_order_seq_cst);
    }

    /**
     * Removes the entries that @p is_victim names; the others keep their order.
     * The producer may go on adding meanwhile: the gap closes towards the new end.
     * @return the number removed
     */
    template <typename Entry, typename Predicate>
    uint32_t remove_if(Predicate is_victim)
    {
        if (!refresh()) {
            return 0;
        }
        uint32_t to = producer_;

        for (uint32_t from = producer_; from != tail_;) {
            const auto *entry = reinterpret_cast<const Entry *>(view_.at(--from));

            if (is_victim(*entry)) {
                continue;
            }
            if (--to != from) {
                *reinterpret_cast<Entry *>(view_.at(to)) = *entry;
            }
        }

        const uint32_t removed = to - tail_;

        tail_ = to;
        release();
        return removed;
    }

private:
    /* True if there are entries. */
    bool refresh()
    {
        const uint32_t producer = view_.producer().load(std::memory_order_acquire);

        if (producer - tail_ > view_.entries()) {
            corrupted_ = true;
        }
        if (corrupted_) {
            producer_ = tail_;
            return false;
        }
        producer_ = producer;
        return producer_ != tail_;
    }

    RingView view_;
    uint32_t tail_ = 0;     // next entry to take
    uint32_t producer_ = 0; // the producer's index as last seen
    bool corrupted_ = false;
};

} // namespace rox

#endif // ROX_RING_HPP
