// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The engine works for a program at the program's cost: in its cgroup, under its limit of CPU
/// time, on its CPUs, and not at all if the program or the administrator of the link says so.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "../verbs/lib/attribute.h"
#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "../verbs/lib/rdmatool.h"
#include "../verbs/lib/thread.h"
#include "../verbs/lib/wr.h"
#include "lib/cgroup.h"

using namespace hostile;

namespace {

using Seconds = std::chrono::duration<double>;

/// While it lives, the engines of the device wait for so many microseconds.
class Spin : public vt::Setting {
public:
    explicit Spin(int us)
        : Setting(vt::attribute(vt::device_a(), "spin_us"), std::to_string(us), "-1")
    {}
};

/// One of the engines of @p program, or 0.
pid_t engine_of(pid_t program)
{
    const std::vector<pid_t> engines = vt::engines_of(program);
    return engines.empty() ? 0 : engines.front();
}

std::uint64_t doorbells()
{
    return vt::port_counter(vt::device_a(), "doorbells");
}

/// Nanoseconds of CPU time that a thread has had.
std::uint64_t cpu_time(pid_t thread)
{
    return std::strtoull(vt::about_thread(thread, "schedstat").c_str(), nullptr, 10);
}

/// That of all engines of a program.
std::uint64_t engines_time(pid_t program)
{
    std::uint64_t all = 0;
    for (pid_t engine : vt::engines_of(program))
        all += cpu_time(engine);
    return all;
}

/// A program that sends small messages as fast as it can.
pid_t sender(const Cgroup *group, bool engine, bool one_cpu = false)
{
    return vt::in_child([=] {
        if (group)
            group->enter();
        if (!engine)
            setenv("ROX_ENGINE", "0", 1);
        if (one_cpu) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(0, &set);
            if (sched_setaffinity(0, sizeof(set), &set))
                return 1;
        }
        vt::End end(vt::device_a());
        vt::Qp qp(end.pd.get(), end.send_cq.get(), end.recv_cq.get());
        vt::Params params;
        params.peer_psn = params.psn;
        qp.to_init(params);
        qp.to_rtr(params, vt::address_of(end.context, end.context), qp.number());
        qp.to_rts(params);
        vt::Buffer near = end.buffer(4096), far = end.buffer(4096);
        for (std::uint64_t id = 0;; id++) {
            qp.post(vt::SendWr::write({near.sge(0, 64)}, vt::remote(far)).id(id));
            ibv_wc wc{};
            while (ibv_poll_cq(end.send_cq.get(), 1, &wc) == 0)
                ;
            if (wc.status != IBV_WC_SUCCESS)
                return 2;
        }
    });
}

bool has_cpu_limit()
{
    std::string controllers;
    std::getline(std::ifstream(vt::variable("ROX_CGROUP") + "/cgroup.subtree_control") >> std::ws,
                 controllers);
    return (" " + controllers + " ").find(" cpu ") != std::string::npos;
}

class EngineTest : public vt::ProcessTest {
protected:
    void SetUp() override
    {
        if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
            GTEST_SKIP() << "on one CPU there is no engine";
    }

    /// The engine that @p program gets.
    static pid_t wait_for_engine(pid_t program)
    {
        pid_t thread = 0;
        EXPECT_TRUE(vt::eventually([&] { return (thread = engine_of(program)) != 0; }));
        return thread;
    }
    static bool in_group(pid_t thread, const std::string &group)
    {
        return vt::about_thread(thread, "cgroup").find("0::" + group + "\n") != std::string::npos;
    }
    static bool any_in_group(pid_t program, const std::string &group)
    {
        const std::vector<pid_t> engines = vt::engines_of(program);
        return std::any_of(engines.begin(), engines.end(),
                           [&](pid_t engine) { return in_group(engine, group); });
    }
};

TEST_F(EngineTest, LimitOfCpuTimeHolds)
{
    if (!has_cpu_limit())
        GTEST_SKIP() << "a kernel without the CPU controller";
    constexpr double kLimit = 0.10;
    Spin spin(1000);
    for (bool engine : {false, true}) {
        Cgroup group("cpu");
        group.set("cpu.max", "10000 100000");
        const std::uint64_t rung = doorbells();
        pid_t child = sender(&group, engine);
        EXPECT_TRUE(vt::eventually([&] { return doorbells() > rung + 10; })) << "it sends";
        if (engine)
            wait_for_engine(child);
        std::this_thread::sleep_for(vt::Millis(500));
        std::uint64_t engine_before = engines_time(child);
        std::uint64_t before = group.number("cpu.stat", "usage_usec");
        auto begin = vt::Clock::now();
        std::this_thread::sleep_for(vt::Millis(4000));
        std::uint64_t used = group.number("cpu.stat", "usage_usec") - before;
        double all = std::chrono::duration_cast<Seconds>(vt::Clock::now() - begin).count();
        double share = static_cast<double>(used) / 1e6 / all;
        if (engine) {
            std::uint64_t of_engine = (engines_time(child) - engine_before) / 1000;
            std::printf("# %llu of %llu us are the engine's\n",
                        static_cast<unsigned long long>(of_engine),
                        static_cast<unsigned long long>(used));
            /* The program may go on another CPU and get another engine there. The first one then
             * leaves the group. */
            EXPECT_TRUE(vt::eventually([&] { return any_in_group(child, "/cpu"); }));
            EXPECT_GT(of_engine, 0u);
            EXPECT_LE(of_engine, used + used / 10) << "some of it was outside of the group";
        } else {
            EXPECT_EQ(engine_of(child), 0);
        }
        std::printf("# %.1f %% of a CPU %s engine\n", 100 * share, engine ? "with" : "without");
        EXPECT_LT(share, 1.5 * kLimit);
        EXPECT_GT(share, 0.2 * kLimit) << "the program has hardly run";
        vt::kill_child(child);
        EXPECT_TRUE(vt::eventually([&] { return engine_of(child) == 0; })) << "it ends with it";
    }
}

TEST_F(EngineTest, FollowsTheProgramAndLeavesItsGroup)
{
    Spin spin(1000);
    Cgroup first("first"), second("second");
    pid_t child = sender(&first, true);
    pid_t thread = wait_for_engine(child);
    EXPECT_TRUE(vt::eventually([&] { return in_group(thread, "/first"); }));
    second.set("cgroup.procs", std::to_string(child));
    /* It may go on another CPU, and get another engine there. */
    EXPECT_TRUE(vt::eventually(
        [&] { return any_in_group(child, "/second") && !any_in_group(child, "/first"); }));
    kill(child, SIGSTOP);
    EXPECT_TRUE(vt::eventually([&] { return !any_in_group(child, "/second"); }));
    kill(child, SIGCONT);
    EXPECT_TRUE(vt::eventually([&] { return any_in_group(child, "/second"); }));
    vt::kill_child(child);
}

TEST_F(EngineTest, HasTheCpusOfTheProgramOnly)
{
    Spin spin(1000);
    pid_t child = sender(nullptr, true, true);
    std::this_thread::sleep_for(vt::Millis(1000));
    EXPECT_EQ(engine_of(child), 0) << "it would take the only CPU from the program";
    vt::kill_child(child);
}

TEST_F(EngineTest, KnobsOfLinkAndProgram)
{
    Spin spin(0);
    EXPECT_EQ(spin.get(), "0");
    pid_t child = sender(nullptr, true);
    std::this_thread::sleep_for(vt::Millis(700));
    EXPECT_EQ(engine_of(child), 0) << "spin_us of the link is 0";
    spin.set("1000");
    pid_t thread = wait_for_engine(child);
    spin.set("0");
    std::this_thread::sleep_for(vt::Millis(300));
    std::uint64_t before = cpu_time(thread);
    std::this_thread::sleep_for(vt::Millis(500));
    EXPECT_EQ(cpu_time(thread), before) << "it goes on after the link's knob was set to 0";
    vt::kill_child(child);
    spin.set("5000");
    EXPECT_EQ(spin.get(), "1000") << "the most";
    child = sender(nullptr, false);
    std::this_thread::sleep_for(vt::Millis(700));
    EXPECT_EQ(engine_of(child), 0) << "ROX_ENGINE=0";
    vt::kill_child(child);
}

} // namespace
