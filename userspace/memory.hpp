/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Memory of the provider: objects from the C heap, and mappings of the kernel's rings.
 */
#ifndef ROX_MEMORY_HPP
#define ROX_MEMORY_HPP

#include "lock.hpp"

#include <rdma/rox-abi.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>

namespace rox {

/**
 * Base of the objects that programs hold by a pointer to their public part.
 * They are allocated, zeroed, on the C heap: programs that load the provider need
 * no C++ runtime.
 */
struct HeapObject {
    static void *operator new(size_t size, const std::nothrow_t &) noexcept
    {
        return std::calloc(1, size);
    }
    /// For types that are aligned to a cache line. Their size is a multiple of it.
    static void *operator new(size_t size, std::align_val_t align, const std::nothrow_t &) noexcept
    {
        void *memory = std::aligned_alloc(static_cast<size_t>(align), size);

        return memory != nullptr ? std::memset(memory, 0, size) : nullptr;
    }
    static void operator delete(void *memory) noexcept { std::free(memory); }
    static void operator delete(void *memory, const std::nothrow_t &) noexcept
    {
        std::free(memory);
    }
    static void operator delete(void *memory, std::align_val_t, const std::nothrow_t &) noexcept
    {
        std::free(memory);
    }
};

/// A new object. If there is no memory, an empty pointer, and errno is set.
template <typename T, typename... Args>
std::unique_ptr<T> make_object(Args... args)
{
    std::unique_ptr<T> object(new (std::nothrow) T(args...));

    if (!object) {
        errno = ENOMEM;
    }
    return object;
}

/// The object whose first member is @p member.
template <typename T, typename Public>
T *object_of(Public *member)
{
    static_assert(std::is_standard_layout_v<T>);
    return reinterpret_cast<T *>(member);
}

class Slabs;

/// A mapping that objects share.
struct Slab : HeapObject {
    uint64_t number; // see struct rox_place
    std::byte *base;
    size_t size;
    uint32_t users; // objects of this process in it
    Slabs *owner;
    Slab *next; // in its bucket
};

/**
 * The slabs that a context has mapped. One is mapped when the first object in it comes. It is
 * found by its number: when the kernel has given up a slab, another one may get its offset, while
 * a thread still has to unmap the first. If the kernel puts an object into a slab that a thread
 * just unmaps, it is mapped again.
 */
class Slabs : public HeapObject {
public:
    Slabs() = default;
    /// What leftover objects use stays mapped.
    ~Slabs();
    Slabs(const Slabs &) = delete;
    Slabs &operator=(const Slabs &) = delete;

    /// Counts a user of slab @p number, and maps it for the first one. 0 or an errno value.
    int get(int cmd_fd, const rox_mapping &area, uint64_t number, Slab *&slab);
    void put(Slab &slab);

private:
    static constexpr size_t buckets = 256; // the numbers are consecutive

    Slab *&bucket(uint64_t number) { return table_[number % buckets]; }
    Slab *find(uint64_t number);
    void remove(const Slab &slab);

    Mutex lock_;
    std::array<Slab *, buckets> table_ = {};
    Slab *idle_ = nullptr; // has no users; kept for objects that come and go
};

/// The kernel's rings of an object in this process: a mapping, or a part of a slab.
class Mapping {
public:
    Mapping() = default;
    ~Mapping() { unmap(); }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    /// Maps @p area of the command fd, from @p place on. 0 or an errno value.
    int map(Slabs &slabs, int cmd_fd, const rox_mapping &area, const rox_place &place);
    void unmap();
    void swap(Mapping &other);

    std::byte *base() const { return base_; }

    /// True if @p ring is valid, has entries of at least @p min_stride bytes, and lies inside
    /// the mapping.
    bool holds(const rox_ring_desc &ring, size_t min_stride) const;

private:
    std::byte *base_ = nullptr;
    size_t size_ = 0;
    Slab *slab_ = nullptr;
};

} // namespace rox

#endif // ROX_MEMORY_HPP
