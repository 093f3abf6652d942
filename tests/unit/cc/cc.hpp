// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// kernel/transport/cc.h for C++.
#pragma once

extern "C" {
#include "cc.h"
}

constexpr u64 kUsec = 1000;
constexpr u64 kMsec = 1000 * kUsec;
constexpr u64 kSec = 1000 * kMsec;

// Bytes a second of so many Mbit/s.
constexpr u64 mbit(u64 n)
{
    return n * ROX_CC_MBIT;
}
