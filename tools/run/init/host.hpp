/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * How the first process reaches rox-run and the host's files: User Mode Linux has pipes and hostfs
 * for that, a virtual machine a serial port, see Mux, and 9p.
 */
#ifndef ROX_TOOLS_RUN_INIT_HOST_HPP
#define ROX_TOOLS_RUN_INIT_HOST_HPP

#include <cstddef>
#include <string>

namespace rox::run {

/// Opens what leads to rox-run. In a virtual machine the calling process is then the one that
/// carries all pipes, for ever, and a child of it comes back.
void reach_host();

/// Opens the pipe to rox-run. @return a file descriptor, or -1 with errno set
int open_pipe(int number);
/// Waits until all that was written to the pipes of the command's output is on its way: what is
/// written to another one after that comes after it.
void settle_output();

/// Mounts the host's root, which cannot be written there. @return false with errno set
bool mount_host(const std::string &place);
/// Mounts `Job::writable[index]` where it is on the host. @return false with errno set
bool mount_writable(size_t index, const std::string &folder);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_HOST_HPP
