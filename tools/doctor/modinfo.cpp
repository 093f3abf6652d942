/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/modinfo.hpp"
#include "lib/tree.hpp"

#include <sstream>

namespace rox::doctor {

namespace {

/* The section .modinfo is a sequence of NAME=VALUE, each with a 0 before and behind it. */
std::string value_of(std::string_view file, std::string_view name)
{
    const std::string key = '\0' + std::string(name) + '=';
    const size_t at = file.find(key);

    if (at == std::string_view::npos)
        return "";
    const size_t begin = at + key.size();
    return std::string(file.substr(begin, file.find('\0', begin) - begin));
}

} // namespace

std::optional<ModuleInfo> module_info(std::string_view file)
{
    if (!file.starts_with("\x7f"
                          "ELF"))
        return std::nullopt;
    return ModuleInfo{.vermagic = value_of(file, "vermagic"),
                      .srcversion = value_of(file, "srcversion"),
                      .is_signed = file.ends_with("~Module signature appended~\n")};
}

std::optional<ModuleInfo> printed_module_info(const std::string &text)
{
    std::istringstream lines(text);
    ModuleInfo info;

    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(':');
        const std::string name = line.substr(0, colon);

        if (name == "vermagic")
            info.vermagic = trimmed(line.substr(colon + 1));
        else if (name == "srcversion")
            info.srcversion = trimmed(line.substr(colon + 1));
        else if (name == "signer" || name.starts_with("sig_"))
            info.is_signed = true;
    }
    return info.vermagic.empty() ? std::nullopt : std::optional(info);
}

} // namespace rox::doctor
