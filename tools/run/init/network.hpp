/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Netdevs, addresses, nodes and RDMA devices.
 */
#ifndef ROX_TOOLS_RUN_INIT_NETWORK_HPP
#define ROX_TOOLS_RUN_INIT_NETWORK_HPP

#include "run/job.hpp"

#include <string>

namespace rox::run {

/**
 * Makes the nodes of the job, each with an address, and its device, and enters the first one.
 * @return lines for /etc/hosts
 */
std::string make_network(const Job &job);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_NETWORK_HPP
