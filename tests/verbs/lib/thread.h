// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Threads with other capabilities, on other CPUs or in another network namespace than the program,
/// and those of the kernel.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <sched.h>
#include <sys/types.h>

namespace vt {

/// While it lives, the calling thread stays where it is, or on @p cpu. Throws what fail() throws.
class OneCpu {
public:
    OneCpu();
    explicit OneCpu(std::size_t cpu);
    ~OneCpu();
    OneCpu(const OneCpu &) = delete;
    OneCpu &operator=(const OneCpu &) = delete;

private:
    cpu_set_t before_{};
};

/// Runs @p body in a new thread and waits for it. Rethrows what @p body throws. Changes of
/// capabilities and namespaces end with the thread.
void in_thread(const std::function<void()> &body);

/// The same on one CPU. What it sends through a veth pair stays in order: Linux queues a packet
/// there on the CPU that sends it. Nor does the device poll the send queue for it on another CPU.
void on_one_cpu(const std::function<void()> &body);

/// The same without @p capability (CAP_...) in the thread's effective set.
void without_capability(int capability, const std::function<void()> &body);

/// The same in the network namespace @p name; "" is that of the program.
void in_namespace(const std::string &name, const std::function<void()> &body);

/// What a file in /proc says of a thread; empty if there is none.
std::string about_thread(pid_t thread, const std::string &file);

/// The engines of @p program, threads of the kernel: one for each CPU on which it has rung.
std::vector<pid_t> engines_of(pid_t program);

/// Moves a thread that runs to @p cpu, which it may leave. Return: true if it was on another one.
/// Throws what fail() throws.
bool move_to_cpu(pid_t thread, std::size_t cpu);

} // namespace vt
