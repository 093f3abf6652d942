/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/netlink.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include <linux/netlink.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rox::run {
namespace {

/// The errno of the acknowledgement on a socket.
int answer(int fd)
{
    alignas(nlmsghdr) char buffer[8192];

    for (;;) {
        const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
        const auto *header = reinterpret_cast<const nlmsghdr *>(buffer);
        size_t left = got > 0 ? static_cast<size_t>(got) : 0;

        if (got < 0)
            return errno;
        for (; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left))
            if (header->nlmsg_type == NLMSG_ERROR)
                return -static_cast<const nlmsgerr *>(NLMSG_DATA(header))->error;
    }
}

} // namespace

Request::Request(uint16_t type, uint16_t flags)
{
    nlmsghdr header{};

    header.nlmsg_type = type;
    header.nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    append(&header, sizeof(header));
}

void Request::append(const void *data, size_t size)
{
    if (size_ + NLMSG_ALIGN(size) > sizeof(bytes_))
        abort();
    std::memcpy(bytes_ + size_, data, size);
    size_ += NLMSG_ALIGN(size);
}

Request &Request::add(uint16_t attribute, const void *data, size_t size)
{
    const nlattr header{static_cast<uint16_t>(NLA_HDRLEN + size), attribute};

    append(&header, sizeof(header));
    if (size > 0)
        append(data, size);
    return *this;
}

Request &Request::text(uint16_t attribute, std::string_view value)
{
    const std::string copy(value);

    return add(attribute, copy.c_str(), copy.size() + 1);
}

size_t Request::begin(uint16_t attribute)
{
    const size_t place = size_;

    add(attribute, nullptr, 0);
    return place;
}

Request &Request::end(size_t nest)
{
    reinterpret_cast<nlattr *>(bytes_ + nest)->nla_len = static_cast<uint16_t>(size_ - nest);
    return *this;
}

int Request::send(int family)
{
    const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, family);
    sockaddr_nl kernel{};
    int error;

    if (fd < 0)
        return errno;
    kernel.nl_family = AF_NETLINK;
    reinterpret_cast<nlmsghdr *>(bytes_)->nlmsg_len = static_cast<uint32_t>(size_);
    if (sendto(fd, bytes_, size_, 0, reinterpret_cast<const sockaddr *>(&kernel), sizeof(kernel)) <
        0)
        error = errno;
    else
        error = answer(fd);
    close(fd);
    return error;
}

} // namespace rox::run
