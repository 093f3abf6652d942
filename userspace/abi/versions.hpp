/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The versions of libibverbs with which the provider works, by what their files say: for programs
 * that choose a provider, or say why there is none. The provider itself, once it is loaded, finds
 * out more (layout.hpp).
 */
#ifndef ROX_ABI_VERSIONS_HPP
#define ROX_ABI_VERSIONS_HPP

#include <array>

namespace rox {

/// Versions of rdma-core whose libibverbs have one layout.
struct KnownVersion {
    /// N of the symbol version IBVERBS_PRIVATE_N, which is in the name of the provider.
    unsigned int number;
    /// The greatest N of the symbol versions IBVERBS_1.N.
    unsigned int minor;
    /// Of rdma-core: the first and the last one.
    unsigned int oldest;
    unsigned int newest;
};

/// In the order of rdma-core's versions. layout.cpp asserts that it has a layout for each.
inline constexpr std::array<KnownVersion, 7> known_versions = {{
    {34, 14, 44, 44},
    {34, 14, 45, 56},
    {57, 14, 57, 58},
    {59, 15, 59, 61},
    {59, 16, 62, 63},
    {64, 17, 64, 64},
    {65, 18, 65, 65},
}};

} // namespace rox

#endif // ROX_ABI_VERSIONS_HPP
