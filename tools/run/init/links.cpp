/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/links.hpp"

#include "run/init/system.hpp"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>

namespace rox::run {
namespace {

Request new_link(const std::string &name, uint32_t mtu)
{
    Request request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);

    request.put(ifinfomsg{}).text(IFLA_IFNAME, name);
    if (mtu != 0)
        request.number<uint32_t>(IFLA_MTU, mtu);
    return request;
}

/// A change of a netdev. @p flags are set.
Request change_link(const std::string &name, unsigned flags = 0)
{
    Request request(RTM_NEWLINK, 0);
    ifinfomsg link{};

    link.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
    link.ifi_flags = link.ifi_change = flags;
    request.put(link);
    return request;
}

/// The bytes of an address of that family.
struct Bytes {
    Bytes(int family, const std::string &address)
        : size(family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr))
    {
        inet_pton(family, address.c_str(), data);
    }

    unsigned char data[sizeof(in6_addr)] = {};
    size_t size;
};

} // namespace

void ask(Request &request, int family, const std::string &what)
{
    if (const int error = request.send(family); error != 0)
        fail(what, error);
}

void add_link(const std::string &name, const char *kind, uint32_t mtu)
{
    Request request = new_link(name, mtu);
    const size_t info = request.begin(IFLA_LINKINFO);

    request.text(IFLA_INFO_KIND, kind).end(info);
    ask(request, NETLINK_ROUTE, "making " + name);
}

void add_veth(const std::string &name, const std::string &bridge, uint32_t mtu, const FarEnd &far)
{
    Request request = new_link(name, mtu);

    request.number<uint32_t>(IFLA_MASTER, if_nametoindex(bridge.c_str()));
    const size_t info = request.begin(IFLA_LINKINFO);
    request.text(IFLA_INFO_KIND, "veth");
    const size_t data = request.begin(IFLA_INFO_DATA);
    const size_t peer = request.begin_with(VETH_INFO_PEER, ifinfomsg{});
    request.text(IFLA_IFNAME, far.name)
        .number<uint32_t>(IFLA_MTU, mtu)
        .number<int>(IFLA_NET_NS_FD, far.space)
        .add(IFLA_ADDRESS, far.mac.data(), far.mac.size())
        .end(peer)
        .end(data)
        .end(info);
    ask(request, NETLINK_ROUTE, "making " + name);
}

void set_mac(const std::string &name, const Mac &mac)
{
    Request request = change_link(name);

    request.add(IFLA_ADDRESS, mac.data(), mac.size());
    ask(request, NETLINK_ROUTE, "the Ethernet address of " + name);
}

void set_mtu(const std::string &name, uint32_t mtu)
{
    Request request = change_link(name);

    request.number<uint32_t>(IFLA_MTU, mtu);
    ask(request, NETLINK_ROUTE, "the MTU of " + name);
}

void set_bridge(const std::string &name, const std::string &bridge)
{
    Request request = change_link(name);

    request.number<uint32_t>(IFLA_MASTER, if_nametoindex(bridge.c_str()));
    ask(request, NETLINK_ROUTE, "putting " + name + " on " + bridge);
}

void set_up(const std::string &name)
{
    Request request = change_link(name, IFF_UP);

    ask(request, NETLINK_ROUTE, "bringing up " + name);
}

void add_address(const std::string &name, int family, const std::string &address, uint8_t prefix)
{
    Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    const Bytes bytes(family, address);

    request.put(ifaddrmsg{static_cast<uint8_t>(family), prefix, IFA_F_NODAD, RT_SCOPE_UNIVERSE,
                          if_nametoindex(name.c_str())});
    request.add(IFA_LOCAL, bytes.data, bytes.size).add(IFA_ADDRESS, bytes.data, bytes.size);
    ask(request, NETLINK_ROUTE, "address " + address);
}

void add_default_route(const std::string &name, int family, const std::string &gateway)
{
    Request request(RTM_NEWROUTE, NLM_F_CREATE | NLM_F_EXCL);
    const Bytes bytes(family, gateway);
    rtmsg route{};

    route.rtm_family = static_cast<unsigned char>(family);
    route.rtm_table = RT_TABLE_MAIN;
    route.rtm_protocol = RTPROT_STATIC;
    route.rtm_scope = RT_SCOPE_UNIVERSE;
    route.rtm_type = RTN_UNICAST;
    request.put(route)
        .add(RTA_GATEWAY, bytes.data, bytes.size)
        .number<uint32_t>(RTA_OIF, if_nametoindex(name.c_str()));
    ask(request, NETLINK_ROUTE, "the route by " + gateway);
}

} // namespace rox::run
