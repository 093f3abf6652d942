// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "thread.h"

#include <array>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "error.h"

namespace vt {

namespace {

/// Removes a capability from the calling thread's effective set.
void drop(int capability)
{
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    std::array<__user_cap_data_struct, 2> data{};
    if (syscall(SYS_capget, &header, data.data()))
        fail("capget", errno);
    data[static_cast<unsigned>(capability) / 32].effective &= ~(1U << capability % 32);
    if (syscall(SYS_capset, &header, data.data()))
        fail("capset", errno);
}

/// Moves the calling thread into a network namespace.
void enter(const std::string &name)
{
    int fd = open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET))
        fail("namespace " + name, errno);
    close(fd);
}

/// Return: the CPU that a thread has, or had last.
std::size_t cpu_of(pid_t thread)
{
    const std::string stat = about_thread(thread, "stat");
    std::istringstream fields(stat.substr(stat.rfind(')') + 1));
    constexpr int kProcessor = 39 - 3; // behind the name, which is the second
    std::string field;
    for (int i = 0; i <= kProcessor; i++)
        fields >> field;
    return std::stoul(field);
}

} // namespace

OneCpu::OneCpu() : OneCpu(static_cast<std::size_t>(sched_getcpu())) {}

OneCpu::OneCpu(std::size_t cpu)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(cpu, &here);
    if (sched_getaffinity(0, sizeof(before_), &before_))
        fail("sched_getaffinity", errno);
    if (sched_setaffinity(0, sizeof(here), &here))
        fail("sched_setaffinity", errno);
}

OneCpu::~OneCpu()
{
    sched_setaffinity(0, sizeof(before_), &before_);
}

void in_thread(const std::function<void()> &body)
{
    std::exception_ptr problem;
    std::thread thread([&] {
        try {
            body();
        } catch (...) {
            problem = std::current_exception();
        }
    });
    thread.join();
    if (problem)
        std::rethrow_exception(problem);
}

void on_one_cpu(const std::function<void()> &body)
{
    in_thread([&] {
        const OneCpu cpu;
        body();
    });
}

void without_capability(int capability, const std::function<void()> &body)
{
    in_thread([&] {
        drop(capability);
        body();
    });
}

void in_namespace(const std::string &name, const std::function<void()> &body)
{
    in_thread([&] {
        if (!name.empty())
            enter(name);
        body();
    });
}

std::string about_thread(pid_t thread, const std::string &file)
{
    std::ifstream in("/proc/" + std::to_string(thread) + "/" + file);
    return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<pid_t> engines_of(pid_t program)
{
    const std::string name = "rox_engine/" + std::to_string(program) + "\n";
    std::vector<pid_t> engines;
    for (const auto &entry : std::filesystem::directory_iterator("/proc")) {
        const std::string number = entry.path().filename();
        if (number.find_first_not_of("0123456789") == std::string::npos &&
            about_thread(std::stoi(number), "comm") == name)
            engines.push_back(std::stoi(number));
    }
    return engines;
}

bool move_to_cpu(pid_t thread, std::size_t cpu)
{
    const std::size_t before = cpu_of(thread);
    cpu_set_t all, one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (sched_getaffinity(thread, sizeof(all), &all) ||
        sched_setaffinity(thread, sizeof(one), &one))
        fail("affinity of " + std::to_string(thread), errno);
    const bool moved = before != cpu && cpu_of(thread) == cpu;
    if (sched_setaffinity(thread, sizeof(all), &all))
        fail("affinity of " + std::to_string(thread), errno);
    return moved;
}

} // namespace vt
