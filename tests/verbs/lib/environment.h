// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Settings that the tests read from the environment.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace vt {

/// The variable @p name, or @p fallback if it is not set or empty.
inline std::string variable(const char *name, const std::string &fallback = "")
{
    const char *value = std::getenv(name);
    return value && *value ? value : fallback;
}

/// The same as a number (0x...: hexadecimal).
inline std::uint64_t variable_number(const char *name, std::uint64_t fallback)
{
    const std::string text = variable(name);
    return text.empty() ? fallback : std::strtoull(text.c_str(), nullptr, 0);
}

} // namespace vt
