// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace wire {

namespace {

constexpr std::size_t kFrameMax = 65536;
/// Frames per system call.
constexpr std::size_t kBatch = 256;

std::string need_variable(const char *name)
{
    const std::string value = vt::variable(name);
    if (value.empty())
        vt::fail(std::string(name) + " is not set: run this by tests/wire/run");
    return value;
}

class Fd {
public:
    explicit Fd(int fd, const char *what) : fd_(fd)
    {
        if (fd < 0)
            vt::fail(what, errno);
    }
    ~Fd() { close(fd_); }
    Fd(const Fd &) = delete;
    Fd &operator=(const Fd &) = delete;
    int get() const { return fd_; }

private:
    int fd_;
};

Mac mac_of(int fd, const std::string &device)
{
    ifreq request{};
    std::strncpy(request.ifr_name, device.c_str(), IFNAMSIZ - 1);
    if (ioctl(fd, SIOCGIFHWADDR, &request))
        vt::fail("hardware address of " + device, errno);
    Mac mac{};
    std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
    return mac;
}

/// A packet socket bound to @p device, in the thread's network namespace.
int packet_socket(const std::string &device, Mac &mac)
{
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
    if (fd < 0)
        vt::fail("packet socket", errno);
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(if_nametoindex(device.c_str()));
    int one = 1;
    int size = 64 << 20;
    if (bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) ||
        setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)))
        vt::fail("packet socket on " + device, errno);
    mac = mac_of(fd, device);
    return fd;
}

Address address_of(int family, const std::string &text)
{
    Address address{};
    void *where = family == AF_INET ? &address[12] : address.data();
    if (inet_pton(family, text.c_str(), where) != 1)
        vt::fail(text + " is no address");
    if (family == AF_INET)
        address[10] = address[11] = 0xff;
    return address;
}

} // namespace

Peer::Peer()
{
    Fd here(open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC), "own namespace");
    Fd there(open(("/run/netns/" + need_variable("ROX_NS_B")).c_str(), O_RDONLY | O_CLOEXEC),
             "namespace of the peer");
    vt::check(setns(there.get(), CLONE_NEWNET), "setns");
    try {
        socket_ = packet_socket(need_variable("ROX_NETDEV_B"), mac_);
    } catch (...) {
        setns(here.get(), CLONE_NEWNET);
        throw;
    }
    vt::check(setns(here.get(), CLONE_NEWNET), "setns back");

    Fd any(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), "socket");
    device_mac_ = mac_of(any.get(), need_variable("ROX_NETDEV_A"));
    v4_ = address_of(AF_INET, need_variable("ROX_ADDR_B"));
    device_v4_ = address_of(AF_INET, need_variable("ROX_ADDR_A"));
    v6_ = address_of(AF_INET6, need_variable("ROX_ADDR6_B"));
    device_v6_ = address_of(AF_INET6, need_variable("ROX_ADDR6_A"));
}

Peer::~Peer()
{
    if (socket_ >= 0)
        close(socket_);
}

Route Peer::route(vt::Family family) const
{
    if (family == vt::Family::V4)
        return {mac_, device_mac_, v4_, device_v4_};
    return {mac_, device_mac_, v6_, device_v6_};
}

ibv_gid Peer::gid(vt::Family family) const
{
    ibv_gid gid{};
    std::memcpy(gid.raw, (family == vt::Family::V4 ? v4_ : v6_).data(), sizeof(gid.raw));
    return gid;
}

void Peer::send_all(std::span<const Octets> frames) const
{
    std::vector<iovec> pieces;
    std::vector<mmsghdr> messages;
    vt::Deadline deadline;
    while (!frames.empty()) {
        std::size_t count = std::min(frames.size(), kBatch);
        pieces.assign(count, {});
        messages.assign(count, {});
        for (std::size_t i = 0; i < count; i++) {
            pieces[i] = {const_cast<std::uint8_t *>(frames[i].data()), frames[i].size()};
            messages[i].msg_hdr.msg_iov = &pieces[i];
            messages[i].msg_hdr.msg_iovlen = 1;
        }
        int sent = sendmmsg(socket_, messages.data(), static_cast<unsigned>(count), 0);
        if (sent < 0) {
            // There is room again once the kernel has delivered the queued frames.
            if ((errno != EAGAIN && errno != ENOBUFS) || deadline.passed())
                vt::fail("send a frame", errno);
            pollfd ready{socket_, POLLOUT, 0};
            poll(&ready, 1, 100);
            continue;
        }
        frames = frames.subspan(static_cast<std::size_t>(sent));
    }
}

std::optional<Received> Peer::receive(vt::Millis patience) const
{
    static Octets buffer(kFrameMax);
    vt::Deadline deadline(patience);
    pollfd ready{socket_, POLLIN, 0};
    for (;;) {
        ssize_t n = recv(socket_, buffer.data(), buffer.size(), 0);
        if (n >= 0) {
            auto found = decode({buffer.begin(), buffer.begin() + n});
            if (found)
                return found;
            continue;
        }
        if (errno != EAGAIN && errno != EINTR)
            vt::fail("receive a frame", errno);
        if (deadline.passed())
            return std::nullopt;
        poll(&ready, 1, static_cast<int>(deadline.left().count()));
    }
}

std::size_t Peer::drain() const
{
    std::size_t count = 0;
    while (receive(vt::Millis(0)))
        count++;
    return count;
}

} // namespace wire
