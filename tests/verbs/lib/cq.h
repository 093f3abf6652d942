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

/// What polling one CQ needs; a view, for CQs that Cq does not own.
class CqView {
public:
    explicit CqView(ibv_cq *cq) : cq_(cq) {}
    ibv_cq *get() const { return cq_; }

    /// Exactly @p count completions, or a failure with all that is known.
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

/// Was it successful, of that work request and of that kind?
testing::AssertionResult is(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_opcode opcode);
/// Did it end with @p status? (the opcode of a failed one is not defined)
testing::AssertionResult is_error(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_status status);
/// Are all of them flushed, with ids from @p first on in order?
testing::AssertionResult flushed(const std::vector<ibv_wc> &wcs, std::uint64_t first);

} // namespace vt
