// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The objects of a device as the kernel reports them by netlink: all attributes, and faster than
/// with the `rdma` program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <rdma/rdma_netlink.h>

namespace vt {

/// A netlink attribute that is not nested.
struct ResourceAttribute {
    std::uint16_t type;
    std::string payload;

    /// Its value as a number, if it has 1, 2, 4 or 8 bytes; else 0.
    std::uint64_t number() const;
    /// Its value as a string, without the terminating 0.
    std::string text() const;
};

using ResourceAttributes = std::vector<ResourceAttribute>;

class ResourceDump {
public:
    explicit ResourceDump(const std::string &device);
    ResourceDump(const ResourceDump &) = delete;
    ResourceDump &operator=(const ResourceDump &) = delete;
    ~ResourceDump();

    /// All attributes of all objects, in order. @p command: RDMA_NLDEV_CMD_RES_..._GET
    ResourceAttributes all(int command);
    /// The values of the driver's attribute @p name.
    static std::vector<std::uint64_t> driver_numbers(const ResourceAttributes &attributes,
                                                     const std::string &name);

private:
    ResourceAttributes ask(int command, const std::string &payload);

    int socket_;
    std::uint32_t sequence_ = 0;
    std::uint32_t device_ = 0;
};

} // namespace vt
