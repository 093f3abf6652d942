/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Netdevs, their addresses and routes, in the network namespace of the caller. What cannot be made
 * ends rox-run with a sentence.
 */
#ifndef ROX_TOOLS_RUN_INIT_LINKS_HPP
#define ROX_TOOLS_RUN_INIT_LINKS_HPP

#include "run/init/netlink.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace rox::run {

/// An Ethernet address.
using Mac = std::array<uint8_t, 6>;

/// Sends a request; the sentence says @p what if it fails.
void ask(Request &request, int family, const std::string &what);

/// A netdev of a kind that needs no more settings: dummy, bridge. @p mtu: 0: the kind's own
void add_link(const std::string &name, const char *kind, uint32_t mtu);

/// An end of a veth that is elsewhere.
struct FarEnd {
    std::string name;
    int space; ///< its network namespace
    Mac mac;
};
/// A veth, one end here on a bridge.
void add_veth(const std::string &name, const std::string &bridge, uint32_t mtu, const FarEnd &far);

void set_mac(const std::string &name, const Mac &mac);
void set_mtu(const std::string &name, uint32_t mtu);
/// Puts a netdev on a bridge.
void set_bridge(const std::string &name, const std::string &bridge);
void set_up(const std::string &name);

/// @p family: AF_INET or AF_INET6
void add_address(const std::string &name, int family, const std::string &address, uint8_t prefix);
void add_default_route(const std::string &name, int family, const std::string &gateway);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_LINKS_HPP
