/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Finds out which libibverbs has loaded the provider. The version in the name of its file is not
 * used, as some distributions of programs rename it.
 */
#include "layout.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

namespace rox {
namespace {

/* What the dynamic section of a library says of its symbol versions. */
struct Versions {
    const char *strings = nullptr;
    const std::byte *first = nullptr; // ElfW(Verdef)
    size_t count = 0;
};

Versions find_versions(const link_map &map)
{
    // Some entries are addresses already, others offsets from the start of the library.
    auto address = [&](ElfW(Addr) value) {
        return value < map.l_addr ? value + map.l_addr : value;
    };
    Versions versions;

    for (const ElfW(Dyn) *entry = map.l_ld; entry->d_tag != DT_NULL; entry++) {
        switch (entry->d_tag) {
        case DT_STRTAB:
            versions.strings = reinterpret_cast<const char *>(address(entry->d_un.d_ptr));
            break;
        case DT_VERDEF:
            versions.first = reinterpret_cast<const std::byte *>(address(entry->d_un.d_ptr));
            break;
        case DT_VERDEFNUM: versions.count = entry->d_un.d_val; break;
        default: break;
        }
    }
    return versions;
}

/*
 * The number behind @p prefix in @p name, or 0. Without strtoul(), which glibc 2.38 has given a new
 * version: the provider could not be loaded on older systems than that on which it was built.
 */
unsigned int number_after(const char *name, const char *prefix)
{
    const size_t length = std::strlen(prefix);
    unsigned int number = 0;

    if (std::strncmp(name, prefix, length) != 0) {
        return 0;
    }
    for (const char *digit = name + length; *digit >= '0' && *digit <= '9'; digit++) {
        number = 10 * number + static_cast<unsigned int>(*digit - '0');
    }
    return number;
}

void read_versions(const link_map &map, Library &library)
{
    const Versions versions = find_versions(map);
    const std::byte *place = versions.first;

    if (versions.strings == nullptr || place == nullptr) {
        return;
    }
    for (size_t i = 0; i < versions.count; i++) {
        const auto &version = *reinterpret_cast<const ElfW(Verdef) *>(place);
        const auto &own = *reinterpret_cast<const ElfW(Verdaux) *>(place + version.vd_aux);
        const char *name = versions.strings + own.vda_name;

        library.number = std::max(library.number, number_after(name, "IBVERBS_PRIVATE_"));
        library.minor = std::max(library.minor, number_after(name, "IBVERBS_1."));
        place += version.vd_next;
    }
}

/*
 * Where libibverbs looks for comp_mask: ibv_qp_to_qp_ex() reads that member and nothing else. The
 * memory has room for layouts that are larger than all that are known.
 */
size_t probe_qp_mask()
{
    constexpr size_t words = 4 * rdmacore::verbs_qp::largest / sizeof(uint32_t);
    alignas(rdmacore::verbs_qp) std::array<uint32_t, words> memory = {};

    for (size_t i = 0; i < words; i++) {
        memory[i] = rdmacore::QP_MASK_EX;
        const bool found = ibv_qp_to_qp_ex(reinterpret_cast<ibv_qp *>(memory.data())) != nullptr;
        memory[i] = 0;
        if (found) {
            return i * sizeof(uint32_t);
        }
    }
    return 0;
}

} // namespace

Library loaded_library()
{
    Library library = {.path = "", .number = 0, .minor = 0, .qp_mask = 0};
    Dl_info info = {};
    link_map *map = nullptr;

    // No program takes the address of a private function, so it is inside the library.
    if (dladdr1(reinterpret_cast<void *>(rdmacore::verbs_set_ops), &info,
                reinterpret_cast<void **>(&map), RTLD_DL_LINKMAP) == 0 ||
        map == nullptr) {
        return library;
    }
    library.path = info.dli_fname;
    read_versions(*map, library);
    library.qp_mask = probe_qp_mask();
    return library;
}

} // namespace rox
