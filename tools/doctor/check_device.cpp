/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The diagnoses of devices: port 4791, links, namespaces, GIDs, addresses, traffic. */
#include "doctor/check.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rox::doctor {

namespace {

constexpr unsigned roce_port = 4791;

/* True if a socket of the caller's network namespace has the port. Sockets of the kernel count. */
bool port_taken(const Tree &files)
{
    constexpr size_t local_address = 1;
    const std::string wanted = fmt::format(":{:04X}", roce_port);

    for (const char *table : {"/proc/net/udp", "/proc/net/udp6"}) {
        std::istringstream lines(files.read(table).value_or(""));

        for (std::string line; std::getline(lines, line);) {
            const std::vector<std::string> columns = words(line);
            if (columns.size() > local_address && columns[local_address].ends_with(wanted))
                return true;
        }
    }
    return false;
}

std::string link_command(const std::string &netdev)
{
    return fmt::format("rdma link add rox0 type rox netdev {}", netdev);
}

/* A netdev that can carry a device: Ethernet, up, not the loopback one. */
std::string usable_netdev(const Tree &files)
{
    constexpr std::string_view ethernet = "1"; // ARPHRD_ETHER

    for (const std::string &name : files.list("/sys/class/net"))
        if (files.line("/sys/class/net/" + name + "/type") == ethernet &&
            files.line("/sys/class/net/" + name + "/operstate") == "up")
            return name;
    return "eth0";
}

std::string netdev_or(const Device &device)
{
    return device.netdev.empty() ? "eth0" : device.netdev;
}

/* A netdev whose addresses the caller can use: of a GID, if the device's own is not here. */
std::string netdev_here(const Device &device)
{
    const Gid *best = best_gid(device);

    return device.netdev_here || best == nullptr ? netdev_or(device) : best->netdev;
}

Finding port_down(const Device &device)
{
    return {Level::problem,
            fmt::format("{}: the port is down, because {} is down or has no carrier", device.name,
                        netdev_or(device)),
            {fmt::format("ip link set {} up", netdev_or(device)),
             fmt::format("ip -br link show {}", netdev_or(device))}};
}

Finding gid_finding(const Device &device)
{
    const std::string netdev = netdev_here(device);
    const std::string address = fmt::format(
        "ip address add 192.0.2.1/24 dev {}    # an address of your network", netdev);
    const Gid *best = best_gid(device);

    if (best == nullptr)
        return {Level::problem, fmt::format("{} has no GID of RoCE v2", device.name), {address}};
    if (best->link_local())
        return {Level::warning,
                fmt::format("{} has link-local GIDs only: {} has no address", device.name, netdev),
                {address}};
    if (!best->ipv4())
        return {Level::warning,
                fmt::format("{} has IPv6 GIDs only (index {} is {}): the RDMA CM has no IPv4 here",
                            device.name, best->index, best->address()),
                {address}};
    if (best->index == 0)
        return {Level::ok, fmt::format("{}: GID index 0 is {}", device.name, best->address()), {}};
    return {Level::note,
            fmt::format("{}: use GID index {} ({}); index 0, which many programs take, is not it",
                        device.name, best->index, best->address()),
            {fmt::format("ibv_rc_pingpong -d {} -g {}", device.name, best->index),
             fmt::format("ib_write_bw -d {} -x {}", device.name, best->index)}};
}

/* What the user's own choice of an index means. */
Finding chosen_gid_finding(const Device &device, unsigned index)
{
    const auto gid = std::ranges::find(device.gids, index, &Gid::index);
    const Gid *best = best_gid(device);
    const std::string instead = best != nullptr
                                    ? fmt::format("use index {} ({})", best->index, best->address())
                                    : "there is none to use";

    if (gid == device.gids.end())
        return {
            Level::problem,
            fmt::format("{} has no GID of RoCE v2 with index {}: {}", device.name, index, instead),
            {}};
    if (!gid->here)
        return {Level::warning,
                fmt::format("{}: GID index {} is {} of {}, which is in another network namespace: "
                            "{}",
                            device.name, index, gid->address(), gid->netdev, instead),
                {}};
    if (gid->link_local() && best != nullptr && !best->link_local())
        return {Level::warning,
                fmt::format("{}: GID index {} is link-local ({}): {}", device.name, index,
                            gid->address(), instead),
                {}};
    return {
        Level::ok, fmt::format("{}: GID index {} is {}", device.name, index, gid->address()), {}};
}

bool on_loopback(const Tree &files, const Device &device)
{
    constexpr std::string_view loopback = "772"; // ARPHRD_LOOPBACK

    return files.line("/sys/class/net/" + device.netdev + "/type") == loopback;
}

/* The RDMA core takes no address of lo for the RDMA CM. */
Finding loopback_finding(const Device &device)
{
    return {Level::warning,
            fmt::format("{}: the RDMA CM takes no addresses of {}; those of a dummy it does",
                        device.name, device.netdev),
            {"ip link add rox-dummy type dummy", "ip address add 192.0.2.1/24 dev rox-dummy",
             "ip link set rox-dummy up", "rdma link add rox1 type rox netdev rox-dummy"}};
}

/* Other devices that have an address of this one. */
Findings shared_addresses(const Host &host, const Device &device)
{
    Findings findings;

    for (const Gid &gid : device.gids) {
        std::vector<std::string> others;

        if (!gid.here || gid.link_local())
            continue;
        for (const std::string &other : all_rdma_devices(host)) {
            const std::vector<Gid> theirs = gids_of(host.files, other);
            const auto same = [&](const Gid &their) { return their.bytes == gid.bytes; };

            if (other != device.name && std::ranges::any_of(theirs, same))
                others.push_back(other);
        }
        if (!others.empty())
            findings.push_back(
                {Level::warning,
                 fmt::format("{}: {} also has the address {}; the RDMA CM chooses one of them",
                             device.name, fmt::join(others, ", "), gid.address()),
                 {fmt::format("ip link add link {} name rox-mac type macvlan mode bridge",
                              netdev_or(device)),
                  "rdma link add rox1 type rox netdev rox-mac    # and give it another address"}});
    }
    return findings;
}

/* Adds "nothing to say" to findings that are empty. */
Findings or_ok(Findings findings, std::string what)
{
    if (findings.empty())
        findings.push_back({Level::ok, std::move(what), {}});
    return findings;
}

} // namespace

const Gid *best_gid(const Device &device)
{
    const Gid *best = nullptr;
    const auto rank = [](const Gid &gid) { return gid.ipv4() ? 2 : gid.link_local() ? 0 : 1; };

    for (const Gid &gid : device.gids)
        if (gid.here && (best == nullptr || rank(gid) > rank(*best)))
            best = &gid;
    return best;
}

Findings PortCheck::look(const Host &host, const Options & /*options*/) const
{
    const bool taken = port_taken(host.files);
    const std::vector<Device> devices = devices_of(host, {});
    const bool rox = std::ranges::any_of(devices, &Device::usable_here);
    std::vector<std::string> rxe, commands;

    for (const std::string &name : all_rdma_devices(host))
        if (is_rxe(host.files, name))
            rxe.push_back(name);
    if (rox || !taken)
        return {
            {Level::ok, fmt::format("UDP port {} is {}", roce_port, rox ? "rox'" : "free"), {}}};
    for (const std::string &name : rxe)
        commands.push_back("rdma link delete " + name);
    if (!rxe.empty() || host.files.exists("/sys/module/rdma_rxe")) {
        commands.emplace_back("modprobe -r rdma_rxe");
        return {{Level::problem, fmt::format("rdma_rxe has UDP port {}", roce_port), commands}};
    }
    commands.push_back(fmt::format("ss -ulnp sport = :{}    # names it", roce_port));
    /* Addresses that a device of another namespace did not get because of it. */
    if (!devices.empty())
        commands.emplace_back("ip link set NETDEV down && ip link set NETDEV up    # then, for its "
                              "GIDs");
    return {{Level::problem, fmt::format("a program has UDP port {}", roce_port), commands}};
}

Findings LinkCheck::look(const Host &host, const Options &options) const
{
    const std::vector<Device> devices = devices_of(host, options);
    Findings findings;

    if (devices.empty() && !options.device.empty())
        return {{Level::problem,
                 fmt::format("there is no device of rox named {}", options.device),
                 {"rdma link show"}}};
    if (devices.empty())
        return {{Level::problem,
                 "there is no device of rox",
                 {link_command(usable_netdev(host.files))}}};
    for (const Device &device : devices) {
        if (device.active)
            findings.push_back(
                {Level::ok, fmt::format("{} on {}, active", device.name, netdev_or(device)), {}});
        else
            findings.push_back(port_down(device));
    }
    return findings;
}

Findings NamespaceCheck::look(const Host &host, const Options &options) const
{
    const std::optional<bool> mode = rdma_netns_exclusive(host.netlink);
    const std::vector<Device> devices = devices_of(host, options);
    const bool exclusive = mode.value_or(false);
    Findings findings;

    if (!mode)
        return {{Level::note, "not seen: the RDMA subsystem is not loaded", {}}};
    if (devices.empty() && exclusive)
        return {{Level::warning,
                 "RDMA devices are seen in the network namespace of their netdev only",
                 {"ip netns list", "ip netns exec NAME rox-doctor"}}};
    for (const Device &device : devices)
        if (!device.usable_here())
            findings.push_back(
                {Level::warning,
                 fmt::format("{}: its netdev {} is in another network namespace; programs find "
                             "no address of it in this one",
                             device.name, device.netdev),
                 {"ip netns list", fmt::format("ip netns exec NAME rox-doctor {}", device.name)}});
    return or_ok(findings, exclusive ? "exclusive" : "shared");
}

Findings GidCheck::look(const Host &host, const Options &options) const
{
    Findings findings;

    for (const Device &device : devices_of(host, options)) {
        /* That is for the check of namespaces to say. */
        if (!device.usable_here())
            continue;
        findings.push_back(options.gid_index ? chosen_gid_finding(device, *options.gid_index)
                                             : gid_finding(device));
        if (device.netdev_here && on_loopback(host.files, device))
            findings.push_back(loopback_finding(device));
    }
    return findings;
}

Findings AddressCheck::look(const Host &host, const Options &options) const
{
    Findings findings;

    for (const Device &device : devices_of(host, options))
        for (Finding &finding : shared_addresses(host, device))
            findings.push_back(std::move(finding));
    return or_ok(findings, "no other RDMA device has the same address");
}

Findings TrafficCheck::look(const Host &host, const Options &options) const
{
    Findings findings;

    if (!options.self_test)
        return findings;
    for (const Device &device : devices_of(host, options)) {
        const Gid *gid = best_gid(device);

        if (!device.active || gid == nullptr)
            continue;
        const unsigned index = options.gid_index.value_or(gid->index);
        const std::string failure = host.self_test.run(device.name, index);
        if (failure.empty())
            findings.push_back(
                {Level::ok,
                 fmt::format("{}: a SEND and a WRITE between two QPs arrived", device.name),
                 {}});
        else
            findings.push_back(
                {Level::problem,
                 fmt::format("{}: the self test failed: {}", device.name, failure),
                 {"dmesg | tail", fmt::format("rdma resource show qp link {} -dd", device.name)}});
    }
    return findings;
}

} // namespace rox::doctor
