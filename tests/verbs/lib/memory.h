// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory for work requests, and checks of its content.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <infiniband/verbs.h>

#include "handle.h"

namespace vt {

using Bytes = std::span<std::uint8_t>;
using ConstBytes = std::span<const std::uint8_t>;

constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr int kOnDemand = kAllAccess | IBV_ACCESS_ON_DEMAND;

/// Bytes of a page: 4096, or 16 or 64 KiB.
std::size_t page_size();

/// Fills with a pattern that depends on @p seed and position, so that wrong data is recognised.
void fill(Bytes bytes, std::uint64_t seed);
/// True if @p bytes are the pattern of @p seed from its byte @p from on; else says where they
/// differ.
testing::AssertionResult filled(ConstBytes bytes, std::uint64_t seed, std::size_t from = 0);
/// True if all bytes are @p value.
testing::AssertionResult all(ConstBytes bytes, std::uint8_t value);
/// True if both are the same; else says where they differ.
testing::AssertionResult same(ConstBytes left, ConstBytes right);

/// Anonymous, page-aligned memory.
class Memory {
public:
    explicit Memory(std::size_t size, int mmap_flags = 0);
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    Memory(Memory &&other) noexcept;
    ~Memory();

    /// @p size bytes of address space that map the same @p period bytes again and again.
    static Memory repeating(std::size_t size, std::size_t period);

    std::uint8_t *data() const { return data_; }
    std::size_t size() const { return size_; }
    Bytes bytes() const { return {data_, size_}; }

private:
    Memory(std::uint8_t *data, std::size_t size) : data_(data), size_(size) {}
    std::uint8_t *data_;
    std::size_t size_;
};

using MrHandle = Handle<ibv_mr, ibv_dereg_mr>;

MrHandle reg_mr(ibv_pd *pd, void *address, std::size_t length, int access = kAllAccess);

/// Memory with an MR of all of it.
class Buffer {
public:
    Buffer(ibv_pd *pd, std::size_t size, int access = kAllAccess)
        : memory_(size), mr_(reg_mr(pd, memory_.data(), size, access))
    {}
    Buffer(ibv_pd *pd, Memory memory, int access = kAllAccess)
        : memory_(std::move(memory)), mr_(reg_mr(pd, memory_.data(), memory_.size(), access))
    {}

    Bytes bytes() const { return memory_.bytes(); }
    Bytes bytes(std::size_t offset, std::size_t length) const
    {
        return memory_.bytes().subspan(offset, length);
    }
    std::uint8_t *data() const { return memory_.data(); }
    std::size_t size() const { return memory_.size(); }
    std::uint64_t address(std::size_t offset = 0) const
    {
        return reinterpret_cast<std::uintptr_t>(memory_.data()) + offset;
    }
    ibv_sge sge(std::size_t offset, std::size_t length) const
    {
        return {address(offset), static_cast<std::uint32_t>(length), mr_->lkey};
    }
    std::uint64_t &word(std::size_t offset) const
    {
        return *reinterpret_cast<std::uint64_t *>(memory_.data() + offset);
    }
    std::uint32_t lkey() const { return mr_->lkey; }
    std::uint32_t rkey() const { return mr_->rkey; }
    MrHandle &mr() { return mr_; }

private:
    Memory memory_;
    MrHandle mr_;
};

} // namespace vt
