// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The extended interfaces: ibv_wr_*, ibv_cq_ex, timestamps, parent domains.
#include <algorithm>
#include <array>
#include <cstring>

#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::uint64_t kRcOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                 IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
constexpr std::uint64_t kUcOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                 IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t kUdOps = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

ibv_qp *create_ex(const End &end, const QpConfig &config, std::uint64_t ops)
{
    return try_create_ex(end.pd.get(), end.send_cq.get(), end.recv_cq.get(), config, ops);
}

/// a posts by ibv_wr_*, b is a plain QP.
class WrCore : public PairTest {
protected:
    void begin(ibv_qp_type type, std::uint64_t ops)
    {
        QpConfig config{.type = type, .send_sge = 8, .recv_sge = 8, .inline_data = 256};
        make(config, config);
        a.qp = std::make_unique<Qp>(need(create_ex(a, config, ops), "ibv_create_qp_ex"));
        ex = need(ibv_qp_to_qp_ex(a.qp->get()), "ibv_qp_to_qp_ex");
        connect();
    }
    /// Posts one request that @p make_it describes and checks its completion.
    template <typename MakeIt>
    void post(std::uint64_t id, ibv_wc_opcode opcode, MakeIt make_it, unsigned flags = 0)
    {
        ibv_wr_start(ex);
        ex->wr_id = id;
        ex->wr_flags = IBV_SEND_SIGNALED | flags;
        make_it();
        ASSERT_EQ(ibv_wr_complete(ex), 0);
        ASSERT_TRUE(is(a.send_cq.one(), id, opcode));
    }

    ibv_qp_ex *ex = nullptr;
    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

TEST_F(WrCore, RcDoesEveryOperation)
{
    begin(IBV_QPT_RC, kRcOps);
    fill(near.bytes(0, 5000), 1);
    post(1, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address(100));
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 5000);
    });
    EXPECT_TRUE(filled(far.bytes(100, 5000), 1));
    EXPECT_TRUE(all(far.bytes(0, 100), 0));

    b.qp->post_recv(50);
    post(2, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write_imm(ex, far.rkey(), far.address(8000), htonl(0x99));
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 3);
    });
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 50, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_EQ(ntohl(wc.imm_data), 0x99u);
    EXPECT_EQ(wc.byte_len, 3u);

    b.qp->post_recv(51, {far.sge(0, 5000)});
    post(3, IBV_WC_SEND, [&] {
        ibv_wr_send(ex);
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 5000);
    });
    wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 51, IBV_WC_RECV));
    EXPECT_FALSE(wc.wc_flags & IBV_WC_WITH_IMM);
    EXPECT_TRUE(filled(far.bytes(0, 5000), 1));

    b.qp->post_recv(52);
    post(4, IBV_WC_SEND, [&] {
        ibv_wr_send_imm(ex, htonl(0x77));
        ibv_wr_set_sge_list(ex, 0, nullptr);
    });
    EXPECT_EQ(ntohl(b.recv_cq.one().imm_data), 0x77u);

    post(5, IBV_WC_RDMA_READ, [&] {
        ibv_wr_rdma_read(ex, far.rkey(), far.address());
        ibv_wr_set_sge(ex, near.lkey(), near.address(8192), 5000);
    });
    EXPECT_TRUE(filled(near.bytes(8192, 5000), 1));

    far.word(16000) = 10;
    post(6, IBV_WC_FETCH_ADD, [&] {
        ibv_wr_atomic_fetch_add(ex, far.rkey(), far.address(16000), 5);
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 8);
    });
    EXPECT_EQ(near.word(0), 10u);
    EXPECT_EQ(far.word(16000), 15u);
    post(7, IBV_WC_COMP_SWAP, [&] {
        ibv_wr_atomic_cmp_swp(ex, far.rkey(), far.address(16000), 15, 99);
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 8);
    });
    EXPECT_EQ(near.word(0), 15u);
    EXPECT_EQ(far.word(16000), 99u);
}

TEST_F(WrCore, UcDoesItsOperations)
{
    begin(IBV_QPT_UC, kUcOps);
    fill(near.bytes(0, 3000), 2);
    b.qp->post_recv(50, {far.sge(0, 3000)});
    post(1, IBV_WC_SEND, [&] {
        ibv_wr_send_imm(ex, htonl(4));
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 3000);
    });
    EXPECT_TRUE(is(b.recv_cq.one(), 50, IBV_WC_RECV));
    EXPECT_TRUE(filled(far.bytes(0, 3000), 2));
    b.qp->post_recv(51);
    post(2, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write_imm(ex, far.rkey(), far.address(4096), htonl(5));
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 3000);
    });
    EXPECT_TRUE(is(b.recv_cq.one(), 51, IBV_WC_RECV_RDMA_WITH_IMM));
    EXPECT_TRUE(filled(far.bytes(4096, 3000), 2));
}

TEST_F(WrCore, UdSendsToItsAddress)
{
    begin(IBV_QPT_UD, kUdOps);
    Ah to_b = ah(a, b);
    fill(near.bytes(0, 900), 3);
    b.qp->post_recv(50, {far.sge(0, 4096)});
    post(1, IBV_WC_SEND, [&] {
        ibv_wr_send_imm(ex, htonl(6));
        ibv_wr_set_ud_addr(ex, to_b.get(), b.qp->number(), Params{}.qkey);
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 900);
    });
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 50, IBV_WC_RECV));
    EXPECT_EQ(wc.src_qp, a.qp->number());
    EXPECT_EQ(ntohl(wc.imm_data), 6u);
    EXPECT_TRUE(filled(far.bytes(40, 900), 3));
}

TEST_F(WrCore, ScatterLists)
{
    begin(IBV_QPT_RC, kRcOps);
    fill(near.bytes(), 4);
    std::array<ibv_sge, 4> list{near.sge(0, 1000), near.sge(1000, 1), near.sge(1001, 0),
                                near.sge(1001, 2000)};
    post(1, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address());
        ibv_wr_set_sge_list(ex, list.size(), list.data());
    });
    EXPECT_TRUE(filled(far.bytes(0, 3001), 4));
    EXPECT_TRUE(all(far.bytes(3001, 100), 0));
}

TEST_F(WrCore, InlineData)
{
    begin(IBV_QPT_RC, kRcOps);
    std::array<std::uint8_t, 256> local{};
    fill(local, 5);
    post(1, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address());
        ibv_wr_set_inline_data(ex, local.data(), 200);
    });
    EXPECT_TRUE(filled(far.bytes(0, 200), 5));
    EXPECT_TRUE(all(far.bytes(200, 100), 0));
    std::array<ibv_data_buf, 3> pieces{
        {{local.data(), 7}, {local.data() + 7, 0}, {local.data() + 7, 249}}};
    post(2, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address(1000));
        ibv_wr_set_inline_data_list(ex, pieces.size(), pieces.data());
    });
    EXPECT_TRUE(filled(far.bytes(1000, 256), 5));
}

TEST_F(WrCore, TooMuchInlineDataFailsTheWholeBatch)
{
    begin(IBV_QPT_RC, kRcOps);
    std::vector<std::uint8_t> local(1 << 16, 0xaa);
    ibv_wr_start(ex);
    ex->wr_id = 1;
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_write(ex, far.rkey(), far.address());
    ibv_wr_set_inline_data(ex, local.data(), local.size());
    EXPECT_NE(ibv_wr_complete(ex), 0);
    EXPECT_TRUE(a.send_cq.quiet());
    EXPECT_TRUE(all(far.bytes(), 0));
}

TEST_F(WrCore, BatchesGoOutInOrder)
{
    begin(IBV_QPT_RC, kRcOps);
    fill(near.bytes(), 6);
    ibv_wr_start(ex);
    for (std::size_t i = 0; i < 32; i++) {
        ex->wr_id = i;
        ex->wr_flags = i % 4 == 3 ? IBV_SEND_SIGNALED : 0;
        ibv_wr_rdma_write(ex, far.rkey(), far.address(i * 500));
        ibv_wr_set_sge(ex, near.lkey(), near.address(i * 500), 500);
    }
    ASSERT_EQ(ibv_wr_complete(ex), 0);
    std::vector<ibv_wc> wcs = a.send_cq.wait(8);
    for (std::size_t i = 0; i < 8; i++)
        EXPECT_TRUE(is(wcs[i], i * 4 + 3, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(far.bytes(0, 16000), 6));
}

TEST_F(WrCore, AbortedBatchesNeverHappened)
{
    begin(IBV_QPT_RC, kRcOps);
    fill(near.bytes(), 7);
    for (std::uint64_t round = 0; round < 100; round++) {
        ibv_wr_start(ex);
        for (std::uint64_t i = 0; i < 10; i++) {
            ex->wr_id = 1000 + i;
            ex->wr_flags = IBV_SEND_SIGNALED;
            ibv_wr_rdma_write(ex, far.rkey(), far.address());
            ibv_wr_set_sge(ex, near.lkey(), near.address(), 500);
        }
        ibv_wr_abort(ex);
    }
    EXPECT_TRUE(a.send_cq.quiet());
    EXPECT_TRUE(all(far.bytes(), 0));
    post(1, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address());
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 500);
    });
}

TEST_F(WrCore, OverfullBatchesAreRefusedWhole)
{
    begin(IBV_QPT_RC, kRcOps);
    ibv_wr_start(ex);
    for (std::uint64_t i = 0; i < 5000; i++) {
        ex->wr_id = i;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(ex, far.rkey(), far.address());
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 8);
    }
    EXPECT_EQ(ibv_wr_complete(ex), ENOMEM);
    EXPECT_TRUE(a.send_cq.quiet());
    post(1, IBV_WC_RDMA_WRITE, [&] {
        ibv_wr_rdma_write(ex, far.rkey(), far.address());
        ibv_wr_set_sge(ex, near.lkey(), near.address(), 8);
    });
}

TEST_F(WrCore, PlainPostingWorksOnTheSameQp)
{
    begin(IBV_QPT_RC, kRcOps);
    for (std::uint64_t i = 0; i < 20; i++) {
        post(i, IBV_WC_RDMA_WRITE, [&] {
            ibv_wr_rdma_write(ex, far.rkey(), far.address());
            ibv_wr_set_sge(ex, near.lkey(), near.address(), 8);
        });
        a.qp->post(SendWr::write({near.sge(0, 8)}, remote(far)).id(100 + i));
        ASSERT_TRUE(is(a.send_cq.one(), 100 + i, IBV_WC_RDMA_WRITE));
    }
}

TEST_F(WrCore, OperationsThatTheTypeDoesNotHaveAreRefused)
{
    for (auto [type, ops] : {std::pair{IBV_QPT_UD, kRcOps},
                             {IBV_QPT_UC, kRcOps},
                             {IBV_QPT_UD, kUcOps},
                             {IBV_QPT_RC, std::uint64_t(1) << 40}}) {
        ibv_qp *made = create_ex(a, {.type = type}, ops);
        EXPECT_EQ(made, nullptr) << "type " << type << ", ops " << ops;
        if (made)
            ibv_destroy_qp(made);
    }
}

// ---- ibv_cq_ex ----

class CqExCore : public PairTest {
protected:
    void begin(std::uint64_t wc_flags, std::uint32_t flags = 0)
    {
        ibv_cq_init_attr_ex init{};
        init.cqe = 128;
        init.wc_flags = wc_flags;
        init.flags = flags;
        init.comp_mask = flags ? IBV_CQ_INIT_ATTR_MASK_FLAGS : 0;
        ex = need(ibv_create_cq_ex(b.context.get(), &init), "ibv_create_cq_ex");
        a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), ibv_cq_ex_to_cq(ex));
        connect();
    }
    void TearDown() override
    {
        PairTest::TearDown();
        if (ex) {
            EXPECT_EQ(ibv_destroy_cq(ibv_cq_ex_to_cq(ex)), 0);
        }
    }
    void message(std::uint64_t id, std::size_t length = 0)
    {
        b.qp->post_recv(id, {far.sge(0, 4096)});
        a.qp->post(SendWr::send({near.sge(0, length)}).imm(std::uint32_t(id)).id(id));
        EXPECT_TRUE(is(a.send_cq.one(), id, IBV_WC_SEND));
    }
    int start_poll()
    {
        ibv_poll_cq_attr attr{};
        int result = ENOENT;
        eventually([&] { return (result = ibv_start_poll(ex, &attr)) != ENOENT; });
        return result;
    }
    static ibv_qp_cap capabilities(const Qp &qp)
    {
        ibv_qp_attr attr{};
        ibv_qp_init_attr init{};
        check(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &init), "ibv_query_qp");
        return init.cap;
    }
    static std::uint64_t now_ns(clockid_t clock)
    {
        timespec t{};
        clock_gettime(clock, &t);
        return std::uint64_t(t.tv_sec) * 1'000'000'000 + std::uint64_t(t.tv_nsec);
    }

    ibv_cq_ex *ex = nullptr;
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
};

constexpr std::uint64_t kUsual = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM |
                                 IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SL |
                                 IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_DLID_PATH_BITS;

TEST_F(CqExCore, EmptyQueueHasNothing)
{
    begin(kUsual);
    ibv_poll_cq_attr attr{};
    EXPECT_EQ(ibv_start_poll(ex, &attr), ENOENT);
}

TEST_F(CqExCore, ReadersReadTheCompletion)
{
    begin(kUsual);
    for (std::uint64_t i = 1; i <= 5; i++)
        message(i, i * 100);
    ASSERT_EQ(start_poll(), 0);
    for (std::uint64_t i = 1; i <= 5; i++) {
        EXPECT_EQ(ex->wr_id, i);
        EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
        EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
        EXPECT_EQ(ibv_wc_read_byte_len(ex), i * 100);
        EXPECT_EQ(ntohl(ibv_wc_read_imm_data(ex)), i);
        EXPECT_EQ(ibv_wc_read_qp_num(ex), b.qp->number());
        EXPECT_TRUE(ibv_wc_read_wc_flags(ex) & IBV_WC_WITH_IMM);
        EXPECT_EQ(ibv_wc_read_vendor_err(ex), 0u);
        EXPECT_EQ(ibv_next_poll(ex), i < 5 ? 0 : ENOENT);
    }
    ibv_end_poll(ex);
    message(6);
    ASSERT_EQ(start_poll(), 0);
    EXPECT_EQ(ex->wr_id, 6u);
    ibv_end_poll(ex);
    EXPECT_EQ(ibv_poll_cq(ibv_cq_ex_to_cq(ex), 0, nullptr), 0);
}

TEST_F(CqExCore, ErrorsAreRead)
{
    begin(kUsual);
    b.qp->post_recv(9);
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    ASSERT_EQ(start_poll(), 0);
    EXPECT_EQ(ex->wr_id, 9u);
    EXPECT_EQ(ex->status, IBV_WC_WR_FLUSH_ERR);
    ibv_end_poll(ex);
}

TEST_F(CqExCore, PlainPollingWorksToo)
{
    begin(kUsual);
    message(4, 10);
    CqView plain(ibv_cq_ex_to_cq(ex));
    ibv_wc wc = plain.one();
    EXPECT_TRUE(is(wc, 4, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, 10u);
}

TEST_F(CqExCore, SingleThreadedQueue)
{
    begin(kUsual, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    for (std::uint64_t i = 0; i < 300; i++) {
        message(i);
        ASSERT_EQ(start_poll(), 0);
        EXPECT_EQ(ex->wr_id, i);
        ibv_end_poll(ex);
    }
}

TEST_F(CqExCore, TimestampsTellWhenItWas)
{
    begin(kUsual | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(b.context.get(), nullptr, &device), 0);
    std::uint64_t last = 0;
    for (std::uint64_t i = 0; i < 5; i++) {
        ibv_values_ex before{IBV_VALUES_MASK_RAW_CLOCK, {}};
        ASSERT_EQ(ibv_query_rt_values_ex(b.context.get(), &before), 0);
        message(i);
        ASSERT_EQ(start_poll(), 0);
        std::uint64_t stamp = ibv_wc_read_completion_ts(ex);
        ibv_end_poll(ex);
        ibv_values_ex after{IBV_VALUES_MASK_RAW_CLOCK, {}};
        ASSERT_EQ(ibv_query_rt_values_ex(b.context.get(), &after), 0);
        auto ticks = [&](const ibv_values_ex &v) {
            // The whole clock, in the units of timestamps: programs look at nothing else.
            EXPECT_EQ(v.raw_clock.tv_sec, 0);
            return std::uint64_t(v.raw_clock.tv_nsec);
        };
        EXPECT_EQ(device.hca_core_clock, 1'000'000u) << "kHz: it is ns";
        EXPECT_GE(stamp, ticks(before));
        EXPECT_LE(stamp, ticks(after));
        EXPECT_GT(stamp, last);
        last = stamp;
    }
}

TEST_F(CqExCore, WallClockTimestamps)
{
    begin(kUsual | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    for (std::uint64_t i = 0; i < 5; i++) {
        std::uint64_t before = now_ns(CLOCK_REALTIME);
        message(i);
        ASSERT_EQ(start_poll(), 0);
        std::uint64_t stamp = ibv_wc_read_completion_wallclock_ns(ex);
        ibv_end_poll(ex);
        // The coarse kernel clock may lag by a tick.
        EXPECT_GE(stamp + 10'000'000, before);
        EXPECT_LE(stamp, now_ns(CLOCK_REALTIME));
    }
}

/// Both clocks at once tell the same: between two completions both go on by as much.
TEST_F(CqExCore, BothClocksAgree)
{
    begin(kUsual | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
          IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    ibv_device_attr_ex device{};
    ASSERT_EQ(ibv_query_device_ex(b.context.get(), nullptr, &device), 0);
    ASSERT_NE(device.hca_core_clock, 0u);
    auto stamps = [&](std::uint64_t id) {
        message(id);
        EXPECT_EQ(start_poll(), 0);
        // The raw clock's unit is 1 / hca_core_clock ms.
        double raw_ms = double(ibv_wc_read_completion_ts(ex)) / double(device.hca_core_clock);
        double wall_ms = double(ibv_wc_read_completion_wallclock_ns(ex)) / 1e6;
        ibv_end_poll(ex);
        return std::pair{raw_ms, wall_ms};
    };
    auto [raw0, wall0] = stamps(1);
    for (std::uint64_t i = 2; i < 6; i++) {
        std::this_thread::sleep_for(100ms);
        auto [raw, wall] = stamps(i);
        EXPECT_GE(raw - raw0, 100.0 * double(i - 1) * 0.99);
        // The wall clock may be steered, by 0.05 % at most; reading them is not one step.
        EXPECT_NEAR(raw - raw0, wall - wall0, 5.0 + (raw - raw0) * 0.001);
    }
}

TEST_F(CqExCore, ClockOfTheContextIsThatOfTheCompletions)
{
    begin(kUsual | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
    ibv_values_ex nothing{0, {}};
    EXPECT_EQ(ibv_query_rt_values_ex(b.context.get(), &nothing), 0);
    EXPECT_EQ(nothing.comp_mask, 0u);
    ibv_values_ex values{IBV_VALUES_MASK_RAW_CLOCK | 1U << 30, {}};
    ASSERT_EQ(ibv_query_rt_values_ex(b.context.get(), &values), 0);
    EXPECT_EQ(values.comp_mask, std::uint32_t(IBV_VALUES_MASK_RAW_CLOCK)) << "what is answered";
}

TEST_F(CqExCore, DatagramsHaveAllFields)
{
    ibv_cq_init_attr_ex init{};
    init.cqe = 128;
    init.wc_flags = kUsual;
    ex = need(ibv_create_cq_ex(b.context.get(), &init), "ibv_create_cq_ex");
    QpConfig config{.type = IBV_QPT_UD};
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get(), config);
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), ibv_cq_ex_to_cq(ex), config);
    connect();
    Ah to_b = ah(a, b);
    b.qp->post_recv(5, {far.sge(0, 4096)});
    a.qp->post(SendWr::send({near.sge(0, 300)})
                   .imm(77)
                   .id(6)
                   .to(to_b.get(), b.qp->number(), Params{}.qkey));
    EXPECT_TRUE(is(a.send_cq.one(), 6, IBV_WC_SEND));
    ASSERT_EQ(start_poll(), 0);
    EXPECT_EQ(ex->wr_id, 5u);
    EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
    EXPECT_EQ(ibv_wc_read_byte_len(ex), 340u) << "with the GRH";
    EXPECT_EQ(ntohl(ibv_wc_read_imm_data(ex)), 77u);
    EXPECT_EQ(ibv_wc_read_qp_num(ex), b.qp->number());
    EXPECT_EQ(ibv_wc_read_src_qp(ex), a.qp->number());
    EXPECT_EQ(ibv_wc_read_wc_flags(ex), unsigned(IBV_WC_GRH | IBV_WC_WITH_IMM));
    // RoCE has no LIDs, and the kind of packet for a service level, see ud_test.cc.
    EXPECT_EQ(ibv_wc_read_slid(ex), 0u);
    EXPECT_EQ(ibv_wc_read_dlid_path_bits(ex), 0);
    EXPECT_EQ(ibv_wc_read_sl(ex), 10);
    ibv_end_poll(ex);
}

TEST_F(CqExCore, FieldsThatThereAreNotAreRefused)
{
    for (std::uint64_t field :
         {std::uint64_t(IBV_WC_EX_WITH_CVLAN), std::uint64_t(IBV_WC_EX_WITH_FLOW_TAG),
          std::uint64_t(IBV_WC_EX_WITH_TM_INFO), std::uint64_t(1) << 40}) {
        ibv_cq_init_attr_ex init{};
        init.cqe = 16;
        init.wc_flags = kUsual | field;
        errno = 0;
        EXPECT_EQ(ibv_create_cq_ex(b.context.get(), &init), nullptr) << field;
        // libibverbs itself stops what it does not know.
        EXPECT_TRUE(errno == EOPNOTSUPP || (field >> 40 && errno == EINVAL)) << errno;
    }
}

/// No promise: the order in which bytes of a message appear is that of memcpy().
TEST_F(WrCore, DataInOrderIsNotPromised)
{
    begin(IBV_QPT_RC, kRcOps);
    for (ibv_wr_opcode op : {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ})
        EXPECT_EQ(ibv_query_qp_data_in_order(a.qp->get(), op, 0), 0);
}

TEST_F(CqExCore, ResizeKeepsWhatIsInTheQueue)
{
    begin(kUsual);
    for (std::uint64_t i = 0; i < 10; i++)
        message(i);
    ASSERT_EQ(ibv_resize_cq(ibv_cq_ex_to_cq(ex), 1000), 0);
    ASSERT_EQ(start_poll(), 0);
    for (std::uint64_t i = 0; i < 10; i++) {
        EXPECT_EQ(ex->wr_id, i);
        EXPECT_EQ(ibv_next_poll(ex), i < 9 ? 0 : ENOENT);
    }
    ibv_end_poll(ex);
}

// ---- posting inside a poll: a place is free when the poll arrives at its completion ----

TEST_F(CqExCore, FullReceiveQueueIsRefilledInsideThePoll)
{
    begin(kUsual);
    const std::uint32_t depth = capabilities(*b.qp).max_recv_wr;
    const std::uint64_t messages = 3ul * depth;
    for (std::uint64_t i = 0; i < depth; i++)
        b.qp->post_recv(i, {far.sge(0, 4096)});
    ASSERT_EQ(b.qp->try_post_recv(depth, {}), ENOMEM) << "it is full";
    for (std::uint64_t taken = 0; taken < messages;) {
        // One by one and several at a time.
        const std::uint64_t sent = std::min<std::uint64_t>(1 + taken % 5, messages - taken);
        for (std::uint64_t i = 0; i < sent; i++) {
            a.qp->post(SendWr::send({near.sge(0, 64)}).id(i));
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND));
        }
        ASSERT_EQ(start_poll(), 0);
        for (std::uint64_t i = 0; i < sent; i++, taken++) {
            EXPECT_EQ(ex->wr_id, taken);
            EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
            EXPECT_EQ(b.qp->try_post_recv(taken + depth, {far.sge(0, 4096)}), 0) << taken;
            EXPECT_EQ(b.qp->try_post_recv(0, {}), ENOMEM) << "one place and no more";
            EXPECT_EQ(ibv_wc_read_byte_len(ex), 64u);
            EXPECT_EQ(ibv_next_poll(ex), i + 1 < sent ? 0 : ENOENT);
        }
        ibv_end_poll(ex);
        ASSERT_FALSE(HasFailure());
    }
}

TEST_F(CqExCore, FullSendQueueIsRefilledInsideThePoll)
{
    begin(kUsual);
    b.qp = std::make_unique<Qp>(b.pd.get(), ibv_cq_ex_to_cq(ex), b.recv_cq.get());
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    connect();
    const std::uint64_t depth = capabilities(*b.qp).max_send_wr;
    auto write = [&](std::uint64_t id) {
        return b.qp->try_post(SendWr::write({far.sge(0, 64)}, remote(near)).id(id));
    };
    std::uint64_t posted = 0;
    while (posted < depth)
        ASSERT_EQ(write(posted++), 0);
    ASSERT_EQ(write(posted), ENOMEM) << "it is full";
    for (std::uint64_t taken = 0; taken < 4 * depth;) {
        ASSERT_EQ(start_poll(), 0);
        do {
            EXPECT_EQ(ex->wr_id, taken);
            EXPECT_EQ(ex->status, IBV_WC_SUCCESS);
            EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RDMA_WRITE);
            taken++;
            if (posted < 4 * depth) {
                EXPECT_EQ(write(posted++), 0) << taken;
                EXPECT_EQ(write(posted), ENOMEM) << "one place and no more";
            }
        } while (ibv_next_poll(ex) == 0 && !HasFailure());
        ibv_end_poll(ex);
        ASSERT_FALSE(HasFailure());
    }
}

// ---- thread and parent domains ----

class DomainCore : public PairTest {
protected:
    ibv_td *alloc_td() const
    {
        ibv_td_init_attr attr{};
        return need(ibv_alloc_td(a.context.get(), &attr), "ibv_alloc_td");
    }
    /// A parent domain of a's PD, with @p td unless that is null.
    ibv_pd *alloc_parent(ibv_td *td = nullptr) const
    {
        ibv_parent_domain_init_attr attr{};
        attr.pd = a.pd.get();
        attr.td = td;
        return need(ibv_alloc_parent_domain(a.context.get(), &attr), "ibv_alloc_parent_domain");
    }
};

TEST_F(DomainCore, QpInAParentDomainWithAThreadDomainWorks)
{
    ibv_td *td = alloc_td();
    ibv_pd *domain = alloc_parent(td);
    make();
    a.qp = std::make_unique<Qp>(domain, a.send_cq.get(), a.recv_cq.get());
    connect();
    for (int i = 0; i < 20; i++)
        expect_works();
    int result = ibv_dealloc_pd(domain);
    EXPECT_EQ(result, EBUSY) << "in use";
    a.qp.reset();
    if (result) {
        EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    }
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

TEST_F(DomainCore, ParentDomainWithoutAThreadDomainWorks)
{
    ibv_pd *domain = alloc_parent();
    make();
    a.qp = std::make_unique<Qp>(domain, a.send_cq.get(), a.recv_cq.get());
    connect();
    expect_works();
    {
        Buffer buffer(domain, 4096);
        Buffer target = b.buffer(4096);
        a.qp->post(SendWr::write({buffer.sge(0, 100)}, remote(target)).id(1));
        EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE)) << "its MRs are of the same PD";
    }
    a.qp.reset();
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
}

TEST_F(DomainCore, ThreadDomainInUseIsNotFreed)
{
    ibv_td *td = alloc_td();
    ibv_pd *domain = alloc_parent(td);
    EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
    EXPECT_EQ(ibv_dealloc_pd(domain), 0);
    EXPECT_EQ(ibv_dealloc_td(td), 0);
}

} // namespace
