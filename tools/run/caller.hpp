/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What the command takes over from whoever calls rox-run.
 */
#ifndef ROX_TOOLS_RUN_CALLER_HPP
#define ROX_TOOLS_RUN_CALLER_HPP

#include "run/job.hpp"

#include <string>

namespace rox::run {

/// Puts into the job: environment, folder, umask, limits, ignored signals, the host's name and the
/// CPU's speed.
void take_caller(Job &job);
/// Puts the caller's user and groups into the job; without, the command is root's.
void take_user(Job &job);
/**
 * Refuses folders whose changes would stay if what rox-run lays over the host's files is in them:
 * that would be hidden, or written to the host.
 * @param job whose first folder in `writable` is the working folder, and which has its provider
 * @throw std::runtime_error
 */
void check_writable(const Job &job);
/// Says what the standard streams are. @p raw: the terminal's bytes pass as they are, see Terminal.
void take_streams(Job &job, bool raw);

/// "mtu 9000 delay 1ms jitter 100us loss 1% rate 100mbit". @throw std::runtime_error
Link parse_link(const std::string &text);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_CALLER_HPP
