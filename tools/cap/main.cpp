/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-cap: captures what queue pairs of one device say to each other without a wire. */
#include "cap/capture.hpp"
#include "cap/netdev.hpp"
#include "lib/program.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace {

using namespace rox;
using namespace rox::cap;

struct Arguments {
    std::string file = "-", netdev;
    uint64_t count = 0;
    uint32_t snap = most_snap;
    int megabytes = 32;
    bool once = false, quiet = false;
};

void declare(CLI::App &app, Arguments &arguments)
{
    constexpr int most_megabytes = 1024;

    app.add_option("-w,--write", arguments.file,
                   "the file for the packets, as pcap; -: stdout (default)");
    app.add_option("-c,--count", arguments.count, "end after so many packets")
        ->check(CLI::Range(uint64_t{1}, UINT64_MAX));
    app.add_flag("-1,--once", arguments.once, "end after one packet");
    app.add_option("-s,--snaplen", arguments.snap,
                   "bytes of each packet that are copied (4224: all)")
        ->check(CLI::Range(least_snap, most_snap));
    app.add_option("-B,--buffer", arguments.megabytes,
                   "MiB of packets that may wait to be written (32)")
        ->check(CLI::Range(1, most_megabytes));
    app.add_option("-i,--netdev", arguments.netdev,
                   "name of the netdev that it makes (roxcap0, ...)")
        ->check([](const std::string &name) {
            return name.empty() || name.size() > 15 ? "1 to 15 characters" : "";
        });
    app.add_flag("-q,--quiet", arguments.quiet, "do not say how many packets there were");
    app.footer("rox-cap -w - | tshark -r -\n"
               "What goes through a netdev is no part of it: tcpdump -i eth0 udp port 4791");
}

[[noreturn]] void fail(const std::string &what)
{
    throw std::system_error(errno, std::generic_category(), what);
}

int open_output(const std::string &name)
{
    constexpr mode_t mode = 0666;

    if (name == "-") {
        if (isatty(STDOUT_FILENO) != 0)
            throw std::runtime_error("the packets would go to a terminal: name a file by -w, or a "
                                     "program behind | that reads pcap");
        return STDOUT_FILENO;
    }
    const int fd = open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    if (fd < 0)
        fail(name);
    return fd;
}

/* From now on these signals are read from the file. A reader that goes away is an error of write().
 */
int open_signals()
{
    sigset_t signals;

    sigemptyset(&signals);
    for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT})
        sigaddset(&signals, number);
    std::signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &signals, nullptr) != 0)
        fail("sigprocmask");
    const int fd = signalfd(-1, &signals, SFD_CLOEXEC);
    if (fd < 0)
        fail("signalfd");
    return fd;
}

/// Packets on their way to the file.
class Output {
public:
    explicit Output(int fd) : fd_(fd) {}

    std::vector<std::byte> &buffer() { return buffer_; }
    /// False if nobody reads any more.
    bool flush();

private:
    int fd_;
    std::vector<std::byte> buffer_;
};

bool Output::flush()
{
    for (size_t at = 0; at < buffer_.size();) {
        const auto done = write(fd_, buffer_.data() + at, buffer_.size() - at);

        if (done < 0 && errno == EPIPE)
            return false;
        if (done < 0 && errno != EINTR)
            fail("writing the packets");
        at += done > 0 ? static_cast<size_t>(done) : 0;
    }
    buffer_.clear();
    return true;
}

/// What is captured: from a socket to an output.
struct Capture {
    PacketSocket &socket;
    Output &output;
    uint64_t left; ///< packets until the end
    uint64_t seen = 0;

    /// Writes what waits, or a part of it if that is much. False at the end.
    bool drain();
};

bool Capture::drain()
{
    constexpr size_t enough = 1 << 20;

    while (left > 0) {
        const auto packet = output.buffer().size() < enough ? socket.next() : std::nullopt;

        if (!packet)
            return output.flush();
        const auto length = roce_length(packet->bytes);
        if (!length)
            continue;
        put_packet(output.buffer(), packet->time, packet->bytes, *length);
        left--;
        seen++;
    }
    output.flush();
    return false;
}

/* Until a signal, the last packet, or the end of who reads the output. */
void run_capture(Capture &capture, int signals, int output)
{
    std::array<pollfd, 3> files{{{.fd = signals, .events = POLLIN, .revents = 0},
                                 {.fd = capture.socket.get(), .events = POLLIN, .revents = 0},
                                 {.fd = output, .events = 0, .revents = 0}}};

    for (;;) {
        if (poll(files.data(), files.size(), -1) < 0 && errno != EINTR)
            fail("poll");
        if (files[1].revents != 0 && !capture.drain())
            return;
        if (files[0].revents != 0 || (files[2].revents & (POLLERR | POLLHUP)) != 0)
            return;
    }
}

int capture(const Arguments &arguments)
{
    constexpr int megabyte = 1 << 20;
    const File file(open_output(arguments.file));
    const File signals(open_signals());
    const Netdev netdev(arguments.netdev, arguments.snap);
    PacketSocket socket(netdev.index(), arguments.megabytes * megabyte);
    Output output(file.get());
    const uint64_t most = arguments.count != 0 ? arguments.count : UINT64_MAX;
    Capture capture{.socket = socket, .output = output, .left = arguments.once ? 1 : most};

    put_file_header(output.buffer(), most_snap);
    if (!output.flush())
        return 0;
    if (!arguments.quiet)
        fmt::print(stderr, "rox-cap: capturing by {}\n", netdev.name());
    run_capture(capture, signals.get(), file.get());
    if (!arguments.quiet)
        fmt::print(stderr, "rox-cap: {} packets, {} lost\n", capture.seen,
                   socket.lost() + netdev.dropped());
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    constexpr int failure_status = 1;
    constexpr rox::Program program{
        .name = "rox-cap",
        .description =
            "Captures what queue pairs of one device say to each other without a wire, as pcap.",
        .failure_status = failure_status};

    return rox::run_program<Arguments>(program, argc, argv, declare, capture);
}
