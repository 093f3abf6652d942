/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Mappings of rings, of one object and of several. A memfd stands for the device; each page of it
 * begins with its number.
 */
#include "memory.hpp"

#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <memory>
#include <thread>
#include <vector>

namespace rox::test {
namespace {

constexpr size_t page = 4096;
constexpr size_t pages = 64;

class MappingTest : public testing::Test {
protected:
    void SetUp() override
    {
        ASSERT_EQ(ftruncate(fd, pages * page), 0);
        for (uint64_t i = 0; i < pages; i++) {
            ASSERT_EQ(pwrite(fd, &i, sizeof(i), static_cast<off_t>(i * page)), 8);
        }
    }
    void TearDown() override { close(fd); }

    static uint64_t number_at(const std::byte *at)
    {
        uint64_t number = 0;

        std::memcpy(&number, at, sizeof(number));
        return number;
    }
    static rox_mapping area(uint64_t first, size_t count = 1)
    {
        return {.offset = first * page, .size = count * page};
    }
    static rox_place place(uint64_t slab, uint32_t position)
    {
        return {.slab = slab, .position = position, .reserved = 0};
    }

    int fd = memfd_create("device", MFD_CLOEXEC);
    Slabs slabs;
};

TEST_F(MappingTest, OfItsOwn)
{
    Mapping one;
    Mapping two;

    ASSERT_EQ(one.map(slabs, fd, area(5), {}), 0);
    ASSERT_EQ(two.map(slabs, fd, area(5), {}), 0);
    EXPECT_NE(one.base(), two.base()) << "it is not shared";
    EXPECT_EQ(number_at(one.base()), 5U);
    one.unmap();
    EXPECT_EQ(one.base(), nullptr);
    EXPECT_EQ(number_at(two.base()), 5U);
}

TEST_F(MappingTest, PartsOfASlab)
{
    Mapping one;
    Mapping two;

    ASSERT_EQ(one.map(slabs, fd, area(8, 4), place(1, 0)), 0);
    ASSERT_EQ(two.map(slabs, fd, area(8, 4), place(1, 2 * page)), 0);
    EXPECT_EQ(one.base() + 2 * page, two.base()) << "one mapping for both";
    EXPECT_EQ(number_at(two.base()), 10U);
    one.unmap();
    EXPECT_EQ(number_at(two.base()), 10U) << "it is mapped as long as one needs it";
}

TEST_F(MappingTest, RingsEndWithTheSlab)
{
    const rox_ring_desc ring = {
        .ctrl_offset = 0, .entries_offset = sizeof(rox_ring_ctrl), .entries = 32, .stride = 64};
    Mapping map;

    ASSERT_EQ(map.map(slabs, fd, area(0, 2), place(1, 2 * page - 2240)), 0);
    EXPECT_TRUE(map.holds(ring, 64));
    ASSERT_EQ(map.map(slabs, fd, area(0, 2), place(1, 2 * page - 2240 + 64)), 0);
    EXPECT_FALSE(map.holds(ring, 64));
}

TEST_F(MappingTest, WrongPlacesAreRefused)
{
    Mapping map;

    EXPECT_EQ(map.map(slabs, fd, area(0, 2), place(1, 2 * page)), EPROTO);
    EXPECT_EQ(map.map(slabs, fd, area(0, 2), place(1, 8)), EPROTO);
    EXPECT_EQ(map.map(slabs, fd, area(0, 2), place(1, ~0U)), EPROTO);
    EXPECT_EQ(map.map(slabs, fd, {.offset = 0, .size = 0}, place(1, 0)), EPROTO);
    EXPECT_EQ(map.map(slabs, -1, area(0), place(1, 0)), EBADF);
    EXPECT_EQ(map.map(slabs, -1, area(0), {}), EBADF);
    EXPECT_EQ(map.base(), nullptr);
    ASSERT_EQ(map.map(slabs, fd, area(0, 2), place(1, 64)), 0) << "nothing is left of them";
}

/* The kernel gives the offset to another slab while the first is mapped. */
TEST_F(MappingTest, SameOffsetWithAnotherNumberIsOtherMemory)
{
    const int other = memfd_create("later", MFD_CLOEXEC);
    const uint64_t mark = 99;
    Mapping before;
    Mapping after;

    ASSERT_EQ(ftruncate(other, page), 0);
    ASSERT_EQ(pwrite(other, &mark, sizeof(mark), 0), 8);
    ASSERT_EQ(before.map(slabs, fd, area(0), place(7, 0)), 0);
    ASSERT_EQ(after.map(slabs, other, area(0), place(8, 0)), 0);
    EXPECT_EQ(number_at(before.base()), 0U);
    EXPECT_EQ(number_at(after.base()), mark);
    close(other);
}

TEST_F(MappingTest, OneIdleSlabIsKept)
{
    Mapping map;

    ASSERT_EQ(map.map(slabs, fd, area(1), place(1, 0)), 0);
    std::byte *const base = map.base();

    map.unmap();
    ASSERT_EQ(map.map(slabs, fd, area(1), place(1, 0)), 0);
    EXPECT_EQ(map.base(), base);
    ASSERT_EQ(map.map(slabs, fd, area(2), place(2, 0)), 0) << "1 is idle";
    ASSERT_EQ(map.map(slabs, fd, area(3), place(3, 0)), 0) << "2 is idle, 1 is gone";
    EXPECT_EQ(number_at(map.base()), 3U);
    EXPECT_NE(msync(base, page, MS_ASYNC), 0) << "nothing is mapped there";
    ASSERT_EQ(map.map(slabs, fd, area(1), place(1, 0)), 0) << "and again";
    EXPECT_EQ(number_at(map.base()), 1U);
}

/* More slabs than the table has buckets. */
TEST_F(MappingTest, ManySlabs)
{
    constexpr size_t count = 1000;
    std::vector<std::unique_ptr<Mapping>> maps;

    for (uint64_t i = 0; i < count; i++) {
        maps.push_back(std::make_unique<Mapping>());
        ASSERT_EQ(maps[i]->map(slabs, fd, area(i % pages), place(i + 1, 0)), 0);
    }
    for (uint64_t i = 0; i < count; i += 3) {
        maps[i].reset();
    }
    for (uint64_t i = 0; i < count; i++) {
        Mapping again;

        ASSERT_EQ(again.map(slabs, fd, area(i % pages), place(i + 1, 0)), 0);
        EXPECT_EQ(number_at(again.base()), i % pages);
        if (maps[i]) {
            EXPECT_EQ(again.base(), maps[i]->base());
        }
    }
}

TEST_F(MappingTest, SwapAndReplace)
{
    Mapping ring;
    Mapping larger;

    ASSERT_EQ(ring.map(slabs, fd, area(1), place(1, 0)), 0);
    ASSERT_EQ(larger.map(slabs, fd, area(2), {}), 0);
    ring.swap(larger);
    larger.unmap();
    EXPECT_EQ(number_at(ring.base()), 2U);
    ASSERT_EQ(ring.map(slabs, fd, area(1, 2), place(2, page)), 0);
    EXPECT_EQ(number_at(ring.base()), 2U);
}

/* The last user of a slab in one thread, the first one in another. */
TEST_F(MappingTest, Threads)
{
    std::vector<std::thread> threads;

    for (uint64_t thread = 0; thread < 4; thread++) {
        threads.emplace_back([&, thread] {
            for (uint64_t i = 0; i < 2000; i++) {
                const uint64_t slab = 1 + (i + thread) % 3;
                Mapping map;

                ASSERT_EQ(map.map(slabs, fd, area(slab), place(slab, 64)), 0);
                ASSERT_EQ(number_at(map.base() - 64), slab);
            }
        });
    }
    for (std::thread &thread : threads) {
        thread.join();
    }
}

} // namespace
} // namespace rox::test
