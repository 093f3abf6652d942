// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "elided.h"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fstream>

#include <fcntl.h>
#include <unistd.h>

#include "context.h"
#include "error.h"

namespace vt {

namespace {

constexpr int kWindows = 40;
constexpr std::uint64_t kPosts = 32;
constexpr int kTicksToWake = 25;
constexpr int kLeast = 5; ///< on a host that has much more to do than this

std::string counters()
{
    return "/proc/1/root/sys/class/infiniband/" + device_a() + "/ports/1/hw_counters/";
}

void lifespan(int millis)
{
    std::ofstream file(counters() + "lifespan");
    if (!(file << millis << std::flush))
        fail("lifespan", errno);
}

/// The time of the kernel's last tick.
std::int64_t tick()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

} // namespace

Doorbells::Doorbells() : fd_(open((counters() + "doorbells").c_str(), O_RDONLY | O_CLOEXEC))
{
    if (fd_ < 0)
        fail("doorbells", errno);
    lifespan(0);
}

Doorbells::~Doorbells()
{
    lifespan(10);
    close(fd_);
}

std::uint64_t Doorbells::more()
{
    char text[32] = {};
    if (pread(fd_, text, sizeof(text) - 1, 0) <= 0)
        fail("doorbells", errno);
    const std::uint64_t now = std::strtoull(text, nullptr, 10);
    return now - std::exchange(count_, now);
}

void Elided::measure(const std::function<void()> &post, const std::function<void()> &rest)
{
    for (Deadline end(4 * kPatience); telling_ < kWindows && !end.passed(); all_++) {
        wake(post);
        const Window window = one(post);
        rest();
        const bool tells = window.gap < limit_;
        telling_ += tells;
        good_ += tells && window.good();
    }
}

testing::AssertionResult Elided::verdict() const
{
    const bool enough = telling_ >= kLeast && 2 * good_ * all_ >= telling_ * telling_;
    return (enough ? testing::AssertionSuccess() : testing::AssertionFailure()) << text();
}

std::string Elided::text() const
{
    return "hardly a doorbell in " + std::to_string(good_) + " of " + std::to_string(telling_) +
           " windows that tell, of " + std::to_string(all_);
}

/// Posts until the engine is there, or has had enough time to come.
void Elided::wake(const std::function<void()> &post)
{
    one(post);
    for (int ticks = 1; ticks < kTicksToWake && !one(post).good(); ticks++)
        ;
}

/// Posts so often, and then until the next tick.
Elided::Window Elided::one(const std::function<void()> &post)
{
    Window window;
    pace_.take(); // without the time that doorbells_ took
    for (auto begin = tick(); window.posts < kPosts || tick() == begin; window.posts++) {
        post();
        if (window.posts < kPosts)
            begin = tick();
    }
    window.gap = pace_.take();
    window.rung = doorbells_.more();
    return window;
}

} // namespace vt
