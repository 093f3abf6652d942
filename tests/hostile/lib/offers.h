// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What the kernel has answered to librox, and where librox has mapped it. The object file replaces
/// libc's mmap() and munmap().
#pragma once

#include <cstdint>
#include <vector>

struct ib_uverbs_ioctl_hdr;

namespace hostile {

/// The driver's part of the answer to a uverbs ioctl.
struct Answer {
    int fd = -1;
    std::vector<std::uint8_t> bytes;
};

/// For who does the ioctl (mutator.cc): it has succeeded.
void note_answer(int fd, const ib_uverbs_ioctl_hdr &header);
/// That of the last one in this thread. It is forgotten then.
Answer take_answer();

/// The first of the mappings of @p offset of @p fd that there are; or null.
std::uint8_t *mapped_at(int fd, std::uint64_t offset);

} // namespace hostile
