// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Commands to uverbs as they should not be: before each one that libibverbs gives, some like it
/// with wrong numbers, lengths, handles and pointers. Linked in, it stands before libc's ioctl()
/// and write().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "lib/chance.h"

namespace hostile {

struct MutatorCounts {
    std::uint64_t seen = 0;               ///< commands of libibverbs
    std::uint64_t mutated = 0;            ///< commands like them
    std::uint64_t accepted = 0;           ///< of those, that the kernel has carried out
    std::map<int, std::uint64_t> refused; ///< by errno
};

/// From now on, for the calling thread: @p copies for each command, by chance.
void mutate_commands(Chance &chance, unsigned copies);
/// What was done so far.
const MutatorCounts &commands_so_far();
/// Ends it, and says what was done.
MutatorCounts commands_as_they_are();

} // namespace hostile
