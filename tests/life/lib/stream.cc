// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "stream.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include <arpa/inet.h>
#include <unistd.h>

namespace life {

namespace {

/// Longer than a connection may stand silence.
constexpr auto kPatience = std::chrono::seconds(50);
constexpr auto kQuiet = std::chrono::seconds(2);
constexpr std::uint64_t kCredit = ~std::uint64_t{0};

/// Message number n is of kind n modulo 4.
enum Kind { Write, Send, Read, Add, Kinds };

Kind kind_of(std::uint64_t message)
{
    return static_cast<Kind>(message % Kinds);
}

std::size_t slot_of(std::uint64_t message)
{
    return message / Kinds % layout::kSlots;
}

/// Where in the constant bytes the message's data are.
std::size_t source_of(std::uint64_t message)
{
    return layout::kSource + message * 1237 % (layout::kSourceSize - layout::kBlock);
}

/// How many of the first @p messages use up a receive.
std::uint64_t receives_of(std::uint64_t messages)
{
    return messages / Kinds * 2 + std::min<std::uint64_t>(messages % Kinds, 2);
}

} // namespace

Stream::Stream(Endpoint &endpoint, std::uint64_t messages)
    : endpoint_(endpoint), messages_(messages), expected_(messages)
{}

std::uint64_t Stream::consumed_by_peer() const
{
    auto *word = reinterpret_cast<std::uint64_t *>(endpoint_.at(layout::kConsumed));

    return std::atomic_ref(*word).load(std::memory_order_acquire);
}

bool Stream::may_send() const
{
    return (!messages_ || next_ < messages_) && open_ < layout::kSlots &&
           with_receive_ - consumed_by_peer() < layout::kSlots;
}

void Stream::send_next()
{
    std::uint64_t message = next_++;
    std::size_t slot = slot_of(message);
    auto number = static_cast<std::uint32_t>(message);

    open_++;
    switch (kind_of(message)) {
    case Write:
        with_receive_++;
        endpoint_.post_send(message, IBV_WR_RDMA_WRITE_WITH_IMM, source_of(message), layout::kBlock,
                            layout::kWritten + slot * layout::kBlock, number);
        break;
    case Send:
        with_receive_++;
        endpoint_.post_send(message, IBV_WR_SEND_WITH_IMM, source_of(message), layout::kMessage, 0,
                            number);
        break;
    case Read:
        endpoint_.post_send(message, IBV_WR_RDMA_READ, layout::kRead + slot * layout::kBlock,
                            layout::kBlock, source_of(message));
        break;
    default:
        endpoint_.post_send(message, IBV_WR_ATOMIC_FETCH_AND_ADD,
                            layout::kFetched + slot * sizeof(std::uint64_t), sizeof(std::uint64_t),
                            layout::kCounter);
        break;
    }
}

void Stream::compare(const char *what, std::uint64_t message, std::size_t offset,
                     std::size_t length)
{
    if (!std::memcmp(endpoint_.at(offset), endpoint_.at(source_of(message)), length))
        return;
    end(State::Wrong,
        "wrong data in " + std::string(what) + ", message " + std::to_string(message));
}

void Stream::sent(std::uint64_t id)
{
    std::size_t slot = slot_of(id);

    if (id == kCredit) {
        credits_open_--;
        return;
    }
    open_--;
    completed_++;
    if (kind_of(id) == Read) {
        compare("a READ", id, layout::kRead + slot * layout::kBlock, layout::kBlock);
    } else if (kind_of(id) == Add) {
        std::uint64_t value = 0;

        std::memcpy(&value, endpoint_.at(layout::kFetched + slot * sizeof(value)), sizeof(value));
        if (value != id / Kinds)
            end(State::Wrong, "atomic number " + std::to_string(id / Kinds) + " returned " +
                                  std::to_string(value));
    }
}

// The immediate data say which message it is: they come in order.
void Stream::received(const ibv_wc &wc)
{
    std::uint64_t message = received_ / 2 * Kinds + received_ % 2;
    bool write = kind_of(message) == Write;
    std::size_t slot = write ? slot_of(message) : wc.wr_id;

    if (ntohl(wc.imm_data) != static_cast<std::uint32_t>(message) ||
        wc.opcode != (write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV) ||
        wc.byte_len != (write ? layout::kBlock : layout::kMessage)) {
        end(State::Wrong, "receive completion number " + std::to_string(received_) +
                              " is not that of message " + std::to_string(message));
        return;
    }
    if (write)
        compare("a WRITE", message, layout::kWritten + slot * layout::kBlock, layout::kBlock);
    else
        compare("a SEND", message, layout::kReceived + slot * 4096, layout::kMessage);
    received_++;
    endpoint_.post_receive(wc.wr_id);
}

void Stream::failed(const ibv_wc &wc)
{
    switch (wc.status) {
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR:
    case IBV_WC_WR_FLUSH_ERR:
    case IBV_WC_FATAL_ERR: end(State::Lost, ibv_wc_status_str(wc.status)); break;
    default: end(State::Wrong, std::string("completion: ") + ibv_wc_status_str(wc.status));
    }
}

void Stream::complete(const ibv_wc &wc)
{
    // That credit was told proves the connection alive, not the program at its other end.
    if (wc.wr_id != kCredit)
        last_ = Clock::now();
    if (wc.status != IBV_WC_SUCCESS)
        failed(wc);
    else if (wc.opcode & IBV_WC_RECV)
        received(wc);
    else
        sent(wc.wr_id);
}

void Stream::end(State state, const std::string &reason)
{
    if (state_ != State::Running)
        return;
    state_ = state;
    reason_ = reason;
}

std::uint64_t Stream::stop()
{
    messages_ = expected_ = next_;
    return messages_;
}

void Stream::expect(std::uint64_t messages)
{
    expected_ = messages;
}

bool Stream::finished() const
{
    return messages_ && completed_ == messages_ && received_ == receives_of(expected_) &&
           !credits_open_ && credit_told_ == received_;
}

// Takes all completions; false if there was none.
bool Stream::poll()
{
    ibv_wc completions[16];
    bool any = false;
    int count = 0;

    while (state_ == State::Running && (count = ibv_poll_cq(endpoint_.cq(), 16, completions)) > 0) {
        any = true;
        for (int i = 0; i < count && state_ == State::Running; i++)
            complete(completions[i]);
    }
    if (count < 0 && !endpoint_.device_gone())
        end(State::Wrong, "ibv_poll_cq failed");
    return any;
}

void Stream::tell_credit()
{
    endpoint_.post_word(kCredit, received_, layout::kConsumed);
    credits_open_++;
    credit_told_ = received_;
    told_ = Clock::now();
}

/// Is the device going away? Posting fails some moments before the event tells why.
bool Stream::leaving(const Trouble &trouble)
{
    const Clock::time_point until = Clock::now() + std::chrono::seconds(5);

    if (trouble.error != EIO)
        return endpoint_.device_gone();
    while (!endpoint_.device_gone()) {
        if (Clock::now() > until)
            return false;
        usleep(10000);
    }
    return true;
}

State Stream::step()
{
    bool idle = true;

    try {
        idle = !poll();
        if (state_ == State::Running && credit_told_ != received_ &&
            credits_open_ < layout::kSlots) {
            tell_credit();
        }
        // With nothing under way a connection does not notice that the other end is gone: ask.
        if (state_ == State::Running && idle && !credits_open_ &&
            Clock::now() - std::max(last_, told_) > kQuiet)
            tell_credit();
        while (state_ == State::Running && may_send())
            send_next();
    } catch (const Trouble &trouble) {
        if (!leaving(trouble))
            throw;
    }
    if (state_ == State::Running && finished())
        end(State::Done, "done");
    if (idle && endpoint_.device_gone())
        end(State::Gone, "device removed");
    if (idle && Clock::now() - last_ > kPatience)
        end(State::Stalled, "no completion for a long time");
    return state_;
}

const char *name_of(State state)
{
    switch (state) {
    case State::Running: return "running";
    case State::Done: return "done";
    case State::Lost: return "lost";
    case State::Gone: return "gone";
    case State::Stalled: return "stalled";
    default: return "wrong";
    }
}

} // namespace life
