/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What all parts of the first process need.
 */
#ifndef ROX_TOOLS_RUN_INIT_SYSTEM_HPP
#define ROX_TOOLS_RUN_INIT_SYSTEM_HPP

#include "run/job.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace rox::run {

/// The control pipe, which is open from the first call on.
int control();

/// Tells rox-run why there is no world for the command, and waits for the end. @p error: errno, or
/// 0.
[[noreturn]] void fail(std::string_view what, int error);
/// fail() with errno if the condition does not hold.
void need(bool condition, std::string_view what);

/// Sends a report to rox-run.
void report(Report::Kind kind, uint32_t value = 0, uint64_t offset = 0);

/// Reads exactly so much. @return false at the end of the file or after an error
bool read_all(int fd, void *buffer, size_t size);
bool write_all(int fd, const void *buffer, size_t size);

/// Writes a file, which is made if necessary. @return false with errno set
bool write_file(const std::string &path, std::string_view text);
/// The text of a file; empty if it cannot be read.
std::string read_file(const std::string &path);
/// Makes a folder and those above it.
bool make_folders(const std::string &path);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_SYSTEM_HPP
