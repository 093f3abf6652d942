/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Modules of kernels that have RDMA and rox not built in, as those with debugging.
 */
#ifndef ROX_TOOLS_RUN_INIT_MODULES_HPP
#define ROX_TOOLS_RUN_INIT_MODULES_HPP

#include <string>

namespace rox::run {

/// Loads the modules that /modules/order names, if there is such a file. What cannot be loaded is
/// left out.
void load_modules();
/// The arguments for a module on the kernel's command line: of "hostpipe.fds=3,4" is "fds=3,4" for
/// hostpipe.
std::string module_arguments(const std::string &command_line, const std::string &module);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_MODULES_HPP
