// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/offers.h"

#include <map>
#include <mutex>
#include <utility>

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace hostile {

namespace {

thread_local Answer last;

std::mutex lock;
std::map<std::pair<int, std::uint64_t>, std::uint8_t *> maps;

void note_mapping(int fd, std::uint64_t offset, void *at)
{
    std::lock_guard guard(lock);
    maps.try_emplace({fd, offset}, static_cast<std::uint8_t *>(at));
}

void note_unmapping(const void *at)
{
    std::lock_guard guard(lock);
    std::erase_if(maps, [at](const auto &one) { return one.second == at; });
}

} // namespace

void note_answer(int fd, const ib_uverbs_ioctl_hdr &header)
{
    // A driver's own methods number their attributes from there, too.
    if (header.method_id & 1U << UVERBS_ID_NS_SHIFT)
        return;
    for (unsigned i = 0; i < header.num_attrs; i++) {
        const ib_uverbs_attr &attr = header.attrs[i];
        if (attr.attr_id != UVERBS_ATTR_UHW_OUT)
            continue;
        const auto *bytes = reinterpret_cast<const std::uint8_t *>(attr.data);
        last = {fd, {bytes, bytes + attr.len}};
    }
}

Answer take_answer()
{
    return std::exchange(last, {});
}

std::uint8_t *mapped_at(int fd, std::uint64_t offset)
{
    std::lock_guard guard(lock);
    auto found = maps.find({fd, offset});
    return found != maps.end() ? found->second : nullptr;
}

} // namespace hostile

extern "C" {

void *mmap(void *at, std::size_t size, int rights, int flags, int fd, off_t offset) noexcept
{
    auto *mapped = reinterpret_cast<void *>(syscall(SYS_mmap, at, size, rights, flags, fd, offset));
    if (mapped != MAP_FAILED && fd >= 0 && flags & MAP_SHARED)
        hostile::note_mapping(fd, static_cast<std::uint64_t>(offset), mapped);
    return mapped;
}

int munmap(void *at, std::size_t size) noexcept
{
    // Before, as another thread may get the address.
    hostile::note_unmapping(at);
    return static_cast<int>(syscall(SYS_munmap, at, size));
}

} // extern "C"
