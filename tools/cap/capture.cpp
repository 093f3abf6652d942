/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cap/capture.hpp"
#include "cap/netdev.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <system_error>

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <sys/socket.h>

namespace rox::cap {

namespace {

void check(bool good, const char *what)
{
    if (!good)
        throw std::system_error(errno, std::generic_category(), what);
}

/* Without protocol it gets nothing until it is bound to its netdev. */
int open_socket()
{
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    check(fd >= 0, errno == EPERM ? "capturing takes CAP_NET_RAW" : "packet socket");
    return fd;
}

Time time_of(msghdr &message)
{
    timespec stamp{};

    for (cmsghdr *part = CMSG_FIRSTHDR(&message); part != nullptr;
         part = CMSG_NXTHDR(&message, part))
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_TIMESTAMPNS)
            std::memcpy(&stamp, CMSG_DATA(part), sizeof(stamp));
    return {.seconds = static_cast<uint32_t>(stamp.tv_sec),
            .nanoseconds = static_cast<uint32_t>(stamp.tv_nsec)};
}

} // namespace

PacketSocket::PacketSocket(unsigned index, int buffer) : file_(open_socket()), bytes_(most_snap)
{
    const int on = 1;
    sockaddr_ll address{};

    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(index);
    check(setsockopt(get(), SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof(buffer)) == 0 ||
              setsockopt(get(), SOL_SOCKET, SO_RCVBUF, &buffer, sizeof(buffer)) == 0,
          "SO_RCVBUF");
    check(setsockopt(get(), SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)) == 0, "SO_TIMESTAMPNS");
    check(bind(get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0,
          "bind of the packet socket");
}

std::optional<Packet> PacketSocket::next()
{
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(timespec))> control{};
    iovec piece{.iov_base = bytes_.data(), .iov_len = bytes_.size()};
    msghdr message{};

    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const auto got = recvmsg(get(), &message, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return std::nullopt;
    check(got >= 0, errno == ENETDOWN ? "the netdev was taken away" : "recvmsg");
    return Packet{.time = time_of(message), .bytes = Bytes(bytes_).first(static_cast<size_t>(got))};
}

/* Reading resets the kernel's count. */
uint64_t PacketSocket::lost()
{
    tpacket_stats counts{};
    socklen_t size = sizeof(counts);

    if (getsockopt(get(), SOL_PACKET, PACKET_STATISTICS, &counts, &size) == 0)
        lost_ += counts.tp_drops;
    return lost_;
}

} // namespace rox::cap
