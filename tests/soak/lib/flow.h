// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Rounds of messages from one QP to another. Each message is checked.
#pragma once

#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "hostile/lib/chance.h"
#include "message.h"
#include "totals.h"
#include "wiring.h"

namespace soak {

using Sides = std::array<std::shared_ptr<Side>, 2>; ///< from, to

/// One direction of a connected pair of QPs. A round starts with begin() and lasts until done().
class Flow {
public:
    virtual ~Flow() = default;
    Flow(const Flow &) = delete;
    Flow &operator=(const Flow &) = delete;

    const Sides &sides() const { return sides_; }
    std::uint32_t number_from() const { return wiring_->from()->qp_num; }
    std::uint32_t number_to() const { return wiring_->to()->qp_num; }

    /// Posts the requests of a round.
    virtual void begin() = 0;
    virtual void sent(const ibv_wc &wc) = 0;
    virtual void received(const ibv_wc &wc) = 0;
    /// True if all messages of the round have come; on a lossy service, also if none came for a
    /// while.
    virtual bool done() = 0;
    /// Its state, for a report.
    virtual std::string text() const = 0;

protected:
    Flow(std::uint64_t flow, Sides sides, std::unique_ptr<Wiring> wiring, std::size_t from_size,
         std::size_t to_size, Totals &totals);

    void post_receive(std::uint64_t id, std::size_t offset, std::size_t length);
    void post(std::vector<vt::SendWr> &requests);
    Name name(std::uint64_t sequence, Kind kind) const { return {flow_, sequence, kind}; }
    /// Checks that @p bytes are the message @p name, and counts it.
    void look(vt::ConstBytes bytes, const Name &name);
    void succeeded(const ibv_wc &wc) const;

    std::uint64_t flow_;
    Totals &totals_;
    hostile::Chance chance_;
    Sides sides_;
    vt::Buffer from_;
    vt::Buffer to_;
    std::unique_ptr<Wiring> wiring_; // destroyed first
    std::uint64_t next_ = 0;         ///< sequence number of the next message
};

/// RC: all operations, which must complete in order.
class ReliableFlow : public Flow {
public:
    ReliableFlow(std::uint64_t flow, Sides sides, std::unique_ptr<Wiring> wiring, Totals &totals);
    void begin() override;
    void sent(const ibv_wc &wc) override;
    void received(const ibv_wc &wc) override;
    bool done() override { return !signals_ && received_ == consuming_.size(); }
    std::string text() const override;

private:
    struct Message {
        std::uint64_t sequence;
        Kind kind;
        std::size_t length;
        std::size_t slot;
        std::uint64_t value; ///< atomics: the original value
    };

    vt::SendWr request(Message &message);
    vt::SendWr atomic(Message &message);
    void post_receives();
    void finish();

    std::vector<Message> round_;
    std::vector<std::size_t> consuming_; ///< messages of the round that consume a receive
    std::size_t received_ = 0;
    std::size_t signals_ = 0; ///< outstanding completions of requests
    std::uint64_t last_sent_ = 0;
    std::uint64_t counter_ = 0; ///< expected values of the peer's words
    std::uint64_t swapped_ = 0;
};

/// UC and UD: messages may be lost, but those that come must be correct.
class LooseFlow : public Flow {
public:
    LooseFlow(std::uint64_t flow, ibv_qp_type type, std::uint32_t largest, Sides sides,
              std::unique_ptr<Wiring> wiring, bool local, Totals &totals);
    void begin() override;
    void sent(const ibv_wc &wc) override;
    void received(const ibv_wc &wc) override;
    bool done() override;
    std::string text() const override;

private:
    struct Message {
        std::uint64_t sequence;
        Kind kind;
        std::size_t length;
        bool came;
    };

    vt::SendWr request(const Message &message);
    Message &find(std::uint32_t number);

    ibv_qp_type type_;
    std::uint32_t largest_;
    bool local_; ///< on one device, without a network: nothing is lost, all comes in order
    std::deque<Message> recent_;
    std::size_t unsent_ = 0;   ///< requests without their completions
    std::size_t awaited_ = 0;  ///< messages of this round that have not come
    std::uint64_t first_ = 0;  ///< first message of this round
    std::uint64_t latest_ = 0; ///< one more than the last message that came
    vt::Clock::time_point progress_ = vt::Clock::now();
};

} // namespace soak
