/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The parts of rox-doctor that ask the system itself, as far as any system answers alike. */
#include "doctor/real.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

#include <sys/utsname.h>

namespace rox::doctor {
namespace {

TEST(RealCommands, TellsOutputAndFailure)
{
    RealCommands commands;
    const CommandResult echo = commands.run({"echo", "two words"});

    EXPECT_TRUE(echo.ran);
    EXPECT_EQ(echo.output, "two words\n");
    EXPECT_FALSE(commands.run({"false"}).ran);
    EXPECT_FALSE(commands.run({"/no/such/program"}).ran);
    EXPECT_EQ(commands.run({"head", "-c", "300000", "/dev/zero"}).output.size(), 300000U);
}

/* As tc and modinfo on Debian, for those who are not root. */
TEST(RealCommands, FindsProgramsOfRoot)
{
    const std::string path = getenv("PATH");
    RealCommands commands;

    ASSERT_EQ(setenv("PATH", "/nonexistent", 1), 0);
    EXPECT_TRUE(commands.run({"modinfo", "--version"}).ran);
    EXPECT_FALSE(commands.run({"no-such-program"}).ran);
    ASSERT_EQ(setenv("PATH", path.c_str(), 1), 0);
}

/* As the type of a GID that is not there: it can be opened, and reading fails. */
TEST(Tree, FilesThatCannotBeRead)
{
    const Tree tree;

    EXPECT_EQ(tree.read("/proc/self/mem"), std::nullopt);
    EXPECT_EQ(tree.line("/proc/self/mem"), "");
    EXPECT_EQ(tree.read("/proc"), std::nullopt);
    EXPECT_EQ(tree.read("/no/such/file"), std::nullopt);
    EXPECT_EQ(tree.line("/proc/self/comm").substr(0, 5), "tools");
}

TEST(RealNetwork, FeaturesOfTheLoopbackDevice)
{
    RealNetwork network;

    EXPECT_EQ(network.feature("lo", "tx-scatter-gather"), true);
    EXPECT_EQ(network.feature("lo", "no-such-feature"), std::nullopt);
    EXPECT_EQ(network.feature("no-such-netdev", "tx-scatter-gather"), std::nullopt);
}

TEST(ThisProcess, IsOfThisKernel)
{
    utsname names{};

    ASSERT_EQ(uname(&names), 0);
    EXPECT_EQ(this_process().kernel, names.release);
    EXPECT_GT(this_process().memlock, 0U);
}

TEST(VerbsSelfTest, SaysThatThereIsNoDevice)
{
    EXPECT_NE(VerbsSelfTest().run("no-such-device", 0), "");
}

} // namespace
} // namespace rox::doctor
