// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Processes of a test, and that nothing of them remains.
#pragma once

#include <functional>
#include <string>

#include <sys/types.h>

#include <gtest/gtest.h>

namespace vt {

/// Runs @p body in a child, which ends with its result, or with 99 if it throws.
pid_t in_child(const std::function<int()> &body);

/// Waits until @p child has ended, which it must by itself; its status as waitpid has it.
int wait_for(pid_t child);
/// Does @p child end by itself, and with @p code?
testing::AssertionResult ends_with(pid_t child, int code);
/// Ends @p child by SIGKILL and waits for it. It must not have ended before.
void kill_child(pid_t child);

/// After the test all devices must have in use what they had before.
class ProcessTest : public testing::Test {
protected:
    void TearDown() override;

private:
    std::string before_ = in_use();
    static std::string in_use();
};

} // namespace vt
