// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// CRC-32 bit by bit, as its definition says: slow, and with nothing to get wrong.
#include "wire.hpp"

extern "C" u32 rox_crc32(u32 state, const void *data, size_t len)
{
    for (std::uint8_t byte : std::span(static_cast<const std::uint8_t *>(data), len)) {
        state ^= byte;
        for (int bit = 0; bit < 8; bit++)
            state = state >> 1 ^ (state & 1 ? 0xedb88320U : 0);
    }
    return state;
}
