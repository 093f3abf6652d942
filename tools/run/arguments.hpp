/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * rox-run's command line.
 */
#ifndef ROX_TOOLS_RUN_ARGUMENTS_HPP
#define ROX_TOOLS_RUN_ARGUMENTS_HPP

#include <optional>
#include <string>
#include <vector>

namespace rox::run {

struct Arguments {
    std::vector<std::string> command, writable, kernel;
    std::string link, node, log, join;
    unsigned nodes = 1, number = 0, memory = 0, cpus = 0;
    double timeout = 0;
    bool net = false, user = false, vm = false, verbose = false;
};

/// What parse() finds.
struct Parsed {
    Arguments arguments;
    std::optional<int> status; ///< the exit status, if there is nothing to run
};

/// Parses the options before the command, and prints help or what is wrong. @p inside: within a
/// command of rox-run, where most options mean nothing and are refused.
Parsed parse(int argc, const char *const *argv, bool inside);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_ARGUMENTS_HPP
