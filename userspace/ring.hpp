/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The program's ends of the rings in <rdma/rox-abi.h>. They take no locks and make
 * no system calls; their owner does.
 *
 * Each end keeps its own index in private memory and publishes it in the ring. It
 * reads, checks and caches the index of the other end.
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

/// A ring in a mapping: its control block and its entries.
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
 * The end that adds entries, of an SQ, RQ or SRQ.
 *
 * reserve() entries and fill them. Then publish() makes all of them visible at
 * once, or roll_back() drops them.
 */
class ProducerRing {
public:
    /**
     * @param limit how many entries may be in use, at most all of the ring
     * @param freed number of entries ever freed; nullptr: an entry is free as soon as the
     *        consumer has taken it
     */
    void attach(const RingView &view, uint32_t limit, const std::atomic<uint32_t> *freed = nullptr)
    {
        view_ = view;
        freed_ = freed;
        limit_ = std::min(limit, view.entries());
        head_ = view ? view.producer().load(std::memory_order_relaxed) : 0;
        published_ = head_;
        consumer_ = head_ - limit_; // looks full: the first reserve() reads the index
    }

    explicit operator bool() const { return static_cast<bool>(view_); }
    const RingView &view() const { return view_; }

    /// The next entry, or nullptr; then reserve_error() tells why.
    std::byte *reserve()
    {
        if (head_ - consumer_ >= limit_ && !refresh()) {
            return nullptr;
        }
        return view_.at(head_++);
    }

    /// Why reserve() failed: ENOMEM for a full ring, EIO for an invalid consumer index.
    int reserve_error() const { return head_ - consumer_ > view_.entries() ? EIO : ENOMEM; }

    /// Index of the entry that the next reserve() returns.
    uint32_t head() const { return head_; }

    /// Undoes the last reserve().
    void drop_last() { head_--; }

    /// Makes the reserved entries visible to the consumer. Their number.
    uint32_t publish()
    {
        const uint32_t count = head_ - published_;

        if (count != 0) {
            published_ = head_;
            view_.producer().store(head_, std::memory_order_release);
        }
        return count;
    }

    /// Drops the reserved entries that were not published.
    void roll_back() { head_ = published_; }

    /// To be called after publish(): the flags, of which ROX_RING_NEED_WAKEUP says that the
    /// consumer sleeps and needs a doorbell.
    uint32_t flags() const
    {
        std::atomic_thread_fence(std::memory_order_seq_cst);
        return view_.flags().load(std::memory_order_relaxed);
    }

    /// After the QP went to RESET: drops the entries that the consumer has not taken.
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
    /* Reads how far entries are free. True if one can be reserved. */
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
    uint32_t published_ = 0; // the producer index in the ring
    uint32_t consumer_ = 0;  // the consumer index, or *freed_, as last read
};

/**
 * The end that takes entries, of a CQ.
 *
 * peek() and pop() go through the entries. release() returns all popped entries
 * to the producer.
 */
class ConsumerRing {
public:
    /// Starts at the consumer index in the ring. Called again after a resize.
    void attach(const RingView &view)
    {
        view_ = view;
        tail_ = view.consumer().load(std::memory_order_relaxed);
        producer_ = tail_;
        corrupted_ = false;
    }

    const RingView &view() const { return view_; }

    /// The oldest entry, or nullptr if there is none or the ring is corrupted().
    std::byte *peek()
    {
        if (tail_ == producer_ && !refresh()) {
            return nullptr;
        }
        return view_.at(tail_);
    }

    void pop() { tail_++; }

    /// Returns the popped entries to the producer.
    void release() { view_.consumer().store(tail_, std::memory_order_release); }

    /// True after the producer index was invalid. The ring stays unusable.
    bool corrupted() const { return corrupted_; }

    /// True if the kernel has set ROX_RING_ERROR: it adds no more entries.
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
     * Removes the entries for which @p is_victim is true. The others keep their order and
     * move towards the producer index, so the producer may add entries meanwhile.
     * @return the number of removed entries
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
    /* Reads the producer index. True if there are entries. */
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
    uint32_t producer_ = 0; // the producer index as last read
    bool corrupted_ = false;
};

} // namespace rox

#endif // ROX_RING_HPP
