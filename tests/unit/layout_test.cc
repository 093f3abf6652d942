/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What one thread writes and another one works with lies in cache lines of its
 * own. queue.cpp asserts the same of members that are nobody else's business.
 */
#include "provider_fixture.h"

#include <cstdint>

namespace rox::test {
namespace {

constexpr size_t line = 64;

template <typename T>
size_t line_of(const T &object)
{
    return reinterpret_cast<uintptr_t>(&object) / line;
}

template <typename T>
bool begins_a_line(const T &object)
{
    return reinterpret_cast<uintptr_t>(&object) % line == 0;
}

TEST(Layout, QueuesAreWholeLines)
{
    EXPECT_EQ(alignof(SendQueue), line);
    EXPECT_EQ(alignof(RecvQueue), line);
    EXPECT_EQ(alignof(CompletionQueue), line);
    EXPECT_EQ(sizeof(SendQueue) % line, 0U);
    EXPECT_EQ(sizeof(RecvQueue) % line, 0U);
    EXPECT_EQ(sizeof(CompletionQueue) % line, 0U);
    EXPECT_EQ(offsetof(Qp, sq) % line, 0U);
    EXPECT_EQ(offsetof(Qp, rq) % line, 0U);
    EXPECT_EQ(offsetof(Srq, queue) % line, 0U);
    EXPECT_EQ(offsetof(Cq, queue) % line, 0U);
}

class LayoutTest : public QpFixture {};

/* Offsets say nothing if the object itself begins anywhere. */
TEST_F(LayoutTest, QueuesOfObjectsBeginAtLines)
{
    ibv_qp *ibqp = create();
    ASSERT_NE(ibqp, nullptr);
    Qp *qp = Qp::of(ibqp);

    EXPECT_TRUE(begins_a_line(qp->sq));
    EXPECT_TRUE(begins_a_line(qp->rq));
    EXPECT_TRUE(begins_a_line(Cq::of(send_cq)->queue));
    EXPECT_LT(line_of(qp->vqp), line_of(qp->sq));
    EXPECT_LT(line_of(qp->sq), line_of(qp->rq));
    EXPECT_LT(line_of(qp->rq), line_of(qp->map));
    EXPECT_EQ(ops->destroy_qp(ibqp), 0);
}

/* Objects come zeroed, whatever was in the memory before. */
TEST_F(LayoutTest, AlignedObjectsAreZeroed)
{
    for (int round = 0; round < 8; round++) {
        std::unique_ptr<Qp> qp = make_object<Qp>();
        ASSERT_NE(qp, nullptr);
        EXPECT_EQ(qp_mask(qp->vqp), 0U);
        EXPECT_EQ(qp->vqp.qp.handle, 0U);
        std::memset(static_cast<void *>(&qp->vqp), 0xee, sizeof(qp->vqp));
    }
}

} // namespace
} // namespace rox::test
