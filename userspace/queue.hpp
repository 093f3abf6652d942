/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Queues: a ring with its lock and the rules of the verbs for posting and
 * polling. They know nothing of libibverbs' objects and make no system call, so
 * that they also run over plain memory.
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

/// What became of a post: 0 or a value of errno, and whether to ring the doorbell.
struct Posted {
    int error = 0;
    bool wake = false;
};

/**
 * A work request is outstanding, and keeps its place in the queue, until the
 * program has polled its completion, or a later one's if it has none of its own
 * (IBTA 10.8.5.1, as adapters do it): otherwise a CQ that is as large as its
 * queues could overflow. Pollers say what is complete, under the CQ's lock.
 */
class SendQueue {
public:
    /// @param max_wr the most work requests that may wait in the ring
    void attach(const RingView &view, uint32_t max_wr, const SendLimits &limits);

    /// Does the QP's state take send work requests at all?
    void set_accepting(bool accepting) { accepting_ = accepting; }

    SpinLock &lock() { return lock_; }

    /// Empties the queue after the QP went to RESET. The caller holds lock(), and no
    /// completion of the QP is left in its CQ.
    void reset();

    /// A completion was polled: all before @p consumer, an index of the ring, is complete.
    void complete_to(uint32_t consumer) { completed_.store(consumer, std::memory_order_release); }

    /// ibv_post_send() without the doorbell.
    Posted post(ibv_send_wr *wr, ibv_send_wr **bad_wr);

    /** @name One batch of ibv_wr_*: start(), any number of begin() and setters, then complete() or
     * abort(). An error is kept until complete(), which then posts nothing.
     */
    ///@{
    void start();
    /// A new work request, or nullptr after an error. Its operation is the caller's to fill in.
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
    rox_send_wqe *current() { return reinterpret_cast<rox_send_wqe *>(slot_); }

    SpinLock lock_;
    bool accepting_ = false;
    ProducerRing ring_;
    std::atomic<uint32_t> completed_ = 0;
    SendLimits limits_;
    std::byte *slot_ = nullptr; // of the work request that the batch is at
    int batch_error_ = 0;
};

/**
 * The receive queue of a QP, whose places are free when completions are polled
 * (see SendQueue), or an SRQ, whose places are free when QPs have taken them.
 */
class RecvQueue {
public:
    enum class Kind { of_qp, shared };

    void attach(const RingView &view, uint32_t max_wr, uint32_t max_sge, Kind kind);

    void set_accepting(bool accepting) { accepting_ = accepting; }

    SpinLock &lock() { return lock_; }

    /// Empties the queue after the QP went to RESET. The caller holds lock(), and no
    /// completion of the QP is left in its CQ.
    void reset();

    /// @p count completions were polled; the lock of the QP's CQ is held.
    void complete(uint32_t count)
    {
        completed_.store(completed_.load(std::memory_order_relaxed) + count,
                         std::memory_order_release);
    }

    uint32_t max_sge() const { return max_sge_; }

    /// ibv_post_recv() or ibv_post_srq_recv() without the doorbell.
    Posted post(ibv_recv_wr *wr, ibv_recv_wr **bad_wr);

private:
    SpinLock lock_;
    bool accepting_ = false;
    ProducerRing ring_;
    std::atomic<uint32_t> completed_ = 0;
    uint32_t max_sge_ = 0;
};

struct Qp;
class QpTable;

class CompletionQueue {
public:
    /// Whose queues get their places back when completions are polled.
    void serve(const QpTable *qps) { qps_ = qps; }

    /// An XRC SRQ will complete to it. Its receives have the numbers of targets, which are not
    /// in the table, so that nothing keeps the part of it where they would be.
    void expect_foreign() { has_foreign_.store(true, std::memory_order_relaxed); }

    /// At creation and after a resize; then the caller holds lock() and arm_lock().
    void attach(const RingView &view);

    /// The ring is lost: every poll fails from now on. Under both locks.
    void set_broken() { broken_ = true; }

    void elide_locks();

    SpinLock &lock() { return lock_; }

    /// Keeps arm() away from a ring that is being replaced.
    SpinLock &arm_lock() { return arm_lock_; }

    /// ibv_poll_cq(): completions taken, or a negative value of errno.
    int poll(std::span<ibv_wc> wcs);

    /// ibv_req_notify_cq().
    void arm(bool solicited_only);

    /// Removes the completions of a QP that is no more.
    void purge(uint32_t qp_num);

    /** @name ibv_start_poll() and so on: 0, ENOENT if there is no completion, or EIO.
     * The lock is held from a successful start_poll() to end_poll(). The places of a
     * completion are given back when the poll arrives at it.
     */
    ///@{
    int start_poll();
    int next_poll();
    void end_poll();
    /// The completion that the poll is at.
    const rox_cqe &current() const { return current_; }
    ///@}

private:
    struct Places;

    Qp *owner(const rox_cqe &cqe) const;
    void give_back(const Places &places);
    int advance();
    const rox_cqe *peek() { return reinterpret_cast<const rox_cqe *>(ring_.peek()); }
    int why_empty();

    SpinLock lock_;
    SpinLock arm_lock_;
    ConsumerRing ring_;
    rox_cqe current_ = {}; // a copy: its place in the ring is the kernel's again
    const QpTable *qps_ = nullptr;
    std::atomic<bool> has_foreign_ = false;
    bool broken_ = false;
};

} // namespace rox

#endif // ROX_QUEUE_HPP
