/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a program may do while it is inside a poll, and when places are free. */
#include "objects.hpp"
#include "provider_fixture.h"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <functional>
#include <future>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace rox::test {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t depth = 4; // of the fixture's queues

/* Calls a function before the first store to a page. */
class StoreTrap {
public:
    StoreTrap(void *page, std::function<void()> look) : page_(page), look_(std::move(look))
    {
        struct sigaction action = {};

        now = this;
        action.sa_sigaction = stopped;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGSEGV, &action, &before_);
        mprotect(page_, page_size, PROT_READ);
    }
    ~StoreTrap()
    {
        mprotect(page_, page_size, PROT_READ | PROT_WRITE);
        sigaction(SIGSEGV, &before_, nullptr);
        now = nullptr;
    }
    StoreTrap(const StoreTrap &) = delete;
    StoreTrap &operator=(const StoreTrap &) = delete;

    int times = 0;

private:
    static constexpr size_t page_size = 4096;

    /* The store is tried again when this returns. */
    static void stopped(int, siginfo_t *info, void *)
    {
        const auto *at = static_cast<const std::byte *>(info->si_addr);
        const auto *page = static_cast<const std::byte *>(now->page_);

        if (at < page || at >= page + page_size) {
            sigaction(SIGSEGV, &now->before_, nullptr);
            return;
        }
        now->times++;
        now->look_();
        mprotect(now->page_, page_size, PROT_READ | PROT_WRITE);
    }

    static inline StoreTrap *now = nullptr;

    void *page_;
    std::function<void()> look_;
    struct sigaction before_ = {};
};

class PollTest : public QpFixture {
protected:
    void TearDown() override
    {
        for (ibv_qp *qp : qps) {
            EXPECT_EQ(ops->destroy_qp(qp), 0);
        }
        if (ex != nullptr) {
            EXPECT_EQ(ops->destroy_cq(cq()), 0);
        }
        QpFixture::TearDown();
    }

    void make_cq(uint32_t flags = 0)
    {
        ibv_cq_init_attr_ex attr = {};

        attr.cqe = 16;
        attr.flags = flags;
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        ex = ops->create_cq_ex(context, &attr);
        ASSERT_NE(ex, nullptr);
    }

    /* A QP in RTS that completes everything to the extended CQ, with full queues. */
    ibv_qp *make_full_qp()
    {
        ibv_qp_init_attr attr = init_attr();

        attr.send_cq = cq();
        attr.recv_cq = cq();
        ibv_qp *qp = ops->create_qp(pd, &attr);

        qps.push_back(qp);
        EXPECT_EQ(set_state(qp, IBV_QPS_RTS), 0);
        fill(qp);
        return qp;
    }

    /* Its queues, which are empty, take that much and no more. */
    void fill(ibv_qp *qp)
    {
        for (uint64_t i = 0; i < depth; i++) {
            EXPECT_EQ(post_send(qp, i), 0);
            EXPECT_EQ(post_recv(qp, i), 0);
        }
        EXPECT_EQ(post_send(qp), ENOMEM);
        EXPECT_EQ(post_recv(qp), ENOMEM);
    }

    void destroy(ibv_qp *qp)
    {
        std::erase(qps, qp);
        EXPECT_EQ(ops->destroy_qp(qp), 0);
    }

    /* The kernel executes the oldest that waits. */
    void complete_send(ibv_qp *qp)
    {
        rox_cqe cqe = completion(fake(qp).sq.take<rox_send_wqe>().wr_id, qp->qp_num);

        cqe.sq_consumer = fake(qp).sq.ctrl().consumer;
        ring().add(cqe);
    }
    void complete_recv(ibv_qp *qp)
    {
        rox_cqe cqe = completion(fake(qp).rq.take<rox_recv_wqe>().wr_id, qp->qp_num);

        cqe.opcode = IBV_WC_RECV;
        ring().add(cqe);
    }

    ibv_cq *cq() { return ibv_cq_ex_to_cq(ex); }
    KernelRing &ring() { return kernel.cqs.at(cq()->handle); }
    int start_poll()
    {
        ibv_poll_cq_attr attr = {};

        return ibv_start_poll(ex, &attr);
    }
    uint32_t current_qp() { return Cq::of(ex)->queue.current().qp_num; }

    ibv_cq_ex *ex = nullptr;
    std::vector<ibv_qp *> qps;
};

TEST_F(PollTest, FullQueuesAreFilledAgainInsideThePoll)
{
    make_cq();
    ibv_qp *qp = make_full_qp();

    for (uint64_t i = 0; i < depth; i++) {
        complete_recv(qp);
        complete_send(qp);
    }
    ASSERT_EQ(start_poll(), 0);
    for (uint64_t i = 0; i < depth; i++) {
        EXPECT_EQ(ex->wr_id, i);
        EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_RECV);
        EXPECT_EQ(post_recv(qp, depth + i), 0);
        EXPECT_EQ(post_recv(qp), ENOMEM);
        ASSERT_EQ(ibv_next_poll(ex), 0);
        EXPECT_EQ(ibv_wc_read_opcode(ex), IBV_WC_SEND);
        EXPECT_EQ(post_send(qp, depth + i), 0);
        EXPECT_EQ(post_send(qp), ENOMEM);
        EXPECT_EQ(ibv_next_poll(ex), i + 1 < depth ? 0 : ENOENT);
    }
    /* What was posted inside the poll completes inside it. */
    complete_send(qp);
    ASSERT_EQ(ibv_next_poll(ex), 0);
    EXPECT_EQ(ex->wr_id, depth);
    ibv_end_poll(ex);
    EXPECT_EQ(ring().waiting(), 0U);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(post_send(qp), ENOMEM);
}

TEST_F(PollTest, SteppingPollFreesThePlaceInTheCqFirst)
{
    make_cq();
    ibv_qp *qp = make_full_qp();
    int error = 0;

    for (const bool send : {true, false}) {
        send ? complete_send(qp) : complete_recv(qp);

        StoreTrap trap(Cq::of(ex)->map.base(), [&] {
            EXPECT_EQ(ring().waiting(), 1U);
            error = send ? post_send(qp) : post_recv(qp);
        });

        ASSERT_EQ(start_poll(), 0);
        EXPECT_EQ(trap.times, 1);
        EXPECT_EQ(error, ENOMEM) << send;
        EXPECT_EQ(ring().waiting(), 0U);
        EXPECT_EQ(send ? post_send(qp) : post_recv(qp), 0);
        ibv_end_poll(ex);
    }
}

TEST_F(PollTest, PlainPollFreesThePlacesInTheCqFirst)
{
    make_cq();
    std::array<ibv_qp *, 2> both = {make_full_qp(), make_full_qp()};
    std::array<ibv_wc, 16> wcs;

    for (const bool send : {true, false}) {
        std::array<int, 2> errors = {};
        const auto post = [&](ibv_qp *qp) { return send ? post_send(qp) : post_recv(qp); };

        for (int i = 0; i < 6; i++) {
            send ? complete_send(both[i / 3]) : complete_recv(both[i / 3]);
        }
        StoreTrap trap(Cq::of(ex)->map.base(), [&] {
            EXPECT_EQ(ring().waiting(), 6U);
            errors = {post(both[0]), post(both[1])};
        });

        ASSERT_EQ(ops->poll_cq(cq(), wcs.size(), wcs.data()), 6);
        EXPECT_EQ(trap.times, 1);
        EXPECT_EQ(errors, (std::array{ENOMEM, ENOMEM})) << send;
        EXPECT_EQ(ring().waiting(), 0U);
        for (ibv_qp *qp : both) {
            for (int i = 0; i < 3; i++) {
                EXPECT_EQ(post(qp), 0);
            }
            EXPECT_EQ(post(qp), ENOMEM);
        }
    }
}

/* Completions of several QPs and of nobody's in one poll give each its own places. */
TEST_F(PollTest, PlainPollCountsEachQpsPlaces)
{
    make_cq();
    ibv_qp *one = make_full_qp();
    ibv_qp *two = make_full_qp();
    std::array<ibv_wc, 16> wcs;

    complete_send(one);
    complete_recv(one);
    complete_send(one);
    complete_recv(two);
    ring().add(completion(9, 0xabcdef));
    complete_recv(two);
    complete_recv(one);
    ASSERT_EQ(ops->poll_cq(cq(), wcs.size(), wcs.data()), 7);
    EXPECT_EQ(wcs[4].qp_num, 0xabcdefU);
    for (const auto &[qp, sends, recvs] : {std::tuple{one, 2, 2}, std::tuple{two, 0, 2}}) {
        for (int i = 0; i < sends; i++) {
            EXPECT_EQ(post_send(qp), 0);
        }
        for (int i = 0; i < recvs; i++) {
            EXPECT_EQ(post_recv(qp), 0);
        }
        EXPECT_EQ(post_send(qp), ENOMEM);
        EXPECT_EQ(post_recv(qp), ENOMEM);
    }
}

/* ---- what takes completions away from a poll in the same thread ---- */

TEST_F(PollTest, QpDestroyedInsideThePollTakesNobodyElsesCompletions)
{
    make_cq(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    ibv_qp *gone = make_full_qp();
    ibv_qp *stays = make_full_qp();
    std::vector<uint64_t> ids;

    for (uint64_t i = 0; i < depth; i++) {
        complete_send(gone);
        complete_send(stays);
    }
    ASSERT_EQ(start_poll(), 0);
    EXPECT_EQ(current_qp(), gone->qp_num);
    destroy(gone);
    while (ibv_next_poll(ex) == 0) {
        EXPECT_EQ(current_qp(), stays->qp_num);
        ids.push_back(ex->wr_id);
        EXPECT_EQ(post_send(stays), 0);
    }
    ibv_end_poll(ex);
    EXPECT_EQ(ids, (std::vector<uint64_t>{0, 1, 2, 3}));
    EXPECT_EQ(ring().waiting(), 0U);
}

TEST_F(PollTest, QpResetInsideThePollTakesNobodyElsesCompletions)
{
    make_cq(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    ibv_qp *reset = make_full_qp();
    ibv_qp *stays = make_full_qp();

    complete_send(stays);
    complete_send(reset);
    complete_send(stays);
    ASSERT_EQ(start_poll(), 0);
    ASSERT_EQ(ibv_next_poll(ex), 0);
    EXPECT_EQ(current_qp(), reset->qp_num);
    ASSERT_EQ(set_state(reset, IBV_QPS_RESET), 0);
    EXPECT_EQ(post_send(reset), EINVAL);
    ASSERT_EQ(ibv_next_poll(ex), 0);
    EXPECT_EQ(current_qp(), stays->qp_num);
    EXPECT_EQ(ibv_next_poll(ex), ENOENT);
    ibv_end_poll(ex);
    ASSERT_EQ(set_state(reset, IBV_QPS_RTS), 0);
    for (uint64_t i = 0; i < depth; i++) {
        EXPECT_EQ(post_send(reset, i), 0);
    }
    EXPECT_EQ(post_send(reset), ENOMEM);
}

TEST_F(PollTest, CqResizedInsideThePollGoesOnInTheNewRing)
{
    make_cq(IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    ibv_qp *qp = make_full_qp();

    for (uint64_t i = 0; i < depth - 1; i++) {
        complete_send(qp);
    }
    ASSERT_EQ(start_poll(), 0);
    ASSERT_EQ(ops->resize_cq(cq(), 64), 0);
    complete_send(qp);
    EXPECT_EQ(current_qp(), qp->qp_num) << "the old ring is unmapped";
    for (uint64_t i = 0; i < depth; i++) {
        EXPECT_EQ(ex->wr_id, i);
        EXPECT_EQ(post_send(qp), 0);
        EXPECT_EQ(ibv_next_poll(ex), i + 1 < depth ? 0 : ENOENT);
    }
    ibv_end_poll(ex);
    EXPECT_EQ(ring().waiting(), 0U);
}

/* ---- two threads ---- */

TEST_F(PollTest, QpIsResetWhileAnotherThreadPostsInsideAPoll)
{
    make_cq();
    ibv_qp *qp = make_full_qp();
    std::promise<void> in_kernel;
    std::future<void> entered = in_kernel.get_future();

    complete_send(qp);
    complete_recv(qp);
    ASSERT_EQ(start_poll(), 0);
    kernel.during_modify_qp = [&] { in_kernel.set_value(); };

    /* It has the queues' locks now, or had them, and cannot have the CQ's. */
    auto reset = std::async(std::launch::async, [&] { return set_state(qp, IBV_QPS_RESET); });

    entered.wait();
    auto poster = std::async(std::launch::async, [&] {
        std::this_thread::sleep_for(20ms); // time to take a lock that it should not hold
        return std::pair(post_send(qp), post_recv(qp));
    });

    if (poster.wait_for(20s) != std::future_status::ready) {
        ADD_FAILURE() << "deadlock: the QP's locks are held by who waits for the CQ's";
        Cq::of(ex)->queue.lock().unlock();
    } else {
        EXPECT_EQ(poster.get(), std::pair(EINVAL, EINVAL));
        EXPECT_NE(reset.wait_for(0s), std::future_status::ready);
        ibv_end_poll(ex);
    }
    EXPECT_EQ(reset.get(), 0);
    kernel.during_modify_qp = nullptr;

    EXPECT_EQ(start_poll(), ENOENT) << "the receive's completion is forgotten";
    EXPECT_EQ(fake(qp).sq.waiting(), 0U);
    EXPECT_EQ(fake(qp).rq.waiting(), 0U);
    ASSERT_EQ(set_state(qp, IBV_QPS_RTS), 0);
    fill(qp);
}

/* The queues begin anew before the QP's next life does. */
TEST_F(PollTest, ModifyWaitsForAResetThatWaitsForAPoll)
{
    make_cq();
    ibv_qp *qp = make_full_qp();
    std::atomic<int> entered = 0;

    complete_send(qp);
    ASSERT_EQ(start_poll(), 0);
    kernel.during_modify_qp = [&] { entered++; };

    auto reset = std::async(std::launch::async, [&] { return set_state(qp, IBV_QPS_RESET); });

    while (entered == 0) {
        std::this_thread::sleep_for(1ms);
    }
    auto next = std::async(std::launch::async, [&] { return set_state(qp, IBV_QPS_RTS); });

    EXPECT_NE(next.wait_for(100ms), std::future_status::ready);
    EXPECT_EQ(entered, 1);
    ibv_end_poll(ex);
    EXPECT_EQ(reset.get(), 0);
    EXPECT_EQ(next.get(), 0);
    EXPECT_EQ(entered, 2);
    EXPECT_EQ(post_send(qp), 0);
    EXPECT_EQ(fake(qp).sq.waiting(), 1U);
}

} // namespace
} // namespace rox::test
