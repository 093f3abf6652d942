/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "queue.hpp"

#include "cqe.hpp"
#include "objects.hpp"
#include "qp_table.hpp"

#include <cerrno>

namespace rox {

namespace {

/* Publishes what was added, and says so in @p result. The caller holds the queue's lock. */
void publish(ProducerRing &ring, Posted &result)
{
    result.count = ring.publish();
    if (result.count == 0) {
        return;
    }
    const uint32_t flags = ring.flags();

    result.wake = (flags & ROX_RING_NEED_WAKEUP) != 0;
    result.later = (flags & ROX_RING_WAKE_LATER) != 0;
}

/*
 * Adds a chain of work requests and publishes them. Stops at the first bad one and
 * stores it in *bad_wr. The caller holds the queue's lock.
 */
template <typename Ring, typename Wr, typename Encode>
Posted post_chain(Ring &ring, bool accepting, Wr *wr, Wr **bad_wr, Encode encode)
{
    Posted result;

    for (; wr != nullptr; wr = wr->next) {
        std::byte *slot = nullptr;

        if (!accepting || !ring) {
            result.error = EINVAL;
        } else if ((slot = ring.reserve()) == nullptr) {
            result.error = ring.reserve_error();
        } else if ((result.error = encode(slot, *wr)) != 0) {
            ring.drop_last();
        }
        if (result.error != 0) {
            *bad_wr = wr;
            break;
        }
    }
    publish(ring, result);
    return result;
}

} // namespace

/* Of each queue, polling writes one cache line, in which there is nothing else. */
struct SendQueue::Layout {
    static_assert(offsetof(SendQueue, completed_) % cache_line == 0);
    static_assert(sizeof(SendQueue) == offsetof(SendQueue, completed_) + cache_line);
    static_assert(offsetof(SendQueue, batch_error_) < offsetof(SendQueue, completed_));
};

struct RecvQueue::Layout {
    static_assert(offsetof(RecvQueue, completed_) % cache_line == 0);
    static_assert(sizeof(RecvQueue) == offsetof(RecvQueue, completed_) + cache_line);
    static_assert(offsetof(RecvQueue, max_sge_) < offsetof(RecvQueue, completed_));
};

void SendQueue::attach(const RingView &view, uint32_t max_wr, const SendLimits &limits)
{
    ring_.attach(view, max_wr, &completed_);
    complete_to(ring_.head());
    limits_ = limits;
}

void SendQueue::reset()
{
    ring_.reset();
    complete_to(ring_.head());
}

Posted SendQueue::post(ibv_send_wr *wr, ibv_send_wr **bad_wr)
{
    const std::lock_guard guard(lock_);

    return post_chain(ring_, accepting_, wr, bad_wr,
                      [this](std::byte *slot, const ibv_send_wr &one) {
                          return encode_send(slot, one, limits_);
                      });
}

void SendQueue::start()
{
    lock_.lock();
    slot_ = nullptr;
    batch_error_ = accepting_ && ring_ ? 0 : EINVAL;
}

rox_send_wqe *SendQueue::begin(uint64_t wr_id, ibv_wr_opcode opcode, unsigned int flags)
{
    constexpr unsigned int allowed = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;

    if (batch_error_ == 0 && !opcode_is_legal(limits_.type, opcode)) {
        batch_error_ = EINVAL;
    }
    if (batch_error_ == 0 && (slot_ = ring_.reserve()) == nullptr) {
        batch_error_ = ring_.reserve_error();
    }
    if (batch_error_ != 0) {
        slot_ = nullptr;
        return nullptr;
    }
    *current() = {};
    current()->wr_id = wr_id;
    current()->opcode = opcode;
    current()->send_flags = flags & allowed;
    return current();
}

void SendQueue::set_bind(const ibv_mw *mw, uint32_t rkey, const ibv_mw_bind_info &info)
{
    if (slot_ != nullptr && make_posted_bind(current()->wr.bind, mw, rkey, info) != 0) {
        batch_error_ = EINVAL;
    }
}

void SendQueue::set_ud(const ibv_ah *ah, uint32_t remote_qpn, uint32_t remote_qkey)
{
    if (slot_ == nullptr) {
        return;
    }
    if (ah == nullptr || limits_.type != IBV_QPT_UD) {
        batch_error_ = EINVAL;
        return;
    }
    current()->wr.ud.ah = ah_index(ah);
    current()->wr.ud.remote_qpn = remote_qpn;
    current()->wr.ud.remote_qkey = remote_qkey;
}

void SendQueue::set_xrc_srqn(uint32_t remote_srqn)
{
    if (slot_ == nullptr) {
        return;
    }
    if (limits_.type != IBV_QPT_XRC_SEND) {
        batch_error_ = EINVAL;
        return;
    }
    current()->xrc_srqn = remote_srqn;
}

void SendQueue::set_sges(std::span<const ibv_sge> list)
{
    if (slot_ != nullptr &&
        (!has_payload(current()->opcode) || put_sge_list(slot_, list, limits_) != 0)) {
        batch_error_ = EINVAL;
    }
}

void SendQueue::set_inline(std::span<const ibv_data_buf> buffers)
{
    if (slot_ == nullptr) {
        return;
    }
    if (!opcode_takes_inline(static_cast<ibv_wr_opcode>(current()->opcode)) ||
        put_inline(slot_, buffers, limits_) != 0) {
        batch_error_ = EINVAL;
    }
}

Posted SendQueue::complete()
{
    Posted result = {.error = batch_error_};

    if (result.error != 0) {
        ring_.roll_back();
    } else {
        publish(ring_, result);
    }
    slot_ = nullptr;
    lock_.unlock();
    return result;
}

void SendQueue::abort()
{
    ring_.roll_back();
    slot_ = nullptr;
    lock_.unlock();
}

void RecvQueue::attach(const RingView &view, uint32_t max_wr, uint32_t max_sge, Kind kind)
{
    ring_.attach(view, max_wr, kind == Kind::of_qp ? &completed_ : nullptr);
    completed_.store(ring_.head(), std::memory_order_release);
    max_sge_ = max_sge;
}

void RecvQueue::reset()
{
    ring_.reset();
    completed_.store(ring_.head(), std::memory_order_release);
}

Posted RecvQueue::post(ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    const std::lock_guard guard(lock_);

    return post_chain(ring_, accepting_, wr, bad_wr,
                      [this](std::byte *slot, const ibv_recv_wr &one) {
                          return encode_recv(slot, one, max_sge_);
                      });
}

void CompletionQueue::attach(const RingView &view)
{
    ring_.attach(view);
}

void CompletionQueue::elide_locks()
{
    lock_.elide();
    arm_lock_.elide();
}

/*
 * The error to return when peek() found nothing: ENOENT, or EIO if no entry will ever
 * come. The kernel sets ROX_RING_ERROR after its last entry, so peek once more after
 * the flag was seen. The caller holds the lock.
 */
int CompletionQueue::empty_error()
{
    if (ring_.corrupted()) {
        return EIO;
    }
    return ring_.failed() && peek() == nullptr ? EIO : ENOENT;
}

/*
 * Queue entries of one QP that polled completions have freed. The CQ's own entries
 * must be returned to the kernel before anybody can post to these: a CQ as large as
 * its queues has no other room for the next completions.
 */
struct CompletionQueue::Freed {
    Qp *qp = nullptr;
    bool sent = false;
    uint32_t sq_consumer = 0;
    uint32_t received = 0;

    void add(const rox_cqe &cqe)
    {
        if (is_send(cqe)) {
            sent = true;
            sq_consumer = cqe.sq_consumer;
        } else {
            received++;
        }
    }
};

/*
 * The QP whose queue entries a completion frees, or nullptr. A QP exists as long as
 * the CQ has completions of it, see destroy_qp(). The caller holds the lock.
 */
Qp *CompletionQueue::owner(const rox_cqe &cqe) const
{
    if (qps_ == nullptr) {
        return nullptr;
    }
    return is_send(cqe) || !has_xrc_targets_.load(std::memory_order_relaxed)
               ? qps_->find(cqe.qp_num)
               : qps_->find_unknown(cqe.qp_num);
}

/* Returns the popped CQ entries, then frees the queue entries. The caller holds the lock. */
void CompletionQueue::give_back(const Freed &freed)
{
    ring_.release();
    if (freed.qp == nullptr) {
        return;
    }
    if (freed.sent) {
        freed.qp->sq.complete_to(freed.sq_consumer);
    }
    if (freed.received != 0) {
        freed.qp->rq.complete(freed.received);
    }
}

int CompletionQueue::poll(std::span<ibv_wc> wcs)
{
    const std::lock_guard guard(lock_);
    Freed freed;
    int taken = 0;

    if (broken_) {
        return -EIO;
    }
    for (ibv_wc &wc : wcs) {
        const rox_cqe *cqe = peek();

        if (cqe == nullptr) {
            break;
        }
        decode(*cqe, wc);
        if (Qp *qp = owner(*cqe); qp != freed.qp) {
            if (freed.qp != nullptr) {
                give_back(freed);
            }
            freed = {.qp = qp};
        }
        freed.add(*cqe);
        ring_.pop();
        taken++;
    }
    if (taken != 0) {
        give_back(freed);
    } else if (!wcs.empty() && empty_error() == EIO) {
        return -EIO;
    }
    return taken;
}

/* The entry that was taken last is in the ring until the kernel has filled all others. */
CompletionQueue::Taken CompletionQueue::taken()
{
    const std::lock_guard guard(lock_);
    const RingView &view = ring_.view();
    const uint32_t number = view.consumer().load(std::memory_order_relaxed);

    return {number, reinterpret_cast<const rox_cqe *>(view.at(number - 1))->byte_len};
}

void CompletionQueue::arm(bool solicited_only)
{
    const std::lock_guard guard(arm_lock_);

    if (!broken_) {
        ring_.arm(solicited_only ? ROX_RING_ARM_SOLICITED : ROX_RING_ARM_NEXT);
    }
}

void CompletionQueue::purge(uint32_t qp_num)
{
    const std::lock_guard guard(lock_);

    if (!broken_) {
        ring_.remove_if<rox_cqe>([qp_num](const rox_cqe &cqe) { return cqe.qp_num == qp_num; });
    }
}

/*
 * Takes the next completion. Afterwards the program may do what it may do after a
 * poll: post to the freed entry and, if it has promised to use one thread, destroy the
 * QP or resize the CQ. The caller holds the lock.
 */
int CompletionQueue::advance()
{
    const rox_cqe *cqe = broken_ ? nullptr : peek();

    if (cqe == nullptr) {
        return broken_ ? EIO : empty_error();
    }
    current_ = *cqe;
    ring_.pop();

    Freed freed = {.qp = owner(current_)};

    freed.add(current_);
    give_back(freed);
    return 0;
}

int CompletionQueue::start_poll()
{
    lock_.lock();
    const int error = advance();

    if (error != 0) {
        lock_.unlock();
    }
    return error;
}

int CompletionQueue::next_poll()
{
    return advance();
}

void CompletionQueue::end_poll()
{
    lock_.unlock();
}

} // namespace rox
