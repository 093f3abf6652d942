/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/user_mode.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// A kernel that can have several CPUs makes system calls signals by a filter, which is quicker
/// than ptrace, and without which it has one CPU. Each CPU is a thread of the host.
bool is_traced(const Image &image)
{
    return image.most_cpus() == 1;
}

std::vector<std::string> processors(const Image &image, unsigned count)
{
    if (is_traced(image))
        return {};
    return {"seccomp=on", fmt::format("ncpus={}", count)};
}

std::vector<std::string> command_line(const Image &image, const MachineSettings &settings,
                                      const std::string &pipes)
{
    // No "panic=": with it User Mode Linux would restart after a panic instead of ending. Each
    // network namespace has its own RDMA devices. What waits for RCU need not wait long.
    std::vector<std::string> line = {image.kernel(),
                                     fmt::format("mem={}M", settings.memory),
                                     "initrd=" + image.first_process(),
                                     "hostpipe.fds=" + pipes,
                                     "con=null",
                                     "con0=null,fd:2",
                                     "loglevel=7",
                                     "oops=panic",
                                     "printk.devkmsg=on",
                                     "ib_core.netns_mode=0",
                                     "rcupdate.rcu_expedited=1",
                                     "random.trust_cpu=on"};

    for (const auto &more : {processors(image, settings.cpus), image.arguments(), settings.more})
        line.insert(line.end(), more.begin(), more.end());
    return line;
}

/// In a child: lets itself be traced, and stops.
[[noreturn]] void be_traced()
{
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0)
        _exit(errno);
    raise(SIGSTOP);
    _exit(0);
}

/// Does with a stopped child what the kernel does with each process in it. @return errno, or 0
int trace(pid_t child)
{
    user_regs_struct registers{};

    if (ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACESYSGOOD) != 0 ||
        ptrace(PTRACE_GETREGS, child, nullptr, &registers) != 0 ||
        ptrace(PTRACE_SETREGS, child, nullptr, &registers) != 0)
        return errno;
    return 0;
}

} // namespace

std::string user_mode_obstacle(const Image &image)
{
    if (!is_traced(image))
        return {};
    const pid_t child = fork();
    int status = 0, error = 0;

    if (child < 0)
        return fmt::format("fork: {}", std::strerror(errno));
    if (child == 0)
        be_traced();
    if (waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status))
        error = trace(child);
    else
        error = WIFEXITED(status) ? WEXITSTATUS(status) : EPERM;
    kill(child, SIGKILL);
    while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
    }
    return error == 0 ? std::string() : fmt::format("ptrace: {}", std::strerror(error));
}

UserMode::UserMode(const Image &image, const MachineSettings &settings)
{
    const auto theirs = make_pipes();
    std::vector<int> keep;

    for (const auto &end : theirs)
        keep.push_back(end->get());
    keep.insert(keep.end(), settings.networks.begin(), settings.networks.end());
    // The host's kernel writes to what the C library registers as "rseq" of its threads. The
    // processes inside, which are born as copies of such a thread, have no memory there. The kernel
    // finds the end of its address space by the last variable. The C library has moved the first
    // one to the heap by then, and the kernel itself a PATH.
    start({command_line(image, settings, fmt::format("{}", fmt::join(keep, ","))),
           {"GLIBC_TUNABLES=glibc.pthread.rseq=0", "LANG=C"},
           keep});
}

void UserMode::prepare()
{
    // The kernel would reserve what lies between it and a heap at a random place. Containers may
    // not allow that.
    personality(ADDR_NO_RANDOMIZE);
}

} // namespace rox::run
