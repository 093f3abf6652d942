// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory on demand of a process that maps and unmaps all the time, as allocators do: what the
/// device knows of it is given back, and munmap() is not slow.
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/pair.h"

using namespace vt;

namespace {

const std::size_t kPage = page_size();
/* What the device keeps accounts of at once, and where each piece of memory has a part of its own.
 */
constexpr std::size_t kStep = 2 << 20;

/// Kernel memory that cannot be reclaimed, in bytes.
std::uint64_t kernel_memory()
{
    std::ifstream in("/proc/meminfo");
    std::string word, unit;
    std::uint64_t number = 0, sum = 0;
    while (in >> word >> number) {
        std::getline(in, unit);
        if (word == "SUnreclaim:" || word == "VmallocUsed:")
            sum += number * 1024;
    }
    return sum;
}

/// Calls of a kernel function by this thread, where the kernel can count them.
class Calls {
public:
    explicit Calls(const std::string &function)
    {
        if (!std::ifstream(kRoot + "trace").good() &&
            mount("tracefs", kRoot.c_str(), "tracefs", 0, nullptr))
            return;
        std::ifstream tracers(kRoot + "available_tracers");
        std::string tracer;
        while (tracers >> tracer)
            known_ |= tracer == "function";
        if (!known_)
            return;
        write("current_tracer", "nop");
        write("set_ftrace_filter", function);
        write("set_ftrace_pid", std::to_string(syscall(SYS_gettid)));
        write("current_tracer", "function");
        write("trace", "");
    }
    ~Calls()
    {
        if (!known_)
            return;
        write("current_tracer", "nop");
        write("set_ftrace_pid", " ");
        write("set_ftrace_filter", " ");
    }
    bool known() const { return known_; }
    static std::size_t count()
    {
        std::ifstream file(kRoot + "trace");
        std::size_t found = 0;
        for (std::string line; std::getline(file, line);)
            found += !line.empty() && line[0] != '#';
        return found;
    }

private:
    static void write(const std::string &name, const std::string &text)
    {
        std::ofstream file(kRoot + name);
        if (!(file << text << std::flush))
            fail("write to " + kRoot + name);
    }

    static inline const std::string kRoot = "/sys/kernel/tracing/";
    bool known_ = false;
};

class OdpChurnCore : public PairTest {
protected:
    void SetUp() override { start(); }

    /// A piece of memory where none was before, in address space of our own.
    std::uint8_t *map(std::size_t size)
    {
        if (used_ + kStep > space_.size())
            fail("no more address space");
        void *memory = mmap(space_.data() + used_, size, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (memory == MAP_FAILED)
            fail("mmap", errno);
        used_ += kStep;
        return static_cast<std::uint8_t *>(memory);
    }
    /// Writes there by the device, looks, and takes the memory away.
    Clock::duration use(std::size_t size, std::uint64_t seed)
    {
        std::uint8_t *memory = map(size);
        fill(source_.bytes(0, size), seed);
        a.qp->post(SendWr::write({source_.sge(0, size)},
                                 {reinterpret_cast<std::uintptr_t>(memory), everything_->rkey})
                       .id(seed));
        EXPECT_TRUE(is(a.send_cq.one(), seed, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(filled({memory, size}, seed));
        return unmap(memory, size);
    }
    static Clock::duration unmap(std::uint8_t *memory, std::size_t size)
    {
        auto begin = Clock::now();
        EXPECT_EQ(munmap(memory, size), 0);
        return Clock::now() - begin;
    }

    Memory space_{4UL << 30, MAP_NORESERVE};
    std::size_t used_ = 0;
    Buffer source_ = a.buffer(16 * kPage);
    MrHandle everything_ = reg_mr(b.pd.get(), nullptr, SIZE_MAX, kOnDemand);
};

TEST_F(OdpChurnCore, WhatIsKnownOfPagesIsGivenBack)
{
    constexpr std::uint64_t kTimes = 600;
    for (std::uint64_t i = 0; i < kTimes; i++)
        use(kPage, i);
    std::uint64_t after = kernel_memory();
    for (std::uint64_t i = 0; i < kTimes; i++)
        use(kPage, i);
    /* 2 MiB of addresses cost a page and more: of 600 that would be 2.4 MiB and more. */
    EXPECT_TRUE(eventually([&] { return kernel_memory() < after + (1 << 20); }))
        << kernel_memory() - after << " bytes more";
    std::printf("# %lld KiB more after %llu times more\n",
                (static_cast<long long>(kernel_memory()) - static_cast<long long>(after)) / 1024,
                static_cast<unsigned long long>(kTimes));
}

TEST_F(OdpChurnCore, MemoryIsTakenAwayWithoutAGracePeriod)
{
    constexpr std::uint64_t kTimes = 200;
    const std::size_t kSize = 16 * kPage;
    std::vector<Clock::duration> known, control;
    Calls calls("synchronize_rcu synchronize_rcu_expedited synchronize_srcu");
    for (std::uint64_t i = 0; i < kTimes; i++) {
        known.push_back(use(kSize, i));
        std::uint8_t *memory = map(kSize);
        fill({memory, kSize}, i);
        control.push_back(unmap(memory, kSize));
    }
    std::size_t waits = calls.known() ? calls.count() : 0;
    std::sort(known.begin(), known.end());
    std::sort(control.begin(), control.end());
    auto micros = [](Clock::duration time) {
        return static_cast<long long>(std::chrono::ceil<std::chrono::microseconds>(time).count());
    };
    std::printf("# munmap: %lld us, %lld us of what no device knows; %s %zu\n",
                micros(known[kTimes / 2]), micros(control[kTimes / 2]),
                calls.known() ? "grace periods:" : "not counted:", waits);
    EXPECT_EQ(waits, 0u);
    EXPECT_LT(known[kTimes / 2], control[kTimes / 2] + kLate);
}

/* The same while the device uses other memory on demand all the time, part of which comes and goes.
 */
TEST_F(OdpChurnCore, UnderTrafficDataIsWhole)
{
    End other(device_a()), others(device_b());
    Qp qa(other.pd.get(), other.send_cq.get(), other.recv_cq.get());
    Qp qb(others.pd.get(), others.send_cq.get(), others.recv_cq.get());
    vt::connect(other.context, qa, others.context, qb);
    Buffer from = other.buffer(1 << 20, kOnDemand), to = others.buffer(1 << 20, kOnDemand);
    std::atomic<bool> stop = false;
    std::atomic<std::uint64_t> rounds = 0;
    std::thread traffic([&] {
        for (std::uint64_t seed = 1; !stop; seed++) {
            fill(from.bytes(), seed);
            qa.post(SendWr::write({from.sge(0, from.size())}, remote(to)).id(seed));
            EXPECT_TRUE(is(other.send_cq.one(), seed, IBV_WC_RDMA_WRITE));
            EXPECT_TRUE(filled(to.bytes(), seed));
            /* What was in there comes back empty, and is written anew. */
            madvise(to.data(), to.size() / 2, MADV_DONTNEED);
            rounds++;
        }
    });
    for (std::uint64_t i = 0; i < 200 || rounds < 3; i++) {
        use(16 * kPage, i);
        if (used_ + kStep > space_.size())
            break;
    }
    stop = true;
    traffic.join();
    EXPECT_GE(rounds, 3u);
}

} // namespace
