/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <utility>

namespace rox {

/* The kernel does not copy the mapping to children of fork(). */
int Mapping::map(int cmd_fd, const rox_mapping &area)
{
    void *base = mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, cmd_fd,
                      static_cast<off_t>(area.offset));

    if (base == MAP_FAILED) {
        return errno;
    }
    unmap();
    base_ = static_cast<std::byte *>(base);
    size_ = area.size;
    return 0;
}

void Mapping::unmap()
{
    if (base_ == nullptr) {
        return;
    }
    munmap(base_, size_);
    base_ = nullptr;
    size_ = 0;
}

void Mapping::swap(Mapping &other)
{
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
}

bool Mapping::holds(const rox_ring_desc &ring, size_t min_stride) const
{
    const size_t bytes = static_cast<size_t>(ring.entries) * ring.stride;

    return std::has_single_bit(ring.entries) && ring.stride >= min_stride &&
           ring.stride % 16 == 0 && ring.ctrl_offset % alignof(rox_ring_ctrl) == 0 &&
           ring.entries_offset % 16 == 0 && ring.ctrl_offset <= size_ &&
           size_ - ring.ctrl_offset >= sizeof(rox_ring_ctrl) && ring.entries_offset <= size_ &&
           size_ - ring.entries_offset >= bytes;
}

} // namespace rox
