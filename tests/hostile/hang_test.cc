// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Pages on demand that never come: they are of a file system of user space that does not answer.
/// What waits for them is bounded and paid for, the program can be ended, others go on, and a
/// netdev can be deleted.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <new>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "../verbs/lib/diagnose.h"
#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/cgroup.h"
#include "lib/fuse.h"

using namespace hostile;

namespace {

constexpr std::size_t kPage = 4096;
constexpr std::uint32_t kQkey = 0x11111111;
constexpr uid_t kNobody = 65534;

/// What a child lets its test know.
struct Shared {
    std::atomic<int> ready;
    std::atomic<int> done;
    std::atomic<std::uint64_t> amount;
};

/// A number of /proc/meminfo, in bytes.
std::uint64_t meminfo(const std::string &key)
{
    std::ifstream in("/proc/meminfo");
    std::string word, unit;
    std::uint64_t number = 0;
    while (in >> word >> number) {
        std::getline(in, unit);
        if (word == key + ":")
            return number * 1024;
    }
    vt::fail("no " + key + " in /proc/meminfo");
}

/// QPs that receive into the file, and one that sends to them.
class Victims {
public:
    Victims(const HangingFile &file, ibv_qp_type type, std::size_t count,
            const std::string &device = vt::device_a())
        : end_(device), memory_(file.map()),
          on_demand_(vt::reg_mr(end_.pd.get(), memory_, HangingFile::kSize, vt::kOnDemand)),
          source_(end_.buffer(64 << 10))
    {
        vt::QpConfig config{.type = type, .send_wr = 256, .recv_wr = 16};
        vt::Params params{.mtu = IBV_MTU_4096};
        /* The sender must still be there when it is looked at. */
        params.timeout = 0;
        for (std::size_t i = 0; i < count; i++) {
            receivers_.push_back(make(config));
            if (type == IBV_QPT_UD && i) {
                bring_up(*receivers_[i], params);
            } else {
                senders_.push_back(make(config));
                if (type == IBV_QPT_UD) {
                    bring_up(*receivers_[i], params);
                    bring_up(*senders_[i], params);
                } else {
                    vt::connect(end_.context, *senders_[i], end_.context, *receivers_[i], params);
                }
            }
            receivers_[i]->post_recv(i, {{address(i), 8 * kPage, on_demand_->lkey}});
        }
        ibv_ah_attr to = vt::address_of(end_.context, end_.context);
        ah_ = vt::Ah(vt::need(ibv_create_ah(end_.pd.get(), &to), "ibv_create_ah"));
    }

    /// @p length bytes to receiver @p to.
    void send(std::size_t to, std::uint32_t length)
    {
        bool ud = receivers_[to]->get()->qp_type == IBV_QPT_UD;
        vt::Qp &from = ud ? *senders_[0] : *senders_[to];
        from.post(vt::SendWr::send({source_.sge(0, length)})
                      .to(ah_.get(), receivers_[to]->number(), kQkey)
                      .id(0));
        if (ud)
            end_.send_cq.one();
    }
    /// @p messages of @p length bytes to each receiver in turn.
    void send_to_each(std::size_t messages, std::uint32_t length)
    {
        for (std::size_t to = 0; to < count(); to++)
            for (std::size_t i = 0; i < messages; i++)
                send(to, length);
    }
    std::size_t count() const { return receivers_.size(); }
    vt::MrHandle &region() { return on_demand_; }

private:
    std::unique_ptr<vt::Qp> make(const vt::QpConfig &config)
    {
        return std::make_unique<vt::Qp>(end_.pd.get(), end_.send_cq.get(), end_.recv_cq.get(),
                                        config);
    }
    void bring_up(const vt::Qp &qp, const vt::Params &params)
    {
        qp.to_init(params);
        qp.to_rtr(params, {}, 0);
        qp.to_rts(params);
    }
    std::uint64_t address(std::size_t i) const
    {
        return reinterpret_cast<std::uintptr_t>(memory_) + i * 8 * kPage % HangingFile::kSize;
    }

    vt::End end_;
    void *memory_;
    vt::MrHandle on_demand_;
    vt::Buffer source_;
    vt::Ah ah_;
    std::vector<std::unique_ptr<vt::Qp>> receivers_, senders_;
};

class HangTest : public vt::ProcessTest {
protected:
    void SetUp() override
    {
        if (!HangingFile::possible())
            GTEST_SKIP() << "this kernel has no FUSE";
        file_ = std::make_unique<HangingFile>();
        void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared_ = new (memory) Shared{};
    }
    void TearDown() override
    {
        /* First of all: what hangs lets go. */
        file_.reset();
        if (child_ > 0) {
            kill(child_, SIGKILL);
            vt::wait_for(child_);
        }
        if (shared_)
            munmap(shared_, sizeof(Shared));
        ProcessTest::TearDown();
    }

    /// Has @p count receivers wait for pages, then @p more; the child stays until it is killed.
    void begin(
        ibv_qp_type type, std::size_t count,
        const std::function<void(Victims &)> &more = [](Victims &) {},
        const std::string &device = vt::device_a())
    {
        child_ = vt::in_child([&, count] {
            Victims victims(*file_, type, count, device);
            victims.send_to_each(1, 1024);
            if (!vt::eventually([&] { return file_->reads() > 0; }))
                return 1;
            more(victims);
            shared_->ready = 1;
            for (;;)
                pause();
            return 0;
        });
        ASSERT_TRUE(vt::eventually([&] { return shared_->ready != 0; }, 2 * vt::kPatience))
            << "nothing hangs";
    }
    /// SIGKILL ends it, though the file system is as it was.
    void expect_killed()
    {
        pid_t child = std::exchange(child_, -1);
        vt::Stopwatch watch;
        vt::kill_child(child);
        EXPECT_LT(watch.elapsed(), vt::kPatience);
        EXPECT_GT(file_->reads(), 0u);
    }

    std::unique_ptr<HangingFile> file_;
    Shared *shared_ = nullptr;
    pid_t child_ = -1;
};

/* 8 of them could keep 64 MiB that nobody accounts. */
TEST_F(HangTest, DatagramsBehindOneThatWaitsAreNotKept)
{
    alarm(vt::kLongCaseSeconds);
    begin(IBV_QPT_UD, 8, [&](Victims &victims) {
        std::uint64_t before = meminfo("MemFree");
        for (int i = 0; i < 2000; i++)
            for (std::size_t to = 0; to < victims.count(); to++)
                victims.send(to, 4096);
        std::uint64_t after = meminfo("MemFree");
        shared_->amount = before > after ? before - after : 0;
    });
    std::printf("# %llu KiB of memory less after 16,000 datagrams\n",
                static_cast<unsigned long long>(shared_->amount) / 1024);
    EXPECT_LT(shared_->amount, 24u << 20);
    expect_killed();
}

TEST_F(HangTest, WhatWaitsIsChargedToTheCgroup)
{
    Cgroup group("hang");
    constexpr std::size_t kCount = 16;
    constexpr std::uint32_t kLength = 32 << 10;
    begin(IBV_QPT_RC, kCount, [&](Victims &victims) {
        group.enter();
        /* Charged is whose QP it is: made before, in another group. */
        Victims mine(*file_, IBV_QPT_RC, kCount);
        mine.send_to_each(1, 1024);
        std::uint64_t before = group.number("memory.stat", "kernel");
        mine.send_to_each(8, kLength);
        std::uint64_t charged = group.number("memory.stat", "kernel") - before;
        /* The same for others' QPs is for others to pay. */
        victims.send_to_each(8, kLength);
        shared_->done = static_cast<int>(
            (group.number("memory.stat", "kernel") - before - charged) >> 10);
        shared_->amount = charged;
        /* They go first, with what waits for them. */
    });
    std::printf("# charged: %llu KiB, then %d KiB\n",
                static_cast<unsigned long long>(shared_->amount) / 1024, shared_->done.load());
    /* The statistics may be half a MiB late. */
    EXPECT_GE(shared_->amount, kCount * 8 * kLength * 3 / 4);
    EXPECT_LE(shared_->amount, kCount * (1u << 20));
    EXPECT_LT(shared_->done, static_cast<int>(kCount * 8 * kLength / 1024 / 4));
    expect_killed();
    file_->stop();
}

TEST_F(HangTest, TheProgramCanBeKilled)
{
    begin(IBV_QPT_RC, 20);
    expect_killed();
}

TEST_F(HangTest, TheProgramEndsByItself)
{
    child_ = vt::in_child([&] {
        {
            Victims victims(*file_, IBV_QPT_RC, 20);
            victims.send_to_each(1, 1024);
            if (!vt::eventually([&] { return file_->reads() > 0; }))
                return 1;
            victims.region().reset();
        }
        return file_->reads() > 0 ? 0 : 2;
    });
    EXPECT_TRUE(vt::ends_with(std::exchange(child_, -1), 0));
}

TEST_F(HangTest, AdviceThatWaitsCanBeKilled)
{
    child_ = vt::in_child([&] {
        vt::End end(vt::device_a());
        vt::MrHandle region = vt::reg_mr(end.pd.get(), file_->map(), HangingFile::kSize,
                                         vt::kOnDemand);
        ibv_sge sge{reinterpret_cast<std::uintptr_t>(region->addr), kPage, region->lkey};
        shared_->ready = 1;
        ibv_advise_mr(end.pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &sge,
                      1);
        return 1;
    });
    ASSERT_TRUE(vt::eventually([&] { return file_->reads() > 0; }));
    expect_killed();
}

/// Writes to pages of a process that were never touched, and looks at them.
int use_pages()
{
    vt::End a(vt::device_a()), b(vt::device_b());
    vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    vt::connect(a.context, qa, b.context, qb);
    vt::Buffer source = a.buffer(1 << 20);
    vt::Buffer target = b.buffer(1 << 20, vt::kOnDemand);
    vt::fill(source.bytes(), 5);
    qa.post(vt::SendWr::write({source.sge(0, source.size())}, vt::remote(target)).id(1));
    if (!vt::is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE))
        return 1;
    return vt::filled(target.bytes(), 5) ? 0 : 2;
}

TEST_F(HangTest, OthersGetTheirPages)
{
    alarm(vt::kLongCaseSeconds);
    begin(IBV_QPT_UD, 600);
    EXPECT_TRUE(vt::ends_with(vt::in_child(use_pages), 0));
    expect_killed();
    EXPECT_TRUE(vt::ends_with(vt::in_child(use_pages), 0));
}

/// Jobs of the driver that a worker has in hand, of all processes.
std::size_t running_jobs()
{
    std::size_t count = 0;
    for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
        std::ifstream in(entry.path() / "comm");
        std::string name;
        // What a worker does stands behind a plus, what it did last behind a minus.
        if (std::getline(in, name) && name.ends_with("+rox_odp"))
            count++;
    }
    return count;
}

TEST_F(HangTest, AUserHasAShareOfTheWorkers)
{
    constexpr std::size_t kOfAUser = 64, kOfAProcess = 8, kProcesses = 10;
    alarm(vt::kLongCaseSeconds);
    std::vector<pid_t> children;
    for (std::size_t i = 0; i < kProcesses; i++) {
        children.push_back(vt::in_child([&] {
            Victims victims(*file_, IBV_QPT_UD, kOfAProcess + 4);
            victims.send_to_each(1, 1024);
            shared_->ready++;
            for (;;)
                pause();
            return 0;
        }));
        std::size_t wanted = std::min((i + 1) * kOfAProcess, kOfAUser);
        EXPECT_TRUE(vt::eventually([&] { return running_jobs() == wanted; }, 2 * vt::kPatience))
            << running_jobs() << " jobs of " << i + 1 << " processes";
    }
    EXPECT_TRUE(vt::eventually([&] { return shared_->ready == kProcesses; }));
    EXPECT_FALSE(vt::eventually([] { return running_jobs() != kOfAUser; }, vt::Millis(500)));
    /* Another user has workers. */
    EXPECT_TRUE(vt::ends_with(vt::in_child([] {
                                  if (setgid(kNobody) || setuid(kNobody))
                                      return 90;
                                  return use_pages();
                              }),
                              0));
    for (pid_t child : children)
        vt::kill_child(child);
}

TEST_F(HangTest, WhatADeviceKeepsIsBounded)
{
    /* Each could keep half a MiB, all of them 80. */
    constexpr std::size_t kCount = 160, kMessages = 20;
    constexpr std::uint32_t kLength = 32 << 10;
    constexpr std::uint64_t kBound = 64u << 20;
    alarm(vt::kLongCaseSeconds);
    Cgroup group("hang");
    child_ = vt::in_child([&] {
        group.enter();
        Victims victims(*file_, IBV_QPT_RC, kCount);
        victims.send_to_each(1, 1024);
        std::uint64_t before = group.number("memory.stat", "kernel");
        victims.send_to_each(kMessages, kLength);
        shared_->amount = group.number("memory.stat", "kernel") - before;
        shared_->ready = 1;
        for (;;)
            pause();
        return 0;
    });
    ASSERT_TRUE(vt::eventually([&] { return shared_->ready != 0; }, 4 * vt::kPatience));
    std::printf("# kept: %llu KiB\n", static_cast<unsigned long long>(shared_->amount) / 1024);
    EXPECT_GE(shared_->amount, kBound * 7 / 8);
    EXPECT_LE(shared_->amount, kBound * 17 / 16);
    expect_killed();
    file_->stop();
}

/* ---- netdevs ---- */

class HangNetTest : public HangTest {
protected:
    void SetUp() override
    {
        HangTest::SetUp();
        if (IsSkipped())
            return;
        ASSERT_EQ(vt::shell("ip link add hang0 mtu 9000 type veth peer name hang1 mtu 9000 && "
                            "ip address add 10.77.0.1/24 dev hang0 && ip link set hang0 up && "
                            "ip link set hang1 up && "
                            "rdma link add roxhang type rox netdev hang0"),
                  0);
        ASSERT_TRUE(vt::eventually([] {
            ibv_context *context = vt::open_device("roxhang");
            return context && !ibv_close_device(context);
        }));
    }
    void TearDown() override
    {
        file_.reset();
        vt::shell("ip link delete hang0 2>/dev/null");
        EXPECT_TRUE(vt::eventually([] {
            return vt::shell("! rdma link show roxhang/1 2>&1"
                             " >/dev/null") == 0;
        }));
        HangTest::TearDown();
    }
    /// It is waited for until all have let go of the netdev.
    void expect_deleted()
    {
        vt::Stopwatch watch;
        EXPECT_EQ(vt::shell("timeout -k 1 20 ip link delete hang0"), 0);
        std::printf("# deleted in %lld ms\n", static_cast<long long>(watch.elapsed().count()));
        EXPECT_LT(watch.elapsed(), vt::kPatience);
        EXPECT_GT(file_->reads(), 0u);
    }
};

TEST_F(HangNetTest, NetdevGoesWhilePagesAreMissing)
{
    begin(
        IBV_QPT_RC, 4, [](Victims &) {}, "roxhang");
    expect_deleted();
    expect_killed();
}

/* A verb that waits for pages to pin holds the device, with any driver; the netdev need not wait.
 */
TEST_F(HangNetTest, NetdevGoesWhileARegistrationHangs)
{
    child_ = vt::in_child([&] {
        vt::Context context("roxhang");
        vt::Pd pd = vt::alloc_pd(context.get());
        void *memory = file_->map();
        shared_->ready = 1;
        // Linux pins no pages of files that may be written to.
        ibv_reg_mr(pd.get(), memory, HangingFile::kSize, 0);
        return 0;
    });
    ASSERT_TRUE(vt::eventually([&] { return file_->reads() > 0; }));
    expect_deleted();
    file_->stop();
    pid_t child = std::exchange(child_, -1);
    kill(child, SIGKILL);
    vt::wait_for(child);
}

} // namespace
