/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "layout.hpp"

#include "abi/versions.hpp"

#include <algorithm>
#include <cstring>

namespace rox {
namespace {

/// A layout by its numbers on x86-64.
constexpr Layout known(unsigned int number, unsigned int minor, size_t qp_mask, size_t context_size,
                       bool late_ops)
{
    return {.number = number,
            .minor = minor,
            .qp_mask = qp_mask + rdmacore::mutex_more,
            .context_size = context_size + rdmacore::mutex_more,
            .late_ops = late_ops};
}

/*
 * Printed, as the numbers in abi/pabi.hpp, by a program for each of the versions. A version that is
 * not here is unknown, even if its number is: v62 has added operations under the number of v59.
 */
constexpr std::array<Layout, 7> layouts = {{
    known(34, 14, 352, 648, true),  // v44
    known(34, 14, 360, 648, true),  // v45 to v56
    known(57, 14, 360, 648, true),  // v57, v58
    known(59, 15, 360, 672, false), // v59 to v61
    known(59, 16, 360, 680, true),  // v62, v63
    known(64, 17, 360, 696, true),  // v64
    known(65, 18, 360, 696, true),  // v65
}};

/* Who chooses a provider by the file of a library has the same versions in mind. */
constexpr bool all_versions_have_layouts()
{
    return std::equal(layouts.begin(), layouts.end(), known_versions.begin(), known_versions.end(),
                      [](const Layout &layout, const KnownVersion &version) {
                          return layout.number == version.number && layout.minor == version.minor;
                      });
}
static_assert(all_versions_have_layouts());

constexpr bool qp_has_room()
{
    return std::all_of(layouts.begin(), layouts.end(), [](const Layout &known) {
        // comp_mask and a pointer to the XRC domain.
        return known.qp_mask + 2 * sizeof(void *) <= rdmacore::verbs_qp::largest;
    });
}
static_assert(qp_has_room());

} // namespace

const Layout *layout = nullptr;

std::span<const Layout> all_layouts()
{
    return layouts;
}

const Layout *find_layout(const Library &library)
{
    const auto *found = std::find_if(layouts.begin(), layouts.end(), [&](const Layout &known) {
        return known.number == ROX_PABI && known.number == library.number &&
               known.minor == library.minor && known.qp_mask == library.qp_mask;
    });

    return found != layouts.end() ? found : nullptr;
}

OpsTable arrange_ops(const rdmacore::verbs_context_ops &ops, const Layout &layout)
{
    OpsTable all = {};
    OpsTable table = {};
    size_t used = 0;

    std::memcpy(all.data(), &ops, sizeof(ops));
    for (size_t i = 0; i < all.size(); i++) {
        const bool late = std::find(rdmacore::late_ops.begin(), rdmacore::late_ops.end(), i) !=
                          rdmacore::late_ops.end();

        if (!late || layout.late_ops) {
            table[used++] = all[i];
        }
    }
    return table;
}

} // namespace rox
