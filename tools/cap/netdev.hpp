/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A netdev of the kind roxcap, which lives as long as its object.
 */
#ifndef ROX_TOOLS_CAP_NETDEV_HPP
#define ROX_TOOLS_CAP_NETDEV_HPP

#include "lib/netlink.hpp"

#include <cstdint>
#include <string>

struct nlmsghdr;

namespace rox::cap {

/// What the kernel accepts as the number of bytes that are copied of a packet.
constexpr uint32_t least_snap = 128, most_snap = 4224;

/// Made by rtnetlink, in the caller's network namespace. Throws std::system_error.
class Netdev {
public:
    /// @p name: empty for the first of roxcap0, roxcap1, ... that is free; @p snap: see above.
    Netdev(std::string name, uint32_t snap);
    ~Netdev();
    Netdev(const Netdev &) = delete;
    Netdev &operator=(const Netdev &) = delete;

    const std::string &name() const { return name_; }
    unsigned index() const { return index_; }
    /// Packets that it could not show, for lack of memory.
    uint64_t dropped() const;

private:
    int make(const std::string &name, uint32_t snap);
    int talk(nlmsghdr *message);

    NetlinkSocket socket_;
    std::string name_;
    unsigned index_ = 0;
};

} // namespace rox::cap

#endif // ROX_TOOLS_CAP_NETDEV_HPP
