/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The file system in which the command runs.
 */
#ifndef ROX_TOOLS_RUN_INIT_WORLD_HPP
#define ROX_TOOLS_RUN_INIT_WORLD_HPP

#include "run/job.hpp"

namespace rox::run {

/// Where the caller's files are, as the host has them, after enter_world(): the host's root.
constexpr const char *host_root = "/run/rox-run/host";

/// Mounts what the first process needs to talk to rox-run.
void mount_first();
/**
 * Makes the caller's file system the root: read from the host, written to memory but for the
 * folders that the job names. Lays the provider over it.
 */
void enter_world(const Job &job);
/// Adds what the network has to /etc/hosts and sets the host's name. @p lines end with a newline
/// each.
void name_hosts(const Job &job, const std::string &lines);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_WORLD_HPP
