/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What rox-run itself says.
 */
#ifndef ROX_TOOLS_RUN_MESSAGES_HPP
#define ROX_TOOLS_RUN_MESSAGES_HPP

#include <cstdio>
#include <string>

namespace rox::run {

/// Writes a line to standard error. If that cannot be written (a full disk) the line is lost, and
/// the exit status is as it would be.
inline void print_line(const std::string &text)
{
    std::fputs(("rox-run: " + text + '\n').c_str(), stderr);
}

} // namespace rox::run

#endif // ROX_TOOLS_RUN_MESSAGES_HPP
