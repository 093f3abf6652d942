// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "process.h"

#include <csignal>
#include <cstdio>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "diagnose.h"
#include "error.h"

namespace vt {

pid_t in_child(const std::function<int()> &body)
{
    pid_t child = fork();
    if (child < 0)
        fail("fork", errno);
    if (child)
        return child;
    try {
        _exit(body());
    } catch (const std::exception &error) {
        std::fprintf(stderr, "child: %s\n", error.what());
        _exit(99);
    }
}

int wait_for(pid_t child)
{
    int status = -1;
    if (!eventually([&] { return waitpid(child, &status, WNOHANG) == child; })) {
        kill(child, SIGKILL);
        waitpid(child, &status, 0);
        ADD_FAILURE() << "the child did not end by itself";
    }
    return status;
}

testing::AssertionResult ends_with(pid_t child, int code)
{
    int status = wait_for(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == code)
        return testing::AssertionSuccess();
    return testing::AssertionFailure()
           << (WIFEXITED(status) ? "the child ended with " + std::to_string(WEXITSTATUS(status))
                                 : "the child got signal " + std::to_string(WTERMSIG(status)));
}

void kill_child(pid_t child)
{
    EXPECT_EQ(kill(child, SIGKILL), 0);
    EXPECT_TRUE(WIFSIGNALED(wait_for(child))) << "the child had ended before";
}

std::string ProcessTest::in_use()
{
    std::string text;
    shell("exec rdma resource show", &text);
    return text;
}

void ProcessTest::TearDown()
{
    EXPECT_TRUE(eventually([this] { return in_use() == before_; })) << "before:\n"
                                                                    << before_ << "now:\n"
                                                                    << in_use();
}

} // namespace vt
