/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The program's end of the rings, against a peer that the test plays. */
#include "plain_ring.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace rox::test {
namespace {

constexpr uint32_t entries = 8;
constexpr uint32_t stride = 16;

struct Item {
    uint64_t value;
};

/* Every ring test runs from index 0, across 2^31 and across 2^32. */
class RingTest : public testing::TestWithParam<uint32_t> {
protected:
    PlainRing plain{entries, stride, GetParam()};
};

class ProducerRingTest : public RingTest {
protected:
    void SetUp() override { ring.attach(plain.view(), entries); }

    bool put(uint64_t value)
    {
        std::byte *slot = ring.reserve();

        if (slot == nullptr) {
            return false;
        }
        new (slot) Item{value};
        return true;
    }

    ProducerRing ring;
};

class ConsumerRingTest : public RingTest {
protected:
    void SetUp() override { ring.attach(plain.view()); }

    std::vector<uint64_t> take_all()
    {
        std::vector<uint64_t> values;

        while (const std::byte *slot = ring.peek()) {
            values.push_back(reinterpret_cast<const Item *>(slot)->value);
            ring.pop();
        }
        ring.release();
        return values;
    }

    ConsumerRing ring;
};

TEST_P(ProducerRingTest, WhatIsReservedIsInvisibleUntilPublished)
{
    ASSERT_TRUE(put(1));
    EXPECT_EQ(plain.waiting(), 0U);
    EXPECT_TRUE(ring.publish());
    EXPECT_EQ(plain.waiting(), 1U);
    EXPECT_EQ(plain.take<Item>().value, 1U);
}

TEST_P(ProducerRingTest, PublishOfNothingSaysSoAndStoresNothing)
{
    EXPECT_FALSE(ring.publish());
    EXPECT_EQ(plain.waiting(), 0U);
}

TEST_P(ProducerRingTest, TakesExactlyAsManyAsItHasEntries)
{
    for (uint32_t i = 0; i < entries; i++) {
        EXPECT_TRUE(put(i)) << i;
    }
    EXPECT_FALSE(put(99));
    EXPECT_EQ(ring.reserve_error(), ENOMEM);
    ring.publish();
    EXPECT_EQ(plain.waiting(), entries);
}

TEST_P(ProducerRingTest, FullRingTakesOneMoreAfterThePeerTookOne)
{
    while (put(0)) {
    }
    ring.publish();
    plain.take<Item>();
    EXPECT_TRUE(put(1));
    EXPECT_FALSE(put(2));
}

TEST_P(ProducerRingTest, LimitBelowTheEntriesIsKept)
{
    ring.attach(plain.view(), 3);
    EXPECT_TRUE(put(0) && put(1) && put(2));
    EXPECT_FALSE(put(3));
    EXPECT_EQ(ring.reserve_error(), ENOMEM);
}

TEST_P(ProducerRingTest, OrderIsKeptOverManyRounds)
{
    uint64_t next_in = 0;
    uint64_t next_out = 0;
    std::minstd_rand random(1);

    for (int round = 0; round < 1000; round++) {
        for (uint32_t n = random() % (entries + 1); n != 0 && put(next_in); n--) {
            next_in++;
        }
        ring.publish();
        for (uint32_t n = random() % (entries + 1); n != 0 && plain.waiting() != 0; n--) {
            ASSERT_EQ(plain.take<Item>().value, next_out++);
        }
    }
    EXPECT_GT(next_out, 1000U);
}

TEST_P(ProducerRingTest, RollBackForgetsOnlyWhatIsNotPublished)
{
    put(1);
    ring.publish();
    put(2);
    put(3);
    ring.roll_back();
    put(4);
    ring.publish();
    EXPECT_EQ(plain.waiting(), 2U);
    EXPECT_EQ(plain.take<Item>().value, 1U);
    EXPECT_EQ(plain.take<Item>().value, 4U);
}

TEST_P(ProducerRingTest, DropLastForgetsOne)
{
    put(1);
    put(2);
    ring.drop_last();
    ring.publish();
    EXPECT_EQ(plain.waiting(), 1U);
}

TEST_P(ProducerRingTest, ImpossibleConsumerIndexIsAnErrorAndNotSpace)
{
    put(1);
    ring.publish();
    plain.ctrl().consumer = GetParam() + 100; // more than was ever added
    while (put(0)) {                          // what was known to be free may still be used
    }
    EXPECT_EQ(ring.reserve_error(), EIO);
    plain.ctrl().consumer = GetParam() - entries - 1;
    EXPECT_FALSE(put(0));
    EXPECT_EQ(ring.reserve_error(), EIO);
}

TEST_P(ProducerRingTest, PeerThatOverwritesTheProducerIndexDoesNotMoveOurs)
{
    put(1);
    ring.publish();
    plain.ctrl().producer = GetParam() + 5;
    put(2);
    ring.publish();
    EXPECT_EQ(plain.ctrl().producer, GetParam() + 2);
}

TEST_P(ProducerRingTest, NeedsWakeupIsThePeersFlag)
{
    EXPECT_EQ(ring.flags() & ROX_RING_NEED_WAKEUP, 0U);
    plain.ctrl().flags = ROX_RING_NEED_WAKEUP;
    EXPECT_NE(ring.flags() & ROX_RING_NEED_WAKEUP, 0U);
    plain.ctrl().flags = ~static_cast<uint32_t>(ROX_RING_NEED_WAKEUP);
    EXPECT_EQ(ring.flags() & ROX_RING_NEED_WAKEUP, 0U);
}

TEST_P(ProducerRingTest, ResetForgetsWhatThePeerHasNotTaken)
{
    for (int i = 0; i < 5; i++) {
        put(i);
    }
    ring.publish();
    plain.take<Item>();
    ring.reset();
    EXPECT_EQ(plain.waiting(), 0U);
    put(42);
    ring.publish();
    EXPECT_EQ(plain.waiting(), 1U);
    EXPECT_EQ(plain.take<Item>().value, 42U);
}

TEST_P(ProducerRingTest, ResetFollowsAPeerThatBeginsAnewAtZero)
{
    put(1);
    ring.publish();
    plain.ctrl().producer = 0;
    plain.ctrl().consumer = 0;
    ring.reset();
    for (uint32_t i = 0; i < entries; i++) {
        EXPECT_TRUE(put(i));
    }
    EXPECT_FALSE(put(99));
    ring.publish();
    EXPECT_EQ(plain.ctrl().producer, entries);
}

TEST_P(ConsumerRingTest, EmptyRingHasNothing)
{
    EXPECT_EQ(ring.peek(), nullptr);
    EXPECT_FALSE(ring.corrupted());
}

TEST_P(ConsumerRingTest, TakesInOrderAndGivesTheSpaceBackOnRelease)
{
    for (uint64_t i = 0; i < entries; i++) {
        plain.add(Item{i});
    }
    const std::byte *slot = ring.peek();

    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(reinterpret_cast<const Item *>(slot)->value, 0U);
    ring.pop();
    EXPECT_EQ(plain.ctrl().consumer, GetParam());
    ring.release();
    EXPECT_EQ(plain.ctrl().consumer, GetParam() + 1);
    EXPECT_EQ(take_all(), (std::vector<uint64_t>{1, 2, 3, 4, 5, 6, 7}));
    EXPECT_EQ(plain.ctrl().consumer, GetParam() + entries);
}

TEST_P(ConsumerRingTest, FullRingIsNotTakenForAnEmptyOne)
{
    for (uint64_t i = 0; i < entries; i++) {
        plain.add(Item{i});
    }
    EXPECT_EQ(take_all().size(), entries);
}

TEST_P(ConsumerRingTest, SeesEntriesThatComeLater)
{
    EXPECT_TRUE(take_all().empty());
    plain.add(Item{7});
    EXPECT_EQ(take_all(), std::vector<uint64_t>{7});
}

TEST_P(ConsumerRingTest, MoreEntriesThanTheRingHasIsCorruption)
{
    plain.ctrl().producer = GetParam() + entries + 1;
    EXPECT_EQ(ring.peek(), nullptr);
    EXPECT_TRUE(ring.corrupted());
}

TEST_P(ConsumerRingTest, ProducerThatWentBackIsCorruption)
{
    plain.add(Item{1});
    take_all();
    plain.ctrl().producer = GetParam();
    EXPECT_EQ(ring.peek(), nullptr);
    EXPECT_TRUE(ring.corrupted());
}

TEST_P(ConsumerRingTest, CorruptedRingStaysSo)
{
    plain.ctrl().producer = GetParam() + entries + 1;
    EXPECT_EQ(ring.peek(), nullptr);
    plain.ctrl().producer = GetParam() + 1;
    EXPECT_EQ(ring.peek(), nullptr);
    EXPECT_TRUE(ring.corrupted());
}

TEST_P(ConsumerRingTest, ArmAddsItsBitAndKeepsTheOthers)
{
    plain.ctrl().flags = ROX_RING_ERROR;
    ring.arm(ROX_RING_ARM_SOLICITED);
    EXPECT_EQ(plain.ctrl().flags, ROX_RING_ERROR | ROX_RING_ARM_SOLICITED);
    ring.arm(ROX_RING_ARM_NEXT);
    EXPECT_EQ(plain.ctrl().flags, ROX_RING_ERROR | ROX_RING_ARM_SOLICITED | ROX_RING_ARM_NEXT);
}

TEST_P(ConsumerRingTest, FailedIsThePeersFlag)
{
    EXPECT_FALSE(ring.failed());
    plain.ctrl().flags = ROX_RING_ERROR;
    EXPECT_TRUE(ring.failed());
}

/* Every set of victims in every position of the ring. */
TEST_P(ConsumerRingTest, RemoveIfRemovesExactlyTheVictimsAndKeepsTheOrder)
{
    for (uint32_t victims = 0; victims < 1U << entries; victims++) {
        std::vector<uint64_t> kept;

        for (uint32_t i = 0; i < entries; i++) {
            plain.add(Item{i});
            if ((victims >> i & 1) == 0) {
                kept.push_back(i);
            }
        }
        const auto removed = ring.remove_if<Item>(
            [victims](const Item &item) { return (victims >> item.value & 1) != 0; });

        ASSERT_EQ(removed, entries - kept.size());
        ASSERT_EQ(plain.waiting(), kept.size());
        ASSERT_EQ(take_all(), kept) << victims;
    }
}

TEST_P(ConsumerRingTest, RemoveIfOnAnEmptyOrCorruptedRingRemovesNothing)
{
    const auto all = [](const Item &) { return true; };

    EXPECT_EQ(ring.remove_if<Item>(all), 0U);
    plain.ctrl().producer = GetParam() + entries + 1;
    EXPECT_EQ(ring.remove_if<Item>(all), 0U);
    EXPECT_EQ(plain.ctrl().consumer, GetParam());
}

TEST_P(ConsumerRingTest, AttachContinuesWhereTheRingIs)
{
    PlainRing bigger(entries * 2, stride, GetParam() + 3);

    bigger.add(Item{5});
    ring.attach(bigger.view());
    EXPECT_EQ(take_all(), std::vector<uint64_t>{5});
    EXPECT_EQ(bigger.ctrl().consumer, GetParam() + 4);
}

const auto starts = testing::Values(0U, 3U, 0x7ffffffcU, 0xfffffffbU, 0xffffffffU);

INSTANTIATE_TEST_SUITE_P(From, ProducerRingTest, starts);
INSTANTIATE_TEST_SUITE_P(From, ConsumerRingTest, starts);

} // namespace
} // namespace rox::test
