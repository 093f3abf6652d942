// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What two QPs of one device say to each other without a wire, as a netdev of the kind roxcap
/// shows it: packet for packet as a network would have carried it.
#include "../verbs/lib/thread.h"
#include "lib/line.h"

#include <cstdlib>
#include <fstream>

#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

using namespace wire;
using vt::is;
using vt::SendWr;

namespace {

constexpr std::size_t kEthernet = 14;
constexpr unsigned kWhole = 4224;

void shell(const std::string &command)
{
    if (std::system(command.c_str()))
        vt::fail(command);
}

/// A netdev, up, that shows packets in the test's network namespace.
class Mirror {
public:
    explicit Mirror(std::string netdev, unsigned most = kWhole) : name(std::move(netdev))
    {
        shell("ip link add " + name + " mtu " + std::to_string(most) + " up type roxcap");
    }
    ~Mirror() { EXPECT_EQ(std::system(("ip link delete " + name).c_str()), 0); }
    Mirror(const Mirror &) = delete;
    Mirror &operator=(const Mirror &) = delete;

    std::uint64_t packets() const
    {
        std::ifstream file("/sys/class/net/" + name + "/statistics/rx_packets");
        std::uint64_t count = UINT64_MAX;
        file >> count;
        return count;
    }

    const std::string name;
};

/// A packet socket on it.
class Reader {
public:
    explicit Reader(const Mirror &mirror)
        : fd_(socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_ALL)))
    {
        const int size = 8 << 20;
        sockaddr_ll address{};
        address.sll_family = AF_PACKET;
        address.sll_protocol = htons(ETH_P_ALL);
        address.sll_ifindex = static_cast<int>(if_nametoindex(mirror.name.c_str()));
        if (fd_ < 0 || setsockopt(fd_, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) ||
            bind(fd_, reinterpret_cast<sockaddr *>(&address), sizeof(address)))
            vt::fail("packet socket on " + mirror.name, errno);
        // What came to the socket before it was bound.
        while (next(0)) {
        }
    }
    ~Reader() { close(fd_); }
    Reader(const Reader &) = delete;
    Reader &operator=(const Reader &) = delete;

    /// The next packet, as it is; none if none comes in time.
    std::optional<Octets> next(int milliseconds)
    {
        Octets bytes(8192);
        pollfd file{.fd = fd_, .events = POLLIN, .revents = 0};
        if (poll(&file, 1, milliseconds) <= 0)
            return std::nullopt;
        auto got = recv(fd_, bytes.data(), bytes.size(), 0);
        if (got < 0)
            vt::fail("recv", errno);
        bytes.resize(static_cast<std::size_t>(got));
        return bytes;
    }
    Octets get()
    {
        auto bytes = next(10000);
        if (!bytes)
            vt::fail("there came no packet");
        return *bytes;
    }
    bool silent() { return !next(200); }

private:
    int fd_;
};

class Mirrored : public vt::PairTest, public testing::WithParamInterface<vt::Family> {
protected:
    Mirrored()
    {
        params.mtu = IBV_MTU_256;
        params.family = GetParam();
        const ibv_gid gid = a.context.gid(params.family);
        std::copy(std::begin(gid.raw), std::end(gid.raw), route.source.begin());
        route.target = route.source;
        vt::fill(from.bytes(), 5);
    }

    void open(ibv_qp_type type = IBV_QPT_RC)
    {
        vt::QpConfig config;
        config.type = type;
        config.inline_data = 128;
        start(config, params);
    }
    void post(std::uint32_t count)
    {
        for (std::uint32_t i = 0; i < count; i++)
            b.qp->post_recv(i, {to.sge(0, 4096)});
        receives += count;
    }
    void done(SendWr wr)
    {
        a.qp->post(wr.id(7));
        ASSERT_EQ(a.send_cq.one().status, IBV_WC_SUCCESS);
    }

    /// The packet from a to b.
    Packet request(std::uint8_t opcode, std::uint32_t number, Octets extension = {},
                   Octets payload = {}) const
    {
        Packet packet{.opcode = opcode,
                      .qpn = b.qp->number(),
                      .psn = psn_add(params.psn, number),
                      .extension = std::move(extension),
                      .payload = std::move(payload)};
        packet.udp_checksum = params.family == vt::Family::V6;
        return packet;
    }
    /// The one that asks for an ACK.
    Packet last(std::uint8_t opcode, std::uint32_t number, Octets extension = {},
                Octets payload = {}) const
    {
        Packet packet = request(opcode, number, std::move(extension), std::move(payload));
        packet.ack = true;
        return packet;
    }
    /// The answer of b to a.
    Packet answer(std::uint8_t opcode, std::uint32_t number, Octets extension,
                  Octets payload = {}) const
    {
        Packet packet = request(opcode, number, std::move(extension), std::move(payload));
        packet.qpn = a.qp->number();
        return packet;
    }
    Octets acked(std::uint32_t msn) const { return aeth(credit_code(receives), msn); }
    Octets sent(std::size_t offset, std::size_t length) const
    {
        const auto bytes = from.bytes(offset, length);
        return {bytes.begin(), bytes.end()};
    }

    /// The bytes of a packet that somebody on a network would see, from the IP header on. Only its
    /// UDP source port is taken from what @p came.
    Octets bytes_of(Packet packet, const Octets &came) const
    {
        const std::size_t udp = params.family == vt::Family::V6 ? 40 : 20;
        if (came.size() > udp + 2)
            packet.source_port = static_cast<std::uint16_t>(came[udp] << 8 | came[udp + 1]);
        Octets frame = encode(route, packet);
        return {frame.begin() + kEthernet, frame.end()};
    }
    void shows(Reader &reader, const Packet &packet) const
    {
        const Octets came = reader.get();
        const Octets wanted = bytes_of(packet, came);
        ASSERT_TRUE(vt::same(came, wanted)) << describe(packet);
    }

    vt::Params params;
    Route route;
    std::uint32_t receives = 0;
    vt::Buffer from = a.buffer(1 << 16);
    vt::Buffer to = b.buffer(1 << 16);
    Mirror mirror{"roxcap7"};
};

INSTANTIATE_TEST_SUITE_P(, Mirrored, testing::Values(vt::Family::V4, vt::Family::V6),
                         [](const auto &info) {
                             return info.param == vt::Family::V4 ? std::string("V4") : "V6";
                         });

TEST_P(Mirrored, SendOfSeveralPackets)
{
    open();
    post(4);
    Reader reader(mirror);
    done(SendWr::send({from.sge(0, 100), from.sge(1000, 501)}).imm(0x12345678).solicited());
    receives--;
    shows(reader, request(kSendFirst, 0, {}, sent(0, 100) + sent(1000, 156)));
    shows(reader, request(kSendMiddle, 1, {}, sent(1156, 256)));
    Packet end = last(kSendLastImm, 2, word(0x12345678), sent(1412, 89));
    end.solicited = true;
    shows(reader, end);
    shows(reader, answer(kAck, 2, acked(1)));
    EXPECT_TRUE(reader.silent());
    EXPECT_TRUE(is(b.recv_cq.one(), 0, IBV_WC_RECV));
    EXPECT_TRUE(vt::same(to.bytes(0, 100), from.bytes(0, 100)));
    EXPECT_TRUE(vt::same(to.bytes(100, 501), from.bytes(1000, 501)));
}

TEST_P(Mirrored, WriteAndItsInlinePayload)
{
    open();
    Reader reader(mirror);
    done(SendWr::write({from.sge(3, 77)}, vt::remote(to, 9)).inlined());
    shows(reader, last(kWriteOnly, 0, reth(to.address(9), to.rkey(), 77), sent(3, 77)));
    shows(reader, answer(kAck, 0, acked(1)));
    done(SendWr::write({from.sge(0, 300)}, vt::remote(to, 100)));
    shows(reader, request(kWriteFirst, 1, reth(to.address(100), to.rkey(), 300), sent(0, 256)));
    shows(reader, last(kWriteLast, 2, {}, sent(256, 44)));
    shows(reader, answer(kAck, 2, acked(2)));
    EXPECT_TRUE(reader.silent());
    EXPECT_TRUE(vt::same(to.bytes(100, 300), from.bytes(0, 300)));
}

TEST_P(Mirrored, ReadAndItsResponses)
{
    open();
    vt::fill(to.bytes(), 6);
    const auto there = [&](std::size_t offset, std::size_t length) {
        const auto bytes = to.bytes(offset, length);
        return Octets(bytes.begin(), bytes.end());
    };
    Reader reader(mirror);
    done(SendWr::read({from.sge(0, 700)}, vt::remote(to, 50)));
    shows(reader, last(kReadRequest, 0, reth(to.address(50), to.rkey(), 700)));
    shows(reader, answer(kReadFirst, 0, acked(1), there(50, 256)));
    shows(reader, answer(kReadMiddle, 1, {}, there(306, 256)));
    shows(reader, answer(kReadLast, 2, acked(1), there(562, 188)));
    EXPECT_TRUE(reader.silent());
    EXPECT_TRUE(vt::same(from.bytes(0, 700), to.bytes(50, 700)));
}

TEST_P(Mirrored, Atomics)
{
    open();
    to.word(8) = 40;
    Reader reader(mirror);
    done(SendWr::fetch_add(from.sge(0, 8), vt::remote(to, 8), 2));
    shows(reader, last(kFetchAdd, 0, atomic_eth(to.address(8), to.rkey(), 2, 0)));
    shows(reader, answer(kAtomicAck, 0, acked(1) + atomic_ack_eth(40)));
    done(SendWr::compare_swap(from.sge(0, 8), vt::remote(to, 8), 42, 7));
    shows(reader, last(kCompareSwap, 1, atomic_eth(to.address(8), to.rkey(), 7, 42)));
    shows(reader, answer(kAtomicAck, 1, acked(2) + atomic_ack_eth(42)));
    EXPECT_TRUE(reader.silent());
    EXPECT_EQ(to.word(8), 7U);
}

TEST_P(Mirrored, Datagram)
{
    open(IBV_QPT_UD);
    post(2);
    const vt::Ah way = ah(a, b, params);
    Reader reader(mirror);
    done(SendWr::send({from.sge(0, 201)}).to(way.get(), b.qp->number(), params.qkey));
    shows(reader, request(kUd | kSendOnly, 0, deth(params.qkey, a.qp->number()), sent(0, 201)));
    EXPECT_TRUE(reader.silent());
    EXPECT_TRUE(is(b.recv_cq.one(), 0, IBV_WC_RECV));
}

/// A request that the peer refuses is shown, and so is the refusal.
TEST_P(Mirrored, Refusal)
{
    open();
    Reader reader(mirror);
    a.qp->post(SendWr::write({from.sge(0, 16)}, {to.address(), to.rkey() ^ 0x100}).id(7));
    EXPECT_EQ(a.send_cq.one().status, IBV_WC_REM_ACCESS_ERR);
    shows(reader, last(kWriteOnly, 0, reth(to.address(), to.rkey() ^ 0x100, 16), sent(0, 16)));
    shows(reader, answer(kAck, 0, aeth(kNakAccess, 0)));
}

/// Full bursts, with a work request behind them, go out in order.
TEST_P(Mirrored, LongMessage)
{
    constexpr std::uint32_t length = 60000;
    constexpr std::uint32_t packets = (length + kMtu - 1) / kMtu;

    open();
    Reader reader(mirror);
    done(SendWr::write({from.sge(0, length)}, vt::remote(to)));
    for (std::uint32_t i = 0; i < packets; i++) {
        const bool ends = i == packets - 1;
        Packet packet = request(i == 0 ? kWriteFirst
                                : ends ? kWriteLast
                                       : kWriteMiddle,
                                i, i == 0 ? reth(to.address(), to.rkey(), length) : Octets{},
                                sent(std::size_t{i} * kMtu, ends ? length - i * kMtu : kMtu));
        packet.ack = ends;
        ASSERT_NO_FATAL_FAILURE(shows(reader, packet)) << "packet " << i;
    }
    shows(reader, answer(kAck, packets - 1, acked(1)));
}

/// The MTU of the netdev limits what is copied. Lengths in the headers are those of the packet.
TEST_P(Mirrored, OnlyTheBeginning)
{
    open();
    const Mirror brief("roxcap8", 128);
    Reader reader(brief);
    Reader all(mirror);
    done(SendWr::write({from.sge(0, 500)}, vt::remote(to)));
    for (const auto &packet :
         {request(kWriteFirst, 0, reth(to.address(), to.rkey(), 500), sent(0, 256)),
          last(kWriteLast, 1, {}, sent(256, 244))}) {
        const Octets whole = all.get();
        const Octets came = reader.get();
        ASSERT_TRUE(vt::same(whole, bytes_of(packet, whole)));
        ASSERT_EQ(came.size(), 128U);
        Octets wanted(whole.begin(), whole.begin() + 128);
        if (params.family == vt::Family::V6) // The checksum is that of the whole packet.
            wanted[46] = wanted[47] = 0;
        EXPECT_TRUE(vt::same(came, wanted));
    }
    shows(reader, answer(kAck, 1, acked(1)));
    EXPECT_NE(std::system(("ip link set " + brief.name + " mtu 200 2>/dev/null").c_str()), 0);
}

TEST_P(Mirrored, TwoReaders)
{
    open();
    Reader one(mirror);
    Reader two(mirror);
    done(SendWr::write({from.sge(0, 16)}, vt::remote(to)));
    for (Reader *reader : {&one, &two}) {
        shows(*reader, last(kWriteOnly, 0, reth(to.address(), to.rkey(), 16), sent(0, 16)));
        shows(*reader, answer(kAck, 0, acked(1)));
    }
}

TEST_P(Mirrored, NothingIsCopiedWithoutReader)
{
    open();
    const std::uint64_t before = mirror.packets();
    done(SendWr::write({from.sge(0, 16)}, vt::remote(to)));
    EXPECT_EQ(mirror.packets(), before);
    {
        Reader reader(mirror);
        done(SendWr::write({from.sge(0, 16)}, vt::remote(to)));
        EXPECT_EQ(mirror.packets(), before + 2);
    }
    done(SendWr::write({from.sge(0, 16)}, vt::remote(to)));
    EXPECT_EQ(mirror.packets(), before + 2);
}

/// Who looks from another network namespace sees nothing.
TEST_P(Mirrored, OwnNamespaceOnly)
{
    open();
    Reader reader(mirror);
    vt::in_namespace(vt::variable("ROX_NS_B"), [&] {
        Mirror elsewhere("roxcap9");
        Reader other(elsewhere);
        done(SendWr::write({from.sge(0, 16)}, vt::remote(to)));
        shows(reader, last(kWriteOnly, 0, reth(to.address(), to.rkey(), 16), sent(0, 16)));
        EXPECT_TRUE(other.silent());
    });
}

/// The netdev has no address, and says nothing of its own.
TEST_P(Mirrored, NetdevIsSilent)
{
    Reader reader(mirror);
    EXPECT_FALSE(reader.next(1500));
    EXPECT_NE(std::system(("ip -6 address show dev " + mirror.name + " | grep inet").c_str()), 0);
}

} // namespace
