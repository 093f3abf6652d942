// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "restrack.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "error.h"

namespace vt {

namespace {

constexpr std::array kLists = {
    RDMA_NLDEV_ATTR_RES_QP,  RDMA_NLDEV_ATTR_RES_QP_ENTRY,  RDMA_NLDEV_ATTR_RES_CQ,
    RDMA_NLDEV_ATTR_RES_MR,  RDMA_NLDEV_ATTR_RES_MR_ENTRY,  RDMA_NLDEV_ATTR_RES_CQ_ENTRY,
    RDMA_NLDEV_ATTR_RES_PD,  RDMA_NLDEV_ATTR_RES_PD_ENTRY,  RDMA_NLDEV_ATTR_RES_CTX_ENTRY,
    RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_SRQ_ENTRY, RDMA_NLDEV_ATTR_RES_SRQ,
    RDMA_NLDEV_ATTR_DRIVER,
};

bool is_list(std::uint16_t type)
{
    return std::ranges::find(kLists, type) != kLists.end();
}

/// Appends the attributes in @p data, nested ones included, to @p out.
void take_apart(const char *data, std::size_t size, ResourceAttributes &out)
{
    while (size >= NLA_HDRLEN) {
        nlattr header;
        std::memcpy(&header, data, sizeof(header));
        if (header.nla_len < NLA_HDRLEN || header.nla_len > size)
            fail("an attribute that is no such thing");
        const auto type = static_cast<std::uint16_t>(header.nla_type & NLA_TYPE_MASK);
        const std::size_t length = header.nla_len - NLA_HDRLEN;
        if (is_list(type))
            take_apart(data + NLA_HDRLEN, length, out);
        else
            out.push_back({type, std::string(data + NLA_HDRLEN, length)});
        const std::size_t step = std::min<std::size_t>(NLA_ALIGN(header.nla_len), size);
        data += step;
        size -= step;
    }
}

std::string attribute(std::uint16_t type, std::uint32_t value)
{
    nlattr header{static_cast<std::uint16_t>(NLA_HDRLEN + sizeof(value)), type};
    std::string text(reinterpret_cast<const char *>(&header), sizeof(header));
    return text.append(reinterpret_cast<const char *>(&value), sizeof(value));
}

int open_socket()
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA);
    timeval limit{20, 0};
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
        fail("a netlink socket", errno);
    return fd;
}

} // namespace

std::uint64_t ResourceAttribute::number() const
{
    std::uint64_t value = 0;
    if (payload.size() <= sizeof(value))
        std::memcpy(&value, payload.data(), payload.size());
    return value;
}

std::string ResourceAttribute::text() const
{
    return payload.substr(0, payload.find('\0'));
}

ResourceDump::ResourceDump(const std::string &device) : socket_(open_socket())
{
    std::optional<std::uint32_t> index;
    for (const ResourceAttribute &each : ask(RDMA_NLDEV_CMD_GET, "")) {
        if (each.type == RDMA_NLDEV_ATTR_DEV_INDEX)
            index = static_cast<std::uint32_t>(each.number());
        if (each.type == RDMA_NLDEV_ATTR_DEV_NAME && each.text() == device && index)
            device_ = *index + 1;
    }
    if (!device_)
        fail("netlink knows no device " + device);
}

ResourceDump::~ResourceDump()
{
    close(socket_);
}

ResourceAttributes ResourceDump::all(int command)
{
    return ask(command, attribute(RDMA_NLDEV_ATTR_DEV_INDEX, device_ - 1));
}

ResourceAttributes ResourceDump::ask(int command, const std::string &payload)
{
    nlmsghdr header{};
    header.nlmsg_len = static_cast<std::uint32_t>(NLMSG_HDRLEN + payload.size());
    header.nlmsg_type = static_cast<std::uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
    header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_DUMP;
    header.nlmsg_seq = ++sequence_;
    std::string message(reinterpret_cast<const char *>(&header), sizeof(header));
    message += payload;
    if (send(socket_, message.data(), message.size(), 0) < 0)
        fail("netlink: send", errno);

    ResourceAttributes out;
    std::vector<char> buffer(1 << 16);
    for (;;) {
        ssize_t got = recv(socket_, buffer.data(), buffer.size(), 0);
        if (got < 0)
            fail("netlink: receive", errno);
        std::size_t left = static_cast<std::size_t>(got);
        for (const char *at = buffer.data(); left >= NLMSG_HDRLEN;) {
            std::memcpy(&header, at, sizeof(header));
            if (header.nlmsg_len < NLMSG_HDRLEN || header.nlmsg_len > left)
                fail("a netlink message that is no such thing");
            if (header.nlmsg_type == NLMSG_DONE)
                return out;
            if (header.nlmsg_type == NLMSG_ERROR)
                fail("netlink refuses command " + std::to_string(command));
            take_apart(at + NLMSG_HDRLEN, header.nlmsg_len - NLMSG_HDRLEN, out);
            const std::size_t step = std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), left);
            at += step;
            left -= step;
        }
    }
}

std::vector<std::uint64_t> ResourceDump::driver_numbers(const ResourceAttributes &attributes,
                                                        const std::string &name)
{
    std::vector<std::uint64_t> found;
    std::string last;
    for (const ResourceAttribute &each : attributes) {
        if (each.type == RDMA_NLDEV_ATTR_DRIVER_STRING)
            last = each.text();
        else if (each.type == RDMA_NLDEV_ATTR_DRIVER_U64 && last == name)
            found.push_back(each.number());
    }
    return found;
}

} // namespace vt
