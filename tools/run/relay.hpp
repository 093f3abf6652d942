/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Between the caller and the command: streams, signals, the terminal, the end.
 */
#ifndef ROX_TOOLS_RUN_RELAY_HPP
#define ROX_TOOLS_RUN_RELAY_HPP

#include "run/job.hpp"
#include "run/machine.hpp"
#include "run/terminal.hpp"

#include <chrono>
#include <string>

namespace rox::run {

struct RelayOptions {
    double timeout = 0;     ///< seconds; 0: none
    bool verbose = false;   ///< say on standard error what happens
    std::string kernel_log; ///< a file for it; empty: none
};

/// Blocks the signals that are passed on. To be called before the first thread starts.
void hold_signals();

/**
 * Gives the job to the machine and passes on all that caller and command have for each other, until
 * the end.
 * @return the exit status of rox-run
 */
int relay(Machine &machine, const Job &job, Terminal &terminal, const RelayOptions &options);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_RELAY_HPP
