/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/streams.hpp"

#include "run/init/host.hpp"
#include "run/init/system.hpp"
#include "run/init/world.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

namespace rox::run {
namespace {

constexpr size_t chunk = 65536;

/// Copies until the source ends or the target wants no more.
[[noreturn]] void copy(int from, int to)
{
    static char buffer[chunk];

    signal(SIGPIPE, SIG_IGN);
    dup2(from, 0);
    dup2(to, 1);
    close_range(2, ~0U, 0);
    for (;;) {
        const ssize_t got = read(0, buffer, sizeof(buffer));

        if (got < 0 && errno == EINTR)
            continue;
        // The end of a terminal, after its last user, is EIO.
        if (got <= 0 || !write_all(1, buffer, static_cast<size_t>(got)))
            _exit(0);
    }
}

pid_t start_copy(int from, int to)
{
    const pid_t child = fork();

    need(child >= 0, "fork");
    if (child == 0)
        copy(from, to);
    return child;
}

int open_host_pipe(int number)
{
    const int fd = open_pipe(number);

    need(fd >= 0, "a pipe to rox-run");
    return fd;
}

void make_pipe(int (&ends)[2])
{
    need(pipe2(ends, O_CLOEXEC) == 0, "a pipe");
    fcntl(ends[0], F_SETPIPE_SZ, chunk * 2);
}

/// A pipe whose other end rox-run reads.
int output(Streams &streams, int number)
{
    const int host = open_host_pipe(number);
    int ends[2];

    make_pipe(ends);
    streams.outputs.push_back(start_copy(ends[0], host));
    close(ends[0]);
    close(host);
    return ends[1];
}

int input(Streams &streams)
{
    const int host = open_host_pipe(input_pipe);
    int ends[2];

    make_pipe(ends);
    streams.input = start_copy(host, ends[1]);
    close(ends[1]);
    close(host);
    return ends[0];
}

/// The terminal's settings, which the job has as hexadecimal digits.
termios settings_of(const std::string &digits)
{
    termios settings{};
    auto *bytes = reinterpret_cast<unsigned char *>(&settings);

    for (size_t i = 0; i < sizeof(settings) && 2 * i + 1 < digits.size(); i++)
        bytes[i] = static_cast<unsigned char>(
            std::strtoul(digits.substr(2 * i, 2).c_str(), nullptr, 16));
    return settings;
}

/// Makes the terminal that stands for rox-run's own one. @return the command's end
int open_terminal(const Job &job, Streams &streams)
{
    const termios settings = settings_of(job.termios);
    const winsize size{job.rows, job.columns, 0, 0};
    const int master = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    const int unlocked = 0;

    need(master >= 0 && ioctl(master, TIOCSPTLCK, &unlocked) == 0, "/dev/ptmx");
    const int slave = ioctl(master, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    need(slave >= 0, "a terminal");
    tcsetattr(slave, TCSANOW, &settings);
    ioctl(slave, TIOCSWINSZ, &size);
    need(fchown(slave, job.uid, job.gid) == 0, "a terminal");
    if (job.streams[0] == Stream::terminal) {
        const int host = open_host_pipe(input_pipe);

        streams.input = start_copy(host, master);
        close(host);
    }
    const bool on_output = job.streams[1] == Stream::terminal,
               on_error = job.streams[2] == Stream::terminal;
    const int host = on_output  ? open_host_pipe(output_pipe)
                     : on_error ? open_host_pipe(error_pipe)
                                : open("/dev/null", O_WRONLY | O_CLOEXEC);
    streams.outputs.push_back(start_copy(master, host));
    close(host);
    streams.terminal = master;
    return slave;
}

int open_input_file(const Job &job)
{
    const int fd = open((host_root + job.input_file).c_str(), O_RDONLY | O_CLOEXEC);

    need(fd >= 0 && lseek(fd, static_cast<off_t>(job.input_offset), SEEK_SET) >= 0, job.input_file);
    return fd;
}

} // namespace

Streams open_streams(const Job &job)
{
    Streams streams;
    int terminal = -1;

    for (size_t i = 0; i < streams.command.size(); i++) {
        int &fd = streams.command[i];

        switch (job.streams[i]) {
        case Stream::terminal:
            if (terminal < 0)
                terminal = open_terminal(job, streams);
            fd = terminal;
            break;
        case Stream::pipe:
            fd = i == 0 ? input(streams) : output(streams, static_cast<int>(i) + input_pipe);
            break;
        case Stream::file:
            fd = open_input_file(job);
            streams.input_is_file = true;
            break;
        case Stream::output: fd = streams.command[1]; break;
        case Stream::closed: break;
        }
        // So that the command may open /dev/stdout.
        if (fd >= 0 && job.streams[i] == Stream::pipe)
            need(fchown(fd, job.uid, job.gid) == 0, "a pipe");
    }
    return streams;
}

uint64_t input_position(const Streams &streams)
{
    const off_t place = streams.input_is_file ? lseek(streams.command[0], 0, SEEK_CUR) : 0;

    return place < 0 ? 0 : static_cast<uint64_t>(place);
}

} // namespace rox::run
