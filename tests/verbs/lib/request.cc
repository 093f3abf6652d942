// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "request.h"

#include <algorithm>
#include <thread>

namespace vt {

void RequestTest::revoke_under_writes(const Qp &from, Bytes target, Remote to,
                                      std::chrono::microseconds delay,
                                      const std::function<void()> &revoke)
{
    constexpr std::size_t count = 4;
    Buffer source = a.buffer(target.size());
    std::ranges::fill(source.bytes(), 0xff);
    std::ranges::fill(target, 0);
    for (std::uint64_t i = 0; i < count; i++)
        from.post(SendWr::write({source.sge(0, target.size())}, to).id(i));
    std::this_thread::sleep_for(delay);
    revoke();
    std::ranges::fill(target, 0);
    bool failed = false;
    for (const ibv_wc &wc : a.send_cq.wait(count)) {
        EXPECT_TRUE(wc.status == IBV_WC_SUCCESS ||
                    wc.status == (failed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_REM_ACCESS_ERR))
            << ibv_wc_status_str(wc.status);
        failed = failed || wc.status != IBV_WC_SUCCESS;
    }
    EXPECT_TRUE(all(target, 0)) << "revoked after " << delay.count() << " us";
}

} // namespace vt
