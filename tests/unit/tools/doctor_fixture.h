/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A host for rox-doctor on which a test brings faults about. It begins in good health.
 */
#ifndef ROX_TESTS_DOCTOR_FIXTURE_H
#define ROX_TESTS_DOCTOR_FIXTURE_H

#include "doctor/check.hpp"
#include "doctor/report.hpp"
#include "fake_netlink.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

namespace rox::doctor {

namespace fs = std::filesystem;

/// Prints what was found where a test fails.
inline void PrintTo(const Finding &finding, std::ostream *out)
{
    *out << level_name(finding.level) << ": " << finding.what;
}

class FakeCommands : public Commands {
public:
    CommandResult run(const std::vector<std::string> &command) override
    {
        const auto found = outputs.find(command[0]);

        return found != outputs.end() ? CommandResult{true, found->second} : CommandResult{};
    }

    std::map<std::string, std::string> outputs;
};

class FakeNetwork : public Network {
public:
    std::optional<bool> feature(const std::string & /*netdev*/, const std::string &name) override
    {
        return name == "tx-udp-segmentation" ? segmentation : std::nullopt;
    }
    Reach ping(const std::string &netdev, const std::string & /*address*/, size_t size) override
    {
        if (!has_ping)
            return Reach::unknown;
        used_netdev = netdev;
        return size <= longest ? Reach::yes : Reach::no;
    }

    std::optional<bool> segmentation = true;
    size_t longest = 1500;
    bool has_ping = true;
    std::string used_netdev;
};

class FakeSelfTest : public SelfTest {
public:
    std::string run(const std::string & /*device*/, unsigned gid_index) override
    {
        used_index = gid_index;
        return failure;
    }

    std::string failure;
    std::optional<unsigned> used_index;
};

class DoctorTest : public testing::Test {
protected:
    static constexpr const char *kernel = "6.12.1-test";
    static constexpr const char *libs = "/usr/lib/x86_64-linux-gnu";
    static constexpr const char *link_local = "fe80:0000:0000:0000:0000:0000:0000:0001";
    static constexpr const char *ipv6 = "fd00:0000:0000:0000:0000:0000:0000:0001";
    static constexpr const char *ipv4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"; // 10.0.0.1

    void SetUp() override
    {
        char name[] = "/tmp/rox-doctor.XXXXXX";

        ASSERT_NE(mkdtemp(name), nullptr);
        root = name;
        healthy_software();
        healthy_device();
    }

    void TearDown() override { fs::remove_all(root); }

    void put(const std::string &path, const std::string &text)
    {
        const fs::path file = root / fs::path(path).relative_path();

        fs::create_directories(file.parent_path());
        std::ofstream(file, std::ios::binary) << text;
    }

    void remove(const std::string &path) { fs::remove_all(root / fs::path(path).relative_path()); }

    /// A module file as modinfo(8) would read it.
    static std::string module_file(const std::string &for_kernel, bool is_signed = false)
    {
        using namespace std::string_literals;

        return "\x7f"
               "ELF\0license=GPL\0vermagic="s +
               for_kernel + " SMP preempt mod_unload \0srcversion=ABCD\0"s +
               (is_signed ? "~Module signature appended~\n" : "");
    }

    void install_module(const std::string &for_kernel, const std::string &file)
    {
        const std::string folder = "/lib/modules/" + for_kernel;

        put(folder + "/modules.dep", "kernel/ib_core.ko.xz:\nkernel/ib_uverbs.ko.xz: x\n"
                                     "updates/rox.ko: kernel/ib_core.ko.xz\n");
        put(folder + "/updates/rox.ko", file);
    }

    /// The module is compressed, and this is what modinfo(8) prints of it; empty: there is none.
    void compress_module(const std::string &printed)
    {
        const std::string folder = std::string("/lib/modules/") + kernel;

        put(folder + "/modules.dep", "kernel/ib_core.ko.xz:\nkernel/ib_uverbs.ko.xz: x\n"
                                     "updates/rox.ko.xz: kernel/ib_core.ko.xz\n");
        put(folder + "/updates/rox.ko.xz", std::string("\xfd\x37zXZ\0", 6));
        commands.outputs.erase("modinfo");
        if (!printed.empty())
            commands.outputs["modinfo"] = printed;
    }

    void add_gid(const std::string &device, unsigned index, const std::string &gid,
                 const std::string &type = "RoCE v2", const std::string &netdev = "eth0")
    {
        const std::string port = "/sys/class/infiniband/" + device + "/ports/1/";

        put(port + "gids/" + std::to_string(index), gid + "\n");
        put(port + "gid_attrs/types/" + std::to_string(index), type + "\n");
        put(port + "gid_attrs/ndevs/" + std::to_string(index), netdev + "\n");
    }

    /// A container, into which a netdev without a device was moved, on the host's that has the
    /// device. Another one has the name that the host's has.
    void enter_container(const std::string &netdev)
    {
        netlink.set_port(true, "");
        put("/sys/class/net/" + netdev + "/type", "1\n");
        put("/proc/net/fib_trie", "Local:\n"
                                  "  +-- 0.0.0.0/0 3 0 5\n"
                                  "     |-- 10.0.0.0\n"
                                  "        /24 link UNICAST\n"
                                  "     |-- 10.0.0.7\n"
                                  "        /32 link UNICAST\n"
                                  "        /32 host LOCAL\n"
                                  "     |-- 127.0.0.1\n"
                                  "        /32 host LOCAL\n");
        put("/proc/net/if_inet6", "fd000000000000000000000000000007 04 40 00 80 " + netdev + "\n");
        add_gid("rox0", 1, link_local);
    }

    void add_rxe(const std::string &name)
    {
        put("/sys/class/infiniband/" + name + "/node_desc", "rxe\n");
        put("/sys/module/rdma_rxe/refcnt", "1\n");
    }

    void take_port()
    {
        put("/proc/net/udp", "  sl  local_address rem_address   st tx_queue\n"
                             "  12: 00000000:12B7 00000000:0000 07 00000000:00000000\n");
    }

    void set_algorithm(const std::string &name)
    {
        put("/sys/class/infiniband/rox0/cc/algorithm", name + "\n");
    }

    void set_counters(const std::map<std::string, uint64_t> &counters)
    {
        netlink.answers[{RDMA_NLDEV_CMD_STAT_GET, false}] = {
            test::MessageBuilder()
                .nest(RDMA_NLDEV_ATTR_STAT_HWCOUNTERS,
                      [&](test::MessageBuilder &nest) {
                          for (const auto &[name, value] : counters)
                              nest.nest(
                                  RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY,
                                  [&](test::MessageBuilder &entry) {
                                      entry.text(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME, name)
                                          .u64(RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE, value);
                                  });
                      })
                .answer()};
    }

    void remove_devices()
    {
        remove("/sys/class/infiniband");
        remove("/proc/net/udp");
        netlink.answers.erase({RDMA_NLDEV_CMD_GET, true});
    }

    Findings look(const Check &check)
    {
        return check.look({files(), netlink, commands, network, self_test, process}, options);
    }

    /// The only finding of a check.
    Finding only(const Check &check)
    {
        const Findings findings = look(check);

        EXPECT_EQ(findings.size(), 1U) << testing::PrintToString(findings);
        return findings.empty() ? Finding{} : findings[0];
    }

    /// A check has one finding of this level, whose words and one of whose commands hold these
    /// parts.
    void expect(const Check &check, Level level, const std::string &words,
                const std::string &command = "")
    {
        const Finding finding = only(check);
        std::string commands;

        for (const std::string &line : finding.commands)
            commands += line + "\n";
        EXPECT_EQ(finding.level, level) << finding.what;
        EXPECT_NE(finding.what.find(words), std::string::npos) << finding.what;
        EXPECT_NE(commands.find(command), std::string::npos) << commands;
    }

    const Tree &files()
    {
        tree = Tree(root);
        return tree;
    }

    fs::path root;
    Tree tree;
    test::FakeNetlink netlink;
    FakeCommands commands;
    FakeNetwork network;
    FakeSelfTest self_test;
    Process process{.kernel = kernel, .memlock = ~uint64_t{0}, .may_lock_all = false};
    Options options;

private:
    void healthy_software()
    {
        install_module(kernel, module_file(kernel));
        put(std::string(libs) + "/libibverbs.so.1", "\x7f"
                                                    "ELF IBVERBS_PRIVATE_34 ");
        put(std::string(libs) + "/libibverbs/librox-rdmav34.so", "");
        put("/etc/libibverbs.d/rox.driver", "driver rox\n");
        commands.outputs["nft"] = R"({"nftables": []})";
    }

    void healthy_device()
    {
        put("/sys/class/infiniband/rox0/hca_type", "rox\n");
        put("/sys/class/infiniband/rox0/parent", "eth0\n");
        put("/sys/class/infiniband/rox0/cc/algorithm", "none\n");
        put("/sys/class/infiniband_verbs/uverbs0/ibdev", "rox0\n");
        put("/dev/infiniband/uverbs0", "");
        put("/dev/infiniband/rdma_cm", "");
        put("/sys/class/net/eth0/mtu", "9000\n");
        put("/sys/class/net/eth0/type", "1\n");
        put("/sys/class/net/eth0/operstate", "up\n");
        add_gid("rox0", 0, ipv4);
        take_port();
        netlink.add_device(0, "rox0");
        netlink.set_port(true, "eth0");
        netlink.set_netns_exclusive(false);
        network.longest = 9000;
    }
};

} // namespace rox::doctor

#endif // ROX_TESTS_DOCTOR_FIXTURE_H
