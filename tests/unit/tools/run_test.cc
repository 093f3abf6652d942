/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What rox-run and its first process tell each other, and what rox-run makes of the caller's words.
 */
#include "run/caller.hpp"
#include "run/init/modules.hpp"
#include "run/job.hpp"
#include "run/machine.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace rox::run {
namespace {

Job some_job()
{
    Job job;

    job.arguments = {"sh", "-c", "", "a=b\nc"};
    job.environment = {"A=1", "B==", "no equals sign"};
    job.writable = {"/home/x", "/a b"};
    job.groups = {4, 24};
    job.limits = {{7, 1024, ~uint64_t{0}}};
    job.folder = "/home/x";
    job.umask = 027;
    job.ignored = uint64_t{1} << 63 | 2;
    job.uid = 1000;
    job.gid = 100;
    job.hostname = "host";
    job.streams[0] = Stream::file;
    job.streams[2] = Stream::output;
    job.input_file = "/in=put";
    job.input_offset = uint64_t{1} << 40;
    job.termios = "00ff";
    job.rows = 24;
    job.columns = 80;
    job.nodes = 3;
    job.address = 5;
    job.join_pipe = 4;
    job.way_out_pipe = 5;
    job.way_out6 = true;
    job.resolver = "nameserver 192.0.2.53\nsearch a=b\n";
    job.link = {1500, 1000000, 5, 1.5, 125000000};
    return job;
}

TEST(RunJob, AllFieldsArrive)
{
    const Job sent = some_job();
    const auto got = decode(encode(sent));

    ASSERT_TRUE(got);
    EXPECT_EQ(got->arguments, sent.arguments);
    EXPECT_EQ(got->environment, sent.environment);
    EXPECT_EQ(got->writable, sent.writable);
    EXPECT_EQ(got->groups, sent.groups);
    ASSERT_EQ(got->limits.size(), 1U);
    EXPECT_EQ(got->limits[0].hard, ~uint64_t{0});
    EXPECT_EQ(got->folder, sent.folder);
    EXPECT_EQ(got->umask, sent.umask);
    EXPECT_EQ(got->ignored, sent.ignored);
    EXPECT_EQ(got->uid, sent.uid);
    EXPECT_EQ(got->gid, sent.gid);
    EXPECT_EQ(got->hostname, sent.hostname);
    EXPECT_EQ(got->streams[0], Stream::file);
    EXPECT_EQ(got->streams[1], Stream::pipe);
    EXPECT_EQ(got->streams[2], Stream::output);
    EXPECT_EQ(got->input_file, sent.input_file);
    EXPECT_EQ(got->input_offset, sent.input_offset);
    EXPECT_EQ(got->termios, sent.termios);
    EXPECT_EQ(got->rows, sent.rows);
    EXPECT_EQ(got->columns, sent.columns);
    EXPECT_EQ(got->nodes, sent.nodes);
    EXPECT_EQ(got->address, sent.address);
    EXPECT_EQ(got->join_pipe, sent.join_pipe);
    EXPECT_EQ(got->way_out_pipe, sent.way_out_pipe);
    EXPECT_TRUE(got->way_out6);
    EXPECT_EQ(got->resolver, sent.resolver);
    EXPECT_EQ(got->link.mtu, sent.link.mtu);
    EXPECT_EQ(got->link.rate, sent.link.rate);
    EXPECT_DOUBLE_EQ(got->link.loss, sent.link.loss);
    EXPECT_EQ(encode(*got), encode(sent));
}

TEST(RunJob, WhatIsNoneIsRefused)
{
    EXPECT_FALSE(decode("umask=18"));
    EXPECT_FALSE(decode(std::string("nothing\0", 8)));
    EXPECT_FALSE(decode(std::string("unknown=1\0", 10)));
    EXPECT_FALSE(decode(std::string("streams=pp\0", 11)));
    EXPECT_FALSE(decode(std::string("limit=1 2\0", 10)));
}

TEST(RunLink, WordsOfTc)
{
    const Link link = parse_link("mtu 1500 delay 1ms jitter 100us loss 1.5% rate 1gbit");

    EXPECT_EQ(link.mtu, 1500U);
    EXPECT_EQ(link.delay_ns, 1000000U);
    EXPECT_EQ(link.jitter_ns, 100000U);
    EXPECT_DOUBLE_EQ(link.loss, 1.5);
    EXPECT_EQ(link.rate, 125000000U);
    EXPECT_TRUE(link.shaped());
    EXPECT_FALSE(parse_link("").shaped());
    EXPECT_FALSE(parse_link("mtu 4200").shaped());
}

TEST(RunLink, WhatCannotBeIsRefused)
{
    for (const char *text :
         {"delay", "delay much", "delay 1mbit", "loss 101%", "mtu 100", "mtu 70000", "rate -1mbit",
          "delay inf", "loss nan", "colour blue", "rate 1mbit extra"})
        EXPECT_THROW(parse_link(text), std::runtime_error) << text;
}

/// Whether a job with such folders is refused, of which the first is the working folder.
bool is_refused(const std::vector<std::string> &folders, const std::string &provider_target = "")
{
    Job job;

    job.writable = folders;
    job.provider_target = provider_target;
    try {
        check_writable(job);
    } catch (const std::runtime_error &) {
        return true;
    }
    return false;
}

TEST(RunWritable, WhatIsLaidOverTheHostIsInNoFolderThatStays)
{
    const std::string target = "/usr/lib/x86_64-linux-gnu/libibverbs/librox-rdmav34.so";

    for (const char *folder : {"/etc", "/etc/libibverbs.d", "/run", "/run/netns", "/run/rox-run"}) {
        EXPECT_TRUE(is_refused({folder})) << folder;
        EXPECT_TRUE(is_refused({"/home/x", folder})) << folder;
    }
    for (const char *folder : {"/usr", "/usr/lib", "/usr/lib/x86_64-linux-gnu/libibverbs"}) {
        EXPECT_TRUE(is_refused({folder}, target)) << folder;
        EXPECT_FALSE(is_refused({folder})) << folder;
    }
    EXPECT_TRUE(is_refused({"/home/x", "/"}));
    EXPECT_FALSE(is_refused({"/", "/home/x", "/etc/ssh", "/run/user/1000", "/usr/local", "/us",
                             "/usr/lib/x86_64-linux-gnu/lib", "/dev"},
                            target));
}

TEST(RunWritable, LinksOfTheHostAreFollowed)
{
    const auto folder = std::filesystem::canonical(testing::TempDir()) / "rox-run-writable";

    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder / "real/libibverbs");
    std::filesystem::create_symlink("real", folder / "link");
    EXPECT_TRUE(is_refused({folder / "real"}, folder / "link/libibverbs/librox-rdmav34.so"));
    EXPECT_FALSE(is_refused({folder / "other"}, folder / "link/libibverbs/librox-rdmav34.so"));
    std::filesystem::remove_all(folder);
}

TEST(RunModules, ArgumentsAreThoseOfTheModule)
{
    EXPECT_EQ(module_arguments("mem=1M hostpipe.fds=3,4 rox.spin_us=0 rox.gso=N quiet\n", "rox"),
              "spin_us=0 gso=N");
    EXPECT_EQ(module_arguments("hostpipe.fds=3,4", "hostpipe"), "fds=3,4");
    EXPECT_EQ(module_arguments("hostpipe.fds=3,4", "host"), "");
}

TEST(RunMachine, TheEndHasACause)
{
    EXPECT_EQ(
        cause_of_death("x\nKernel panic - not syncing: Out of memory: compulsory\n", 0).status,
        status_memory);
    EXPECT_EQ(
        cause_of_death("Kernel panic - not syncing: System is deadlocked on memory\n", 0).status,
        status_memory);
    const Death panic = cause_of_death("[ 1.0] Kernel panic - not syncing: Fatal exception\nmore\n",
                                       0);
    EXPECT_EQ(panic.status, status_panic);
    EXPECT_EQ(panic.reason, "the kernel panicked: Fatal exception");
    EXPECT_EQ(cause_of_death("", SIGKILL).status, status_memory);
    const Death other = cause_of_death("first\nptrace: Operation not permitted\n", 1 << 8);
    EXPECT_EQ(other.status, status_failed);
    EXPECT_NE(other.reason.find("ptrace: Operation not permitted"), std::string::npos);
}

/// A machine that is a shell, which says something as its log.
class Shell : public Machine {
public:
    explicit Shell(const std::string &script) { start({{"/bin/sh", "-c", script}, {}, {}}); }

    std::string says()
    {
        std::string text;
        char byte = 0;

        while (read(log(), &byte, 1) == 1)
            text += byte;
        return text;
    }
};

TEST(RunMachine, IsInASessionOfItsOwn)
{
    Shell shell("read pid name state parent group session rest </proc/self/stat\n"
                "echo $((pid == group)) $((pid == session))");

    EXPECT_EQ(shell.says(), "1 1\n");
}

/// Ends with the letter of the stream that standard input is then.
[[noreturn]] void take_input(const std::string &file)
{
    Job job;

    dup2(open(file.c_str(), O_RDONLY), 0);
    take_streams(job, false);
    _exit(static_cast<int>(job.streams[0]));
}

/* In a child each, whose input it is. */
TEST(RunInput, OnlyFilesThatHaveTheirSizeAreReadByTheCommand)
{
    const testing::ExitedWithCode file(static_cast<int>(Stream::file)),
        pipe(static_cast<int>(Stream::pipe));
    const auto name = std::filesystem::path(testing::TempDir()) / "rox-run-input";

    std::ofstream(name) << "";
    EXPECT_EXIT(take_input(name), pipe, "");
    std::ofstream(name) << "text";
    EXPECT_EXIT(take_input(name), file, "");
    for (const char *made : {"/proc/version", "/sys/kernel/uevent_seqnum"})
        EXPECT_EXIT(take_input(made), pipe, "") << made;
    EXPECT_EXIT(take_input("/dev/null"), pipe, "");
}

/// A folder with the file "cpus", which says how many the kernel can have.
Image image_with_cpus(const std::string &text)
{
    const Image image{std::filesystem::path(testing::TempDir()) / "rox-run-cpus"};

    std::filesystem::create_directories(image.folder);
    std::ofstream(image.folder + "/cpus") << text;
    return image;
}

TEST(RunCpus, NoMoreThanTheKernelCanHave)
{
    EXPECT_EQ(Image{"/no/such/folder"}.most_cpus(), 1U);
    EXPECT_EQ(default_cpus(Image{"/no/such/folder"}.most_cpus()), 1U);
    EXPECT_EQ(image_with_cpus("x\n").most_cpus(), 1U);
    EXPECT_EQ(image_with_cpus("8\n").most_cpus(), 8U);
    EXPECT_EQ(default_cpus(image_with_cpus("2\n").most_cpus()), 2U);
}

/// Ends with 0 if half of this address space is what the kernel gets.
[[noreturn]] void ask_with_limit(rlim_t bytes)
{
    constexpr rlim_t mib = 1 << 20;
    const rlimit limit{bytes, bytes};

    setrlimit(RLIMIT_AS, &limit);
    _exit(default_memory() == bytes / 2 / mib ? 0 : 1);
}

/* In a child each, whose limit it is. */
TEST(RunMemory, HalfOfTheAddressSpaceThatIsAllowed)
{
    EXPECT_EXIT(ask_with_limit(512 << 20), testing::ExitedWithCode(0), "");
    EXPECT_EXIT(ask_with_limit(300 << 20), testing::ExitedWithCode(0), "");
}

TEST(RunCpus, AtLeastTwoAtMostFour)
{
    const unsigned cpus = default_cpus(image_with_cpus("64\n").most_cpus());

    EXPECT_GE(cpus, 2U);
    EXPECT_LE(cpus, 4U);
}

} // namespace
} // namespace rox::run
