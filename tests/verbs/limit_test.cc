// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The limits that the device reports: queues are made and filled to them and no further, and
/// thousands of objects are there at once.
#include <iostream>
#include <memory>
#include <vector>

#include <unistd.h>

#include "lib/pair.h"

using namespace vt;

namespace {

/// Of each kind at once. The million that is reported is a matter of memory. slab_test.cc has more
/// QPs.
constexpr std::size_t kMany = 10000;

class LimitCore : public PairTest {
protected:
    void SetUp() override { alarm(kLongCaseSeconds); }

    ibv_device_attr limits = a.context.attr();
};

class LimitTest : public LimitCore {};

std::uint32_t unsigned_of(int value)
{
    return static_cast<std::uint32_t>(value);
}

TEST_F(LimitCore, AreThoseOfTheReadme)
{
    for (int objects : {limits.max_qp, limits.max_cq, limits.max_srq, limits.max_mr, limits.max_ah})
        EXPECT_EQ(objects, 1 << 20);
    EXPECT_EQ(limits.max_qp_wr, 32 << 10);
    EXPECT_EQ(limits.max_srq_wr, 1 << 20);
    EXPECT_EQ(limits.max_cqe, 4 << 20);
    EXPECT_EQ(limits.max_qp_rd_atom, 128);
    EXPECT_EQ(limits.max_qp_init_rd_atom, 128);
}

/// Without receives at the other end all stay where they are.
TEST_F(LimitCore, SendQueueHoldsWhatIsReported)
{
    const std::uint32_t most = unsigned_of(limits.max_qp_wr);
    Cq cq(a.context.get(), static_cast<int>(most));
    a.qp = std::make_unique<Qp>(a.pd.get(), cq.get(), a.recv_cq.get(),
                                QpConfig{.send_wr = most, .send_sge = 1, .recv_sge = 1});
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get(),
                                QpConfig{.recv_wr = 64, .send_sge = 1, .recv_sge = 1});
    Params params;
    params.min_rnr_timer = 14; // a millisecond
    connect(params);
    std::uint32_t posted = 0;
    while (posted < most && !a.qp->try_post(SendWr::send({}).id(posted)))
        posted++;
    EXPECT_EQ(posted, most);
    EXPECT_EQ(a.qp->try_post(SendWr::send({}).id(posted)), ENOMEM) << "one above";
    ASSERT_EQ(a.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(cq.wait(most), 0));
    a.qp.reset();
}

TEST_F(LimitCore, ReceiveQueueHoldsWhatIsReported)
{
    const std::uint32_t most = unsigned_of(limits.max_qp_wr);
    Cq cq(a.context.get(), static_cast<int>(most));
    Qp qp(a.pd.get(), a.send_cq.get(), cq.get(),
          {.send_wr = 1, .recv_wr = most, .send_sge = 1, .recv_sge = 1});
    qp.to_init();
    std::uint32_t posted = 0;
    while (posted < most && !qp.try_post_recv(posted, {}))
        posted++;
    EXPECT_EQ(posted, most);
    EXPECT_EQ(qp.try_post_recv(posted, {}), ENOMEM) << "one above";
    ASSERT_EQ(qp.move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(flushed(cq.wait(most), 0));
}

TEST_F(LimitCore, SharedReceiveQueueHoldsWhatIsReported)
{
    const std::uint32_t most = unsigned_of(limits.max_srq_wr);
    Srq srq(a.pd.get(), most, 1);
    EXPECT_EQ(srq.query().max_wr, most);
    std::uint32_t posted = 0;
    while (posted < most && !srq.try_post(posted, {}))
        posted++;
    EXPECT_EQ(posted, most);
    EXPECT_EQ(srq.try_post(posted, {}), ENOMEM) << "one above";
}

TEST_F(LimitCore, LargerQueuesAreRefused)
{
    const std::uint32_t above = unsigned_of(limits.max_qp_wr) + 1;
    for (QpConfig config : {QpConfig{.send_wr = above}, QpConfig{.recv_wr = above},
                            QpConfig{.send_sge = unsigned_of(limits.max_sge) + 1},
                            QpConfig{.recv_sge = unsigned_of(limits.max_sge) + 1}}) {
        ibv_qp_init_attr attr = config.attr(a.send_cq.get(), a.recv_cq.get());
        errno = 0;
        EXPECT_EQ(ibv_create_qp(a.pd.get(), &attr), nullptr);
        EXPECT_EQ(errno, EINVAL);
    }
    ibv_srq_init_attr srq{nullptr, {unsigned_of(limits.max_srq_wr) + 1, 1, 0}};
    errno = 0;
    EXPECT_EQ(ibv_create_srq(a.pd.get(), &srq), nullptr);
    EXPECT_EQ(errno, EINVAL);
    errno = 0;
    EXPECT_EQ(ibv_create_cq(a.context.get(), limits.max_cqe + 1, nullptr, nullptr, 0), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

/// 4M entries, made that large at once or by a change of size; it works.
TEST_F(LimitCore, CompletionQueueIsAsLargeAsReported)
{
    Cq cq(a.context.get(), 100);
    ASSERT_EQ(ibv_resize_cq(cq.get(), limits.max_cqe), 0);
    EXPECT_EQ(cq->cqe, limits.max_cqe);
    EXPECT_NE(ibv_resize_cq(cq.get(), limits.max_cqe + 1), 0) << "one above";
    a.qp = std::make_unique<Qp>(a.pd.get(), cq.get(), a.recv_cq.get());
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    connect();
    b.qp->post_recv(1);
    a.qp->post(SendWr::send({}).id(2));
    EXPECT_TRUE(is(cq.one(), 2, IBV_WC_SEND));
    a.qp.reset();
}

/// Makes @p kMany objects and says what one takes: pages and slab of the kernel, and the process'.
template <typename Make>
void many(const char *what, Make make)
{
    const long before = sysconf(_SC_AVPHYS_PAGES);
    Stopwatch watch;
    for (std::size_t i = 0; i < kMany; i++)
        make(i);
    const long pages = before - sysconf(_SC_AVPHYS_PAGES);
    std::cout << "# " << kMany << " " << what << " in " << watch.elapsed().count() << " ms, "
              << pages * 4096 / static_cast<long>(kMany) << " bytes each\n";
}

TEST_F(LimitTest, TenThousandQps)
{
    std::vector<std::unique_ptr<Qp>> qps(kMany);
    many("QPs", [&](std::size_t i) {
        qps[i] = std::make_unique<Qp>(
            a.pd.get(), a.send_cq.get(), a.recv_cq.get(),
            QpConfig{.send_wr = 1, .recv_wr = 1, .send_sge = 1, .recv_sge = 1});
    });
}

TEST_F(LimitTest, TenThousandCqs)
{
    std::vector<std::unique_ptr<Cq>> cqs(kMany);
    many("CQs", [&](std::size_t i) { cqs[i] = std::make_unique<Cq>(a.context.get(), 1); });
}

TEST_F(LimitTest, TenThousandSrqs)
{
    std::vector<std::unique_ptr<Srq>> srqs(kMany);
    many("SRQs", [&](std::size_t i) { srqs[i] = std::make_unique<Srq>(a.pd.get(), 1, 1); });
}

TEST_F(LimitTest, TenThousandMrs)
{
    Memory memory(4096);
    std::vector<MrHandle> mrs(kMany);
    many("MRs", [&](std::size_t i) { mrs[i] = reg_mr(a.pd.get(), memory.data(), 4096); });
}

TEST_F(LimitTest, TenThousandAhs)
{
    ibv_ah_attr attr = address_of(a.context, a.context);
    std::vector<Ah> ahs(kMany);
    many("AHs", [&](std::size_t i) {
        ahs[i] = Ah(need(ibv_create_ah(a.pd.get(), &attr), "ibv_create_ah"));
    });
}

} // namespace
