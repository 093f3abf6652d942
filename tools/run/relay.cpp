/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/relay.hpp"

#include "lib/file.hpp"
#include "run/messages.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t chunk = 65536;
/// How often a job in the background looks whether it is in the foreground again.
constexpr std::chrono::milliseconds background_pause(100);
/// How much of the kernel's log is looked at after its end.
constexpr size_t log_tail = 65536;

/// The signals that are passed on, without those that the caller ignores.
sigset_t held_signals()
{
    sigset_t set;

    sigemptyset(&set);
    for (const int number : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT,
                             SIGTSTP, SIGWINCH}) {
        struct sigaction action {};

        if (sigaction(number, nullptr, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, number);
    }
    return set;
}

/// What kept the output's threads, which may outlive all else, from writing: errno by file
/// descriptor.
std::array<std::atomic<int>, 3> write_errors;

/// Stops this process as Ctrl-Z does it. It goes on at once if nobody could continue it: if the job
/// is orphaned, or process 1.
void stop_oneself()
{
    struct sigaction usual {
    }, before{};
    sigset_t set, mask;

    usual.sa_handler = SIG_DFL;
    sigemptyset(&set);
    sigaddset(&set, SIGTSTP);
    sigaction(SIGTSTP, &usual, &before);
    pthread_sigmask(SIG_UNBLOCK, &set, &mask);
    raise(SIGTSTP);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    sigaction(SIGTSTP, &before, nullptr);
}

/// Whether a signal wants a program to end.
bool is_end(uint32_t number)
{
    return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT;
}

/// The exit status for what wait() has.
int exit_status(int status)
{
    return WIFSIGNALED(status) ? status_signal + WTERMSIG(status) : WEXITSTATUS(status);
}

bool wait_for(int fd, short events)
{
    pollfd entry{fd, events, 0};

    return poll(&entry, 1, -1) > 0;
}

/// @return false with errno set, EPIPE if nobody reads any more
bool write_all(int fd, const char *at, size_t size)
{
    while (size > 0) {
        const ssize_t sent = write(fd, at, size);

        if (sent < 0) {
            if (errno == EAGAIN)
                wait_for(fd, POLLOUT);
            else if (errno != EINTR)
                return false;
            continue;
        }
        at += sent;
        size -= static_cast<size_t>(sent);
    }
    return true;
}

ssize_t read_some(int fd, char *buffer, size_t size)
{
    for (;;) {
        const ssize_t got = read(fd, buffer, size);

        if (got >= 0 || (errno != EINTR && errno != EAGAIN))
            return got;
        wait_for(fd, POLLIN);
    }
}

/// In a thread: what the caller has for the command.
void send_input(int to, bool is_terminal, bool raw)
{
    static char buffer[chunk];
    constexpr char end_of_file = 4;
    sigset_t background;

    // Who reads in the background gets an error then, and is not stopped.
    sigemptyset(&background);
    sigaddset(&background, SIGTTIN);
    pthread_sigmask(SIG_BLOCK, &background, nullptr);
    for (;;) {
        if (is_terminal && (!wait_for(0, POLLIN) || in_background())) {
            std::this_thread::sleep_for(background_pause);
            continue;
        }
        const ssize_t got = read_some(0, buffer, sizeof(buffer));

        if (got < 0 && is_terminal && in_background())
            continue;
        if (got == 0 && is_terminal && !raw && write_all(to, &end_of_file, 1))
            continue;
        if (got <= 0 || !write_all(to, buffer, static_cast<size_t>(got)))
            break;
    }
    shutdown(to, SHUT_WR);
}

/// In a thread: what the command writes.
void send_output(int from, int to)
{
    std::array<char, chunk> buffer;

    for (;;) {
        const ssize_t got = read_some(from, buffer.data(), buffer.size());

        if (got <= 0)
            return;
        if (!write_all(to, buffer.data(), static_cast<size_t>(got))) {
            if (errno != EPIPE)
                write_errors[static_cast<size_t>(to)] = errno;
            // The command is told when it writes the next time.
            shutdown(from, SHUT_RDWR);
            return;
        }
    }
}

/// The conversation with one machine.
class Relay {
public:
    Relay(Machine &machine, const Job &job, Terminal &terminal, const RelayOptions &options)
        : machine_(machine), job_(job), terminal_(terminal), options_(options),
          done_(eventfd(0, EFD_CLOEXEC))
    {
        const sigset_t set = held_signals();

        signals_ = std::make_unique<File>(signalfd(-1, &set, SFD_CLOEXEC));
        if (!options.kernel_log.empty()) {
            log_file_ = std::make_unique<File>(
                open(options.kernel_log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
            if (!log_file_->ok())
                throw std::system_error(errno, std::generic_category(), options.kernel_log);
        }
    }
    Relay(const Relay &) = delete;
    Relay &operator=(const Relay &) = delete;
    ~Relay() = default;

    int run()
    {
        send_job();
        std::thread output([this] { carry_output(); });
        int status = converse();
        take_log();
        machine_.end();
        if (!output_wanted_.value_or(true))
            output.detach();
        else if (!finish_output())
            output.detach();
        else
            output.join();
        terminal_.leave();
        return with_output(status);
    }

private:
    void send_job()
    {
        const std::string text = encode(job_);
        const auto size = static_cast<uint32_t>(text.size());

        // It may not fit into the pipe at once, and the kernel may be dead.
        std::thread([fd = machine_.pipe(control_pipe), text, size] {
            write_all(fd, reinterpret_cast<const char *>(&size), sizeof(size)) &&
                write_all(fd, text.data(), text.size());
        }).detach();
    }

    void start_input()
    {
        const bool is_terminal = job_.streams[0] == Stream::terminal;

        if (is_terminal || job_.streams[0] == Stream::pipe)
            std::thread(send_input, machine_.pipe(input_pipe), is_terminal, terminal_.wanted())
                .detach();
    }

    void carry_output()
    {
        std::thread error(send_output, machine_.pipe(error_pipe), 2);

        send_output(machine_.pipe(output_pipe), 1);
        error.join();
        const uint64_t one = 1;
        [[maybe_unused]] const ssize_t told = write(done_.get(), &one, sizeof(one));
    }

    /// Waits until all that the command has written is with the caller. @return false if a signal
    /// ends that
    bool finish_output()
    {
        for (;;) {
            pollfd entries[] = {{done_.get(), POLLIN, 0}, {signals_->get(), POLLIN, 0}};

            if (poll(entries, 2, -1) < 0 && errno != EINTR)
                return false;
            if (entries[0].revents != 0)
                return true;
            if (entries[1].revents == 0)
                continue;
            signalfd_siginfo info{};
            if (read(signals_->get(), &info, sizeof(info)) == sizeof(info) &&
                info.ssi_signo != SIGWINCH && info.ssi_signo != SIGCONT)
                return false;
        }
    }

    /// The status, or that of a failure if the caller has not got all that a command without one
    /// has written.
    int with_output(int status)
    {
        for (const size_t fd : {1, 2}) {
            const int error = write_errors[fd];

            if (error == 0)
                continue;
            complain(
                fmt::format("standard {}: {}", fd == 1 ? "output" : "error", std::strerror(error)));
            status = status == 0 ? status_failed : status;
        }
        return status;
    }

    int converse()
    {
        std::optional<int> status;

        while (!status) {
            if (started_)
                terminal_.enter();
            pollfd entries[] = {{signals_->get(), POLLIN, 0},
                                {machine_.pipe(control_pipe), POLLIN, 0},
                                {machine_.log(), POLLIN, 0}};

            if (poll(entries, std::size(entries), pause()) < 0 && errno != EINTR)
                throw std::system_error(errno, std::generic_category(), "poll");
            if (entries[2].revents != 0)
                take_log();
            if (entries[0].revents != 0)
                status = take_signal();
            if (!status && entries[1].revents != 0)
                status = take_report();
            else if (!status && remaining() == 0)
                status = give_up();
        }
        return *status;
    }

    /// Milliseconds until the time limit; -1: there is none.
    int remaining() const
    {
        if (options_.timeout <= 0)
            return -1;
        const double left = options_.timeout - seconds();

        return static_cast<int>(std::clamp(left * 1000, 0., 1e9));
    }

    /// The same, but nobody tells a job that it is in the foreground again if it has run in the
    /// background.
    int pause() const
    {
        constexpr int most = background_pause.count();
        const int left = remaining();

        if (!started_ || !terminal_.wanted() || terminal_.entered())
            return left;
        return left < 0 ? most : std::min(left, most);
    }

    double seconds() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }

    int give_up()
    {
        output_wanted_ = false;
        complain(fmt::format("the time limit of {} s is over", options_.timeout));
        return status_timeout;
    }

    void complain(const std::string &text)
    {
        terminal_.leave();
        print_line(text);
    }

    void say(const std::string &text) const
    {
        if (options_.verbose)
            print_line(
                fmt::format("{:.2f} s: {}{}", seconds(), text, terminal_.wanted() ? "\r" : ""));
    }

    void take_log()
    {
        char buffer[4096];
        pollfd entry{machine_.log(), POLLIN, 0};

        while (poll(&entry, 1, 0) > 0) {
            const ssize_t got = read(machine_.log(), buffer, sizeof(buffer));

            if (got <= 0)
                return;
            if (log_file_)
                write_all(log_file_->get(), buffer, static_cast<size_t>(got));
            log_.append(buffer, static_cast<size_t>(got));
            if (log_.size() > 2 * log_tail)
                log_.erase(0, log_.size() - log_tail);
        }
    }

    void order(Order::Kind kind, uint32_t first = 0, uint32_t second = 0)
    {
        const Order message{kind, first, second};

        if (started_)
            write_all(machine_.pipe(control_pipe), reinterpret_cast<const char *>(&message),
                      sizeof(message));
    }

    std::optional<int> take_signal()
    {
        signalfd_siginfo info{};

        if (read(signals_->get(), &info, sizeof(info)) != sizeof(info))
            return {};
        if (info.ssi_signo == SIGCONT)
            terminal_.renew();
        if (info.ssi_signo == SIGWINCH && !job_.termios.empty())
            send_window();
        else if ((!started_ || over_) && info.ssi_signo == SIGTSTP)
            stop_here();
        else if (!started_ && info.ssi_signo != SIGWINCH && info.ssi_signo != SIGCONT)
            die_of(static_cast<int>(info.ssi_signo));
        else if (over_ && is_end(info.ssi_signo))
            return leave_output();
        else
            // What the terminal sends (Ctrl-C) is for the whole job, what a process sends is for
            // the command.
            order(Order::signal, info.ssi_signo, info.ssi_code == SI_KERNEL ? 1 : 0);
        return {};
    }

    /// Only output is left, which does not go on or is not wanted.
    int leave_output()
    {
        output_wanted_ = false;
        return *over_;
    }

    /// There is no command yet that could get it.
    void die_of(int number)
    {
        sigset_t set;

        terminal_.leave();
        machine_.end();
        sigemptyset(&set);
        sigaddset(&set, number);
        signal(number, SIG_DFL);
        raise(number);
        sigprocmask(SIG_UNBLOCK, &set, nullptr);
    }

    void send_window()
    {
        winsize size{};

        if (ioctl(job_.streams[0] == Stream::terminal ? 0 : 1, TIOCGWINSZ, &size) == 0)
            order(Order::window, size.ws_row, size.ws_col);
    }

    /// converse() enters the terminal again when that is possible.
    void stop_here()
    {
        terminal_.leave();
        say("stopped");
        stop_oneself();
    }

    /// The command has been stopped, so this job stops, too.
    void stop()
    {
        stop_here();
        terminal_.enter();
        send_window();
        order(Order::resume);
    }

    std::optional<int> take_report()
    {
        Report report{};

        if (recv(machine_.pipe(control_pipe), &report, sizeof(report), MSG_WAITALL) !=
            sizeof(report))
            return died();
        switch (report.kind) {
        case Report::started:
            say(fmt::format("{} starts", job_.arguments[0]));
            started_ = true;
            // Until here Ctrl-C is a signal that ends this.
            terminal_.enter();
            start_input();
            send_window();
            return {};
        case Report::stopped: stop(); return {};
        case Report::missing:
            complain(fmt::format("'{}': {}", job_.arguments[0],
                                 std::strerror(static_cast<int>(report.value))));
            return report.value == ENOENT ? status_not_found : status_not_executable;
        case Report::failed: return failed(report.value);
        case Report::over: over_ = exit_status(static_cast<int>(report.value)); return {};
        case Report::ended: break;
        }
        return ended(static_cast<int>(report.value), report.offset);
    }

    int ended(int status, uint64_t offset)
    {
        if (job_.streams[0] == Stream::file)
            lseek(0, static_cast<off_t>(offset), SEEK_SET);
        const int result = exit_status(status);
        say(fmt::format("it ended with status {}", result));
        return result;
    }

    int failed(size_t size)
    {
        std::string text(size, '\0');

        recv(machine_.pipe(control_pipe), text.data(), size, MSG_WAITALL);
        complain(text);
        return status_failed;
    }

    int died()
    {
        int status = 0;

        // It ends by itself now; its last words are in the log.
        for (int i = 0; i < 100; i++) {
            pollfd entry{machine_.log(), POLLIN, 0};

            poll(&entry, 1, 10);
            take_log();
            if ((entry.revents & POLLHUP) != 0)
                break;
        }
        status = machine_.end();
        take_log();
        const Death death = cause_of_death(log_, status);
        complain(death.reason);
        return death.status;
    }

    Machine &machine_;
    const Job &job_;
    Terminal &terminal_;
    const RelayOptions &options_;
    const Clock::time_point began_ = Clock::now();
    File done_;
    std::unique_ptr<File> signals_, log_file_;
    std::string log_;
    bool started_ = false;
    std::optional<int> over_; ///< the status of a command that has ended
    std::optional<bool> output_wanted_;
};

} // namespace

void hold_signals()
{
    const sigset_t set = held_signals();
    struct sigaction ignore {};

    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, nullptr);
}

int relay(Machine &machine, const Job &job, Terminal &terminal, const RelayOptions &options)
{
    return Relay(machine, job, terminal, options).run();
}

} // namespace rox::run
