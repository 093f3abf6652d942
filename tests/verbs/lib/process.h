// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Child processes of a test, and a check that they leave no objects behind.
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

#include <gtest/gtest.h>

namespace vt {

/// Runs @p body in a child process, whose exit code is its result, or 99 if it throws.
pid_t in_child(const std::function<int()> &body);

/// Waits until @p child ends by itself. Returns its status as waitpid() does.
int wait_for(pid_t child);
/// True if @p child ends by itself and with @p code.
testing::AssertionResult ends_with(pid_t child, int code);
/// Ends @p child with SIGKILL and waits for it. Fails if it had ended before.
void kill_child(pid_t child);

/// Checks that after the test the devices have as many objects in use as before.
class ProcessTest : public testing::Test {
protected:
    void TearDown() override;

private:
    std::string before_ = in_use();
    static std::string in_use();
};

} // namespace vt
