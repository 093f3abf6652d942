/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What a module's file says of itself.
 */
#ifndef ROX_DOCTOR_MODINFO_HPP
#define ROX_DOCTOR_MODINFO_HPP

#include <optional>
#include <string>
#include <string_view>

namespace rox::doctor {

struct ModuleInfo {
    std::string vermagic;   ///< the kernel's release and options
    std::string srcversion; ///< of the sources
    bool is_signed = false;

    /// The kernel that the module is for.
    std::string kernel() const { return vermagic.substr(0, vermagic.find(' ')); }
};

/// Reads a module's file; nothing if it is none, as one that is compressed.
std::optional<ModuleInfo> module_info(std::string_view file);
/// Reads what modinfo(8) prints of a module; nothing if it is not that.
std::optional<ModuleInfo> printed_module_info(const std::string &text);

} // namespace rox::doctor

#endif // ROX_DOCTOR_MODINFO_HPP
