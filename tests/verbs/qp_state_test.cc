// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The state machine: legal and illegal transitions, attribute masks, and that
/// query returns what modify has set.
#include <cstring>

#include "lib/context.h"
#include "lib/diagnose.h"
#include "lib/qp.h"

using namespace vt;

namespace {

constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
constexpr ibv_qp_state kStates[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
                                    IBV_QPS_SQD,   IBV_QPS_SQE,  IBV_QPS_ERR};

class QpStateCore : public testing::Test {
protected:
    std::unique_ptr<Qp> make(ibv_qp_type type)
    {
        return std::make_unique<Qp>(pd.get(), cq.get(), cq.get(), QpConfig{.type = type});
    }
    /// A QP that has been brought to @p state (SQE cannot be asked for).
    std::unique_ptr<Qp> make_in(ibv_qp_type type, ibv_qp_state state)
    {
        auto qp = make(type);
        if (state == IBV_QPS_RESET)
            return qp;
        qp->to_init();
        if (state == IBV_QPS_INIT)
            return qp;
        if (state == IBV_QPS_ERR) {
            check(qp->move(IBV_QPS_ERR), "INIT to ERR");
            return qp;
        }
        qp->to_rtr({}, self, qp->number());
        if (state == IBV_QPS_RTR)
            return qp;
        qp->to_rts();
        if (state == IBV_QPS_RTS)
            return qp;
        check(qp->move(state), "RTS to SQD");
        return qp;
    }

    /// The attributes that the transition to @p next needs from the state before it.
    Transition towards(ibv_qp_type type, ibv_qp_state from, ibv_qp_state next)
    {
        if (next == IBV_QPS_INIT && from == IBV_QPS_RESET)
            return init_transition(type);
        if (next == IBV_QPS_RTR && from == IBV_QPS_INIT)
            return rtr_transition(type, {}, self, 0x123);
        if (next == IBV_QPS_RTS && from == IBV_QPS_RTR)
            return rts_transition(type);
        Transition t{{}, IBV_QP_STATE};
        t.attr.qp_state = next;
        return t;
    }

    static bool legal(ibv_qp_state from, ibv_qp_state to)
    {
        if (to == IBV_QPS_RESET)
            return true;
        if (to == IBV_QPS_ERR)
            return from != IBV_QPS_RESET; // so the RDMA core has it
        switch (from) {
        case IBV_QPS_RESET: return to == IBV_QPS_INIT;
        case IBV_QPS_INIT: return to == IBV_QPS_INIT || to == IBV_QPS_RTR;
        case IBV_QPS_RTR: return to == IBV_QPS_RTS;
        case IBV_QPS_RTS: return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
        case IBV_QPS_SQD: return to == IBV_QPS_RTS || to == IBV_QPS_SQD;
        case IBV_QPS_SQE: return to == IBV_QPS_RTS;
        default: return false;
        }
    }

    Context context{device_a()};
    Pd pd = alloc_pd(context.get());
    Cq cq{context.get()};
    ibv_ah_attr self = address_of(context, context);
};

TEST_F(QpStateCore, EveryTransitionIsAsTheSpecificationSays)
{
    for (ibv_qp_type type : kTypes)
        for (ibv_qp_state from : kStates) {
            if (from == IBV_QPS_SQE)
                continue; // reached by an error only: flush_test.cc
            for (ibv_qp_state to : kStates) {
                auto qp = make_in(type, from);
                ASSERT_EQ(qp->state(), from);
                Transition t = towards(type, from, to);
                int result = qp->modify(t.attr, t.mask);
                EXPECT_EQ(result, legal(from, to) ? 0 : EINVAL)
                    << "type " << type << ", " << name_of(from) << " to " << name_of(to);
                EXPECT_EQ(qp->state(), result ? from : to);
                EXPECT_EQ((*qp)->state, result ? from : to);
            }
        }
}

TEST_F(QpStateCore, EveryRequiredAttributeIsRequired)
{
    for (ibv_qp_type type : kTypes)
        for (ibv_qp_state to : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
            auto from = static_cast<ibv_qp_state>(to - 1);
            Transition t = towards(type, from, to);
            for (int bit = 0; bit < 21; bit++) {
                if (!(t.mask & (1 << bit)) || (1 << bit) == IBV_QP_STATE)
                    continue;
                auto qp = make_in(type, from);
                EXPECT_EQ(qp->modify(t.attr, t.mask & ~(1 << bit)), EINVAL)
                    << "type " << type << " to " << name_of(to) << " without bit " << bit;
                EXPECT_EQ(qp->state(), from);
            }
        }
}

TEST_F(QpStateCore, AttributesOfOtherTypesAreInvalid)
{
    Transition t = init_transition(IBV_QPT_RC);
    EXPECT_EQ(make(IBV_QPT_RC)->modify(t.attr, t.mask | IBV_QP_QKEY), EINVAL);
    EXPECT_EQ(make(IBV_QPT_UC)->modify(t.attr, t.mask | IBV_QP_QKEY), EINVAL);
    t = init_transition(IBV_QPT_UD);
    EXPECT_EQ(make(IBV_QPT_UD)->modify(t.attr, t.mask | IBV_QP_ACCESS_FLAGS), EINVAL);
    t = rts_transition(IBV_QPT_UC);
    EXPECT_EQ(make_in(IBV_QPT_UC, IBV_QPS_RTR)->modify(t.attr, t.mask | IBV_QP_TIMEOUT), EINVAL);
    EXPECT_EQ(make_in(IBV_QPT_UC, IBV_QPS_RTR)->modify(t.attr, t.mask | IBV_QP_RNR_RETRY), EINVAL);
    t = rtr_transition(IBV_QPT_UC, {}, self, 5);
    EXPECT_EQ(make_in(IBV_QPT_UC, IBV_QPS_INIT)->modify(t.attr, t.mask | IBV_QP_MIN_RNR_TIMER),
              EINVAL);
    t = rtr_transition(IBV_QPT_UD, {}, self, 5);
    EXPECT_EQ(make_in(IBV_QPT_UD, IBV_QPS_INIT)->modify(t.attr, t.mask | IBV_QP_DEST_QPN), EINVAL);
}

TEST_F(QpStateCore, InitToInitChangesItsAttributes)
{
    auto qp = make_in(IBV_QPT_RC, IBV_QPS_INIT);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    ASSERT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS), 0);
    EXPECT_EQ(qp->query().qp_access_flags, unsigned(IBV_ACCESS_REMOTE_READ));
}

/// Programs hand one set of flags to ibv_reg_mr() and to ibv_modify_qp(). The QP has those that are
/// about what its peer may do.
TEST_F(QpStateCore, EveryAccessFlagOfMemoryIsTaken)
{
    constexpr unsigned kFlushGlobal = 1 << 8, kFlushPersistent = 1 << 9;
    constexpr unsigned kRemote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                 IBV_ACCESS_REMOTE_ATOMIC;
    constexpr unsigned kOthers = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND |
                                 IBV_ACCESS_ZERO_BASED | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB |
                                 kFlushGlobal | kFlushPersistent |
                                 unsigned(IBV_ACCESS_RELAXED_ORDERING);

    auto takes = [&](ibv_qp_type type, unsigned flags) {
        auto qp = make(type);
        Params params;
        params.access = flags;
        Transition t = init_transition(type, params);
        EXPECT_EQ(qp->modify(t.attr, t.mask), 0) << flags;
        EXPECT_EQ(qp->query().qp_access_flags, flags & kRemote) << flags;
    };
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC}) {
        takes(type, kRemote | kOthers);
        takes(type, IBV_ACCESS_REMOTE_READ | kOthers);
        for (unsigned bit = 0; bit < 32; bit++)
            if ((kRemote | kOthers) >> bit & 1)
                takes(type, 1U << bit);
    }
}

TEST_F(QpStateCore, BadValuesAreInvalid)
{
    auto refuses = [&](ibv_qp_type type, ibv_qp_state from, Transition t) {
        auto qp = make_in(type, from);
        int result = qp->modify(t.attr, t.mask);
        EXPECT_EQ(qp->state(), from);
        return result == EINVAL;
    };
    Transition t = init_transition(IBV_QPT_RC);
    t.attr.port_num = 2;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RESET, t)) << "port";
    t = init_transition(IBV_QPT_RC);
    t.attr.pkey_index = context.port().pkey_tbl_len;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RESET, t)) << "pkey_index";

    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.path_mtu = static_cast<ibv_mtu>(IBV_MTU_4096 + 1);
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "path_mtu too large";
    t.attr.path_mtu = static_cast<ibv_mtu>(0);
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "path_mtu 0";
    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.max_dest_rd_atomic = static_cast<std::uint8_t>(context.attr().max_qp_rd_atom + 1);
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "max_dest_rd_atomic";
    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(context.port().gid_tbl_len - 1);
    EXPECT_NE(make_in(IBV_QPT_RC, IBV_QPS_INIT)->modify(t.attr, t.mask), 0) << "empty GID";
    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.ah_attr.is_global = 0;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "RoCE needs a GRH";
    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.ah_attr.grh.dgid = context.gid(Family::V6);
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "IPv4 source, IPv6 destination";
    t.attr.ah_attr.grh.dgid = context.gid(Family::V4);
    t.attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(context.gid_index(Family::V6));
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "IPv6 source, IPv4 destination";
    t = rtr_transition(IBV_QPT_RC, {}, self, 5);
    t.attr.min_rnr_timer = 32;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_INIT, t)) << "min_rnr_timer has five bits";

    t = rts_transition(IBV_QPT_RC);
    t.attr.timeout = 32;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RTR, t)) << "timeout has five bits";
    t = rts_transition(IBV_QPT_RC);
    t.attr.retry_cnt = 8;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RTR, t)) << "retry_cnt has three bits";
    t = rts_transition(IBV_QPT_RC);
    t.attr.rnr_retry = 8;
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RTR, t)) << "rnr_retry has three bits";
    t = rts_transition(IBV_QPT_RC);
    t.attr.max_rd_atomic = static_cast<std::uint8_t>(context.attr().max_qp_init_rd_atom + 1);
    EXPECT_TRUE(refuses(IBV_QPT_RC, IBV_QPS_RTR, t)) << "max_rd_atomic";
}

TEST_F(QpStateCore, QueryReturnsWhatWasSet)
{
    Params params;
    params.mtu = IBV_MTU_2048;
    params.psn = 0xabcdef;
    params.peer_psn = 0x123456;
    params.timeout = 17;
    params.retry_cnt = 5;
    params.rnr_retry = 3;
    params.min_rnr_timer = 9;
    params.rd_atomic = 7;
    params.dest_rd_atomic = 11;
    params.access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    params.traffic_class = 0x48;
    params.hop_limit = 9;
    params.flow_label = 0x12345;
    ibv_ah_attr peer = address_of(context, context, params);
    peer.sl = 3;

    auto qp = make(IBV_QPT_RC);
    qp->to_init(params);
    qp->to_rtr(params, peer, 0x54321);
    qp->to_rts(params);
    ibv_qp_attr attr = qp->query();
    EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.cur_qp_state, IBV_QPS_RTS);
    EXPECT_EQ(attr.path_mtu, params.mtu);
    EXPECT_EQ(attr.sq_psn, params.psn);
    EXPECT_EQ(attr.rq_psn, params.peer_psn);
    EXPECT_EQ(attr.timeout, params.timeout);
    EXPECT_EQ(attr.retry_cnt, params.retry_cnt);
    EXPECT_EQ(attr.rnr_retry, params.rnr_retry);
    EXPECT_EQ(attr.min_rnr_timer, params.min_rnr_timer);
    EXPECT_EQ(attr.max_rd_atomic, params.rd_atomic);
    EXPECT_EQ(attr.max_dest_rd_atomic, params.dest_rd_atomic);
    EXPECT_EQ(attr.qp_access_flags, params.access);
    EXPECT_EQ(attr.dest_qp_num, 0x54321u);
    EXPECT_EQ(attr.port_num, 1);
    EXPECT_EQ(attr.pkey_index, 0);
    EXPECT_EQ(attr.path_mig_state, IBV_MIG_MIGRATED);
    EXPECT_EQ(attr.ah_attr.is_global, 1);
    EXPECT_EQ(attr.ah_attr.port_num, 1);
    EXPECT_EQ(attr.ah_attr.sl, 3);
    EXPECT_EQ(std::memcmp(attr.ah_attr.grh.dgid.raw, peer.grh.dgid.raw, 16), 0);
    EXPECT_EQ(attr.ah_attr.grh.sgid_index, peer.grh.sgid_index);
    EXPECT_EQ(attr.ah_attr.grh.traffic_class, params.traffic_class);
    EXPECT_NE(attr.ah_attr.grh.hop_limit, 0) << "the RDMA core puts the route's there";
    EXPECT_EQ(attr.ah_attr.grh.flow_label, params.flow_label);
}

TEST_F(QpStateCore, QueryReturnsTheQkeyOfUd)
{
    auto qp = make_in(IBV_QPT_UD, IBV_QPS_RTS);
    EXPECT_EQ(qp->query().qkey, Params{}.qkey);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.qkey = 0x22222222;
    ASSERT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_QKEY), 0);
    EXPECT_EQ(qp->query().qkey, 0x22222222u);
}

TEST_F(QpStateCore, RtsToRtsChangesWhatItMay)
{
    auto qp = make_in(IBV_QPT_RC, IBV_QPS_RTS);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    attr.min_rnr_timer = 20;
    ASSERT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
    EXPECT_EQ(qp->query().qp_access_flags, unsigned(IBV_ACCESS_REMOTE_READ));
    EXPECT_EQ(qp->query().min_rnr_timer, 20);
    attr.timeout = 10;
    EXPECT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT), EINVAL) << "only in SQD";
    attr.path_mtu = IBV_MTU_256;
    EXPECT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_PATH_MTU), EINVAL);
}

TEST_F(QpStateCore, SqdChangesTheAttributesOfSending)
{
    auto qp = make_in(IBV_QPT_RC, IBV_QPS_SQD);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_SQD;
    attr.timeout = 19;
    attr.retry_cnt = 2;
    attr.rnr_retry = 4;
    attr.max_rd_atomic = 3;
    ASSERT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                   IBV_QP_MAX_QP_RD_ATOMIC),
              0);
    ASSERT_EQ(qp->move(IBV_QPS_RTS), 0);
    ibv_qp_attr now = qp->query();
    EXPECT_EQ(now.timeout, 19);
    EXPECT_EQ(now.retry_cnt, 2);
    EXPECT_EQ(now.rnr_retry, 4);
    EXPECT_EQ(now.max_rd_atomic, 3);
}

TEST_F(QpStateCore, CurrentStateMustBeTrue)
{
    auto qp = make_in(IBV_QPT_RC, IBV_QPS_RTS);
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.cur_qp_state = IBV_QPS_RTS;
    EXPECT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
    attr.cur_qp_state = IBV_QPS_INIT;
    EXPECT_EQ(qp->modify(attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
}

TEST_F(QpStateCore, GoesRoundManyTimes)
{
    for (ibv_qp_type type : kTypes) {
        auto qp = make(type);
        for (int round = 0; round < 20; round++) {
            qp->to_init();
            qp->to_rtr({}, self, qp->number());
            qp->to_rts();
            if (round % 2) {
                EXPECT_EQ(qp->move(IBV_QPS_ERR), 0);
            }
            EXPECT_EQ(qp->move(IBV_QPS_RESET), 0);
        }
    }
}

TEST_F(QpStateCore, ResetForgetsReceives)
{
    auto qp = make_in(IBV_QPT_RC, IBV_QPS_INIT);
    qp->post_recv(1);
    qp->post_recv(2);
    ASSERT_EQ(qp->move(IBV_QPS_RESET), 0);
    qp->to_init();
    ASSERT_EQ(qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(cq.quiet()) << "RESET removes work requests without completions";
}

TEST_F(QpStateCore, PostingReceivesInResetIsRefused)
{
    EXPECT_NE(make(IBV_QPT_RC)->try_post_recv(1, {}), 0);
}

TEST_F(QpStateCore, PostingSendsBeforeRtsIsRefused)
{
    for (ibv_qp_state state : {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR})
        EXPECT_NE(make_in(IBV_QPT_RC, state)->try_post(SendWr::send({})), 0) << name_of(state);
}

TEST_F(QpStateCore, QpFullOfReceivesCanBeDestroyedInEveryState)
{
    for (ibv_qp_type type : kTypes)
        for (ibv_qp_state state : kStates) {
            if (state == IBV_QPS_RESET || state == IBV_QPS_SQE)
                continue;
            auto qp = make_in(type, state);
            for (std::uint64_t i = 0; i < 20; i++)
                qp->post_recv(i);
            EXPECT_EQ(qp->destroy(), 0) << name_of(state);
            qp.reset();
            ibv_wc wc{};
            while (ibv_poll_cq(cq.get(), 1, &wc) > 0)
                EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
        }
}

} // namespace
