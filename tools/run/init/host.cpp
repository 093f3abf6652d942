/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/host.hpp"

#include "run/init/system.hpp"
#include "run/mux.hpp"

#include <array>
#include <csignal>

#include <dirent.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// As many as a job can need: those of the command, a network of several, a way out.
constexpr size_t most_pipes = first_network_pipe + 2;
/// This side's ends of what the serial port carries; of User Mode Linux none.
std::array<int, most_pipes> ends;
bool is_virtual = false;

constexpr timespec pause_time{0, 1'000'000};

/// The serial port of virtio, which may come some time after its module.
int open_port()
{
    constexpr int times = 10000;

    for (int i = 0; i < times; i++) {
        DIR *const folder = opendir("/dev");

        while (const dirent *const entry = folder != nullptr ? readdir(folder) : nullptr) {
            const std::string name = entry->d_name;

            if (!name.starts_with("vport"))
                continue;
            closedir(folder);
            return open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC);
        }
        if (folder != nullptr)
            closedir(folder);
        nanosleep(&pause_time, nullptr);
    }
    return -1;
}

/// Until the host is at its other end, the port seems to have been hung up.
void await_host(int port)
{
    for (pollfd entry{port, POLLIN, 0}; poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0;)
        nanosleep(&pause_time, nullptr);
}

/// Carries the pipes until rox-run goes. Children that others have left end without a trace.
[[noreturn]] void carry(int port, const std::array<int, most_pipes> &others)
{
    signal(SIGCHLD, SIG_IGN);
    signal(SIGPIPE, SIG_IGN);
    await_host(port);
    Mux(port, {others.begin(), others.end()}).run();
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}

bool mount_9p(const std::string &tag, const std::string &place, unsigned long flags,
              const char *cache)
{
    const std::string options = std::string("trans=virtio,version=9p2000.L,msize=262144,access=any,"
                                            "cache=") +
                                cache;

    return mount(tag.c_str(), place.c_str(), "9p", flags, options.c_str()) == 0;
}

} // namespace

void reach_host()
{
    std::array<int, most_pipes> others{};

    if (access("/dev/hostpipe0", F_OK) == 0)
        return;
    is_virtual = true;
    for (size_t i = 0; i < most_pipes; i++) {
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
            return;
        ends[i] = pair[0];
        others[i] = pair[1];
    }
    const int port = open_port();
    const pid_t child = fork();
    if (child != 0) {
        for (const int end : ends)
            close(end);
        carry(port, others);
    }
    close(port);
    for (const int end : others)
        close(end);
}

int open_pipe(int number)
{
    const std::string path = "/dev/hostpipe" + std::to_string(number);

    if (is_virtual)
        return fcntl(ends[static_cast<size_t>(number)], F_DUPFD_CLOEXEC, 0);
    return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

void settle_output()
{
    for (const int pipe : {output_pipe, error_pipe}) {
        int left = 0;

        while (is_virtual && ioctl(ends[static_cast<size_t>(pipe)], SIOCOUTQ, &left) == 0 &&
               left > 0) {
            pollfd entry{ends[static_cast<size_t>(pipe)], 0, 0};

            if (poll(&entry, 1, 1) > 0)
                break; // nobody reads it any more
        }
    }
}

bool mount_host(const std::string &place)
{
    if (is_virtual)
        return mount_9p(root_tag, place, MS_RDONLY, "loose");
    return mount("hostfs", place.c_str(), "hostfs", MS_RDONLY, "/") == 0;
}

bool mount_writable(size_t index, const std::string &folder)
{
    if (is_virtual)
        return mount_9p(writable_tag(index), folder, 0, "mmap");
    return mount("hostfs", folder.c_str(), "hostfs", 0, folder.c_str()) == 0;
}

} // namespace rox::run
