// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Each allocation of each operation fails once (/proc/self/task/TID/fail-nth, on a kernel with
/// fault injection): the operation fails with a clear errno or does without, nothing is lost, and
/// the next try works. Of the data path, whose allocations are in softirqs and workers, some fail
/// at random.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fcntl.h>

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../verbs/lib/loopback.h"
#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/chance.h"

using namespace hostile;

namespace {

/// The calling thread's countdown.
class Countdown {
public:
    Countdown()
        : fd_(open(("/proc/self/task/" + std::to_string(syscall(SYS_gettid)) + "/fail-nth").c_str(),
                   O_RDWR | O_CLOEXEC))
    {
        if (fd_ < 0)
            vt::fail("no fault injection", errno);
    }
    ~Countdown() { close(fd_); }
    Countdown(const Countdown &) = delete;
    Countdown &operator=(const Countdown &) = delete;

    /// The @p n-th allocation from now on fails.
    void start(unsigned n) const
    {
        char text[16];
        int size = std::snprintf(text, sizeof(text), "%u", n);
        if (pwrite(fd_, text, static_cast<std::size_t>(size), 0) != size)
            vt::fail("fail-nth", errno);
    }
    /// Ends it. Has one failed?
    bool stop() const
    {
        char left[16] = {};
        if (pread(fd_, left, sizeof(left) - 1, 0) <= 0)
            vt::fail("fail-nth", errno);
        start(0);
        return std::atoi(left) == 0;
    }

private:
    int fd_;
};

/// 0 or an errno; what it has made is gone when the next one is called with the same n.
using Operation = std::function<int()>;

class FaultTest : public vt::ProcessTest {
protected:
    /// @p operation with each of its allocations failed in turn, and each time again without;
    /// @p undo after each success.
    /// @p none: there may be nothing that can fail.
    void each(const char *name, const Operation &operation, const std::function<void()> &undo = {},
              bool none = false)
    {
        unsigned refused = 0, n = 1;
        for (;; n++) {
            ASSERT_LT(n, 2000u) << name << ": it does not end";
            countdown_.start(n);
            int error = operation();
            bool failed = countdown_.stop();
            if (!error) {
                if (undo)
                    undo();
            } else {
                ASSERT_TRUE(failed) << name << " fails by itself: " << std::strerror(error);
                EXPECT_TRUE(clear_.contains(error)) << name << ": " << std::strerror(error);
                refused++;
                ASSERT_EQ(operation(), 0) << name << ", the next try after fault " << n;
                if (undo)
                    undo();
            }
            if (!failed)
                break;
            total_++;
        }
        std::printf("# %s: %u faults, %u refusals\n", name, n - 1, refused);
        EXPECT_TRUE(n > 1 || none) << name << ": nothing was injected";
    }

    /// A verb that makes an object, and the one that ends it.
    template <typename T>
    void each_object(const char *name, const std::function<T *()> &create, int (*destroy)(T *))
    {
        T *object = nullptr;
        each(
            name,
            [&] {
                errno = 0;
                object = create();
                return object ? 0 : errno ? errno : EIO;
            },
            [&] { ASSERT_EQ(destroy(object), 0) << name; });
    }

    /// What says that there was no memory, or no room in a table.
    std::set<int> clear_ = {ENOMEM, EAGAIN, ENOSPC, EFAULT, ENOBUFS};
    Countdown countdown_;
    unsigned total_ = 0;
};

int dealloc_mw(ibv_mw *mw)
{
    return ibv_dealloc_mw(mw);
}

TEST_F(FaultTest, Opening)
{
    clear_.insert(ENOENT); // of libibverbs, which looks elsewhere for a file that does not open
    // With one open, nothing is allocated for the control group's share: Linux loses a reference
    // on the task (as rox_ucontext_refused() has it) where that fails, whoever the driver is.
    vt::Context other(vt::device_a());
    each_object<ibv_context>(
        "open", [&] { return ibv_open_device(other.get()->device); }, ibv_close_device);
}

TEST_F(FaultTest, Objects)
{
    vt::End end(vt::device_a());
    ibv_context *context = end.context.get();
    vt::Memory memory(64 << 10);
    each_object<ibv_pd>(
        "alloc_pd", [&] { return ibv_alloc_pd(context); }, ibv_dealloc_pd);
    each_object<ibv_comp_channel>(
        "channel", [&] { return ibv_create_comp_channel(context); }, ibv_destroy_comp_channel);
    each_object<ibv_cq>(
        "create_cq", [&] { return ibv_create_cq(context, 100, nullptr, nullptr, 0); },
        ibv_destroy_cq);
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD})
        each_object<ibv_qp>(
            "create_qp",
            [&] {
                ibv_qp_init_attr init = vt::QpConfig{.type = type}.attr(end.send_cq.get(),
                                                                        end.recv_cq.get());
                return ibv_create_qp(end.pd.get(), &init);
            },
            ibv_destroy_qp);
    each_object<ibv_srq>(
        "create_srq",
        [&] {
            ibv_srq_init_attr init{nullptr, {100, 4, 0}};
            return ibv_create_srq(end.pd.get(), &init);
        },
        ibv_destroy_srq);
    for (int access : {vt::kAllAccess, vt::kOnDemand})
        each_object<ibv_mr>(
            "reg_mr",
            [&] { return ibv_reg_mr(end.pd.get(), memory.data(), memory.size(), access); },
            ibv_dereg_mr);
    each_object<ibv_mw>(
        "alloc_mw", [&] { return ibv_alloc_mw(end.pd.get(), IBV_MW_TYPE_2); }, dealloc_mw);
    ibv_ah_attr attr = vt::address_of(end.context, end.context);
    each_object<ibv_ah>(
        "create_ah", [&] { return ibv_create_ah(end.pd.get(), &attr); }, ibv_destroy_ah);
}

TEST_F(FaultTest, XrcObjects)
{
    vt::End end(vt::device_a());
    ibv_xrcd_init_attr domain_init{};
    domain_init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    domain_init.fd = -1;
    domain_init.oflags = O_CREAT;
    auto open = [&] { return ibv_open_xrcd(end.context.get(), &domain_init); };
    each_object<ibv_xrcd>("open_xrcd", open, ibv_close_xrcd);
    ibv_xrcd *domain = vt::need(open(), "open_xrcd");
    each_object<ibv_srq>(
        "create_srq of XRC",
        [&] {
            ibv_srq_init_attr_ex init{};
            init.attr = {100, 4, 0};
            init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                             IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
            init.srq_type = IBV_SRQT_XRC;
            init.pd = end.pd.get();
            init.xrcd = domain;
            init.cq = end.recv_cq.get();
            return ibv_create_srq_ex(end.context.get(), &init);
        },
        ibv_destroy_srq);
    // Not targets: Linux loses a reference on the domain if the second allocation of
    // create_xrc_qp_user() fails, whoever the device's driver is.
    EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

TEST_F(FaultTest, StatesOfAQp)
{
    vt::End a(vt::device_a()), b(vt::device_b());
    vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    vt::Params params;
    std::vector<vt::Transition> way = {
        vt::init_transition(IBV_QPT_RC, params),
        vt::rtr_transition(IBV_QPT_RC, params, vt::address_of(a.context, b.context), qb.number()),
        vt::rts_transition(IBV_QPT_RC, params)};
    for (std::size_t target = 0; target < way.size(); target++) {
        // The way up to here once more for each fault.
        auto prepare = [&] {
            vt::check(qa.move(IBV_QPS_RESET), "to RESET");
            for (std::size_t i = 0; i < target; i++)
                vt::check(qa.modify(way[i].attr, way[i].mask), "on the way");
        };
        prepare();
        each(
            "modify_qp", [&] { return qa.modify(way[target].attr, way[target].mask); }, prepare,
            target != 1);
    }
}

TEST_F(FaultTest, Resizing)
{
    vt::End end(vt::device_a());
    vt::Cq cq(end.context.get(), 100);
    vt::Srq srq(end.pd.get(), 64);
    int entries = 100;
    each("resize_cq", [&] { return ibv_resize_cq(cq.get(), entries ^= 100 ^ 1000); });
    std::uint32_t size = 64;
    each("modify_srq", [&] {
        return srq.modify({.max_wr = size ^= 64 ^ 256, .max_sge = 0, .srq_limit = 0},
                          IBV_SRQ_MAX_WR);
    });
    vt::Memory memory(64 << 10);
    vt::MrHandle mr = vt::reg_mr(end.pd.get(), memory.data(), 8192);
    std::size_t length = 8192;
    each("rereg_mr", [&] {
        length ^= 8192 ^ 32768;
        int result = ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory.data(),
                                  length, 0);
        return result ? errno : 0;
    });
}

TEST_F(FaultTest, Multicast)
{
    vt::End end(vt::device_a());
    vt::Qp qp(end.pd.get(), end.send_cq.get(), end.recv_cq.get(), {.type = IBV_QPT_UD});
    qp.to_init();
    ibv_gid group{};
    group.raw[10] = group.raw[11] = 0xff;
    group.raw[12] = 239;
    group.raw[15] = 7;
    // The bytes of the address, as this machine reads them. The IP layer does not say that it had
    // no memory for it.
    auto joined = [] {
        std::ifstream groups("/proc/net/igmp");
        std::stringstream all;
        all << groups.rdbuf();
        return all.str().find("070000EF") != std::string::npos;
    };
    each(
        "attach_mcast", [&] { return ibv_attach_mcast(qp.get(), &group, 0); },
        [&] {
            EXPECT_TRUE(joined());
            ASSERT_EQ(ibv_detach_mcast(qp.get(), &group, 0), 0);
            EXPECT_FALSE(joined());
        });
}

/// Where `ip netns exec` hides debugfs, and shows other devices.
const std::string kSys = "/proc/1/root/sys/";

std::uint64_t number_in(const std::string &path)
{
    std::uint64_t number = 0;
    if (!(std::ifstream(path) >> number))
        vt::fail(path, errno);
    return number;
}

/// While it lives, one of ten allocations of packets' heads fails, in whatever context (fail-nth is
/// about system calls only).
class LostHeads {
public:
    LostHeads()
    {
        set("kernel/slab/skbuff_head_cache/failslab", 1);
        set("kernel/debug/failslab/cache-filter", 1);
        set(kTimesLeft, kTimes);
        set(kProbability, 10);
    }
    ~LostHeads() { std::ofstream(kSys + kProbability) << 0; }
    LostHeads(const LostHeads &) = delete;
    LostHeads &operator=(const LostHeads &) = delete;

    std::uint64_t count() const { return kTimes - number_in(kSys + kTimesLeft); }

private:
    static constexpr const char *kTimesLeft = "kernel/debug/failslab/times";
    static constexpr const char *kProbability = "kernel/debug/failslab/probability";
    static constexpr std::uint64_t kTimes = 1000000;

    static void set(const char *name, std::uint64_t value)
    {
        if (!(std::ofstream(kSys + name) << value << std::flush))
            vt::fail(name, errno);
    }
};

/// What the device could not send, or copy to where it waits for a page.
std::uint64_t packets_lost()
{
    return number_in(kSys + "class/infiniband/" + vt::device_a() +
                     "/ports/1/hw_counters/tx_dropped");
}

/// Faults of the data path are losses: each transfer arrives all the same.
TEST_F(FaultTest, Transfers)
{
    constexpr std::uint64_t kEnough = 20;
    constexpr std::size_t kSize = 200000;
    vt::End a(vt::device_a()), b(vt::device_b());
    vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
    vt::Params params;
    params.timeout = 10;
    vt::connect(a.context, qa, b.context, qb, params);
    vt::Buffer source = a.buffer(kSize), target = b.buffer(kSize);
    vt::Memory space(4 << 20);
    vt::MrHandle on_demand = vt::reg_mr(b.pd.get(), space.data(), space.size(), vt::kOnDemand);
    std::uint64_t seed = 0;
    auto write_to = [&](vt::Bytes bytes, std::uint32_t rkey) {
        vt::fill(source.bytes(), ++seed);
        qa.post(vt::SendWr::write({source.sge(0, kSize)},
                                  {reinterpret_cast<std::uintptr_t>(bytes.data()), rkey})
                    .id(1));
        ASSERT_TRUE(vt::is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(vt::filled(bytes, seed));
    };
    auto transfer = [&](const char *way) {
        std::uint64_t first = seed, before = packets_lost();
        LostHeads heads;
        for (vt::Deadline end; heads.count() < kEnough && !end.passed() && !HasFailure();) {
            write_to(target.bytes(), target.rkey());
            madvise(space.data(), space.size(), MADV_DONTNEED);
            write_to(space.bytes().first(kSize), on_demand->rkey);
        }
        std::uint64_t lost = packets_lost() - before;
        std::printf("# %s: %llu faults, %llu packets lost, %llu transfers\n", way,
                    static_cast<unsigned long long>(heads.count()),
                    static_cast<unsigned long long>(lost),
                    static_cast<unsigned long long>(seed - first));
        EXPECT_GE(heads.count(), kEnough) << way;
        EXPECT_GE(lost, kEnough / 2) << way << ": the faults were others'";
    };
    // There only what waits for pages is copied.
    transfer("without a wire");
    vt::LoopbackOff wire;
    transfer("over the wire");
}

} // namespace
