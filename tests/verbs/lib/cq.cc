// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "cq.h"

#include <algorithm>
#include <array>

#include <fcntl.h>
#include <poll.h>

#include "diagnose.h"

namespace vt {

Channel::Channel(ibv_context *context)
    : handle_(need(ibv_create_comp_channel(context), "ibv_create_comp_channel"))
{
    int flags = fcntl(get()->fd, F_GETFL);
    if (flags < 0 || fcntl(get()->fd, F_SETFL, flags | O_NONBLOCK))
        fail("channel non-blocking", errno);
}

ibv_cq *Channel::wait(Millis patience)
{
    Deadline deadline(patience);
    for (;;) {
        ibv_cq *cq = nullptr;
        void *cq_context = nullptr;
        if (!ibv_get_cq_event(get(), &cq, &cq_context)) {
            ibv_ack_cq_events(cq, 1);
            return cq;
        }
        if (errno != EAGAIN && errno != EINTR)
            fail("ibv_get_cq_event", errno);
        if (deadline.passed())
            return nullptr;
        pollfd poll_fd{get()->fd, POLLIN, 0};
        poll(&poll_fd, 1, static_cast<int>(deadline.left().count()));
    }
}

Cq::Cq(ibv_context *context, int entries, Channel *channel, int vector)
    : Cq(need(ibv_create_cq(context, entries, nullptr, channel ? channel->get() : nullptr, vector),
              "ibv_create_cq"))
{}

std::vector<ibv_wc> CqView::wait(std::size_t count, Millis patience) const
{
    std::vector<ibv_wc> result;
    std::array<ibv_wc, 32> some{};
    Deadline deadline(patience);
    unsigned empty = 0;
    while (result.size() < count) {
        auto room = std::min(some.size(), count - result.size());
        int got = ibv_poll_cq(get(), static_cast<int>(room), some.data());
        if (got < 0)
            fail("ibv_poll_cq", -got);
        result.insert(result.end(), some.begin(), some.begin() + got);
        if (got) {
            empty = 0;
            continue;
        }
        if (deadline.passed()) {
            std::string text = "only " + std::to_string(result.size()) + " of " +
                               std::to_string(count) + " completions in " +
                               std::to_string(patience.count()) + " ms";
            for (const ibv_wc &wc : result)
                text += "\n  wr_id " + std::to_string(wc.wr_id) + ": " +
                        ibv_wc_status_str(wc.status);
            fail(text + state_of_everything());
        }
        // The guest may have two CPUs only: do not spin for long.
        if (++empty > 50)
            std::this_thread::sleep_for(100us);
    }
    return result;
}

bool CqView::quiet(Millis time) const
{
    ibv_wc wc{};
    return !eventually([&] { return ibv_poll_cq(get(), 1, &wc) != 0; }, time);
}

void CqView::arm(bool solicited_only) const
{
    check(ibv_req_notify_cq(get(), solicited_only), "ibv_req_notify_cq");
}

namespace {

testing::AssertionResult differs(const ibv_wc &wc)
{
    return testing::AssertionFailure()
           << "completion: wr_id " << wc.wr_id << ", status " << ibv_wc_status_str(wc.status)
           << ", opcode " << wc.opcode << ", byte_len " << wc.byte_len << ", QP " << std::hex
           << wc.qp_num << ", flags " << wc.wc_flags << ", vendor_err " << wc.vendor_err;
}

} // namespace

testing::AssertionResult is(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_opcode opcode)
{
    if (wc.status == IBV_WC_SUCCESS && wc.wr_id == wr_id && wc.opcode == opcode)
        return testing::AssertionSuccess();
    return differs(wc) << std::dec << "; wanted success, wr_id " << wr_id << ", opcode " << opcode;
}

testing::AssertionResult is_error(const ibv_wc &wc, std::uint64_t wr_id, ibv_wc_status status)
{
    if (wc.status == status && wc.wr_id == wr_id)
        return testing::AssertionSuccess();
    return differs(wc) << std::dec << "; wanted wr_id " << wr_id << ", status "
                       << ibv_wc_status_str(status);
}

testing::AssertionResult flushed(const std::vector<ibv_wc> &wcs, std::uint64_t first)
{
    for (const ibv_wc &wc : wcs)
        if (auto result = is_error(wc, first++, IBV_WC_WR_FLUSH_ERR); !result)
            return result;
    return testing::AssertionSuccess();
}

} // namespace vt
