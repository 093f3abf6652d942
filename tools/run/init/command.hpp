/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The command: its start, what rox-run wants of it, its end.
 */
#ifndef ROX_TOOLS_RUN_INIT_COMMAND_HPP
#define ROX_TOOLS_RUN_INIT_COMMAND_HPP

#include "run/init/streams.hpp"
#include "run/job.hpp"

namespace rox::run {

/**
 * Runs the command of the job and reports to rox-run what becomes of it. When it ends, all programs
 * end but the first process, the calling one, and those that copy its output.
 */
void run_command(const Job &job, Streams &streams);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_COMMAND_HPP
