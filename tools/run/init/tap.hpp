/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Netdevs whose frames go through a pipe to the host.
 */
#ifndef ROX_TOOLS_RUN_INIT_TAP_HPP
#define ROX_TOOLS_RUN_INIT_TAP_HPP

#include <string>

namespace rox::run {

/**
 * Makes a netdev in the network namespace of the caller, and starts the processes that copy its
 * frames. They end with all others when the command does.
 * @param pipe the number of the pipe
 * @param offload whether the other end takes frames that are yet to be cut into packets, with
 * what says how (offload_size)
 */
void add_tap(const std::string &name, int pipe, bool offload);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_TAP_HPP
