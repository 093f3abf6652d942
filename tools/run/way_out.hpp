/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The addresses of the way out to the host's network. They are other ones than those of the nodes;
 * the gateway is the host itself.
 */
#ifndef ROX_TOOLS_RUN_WAY_OUT_HPP
#define ROX_TOOLS_RUN_WAY_OUT_HPP

#include <cstdint>

namespace rox::run::way_out {

constexpr const char *address = "10.124.0.2", *gateway = "10.124.0.1", *mask = "255.255.255.0";
constexpr const char *address6 = "fd00:10:124::2", *gateway6 = "fd00:10:124::1";
constexpr uint8_t prefix = 24, prefix6 = 64;
/// Streams need few frames then.
constexpr unsigned mtu = 65520;

} // namespace rox::run::way_out

#endif // ROX_TOOLS_RUN_WAY_OUT_HPP
