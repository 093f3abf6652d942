// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A mix of WRITE with immediate, SEND, READ and fetch-and-add in both directions, with every
/// byte checked.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "endpoint.h"

namespace life {

enum class State {
    Running,
    Done,    ///< all messages in both directions are completed
    Lost,    ///< the connection has failed because the peer is gone
    Gone,    ///< the device has been removed
    Stalled, ///< no progress for a long time
    Wrong,   ///< wrong data or an unexpected completion
};

class Stream {
public:
    /// @p messages is the number to send and to receive; 0: no limit.
    Stream(Endpoint &endpoint, std::uint64_t messages);

    /// One round of sending and polling, without sleeping.
    State step();
    /// Stops sending. Returns the number of messages sent.
    std::uint64_t stop();
    /// Sets the number of messages that the peer sends.
    void expect(std::uint64_t messages);
    /// Sleeps until there may be something to do, at most @p millis (see Endpoint::wait()).
    void wait(int millis = 200) { endpoint_.wait(millis); }

    std::uint64_t completed() const { return completed_; }
    /// The reason of its end.
    const std::string &reason() const { return reason_; }

private:
    using Clock = std::chrono::steady_clock;

    bool poll();
    void tell_credit();
    bool leaving(const Trouble &trouble);
    bool may_send() const;
    void send_next();
    void complete(const ibv_wc &wc);
    void sent(std::uint64_t id);
    void received(const ibv_wc &wc);
    void failed(const ibv_wc &wc);
    void compare(const char *what, std::uint64_t message, std::size_t offset, std::size_t length);
    void end(State state, const std::string &reason);
    bool finished() const;
    std::uint64_t consumed_by_peer() const;

    Endpoint &endpoint_;
    std::uint64_t messages_;
    std::uint64_t expected_;
    std::uint64_t next_ = 0;         ///< the message to send next
    std::uint64_t with_receive_ = 0; ///< of those sent, how many use up a receive
    std::uint64_t open_ = 0;         ///< sent and not yet completed
    std::uint64_t credits_open_ = 0;
    std::uint64_t completed_ = 0;
    std::uint64_t received_ = 0; ///< messages of the peer that used up a receive
    std::uint64_t credit_told_ = 0;
    Clock::time_point last_ = Clock::now();
    Clock::time_point told_ = Clock::now();
    State state_ = State::Running;
    std::string reason_;
};

const char *name_of(State state);

} // namespace life
