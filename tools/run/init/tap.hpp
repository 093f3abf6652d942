/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Netdevs whose frames go through a pipe to the host.
 */
#ifndef ROX_TOOLS_RUN_INIT_TAP_HPP
#define ROX_TOOLS_RUN_INIT_TAP_HPP

#include <string>

#include <sys/types.h>

namespace rox::run {

/**
 * Makes a netdev in the network namespace of the caller, and starts the processes that copy its
 * frames.
 * @param pipe the number of the pipe
 * @param offload whether the other end takes frames that are yet to be cut into packets, with
 * what says how (offload_size)
 */
void add_tap(const std::string &name, int pipe, bool offload);

/// Whether it is one of these processes, and sends to the host: it is to end last.
bool sends_frames(pid_t process);

/**
 * Ends these processes when what was sent has left, after a second at the latest: so the other
 * machines learn that connections have ended, as they do when a program ends on a machine that
 * goes on.
 */
void send_last_frames();

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_TAP_HPP
