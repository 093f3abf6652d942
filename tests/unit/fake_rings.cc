/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The fake kernel's rings: mappings of one object, and slabs of several. */
#include "fake_kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cstdlib>
#include <tuple>

namespace rox::test {
namespace {

constexpr size_t page = 4096;

size_t round_up(size_t value, size_t to)
{
    return (value + to - 1) / to * to;
}

} // namespace

KernelRing FakeKernel::sized(uint32_t entries, size_t stride)
{
    KernelRing ring;

    ring.desc.entries = entries != 0 ? std::bit_ceil(entries) : 0;
    ring.desc.stride = static_cast<uint32_t>(round_up(stride, 16));
    return ring;
}

std::pair<rox_mapping, std::byte *> FakeKernel::new_mapping(size_t size)
{
    const rox_mapping map = {.offset = end_, .size = round_up(size, page)};

    end_ += map.size;
    if (ftruncate(fd_, static_cast<off_t>(end_)) != 0) {
        std::abort();
    }
    void *base = mmap(nullptr, map.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                      static_cast<off_t>(map.offset));

    views_.emplace_back(base, map.size);
    return {map, static_cast<std::byte *>(base)};
}

/* The newest slab, if it has room. */
FakeKernel::FakeSlab &FakeKernel::slab_for(size_t size)
{
    constexpr size_t slab_size = 4 * page;
    auto it = slabs_.find(last_slab_);

    if (it == slabs_.end() || it->second.used + size > slab_size) {
        const auto [map, base] = new_mapping(slab_size);

        it = slabs_.emplace(++last_slab_, FakeSlab{map, base, 0, 0}).first;
    }
    return it->second;
}

rox_mapping FakeKernel::offer(std::vector<KernelRing *> rings, rox_place *place)
{
    size_t size = 0;

    for (KernelRing *ring : rings) {
        ring->desc.ctrl_offset = static_cast<uint32_t>(size);
        ring->desc.entries_offset = static_cast<uint32_t>(size + sizeof(rox_ring_ctrl));
        size += round_up(sizeof(rox_ring_ctrl) + size_t{ring->desc.entries} * ring->desc.stride,
                         64);
    }

    rox_mapping map = {};
    std::byte *base = nullptr;

    if (place != nullptr && shares && (asked_features & ROX_FEATURE_SLABS) != 0 && size <= page) {
        FakeSlab &slab = slab_for(size);

        map = slab.map;
        base = slab.base + slab.used;
        *place = {.slab = last_slab_, .position = static_cast<uint32_t>(slab.used), .reserved = 0};
        slab.used += size;
        slab.objects++;
        rings.front()->slab = last_slab_;
    } else {
        std::tie(map, base) = new_mapping(size);
    }
    for (KernelRing *ring : rings) {
        ring->base = base;
    }
    return refuse_mmap ? rox_mapping{.offset = 1, .size = map.size} : map;
}

void FakeKernel::withdraw(const KernelRing &ring)
{
    if (const auto it = slabs_.find(ring.slab); it != slabs_.end() && --it->second.objects == 0) {
        slabs_.erase(it);
    }
}

} // namespace rox::test
