// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The objects of a hostile program: memory of every kind, and connected QPs of every service whose
/// rings it can write to.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "../../verbs/lib/pair.h"
#include "lib/bystander.h"
#include "lib/chance.h"
#include "lib/rings.h"

namespace hostile {

constexpr int kBindable = vt::kAllAccess | IBV_ACCESS_MW_BIND;
constexpr unsigned kAllRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                IBV_ACCESS_REMOTE_ATOMIC;

/// A memory window. (Mw of the verbs tests' library has internal linkage, because ibv_dealloc_mw()
/// is static inline.)
class Window {
public:
    Window(const vt::Pd &pd, ibv_mw_type type);
    ~Window();
    Window(const Window &) = delete;
    Window &operator=(const Window &) = delete;
    std::uint32_t rkey() const { return mw_->rkey; }

private:
    ibv_mw *mw_;
};

/// Memory that work requests of the program may write to, and memory that they must not reach.
class Loot {
public:
    Loot(const vt::Context &context, const vt::Pd &pd);

    /// True if the memory that must not be written is unchanged.
    testing::AssertionResult untouched() const;

    vt::Pd other_pd;
    vt::Buffer own;      ///< all rights
    vt::Buffer readonly; ///< local read only
    vt::Buffer foreign;  ///< all rights, in another PD
    vt::Memory guarded;  ///< three parts, ...
    vt::MrHandle middle; ///< and an MR of the second one, all rights
    Window window;       ///< of type 2
    Window other_window; ///< in the other PD

    static constexpr std::size_t kSize = 16384;
};

/// A QP and its rings.
struct Prey {
    std::unique_ptr<vt::Qp> qp;
    QpRings rings;
    std::uint32_t sq = 0; ///< next entry of the send queue
    std::uint32_t rq = 0;

    bool dead() const;
};

/// The services of the QPs in a Life, which has two of each. The second RC QP uses the SRQ.
inline constexpr std::array<ibv_qp_type, 3> kServices = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

/// Objects that are used until their CQ is in error, which is permanent.
class Life {
public:
    Life(const vt::Context &context, const vt::Pd &pd);

    Prey &prey(std::size_t i) { return prey_[i]; }
    static constexpr std::size_t kPreys = 2 * kServices.size();
    /// All rings: send and receive queues, the SRQ, the CQ.
    const std::vector<Ring> &rings() const { return rings_; }
    const Ring &cq() const { return cq_ring_; }
    const Ring &srq() const { return srq_ring_; }
    std::uint32_t &srq_next() { return srq_next_; }
    std::uint32_t ah_handle() const { return ah_index_; }

    /// True if the CQ is in error.
    bool over() const { return Ring::load(cq_ring_.ctrl().flags) & ROX_RING_ERROR; }
    /// Reconnects a pair if one of its QPs is in error. True if it was.
    bool revive(std::size_t service);

private:
    void connect(std::size_t service);

    const vt::Context &context_;
    std::unique_ptr<vt::Cq> cq_;
    std::unique_ptr<vt::Srq> srq_;
    vt::Ah ah_;
    std::array<Prey, kPreys> prey_;
    std::vector<Ring> rings_;
    Ring cq_ring_, srq_ring_;
    std::uint32_t srq_next_ = 0;
    std::uint32_t ah_index_ = 0;
};

/// Writes work requests into rings, and mutates them there.
class Forger {
public:
    Forger(std::uint64_t stream, const Loot &loot, const Known &known);

    /// Writes a valid work request of any kind into the next entry of @p prey, without publishing
    /// it.
    void write_good(Life &life, Prey &prey, const Prey &peer);
    void write_good_recv(const Ring &ring, std::uint32_t index);
    /// Changes one to three fields of a work request in the ring.
    void mutate_send(const Ring &ring, std::uint32_t index);
    void mutate_recv(const Ring &ring, std::uint32_t index);
    /// Changes one of the three words of the control block.
    void mutate_ctrl(const Ring &ring);
    /// Overwrites a part of an entry with random bytes.
    void scribble(const Ring &ring, std::uint32_t index);

    Chance &chance() { return chance_; }

private:
    std::uint32_t a_key();
    std::uint64_t an_address();
    void mutate_field(rox_send_wqe &wqe, const Ring &ring);
    void mutate_sge(rox_sge &sge);

    Chance chance_;
    const Loot &loot_;
    std::array<std::uint32_t, 10> keys_;
    std::array<std::uint64_t, 8> addresses_;
    const Known &known_;
};

} // namespace hostile
