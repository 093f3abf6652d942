// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Creating queue pairs: capabilities, limits and what is refused.
#include <set>

#include "lib/context.h"
#include "lib/qp.h"

using namespace vt;

namespace {

constexpr ibv_qp_type kTypes[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};

class QpCreateCore : public testing::Test {
protected:
    /// Tries to create; 0 or errno. What was made is destroyed again.
    int attempt(const QpConfig &config, ibv_qp_cap *cap = nullptr)
    {
        ibv_qp_init_attr init = config.attr(cq.get(), cq.get());
        errno = 0;
        ibv_qp *qp = ibv_create_qp(pd.get(), &init);
        if (!qp)
            return errno;
        if (cap)
            *cap = init.cap;
        EXPECT_EQ(ibv_destroy_qp(qp), 0);
        return 0;
    }

    Context context{device_a()};
    Pd pd = alloc_pd(context.get());
    Cq cq{context.get()};
    ibv_device_attr device = context.attr();
    std::uint32_t max_wr = static_cast<std::uint32_t>(device.max_qp_wr);
    std::uint32_t max_sge = static_cast<std::uint32_t>(device.max_sge);
};

TEST_F(QpCreateCore, BeginsInReset)
{
    for (ibv_qp_type type : kTypes) {
        Qp qp(pd.get(), cq.get(), cq.get(), {.type = type});
        EXPECT_EQ(qp.state(), IBV_QPS_RESET);
        EXPECT_EQ(qp->state, IBV_QPS_RESET);
        EXPECT_EQ(qp->qp_type, type);
    }
}

TEST_F(QpCreateCore, NumbersAreUniqueAndNotReserved)
{
    std::set<std::uint32_t> numbers;
    std::vector<std::unique_ptr<Qp>> qps;
    for (int i = 0; i < 200; i++) {
        qps.push_back(std::make_unique<Qp>(pd.get(), cq.get(), cq.get()));
        numbers.insert(qps.back()->number());
    }
    EXPECT_EQ(numbers.size(), 200u);
    EXPECT_FALSE(numbers.count(0));
    EXPECT_FALSE(numbers.count(1));
    EXPECT_LT(*numbers.rbegin(), 0xffffffu);
}

TEST_F(QpCreateCore, CapabilitiesAreAtLeastWhatWasAsked)
{
    for (ibv_qp_type type : kTypes)
        for (std::uint32_t wr : {1u, 3u, 100u, 1000u})
            for (std::uint32_t sge : {1u, 5u, 16u}) {
                ibv_qp_cap cap{};
                QpConfig config{.type = type,
                                .send_wr = wr,
                                .recv_wr = wr,
                                .send_sge = sge,
                                .recv_sge = sge,
                                .inline_data = wr / 4};
                ASSERT_EQ(attempt(config, &cap), 0);
                EXPECT_GE(cap.max_send_wr, wr);
                EXPECT_GE(cap.max_recv_wr, wr);
                EXPECT_GE(cap.max_send_sge, sge);
                EXPECT_GE(cap.max_recv_sge, sge);
                EXPECT_GE(cap.max_inline_data, wr / 4);
            }
}

TEST_F(QpCreateCore, QueryReturnsTheCapabilities)
{
    ibv_qp_init_attr init = QpConfig{.send_wr = 50,
                                     .recv_wr = 70,
                                     .send_sge = 3,
                                     .recv_sge = 5,
                                     .inline_data = 100,
                                     .sig_all = true}
                                .attr(cq.get(), cq.get());
    int marker = 0;
    init.qp_context = &marker;
    Qp qp(need(ibv_create_qp(pd.get(), &init), "ibv_create_qp"));
    EXPECT_EQ(qp->qp_context, &marker);
    ibv_qp_attr attr{};
    ibv_qp_init_attr now{};
    ASSERT_EQ(ibv_query_qp(qp.get(), &attr, IBV_QP_CAP, &now), 0);
    EXPECT_EQ(attr.cap.max_send_wr, init.cap.max_send_wr);
    EXPECT_EQ(attr.cap.max_recv_wr, init.cap.max_recv_wr);
    EXPECT_EQ(attr.cap.max_send_sge, init.cap.max_send_sge);
    EXPECT_EQ(attr.cap.max_recv_sge, init.cap.max_recv_sge);
    EXPECT_EQ(attr.cap.max_inline_data, init.cap.max_inline_data);
    EXPECT_EQ(now.cap.max_send_wr, init.cap.max_send_wr);
    EXPECT_EQ(now.qp_type, IBV_QPT_RC);
    EXPECT_EQ(now.send_cq, cq.get());
    EXPECT_EQ(now.recv_cq, cq.get());
    EXPECT_EQ(now.sq_sig_all, 1);
    EXPECT_EQ(now.qp_context, &marker);
}

TEST_F(QpCreateCore, TheLimitsOfTheDeviceCanBeHad)
{
    for (ibv_qp_type type : kTypes) {
        EXPECT_EQ(
            attempt(
                {.type = type, .send_wr = max_wr, .recv_wr = max_wr, .send_sge = 1, .recv_sge = 1}),
            0);
        EXPECT_EQ(attempt({.type = type,
                           .send_wr = 16,
                           .recv_wr = 16,
                           .send_sge = max_sge,
                           .recv_sge = max_sge}),
                  0);
        EXPECT_EQ(attempt({.type = type, .inline_data = 512}), 0);
    }
}

TEST_F(QpCreateCore, BeyondTheLimitsIsInvalid)
{
    for (ibv_qp_type type : kTypes) {
        EXPECT_EQ(attempt({.type = type, .send_wr = max_wr + 1}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .recv_wr = max_wr + 1}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .send_sge = max_sge + 1}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .recv_sge = max_sge + 1}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .inline_data = 1 << 20}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .send_wr = ~0u}), EINVAL);
        EXPECT_EQ(attempt({.type = type, .send_sge = ~0u}), EINVAL);
    }
}

TEST_F(QpCreateCore, EmptyQueuesAreAllowed)
{
    EXPECT_EQ(attempt({.send_wr = 0, .send_sge = 0}), 0);
    EXPECT_EQ(attempt({.recv_wr = 0, .recv_sge = 0}), 0);
}

TEST_F(QpCreateCore, UnknownTypesAreRefused)
{
    EXPECT_NE(attempt({.type = static_cast<ibv_qp_type>(0)}), 0);
    EXPECT_NE(attempt({.type = static_cast<ibv_qp_type>(99)}), 0);
    EXPECT_NE(attempt({.type = IBV_QPT_RAW_PACKET}), 0);
    EXPECT_NE(attempt({.type = IBV_QPT_DRIVER}), 0);
}

TEST_F(QpCreateCore, QueuesCanBeApart)
{
    Cq other(context.get());
    Qp qp(pd.get(), cq.get(), other.get());
    EXPECT_EQ(qp->send_cq, cq.get());
    EXPECT_EQ(qp->recv_cq, other.get());
    EXPECT_EQ(other.destroy(), EBUSY);
}

TEST_F(QpCreateCore, PdAndCqInUseAreNotFreed)
{
    Qp qp(pd.get(), cq.get(), cq.get());
    EXPECT_EQ(pd.destroy(), EBUSY);
    EXPECT_EQ(cq.destroy(), EBUSY);
    EXPECT_EQ(qp.destroy(), 0);
    EXPECT_EQ(cq.destroy(), 0);
    EXPECT_EQ(pd.destroy(), 0);
}

TEST_F(QpCreateCore, ThousandComeAndGo)
{
    for (int i = 0; i < 1000; i++)
        ASSERT_EQ(attempt({.send_wr = 4, .recv_wr = 4, .send_sge = 1, .recv_sge = 1}), 0) << i;
}

TEST_F(QpCreateCore, ThousandAtOnce)
{
    std::vector<std::unique_ptr<Qp>> qps;
    for (int i = 0; i < 1000; i++)
        qps.push_back(std::make_unique<Qp>(
            pd.get(), cq.get(), cq.get(),
            QpConfig{.send_wr = 4, .recv_wr = 4, .send_sge = 1, .recv_sge = 1}));
    EXPECT_EQ(qps.size(), 1000u);
}

TEST_F(QpCreateCore, PostingTooManySgesIsRefused)
{
    Qp qp(pd.get(), cq.get(), cq.get(), {.send_sge = 2, .recv_sge = 2});
    Buffer buffer(pd.get(), 4096);
    qp.to_init();
    ibv_qp_cap cap = qp.query(IBV_QP_CAP).cap;
    EXPECT_EQ(qp.try_post_recv(1, Sges(cap.max_recv_sge + 1, buffer.sge(0, 8))), EINVAL);
    EXPECT_EQ(qp.try_post(SendWr::send(Sges(cap.max_send_sge + 1, buffer.sge(0, 8)))), EINVAL);
}

/* What a peer of some vendor offers is not refused, and nothing of it is taken. */
TEST_F(QpCreateCore, EnhancedConnectionsAreNone)
{
    Qp qp(pd.get(), cq.get(), cq.get(), {});
    ibv_ece ece = {0x15b3, 1, 0};
    EXPECT_EQ(ibv_set_ece(qp.get(), &ece), 0);
    ece = {1, 2, 3};
    ASSERT_EQ(ibv_query_ece(qp.get(), &ece), 0);
    EXPECT_EQ(ece.vendor_id, 0u);
    EXPECT_EQ(ece.options, 0u);
    EXPECT_EQ(ece.comp_mask, 0u);
    ibv_ece unknown = {0x15b3, 1, 1};
    EXPECT_EQ(ibv_set_ece(qp.get(), &unknown), EINVAL);
}

TEST_F(QpCreateCore, FullReceiveQueueRefusesMore)
{
    Qp qp(pd.get(), cq.get(), cq.get(), {.recv_wr = 10});
    Buffer buffer(pd.get(), 4096);
    qp.to_init();
    std::uint32_t promised = qp.query(IBV_QP_CAP).cap.max_recv_wr;
    for (std::uint32_t i = 0; i < promised; i++)
        ASSERT_EQ(qp.try_post_recv(i, {buffer.sge(0, 8)}), 0) << i;
    int result = 0;
    for (std::uint32_t i = 0; !result && i <= promised; i++)
        result = qp.try_post_recv(i, {buffer.sge(0, 8)});
    EXPECT_EQ(result, ENOMEM);
}

} // namespace
