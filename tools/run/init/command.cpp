/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/command.hpp"

#include "run/init/host.hpp"
#include "run/init/system.hpp"
#include "run/init/tap.hpp"
#include "run/pointers.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// Signals as the caller had them: those that it ignored are ignored.
void set_signals(uint64_t ignored)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, (ignored >> number & 1) != 0 ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
}

void set_limits(const Job &job)
{
    for (const Limit &limit : job.limits) {
        const rlimit value{limit.soft, limit.hard};

        setrlimit(static_cast<__rlimit_resource>(limit.resource), &value);
    }
    const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
    setrlimit(RLIMIT_MEMLOCK, &unlimited);
}

void become(const Job &job)
{
    if (job.uid == 0)
        return;
    const std::vector<gid_t> groups(job.groups.begin(), job.groups.end());

    if (setgroups(groups.size(), groups.data()) != 0 || setresgid(job.gid, job.gid, job.gid) != 0 ||
        setresuid(job.uid, job.uid, job.uid) != 0)
        _exit(125);
}

/// In the child: becomes the command. What keeps it from that goes to @p error_pipe, which ends
/// otherwise.
[[noreturn]] void execute(const Job &job, const Streams &streams, int error_pipe)
{
    const auto arguments = pointers(job.arguments);
    auto environment = pointers(job.environment);
    int moved[3];

    setpgid(0, 0);
    if (streams.terminal >= 0) {
        const int terminal = *std::find_if(streams.command.begin(), streams.command.end(), isatty);

        tcsetpgrp(terminal, getpid());
    }
    // None of them may be where another one has to go.
    for (size_t i = 0; i < 3; i++)
        moved[i] = streams.command[i] < 0 ? -1 : fcntl(streams.command[i], F_DUPFD_CLOEXEC, 10);
    for (int i = 0; i < 3; i++)
        if (moved[i] < 0)
            close(i);
        else
            dup2(moved[i], i);
    set_limits(job);
    umask(job.umask);
    become(job);
    set_signals(job.ignored);
    environ = environment.data();
    if (chdir(job.folder.c_str()) == 0)
        execvp(arguments[0], arguments.data());
    const int error = errno;
    write_all(error_pipe, &error, sizeof(error));
    _exit(error == ENOENT ? 127 : 126);
}

/// Starts the command. @return its process id, or an errno as a negative number
pid_t start(const Job &job, Streams &streams)
{
    int error_pipe[2], error = 0;

    need(pipe2(error_pipe, O_CLOEXEC) == 0, "a pipe");
    if (streams.terminal >= 0) {
        setsid();
        for (const int fd : streams.command)
            if (fd >= 0 && isatty(fd) && ioctl(fd, TIOCSCTTY, 0) == 0)
                break;
        signal(SIGTTOU, SIG_IGN);
    }
    const pid_t child = fork();
    need(child >= 0, "fork");
    if (child == 0)
        execute(job, streams, error_pipe[1]);
    setpgid(child, child);
    close(error_pipe[1]);
    const bool failed = read_all(error_pipe[0], &error, sizeof(error));
    close(error_pipe[0]);
    for (size_t i = streams.input_is_file ? 1 : 0; i < 3; i++)
        if (streams.command[i] >= 0)
            close(streams.command[i]);
    return failed ? -error : child;
}

/// In a child: does what rox-run wants until the end.
[[noreturn]] void obey(pid_t command, int terminal)
{
    Order order;

    while (read_all(control(), &order, sizeof(order))) {
        if (order.kind == Order::signal) {
            const int number = static_cast<int>(order.first);

            kill(order.second != 0 ? -command : command, number);
        } else if (order.kind == Order::resume) {
            kill(-command, SIGCONT);
        } else if (terminal >= 0) {
            const winsize size{static_cast<unsigned short>(order.first),
                               static_cast<unsigned short>(order.second), 0, 0};

            ioctl(terminal, TIOCSWINSZ, &size);
        }
    }
    _exit(0);
}

bool is_spared(pid_t process, const Streams &streams)
{
    return process == 1 || process == getpid() || process == streams.input ||
           sends_frames(process) ||
           std::find(streams.outputs.begin(), streams.outputs.end(), process) !=
               streams.outputs.end();
}

/// Whether a process is a program that runs: neither the kernel's own nor dead.
bool runs(const std::string &process)
{
    const std::string stat = read_file("/proc/" + process + "/stat");
    const size_t name = stat.rfind(") ");

    if (name == stat.npos)
        return false;
    // "PID (NAME) STATE PPID ..."; the kernel's own are children of process 2.
    return stat[name + 2] != 'Z' && std::atoi(stat.c_str() + name + 4) != 2 && process != "2";
}

/// Ends all programs but those that copy. @return whether there was one
bool kill_others(const Streams &streams)
{
    DIR *const folder = opendir("/proc");
    bool found = false;

    if (folder == nullptr)
        return false;
    while (const dirent *const entry = readdir(folder)) {
        const pid_t process = std::atoi(entry->d_name);

        if (process <= 1 || is_spared(process, streams) || !runs(entry->d_name))
            continue;
        kill(process, SIGKILL);
        found = true;
    }
    closedir(folder);
    return found;
}

/// What the command has started ends with it, as the kernel does; what has been written, and what
/// programs have sent, leaves before.
void finish(Streams &streams)
{
    constexpr int rounds = 1000;

    for (int i = 0; i < rounds && kill_others(streams); i++)
        while (waitpid(-1, nullptr, WNOHANG) > 0)
            ;
    for (const pid_t output : streams.outputs)
        while (waitpid(output, nullptr, 0) < 0 && errno == EINTR)
            ;
    send_last_frames();
    settle_output();
    sync();
}

/// Waits for the command's end. @return its status
int await(pid_t command)
{
    for (;;) {
        int status = 0;
        const pid_t child = waitpid(-1, &status, WUNTRACED);

        if (child < 0 && errno != EINTR)
            fail("waiting for the command", errno);
        if (child != command)
            continue;
        if (!WIFSTOPPED(status))
            return status;
        report(Report::stopped, static_cast<uint32_t>(WSTOPSIG(status)));
    }
}

} // namespace

void run_command(const Job &job, Streams &streams)
{
    report(Report::started);
    const pid_t command = start(job, streams);

    if (command < 0) {
        report(Report::missing, static_cast<uint32_t>(-command));
        return;
    }
    const pid_t servant = fork();
    if (servant == 0)
        obey(command, streams.terminal);
    const int status = await(command);
    report(Report::over, static_cast<uint32_t>(status));
    finish(streams);
    report(Report::ended, static_cast<uint32_t>(status), input_position(streams));
}

} // namespace rox::run
