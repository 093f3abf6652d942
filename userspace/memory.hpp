/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Memory of the provider: objects from the C heap, and mappings of the kernel's rings.
 */
#ifndef ROX_MEMORY_HPP
#define ROX_MEMORY_HPP

#include <rdma/rox-abi.h>

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
template <typename T>
std::unique_ptr<T> make_object()
{
    std::unique_ptr<T> object(new (std::nothrow) T());

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

/// A mapping of the kernel's rings in this process.
class Mapping {
public:
    Mapping() = default;
    ~Mapping() { unmap(); }
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;

    /// Maps @p area of the command fd. 0 or an errno value.
    int map(int cmd_fd, const rox_mapping &area);
    void unmap();
    void swap(Mapping &other);

    std::byte *base() const { return base_; }

    /// True if @p ring is valid, has entries of at least @p min_stride bytes, and lies inside
    /// the mapping.
    bool holds(const rox_ring_desc &ring, size_t min_stride) const;

private:
    std::byte *base_ = nullptr;
    size_t size_ = 0;
};

} // namespace rox

#endif // ROX_MEMORY_HPP
