// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Completion queues and channels.
#pragma once

#include <ostream>
#include <vector>

#include "context.h"

namespace vt {

class Channel {
public:
    explicit Channel(ibv_context *context);
    ibv_comp_channel *get() const { return handle_.get(); }

    /// Waits for an event, acknowledges it and returns its CQ; null if none came.
    ibv_cq *wait(Millis patience = kPatience);

private:
    Handle<ibv_comp_channel, ibv_destroy_comp_channel> handle_;
};

/// Polling of a CQ that somebody else owns.
class CqView {
public:
    explicit CqView(ibv_cq *cq) : cq_(cq) {}
    ibv_cq *get() const { return cq_; }

    /// Waits for @p count completions. Fails, and reports the state of everything, if fewer come.
    std::vector<ibv_wc> wait(std::size_t count, Millis patience = kPatience) const;
    ibv_wc one(Millis patience = kPatience) const { return wait(1, patience).front(); }
    /// True if the CQ stays empty for @p time.
    bool quiet(Millis time = kQuiet) const;
    /// Asks for an event at the next completion.
    void arm(bool solicited_only = false) const;

private:
    ibv_cq *cq_;
};

class Cq : public CqView {
public:
    explicit Cq(ibv_context *context, int entries = 256, Channel *channel = nullptr,
                int vector = 0);
    int destroy() { return handle_.destroy(); }
    ibv_cq *release() { return handle_.release(); }
    ibv_cq *operator->() const { return get(); }

private:
    explicit Cq(ibv_cq *cq) : CqView(cq), handle_(cq) {}
    Handle<ibv_cq, ibv_destroy_cq> handle_;
};

/// True for a success of that work request and opcode.
testing::AssertionResult is(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_opcode opcode);
/// True for a failure of that work request with @p status. (A failure has no defined opcode.)
testing::AssertionResult is_error(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_status status);
/// True if all were flushed and have the ids @p first, @p first + 1, ...
testing::AssertionResult flushed(const std::vector<ibv_wc> &wcs, std::uint64_t first);

} // namespace vt
