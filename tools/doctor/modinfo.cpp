/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/modinfo.hpp"

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

} // namespace rox::doctor
