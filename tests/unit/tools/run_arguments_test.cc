/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-run's command line, on the host and within a command of rox-run. */
#include "run/arguments.hpp"

#include <cstdlib>
#include <initializer_list>

#include <gtest/gtest.h>

namespace rox::run {
namespace {

constexpr int wrong_usage = 125;

class RunArguments : public testing::Test {
protected:
    void SetUp() override { unsetenv("ROX_RUN_VM"); }
    void TearDown() override { unsetenv("ROX_RUN_VM"); }

    /// What a command line means, and what is printed of it.
    Parsed read(std::initializer_list<const char *> words, bool inside)
    {
        std::vector<const char *> line{"rox-run"};

        line.insert(line.end(), words);
        testing::internal::CaptureStderr();
        Parsed parsed = parse(static_cast<int>(line.size()), line.data(), inside);
        printed = testing::internal::GetCapturedStderr();
        return parsed;
    }

    void refuses(std::initializer_list<const char *> words, bool inside, const std::string &why)
    {
        EXPECT_EQ(read(words, inside).status, wrong_usage) << *words.begin();
        EXPECT_NE(printed.find(why), std::string::npos) << printed;
    }

    std::string printed;
};

TEST_F(RunArguments, OptionsEndAtTheCommand)
{
    const Parsed parsed = read({"--nodes", "3", "--timeout", "5", "--", "sh", "--nodes", "7"},
                               false);

    EXPECT_EQ(parsed.status, std::nullopt) << printed;
    EXPECT_EQ(parsed.arguments.nodes, 3U);
    EXPECT_EQ(parsed.arguments.timeout, 5);
    EXPECT_EQ(parsed.arguments.command, (std::vector<std::string>{"sh", "--nodes", "7"}));
    EXPECT_EQ(read({"true", "-n", "2"}, false).arguments.command,
              (std::vector<std::string>{"true", "-n", "2"}));
    refuses({"--no-such-option", "--", "true"}, false, "not expected: --no-such-option");
    refuses({"--nodes", "3"}, false, "a command is required");
}

/* On the host --nodes is meant. */
TEST_F(RunArguments, NodeIsForWithin)
{
    const Parsed parsed = read({"-n", "node2", "--", "true"}, true);

    EXPECT_EQ(parsed.status, std::nullopt) << printed;
    EXPECT_EQ(parsed.arguments.node, "node2");
    EXPECT_EQ(read({"true"}, true).status, std::nullopt) << printed;
    refuses({"-n", "2", "--", "true"}, false, "--nodes N");
    refuses({"--node", "node2", "true"}, false, "--nodes N");
}

TEST_F(RunArguments, OptionsOfTheKernelAreNotForWithin)
{
    refuses({"--timeout", "5", "--", "true"}, true, "--timeout: means nothing within a command");
    refuses({"--nodes", "2", "true"}, true, "--nodes: means nothing");
    refuses({"--write", "/tmp", "true"}, true, "--write");
    refuses({"--join", "lab", "true"}, true, "--join");
    refuses({"--link", "mtu 9000", "true"}, true, "--link");
    refuses({"--net", "true"}, true, "--net");
    refuses({"--user", "true"}, true, "--user");
    refuses({"--memory", "128", "true"}, true, "--memory");
    refuses({"--cpus", "1", "true"}, true, "--cpus");
    refuses({"--vm", "true"}, true, "--vm");
    refuses({"--kernel-log", "log", "true"}, true, "--kernel-log");
    refuses({"--kernel-argument", "quiet", "true"}, true, "--kernel-argument");
    refuses({"-v", "-n", "node1", "true"}, true, "--verbose");
}

/* The command has the caller's environment. */
TEST_F(RunArguments, EnvironmentOfTheCallerIsNoOption)
{
    setenv("ROX_RUN_VM", "1", 1);
    EXPECT_TRUE(read({"true"}, false).arguments.vm);
    EXPECT_EQ(read({"-n", "node2", "true"}, true).status, std::nullopt) << printed;
}

} // namespace
} // namespace rox::run
