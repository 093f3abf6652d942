// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// `rdma resource show -dd`: what is shown of an object is what the program did with it.
#include <atomic>
#include <thread>

#include <sys/utsname.h>
#include <unistd.h>

#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/rdmatool.h"

using namespace vt;

namespace {

class Resource : public PairTest {
protected:
    static Record qp(const End &end)
    {
        return rdma_record("resource show qp link " + end.context.name() + "/1 lqpn " +
                           std::to_string(end.qp->number()));
    }
    /// Objects of this process on @p end's device.
    static Records mine(const End &end, const char *kind)
    {
        bool of_port = std::string(kind) == "qp";
        return with(rdma_tool(std::string("resource show ") + kind +
                              (of_port ? " link " : " dev ") + end.context.name() +
                              (of_port ? "/1" : "")),
                    "pid", static_cast<std::uint64_t>(getpid()));
    }
    static Record only(const Records &records)
    {
        EXPECT_EQ(records.size(), 1u);
        return records.empty() ? Record() : records.front();
    }

    Buffer near = a.buffer(16384);
    Buffer far = b.buffer(16384);
};

TEST_F(Resource, QpShowsItsPsnsAndRings)
{
    start();
    for (std::uint64_t i = 0; i < 4; i++)
        b.qp->post_recv(i, {far.sge(0, 4096)});
    for (std::uint64_t i = 0; i < 3; i++)
        a.qp->post(SendWr::send({near.sge(0, 2500)}).id(i));
    a.send_cq.wait(3);
    b.recv_cq.wait(3);

    constexpr std::uint32_t after = 0x1234 + 9;
    Record sender = qp(a);
    EXPECT_TRUE(shows(sender, {{"rqpn", b.qp->number()},
                               {"drv_path_mtu", 1024},
                               {"drv_user", 1},
                               {"drv_next_psn", after},
                               {"drv_send_psn", after},
                               {"drv_sent_psn", after},
                               {"drv_unacked_psn", after},
                               {"drv_in_flight", 0},
                               {"drv_ssn", 3},
                               {"drv_retries_left", 7},
                               {"drv_rnr_retries_left", 7},
                               {"drv_rnr_wait", 0},
                               {"drv_sq_posted", 3},
                               {"drv_sq_taken", 3},
                               {"drv_sq_sending", 3},
                               {"drv_sq_oldest", 3},
                               {"drv_sq_asleep", 1},
                               {"drv_sq_entries", a.qp->query().cap.max_send_wr}}));
    EXPECT_GE(sender.number("drv_window"), 1u);
    EXPECT_EQ(sender.number("drv_credit_ssn"), 4u) << "one receive is left";
    EXPECT_TRUE(shows(qp(b), {{"drv_expected_psn", after},
                              {"drv_msn", 3},
                              {"drv_rq_posted", 4},
                              {"drv_rq_taken", 3},
                              {"drv_rq_entries", b.qp->query().cap.max_recv_wr},
                              {"drv_read_responses", 0}}));
}

TEST_F(Resource, QpThatWaitsForAReceiverShowsIt)
{
    Params params;
    params.rnr_retry = 6;
    params.min_rnr_timer = 0; // 655 ms
    start({}, params);
    a.qp->post(SendWr::send({near.sge(0, 3000)}).id(1));
    a.qp->post(SendWr::write({near.sge(0, 100)}, remote(far)).id(2));
    Record waiting;
    ASSERT_TRUE(eventually([&] {
        waiting = qp(a);
        return waiting.number("drv_rnr_wait") == 1;
    }));
    b.qp->post_recv(7, {far.sge(0, 4096)});
    EXPECT_EQ(waiting.number("drv_unacked_psn"), 0x1234u) << "nothing was taken";
    EXPECT_EQ(waiting.number("drv_next_psn"), 0x1234u + 4);
    EXPECT_LT(waiting.number("drv_rnr_retries_left"), 6u);
    EXPECT_TRUE(
        shows(waiting, {{"drv_retries_left", 7}, {"drv_sq_oldest", 0}, {"drv_sq_taken", 2}}));
    EXPECT_GT(waiting.number("drv_timer_deadline"), 0u);

    a.send_cq.wait(2);
    b.recv_cq.wait(1);
    Record done = qp(a);
    EXPECT_EQ(done.number("drv_rnr_wait"), 0u);
    EXPECT_EQ(done.number("drv_rnr_retries_left"), 6u) << "progress resets them";
    EXPECT_TRUE(shows(done, {{"drv_sq_oldest", 2}, {"drv_in_flight", 0}}));
}

TEST_F(Resource, QpWithAnSrqNamesItAndHasNoCredits)
{
    Srq srq(b.pd.get());
    make({}, {.srq = srq.get()});
    connect();
    srq.post(1, {far.sge(0, 100)});
    a.qp->post(SendWr::send({near.sge(0, 100)}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
    EXPECT_FALSE(qp(a).has("drv_credit_ssn"));
    EXPECT_FALSE(qp(a).has("drv_srqn"));
    Record shared = only(mine(b, "srq"));
    EXPECT_EQ(qp(b).number("drv_srqn"), shared.number("srqn"));
    EXPECT_EQ(qp(b).number("drv_rq_entries"), 0u);
    b.qp.reset();
}

TEST_F(Resource, CqShowsItsRingAndWhatItIsArmedFor)
{
    Channel channel(b.context.get());
    Cq cq(b.context.get(), 3000, &channel);
    auto shown = [&] { return only(with(mine(b, "cq"), "drv_entries", 4096)); };
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    b.qp = std::make_unique<Qp>(b.pd.get(), b.send_cq.get(), cq.get());
    connect();

    EXPECT_EQ(shown().text("drv_armed"), "nothing");
    EXPECT_EQ(shown().number("drv_waited_for"), 0u);
    cq.arm(true);
    EXPECT_EQ(shown().text("drv_armed"), "solicited");
    cq.arm();
    EXPECT_EQ(shown().text("drv_armed"), "next");
    for (std::uint64_t i = 0; i < 3; i++) {
        b.qp->post_recv(i);
        a.qp->post(SendWr::send({}).id(i));
    }
    a.send_cq.wait(3);
    EXPECT_EQ(channel.wait(), cq.get());
    ASSERT_TRUE(eventually([&] { return shown().number("drv_produced") == 3; }));
    EXPECT_EQ(shown().text("drv_armed"), "nothing") << "the event has taken it";
    EXPECT_EQ(shown().number("drv_consumed"), 0u);
    EXPECT_EQ(shown().number("drv_waited_for"), 1u);
    cq.wait(3);
    EXPECT_EQ(shown().number("drv_consumed"), 3u);
    EXPECT_EQ(shown().number("drv_error"), 0u);
    EXPECT_EQ(shown().number("cqe"), 4096u);

    ASSERT_EQ(ibv_resize_cq(cq.get(), 8000), 0);
    Record resized = only(with(mine(b, "cq"), "drv_entries", 8192));
    EXPECT_EQ(resized.number("drv_produced"), 3u) << "indices go on";
    EXPECT_EQ(resized.number("drv_consumed"), 3u);
    b.qp.reset();
}

TEST_F(Resource, MrShowsItsPlaceAndRights)
{
    Memory memory(65536);
    MrHandle mr(need(ibv_reg_mr_iova(b.pd.get(), memory.data() + 100, 12345, 0x7000123400064,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
                     "ibv_reg_mr_iova"));
    Record shown = only(with(mine(b, "mr"), "mrlen", 12345));
    EXPECT_EQ(shown.text("drv_type"), "user");
    // The program's JSON has only the lower half of such numbers.
    std::string text;
    EXPECT_EQ(
        shell("rdma -dd resource show mr dev " + b.context.name() + " mrn " + shown.text("mrn"),
              &text),
        0);
    EXPECT_NE(text.find("drv_iova 0x7000123400064 "), std::string::npos) << text;
    EXPECT_TRUE(shows(shown, {{"drv_access", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
                              {"drv_valid", 1},
                              {"drv_references", 1}}));
    std::uint64_t block = shown.number("drv_block_size");
    std::uint64_t offset = shown.number("drv_first_offset");
    EXPECT_GE(block, 4096u);
    EXPECT_EQ(block & (block - 1), 0u);
    EXPECT_EQ(offset % 4096, 100u);
    EXPECT_EQ(shown.number("drv_blocks"), (offset + 12345 + block - 1) / block);
    EXPECT_EQ(std::stoul(shown.text("rkey"), nullptr, 16), mr->rkey);
    EXPECT_EQ(std::stoul(shown.text("lkey"), nullptr, 16), mr->lkey);
}

TEST_F(Resource, SrqShowsItsRingAndLimit)
{
    utsname kernel{};
    uname(&kernel);
    Srq srq(b.pd.get(), 100, 3);
    for (std::uint64_t i = 0; i < 5; i++)
        srq.post(i, {far.sge(0, 100)});
    ibv_srq_attr attr{};
    attr.srq_limit = 2;
    ASSERT_EQ(srq.modify(attr, IBV_SRQ_LIMIT), 0);
    Record shown = only(mine(b, "srq"));
    EXPECT_EQ(shown.text("type"), "BASIC");
    // The RDMA core of 6.1 asks no driver about SRQs.
    if (std::string(kernel.release).starts_with("6.1.")) {
        EXPECT_FALSE(shown.has("drv_posted"));
        return;
    }
    EXPECT_TRUE(shows(shown, {{"drv_posted", 5},
                              {"drv_taken", 0},
                              {"drv_entries", 128},
                              {"drv_max_sge", 3},
                              {"drv_limit", 2},
                              {"drv_error", 0}}));
}

TEST_F(Resource, PdsAndContextsAreCountedAndNamed)
{
    End other(device_b());
    std::size_t contexts = one_device() ? 3 : 2, pds = mine(b, "pd").size();
    EXPECT_EQ(mine(b, "ctx").size(), contexts);
    EXPECT_EQ(pds, contexts) << "each end has one";
    {
        Pd more = alloc_pd(other.context.get());
        Buffer used(more.get(), 4096);
        Buffer again(more.get(), 4096);
        EXPECT_EQ(mine(b, "pd").size(), pds + 1);
        EXPECT_EQ(with(mine(b, "pd"), "users", 2).size(), 1u);
    }
    EXPECT_EQ(mine(b, "pd").size(), pds);
}

TEST_F(Resource, ThereIsNoRawForm)
{
    start();
    EXPECT_THROW(rdma_tool("-r resource show qp link " + b.context.name() + "/1 lqpn " +
                           std::to_string(b.qp->number())),
                 Failure);
}

TEST_F(Resource, IsShownWhileObjectsComeAndGo)
{
    std::atomic<bool> over = false;
    std::string error;
    std::size_t seen = 0;
    std::thread looking([&] {
        try {
            while (!over)
                for (const char *kind : {"qp", "cq", "mr", "srq"})
                    seen += mine(b, kind).size();
        } catch (const Failure &failure) {
            error = failure.what();
        }
    });
    for (Deadline deadline(1500ms); !deadline.passed();) {
        Cq cq(b.context.get(), 16);
        Srq srq(b.pd.get());
        Qp one(b.pd.get(), cq.get(), cq.get());
        Qp two(b.pd.get(), cq.get(), cq.get(), {.srq = srq.get()});
        one.to_init();
        Buffer buffer(b.pd.get(), 4096);
    }
    over = true;
    looking.join();
    EXPECT_EQ(error, "");
    EXPECT_GT(seen, 0u);
    start();
    expect_works();
}

} // namespace
