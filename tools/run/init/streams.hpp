/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Standard input, output and error of the command.
 */
#ifndef ROX_TOOLS_RUN_INIT_STREAMS_HPP
#define ROX_TOOLS_RUN_INIT_STREAMS_HPP

#include "run/job.hpp"

#include <array>
#include <vector>

#include <sys/types.h>

namespace rox::run {

/// The command's ends of its streams, and who copies.
struct Streams {
    std::array<int, 3> command = {-1, -1, -1};
    int terminal = -1;          ///< the end of the terminal that rox-run drives; -1: there is none
    pid_t input = -1;           ///< copies what rox-run sends; it ends with the command
    std::vector<pid_t> outputs; ///< copy to rox-run; each ends when nobody writes any more
    bool input_is_file = false;
};

/// Opens the streams of a job and starts the processes that copy.
Streams open_streams(const Job &job);

/// How far the command has read standard input, if that is a file.
uint64_t input_position(const Streams &streams);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_INIT_STREAMS_HPP
