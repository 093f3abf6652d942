/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/host.hpp"

#include <algorithm>
#include <sstream>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace rox::doctor {

namespace {

std::string folder(const std::string &device)
{
    return "/sys/class/infiniband/" + device;
}

/* Below each address of this table is what kinds of routes lead to it. */
bool is_local_ipv4(const std::string &fib_trie, const std::string &address)
{
    std::istringstream lines(fib_trie);
    bool below = false;

    for (std::string line; std::getline(lines, line);) {
        if (line.find("|-- ") != std::string::npos)
            below = trimmed(line) == "|-- " + address;
        else if (below && line.find("/32 host LOCAL") != std::string::npos)
            return true;
    }
    return false;
}

/* Has the caller's network namespace this address? */
bool has_address(const Tree &files, const Gid &gid)
{
    const char *file = gid.ipv4() ? "/proc/net/fib_trie" : "/proc/net/if_inet6";
    const std::string table = files.read(file).value_or("");

    if (gid.ipv4())
        return is_local_ipv4(table, gid.address());
    return table.find(fmt::format("{:02x}", fmt::join(gid.bytes, ""))) != std::string::npos;
}

/* A netdev of another namespace may have the name of one that is here. */
bool is_here(const Tree &files, const Device &device, const Gid &gid)
{
    if (gid.netdev.empty())
        return device.netdev_here;
    return files.exists("/sys/class/net/" + gid.netdev) &&
           (device.netdev_here || has_address(files, gid));
}

} // namespace

bool Gid::ipv4() const
{
    static constexpr std::array<uint8_t, 12> mapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

    return std::equal(mapped.begin(), mapped.end(), bytes.begin());
}

bool Gid::link_local() const
{
    return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80;
}

std::string Gid::address() const
{
    std::array<char, INET6_ADDRSTRLEN> text{};

    if (ipv4())
        inet_ntop(AF_INET, &bytes[12], text.data(), text.size());
    else
        inet_ntop(AF_INET6, bytes.data(), text.data(), text.size());
    return text.data();
}

bool Device::usable_here() const
{
    return netdev_here || std::ranges::any_of(gids, &Gid::here);
}

std::vector<Gid> gids_of(const Tree &files, const std::string &device)
{
    const std::string port = folder(device) + "/ports/1";
    std::vector<Gid> gids;

    for (const std::string &name : files.list(port + "/gids")) {
        Gid gid;

        if (files.line(fmt::format("{}/gid_attrs/types/{}", port, name)) != "RoCE v2" ||
            inet_pton(AF_INET6, files.line(fmt::format("{}/gids/{}", port, name)).c_str(),
                      gid.bytes.data()) != 1)
            continue;
        gid.index = static_cast<unsigned>(std::stoul(name));
        gid.netdev = files.line(fmt::format("{}/gid_attrs/ndevs/{}", port, name));
        gids.push_back(gid);
    }
    std::ranges::sort(gids, {}, &Gid::index);
    return gids;
}

bool is_rox(const Tree &files, const std::string &device)
{
    return files.line(folder(device) + "/hca_type") == "rox" ||
           files.line(folder(device) + "/node_desc") == "rox";
}

bool is_rxe(const Tree &files, const std::string &device)
{
    return !is_rox(files, device) && files.line(folder(device) + "/node_desc") == "rxe";
}

std::vector<std::string> all_rdma_devices(const Host &host)
{
    return host.files.list("/sys/class/infiniband");
}

std::vector<Device> devices_of(const Host &host, const Options &options)
{
    const std::vector<RdmaDevice> known = rdma_devices(host.netlink);
    std::vector<Device> devices;

    for (const std::string &name : all_rdma_devices(host)) {
        const auto same = [&](const RdmaDevice &device) { return device.name == name; };
        const auto it = std::ranges::find_if(known, same);

        if (!is_rox(host.files, name) || (!options.device.empty() && options.device != name))
            continue;
        Device &device = devices.emplace_back();
        device.name = name;
        device.netdev = host.files.line(folder(name) + "/parent");
        device.gids = gids_of(host.files, name);
        if (it != known.end() && !it->ports.empty()) {
            device.active = it->ports[0].active;
            device.netdev_here = !it->ports[0].netdev.empty();
            if (device.netdev_here)
                device.netdev = it->ports[0].netdev;
        }
        for (Gid &gid : device.gids)
            gid.here = is_here(host.files, device, gid);
    }
    return devices;
}

} // namespace rox::doctor
