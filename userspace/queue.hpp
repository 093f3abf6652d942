/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Queues: a ring, its lock, and the rules of the verbs for posting and polling.
 * They make no system call, so that unit tests can run them on plain memory.
 */
#ifndef ROX_QUEUE_HPP
#define ROX_QUEUE_HPP

#include "lock.hpp"
#include "ring.hpp"
#include "wqe.hpp"

#include <infiniband/verbs.h>
#include <rdma/rox-abi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace rox {

/**
 * Alignment of data that different threads write. One thread polls and so frees
 * entries of queues to which other threads post. Each queue, and in it the count of
 * freed entries, therefore has cache lines of its own.
 */
constexpr size_t cache_line = ROX_CACHE_LINE;

/// Result of a post: 0 or an errno value, whether the doorbell must be rung, and whether that may
/// be later, for this number of work requests and more.
struct Posted {
    int error = 0;
    bool wake = false;
    bool later = false;
    uint32_t count = 0;
};

/**
 * A work request occupies its entry until the program has polled its completion or,
 * if it is unsignaled, a later completion (IBTA 10.8.5.1; adapters do the same).
 * Otherwise a CQ as large as its queues could overflow. Polling frees the entries,
 * under the CQ's lock.
 */
class alignas(cache_line) SendQueue {
public:
    /// @param max_wr how many work requests may be outstanding
    void attach(const RingView &view, uint32_t max_wr, const SendLimits &limits);

    /// Sets whether the QP's state allows send work requests.
    void set_accepting(bool accepting) { accepting_ = accepting; }

    SpinLock &lock() { return lock_; }

    /// Empties the queue after the QP went to RESET. The caller holds lock(), and no
    /// completion of the QP is left in its CQ.
    void reset();

    /// A completion was polled: all entries before ring index @p consumer are free.
    void complete_to(uint32_t consumer) { completed_.store(consumer, std::memory_order_release); }

    /// ibv_post_send() without the doorbell.
    Posted post(ibv_send_wr *wr, ibv_send_wr **bad_wr);

    /** @name One batch of ibv_wr_*: start(), any number of begin() and setters, then complete() or
     * abort(). After an error, complete() posts nothing and returns the error.
     */
    ///@{
    void start();
    /// Starts a work request; nullptr after an error. The caller fills in the operation's members.
    rox_send_wqe *begin(uint64_t wr_id, ibv_wr_opcode opcode, unsigned int flags);
    void set_bind(const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info);
    void set_ud(const ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey);
    void set_xrc_srqn(uint32_t remote_srqn);
    void set_sges(std::span<const ibv_sge> list);
    void set_inline(std::span<const ibv_data_buf> buffers);
    Posted complete();
    void abort();
    ///@}

private:
    struct Layout;

    rox_send_wqe *current() { return reinterpret_cast<rox_send_wqe *>(slot_); }

    SpinLock lock_;
    bool accepting_ = false;
    ProducerRing ring_;
    SendLimits limits_;
    std::byte *slot_ = nullptr; // entry of the batch's current work request
    int batch_error_ = 0;
    alignas(cache_line) std::atomic<uint32_t> completed_ = 0; // written by polling
};

/**
 * The receive queue of a QP or an SRQ. Entries of a QP's queue are free once their
 * completions were polled (see SendQueue), entries of an SRQ once a QP has taken them.
 */
class alignas(cache_line) RecvQueue {
public:
    enum class Kind { of_qp, shared };

    void attach(const RingView &view, uint32_t max_wr, uint32_t max_sge, Kind kind);

    void set_accepting(bool accepting) { accepting_ = accepting; }

    SpinLock &lock() { return lock_; }

    /// Empties the queue after the QP went to RESET. The caller holds lock(), and no
    /// completion of the QP is left in its CQ.
    void reset();

    /// @p count completions were polled. The caller holds the lock of the QP's CQ.
    void complete(uint32_t count)
    {
        completed_.store(completed_.load(std::memory_order_relaxed) + count,
                         std::memory_order_release);
    }

    uint32_t max_sge() const { return max_sge_; }

    /// ibv_post_recv() or ibv_post_srq_recv() without the doorbell.
    Posted post(ibv_recv_wr *wr, ibv_recv_wr **bad_wr);

private:
    struct Layout;

    SpinLock lock_;
    bool accepting_ = false;
    ProducerRing ring_;
    uint32_t max_sge_ = 0;
    alignas(cache_line) std::atomic<uint32_t> completed_ = 0; // written by polling
};

struct Qp;
class QpTable;

class alignas(cache_line) CompletionQueue {
public:
    /// Sets the table of the QPs whose entries are freed by polling.
    void set_qps(const QpTable *qps) { qps_ = qps; }

    /// To be called when an XRC SRQ gets this CQ. Its completions carry the numbers of XRC
    /// targets. The table does not hold those, so their lookup must use find_unknown().
    void expect_xrc_targets() { has_xrc_targets_.store(true, std::memory_order_relaxed); }

    /// Sets the ring, at creation or after a resize. For a resize the caller holds lock() and
    /// arm_lock().
    void attach(const RingView &view);

    /// The ring is lost: lets every later poll fail. The caller holds both locks.
    void set_broken() { broken_ = true; }

    void elide_locks();

    SpinLock &lock() { return lock_; }

    /// Excludes arm() while the ring is replaced.
    SpinLock &arm_lock() { return arm_lock_; }

    /// ibv_poll_cq(): the number of completions taken, or a negative errno value.
    int poll(std::span<ibv_wc> wcs);

    /// What was taken last: the number of completions until now, and the length of that message.
    struct Taken {
        uint32_t number;
        uint32_t length;
    };
    Taken taken();

    /// ibv_req_notify_cq().
    void arm(bool solicited_only);

    /// Removes the completions of a QP that was reset or destroyed.
    void purge(uint32_t qp_num);

    /** @name ibv_start_poll() and so on: 0, ENOENT if there is no completion, or EIO.
     * The lock is held from a successful start_poll() to end_poll(). When the poll moves to a
     * completion, it frees the entries of that completion.
     */
    ///@{
    int start_poll();
    int next_poll();
    void end_poll();
    /// The completion that the poll has moved to.
    const rox_cqe &current() const { return current_; }
    ///@}

private:
    struct Freed;

    Qp *owner(const rox_cqe &cqe) const;
    void give_back(const Freed &freed);
    int advance();
    const rox_cqe *peek() { return reinterpret_cast<const rox_cqe *>(ring_.peek()); }
    int empty_error();

    SpinLock lock_;
    SpinLock arm_lock_;
    ConsumerRing ring_;
    rox_cqe current_ = {}; // a copy, because the kernel may reuse the ring entry
    const QpTable *qps_ = nullptr;
    std::atomic<bool> has_xrc_targets_ = false;
    bool broken_ = false;
};

} // namespace rox

#endif // ROX_QUEUE_HPP
