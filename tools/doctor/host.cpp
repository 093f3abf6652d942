/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/host.hpp"

#include <algorithm>

#include <arpa/inet.h>
#include <fmt/format.h>

namespace rox::doctor {

namespace {

std::string folder(const std::string &device)
{
    return "/sys/class/infiniband/" + device;
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
        if (it == known.end() || it->ports.empty())
            continue;
        device.active = it->ports[0].active;
        device.netdev_here = !it->ports[0].netdev.empty();
        if (device.netdev_here)
            device.netdev = it->ports[0].netdev;
    }
    return devices;
}

} // namespace rox::doctor
