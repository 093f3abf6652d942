/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/machine.hpp"

#include "run/pointers.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <limits>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

[[noreturn]] void complain(const char *what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

/// The kernel needs file descriptors for files of the caller, and room; the command's limits are
/// kept inside.
void lift_limits()
{
    for (const auto resource : {RLIMIT_NOFILE, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA}) {
        rlimit limit{};

        getrlimit(resource, &limit);
        limit.rlim_cur = limit.rlim_max;
        setrlimit(resource, &limit);
    }
    const rlimit none{0, 0};
    setrlimit(RLIMIT_CORE, &none);
}

/// A number that is alone in a file, or the largest one.
uint64_t number_in_file(const std::string &path)
{
    std::ifstream file(path);
    uint64_t number = 0;

    return file >> number ? number : std::numeric_limits<uint64_t>::max();
}

uint64_t free_memory()
{
    std::ifstream file("/proc/meminfo");
    constexpr uint64_t kib = 1024;

    for (std::string name, unit; file >> name;) {
        uint64_t amount = 0;

        if (file >> amount && name == "MemAvailable:")
            return amount * kib;
        std::getline(file, unit);
    }
    return std::numeric_limits<uint64_t>::max();
}

/// What the cgroups of this process may use.
uint64_t cgroup_memory()
{
    std::ifstream file("/proc/self/cgroup");
    uint64_t least = std::min(number_in_file("/sys/fs/cgroup/memory.max"),
                              number_in_file("/sys/fs/cgroup/memory/memory.limit_in_bytes"));

    for (std::string line; std::getline(file, line);) {
        if (!line.starts_with("0::"))
            continue;
        for (std::string path = line.substr(3); path.size() > 1; path.erase(path.rfind('/')))
            least = std::min(least, number_in_file("/sys/fs/cgroup" + path + "/memory.max"));
    }
    return least;
}

/// What this process may ask for. (The kernel's soft limit is its hard one.)
uint64_t address_space()
{
    rlimit limit{};

    return getrlimit(RLIMIT_AS, &limit) == 0 ? limit.rlim_max : RLIM_INFINITY;
}

} // namespace

unsigned default_memory()
{
    constexpr uint64_t mib = 1 << 20, most = 2048, least = 128;
    const uint64_t all = std::min({free_memory(), cgroup_memory(), address_space()});

    return static_cast<unsigned>(std::clamp(all / 2 / mib, least, most));
}

unsigned default_cpus(unsigned possible)
{
    constexpr unsigned least = 2, most = 4;
    cpu_set_t set;

    CPU_ZERO(&set);
    sched_getaffinity(0, sizeof(set), &set);
    return std::min(std::clamp(static_cast<unsigned>(CPU_COUNT(&set)), least, most), possible);
}

Machine::Machine() = default;

std::pair<std::unique_ptr<File>, std::unique_ptr<File>> Machine::make_pair()
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        complain("socketpair");
    return {std::make_unique<File>(ends[0]), std::make_unique<File>(ends[1])};
}

std::vector<std::unique_ptr<File>> Machine::make_pipes()
{
    std::vector<std::unique_ptr<File>> theirs;

    for (int i = 0; i < first_network_pipe; i++) {
        auto [mine, other] = make_pair();

        pipes_.push_back(std::move(mine));
        theirs.push_back(std::move(other));
    }
    return theirs;
}

void Machine::start(const Program &program)
{
    int log[2];
    const pid_t parent = getpid();

    if (pipe2(log, O_CLOEXEC) != 0)
        complain("pipe");
    log_ = std::make_unique<File>(log[0]);
    const File log_end(log[1]);
    process_ = fork();
    if (process_ < 0)
        complain("fork");
    if (process_ == 0)
        become(program, log_end.get(), parent);
}

/// In the child: becomes the program, which ends when the parent does.
void Machine::become(const Program &program, int log, pid_t parent)
{
    const auto arguments = pointers(program.arguments), environment = pointers(program.environment);
    sigset_t none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(status_failed);
    // What the terminal or timeout(1) sends to the caller's job is for the command.
    setsid();
    const int nothing = open("/dev/null", O_RDWR);
    dup2(nothing, 0);
    dup2(log, 1);
    dup2(log, 2);
    for (const int fd : program.keep)
        fcntl(fd, F_SETFD, 0);
    lift_limits();
    prepare();
    for (int number = 1; number < NSIG; number++)
        signal(number, number == SIGPIPE ? SIG_IGN : SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(arguments[0], arguments.data(), environment.data());
    std::fprintf(stderr, "%s: %s\n", arguments[0], std::strerror(errno));
    _exit(status_failed);
}

Machine::~Machine()
{
    end();
}

int Machine::end()
{
    if (process_ < 0)
        return status_;
    kill(process_, SIGKILL);
    while (waitpid(process_, &status_, 0) < 0 && errno == EINTR) {
    }
    process_ = -1;
    return status_;
}

Death cause_of_death(const std::string &log, int status)
{
    constexpr std::string_view panic = "Kernel panic - not syncing: ";
    const size_t at = log.find(panic);

    if (at != log.npos) {
        const std::string reason = log.substr(at + panic.size(),
                                              log.find('\n', at) - at - panic.size());

        if (reason.find("ut of memory") != reason.npos || reason.find("on memory") != reason.npos)
            return {status_memory, "the kernel is out of memory: give it more by --memory"};
        return {status_panic, "the kernel panicked: " + reason};
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
        return {status_memory, "the kernel was killed; perhaps the host is out of memory"};
    std::string last = log.substr(0, log.find_last_not_of('\n') + 1);
    last = last.substr(last.rfind('\n') + 1);
    return {status_failed, "the kernel ended" + (last.empty() ? std::string() : ": " + last)};
}

} // namespace rox::run
