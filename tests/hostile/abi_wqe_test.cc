// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Work requests of a provider that is newer than the module: each bit that has no meaning, written
/// into the rings, completes with an error, so that it can get one (Documentation/abi.md).
#include <cstdint>
#include <cstring>
#include <memory>

#include "../verbs/lib/pair.h"
#include "lib/rings.h"

using namespace hostile;

namespace {

/// Two QPs of one device, whose rings are written by hand.
class AbiWqe : public testing::Test {
protected:
    struct Side {
        std::unique_ptr<vt::Qp> qp;
        QpRings rings;
    };

    /// Makes both and connects them.
    void start(ibv_qp_type type)
    {
        for (Side *side : {&a_, &b_}) {
            vt::QpConfig config{.type = type, .send_wr = 4, .recv_wr = 4, .inline_data = 32};
            ibv_qp_init_attr attr = config.attr(end_.send_cq.get(), end_.recv_cq.get());
            Mapping mapping = mapped_by([&] {
                side->qp = std::make_unique<vt::Qp>(
                    vt::need(ibv_create_qp(end_.pd.get(), &attr), "ibv_create_qp"));
            });
            side->rings = rings_of(mapping, attr.cap);
        }
        vt::connect(end_.context, *a_.qp, end_.context, *b_.qp);
    }
    /// Both begin anew, with nothing posted.
    void revive()
    {
        for (Side *side : {&a_, &b_})
            vt::check(side->qp->move(IBV_QPS_RESET), "to RESET");
        vt::connect(end_.context, *a_.qp, end_.context, *b_.qp);
    }
    /// The same of the sender alone: it has sent nothing, so that the other one knows of nothing.
    void revive_sender()
    {
        vt::Params params;
        vt::check(a_.qp->move(IBV_QPS_RESET), "to RESET");
        a_.qp->to_init(params);
        a_.qp->to_rtr(params, vt::address_of(end_.context, end_.context), b_.qp->number());
        a_.qp->to_rts(params);
    }

    /// Sends what @p spoil makes of a good WQE. @return the completion's status
    template <typename Spoil>
    ibv_wc_status send(const rox_send_wqe &good, const Spoil &spoil)
    {
        rox_send_wqe wqe = good;
        wqe.wr_id = ++last_;
        wqe.send_flags |= IBV_SEND_SIGNALED;
        spoil(wqe);
        const Ring &sq = a_.rings.sq;
        std::uint32_t producer = sq.producer();
        std::memcpy(sq.at(producer), &wqe, sizeof(wqe));
        sq.produce(producer + 1);
        ring_send_doorbell(a_.qp->get());
        ibv_wc wc = end_.send_cq.one();
        EXPECT_EQ(wc.wr_id, last_);
        return wc.status;
    }
    ibv_wc_status send(const rox_send_wqe &good)
    {
        return send(good, [](rox_send_wqe &) {});
    }
    /// With @p spoil it must be refused; then the QP is revived. Nothing has been sent since the
    /// last revive().
    template <typename Spoil>
    void refused(const rox_send_wqe &good, const Spoil &spoil, const char *what, unsigned bit = 0)
    {
        EXPECT_EQ(send(good, spoil), IBV_WC_LOC_QP_OP_ERR) << what << ' ' << bit;
        refused_++;
        revive_sender();
    }
    /// As refused(), with each bit of a word.
    template <typename Word>
    void each_bit_refused(const rox_send_wqe &good, Word &&word, const char *what,
                          unsigned from = 0)
    {
        for (unsigned bit = from; bit < 32 && !HasFailure(); bit++)
            refused(
                good, [&](rox_send_wqe &wqe) { word(wqe) |= 1u << bit; }, what, bit);
    }
    /// What every work request has.
    void head_is_judged(const rox_send_wqe &good)
    {
        ASSERT_EQ(send(good), IBV_WC_SUCCESS);
        ASSERT_EQ(send(good, [](rox_send_wqe &wqe) { wqe.send_flags |= IBV_SEND_INLINE; }),
                  IBV_WC_SUCCESS);
        revive();
        each_bit_refused(
            good, [](rox_send_wqe & wqe) -> auto & { return wqe.send_flags; }, "flag", 4);
        each_bit_refused(
            good, [](rox_send_wqe & wqe) -> auto & { return wqe.inline_len; },
            "length of no inline data");
        refused(
            good,
            [](rox_send_wqe &wqe) {
                wqe.send_flags |= IBV_SEND_INLINE;
                wqe.num_sge = 1;
            },
            "list beside inline data");
        each_bit_refused(
            good, [](rox_send_wqe & wqe) -> auto & { return wqe.xrc_srqn; }, "SRQ of no XRC");
    }

    vt::End end_{vt::device_a()};
    Side a_, b_;
    std::uint64_t last_ = 0;
    unsigned refused_ = 0;
};

TEST_F(AbiWqe, ConnectedWithWhatHasNoMeaning)
{
    start(IBV_QPT_RC);
    rox_send_wqe write{};
    write.opcode = IBV_WR_RDMA_WRITE;
    head_is_judged(write);
    for (std::uint32_t opcode : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_LOCAL_INV}) {
        rox_send_wqe wqe{};
        wqe.opcode = opcode;
        each_bit_refused(
            wqe, [](rox_send_wqe & w) -> auto & { return w.wr.rdma.reserved; }, "reserved");
    }
    for (std::uint32_t opcode = 16; opcode < 64; opcode++)
        refused(
            write, [&](rox_send_wqe &wqe) { wqe.opcode = opcode; }, "opcode", opcode);
    EXPECT_EQ(refused_, 28u + 32 + 1 + 32 + 3 * 32 + 48);
    EXPECT_EQ(send(write), IBV_WC_SUCCESS) << "it goes on";
}

TEST_F(AbiWqe, DatagramWithWhatHasNoMeaning)
{
    start(IBV_QPT_UD);
    ibv_ah_attr address = vt::address_of(end_.context, end_.context);
    vt::Ah ah(vt::need(ibv_create_ah(end_.pd.get(), &address), "ibv_create_ah"));
    // What the library makes of it knows the number of the address handle.
    a_.qp->post(vt::SendWr::send({}).id(1).to(ah.get(), b_.qp->number(), vt::Params().qkey));
    EXPECT_TRUE(vt::is(end_.send_cq.one(), 1, IBV_WC_SEND));
    rox_send_wqe wqe;
    std::memcpy(&wqe, a_.rings.sq.at(0), sizeof(wqe));
    revive();
    head_is_judged(wqe);
    for (unsigned word = 0; word < 4; word++)
        each_bit_refused(
            wqe, [word](rox_send_wqe & w) -> auto & { return w.wr.ud.reserved[word]; }, "reserved");
    for (unsigned bit = 0; bit < 16; bit++) {
        refused(
            wqe,
            [&](rox_send_wqe &w) { w.wr.ud.reserved0 = static_cast<std::uint16_t>(1u << bit); },
            "reserved0", bit);
        refused(
            wqe,
            [&](rox_send_wqe &w) { w.wr.ud.pkey_index = static_cast<std::uint16_t>(1u << bit); },
            "P_Key of the GSI", bit);
    }
    EXPECT_EQ(refused_, 28u + 32 + 1 + 32 + 4 * 32 + 2 * 16);
    EXPECT_EQ(send(wqe), IBV_WC_SUCCESS) << "it goes on";
}

TEST_F(AbiWqe, BindWithRightsThatNobodyKnows)
{
    constexpr std::uint32_t known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                    IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC |
                                    IBV_ACCESS_ZERO_BASED | IBV_ACCESS_OPTIONAL_RANGE;
    start(IBV_QPT_RC);
    vt::Buffer buffer = end_.buffer(4096, vt::kAllAccess | IBV_ACCESS_MW_BIND);
    vt::Handle<ibv_mw, ibv_dealloc_mw> mw(ibv_alloc_mw(end_.pd.get(), IBV_MW_TYPE_2));
    ASSERT_TRUE(mw);
    rox_send_wqe bind{};
    bind.opcode = IBV_WR_BIND_MW;
    bind.wr.bind.addr = reinterpret_cast<std::uintptr_t>(buffer.bytes().data());
    bind.wr.bind.length = 4096;
    bind.wr.bind.mr_lkey = buffer.lkey();
    bind.wr.bind.mw_rkey = mw->rkey;
    bind.wr.bind.new_rkey = ibv_inc_rkey(mw->rkey);
    bind.wr.bind.access = IBV_ACCESS_REMOTE_READ;
    for (unsigned bit = 0; bit < 32; bit++) {
        if (!(known >> bit & 1))
            refused(
                bind, [&](rox_send_wqe &wqe) { wqe.wr.bind.access |= 1u << bit; }, "right", bit);
    }
    bind.wr.bind.access |= IBV_ACCESS_RELAXED_ORDERING;
    EXPECT_EQ(send(bind), IBV_WC_SUCCESS) << "a right that may be ignored";
}

TEST_F(AbiWqe, ReceiveWithWhatHasNoMeaning)
{
    start(IBV_QPT_RC);
    rox_send_wqe message{};
    message.opcode = IBV_WR_SEND;
    for (unsigned bit = 0; bit <= 32; bit++) {
        rox_recv_wqe recv{};
        recv.wr_id = 100 + bit;
        recv.reserved = bit < 32 ? 1u << bit : 0;
        const Ring &rq = b_.rings.rq;
        std::memcpy(rq.at(rq.producer()), &recv, sizeof(recv));
        rq.produce(rq.producer() + 1);
        EXPECT_EQ(send(message), bit < 32 ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS) << bit;
        ibv_wc wc = end_.recv_cq.one();
        EXPECT_EQ(wc.wr_id, 100 + bit);
        EXPECT_EQ(wc.status, bit < 32 ? IBV_WC_LOC_QP_OP_ERR : IBV_WC_SUCCESS) << bit;
        if (bit < 32)
            revive();
    }
}

} // namespace
