/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "run/library.hpp"

#include "abi/versions.hpp"
#include "lib/file.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <libelf.h>

namespace rox::run {
namespace {

struct EndElf {
    void operator()(Elf *elf) const { elf_end(elf); }
};
using ElfFile = std::unique_ptr<Elf, EndElf>;

/// The names of the symbol versions in a section of definitions.
void collect(Elf *elf, Elf_Scn *section, const GElf_Shdr &header, std::vector<std::string> &names)
{
    Elf_Data *const data = elf_getdata(section, nullptr);
    GElf_Verdef version;
    GElf_Verdaux own;
    GElf_Word place = 0;

    if (data == nullptr)
        return;
    // As many as there is room for: in a file that is damaged the list may lead back to its start.
    for (size_t left = data->d_size / sizeof(Elf64_Verdef); left > 0; left--) {
        if (gelf_getverdef(data, static_cast<int>(place), &version) == nullptr ||
            gelf_getverdaux(data, static_cast<int>(place + version.vd_aux), &own) == nullptr)
            return;
        // The first name of a definition is its own, the others are those of its parents.
        if (const char *const name = elf_strptr(elf, header.sh_link, own.vda_name); name != nullptr)
            names.emplace_back(name);
        if (version.vd_next == 0)
            return;
        place += version.vd_next;
    }
}

std::vector<std::string> symbol_versions(Elf *elf)
{
    std::vector<std::string> names;
    GElf_Shdr header;

    for (Elf_Scn *section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;)
        if (gelf_getshdr(section, &header) != nullptr && header.sh_type == SHT_GNU_verdef)
            collect(elf, section, header, names);
    return names;
}

/// The number behind @p prefix that ends a name, or 0.
unsigned number_after(std::string_view name, std::string_view prefix)
{
    unsigned number = 0;

    if (!name.starts_with(prefix))
        return 0;
    const char *const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
    return error == std::errc{} && stop == end ? number : 0;
}

/// N of libibverbs.so.1.MINOR.N.PATCH, which is where a link libibverbs.so.1 leads, or 0.
unsigned release_of(const std::string &file)
{
    constexpr std::string_view prefix = "libibverbs.so.1.";
    std::error_code error;
    const std::string name = std::filesystem::canonical(file, error).filename();
    const size_t minor_end = name.find('.', prefix.size());

    if (!name.starts_with(prefix) || minor_end == name.npos)
        return 0;
    return number_after(name.substr(0, name.find('.', minor_end + 1)),
                        name.substr(0, minor_end + 1));
}

} // namespace

std::optional<Library> read_library(const std::string &file)
{
    const File opened(open(file.c_str(), O_RDONLY | O_CLOEXEC));
    Library library;
    GElf_Ehdr header;

    if (!opened.ok())
        throw std::runtime_error(fmt::format("{}: {}", file, std::strerror(errno)));
    elf_version(EV_CURRENT);
    const ElfFile elf(elf_begin(opened.get(), ELF_C_READ, nullptr));
    if (elf == nullptr || gelf_getehdr(elf.get(), &header) == nullptr || header.e_type != ET_DYN)
        throw std::runtime_error(fmt::format("{} is no library", file));
    if (header.e_machine != EM_X86_64 || header.e_ident[EI_CLASS] != ELFCLASS64)
        return {};
    for (const auto &name : symbol_versions(elf.get())) {
        library.number = std::max(library.number, number_after(name, "IBVERBS_PRIVATE_"));
        library.minor = std::max(library.minor, number_after(name, "IBVERBS_1."));
    }
    library.release = release_of(file);
    return library;
}

bool is_known(const Library &library)
{
    return std::any_of(known_versions.begin(), known_versions.end(), [&](const auto &known) {
        return known.number == library.number && known.minor == library.minor &&
               (library.release == 0 || library.release >= known.oldest);
    });
}

std::string describe(const Library &library)
{
    return fmt::format("{} ({}, IBVERBS_1.{})",
                       library.release != 0 ? fmt::format("rdma-core {}", library.release)
                                            : "an rdma-core",
                       library.number != 0 ? fmt::format("IBVERBS_PRIVATE_{}", library.number)
                                           : "no IBVERBS_PRIVATE_N",
                       library.minor);
}

std::string describe_versions(unsigned number)
{
    unsigned oldest = 0, newest = 0;

    for (const auto &known : known_versions) {
        if (known.number != number)
            continue;
        oldest = oldest != 0 ? oldest : known.oldest;
        newest = known.newest;
    }
    if (oldest == 0)
        return fmt::format("IBVERBS_PRIVATE_{}", number);
    return fmt::format("rdma-core {} (IBVERBS_PRIVATE_{})",
                       oldest == newest ? fmt::to_string(oldest)
                                        : fmt::format("{} to {}", oldest, newest),
                       number);
}

} // namespace rox::run
