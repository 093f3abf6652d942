/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * rox-run within a command of rox-run.
 */
#ifndef ROX_TOOLS_RUN_INSIDE_HPP
#define ROX_TOOLS_RUN_INSIDE_HPP

#include <string>
#include <vector>

namespace rox::run {

/// Whether this is a kernel of rox-run.
bool is_inside();
/// Becomes the command, on a node of this kernel; an empty @p node: where the caller is. @return an
/// exit status
int run_on_node(const std::string &node, const std::vector<std::string> &command);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INSIDE_HPP
