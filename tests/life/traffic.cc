// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Traffic with every byte checked, for tests that take something away beneath it.
///
///     traffic once [OPTIONS] DEVICE DEVICE      both ends in this process
///     traffic serve [OPTIONS] DEVICE SOCKET     one end; SOCKET is a path to meet the other at
///     traffic connect [OPTIONS] DEVICE SOCKET
///
/// Options: -m N messages each way (else for ever), -e sleep on completion events,
/// -t N local ACK timeout, -r N retries, -a ADDRESS the GID to use, -c FILE keeps the number of
/// messages that are through, -w N waits N milliseconds between one round
/// of sending and polling and the next, -q N connections side by side (not with "once"). On
/// SIGTERM, which both ends have to get, it sends no more and waits until all is through. It prints
/// "running" once something has gone through, and at the end one line that says why. Exit status: 0
/// all done, 3 connection lost, 4 device removed (told by IBV_EVENT_DEVICE_FATAL), 5 nothing came
/// any more, 1 anything else.

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "stream.h"

namespace {

using life::Address;
using life::Endpoint;
using life::State;
using life::Stream;
using life::Trouble;

constexpr int kMeetingSeconds = 20;

volatile std::sig_atomic_t stop_asked;

struct Arguments {
    life::Options options;
    std::uint64_t messages = 0;
    useconds_t pause = 0; ///< microseconds
    std::size_t connections = 1;
    std::string counter; ///< file, or empty
    std::string_view mode;
    std::string device;
    std::string other; ///< device or socket
};

int usage()
{
    std::cerr << "usage: traffic once|serve|connect [-m messages] [-6] [-e] [-t timeout] "
                 "[-r retries] [-a address] [-c file] [-w millis] [-q connections] DEVICE "
                 "DEVICE|SOCKET\n";
    return 1;
}

bool parse(int argc, char **argv, Arguments &arguments)
{
    int option = 0;

    if (argc < 2)
        return false;
    arguments.mode = argv[1];
    optind = 2;
    while ((option = getopt(argc, argv, "m:6et:r:a:c:w:q:")) != -1) {
        switch (option) {
        case 'm': arguments.messages = std::strtoull(optarg, nullptr, 10); break;
        case '6': arguments.options.v6 = true; break;
        case 'e': arguments.options.events = true; break;
        case 't': arguments.options.timeout = std::atoi(optarg); break;
        case 'r': arguments.options.retries = std::atoi(optarg); break;
        case 'a': arguments.options.address = optarg; break;
        case 'c': arguments.counter = optarg; break;
        case 'w': arguments.pause = std::strtoul(optarg, nullptr, 10) * 1000; break;
        case 'q': arguments.connections = std::strtoul(optarg, nullptr, 10); break;
        default: return false;
        }
    }
    if (argc - optind != 2 || !arguments.connections)
        return false;
    arguments.device = argv[optind];
    arguments.other = argv[optind + 1];
    return true;
}

int exit_status(State state)
{
    switch (state) {
    case State::Done: return 0;
    case State::Lost: return 3;
    case State::Gone: return 4;
    case State::Stalled: return 5;
    default: return 1;
    }
}

int report(const Stream &stream, State state)
{
    std::cout << life::name_of(state) << ": " << stream.reason() << " after " << stream.completed()
              << " messages" << std::endl;
    return exit_status(state);
}

int run_once(const Arguments &arguments)
{
    life::Options left = arguments.options, right = arguments.options;

    left.events = right.events = false; // one thread cannot sleep for both
    left.device = arguments.device;
    right.device = arguments.other;
    Endpoint a(left), b(right);
    a.connect(b.address());
    b.connect(a.address());
    Stream streams[] = {{a, arguments.messages}, {b, arguments.messages}};
    State states[] = {State::Running, State::Running};

    for (;;) {
        for (int i = 0; i < 2; i++) {
            if (states[i] == State::Running)
                states[i] = streams[i].step();
            if (states[i] != State::Running && states[i] != State::Done)
                return report(streams[i], states[i]);
        }
        if (states[0] == State::Done && states[1] == State::Done)
            return report(streams[0], State::Done);
        streams[0].wait();
    }
}

/// A connected socket at which both ends tell each other what they need to know.
class Meeting {
public:
    Meeting(const std::string &path, bool serve)
    {
        sockaddr_un name{};

        name.sun_family = AF_UNIX;
        path.copy(name.sun_path, sizeof(name.sun_path) - 1);
        fd_ = serve ? accepted(name) : connected(name);
        timeval limit{kMeetingSeconds, 0};
        setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    }
    Meeting(const Meeting &) = delete;
    Meeting &operator=(const Meeting &) = delete;
    ~Meeting() { close(fd_); }

    template <typename T>
    T exchange(const T &mine)
    {
        T theirs{};

        if (send(fd_, &mine, sizeof(mine), MSG_NOSIGNAL) != sizeof(mine) ||
            recv(fd_, &theirs, sizeof(theirs), MSG_WAITALL) != sizeof(theirs))
            throw Trouble{"the other end is not there", errno};
        return theirs;
    }

private:
    static int connected(const sockaddr_un &name)
    {
        for (int tries = 0; tries < kMeetingSeconds * 50; tries++) {
            int fd = socket(AF_UNIX, SOCK_STREAM, 0);

            if (!::connect(fd, reinterpret_cast<const sockaddr *>(&name), sizeof(name)))
                return fd;
            close(fd);
            usleep(20000);
        }
        throw Trouble{"no one at the socket", ECONNREFUSED};
    }

    static int accepted(const sockaddr_un &name)
    {
        int listener = socket(AF_UNIX, SOCK_STREAM, 0);
        timeval limit{kMeetingSeconds, 0};

        setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
        unlink(name.sun_path);
        if (bind(listener, reinterpret_cast<const sockaddr *>(&name), sizeof(name)) ||
            listen(listener, 1))
            throw Trouble{"bind", errno};
        int fd = accept(listener, nullptr, nullptr);
        int error = errno;

        close(listener);
        unlink(name.sun_path);
        if (fd < 0)
            throw Trouble{"accept", error};
        return fd;
    }

    int fd_ = -1;
};

/// A number in a file that others may look at.
class Counter {
public:
    explicit Counter(const std::string &path)
    {
        if (path.empty())
            return;
        fd_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd_ < 0)
            throw Trouble{"the file " + path, errno};
        set(0);
    }
    Counter(const Counter &) = delete;
    Counter &operator=(const Counter &) = delete;
    ~Counter()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    /// Always in the same number of digits, in one piece.
    void set(std::uint64_t value)
    {
        char text[24];

        if (fd_ < 0)
            return;
        int length = std::snprintf(text, sizeof(text), "%020" PRIu64 "\n", value);
        if (pwrite(fd_, text, static_cast<std::size_t>(length), 0) != length)
            throw Trouble{"the counter's file", errno};
    }

private:
    int fd_ = -1;
};

/// An end of one connection, and where it has come to.
struct Line {
    explicit Line(const Arguments &arguments) : endpoint(with_device(arguments)) {}

    static life::Options with_device(const Arguments &arguments)
    {
        life::Options options = arguments.options;
        options.device = arguments.device;
        return options;
    }

    Endpoint endpoint;
    std::unique_ptr<Stream> stream;
    State state = State::Running;
};

/// The ends of all connections in this process.
class Lines {
public:
    Lines(const Arguments &arguments, Meeting &meeting)
    {
        for (std::size_t i = 0; i < arguments.connections; i++) {
            Line &line = *lines_.emplace_back(std::make_unique<Line>(arguments));
            line.endpoint.connect(meeting.exchange(line.endpoint.address()));
        }
        meeting.exchange('r');
        for (auto &line : lines_)
            line->stream = std::make_unique<Stream>(line->endpoint, arguments.messages);
    }

    /// Running while one of them runs, else done; or how the first one failed.
    State step()
    {
        State all = State::Done;

        for (auto &line : lines_) {
            if (line->state == State::Running)
                line->state = line->stream->step();
            if (line->state == State::Running)
                all = State::Running;
            else if (line->state != State::Done)
                return (told_ = line.get())->state;
        }
        return all;
    }
    void stop(Meeting &meeting)
    {
        for (auto &line : lines_)
            line->stream->expect(meeting.exchange(line->stream->stop()));
    }
    /// For one that has nothing to do the others must not wait long.
    void wait()
    {
        for (auto &line : lines_)
            if (line->state == State::Running)
                line->stream->wait(lines_.size() == 1 ? 200 : 1);
    }
    std::uint64_t completed() const
    {
        std::uint64_t sum = 0;
        for (const auto &line : lines_)
            sum += line->stream->completed();
        return sum;
    }
    /// Has something gone through all of them?
    bool all_run() const
    {
        return std::all_of(lines_.begin(), lines_.end(), [](const auto &line) {
            return line->stream->completed() > life::layout::kSlots;
        });
    }
    /// The one that failed, or any.
    const Stream &told() const { return *(told_ ? told_ : lines_.front().get())->stream; }

private:
    std::vector<std::unique_ptr<Line>> lines_;
    Line *told_ = nullptr;
};

int run_end(const Arguments &arguments, bool serve)
{
    Meeting meeting(arguments.other, serve);
    Lines lines(arguments, meeting);
    Counter counter(arguments.counter);
    bool running = false;
    bool stopped = false;
    State state = State::Running;

    while ((state = lines.step()) == State::Running) {
        counter.set(lines.completed());
        if (!running && lines.all_run()) {
            std::cout << "running" << std::endl;
            running = true;
        }
        if (stop_asked && !stopped) {
            lines.stop(meeting);
            stopped = true;
        }
        lines.wait();
        if (arguments.pause)
            usleep(arguments.pause);
    }
    if (state == State::Done)
        meeting.exchange('d');
    return report(lines.told(), state);
}

int run(const Arguments &arguments)
{
    if (arguments.mode == "once")
        return run_once(arguments);
    if (arguments.mode == "serve" || arguments.mode == "connect")
        return run_end(arguments, arguments.mode == "serve");
    return usage();
}

} // namespace

int main(int argc, char **argv)
{
    Arguments arguments;

    std::signal(SIGTERM, [](int) { stop_asked = 1; });
    if (!parse(argc, argv, arguments))
        return usage();
    try {
        return run(arguments);
    } catch (const Trouble &trouble) {
        std::cout << "trouble: " << trouble.what << ": " << std::strerror(trouble.error)
                  << std::endl;
        return 1;
    }
}
