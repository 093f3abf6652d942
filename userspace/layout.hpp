/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Layouts of libibverbs' private structures that differ while the number of the private interface
 * is the same, and the library in which the provider finds itself.
 *
 * A structure of an unexpected layout would let the provider write over memory that is not its own.
 * So the provider registers only with a library whose layout it knows.
 */
#ifndef ROX_LAYOUT_HPP
#define ROX_LAYOUT_HPP

#include "abi/pabi.hpp"

#include <array>
#include <cstddef>
#include <span>

namespace rox {

/// What can be learnt about a loaded libibverbs without touching its structures.
struct Library {
    /// Its file, or an empty string.
    const char *path;
    /// N of its symbol version IBVERBS_PRIVATE_N, or 0.
    unsigned int number;
    /// The greatest N of its symbol versions IBVERBS_1.N: each change of the public functions adds
    /// one.
    unsigned int minor;
    /// Where its ibv_qp_to_qp_ex() finds comp_mask in a verbs_qp; 0 if it was not found.
    size_t qp_mask;
};

/// The layouts of some versions of rdma-core.
struct Layout {
    /// How Library describes them.
    unsigned int number;
    unsigned int minor;
    /// The offset of verbs_qp::comp_mask.
    size_t qp_mask;
    /// sizeof(verbs_context). New members come first, so that it ends with the ibv_context.
    size_t context_size;
    /// False if verbs_context_ops lacks the members in rdmacore::late_ops.
    bool late_ops;
};

/// All that is known, for this interface and others. The first of each number is the oldest.
std::span<const Layout> all_layouts();

/// The layout of a library, or nullptr if it is not one of ROX_PABI's.
const Layout *find_layout(const Library &library);

/// The libibverbs that has loaded the provider.
Library loaded_library();

/// The layout of loaded_library(), or nullptr: then the provider has not registered.
extern const Layout *layout;

/// A table of operations, as libibverbs reads it.
using OpsTable = std::array<rdmacore::unused_op,
                            sizeof(rdmacore::verbs_context_ops) / sizeof(rdmacore::unused_op)>;

/// The operations at the places that they have in @p layout.
OpsTable arrange_ops(const rdmacore::verbs_context_ops &ops, const Layout &layout);

/// verbs_qp::comp_mask.
inline uint32_t &qp_mask(rdmacore::verbs_qp &qp)
{
    return *reinterpret_cast<uint32_t *>(qp.all + layout->qp_mask);
}

} // namespace rox

#endif // ROX_LAYOUT_HPP
