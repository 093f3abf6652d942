// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// kernel/wire/wire.h for C++, and what its tests share.
#pragma once

extern "C" {
#include "wire.h"
}

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

using Bytes = std::vector<std::uint8_t>;

inline Bytes from_hex(std::string_view text)
{
    Bytes bytes;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2)
        bytes.push_back(
            static_cast<std::uint8_t>(std::stoul(std::string(text.substr(i, 2)), nullptr, 16)));
    return bytes;
}
