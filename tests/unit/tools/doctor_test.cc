/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rox-doctor: each fault is brought about on a host that the test makes. */
#include "doctor_fixture.h"

#include <nlohmann/json.hpp>

namespace rox::doctor {
namespace {

TEST_F(DoctorTest, HealthyHostHasNoFinding)
{
    const Report report = examine({files(), netlink, commands, network, self_test, process},
                                  options);

    EXPECT_EQ(worst(report), Level::ok) << as_text(report, false);
    EXPECT_EQ(report.size(), all_checks().size());
    for (const CheckResult &result : report)
        EXPECT_FALSE(result.findings.empty()) << result.check << " says nothing";
}

/* ---- module ---- */

TEST_F(DoctorTest, ModuleIsMissing)
{
    remove("/lib/modules/6.12.1-test/updates");
    put("/lib/modules/6.12.1-test/modules.dep", "kernel/ib_core.ko:\nkernel/ib_uverbs.ko:\n");
    expect(ModuleCheck(), Level::problem, "no rox.ko for the running kernel", "sudo make install");
    expect(ModuleCheck(), Level::problem, "no rox.ko for the running kernel", "./rox-dkms_*.deb");
}

TEST_F(DoctorTest, ModuleIsInstalledForAnotherKernel)
{
    install_module("6.1.0-other", module_file("6.1.0-other"));
    put("/lib/modules/6.12.1-test/modules.dep", "kernel/ib_core.ko:\nkernel/ib_uverbs.ko:\n");
    expect(ModuleCheck(), Level::problem, "installed for 6.1.0-other",
           "dkms autoinstall -k 6.12.1-test");
}

TEST_F(DoctorTest, ModuleWasBuiltForAnotherKernel)
{
    install_module(kernel, module_file("6.1.0-other"));
    expect(ModuleCheck(), Level::warning, "was built for 6.1.0-other", "linux-headers-6.12.1-test");
    put("/sys/module/rox/srcversion", "ABCD\n");
    expect(ModuleCheck(), Level::ok, "loaded");
}

TEST_F(DoctorTest, KernelHasNoRdmaCore)
{
    put("/lib/modules/6.12.1-test/modules.dep", "updates/rox.ko:\n");
    expect(ModuleCheck(), Level::problem, "has no module ib_core", "linux-image-amd64");
}

TEST_F(DoctorTest, RdmaCoreMayBeBuiltIn)
{
    put("/lib/modules/6.12.1-test/modules.dep", "updates/rox.ko:\n");
    put("/lib/modules/6.12.1-test/modules.builtin",
        "kernel/drivers/infiniband/core/ib_core.ko\nkernel/drivers/infiniband/core/ib_uverbs.ko\n");
    expect(ModuleCheck(), Level::ok, "the first link loads it");
}

TEST_F(DoctorTest, UnsignedModuleUnderSecureBoot)
{
    put("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
        std::string("\6\0\0\0\1", 5));
    expect(ModuleCheck(), Level::problem, "unsigned, and Secure Boot is on", "mokutil --import");
}

TEST_F(DoctorTest, UnsignedModuleUnderLockdown)
{
    put("/sys/kernel/security/lockdown", "none [integrity] confidentiality\n");
    expect(ModuleCheck(), Level::problem, "locked down", "mokutil --import");
    put("/sys/kernel/security/lockdown", "[none] integrity confidentiality\n");
    expect(ModuleCheck(), Level::ok, "");
}

TEST_F(DoctorTest, SignedModuleNeedsAKnownKey)
{
    put("/sys/module/module/parameters/sig_enforce", "Y\n");
    install_module(kernel, module_file(kernel, true));
    expect(ModuleCheck(), Level::warning, "sig_enforce", "mokutil --test-key");
    put("/sys/module/rox/srcversion", "ABCD\n");
    expect(ModuleCheck(), Level::ok, "loaded");
}

TEST_F(DoctorTest, AnotherModuleIsLoadedThanInstalled)
{
    put("/sys/module/rox/srcversion", "0123\n");
    expect(ModuleCheck(), Level::warning, "is not the one in", "modprobe -r rox");
    remove("/sys/module/rox/srcversion");
    expect(ModuleCheck(), Level::warning, "is not the one in", "modprobe -r rox");
}

/* As modinfo(8) prints it. */
TEST_F(DoctorTest, CompressedModule)
{
    const std::string other = "filename:       /lib/modules/6.12.1-test/updates/rox.ko.xz\n"
                              "srcversion:     0123\n"
                              "vermagic:       6.1.0-other SMP preempt mod_unload \n";
    const std::string own = "filename:       /lib/modules/6.12.1-test/updates/rox.ko.xz\n"
                            "srcversion:     0123\n"
                            "vermagic:       6.12.1-test SMP preempt mod_unload \n";
    const std::string signature = "sig_id:         PKCS#7\n"
                                  "signature:      30:65:02\n\t\t31:C8\n";

    compress_module(own);
    expect(ModuleCheck(), Level::ok, "updates/rox.ko.xz; the first link loads it");
    compress_module(other);
    expect(ModuleCheck(), Level::warning, "rox.ko.xz was built for 6.1.0-other",
           "linux-headers-6.12.1-test");
    put("/sys/module/module/parameters/sig_enforce", "Y\n");
    compress_module(own);
    expect(ModuleCheck(), Level::problem, "rox.ko.xz is unsigned", "mokutil --import");
    compress_module(own + signature);
    expect(ModuleCheck(), Level::warning, "know the key that signed", "mokutil --test-key");
    put("/sys/module/rox/srcversion", "ABCD\n");
    expect(ModuleCheck(), Level::warning, "is not the one in", "modprobe -r rox");
    put("/sys/module/rox/srcversion", "0123\n");
    expect(ModuleCheck(), Level::ok, "loaded");
}

TEST_F(DoctorTest, CompressedModuleThatNobodyReads)
{
    compress_module("");
    expect(ModuleCheck(), Level::note,
           "no modinfo here reads /lib/modules/6.12.1-test/updates/rox.ko.xz", "apt install kmod");
    compress_module("no such thing\n");
    expect(ModuleCheck(), Level::note, "for which kernel it is, and whether it is signed");
}

TEST_F(DoctorTest, LoadedModuleNeedsNoFile)
{
    remove("/lib/modules");
    put("/sys/module/rox/srcversion", "0123\n");
    expect(ModuleCheck(), Level::ok, "loaded");
}

/* ---- provider ---- */

TEST_F(DoctorTest, ProviderIsMissing)
{
    remove(std::string(libs) + "/libibverbs");
    expect(ProviderCheck(), Level::problem, "no provider", "sudo make install");
    expect(ProviderCheck(), Level::problem, "no provider", "./ibverbs-provider-rox_*.deb");
}

TEST_F(DoctorTest, ProviderIsForAnotherPrivateAbi)
{
    put(std::string(libs) + "/libibverbs.so.1", "IBVERBS_PRIVATE_ IBVERBS_PRIVATE_59 ");
    expect(ProviderCheck(), Level::problem, "speaks private ABI 59, the provider of rox is for 34",
           "./ibverbs-provider-rox_*.deb");
}

TEST_F(DoctorTest, ProviderIsNotNamed)
{
    put("/etc/libibverbs.d/rox.driver", "# driver rox\n");
    expect(ProviderCheck(), Level::problem, "no file in /etc/libibverbs.d", "driver rox");
}

TEST_F(DoctorTest, LibibverbsIsMissing)
{
    remove(libs);
    expect(ProviderCheck(), Level::problem, "not installed", "apt install");
}

/* ---- port 4791 ---- */

TEST_F(DoctorTest, RxeHasThePort)
{
    remove_devices();
    take_port();
    add_rxe("rxe0");
    expect(PortCheck(), Level::problem, "rdma_rxe has UDP port 4791",
           "rdma link delete rxe0\nmodprobe -r");
}

TEST_F(DoctorTest, RxeHasThePortWithoutADevice)
{
    remove_devices();
    take_port();
    put("/sys/module/rdma_rxe/refcnt", "0\n");
    expect(PortCheck(), Level::problem, "rdma_rxe has UDP port 4791", "modprobe -r rdma_rxe");
}

TEST_F(DoctorTest, ProgramHasThePort)
{
    remove_devices();
    put("/proc/net/udp6", "sl local_address\n 1: 00000000000000000000000000000000:12B7 0:0 07\n");
    expect(PortCheck(), Level::problem, "a program has UDP port 4791", "ss -ulnp");
}

TEST_F(DoctorTest, PortIsFree)
{
    remove_devices();
    put("/proc/net/udp", "sl local_address\n 1: 00000000:12B8 00000000:12B7 07\n");
    expect(PortCheck(), Level::ok, "free");
}

/* ---- devices ---- */

TEST_F(DoctorTest, NoDevice)
{
    remove_devices();
    put("/sys/class/net/dummy0/operstate", "unknown\n");
    expect(LinkCheck(), Level::problem, "no device of rox",
           "rdma link add rox0 type rox netdev eth0");
}

TEST_F(DoctorTest, NoDeviceOfThatName)
{
    options.device = "rox7";
    expect(LinkCheck(), Level::problem, "named rox7");
}

TEST_F(DoctorTest, PortIsDown)
{
    netlink.set_port(false, "eth0");
    expect(LinkCheck(), Level::problem, "the port is down", "ip link set eth0 up");
}

TEST_F(DoctorTest, NetdevIsInAnotherNamespace)
{
    netlink.set_port(true, "");
    expect(NamespaceCheck(), Level::warning, "netdev eth0 is in another network namespace",
           "ip netns exec");
}

TEST_F(DoctorTest, ContainerHasAddressesOfTheHostsDevice)
{
    enter_container("net1");
    add_gid("rox0", 5, "0000:0000:0000:0000:0000:ffff:0a00:0007", "RoCE v2", "net1"); // 10.0.0.7
    expect(NamespaceCheck(), Level::ok, "shared");
    expect(PortCheck(), Level::ok, "rox'");
    expect(GidCheck(), Level::note, "use GID index 5 (10.0.0.7)");
    expect(TrafficCheck(), Level::ok, "arrived");
    EXPECT_EQ(self_test.used_index, 5U);
    options.gid_index = 0;
    expect(GidCheck(), Level::warning,
           "GID index 0 is 10.0.0.1 of eth0, which is in another network namespace: use index 5");
}

TEST_F(DoctorTest, ContainersNetdevHasTheNameOfTheHosts)
{
    enter_container("eth0");
    add_gid("rox0", 5, "fd00:0000:0000:0000:0000:0000:0000:0007");
    expect(NamespaceCheck(), Level::ok, "shared");
    expect(GidCheck(), Level::warning, "IPv6 GIDs only (index 5 is fd00::7)", "dev eth0");
}

/* A socket in the container that has the port keeps its addresses out of the table. */
TEST_F(DoctorTest, ProgramInTheContainerHasThePort)
{
    enter_container("net1");
    expect(NamespaceCheck(), Level::warning, "netdev eth0 is in another network namespace");
    expect(PortCheck(), Level::problem, "a program has UDP port 4791", "ss -ulnp");
    expect(PortCheck(), Level::problem, "a program", "ip link set NETDEV down");
    EXPECT_TRUE(look(GidCheck()).empty());
    EXPECT_TRUE(look(TrafficCheck()).empty());
    remove("/proc/net/udp");
    expect(PortCheck(), Level::ok, "free");
}

TEST_F(DoctorTest, ExclusiveModeMayHideDevices)
{
    netlink.set_netns_exclusive(true);
    expect(NamespaceCheck(), Level::ok, "exclusive");
    remove_devices();
    expect(NamespaceCheck(), Level::warning, "netdev only", "ip netns exec");
    netlink.set_netns_exclusive(false);
    expect(NamespaceCheck(), Level::ok, "shared");
}

/* ---- GIDs ---- */

TEST_F(DoctorTest, NoGid)
{
    remove("/sys/class/infiniband/rox0/ports");
    add_gid("rox0", 0, ipv4, "IB/RoCE v1");
    expect(GidCheck(), Level::problem, "no GID", "ip address add");
}

TEST_F(DoctorTest, OnlyLinkLocalGids)
{
    add_gid("rox0", 0, link_local);
    expect(GidCheck(), Level::warning, "link-local GIDs only", "ip address add");
}

TEST_F(DoctorTest, OnlyIpv6Gids)
{
    add_gid("rox0", 0, link_local);
    add_gid("rox0", 1, ipv6);
    expect(GidCheck(), Level::warning, "IPv6 GIDs only (index 1 is fd00::1)", "ip address add");
}

TEST_F(DoctorTest, IndexZeroIsLinkLocal)
{
    add_gid("rox0", 0, link_local);
    add_gid("rox0", 11, ipv4);
    expect(GidCheck(), Level::note, "use GID index 11 (10.0.0.1)", "ib_write_bw -d rox0 -x 11");
}

TEST_F(DoctorTest, WrongGidIndexWasChosen)
{
    add_gid("rox0", 0, link_local);
    add_gid("rox0", 1, ipv4);
    options.gid_index = 0;
    expect(GidCheck(), Level::warning, "link-local (fe80::1): use index 1 (10.0.0.1)");
    options.gid_index = 5;
    expect(GidCheck(), Level::problem, "no GID of RoCE v2 with index 5: use index 1");
    options.gid_index = 1;
    expect(GidCheck(), Level::ok, "10.0.0.1");
}

TEST_F(DoctorTest, NoRdmaCmOnLoopback)
{
    add_gid("rox0", 1, ipv4);
    EXPECT_EQ(look(GidCheck()).size(), 1U);
    put("/sys/class/net/eth0/type", "772\n");
    Findings findings = look(GidCheck());
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[1].level, Level::warning);
    EXPECT_NE(findings[1].what.find("the RDMA CM takes no addresses"), std::string::npos)
        << findings[1].what;
}

TEST_F(DoctorTest, AnotherDeviceHasTheAddress)
{
    put("/sys/class/infiniband/mlx5_0/hca_type", "MT4119\n");
    add_gid("mlx5_0", 3, ipv6);
    add_gid("mlx5_0", 0, link_local);
    add_gid("rox0", 1, link_local);
    expect(AddressCheck(), Level::ok, "");
    add_gid("mlx5_0", 4, ipv4);
    expect(AddressCheck(), Level::warning, "mlx5_0 also has the address 10.0.0.1", "macvlan");
}

/* ---- what is around ---- */

TEST_F(DoctorTest, MtuIsSmall)
{
    put("/sys/class/net/eth0/mtu", "1119\n");
    expect(MtuCheck(), Level::warning, "leaves packets of 512 bytes", "mtu 1500");
    put("/sys/class/net/eth0/mtu", "1500\n");
    expect(MtuCheck(), Level::note, "packets of 1024 bytes", "mtu 4200");
}

TEST_F(DoctorTest, PeerHasASmallerMtu)
{
    options.peer = "10.0.0.2";
    network.longest = 1500;
    Findings findings = look(MtuCheck());
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[1].level, Level::problem);
    EXPECT_NE(findings[1].what.find("MTU 9000 do not get to 10.0.0.2, packets of 1500 bytes do"),
              std::string::npos)
        << findings[1].what;
    network.longest = 9000;
    EXPECT_EQ(look(MtuCheck())[1].level, Level::ok);
    EXPECT_EQ(network.used_netdev, "eth0");
    network.longest = 0;
    EXPECT_EQ(look(MtuCheck())[1].level, Level::warning);
    EXPECT_EQ(look(MtuCheck())[1].commands[0], "ping -c 1 -I eth0 10.0.0.2");
    network.has_ping = false;
    EXPECT_EQ(look(MtuCheck())[1].level, Level::note);
}

/* No length is told that did not get through. */
TEST_F(DoctorTest, PeerTakesShortPacketsOnly)
{
    options.peer = "10.0.0.2";
    network.longest = 1000;
    put("/sys/class/net/eth0/mtu", "1500\n");
    Finding finding = look(MtuCheck()).at(1);
    EXPECT_EQ(finding.level, Level::problem);
    EXPECT_NE(finding.what.find("MTU 1500 do not get to 10.0.0.2, nor do those of 1400, 1280"),
              std::string::npos)
        << finding.what;
    EXPECT_EQ(finding.commands[0].find("tracepath -n 10.0.0.2"), 0U) << finding.commands[0];
    put("/sys/class/net/eth0/mtu", "1280\n");
    finding = look(MtuCheck()).at(1);
    EXPECT_TRUE(finding.what.ends_with("MTU 1280 do not get to 10.0.0.2")) << finding.what;
}

TEST_F(DoctorTest, PeerIsReachedByTheNetdevOfTheAddress)
{
    options.peer = "10.0.5.2";
    add_gid("rox0", 7, ipv6, "RoCE v2", "vlan5");
    put("/sys/class/net/vlan5/type", "1\n");
    look(MtuCheck());
    EXPECT_EQ(network.used_netdev, "eth0");
    options.gid_index = 7;
    look(MtuCheck());
    EXPECT_EQ(network.used_netdev, "vlan5");
}

TEST_F(DoctorTest, MemlockIsLow)
{
    process.memlock = 8 << 20;
    expect(MemlockCheck(), Level::warning, "8192 KiB", "ulimit -l unlimited");
    process.may_lock_all = true;
    expect(MemlockCheck(), Level::ok, "");
}

TEST_F(DoctorTest, DeviceFilesAreMissing)
{
    remove("/dev/infiniband");
    const Findings findings = look(DeviceFileCheck());
    ASSERT_EQ(findings.size(), 2U);
    EXPECT_EQ(findings[0].level, Level::problem);
    EXPECT_NE(findings[0].what.find("uverbs0 is missing"), std::string::npos);
    EXPECT_NE(findings[0].commands[1].find("--device=/dev/infiniband"), std::string::npos);
    EXPECT_EQ(findings[1].level, Level::warning);
    EXPECT_EQ(findings[1].commands[0], "modprobe rdma_ucm");
}

/* Root may use all files. access(2) judges by the real user, who is an ordinary one meanwhile. */
TEST_F(DoctorTest, DeviceFileMayNotBeUsed)
{
    constexpr uid_t nobody = 65534;
    const bool as_root = getuid() == 0;
    const fs::path file = root / "dev/infiniband/uverbs0";
    const auto everybody = fs::perms::all & ~fs::perms::others_write;

    fs::permissions(root, everybody);
    fs::permissions(file, static_cast<fs::perms>(0666));
    fs::permissions(root / "dev/infiniband/rdma_cm", static_cast<fs::perms>(0666));
    ASSERT_EQ(as_root ? setresuid(nobody, 0, 0) : 0, 0);
    expect(DeviceFileCheck(), Level::ok, "may be read and written");
    fs::permissions(file, fs::perms::none);
    expect(DeviceFileCheck(), Level::problem, "may not read and write", "chmod a+rw");
    ASSERT_EQ(as_root ? setresuid(0, 0, 0) : 0, 0);
}

TEST_F(DoctorTest, SegmentationIsOffOnVirtio)
{
    const fs::path driver = root / "sys/bus/virtio/drivers/virtio_net";

    network.segmentation = false;
    expect(OffloadCheck(), Level::note, "tx-udp-segmentation is off");
    fs::create_directories(driver);
    fs::create_directories(root / "sys/class/net/eth0/device");
    fs::create_directory_symlink("../../../../bus/virtio/drivers/virtio_net",
                                 root / "sys/class/net/eth0/device/driver");
    expect(OffloadCheck(), Level::warning, "is off", "ethtool -K eth0 tx-udp-segmentation on");
    network.segmentation = std::nullopt;
    expect(OffloadCheck(), Level::note, "the host offers no", "host_uso=on");
}

/* ---- congestion ---- */

TEST_F(DoctorTest, CongestionInOrder)
{
    set_algorithm("dcqcn");
    set_counters({{"np_ecn_marked_roce_packets", 7},
                  {"rp_cnp_handled", 5},
                  {"rp_cnp_ignored", 3},
                  {"retransmitted_packets", 2}});
    expect(CongestionCheck(), Level::ok,
           "algorithm dcqcn; 7 packets came marked, 5 CNPs were obeyed");
    remove("/sys/class/infiniband/rox0/cc");
    expect(CongestionCheck(), Level::note, "has no congestion control");
}

TEST_F(DoctorTest, CnpsAreIgnored)
{
    set_counters({{"rp_cnp_ignored", 3}});
    expect(CongestionCheck(), Level::warning, "3 CNPs were ignored",
           "echo dcqcn >/sys/class/infiniband/rox0/cc/algorithm");
    set_algorithm("adaptive");
    expect(CongestionCheck(), Level::ok, "adaptive");
}

TEST_F(DoctorTest, NothingMarksWhatIsLost)
{
    set_algorithm("dcqcn");
    set_counters({{"retransmitted_packets", 12}});
    expect(CongestionCheck(), Level::warning, "12 packets were sent again, but no CNP came",
           "echo adaptive >");
    set_counters({{"retransmitted_packets", 12}, {"rp_cnp_ignored", 3}});
    expect(CongestionCheck(), Level::ok, "dcqcn");
    set_algorithm("adaptive");
    expect(CongestionCheck(), Level::ok, "adaptive");
    set_counters({{"retransmitted_packets", 12}});
    set_algorithm("none");
    expect(CongestionCheck(), Level::ok, "none");
}

/* As tc(8) prints them. What cannot mark, and what marks already, is right. */
TEST_F(DoctorTest, QueueIsToldNotToMark)
{
    set_algorithm("dcqcn");
    commands.outputs["tc"] =
        R"([{"kind":"mq","handle":"0:","root":true,"options":{}},)"
        R"({"kind":"fq_codel","handle":"0:","parent":":1","options":{"limit":10240,"ecn":true}}])";
    expect(CongestionCheck(), Level::ok, "dcqcn");
    commands.outputs["tc"] =
        R"([{"kind":"fq_codel","handle":"2:","parent":"1:1","options":{"limit":10240}}])";
    expect(CongestionCheck(), Level::warning, "fq_codel of eth0 drops where it could mark",
           "tc qdisc change dev eth0 parent 1:1 fq_codel ecn\n");
    commands.outputs["tc"] = R"([{"kind":"codel","handle":"2:","root":true,"options":{}}])";
    expect(CongestionCheck(), Level::warning, "codel", "tc qdisc change dev eth0 root codel ecn\n");
    set_algorithm("none");
    expect(CongestionCheck(), Level::ok, "none");
    set_algorithm("dcqcn");
    commands.outputs["tc"] = "no JSON";
    expect(CongestionCheck(), Level::ok, "dcqcn");
}

/* tc(8) refuses to change what has handle 0. */
TEST_F(DoctorTest, QueuesOfTheKernelAreReplaced)
{
    commands.outputs["tc"] = R"([{"kind":"codel","handle":"0:","root":true,"options":{}}])";
    set_algorithm("dcqcn");
    expect(CongestionCheck(), Level::warning, "codel",
           "tc qdisc replace dev eth0 root codel ecn\n");
    commands.outputs["tc"] =
        R"([{"kind":"mq","handle":"0:","root":true,"options":{}},)"
        R"({"kind":"codel","handle":"0:","parent":":a","options":{"limit":1000}}])";
    expect(CongestionCheck(), Level::warning, "codel",
           "tc qdisc replace dev eth0 root handle 1: mq\n"
           "tc qdisc replace dev eth0 parent 1:a codel ecn\n");
}

/* Of red tc(8) wants to know all again. */
TEST_F(DoctorTest, RedIsToldAllAgain)
{
    set_algorithm("dcqcn");
    commands.outputs["tc"] = R"([{"kind":"red","handle":"1:","root":true,"options":{)"
                             R"("limit":400000,"min":30000,"max":90000,"ewma":5,)"
                             R"("probability":0.05,"Scell_log":13}}])";
    expect(CongestionCheck(), Level::warning, "red of eth0",
           "tc qdisc change dev eth0 root red limit 400000 min 30000 max 90000 burst 51 "
           "avpkt 1000 probability 0.05 ecn\n");
    commands.outputs["tc"] =
        R"([{"kind":"red","handle":"2:","parent":"1:3","options":{"limit":60000,"adaptive":true}}])";
    expect(CongestionCheck(), Level::warning, "red of eth0",
           "tc qdisc change dev eth0 parent 1:3 red limit 60000 avpkt 1000 adaptive ecn\n");
}

/* As ip(8) prints it. */
TEST_F(DoctorTest, VlanWithoutPriorities)
{
    commands
        .outputs["ip"] = R"([{},{"ifname":"eth0","linkinfo":{"info_kind":"vlan",)"
                         R"("info_data":{"protocol":"802.1Q","id":5,"flags":["REORDER_HDR"]}}}])";
    expect(CongestionCheck(), Level::note, "the VLAN eth0 sends all packets with priority 0",
           "ip link set eth0 type vlan egress-qos-map");
    commands.outputs["ip"] = R"([{"ifname":"eth0","linkinfo":{"info_kind":"vlan",)"
                             R"("info_data":{"id":5,"egress_qos":[{"from":2,"to":3}]}}}])";
    expect(CongestionCheck(), Level::ok, "none");
    commands.outputs["ip"] = R"([{"ifname":"eth0","linkinfo":{"info_kind":"veth"}}])";
    expect(CongestionCheck(), Level::ok, "none");
}

TEST_F(DoctorTest, SelfTestUsesTheBestGidAndTellsItsFailure)
{
    add_gid("rox0", 0, link_local);
    add_gid("rox0", 2, ipv4);
    self_test.failure = "ibv_reg_mr: Cannot allocate memory";
    expect(TrafficCheck(), Level::problem, self_test.failure, "rdma resource show qp link rox0");
    EXPECT_EQ(self_test.used_index, 2U);
    options.self_test = false;
    EXPECT_TRUE(look(TrafficCheck()).empty());
}

/* ---- report ---- */

TEST_F(DoctorTest, JsonHasAllFindings)
{
    remove("/etc/libibverbs.d");
    const Report report = examine({files(), netlink, commands, network, self_test, process},
                                  options, {"provider", "gid"});
    const auto json = nlohmann::json::parse(as_json(report));

    EXPECT_EQ(json["level"], "problem");
    ASSERT_EQ(json["findings"].size(), 2U);
    EXPECT_EQ(json["findings"][0]["check"], "provider");
    EXPECT_FALSE(json["findings"][0]["commands"].empty());
    EXPECT_EQ(json["findings"][1]["level"], "ok");
}

TEST_F(DoctorTest, BriefTextHasProblemsOnly)
{
    remove("/etc/libibverbs.d");
    const Report report = examine({files(), netlink, commands, network, self_test, process},
                                  options);

    EXPECT_EQ(as_text(report, true).find("problem  provider"), 0U) << as_text(report, true);
    EXPECT_EQ(as_text(report, true).find("\nok"), std::string::npos);
}

} // namespace
} // namespace rox::doctor
