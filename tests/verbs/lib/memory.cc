// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace vt {

namespace {

/// The eight bytes of the pattern at position 8 * @p index, mixed from seed and index.
std::uint64_t word_of(std::uint64_t seed, std::uint64_t index)
{
    std::uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15U + index * 0xd1342543de82ef95U;
    x ^= x >> 29;
    x *= 0xff51afd7ed558ccdU;
    return x ^ (x >> 32);
}

std::uint8_t byte_of(std::uint64_t seed, std::size_t position)
{
    return static_cast<std::uint8_t>(word_of(seed, position / 8) >> (position % 8 * 8));
}

} // namespace

void fill(Bytes bytes, std::uint64_t seed)
{
    std::size_t i = 0;
    for (; i + 8 <= bytes.size(); i += 8) {
        std::uint64_t word = word_of(seed, i / 8);
        std::memcpy(bytes.data() + i, &word, 8);
    }
    for (; i < bytes.size(); i++)
        bytes[i] = byte_of(seed, i);
}

testing::AssertionResult filled(ConstBytes bytes, std::uint64_t seed, std::size_t from)
{
    std::size_t i = 0;
    while (i < bytes.size()) {
        if ((from + i) % 8 == 0 && i + 8 <= bytes.size()) {
            std::uint64_t word = word_of(seed, (from + i) / 8);
            if (!std::memcmp(bytes.data() + i, &word, 8)) {
                i += 8;
                continue;
            }
        }
        if (bytes[i] != byte_of(seed, from + i))
            return testing::AssertionFailure()
                   << "byte " << i << " of " << bytes.size() << " is " << int(bytes[i]) << ", not "
                   << int(byte_of(seed, from + i)) << " (pattern " << seed << " from " << from
                   << ")";
        i++;
    }
    return testing::AssertionSuccess();
}

testing::AssertionResult all(ConstBytes bytes, std::uint8_t value)
{
    auto other = std::find_if(bytes.begin(), bytes.end(),
                              [value](std::uint8_t byte) { return byte != value; });
    if (other == bytes.end())
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "byte " << other - bytes.begin() << " of " << bytes.size()
                                       << " is " << int(*other) << ", not " << int(value);
}

testing::AssertionResult same(ConstBytes left, ConstBytes right)
{
    if (left.size() != right.size())
        return testing::AssertionFailure() << "sizes " << left.size() << " and " << right.size();
    auto [l, r] = std::mismatch(left.begin(), left.end(), right.begin());
    if (l == left.end())
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "byte " << l - left.begin() << " of " << left.size()
                                       << ": " << int(*l) << " and " << int(*r);
}

std::size_t page_size()
{
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

Memory::Memory(std::size_t size, int mmap_flags) : data_(nullptr), size_(size)
{
    void *address = mmap(nullptr, std::max<std::size_t>(size, 1), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | mmap_flags, -1, 0);
    if (address == MAP_FAILED)
        fail("mmap of " + std::to_string(size) + " bytes", errno);
    data_ = static_cast<std::uint8_t *>(address);
}

Memory::Memory(Memory &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
{}

Memory::~Memory()
{
    if (data_)
        munmap(data_, std::max<std::size_t>(size_, 1));
}

Memory Memory::repeating(std::size_t size, std::size_t period)
{
    int file = memfd_create("repeating", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, static_cast<off_t>(period)))
        fail("memfd of " + std::to_string(period) + " bytes", errno);
    void *base = mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        fail("address space", errno);
    Memory memory(static_cast<std::uint8_t *>(base), size);
    for (std::size_t at = 0; at < size; at += period)
        if (mmap(memory.data_ + at, std::min(period, size - at), PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_FIXED, file, 0) == MAP_FAILED)
            fail("mmap of the repeated piece", errno);
    close(file);
    return memory;
}

MrHandle reg_mr(ibv_pd *pd, void *address, std::size_t length, int access)
{
    return MrHandle(need(ibv_reg_mr(pd, address, length, access), "ibv_reg_mr"));
}

} // namespace vt
