// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What monitoring reads of a device and its port: the files of sysfs that node_exporter,
/// Telegraf, netdata, ibstat and rdmatop read, and the port's performance management agent,
/// which is asked through /dev/infiniband/umad*.
#include <array>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/ib_user_mad.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/attribute.h"
#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/process.h"
#include "lib/rdmatool.h"

using namespace vt;

namespace {

/// ports/1/counters of the RDMA core; each is read by node_exporter (procfs' class_infiniband.go),
/// Telegraf (all that is in the folder) and netdata.
constexpr const char *kCounters[] = {
    "VL15_dropped",
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "multicast_rcv_packets",
    "multicast_xmit_packets",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_rcv_switch_relay_errors",
    "port_xmit_constraint_errors",
    "port_xmit_data",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
    "unicast_rcv_packets",
    "unicast_xmit_packets",
};

/// Of ports/1/hw_counters what the same programs look for and rox has; it has no slow restart, so
/// that roce_slow_restart* would count nothing.
constexpr const char *kHwCounters[] = {
    "duplicate_request",
    "implied_nak_seq_err",
    "lifespan",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "req_cqe_error",
    "req_cqe_flush_error",
    "req_remote_access_errors",
    "req_remote_invalid_request",
    "resp_cqe_error",
    "resp_cqe_flush_error",
    "resp_local_length_error",
    "resp_remote_access_errors",
    "rnr_nak_retry_err",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_atomic_requests",
    "rx_icrc_encapsulated",
    "rx_read_requests",
    "rx_write_requests",
};

/// The first line of a file; a failure if there is none.
std::string line_of(const std::filesystem::path &path)
{
    std::ifstream file(path);
    std::string line;
    EXPECT_TRUE(std::getline(file, line)) << path;
    return line;
}

/// The number that a whole line is.
std::uint64_t number_in(const std::filesystem::path &path)
{
    const std::string line = line_of(path);
    char *end = nullptr;
    errno = 0;
    const std::uint64_t value = std::strtoull(line.c_str(), &end, 10);
    EXPECT_TRUE(!errno && end != line.c_str() && !*end) << path << ": " << line;
    return value;
}

class Port : public PairTest {
protected:
    /// As the first namespace has it: in others a device has no counters.
    static std::filesystem::path device_folder(const End &end)
    {
        return "/proc/1/root/sys/class/infiniband/" + end.context.name();
    }
    static std::filesystem::path port_folder(const End &end)
    {
        return device_folder(end) / "ports/1";
    }
    static std::uint64_t counter(const End &end, const std::string &name)
    {
        return number_in(port_folder(end) / "counters" / name);
    }
    static std::map<std::string, std::uint64_t> counters(const End &end)
    {
        std::map<std::string, std::uint64_t> all;
        for (const char *name : kCounters)
            all[name] = counter(end, name);
        return all;
    }
    /// @p count messages of 2,500 bytes, three packets and an ACK each, one by one.
    void send(int count)
    {
        for (int i = 0; i < count; i++) {
            b.qp->post_recv(1, {far.sge(0, 4096)});
            a.qp->post(SendWr::send({near.sge(0, 2500)}).id(2));
            ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
            ASSERT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
        }
    }
    /// Are @p after - @p before these numbers, and all others what they were?
    static void expect_moved(const std::map<std::string, std::uint64_t> &before,
                             const std::map<std::string, std::uint64_t> &after,
                             std::map<std::string, std::uint64_t> by)
    {
        for (const auto &[name, value] : before)
            EXPECT_EQ(after.at(name) - value, by[name]) << name;
    }

    Buffer near = a.buffer(8192);
    Buffer far = b.buffer(8192);
};

/// Words of a message with its headers: BTH and ICRC of three packets. And of an ACK, with its
/// AETH.
constexpr std::uint64_t kMessageWords = (3 * 16 + 2500) / 4;
constexpr std::uint64_t kAckWords = 20 / 4;

TEST_F(Port, FilesThatExportersRead)
{
    for (const char *name : kCounters)
        number_in(port_folder(a) / "counters" / name);
    for (const char *name : kHwCounters)
        number_in(port_folder(a) / "hw_counters" / name);
    EXPECT_EQ(line_of(port_folder(a) / "state"), "4: ACTIVE");
    EXPECT_EQ(line_of(port_folder(a) / "phys_state"), "5: LinkUp");
    EXPECT_EQ(line_of(port_folder(a) / "link_layer"), "Ethernet");
    // "10 Gb/sec (4X SDR)": a number, and the rest after one blank.
    const std::string rate = line_of(port_folder(a) / "rate");
    char *end = nullptr;
    EXPECT_GT(std::strtod(rate.c_str(), &end), 0) << rate;
    EXPECT_TRUE(std::string(end).starts_with(" Gb/sec (")) << rate;

    for (const char *name : {"fw_ver", "hca_type", "board_id", "hw_rev", "node_desc"})
        EXPECT_FALSE(line_of(device_folder(a) / name).empty()) << name;
    EXPECT_EQ(line_of(device_folder(a) / "node_type"), "1: CA");
    EXPECT_EQ(line_of(device_folder(a) / "hca_type"), "rox");
    EXPECT_EQ(line_of(device_folder(a) / "board_id"), "rox");
    // Programs tell a device that is none of PCI by this.
    EXPECT_NE(std::filesystem::canonical(device_folder(a)).string().find("/virtual/"),
              std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(device_folder(a) / "device"));
}

/// Packets that lo of this namespace has sent.
std::uint64_t packets_of_lo()
{
    std::ifstream file("/proc/net/dev");
    std::string line;
    while (std::getline(file, line)) {
        std::istringstream words(line);
        std::string word;
        if (!(words >> word) || word != "lo:")
            continue;
        std::uint64_t number = 0;
        for (int column = 0; column < 10; column++)
            words >> number;
        return number;
    }
    ADD_FAILURE() << "no lo in /proc/net/dev";
    return 0;
}

/// The module's parameter for one device: without loopback its QPs talk through lo.
TEST_F(Port, LoopbackIsSwitchedOffForOneDevice)
{
    End other{device_a()};
    a.qp = std::make_unique<Qp>(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
    other.qp = std::make_unique<Qp>(other.pd.get(), other.send_cq.get(), other.recv_cq.get());
    vt::connect(a.context, *a.qp, other.context, *other.qp);
    const Buffer there = other.buffer(4096);
    const auto packets = [&] {
        const std::uint64_t before = packets_of_lo();
        a.qp->post(SendWr::write({near.sge(0, 64)}, remote(there)).id(1));
        EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
        return packets_of_lo() - before;
    };
    EXPECT_EQ(packets(), 0u);
    const std::string loopback = attribute(a.context.name(), "loopback");
    ASSERT_EQ(write_attribute(loopback, "0"), 0);
    EXPECT_EQ(line_of(device_folder(a) / "loopback"), "0");
    EXPECT_GE(packets(), 2u) << "the request and its ACK";
    ASSERT_EQ(write_attribute(loopback, "-1"), 0);
    EXPECT_EQ(packets(), 0u);
    EXPECT_EQ(write_attribute(loopback, "2"), EINVAL);
    EXPECT_EQ(write_attribute(loopback, "N"), EINVAL);
}

TEST_F(Port, ParentIsTheNetdev)
{
    const std::string netdev = variable("ROX_NETDEV_A");
    ASSERT_FALSE(netdev.empty());
    EXPECT_EQ(line_of(device_folder(a) / "parent"), netdev);
}

TEST_F(Port, DataIsCountedInWordsWithItsHeaders)
{
    start();
    const auto before = counters(a), peer = counters(b);
    send(10);
    const auto after = counters(a);
    if (one_device()) {
        expect_moved(before, after,
                     {{"port_xmit_data", 10 * (kMessageWords + kAckWords)},
                      {"port_rcv_data", 10 * (kMessageWords + kAckWords)},
                      {"port_xmit_packets", 40},
                      {"port_rcv_packets", 40},
                      {"unicast_xmit_packets", 40},
                      {"unicast_rcv_packets", 40}});
        return;
    }
    expect_moved(before, after,
                 {{"port_xmit_data", 10 * kMessageWords},
                  {"port_rcv_data", 10 * kAckWords},
                  {"port_xmit_packets", 30},
                  {"port_rcv_packets", 10},
                  {"unicast_xmit_packets", 30},
                  {"unicast_rcv_packets", 10}});
    expect_moved(peer, counters(b),
                 {{"port_xmit_data", 10 * kAckWords},
                  {"port_rcv_data", 10 * kMessageWords},
                  {"port_xmit_packets", 10},
                  {"port_rcv_packets", 30},
                  {"unicast_xmit_packets", 10},
                  {"unicast_rcv_packets", 30}});
}

/// Reads have headers of their own; nothing is lost of what is not a multiple of 4.
TEST_F(Port, ReadsWritesAndPad)
{
    start();
    const auto before = counters(a);
    a.qp->post(SendWr::write({near.sge(0, 5)}, remote(far)).id(1));
    ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    a.qp->post(SendWr::read({near.sge(0, 1500)}, remote(far)).id(2));
    ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
    // RETH 16 and pad 3; the ACK; RETH; AETH in both packets of the response.
    const std::uint64_t asked = (16 + 16 + 8) / 4 + (16 + 16) / 4;
    const std::uint64_t answered = kAckWords + (2 * (16 + 4) + 1500) / 4;
    const auto after = counters(a);
    EXPECT_EQ(after.at("port_xmit_data") - before.at("port_xmit_data"),
              one_device() ? asked + answered : asked);
    EXPECT_EQ(after.at("port_rcv_data") - before.at("port_rcv_data"),
              one_device() ? asked + answered : answered);
}

/// `rdma statistic` shows what a QP counts by itself apart; to the port it is all the same.
TEST_F(Port, QpsWithACounterOfTheirOwnCount)
{
    start();
    const std::string link = "link " + a.context.name() + "/1";
    const std::string lqpn = " lqpn " + std::to_string(a.qp->number());
    const std::uint64_t before = counter(a, "port_xmit_packets");
    const std::uint64_t acks = one_device() ? 1 : 0;
    send(1);
    ASSERT_EQ(shell("exec rdma statistic qp bind " + link + lqpn), 0);
    send(2);
    EXPECT_EQ(counter(a, "port_xmit_packets") - before, 3 * (3 + acks));
    const Records bound = rdma_tool("statistic qp show " + link);
    ASSERT_EQ(bound.size(), 1u);
    ASSERT_EQ(
        shell("exec rdma statistic qp unbind " + link + " cntn " + bound[0].text("cntn") + lqpn),
        0);
    EXPECT_EQ(counter(a, "port_xmit_packets") - before, 3 * (3 + acks));
    send(4);
    EXPECT_EQ(counter(a, "port_xmit_packets") - before, 7 * (3 + acks));
}

/// One packet to a group is one, however many QPs hear it.
TEST_F(Port, Multicast)
{
    start({.type = IBV_QPT_UD});
    ibv_gid gid = {};
    const std::uint8_t address[] = {0xff, 0xff, 239, 9, 8, 7};
    std::memcpy(gid.raw + 10, address, sizeof(address));
    Qp second(b.pd.get(), b.send_cq.get(), b.recv_cq.get(), QpConfig{.type = IBV_QPT_UD});
    second.to_init({});
    second.to_rtr({}, {}, 0);
    ASSERT_EQ(ibv_attach_mcast(b.qp->get(), &gid, 0), 0);
    ASSERT_EQ(ibv_attach_mcast(second.get(), &gid, 0), 0);

    ibv_ah_attr attr = {};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = gid;
    attr.grh.hop_limit = 1;
    attr.grh.sgid_index = static_cast<std::uint8_t>(a.context.gid_index());
    Ah ah(need(ibv_create_ah(a.pd.get(), &attr), "ibv_create_ah"));

    const auto before = counters(a), peer = counters(b);
    for (int i = 0; i < 5; i++) {
        b.qp->post_recv(1, {far.sge(0, 4096)});
        second.post_recv(1, {far.sge(4096, 4096)});
        a.qp->post(SendWr::send({near.sge(0, 100)}).id(2).to(ah.get(), 0xffffff, Params{}.qkey));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND));
        ASSERT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
        ASSERT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    }
    const auto sent = counters(a), received = counters(b);
    // BTH, DETH, ICRC
    const std::uint64_t words = 5 * (16 + 8 + 100) / 4;
    EXPECT_EQ(sent.at("multicast_xmit_packets") - before.at("multicast_xmit_packets"), 5u);
    EXPECT_EQ(sent.at("unicast_xmit_packets"), before.at("unicast_xmit_packets"));
    EXPECT_EQ(sent.at("port_xmit_packets") - before.at("port_xmit_packets"), 5u);
    EXPECT_EQ(sent.at("port_xmit_data") - before.at("port_xmit_data"), words);
    EXPECT_EQ(received.at("multicast_rcv_packets") - peer.at("multicast_rcv_packets"), 5u);
    EXPECT_EQ(received.at("unicast_rcv_packets"), peer.at("unicast_rcv_packets"));
    EXPECT_EQ(received.at("port_rcv_packets") - peer.at("port_rcv_packets"), 5u);
    EXPECT_EQ(received.at("port_rcv_data") - peer.at("port_rcv_data"), words);
    EXPECT_EQ(ibv_detach_mcast(second.get(), &gid, 0), 0);
    EXPECT_EQ(ibv_detach_mcast(b.qp->get(), &gid, 0), 0);
}

/// rdmatop, and others that were made for bnxt_re, know these names.
TEST_F(Port, NamesThatRdmatopReads)
{
    start();
    const Record before = port_counters(a.context.name());
    send(4);
    const Record after = port_counters(a.context.name());
    const std::uint64_t both = one_device() ? 16 : 0;
    const auto moved = [&](const char *name) { return after.number(name) - before.number(name); };
    EXPECT_EQ(moved("tx_pkts"), both ? both : 12);
    EXPECT_EQ(moved("rx_pkts"), both ? both : 4);
    EXPECT_EQ(moved("tx_bytes"), 4u * 2500);
    EXPECT_EQ(moved("rx_bytes"), one_device() ? 4u * 2500 : 0u);
    EXPECT_EQ(moved("rx_drops"), 0u);
}

/// What is not RoCE on its port: dropped, and an error of the port.
TEST_F(Port, ErrorsMove)
{
    const std::string address = variable("ROX_ADDR_A");
    ASSERT_FALSE(address.empty());
    const std::uint64_t before = counter(a, "port_rcv_errors");
    const std::uint64_t drops = port_counter(a.context.name(), "rx_drops");
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(4791);
    ASSERT_EQ(inet_pton(AF_INET, address.c_str(), &to.sin_addr), 1);
    const int fd = socket(AF_INET, SOCK_DGRAM, 0);
    ASSERT_GE(fd, 0);
    const std::array<char, 64> junk = {'\xff', '\xff'};
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(sendto(fd, junk.data(), junk.size(), 0, reinterpret_cast<const sockaddr *>(&to),
                         sizeof(to)),
                  static_cast<ssize_t>(junk.size()));
    close(fd);
    EXPECT_EQ(counter(a, "port_rcv_errors") - before, 3u);
    EXPECT_EQ(port_counter(a.context.name(), "rx_drops") - drops, 3u);
}

/// ibstat reads sysfs.
TEST_F(Port, Ibstat)
{
    std::string output;
    ASSERT_EQ(shell("exec ibstat " + a.context.name(), &output), 0) << output;
    for (const char *wanted : {"CA type: rox", "Number of ports: 1", "Hardware version: 1",
                               "State: Active", "Physical state: LinkUp", "Link layer: Ethernet"})
        EXPECT_NE(output.find(wanted), std::string::npos) << wanted << " in " << output;
}

/// perfquery begins with an agent for subnet management, which no RoCE port has, and addresses by
/// LID: it fails on each, before it asks the driver anything.
TEST_F(Port, PerfqueryNeedsSubnetManagement)
{
    std::string output;
    EXPECT_NE(shell("exec timeout 30 perfquery -C " + a.context.name() + " -P 1 2>&1", &output), 0);
    EXPECT_NE(output.find("client_register for mgmt 1 failed"), std::string::npos) << output;
}

/* ---- the agent itself ---- */

constexpr std::uint8_t kGet = 1, kSet = 2, kGetResp = 0x81;
constexpr std::uint16_t kClassPortInfo = 1, kPortCounters = 0x12, kPortCountersExt = 0x1d;
/// Offsets in a datagram.
constexpr std::size_t kMethod = 3, kStatus = 4, kAttribute = 16, kData = 64;
constexpr std::size_t kMadSize = 256;

using Mad = std::array<std::uint8_t, kMadSize>;

std::uint64_t field(const Mad &mad, std::size_t offset, std::size_t size)
{
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < size; i++)
        value = value << 8 | mad.at(offset + i);
    return value;
}

/// A client of the performance management class on a device's port.
class Umad {
public:
    explicit Umad(const Context &context) : context_(context)
    {
        for (const auto &entry : std::filesystem::directory_iterator("/sys/class/infiniband_mad")) {
            if (!std::filesystem::exists(entry.path() / "ibdev") ||
                line_of(entry.path() / "ibdev") != context.name() ||
                !entry.path().filename().string().starts_with("umad"))
                continue;
            const std::string path = "/dev/infiniband/" + entry.path().filename().string();
            fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
            EXPECT_GE(fd_, 0) << path << ": " << std::strerror(errno);
        }
        EXPECT_GE(fd_, 0) << "no umad device of " << context.name();
        EXPECT_EQ(ioctl(fd_, IB_USER_MAD_ENABLE_PKEY), 0);
        ib_user_mad_reg_req request = {};
        request.qpn = 1;
        request.mgmt_class = 4;
        request.mgmt_class_version = 1;
        EXPECT_EQ(ioctl(fd_, IB_USER_MAD_REGISTER_AGENT, &request), 0) << std::strerror(errno);
        agent_ = request.id;
    }
    ~Umad() { close(fd_); }
    Umad(const Umad &) = delete;
    Umad &operator=(const Umad &) = delete;

    /// Asks the port of @p to; the answer is in @p answer. By IPv6: the RDMA core finds the
    /// request of an answer by the address in its GRH, where it does not look for IPv4's.
    void ask(const Context &to, std::uint8_t method, std::uint16_t attribute, Mad &answer,
             std::uint8_t port = 1, std::uint16_t select = 0, std::uint8_t version = 1)
    {
        struct {
            ib_user_mad_hdr hdr;
            Mad mad;
        } message = {};
        static_assert(sizeof(message) == sizeof(ib_user_mad_hdr) + kMadSize);

        const ibv_gid gid = to.gid(Family::V6);
        message.hdr.id = agent_;
        message.hdr.timeout_ms = 10000;
        message.hdr.qpn = htonl(1);
        message.hdr.qkey = htonl(0x80010000);
        message.hdr.grh_present = 1;
        message.hdr.gid_index = static_cast<std::uint8_t>(context_.gid_index(Family::V6));
        message.hdr.hop_limit = 64;
        std::memcpy(message.hdr.gid, gid.raw, sizeof(gid.raw));
        message.mad[0] = 1;
        message.mad[1] = 4;
        message.mad[2] = version;
        message.mad[kMethod] = method;
        message.mad[15] = ++tid_;
        message.mad[kAttribute + 1] = static_cast<std::uint8_t>(attribute);
        message.mad[kData + 1] = port;
        message.mad[kData + 2] = static_cast<std::uint8_t>(select >> 8);
        message.mad[kData + 3] = static_cast<std::uint8_t>(select);
        ASSERT_EQ(write(fd_, &message, sizeof(message)), static_cast<ssize_t>(sizeof(message)))
            << std::strerror(errno);

        pollfd wait = {.fd = fd_, .events = POLLIN, .revents = 0};
        ASSERT_EQ(poll(&wait, 1, 20000), 1) << "no answer";
        ASSERT_EQ(read(fd_, &message, sizeof(message)), static_cast<ssize_t>(sizeof(message)));
        ASSERT_EQ(message.hdr.status, 0u) << "no answer came in time";
        answer = message.mad;
        EXPECT_EQ(answer[kMethod], kGetResp);
        EXPECT_EQ(answer[15], tid_);
    }

private:
    const Context &context_;
    int fd_ = -1;
    std::uint32_t agent_ = 0;
    std::uint8_t tid_ = 0;
};

TEST_F(Port, AgentAnswers)
{
    start();
    send(30);
    Umad umad(a.context);
    Mad mad;

    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kGet, kClassPortInfo, mad));
    EXPECT_EQ(field(mad, kStatus, 2), 0u);
    EXPECT_EQ(field(mad, kData, 1), 1u) << "base version";
    EXPECT_EQ(field(mad, kData + 1, 1), 1u) << "class version";
    EXPECT_EQ(field(mad, kData + 2, 2), 0x0300u) << "AllPortSelect and extended width";

    // The datagrams themselves are counted as well.
    const std::uint64_t least = counter(b, "port_rcv_packets");
    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kGet, kPortCountersExt, mad));
    EXPECT_EQ(field(mad, kStatus, 2), 0u);
    EXPECT_EQ(field(mad, kData + 1, 1), 1u) << "port";
    EXPECT_GT(field(mad, kData + 32, 8), least);
    EXPECT_LT(field(mad, kData + 32, 8), least + 10);
    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kGet, kPortCounters, mad, 0xff));
    EXPECT_EQ(field(mad, kStatus, 2), 0u);
    EXPECT_GE(field(mad, kData + 36, 4), 90u) << "packets received";
}

TEST_F(Port, AgentRefuses)
{
    Umad umad(a.context);
    Mad mad;

    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kGet, 0x77, mad));
    EXPECT_EQ(field(mad, kStatus, 2), 0x0cu) << "attribute";
    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kGet, kPortCounters, mad, 2));
    EXPECT_EQ(field(mad, kStatus, 2), 0x1cu) << "port";
    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kSet, kClassPortInfo, mad));
    EXPECT_EQ(field(mad, kStatus, 2), one_device() ? 0x0cu : 0x08u) << "Set of ClassPortInfo";
}

/// Those that are selected begin again, and no others; sysfs shows the extended ones.
TEST_F(Port, AgentSetsBackWhatIsSelected)
{
    start();
    send(30);
    Umad umad(a.context);
    Mad mad;

    ASSERT_NO_FATAL_FAILURE(umad.ask(a.context, kSet, kPortCountersExt, mad, 1, 1 << 2));
    EXPECT_EQ(field(mad, kStatus, 2), 0u);
    EXPECT_LT(counter(a, "port_xmit_packets"), 10u);
    EXPECT_GE(counter(a, "unicast_xmit_packets"), 90u);
    EXPECT_GE(counter(a, "port_xmit_data"), 30 * kMessageWords);
    EXPECT_GE(port_counter(a.context.name(), "tx_packets"), 90u);
    ASSERT_NO_FATAL_FAILURE(umad.ask(a.context, kGet, kPortCounters, mad));
    EXPECT_GE(field(mad, kData + 32, 4), 90u) << "the others have a count of their own";

    // Packets sent and received, bits 14 and 15.
    ASSERT_NO_FATAL_FAILURE(umad.ask(a.context, kSet, kPortCounters, mad, 1, 0xc000));
    EXPECT_EQ(field(mad, kStatus, 2), 0u);
    EXPECT_EQ(field(mad, kData + 32, 4), 0u);
    EXPECT_EQ(field(mad, kData + 36, 4), 0u);
    EXPECT_GE(field(mad, kData + 24, 4), 30 * kMessageWords);
    if (one_device())
        return;

    // Another host may ask, but not set back.
    ASSERT_NO_FATAL_FAILURE(umad.ask(b.context, kSet, kPortCountersExt, mad, 1, 0xff));
    EXPECT_EQ(field(mad, kStatus, 2), 0x08u);
    EXPECT_GE(counter(b, "port_rcv_packets"), 90u);
}

} // namespace
