/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The way out to the host's network: passt, a program that needs no rights. It makes connections of
 * its own of what it finds in Ethernet frames.
 */
#ifndef ROX_TOOLS_RUN_PASST_HPP
#define ROX_TOOLS_RUN_PASST_HPP

#include "lib/file.hpp"

#include <memory>
#include <string>

namespace rox::run {

/// Starts passt, which ends with the socket. @return the socket, with frames of frames.hpp. @throw
/// std::runtime_error
std::unique_ptr<File> start_passt();

/// Whether the host has a default route for IPv6. @param routes the text of /proc/net/ipv6_route
bool has_way_out6(const std::string &routes);

/**
 * The text of /etc/resolv.conf inside.
 * @param host that of the host
 * @param upstream whom the host's own resolver asks, empty: it has none
 * @param ipv6 whether the way out has IPv6
 */
std::string inner_resolver(const std::string &host, const std::string &upstream, bool ipv6);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_PASST_HPP
