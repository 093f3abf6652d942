/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "cap/netdev.hpp"
#include "lib/tree.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <system_error>

#include <libmnl/libmnl.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <net/if.h>

namespace rox::cap {

namespace {

constexpr const char *kind = "roxcap";
constexpr size_t buffer_size = 8192;
using Buffer = std::array<char, buffer_size>;

[[noreturn]] void fail(int error, const std::string &what)
{
    throw std::system_error(error, std::generic_category(), what);
}

ifinfomsg *begin(Buffer &buffer, uint16_t type, uint16_t flags)
{
    nlmsghdr *message = mnl_nlmsg_put_header(buffer.data());

    message->nlmsg_type = type;
    message->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | NLM_F_ACK | flags);
    return static_cast<ifinfomsg *>(mnl_nlmsg_put_extra_header(message, sizeof(ifinfomsg)));
}

} // namespace

/* Sends a request and waits for its result: 0 or an errno value. */
int Netdev::talk(nlmsghdr *message)
{
    Buffer answer;

    message->nlmsg_seq = 1;
    if (mnl_socket_sendto(socket_.get(), message, message->nlmsg_len) < 0)
        return errno;
    const auto got = mnl_socket_recvfrom(socket_.get(), answer.data(), answer.size());
    if (got < 0)
        return errno;
    return mnl_cb_run(answer.data(), static_cast<size_t>(got), 1,
                      mnl_socket_get_portid(socket_.get()), nullptr, nullptr) < 0
               ? errno
               : 0;
}

/* The netdev is up when this returns. */
int Netdev::make(const std::string &name, uint32_t snap)
{
    alignas(nlmsghdr) Buffer buffer{};
    ifinfomsg *link = begin(buffer, RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);
    auto *message = reinterpret_cast<nlmsghdr *>(buffer.data());

    link->ifi_flags = IFF_UP;
    link->ifi_change = IFF_UP;
    mnl_attr_put_strz(message, IFLA_IFNAME, name.c_str());
    mnl_attr_put_u32(message, IFLA_MTU, snap);
    nlattr *info = mnl_attr_nest_start(message, IFLA_LINKINFO);
    mnl_attr_put_strz(message, IFLA_INFO_KIND, kind);
    mnl_attr_nest_end(message, info);
    return talk(message);
}

Netdev::Netdev(std::string name, uint32_t snap) : socket_(mnl_socket_open(NETLINK_ROUTE))
{
    constexpr int most_netdevs = 1000;
    const bool chosen = !name.empty();
    int error = 0;

    if (socket_ == nullptr || mnl_socket_bind(socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0)
        fail(errno, "rtnetlink");
    for (int number = 0; number < most_netdevs; number++) {
        name_ = chosen ? name : kind + std::to_string(number);
        error = make(name_, snap);
        if (error != EEXIST || chosen)
            break;
    }
    if (error == EPERM)
        fail(error, "making a netdev takes CAP_NET_ADMIN");
    if (error == EOPNOTSUPP)
        fail(error, "the module rox is not loaded, or has no netdevs of the kind roxcap");
    if (error != 0)
        fail(error, "making the netdev " + name_);
    index_ = if_nametoindex(name_.c_str());
    if (index_ == 0)
        fail(errno, name_);
}

/* It may have gone already. */
Netdev::~Netdev()
{
    alignas(nlmsghdr) Buffer buffer{};

    begin(buffer, RTM_DELLINK, 0)->ifi_index = static_cast<int>(index_);
    talk(reinterpret_cast<nlmsghdr *>(buffer.data()));
}

uint64_t Netdev::dropped() const
{
    const std::string text = Tree().line("/sys/class/net/" + name_ + "/statistics/rx_dropped");
    uint64_t count = 0;

    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

} // namespace rox::cap
