/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Posting while modify_qp() is in the kernel, which may take a second: the
 * system call holds nobody up, and what is posted meanwhile goes by the state
 * that the QP comes from.
 */
#include "provider_fixture.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <utility>
#include <vector>

namespace rox::test {
namespace {

using namespace std::chrono_literals;

/* What ibv_post_send() and ibv_post_recv() returned. */
using Posts = std::pair<int, int>;

class ModifyTest : public QpFixture {
protected:
    /* Posts one of each in another thread. It must not wait for who calls this. */
    void post_meanwhile(ibv_qp *qp)
    {
        std::future<Posts> poster = std::async(
            std::launch::async, [this, qp] { return Posts(post_send(qp), post_recv(qp)); });

        if (poster.wait_for(5s) != std::future_status::ready) {
            ADD_FAILURE() << "a poster waits for the system call";
            late.push_back(std::move(poster));
        } else {
            posts.push_back(poster.get());
        }
    }

    /* All that was posted is complete and polled. */
    void complete_all(ibv_qp *qp)
    {
        KernelRing &sq = fake(qp).sq;
        KernelRing &rq = fake(qp).rq;

        sq.ctrl().consumer = sq.ctrl().producer;
        Qp::of(qp)->sq.complete_to(sq.ctrl().producer);
        for (; rq.waiting() != 0; rq.ctrl().consumer++) {
            Qp::of(qp)->rq.complete(1);
        }
    }

    void destroy(ibv_qp *qp)
    {
        late.clear(); // they have their turn after the call
        EXPECT_EQ(ops->destroy_qp(qp), 0);
    }

    std::vector<Posts> posts;
    std::vector<std::future<Posts>> late; // ended at last, if only after the call
};

TEST_F(ModifyTest, NobodyWhoPostsWaitsForTheSystemCall)
{
    struct Step {
        ibv_qp_state to;
        Posts meanwhile; // by the state before it
        Posts after;
    };
    const std::array<Step, 7> steps = {{{IBV_QPS_INIT, {EINVAL, EINVAL}, {EINVAL, 0}},
                                        {IBV_QPS_RTR, {EINVAL, 0}, {EINVAL, 0}},
                                        {IBV_QPS_RTS, {EINVAL, 0}, {0, 0}},
                                        {IBV_QPS_SQD, {0, 0}, {0, 0}},
                                        {IBV_QPS_RTS, {0, 0}, {0, 0}},
                                        {IBV_QPS_ERR, {0, 0}, {0, 0}},
                                        {IBV_QPS_RESET, {0, 0}, {EINVAL, EINVAL}}}};
    ibv_qp *qp = create();

    ASSERT_NE(qp, nullptr);
    kernel.during_modify_qp = [&] { post_meanwhile(qp); };
    for (const Step &step : steps) {
        posts.clear();
        ASSERT_EQ(set_state(qp, step.to), 0);
        ASSERT_EQ(posts.size(), 1U) << step.to;
        EXPECT_EQ(posts.front(), step.meanwhile) << step.to;
        EXPECT_EQ(Posts(post_send(qp), post_recv(qp)), step.after) << step.to;
        complete_all(qp);
    }
    kernel.during_modify_qp = nullptr;
    destroy(qp);
}

TEST_F(ModifyTest, NorForOneThatChangesNoState)
{
    ibv_qp *qp = create();
    ibv_qp_attr attr = {};

    ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    kernel.during_modify_qp = [&] { post_meanwhile(qp); };
    EXPECT_EQ(ops->modify_qp(qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
    EXPECT_EQ(posts, std::vector<Posts>{Posts(0, 0)});
    kernel.during_modify_qp = nullptr;
    destroy(qp);
}

/* Before the kernel empties the rings and after it: the next life has nothing of it. */
TEST_F(ModifyTest, WhatIsPostedOnTheWayToResetIsForgotten)
{
    ibv_qp *qp = create();

    for (int round = 0; round < 3; round++) {
        ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        ASSERT_EQ(post_send(qp), 0);
        kernel.during_modify_qp = [&] { post_meanwhile(qp); };
        kernel.after_modify_qp = [&] { post_meanwhile(qp); };
        posts.clear();
        ASSERT_EQ(set_state(qp, IBV_QPS_RESET), 0);
        kernel.during_modify_qp = nullptr;
        kernel.after_modify_qp = nullptr;
        EXPECT_EQ(posts, std::vector<Posts>(2, Posts(0, 0)));
        EXPECT_EQ(fake(qp).sq.waiting(), 0U);
        EXPECT_EQ(fake(qp).rq.waiting(), 0U);
        EXPECT_EQ(Posts(post_send(qp), post_recv(qp)), Posts(EINVAL, EINVAL));

        ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        EXPECT_EQ(fake(qp).sq.waiting(), 0U);
        for (uint64_t i = 0; i < 4; i++) {
            EXPECT_EQ(Posts(post_send(qp, i), post_recv(qp, i)), Posts(0, 0)) << "all places";
        }
        for (uint64_t i = 0; i < 4; i++) {
            EXPECT_EQ(fake(qp).sq.take<rox_send_wqe>().wr_id, i);
            EXPECT_EQ(fake(qp).rq.take<rox_recv_wqe>().wr_id, i);
        }
        complete_all(qp);
        ASSERT_EQ(set_state(qp, IBV_QPS_RESET), 0);
    }
    destroy(qp);
}

} // namespace
} // namespace rox::test
