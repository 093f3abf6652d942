// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Mutated uverbs commands: before each command of libibverbs, copies of it are issued with wrong
/// numbers, lengths, handles and pointers. The object file replaces libc's ioctl() and write().
#pragma once

#include <atomic>
#include <cstdint>
#include <map>

#include "lib/chance.h"

namespace hostile {

struct MutatorCounts {
    std::uint64_t seen = 0;               ///< commands of libibverbs
    std::uint64_t mutated = 0;            ///< mutated copies
    std::uint64_t accepted = 0;           ///< mutated copies that the kernel has executed
    std::map<int, std::uint64_t> refused; ///< by errno
};

/// Starts it for the calling thread, with up to @p copies of each command.
void mutate_commands(Chance &chance, unsigned copies);
/// The counts so far.
const MutatorCounts &commands_so_far();
/// Ends it and returns the counts.
MutatorCounts commands_as_they_are();

} // namespace hostile
