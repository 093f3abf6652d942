/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "queue.hpp"

#include "cqe.hpp"
#include "objects.hpp"
#include "qp_table.hpp"

#include <cerrno>

namespace rox {

namespace {

/*
 * Adds a chain of work requests up to the first bad one, which *bad_wr then
 * names, and publishes what was added. The caller holds the queue's lock.
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
            result.error = ring.why_not();
        } else if ((result.error = encode(slot, *wr)) != 0) {
            ring.drop_last();
        }
        if (result.error != 0) {
            *bad_wr = wr;
            break;
        }
    }
    result.wake = ring.publish() && ring.needs_wakeup();
    return result;
}

} // namespace

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
    const Guard guard(lock_);

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
        batch_error_ = ring_.why_not();
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
    current()->wr.ud.ah = ah_number(ah);
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
        result.wake = ring_.publish() && ring_.needs_wakeup();
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
    const Guard guard(lock_);

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
 * Why peek() found nothing: ENOENT, or EIO if nothing will ever come. The kernel
 * sets the flag after its last entry, so look for one again. The caller holds
 * the lock.
 */
int CompletionQueue::why_empty()
{
    if (ring_.corrupted()) {
        return EIO;
    }
    return ring_.failed() && peek() == nullptr ? EIO : ENOENT;
}

/*
 * Places that the completions of one QP free in its queues. Nobody may post to
 * them before the kernel has the completions' own places: in a CQ that is as
 * large as its queues, these are all that the next completions have.
 */
struct CompletionQueue::Places {
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
 * Whose places a completion frees; nullptr if nobody's. The QP is there as long
 * as there are completions of it, see destroy_qp(). The caller holds the lock.
 */
Qp *CompletionQueue::owner(const rox_cqe &cqe) const
{
    if (qps_ == nullptr) {
        return nullptr;
    }
    return is_send(cqe) || !has_foreign_.load(std::memory_order_relaxed)
               ? qps_->find(cqe.qp_num)
               : qps_->find_foreign(cqe.qp_num);
}

/* First the places of all that was popped, then those in the queues. The caller holds the lock. */
void CompletionQueue::give_back(const Places &places)
{
    ring_.release();
    if (places.qp == nullptr) {
        return;
    }
    if (places.sent) {
        places.qp->sq.complete_to(places.sq_consumer);
    }
    if (places.received != 0) {
        places.qp->rq.complete(places.received);
    }
}

int CompletionQueue::poll(std::span<ibv_wc> wcs)
{
    const Guard guard(lock_);
    Places places;
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
        if (Qp *qp = owner(*cqe); qp != places.qp) {
            if (places.qp != nullptr) {
                give_back(places);
            }
            places = {.qp = qp};
        }
        places.add(*cqe);
        ring_.pop();
        taken++;
    }
    if (taken != 0) {
        give_back(places);
    } else if (!wcs.empty() && why_empty() == EIO) {
        return -EIO;
    }
    return taken;
}

void CompletionQueue::arm(bool solicited_only)
{
    const Guard guard(arm_lock_);

    if (!broken_) {
        ring_.arm(solicited_only ? ROX_RING_ARM_SOLICITED : ROX_RING_ARM_NEXT);
    }
}

void CompletionQueue::purge(uint32_t qp_num)
{
    const Guard guard(lock_);

    if (!broken_) {
        ring_.remove_if<rox_cqe>([qp_num](const rox_cqe &cqe) { return cqe.qp_num == qp_num; });
    }
}

/*
 * Takes the next completion out of the ring. From here on the program may do
 * whatever it may do after a poll: post to the place, and, if it has promised to
 * use one thread, destroy the QP or resize the CQ. The caller holds the lock.
 */
int CompletionQueue::advance()
{
    const rox_cqe *cqe = broken_ ? nullptr : peek();

    if (cqe == nullptr) {
        return broken_ ? EIO : why_empty();
    }
    current_ = *cqe;
    ring_.pop();

    Places places = {.qp = owner(current_)};

    places.add(current_);
    give_back(places);
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
