/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/tap.hpp"

#include "run/frames.hpp"
#include "run/init/host.hpp"
#include "run/init/system.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <initializer_list>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// TUN_F_USO4 and TUN_F_USO6, which older headers have not: frames of many UDP packets.
constexpr unsigned udp_offload = 0x20 | 0x40;
/// A pipe takes as much at a time.
constexpr size_t batch = 65536;

/// Gives the copying process these two files and no others, as 0 and 1.
void keep_only(int tap, int pipe)
{
    dup2(tap, 0);
    dup2(pipe, 1);
    close_range(2, ~0U, 0);
    signal(SIGPIPE, SIG_IGN);
    // It does for the network what interrupts do elsewhere.
    setpriority(PRIO_PROCESS, 0, -20);
}

/// From now on the netdev's file does not wait for frames.
void stop_waiting(int)
{
    fcntl(0, F_SETFL, O_NONBLOCK);
}

/// Reads a frame behind its length. @return the bytes of both, 0: there is none
size_t take_frame(int tap, unsigned char *at, int flags)
{
    iovec room{at + length_size, most_frame};
    ssize_t got = -1;

    do
        got = preadv2(tap, &room, 1, -1, flags);
    while (got < 0 && errno == EINTR);
    if (got <= 0)
        return 0;
    put_length(at, static_cast<size_t>(got));
    return length_size + static_cast<size_t>(got);
}

/// From the netdev to the host: what is there goes together. SIGTERM: the rest, and no more.
[[noreturn]] void send_frames(int tap, int pipe)
{
    static unsigned char buffer[batch + length_size + most_frame];
    struct sigaction action {};

    keep_only(tap, pipe);
    action.sa_handler = stop_waiting;
    sigaction(SIGTERM, &action, nullptr);
    for (;;) {
        size_t size = take_frame(0, buffer, 0);

        while (size > 0 && size < batch) {
            const size_t more = take_frame(0, buffer + size, RWF_NOWAIT);

            if (more == 0)
                break;
            size += more;
        }
        if (size == 0 || !write_all(1, buffer, size))
            _exit(0);
    }
}

/// The network has ended: the cable is pulled. The netdev stays as long as this process has it.
[[noreturn]] void go_dark()
{
    const int carrier = 0;

    ioctl(0, TUNSETCARRIER, &carrier);
    for (;;)
        pause();
}

/// From the host to the netdev.
[[noreturn]] void receive_frames(int tap, int pipe)
{
    FrameReader reader;

    keep_only(tap, pipe);
    for (;;) {
        const auto room = reader.room();
        const ssize_t got = read(1, room.data(), room.size());

        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            go_dark();
        reader.filled(static_cast<size_t>(got));
        for (auto frame = reader.next(); !frame.empty(); frame = reader.next()) {
            const auto whole = frame.subspan(length_size);

            // What it does not take is lost, as on any network.
            [[maybe_unused]] const ssize_t sent = write(0, whole.data(), whole.size());
        }
        if (reader.broken())
            go_dark();
    }
}

int open_tap(const std::string &name, bool offload)
{
    const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    ifreq request{};

    need(fd >= 0, "/dev/net/tun");
    name.copy(request.ifr_name, IFNAMSIZ - 1);
    request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | (offload ? IFF_VNET_HDR : 0));
    need(ioctl(fd, TUNSETIFF, &request) == 0, "making " + name);
    if (offload)
        need(ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6 | udp_offload) == 0,
             "offloads of " + name);
    return fd;
}

/// The processes that send.
std::vector<pid_t> senders;

/// Process 1 waits for it.
bool is_there(pid_t process)
{
    return kill(process, 0) == 0;
}

} // namespace

void add_tap(const std::string &name, int pipe, bool offload)
{
    const int tap = open_tap(name, offload), host = open_pipe(pipe);

    need(host >= 0, "a pipe to a network");
    for (const auto copy : {send_frames, receive_frames}) {
        const pid_t child = fork();

        need(child >= 0, "fork");
        if (child == 0)
            copy(tap, host);
        if (copy == send_frames)
            senders.push_back(child);
    }
    close(host);
    close(tap);
}

bool sends_frames(pid_t process)
{
    return std::find(senders.begin(), senders.end(), process) != senders.end();
}

void send_last_frames()
{
    // What ends a connection may still be with a worker of the kernel.
    constexpr std::chrono::milliseconds settling(20), moment(1);
    constexpr std::chrono::seconds patience(1);

    if (senders.empty())
        return;
    std::this_thread::sleep_for(settling);
    for (const pid_t sender : senders)
        kill(sender, SIGTERM);
    const auto until = std::chrono::steady_clock::now() + patience;
    while (std::any_of(senders.begin(), senders.end(), is_there) &&
           std::chrono::steady_clock::now() < until)
        std::this_thread::sleep_for(moment);
}

} // namespace rox::run
