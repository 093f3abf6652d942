/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What the file of a libibverbs says of itself.
 */
#ifndef ROX_TOOLS_RUN_LIBRARY_HPP
#define ROX_TOOLS_RUN_LIBRARY_HPP

#include <optional>
#include <string>

namespace rox::run {

/// A libibverbs.so.1. It is read and not loaded: it may need another C library than this program.
struct Library {
    unsigned number = 0; ///< N of its symbol version IBVERBS_PRIVATE_N, or 0
    unsigned minor = 0;  ///< the greatest N of its symbol versions IBVERBS_1.N, or 0
    unsigned release =
        0; ///< rdma-core's, if the file's name has it (libibverbs.so.1.14.44.0), or 0
};

/**
 * Reads the symbol versions that a library defines.
 * @return nothing if it is for another processor
 * @throw std::runtime_error if it cannot be read or is no library
 */
std::optional<Library> read_library(const std::string &file);

/**
 * Whether the provider of its number works with it, as far as can be seen from outside. Of numbers
 * that several layouts have only the name of the file tells those apart that are too old; the
 * provider looks again when it is loaded.
 */
bool is_known(const Library &library);

/// "rdma-core 44 (IBVERBS_PRIVATE_34, IBVERBS_1.14)"
std::string describe(const Library &library);

/// What the provider of a number is for: "rdma-core 44 to 56 (IBVERBS_PRIVATE_34)"
std::string describe_versions(unsigned number);

} // namespace rox::run

#endif // ROX_TOOLS_RUN_LIBRARY_HPP
