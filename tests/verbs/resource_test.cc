// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// `rdma resource show -dd`: what is shown of an object is what the program did with it.
#include <atomic>
#include <cstdio>
#include <random>
#include <stop_token>
#include <thread>

#include <linux/capability.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/pair.h"
#include "lib/rdmatool.h"
#include "lib/restrack.h"
#include "lib/thread.h"

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

TEST_F(Resource, MrShowsItsSizeAndRights)
{
    Memory memory(65536);
    MrHandle mr(need(ibv_reg_mr_iova(b.pd.get(), memory.data() + 100, 12345, 0x7000123400064,
                                     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
                     "ibv_reg_mr_iova"));
    Record shown = only(with(mine(b, "mr"), "mrlen", 12345));
    EXPECT_EQ(shown.text("drv_type"), "user");
    EXPECT_TRUE(shows(shown, {{"drv_access", IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ},
                              {"drv_valid", 1},
                              {"drv_references", 1}}));
    std::uint64_t block = shown.number("drv_block_size");
    EXPECT_GE(block, 4096u);
    EXPECT_EQ(block & (block - 1), 0u);
    EXPECT_LE(shown.number("drv_blocks"), (4095u + 12345u + 4095u) / 4096u);
    EXPECT_GE(shown.number("drv_blocks"), (12345u + block - 1) / block);
    EXPECT_EQ(std::stoul(shown.text("rkey"), nullptr, 16), mr->rkey);
    EXPECT_EQ(std::stoul(shown.text("lkey"), nullptr, 16), mr->lkey);
}

TEST_F(Resource, RegionOnDemandIsShownAsThat)
{
    Memory memory(65536);
    MrHandle mr(need(
        ibv_reg_mr(b.pd.get(), memory.data(), 23456, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND),
        "ibv_reg_mr"));
    EXPECT_EQ(only(with(mine(b, "mr"), "mrlen", 23456)).text("drv_type"), "on_demand");
}

/// Everybody may ask: nothing that is shown is an address of the kernel or of this process, nor
/// tells where in a page or a huge page something of it lies.
TEST_F(Resource, NoAddressIsShown)
{
    constexpr std::uint64_t kIova = 0x7000123456321;
    constexpr std::uint64_t kKernelHalf = 0xffff800000000000;
    Memory memory(1 << 22);
    Srq srq(b.pd.get());
    make({}, {.srq = srq.get()});
    connect();
    const auto start = reinterpret_cast<std::uint64_t>(memory.data());
    const std::uint64_t begin = ((start + (1 << 21)) & ~((1ull << 21) - 1)) + 0x12321;
    MrHandle mr(need(ibv_reg_mr_iova(b.pd.get(), reinterpret_cast<void *>(begin), 12345, kIova,
                                     IBV_ACCESS_LOCAL_WRITE),
                     "ibv_reg_mr_iova"));
    auto is_address = [&](const ResourceAttribute &each) {
        const std::uint64_t number = each.number();
        const bool part = number == 0x321 || number == 0x12321;
        return number == kIova || (number >= start && number < start + (1 << 22)) ||
               number >= kKernelHalf || (each.type == RDMA_NLDEV_ATTR_DRIVER_U64 && part);
    };
    without_capability(CAP_NET_ADMIN, [&] {
        ResourceDump dump(b.context.name());
        std::size_t seen = 0;
        for (int command :
             {RDMA_NLDEV_CMD_RES_QP_GET, RDMA_NLDEV_CMD_RES_CQ_GET, RDMA_NLDEV_CMD_RES_MR_GET,
              RDMA_NLDEV_CMD_RES_PD_GET, RDMA_NLDEV_CMD_RES_CTX_GET, RDMA_NLDEV_CMD_RES_SRQ_GET}) {
            std::string last;
            for (const ResourceAttribute &each : dump.all(command)) {
                if (each.type == RDMA_NLDEV_ATTR_DRIVER_STRING)
                    last = each.text();
                seen++;
                if (each.payload.size() <= 8) {
                    EXPECT_FALSE(is_address(each)) << std::hex << each.number() << " of type "
                                                   << std::dec << each.type << ", after " << last;
                }
            }
        }
        EXPECT_GT(seen, 50u);
    });
    b.qp.reset();
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

/// A dump that looks at a QP while that, and at once its SRQ, are destroyed. It runs when nothing
/// else does, on the same CPU: so it is interrupted anywhere, and for long.
class ResourceRace : public Resource {
protected:
    static void stay_here(int policy)
    {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(0, &set);
        sched_param none{};
        if (sched_setaffinity(0, sizeof(set), &set) || sched_setscheduler(0, policy, &none))
            fail("sched_setscheduler", errno);
    }

    /// Ends @p srq as soon as the kernel lets it go.
    static void end(Srq &srq)
    {
        for (Deadline deadline; srq.destroy() != 0;) {
            if (deadline.passed()) {
                ADD_FAILURE() << "an SRQ stays in use";
                return;
            }
            sched_yield();
        }
    }

    /// Again and again a QP and its SRQ, which end at any moment of a dump: for @p time, and on a
    /// slow machine until there were @p enough rounds.
    int come_and_go(Millis time, int enough)
    {
        std::minstd_rand random(1);
        int rounds = 0;
        Deadline limit(60s);
        for (Deadline deadline(time); !deadline.passed() || (rounds < enough && !limit.passed());
             rounds++) {
            Srq srq(b.pd.get(), 16, 1);
            Qp qp(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), {.srq = srq.get()});
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
            std::thread ending([&] {
                stay_here(SCHED_OTHER);
                end(srq);
            });
            qp.destroy();
            ending.join();
        }
        return rounds;
    }
};

TEST_F(ResourceRace, QpIsShownWhileItAndItsSrqAreDestroyed)
{
    static constexpr int kRounds = 12;
    std::size_t seen = 0, wrong = 0;
    std::string error;
    int rounds = 0;
    std::jthread looking([&](const std::stop_token &stop) {
        try {
            stay_here(SCHED_IDLE);
            ResourceDump dump(b.context.name());
            while (!stop.stop_requested()) {
                for (std::uint64_t srqn :
                     ResourceDump::driver_numbers(dump.all(RDMA_NLDEV_CMD_RES_QP_GET), "srqn")) {
                    seen++;
                    // Numbers are given in order; what was freed has none, or a pattern.
                    wrong += srqn == 0 || srqn >= 1 << 24;
                }
            }
        } catch (const Failure &failure) {
            error = failure.what();
        }
    });
    in_thread([&] {
        stay_here(SCHED_OTHER);
        rounds = come_and_go(3000ms, kRounds);
    });
    looking.request_stop();
    looking.join();
    std::printf("%d rounds, %zu QPs seen\n", rounds, seen);
    EXPECT_EQ(error, "");
    EXPECT_EQ(wrong, 0u);
    EXPECT_GE(rounds, kRounds);
    EXPECT_GT(seen, 0u);
    start();
    expect_works();
}

} // namespace
