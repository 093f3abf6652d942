/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/init/network.hpp"

#include "run/init/links.hpp"
#include "run/init/netlink.hpp"
#include "run/init/system.hpp"
#include "run/init/tap.hpp"
#include "run/way_out.hpp"

#include <cerrno>

#include <fcntl.h>
#include <linux/pkt_sched.h>
#include <linux/rtnetlink.h>
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

/// Of locally administered ones, so that nodes of several rox-run's have different ones.
Mac mac(unsigned node)
{
    return {0x02, 10, 123, 0, static_cast<uint8_t>(node >> 8), static_cast<uint8_t>(node)};
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

/// Lays the text over /etc/resolv.conf, which may lie on the host.
void name_servers(const std::string &text)
{
    constexpr const char *place = "/etc/resolv.conf", *ours = "/run/rox-run/resolv.conf";

    need(write_file(ours, text), ours);
    if (mount(ours, place, nullptr, MS_BIND, nullptr) == 0)
        return;
    // There is none, or a link to where nothing is.
    unlink(place);
    need(write_file(place, text), place);
}

/// The netdev to the host's network, and how names are resolved there.
void add_way_out(const Job &job)
{
    constexpr const char *name = "eth1";

    add_tap(name, job.way_out_pipe, false);
    set_mtu(name, way_out::mtu);
    write_file(std::string("/proc/sys/net/ipv6/conf/") + name + "/accept_ra", "0");
    set_up(name);
    add_address(name, AF_INET, way_out::address, way_out::prefix);
    add_default_route(name, AF_INET, way_out::gateway);
    if (job.way_out6) {
        add_address(name, AF_INET6, way_out::address6, way_out::prefix6);
        add_default_route(name, AF_INET6, way_out::gateway6);
    }
    name_servers(job.resolver);
}

/// In the network namespace of a node, where `netdev` is: its address and device.
void furnish(const Job &job, unsigned node)
{
    const std::string device = "rox" + std::to_string(node - job.address);

    set_up("lo");
    set_up(netdev);
    add_address(netdev, AF_INET, address4(node), 16);
    add_address(netdev, AF_INET6, address6(node), 64);
    if (job.link.shaped())
        shape(netdev, job.link);
    add_device(device);
    if (node == job.address && job.way_out_pipe != 0)
        add_way_out(job);
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

/// The port of the bridge that leads to the other rox-run's of the network.
void add_port(const Job &job, const char *bridge)
{
    constexpr const char *name = "join";

    add_tap(name, job.join_pipe, true);
    set_mtu(name, job.link.mtu);
    set_bridge(name, bridge);
    set_up(name);
}

/// The netdev of the only node.
void add_netdev(const Job &job)
{
    if (job.join_pipe != 0) {
        add_tap(netdev, job.join_pipe, true);
        set_mtu(netdev, job.link.mtu);
    } else {
        add_link(netdev, "dummy", job.link.mtu);
    }
    set_mac(netdev, mac(job.address));
}

void make_nodes(const Job &job)
{
    constexpr const char *bridge = "br0";
    const int here = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    int first = -1;

    set_up("lo");
    add_link(bridge, "bridge", 0);
    set_up(bridge);
    if (job.join_pipe != 0)
        add_port(job, bridge);
    for (unsigned node = job.address; node < job.address + job.nodes; node++) {
        const std::string name = node_name(node);
        const int space = new_space(name, here);

        add_veth(name, bridge, job.link.mtu, {netdev, space, mac(node)});
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
        add_netdev(job);
        furnish(job, job.address);
    }
    const bool alone = job.nodes == 1 && job.join_pipe == 0;
    const unsigned count = job.join_pipe != 0 ? most_nodes : job.nodes;
    for (unsigned node = 1; node <= count; node++) {
        const std::string name = node_name(node) + (alone ? ' ' + job.hostname : "");

        hosts += address4(node) + ' ' + name + '\n' + address6(node) + ' ' + name + '\n';
    }
    return hosts;
}

} // namespace rox::run
