// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory windows, and a pair of which b binds them.
#pragma once

#include "request.h"

namespace vt {

using Mw = Handle<ibv_mw, ibv_dealloc_mw>;

constexpr int kBindable = kAllAccess | IBV_ACCESS_MW_BIND;
constexpr unsigned kAllRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t kRegion = 5 * 4096;
constexpr std::uint64_t kSeed = 31;

inline Mw alloc_mw(const Pd &pd, ibv_mw_type type)
{
    return Mw(need(ibv_alloc_mw(pd.get(), type), "ibv_alloc_mw"));
}

/// A window on @p length bytes of @p buffer.
inline ibv_mw_bind_info part(Buffer &buffer, std::size_t offset, std::size_t length,
                             unsigned access = kAllRemote)
{
    return {buffer.mr().get(), buffer.address(offset), length, access};
}

/// @p rkey with other lower 8 bits.
inline std::uint32_t variant(std::uint32_t rkey, std::uint8_t low)
{
    return (rkey & ~0xffu) | low;
}

inline SendWr bind_wr(ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info &info)
{
    SendWr wr = SendWr::send({});
    wr.fields().opcode = IBV_WR_BIND_MW;
    wr.fields().bind_mw.mw = mw;
    wr.fields().bind_mw.rkey = rkey;
    wr.fields().bind_mw.bind_info = info;
    return wr;
}

inline SendWr invalidate_wr(ibv_wr_opcode opcode, std::uint32_t rkey, Sges sges = {})
{
    SendWr wr = SendWr::send(std::move(sges));
    wr.fields().opcode = opcode;
    wr.fields().invalidate_rkey = rkey;
    return wr;
}

/// b binds windows to its memory, a accesses it.
class MwTest : public RequestTest {
protected:
    void SetUp() override
    {
        fill(region.bytes(), kSeed);
        RequestTest::SetUp();
    }

    /// A second pair over the same CQs.
    void start_second()
    {
        a2 = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        b2 = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
        vt::connect(a.context, *a2, b.context, *b2, params);
    }

    void TearDown() override
    {
        a2.reset();
        b2.reset();
        PairTest::TearDown();
    }

    int try_bind1(const Qp &qp, ibv_mw *mw, const ibv_mw_bind_info &info) const
    {
        ibv_mw_bind request{50, IBV_SEND_SIGNALED, info};
        return ibv_bind_mw(qp.get(), mw, &request);
    }
    ibv_wc bind1(ibv_mw *mw, const ibv_mw_bind_info &info) const
    {
        check(try_bind1(*b.qp, mw, info), "ibv_bind_mw");
        return b.send_cq.one();
    }
    ibv_wc unbind1(ibv_mw *mw) const { return bind1(mw, {}); }
    ibv_wc bind2(ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info &info) const
    {
        b.qp->post(bind_wr(mw, rkey, info).id(50));
        return b.send_cq.one();
    }
    /// True if b can invalidate the window with that key.
    testing::AssertionResult invalidates(std::uint32_t rkey) const
    {
        b.qp->post(invalidate_wr(IBV_WR_LOCAL_INV, rkey).id(2));
        return is(b.send_cq.one(), 2, IBV_WC_LOCAL_INV);
    }
    static testing::AssertionResult bound(const ibv_wc &wc) { return is(wc, 50, IBV_WC_BIND_MW); }
    static testing::AssertionResult not_bound(const ibv_wc &wc)
    {
        return is_error(wc, 50, IBV_WC_MW_BIND_ERR);
    }

    /// True if a got a remote access error and the memory of b is unchanged.
    testing::AssertionResult refused(const ibv_wc &wc) const
    {
        if (auto result = RequestTest::refused(wc); !result)
            return result;
        return filled(region.bytes(), kSeed);
    }

    Buffer region = b.buffer(kRegion, kBindable);
    std::unique_ptr<Qp> a2, b2;
};

} // namespace vt
