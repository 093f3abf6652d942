// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Queue pairs and their transitions, shared receive queues, address handles.
#pragma once

#include <memory>

#include "clock.h"
#include "context.h"
#include "cq.h"
#include "wr.h"

namespace vt {

using Pd = Handle<ibv_pd, ibv_dealloc_pd>;
using Ah = Handle<ibv_ah, ibv_destroy_ah>;

Pd alloc_pd(ibv_context *context);

struct QpConfig {
    ibv_qp_type type = IBV_QPT_RC;
    std::uint32_t send_wr = 64;
    std::uint32_t recv_wr = 64;
    std::uint32_t send_sge = 4;
    std::uint32_t recv_sge = 4;
    std::uint32_t inline_data = 0;
    bool sig_all = false;
    ibv_srq *srq = nullptr;

    ibv_qp_init_attr attr(ibv_cq *send_cq, ibv_cq *recv_cq) const;
};

/// A QP for ibv_wr_* with @p ops (IBV_QP_EX_WITH_...). May return null, with errno.
ibv_qp *try_create_ex(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpConfig &config,
                      std::uint64_t ops);

/// Attributes that connect() and the single transitions set.
struct Params {
    ibv_mtu mtu = IBV_MTU_1024;
    std::uint32_t psn = 0x1234;                                        ///< initial PSN of this QP
    std::uint32_t peer_psn = 0x4321;                                   ///< initial PSN of the peer
    std::uint8_t timeout = static_cast<std::uint8_t>(ack_timeout(14)); ///< 67 ms
    std::uint8_t retry_cnt = 7;
    std::uint8_t rnr_retry = 7;
    std::uint8_t min_rnr_timer = 1;
    std::uint8_t rd_atomic = 16;
    std::uint8_t dest_rd_atomic = 16;
    unsigned access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    std::uint32_t qkey = 0x11111111;
    Family family = Family::V4;
    std::uint8_t traffic_class = 0;
    std::uint8_t hop_limit = 64;
    std::uint32_t flow_label = 0;
    std::uint16_t pkey_index = 0;
    std::uint16_t peer_pkey_index = 0; ///< of the peer

    /// The same from the peer's point of view.
    Params mirrored() const
    {
        Params other = *this;
        std::swap(other.psn, other.peer_psn);
        std::swap(other.pkey_index, other.peer_pkey_index);
        return other;
    }
};

/// Attributes of an address vector on @p from for @p to.
ibv_ah_attr address_of(const Context &from, const Context &to, const Params &params = {});

class Qp {
public:
    Qp(ibv_pd *pd, ibv_cq *send_cq, ibv_cq *recv_cq, const QpConfig &config = {});
    explicit Qp(ibv_qp *qp);
    ~Qp();
    Qp(const Qp &) = delete;
    Qp &operator=(const Qp &) = delete;

    ibv_qp *get() const { return handle_.get(); }
    ibv_qp *operator->() const { return handle_.get(); }
    std::uint32_t number() const { return handle_->qp_num; }
    int destroy();
    /// Passes ownership of the QP to the caller.
    ibv_qp *release();

    /// ibv_modify_qp: 0 or an errno value.
    int modify(ibv_qp_attr attr, int mask) const { return ibv_modify_qp(get(), &attr, mask); }
    /// Changes only the state. 0 or an errno value.
    int move(ibv_qp_state state) const;
    ibv_qp_attr query(int mask = 0x1fffff) const;
    ibv_qp_state state() const { return query(IBV_QP_STATE).qp_state; }
    /// Waits until the device has moved the QP to @p state.
    bool reaches(ibv_qp_state state, Millis patience = kPatience) const;

    /// The usual transitions, with the attributes that the QP's type needs.
    void to_init(const Params &params = {}) const;
    void to_rtr(const Params &params, const ibv_ah_attr &peer, std::uint32_t peer_qpn) const;
    void to_rts(const Params &params = {}) const;

    /// ibv_post_send of one work request or of a chain: 0 or an errno value.
    int try_post(SendWr wr) const;
    int try_post(std::vector<SendWr> &wrs, std::size_t *posted = nullptr) const;
    /// The same, and it must succeed.
    void post(SendWr wr) const { check(try_post(std::move(wr)), "ibv_post_send"); }
    void post(std::vector<SendWr> wrs) const { check(try_post(wrs), "ibv_post_send of a chain"); }
    int try_post_recv(std::uint64_t wr_id, Sges sges) const;
    void post_recv(std::uint64_t wr_id, Sges sges = {}) const
    {
        check(try_post_recv(wr_id, std::move(sges)), "ibv_post_recv");
    }

private:
    Handle<ibv_qp, ibv_destroy_qp> handle_;
};

/// Attributes and masks of the three transitions, for tests that vary them.
struct Transition {
    ibv_qp_attr attr;
    int mask;
};
Transition init_transition(ibv_qp_type type, const Params &params = {});
Transition rtr_transition(ibv_qp_type type, const Params &params, const ibv_ah_attr &peer,
                          std::uint32_t peer_qpn);
Transition rts_transition(ibv_qp_type type, const Params &params = {});

class Srq {
public:
    explicit Srq(ibv_pd *pd, std::uint32_t wr = 64, std::uint32_t sge = 4);
    ibv_srq *get() const { return handle_.get(); }
    int try_post(std::uint64_t wr_id, Sges sges) const;
    void post(std::uint64_t wr_id, Sges sges) const
    {
        check(try_post(wr_id, std::move(sges)), "ibv_post_srq_recv");
    }
    ibv_srq_attr query() const;
    int modify(ibv_srq_attr attr, int mask) const { return ibv_modify_srq(get(), &attr, mask); }
    int destroy() { return handle_.destroy(); }

private:
    Handle<ibv_srq, ibv_destroy_srq> handle_;
};

} // namespace vt
