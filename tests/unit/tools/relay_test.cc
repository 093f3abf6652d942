/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What rox-run does between the caller and a kernel. rox-run is a child here, and its kernel a
 * process that does nothing: a thread has the kernel's ends of the pipes. */
#include "run/relay.hpp"

#include "run/messages.hpp"

#include <cerrno>
#include <csignal>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace rox::run {
namespace {

constexpr int patience_ms = 20000;

/// A machine that plays a script.
class Puppet : public Machine {
public:
    Puppet() : ends_(make_pipes()) { start({{"/bin/sleep", "1000"}, {}, {}}); }

    /// Waits for the job.
    void take_job() const
    {
        uint32_t size = 0;

        recv(control(), &size, sizeof(size), MSG_WAITALL);
        std::string text(size, '\0');
        recv(control(), text.data(), size, MSG_WAITALL);
    }
    void report(Report::Kind kind, uint32_t value = 0) const
    {
        const Report message{kind, value, 0};

        send(control(), &message, sizeof(message), MSG_NOSIGNAL);
    }
    Order::Kind take_order() const
    {
        Order order{};

        recv(control(), &order, sizeof(order), MSG_WAITALL);
        return order.kind;
    }
    void write(Pipe pipe, const std::string &text) const
    {
        send(ends_[pipe]->get(), text.data(), text.size(), MSG_NOSIGNAL);
    }
    void end_output() const
    {
        for (const Pipe pipe : {output_pipe, error_pipe})
            shutdown(ends_[pipe]->get(), SHUT_RDWR);
    }
    /// The end of a command: a status as wait() has it.
    void end_command(int status) const
    {
        end_output();
        report(Report::ended, static_cast<uint32_t>(status));
    }

private:
    int control() const { return ends_[control_pipe]->get(); }

    std::vector<std::unique_ptr<File>> ends_;
};

using Script = std::function<void(const Puppet &)>;

/// rox-run in a process group of its own, as a shell starts it. Its standard error is read.
class RunRelay : public testing::Test {
protected:
    ~RunRelay() override
    {
        if (process_ > 0 && !ended_) {
            kill(process_, SIGKILL);
            waitpid(process_, nullptr, 0);
        }
        if (errors_ >= 0)
            close(errors_);
    }

    /// @param output, error files for its streams; empty: /dev/null, and what the test reads
    void start(const Script &script, const char *output = "/dev/null", const char *error = nullptr,
               bool orphaned = false)
    {
        int ends[2];

        ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
        errors_ = ends[0];
        process_ = fork();
        ASSERT_GE(process_, 0);
        if (process_ == 0) {
            if (orphaned)
                setsid();
            else
                setpgid(0, 0);
            dup2(open(output, O_WRONLY), 1);
            dup2(error != nullptr ? open(error, O_WRONLY) : ends[1], 2);
            be_rox_run(script);
        }
        close(ends[1]);
    }

    /// Its status as wait() has it, also if it has stopped.
    int wait_for(int flags = 0)
    {
        int status = -1;

        for (int i = 0; i < patience_ms; i++) {
            if (waitpid(process_, &status, flags | WNOHANG) == process_) {
                ended_ = !WIFSTOPPED(status) && !WIFCONTINUED(status);
                return status;
            }
            usleep(1000);
        }
        ADD_FAILURE() << "rox-run does not end";
        return -1;
    }
    void ends_with(int status)
    {
        const int got = wait_for();

        EXPECT_TRUE(WIFEXITED(got)) << got;
        EXPECT_EQ(WEXITSTATUS(got), status);
    }
    /// Standard error, until its end or up to a text.
    std::string errors(const std::string &up_to = "")
    {
        pollfd entry{errors_, POLLIN, 0};
        std::string text;
        char byte = 0;

        while (poll(&entry, 1, patience_ms) > 0 && read(errors_, &byte, 1) == 1) {
            text += byte;
            if (!up_to.empty() && text.ends_with(up_to))
                break;
        }
        return text;
    }
    void send_signal(int number) const { kill(process_, number); }

private:
    [[noreturn]] static void be_rox_run(const Script &script)
    {
        Job job;
        Terminal terminal;

        job.arguments = {"command"};
        job.streams[0] = Stream::closed;
        hold_signals();
        // Whoever ends it does not wait for its threads.
        const auto *const puppet = new Puppet;
        std::thread([puppet, script] {
            puppet->take_job();
            script(*puppet);
        }).detach();
        _exit(relay(const_cast<Puppet &>(*puppet), job, terminal, {}));
    }

    pid_t process_ = -1;
    int errors_ = -1;
    bool ended_ = false;
};

constexpr int status_3 = 3 << 8;

Script writes(Pipe pipe, int status)
{
    return [pipe, status](const Puppet &puppet) {
        puppet.report(Report::started);
        puppet.write(pipe, "some output");
        puppet.end_command(status);
    };
}

TEST_F(RunRelay, TheStatusIsTheCommands)
{
    start(writes(output_pipe, status_3));
    ends_with(3);
    EXPECT_EQ(errors(), "");
}

TEST_F(RunRelay, OutputThatCannotBeWrittenIsAFailure)
{
    start(writes(output_pipe, 0), "/dev/full");
    ends_with(status_failed);
    EXPECT_EQ(errors(), "rox-run: standard output: No space left on device\n");
}

TEST_F(RunRelay, OutputThatCannotBeWrittenKeepsAStatus)
{
    start(writes(output_pipe, status_3), "/dev/full");
    ends_with(3);
    EXPECT_EQ(errors(), "rox-run: standard output: No space left on device\n");
}

TEST_F(RunRelay, ErrorsThatCannotBeWrittenAreAFailure)
{
    start(writes(error_pipe, 0), "/dev/null", "/dev/full");
    ends_with(status_failed);
}

TEST_F(RunRelay, AReaderThatHasGoneIsNoFailure)
{
    int ends[2];

    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    close(ends[0]);
    start(writes(output_pipe, 0), ("/proc/self/fd/" + std::to_string(ends[1])).c_str());
    close(ends[1]);
    ends_with(0);
    EXPECT_EQ(errors(), "");
}

TEST_F(RunRelay, ASentenceThatCannotBeWrittenChangesNoStatus)
{
    start(
        [](const Puppet &puppet) {
            puppet.end_output();
            puppet.report(Report::missing, ENOENT);
        },
        "/dev/null", "/dev/full");
    ends_with(status_not_found);
}

TEST_F(RunRelay, SignalsAfterTheCommandEndTheWaitForItsOutput)
{
    // Its output does not end.
    start([](const Puppet &puppet) {
        puppet.report(Report::started);
        puppet.report(Report::over, status_3);
        usleep(100000);
        print_line("over");
    });
    EXPECT_EQ(errors("\n"), "rox-run: over\n");
    send_signal(SIGTERM);
    ends_with(3);
}

TEST_F(RunRelay, SignalsBeforeTheCommandStartsEndIt)
{
    start([](const Puppet &) { print_line("ready"); });
    EXPECT_EQ(errors("\n"), "rox-run: ready\n");
    send_signal(SIGINT);
    const int status = wait_for();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) << status;
}

TEST_F(RunRelay, CtrlZBeforeTheCommandStartsStopsIt)
{
    start([](const Puppet &) { print_line("ready"); });
    EXPECT_EQ(errors("\n"), "rox-run: ready\n");
    send_signal(SIGTSTP);
    const int stopped = wait_for(WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGTSTP) << stopped;
    send_signal(SIGCONT);
    send_signal(SIGUSR1);
    const int status = wait_for();
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1) << status;
}

/// The command has stopped, and ends with 3 if it is resumed.
void stop_command(const Puppet &puppet)
{
    puppet.report(Report::started);
    puppet.report(Report::stopped);
    puppet.end_command(puppet.take_order() == Order::resume ? status_3 : 0);
}

TEST_F(RunRelay, StopsWithTheCommand)
{
    start(stop_command);
    const int stopped = wait_for(WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(stopped) && WSTOPSIG(stopped) == SIGTSTP) << stopped;
    send_signal(SIGCONT);
    ends_with(3);
}

TEST_F(RunRelay, NobodyCouldContinueAnOrphanSoItGoesOn)
{
    start(stop_command, "/dev/null", nullptr, true);
    ends_with(3);
}

} // namespace
} // namespace rox::run
