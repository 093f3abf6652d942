/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/network.hpp"

#include "run/init/netlink.hpp"
#include "run/init/system.hpp"

#include <cerrno>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <rdma/rdma_netlink.h>
#include <sched.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

namespace rox::run {
namespace {

constexpr const char *netdev = "eth0";

std::string address4(unsigned node)
{
    return "10.123." + std::to_string(node / 250) + '.' +
           std::to_string(node % 250 + (node >= 250 ? 1 : 0));
}

std::string address6(unsigned node)
{
    return "fd00:10:123::" + std::to_string(node);
}

void ask(Request &request, int family, const std::string &what)
{
    if (const int error = request.send(family); error != 0)
        fail(what, error);
}

Request new_link(const std::string &name, uint32_t mtu)
{
    Request request(RTM_NEWLINK, NLM_F_CREATE | NLM_F_EXCL);

    request.put(ifinfomsg{}).text(IFLA_IFNAME, name);
    if (mtu != 0)
        request.number<uint32_t>(IFLA_MTU, mtu);
    return request;
}

void add_link(const std::string &name, const char *kind, uint32_t mtu)
{
    Request request = new_link(name, mtu);
    const size_t info = request.begin(IFLA_LINKINFO);

    request.text(IFLA_INFO_KIND, kind).end(info);
    ask(request, NETLINK_ROUTE, "making " + name);
}

/// A veth, one end here on a bridge, the other one in the network namespace @p space.
void add_veth(const std::string &name, const std::string &bridge, int space, uint32_t mtu)
{
    Request request = new_link(name, mtu);

    request.number<uint32_t>(IFLA_MASTER, if_nametoindex(bridge.c_str()));
    const size_t info = request.begin(IFLA_LINKINFO);
    request.text(IFLA_INFO_KIND, "veth");
    const size_t data = request.begin(IFLA_INFO_DATA);
    const size_t peer = request.begin_with(VETH_INFO_PEER, ifinfomsg{});
    request.text(IFLA_IFNAME, netdev)
        .number<uint32_t>(IFLA_MTU, mtu)
        .number<int>(IFLA_NET_NS_FD, space)
        .end(peer)
        .end(data)
        .end(info);
    ask(request, NETLINK_ROUTE, "making " + name);
}

void set_up(const std::string &name)
{
    Request request(RTM_NEWLINK, 0);
    ifinfomsg link{};

    link.ifi_index = static_cast<int>(if_nametoindex(name.c_str()));
    link.ifi_flags = link.ifi_change = IFF_UP;
    request.put(link);
    ask(request, NETLINK_ROUTE, "bringing up " + name);
}

void add_address(const std::string &name, int family, const std::string &address, uint8_t prefix)
{
    Request request(RTM_NEWADDR, NLM_F_CREATE | NLM_F_EXCL);
    unsigned char bytes[sizeof(in6_addr)];
    const size_t size = family == AF_INET ? sizeof(in_addr) : sizeof(in6_addr);

    inet_pton(family, address.c_str(), bytes);
    request.put(ifaddrmsg{static_cast<uint8_t>(family), prefix, IFA_F_NODAD, RT_SCOPE_UNIVERSE,
                          if_nametoindex(name.c_str())});
    request.add(IFA_LOCAL, bytes, size).add(IFA_ADDRESS, bytes, size);
    ask(request, NETLINK_ROUTE, "address " + address);
}

/// What --link says of delay, loss and rate, at the sending end.
void shape(const std::string &name, const Link &link)
{
    constexpr uint32_t packets = 10000; // what is under way at most
    Request request(RTM_NEWQDISC, NLM_F_CREATE | NLM_F_REPLACE);
    tcmsg place{};
    tc_netem_qopt options{};

    place.tcm_family = AF_UNSPEC;
    place.tcm_ifindex = static_cast<int>(if_nametoindex(name.c_str()));
    place.tcm_parent = TC_H_ROOT;
    place.tcm_handle = 1U << 16;
    options.limit = packets;
    options.loss = static_cast<uint32_t>(link.loss / 100 * 0xffffffffU);
    request.put(place).text(TCA_KIND, "netem");
    const size_t nest = request.begin_with(TCA_OPTIONS, options);
    request.number<int64_t>(TCA_NETEM_LATENCY64, static_cast<int64_t>(link.delay_ns))
        .number<int64_t>(TCA_NETEM_JITTER64, static_cast<int64_t>(link.jitter_ns));
    if (link.rate != 0) {
        tc_netem_rate rate{};

        rate.rate = link.rate > 0xffffffffU ? 0xffffffffU : static_cast<uint32_t>(link.rate);
        request.number(TCA_NETEM_RATE, rate);
        if (link.rate > 0xffffffffU)
            request.number<uint64_t>(TCA_NETEM_RATE64, link.rate);
    }
    request.end(nest);
    ask(request, NETLINK_ROUTE, "netem");
}

void add_device(const std::string &name)
{
    constexpr uint16_t type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_NEWLINK);
    Request request(type, 0);

    request.text(RDMA_NLDEV_ATTR_DEV_NAME, name)
        .text(RDMA_NLDEV_ATTR_LINK_TYPE, "rox")
        .text(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
    ask(request, NETLINK_RDMA, "making the RDMA device " + name);
}

/// Whether the device has GIDs of IPv4 and of the IPv6 address, and its port is active.
bool is_ready(const std::string &port)
{
    constexpr int entries = 16;
    bool have4 = false, have6 = false;

    for (int i = 0; i < entries; i++) {
        const std::string gid = read_file(port + "/gids/" + std::to_string(i));

        have4 |= gid.starts_with("0000:0000:0000:0000:0000:ffff:");
        have6 |= gid.starts_with("fd00:");
    }
    return have4 && have6 && read_file(port + "/state").find("ACTIVE") != std::string::npos;
}

/// Waits until a device of this network namespace has its addresses.
void wait_for(const std::string &device)
{
    constexpr const char *place = "/run/rox-run/sys";
    constexpr timespec pause{0, 2'000'000};
    constexpr int times = 5000;
    bool ready = false;

    need(make_folders(place) && mount("sysfs", place, "sysfs", 0, nullptr) == 0, place);
    for (int i = 0; i < times && !ready; i++) {
        ready = is_ready(std::string(place) + "/class/infiniband/" + device + "/ports/1");
        if (!ready)
            nanosleep(&pause, nullptr);
    }
    umount2(place, MNT_DETACH);
    rmdir(place);
    if (!ready)
        fail(device + " has not got its addresses", 0);
}

/// In the network namespace of a node, where `netdev` is: its address and device.
void furnish(const Job &job, unsigned node)
{
    const std::string device = "rox" + std::to_string(node - 1);

    set_up("lo");
    set_up(netdev);
    add_address(netdev, AF_INET, address4(node), 16);
    add_address(netdev, AF_INET6, address6(node), 64);
    if (job.link.shaped())
        shape(netdev, job.link);
    add_device(device);
    wait_for(device);
}

/// A new network namespace, which `ip netns` knows by its name. The caller stays in its own.
int new_space(const std::string &name, int here)
{
    const std::string file = "/run/netns/" + name;

    need(write_file(file, "") && unshare(CLONE_NEWNET) == 0 &&
             mount("/proc/self/ns/net", file.c_str(), nullptr, MS_BIND, nullptr) == 0,
         file);
    write_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
    const int space = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    need(space >= 0 && setns(here, CLONE_NEWNET) == 0, file);
    return space;
}

void make_nodes(const Job &job)
{
    constexpr const char *bridge = "br0";
    const int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int first = -1;

    set_up("lo");
    add_link(bridge, "bridge", 0);
    set_up(bridge);
    for (unsigned node = job.address; node < job.address + job.nodes; node++) {
        const std::string name = "node" + std::to_string(node);
        const int space = new_space(name, here);

        add_veth(name, bridge, space, job.link.mtu);
        set_up(name);
        need(setns(space, CLONE_NEWNET) == 0, name);
        furnish(job, node);
        if (first < 0)
            first = space;
        else
            close(space);
        need(setns(here, CLONE_NEWNET) == 0, "the first network namespace");
    }
    need(setns(first, CLONE_NEWNET) == 0, "the first node");
    // It shows what is in the network namespace of who mounted it.
    umount2("/sys", MNT_DETACH);
    need(mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0, "/sys");
    close(first);
    close(here);
}

} // namespace

std::string make_network(const Job &job)
{
    std::string hosts;

    write_file("/proc/sys/net/ipv6/conf/default/accept_dad", "0");
    write_file("/proc/sys/net/ipv6/conf/all/accept_dad", "0");
    if (job.nodes > 1) {
        make_nodes(job);
    } else {
        add_link(netdev, "dummy", job.link.mtu);
        furnish(job, job.address);
    }
    for (unsigned node = job.address; node < job.address + job.nodes; node++) {
        const std::string name = "node" + std::to_string(node) +
                                 (node == job.address && job.nodes == 1 ? ' ' + job.hostname : "");

        hosts += address4(node) + ' ' + name + '\n' + address6(node) + ' ' + name + '\n';
    }
    return hosts;
}

} // namespace rox::run
