/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "memory.hpp"

#include <sys/mman.h>

#include <bit>
#include <utility>

namespace rox {

namespace {

/* The kernel does not copy the mapping to children of fork(). 0 or an errno value. */
int map_area(int cmd_fd, const rox_mapping &area, std::byte *&base)
{
    void *mapped = mmap(nullptr, area.size, PROT_READ | PROT_WRITE, MAP_SHARED, cmd_fd,
                        static_cast<off_t>(area.offset));

    if (mapped == MAP_FAILED) {
        return errno;
    }
    base = static_cast<std::byte *>(mapped);
    return 0;
}

void destroy(Slab *slab)
{
    munmap(slab->base, slab->size);
    delete slab;
}

} // namespace

Slabs::~Slabs()
{
    if (idle_ != nullptr) {
        destroy(idle_);
    }
}

Slab *Slabs::find(uint64_t number)
{
    Slab *slab = bucket(number);

    while (slab != nullptr && slab->number != number) {
        slab = slab->next;
    }
    return slab;
}

void Slabs::remove(const Slab &slab)
{
    Slab **link = &bucket(slab.number);

    while (*link != &slab) {
        link = &(*link)->next;
    }
    *link = slab.next;
}

int Slabs::get(int cmd_fd, const rox_mapping &area, uint64_t number, Slab *&slab)
{
    const std::lock_guard guard(lock_);

    slab = find(number);
    if (slab != nullptr) {
        idle_ = slab == idle_ ? nullptr : idle_;
        slab->users++;
        return 0;
    }

    std::unique_ptr<Slab> added = make_object<Slab>();

    if (!added) {
        return ENOMEM;
    }
    if (const int error = map_area(cmd_fd, area, added->base); error != 0) {
        return error;
    }
    added->number = number;
    added->size = area.size;
    added->users = 1;
    added->owner = this;
    added->next = bucket(number);
    slab = added.release();
    bucket(number) = slab;
    return 0;
}

void Slabs::put(Slab &slab)
{
    Slab *old = nullptr;

    {
        const std::lock_guard guard(lock_);

        if (--slab.users != 0) {
            return;
        }
        old = idle_;
        idle_ = &slab;
        if (old != nullptr) {
            remove(*old);
        }
    }
    if (old != nullptr) {
        destroy(old);
    }
}

int Mapping::map(Slabs &slabs, int cmd_fd, const rox_mapping &area, const rox_place &place)
{
    Slab *slab = nullptr;
    std::byte *base = nullptr;

    if (place.position >= area.size || place.position % ROX_CACHE_LINE != 0) {
        return EPROTO;
    }
    if (place.slab != 0) {
        if (const int error = slabs.get(cmd_fd, area, place.slab, slab); error != 0) {
            return error;
        }
        base = slab->base;
    } else if (const int error = map_area(cmd_fd, area, base); error != 0) {
        return error;
    }
    unmap();
    slab_ = slab;
    base_ = base + place.position;
    size_ = area.size - place.position;
    return 0;
}

void Mapping::unmap()
{
    if (base_ == nullptr) {
        return;
    }
    if (slab_ != nullptr) {
        slab_->owner->put(*slab_);
    } else {
        munmap(base_, size_);
    }
    base_ = nullptr;
    size_ = 0;
    slab_ = nullptr;
}

void Mapping::swap(Mapping &other)
{
    std::swap(base_, other.base_);
    std::swap(size_, other.size_);
    std::swap(slab_, other.slab_);
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
