/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From QP numbers to QPs. */
#include "objects.hpp"
#include "qp_table.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace rox::test {
namespace {

constexpr uint32_t last = 0xffffff;

class QpTableTest : public testing::Test {
protected:
    std::unique_ptr<QpTable> table = make_object<QpTable>();
    Qp one;
    Qp two;
};

TEST_F(QpTableTest, FindsEachUnderItsNumberOnly)
{
    ASSERT_EQ(table->insert(17, &one), 0);
    ASSERT_EQ(table->insert(last, &two), 0);
    EXPECT_EQ(table->find(17), &one);
    EXPECT_EQ(table->find(last), &two);
    EXPECT_EQ(table->find(16), nullptr);
    EXPECT_EQ(table->find(17 + 4096), nullptr);
}

TEST_F(QpTableTest, RemovedIsNotFoundAndNeighboursStay)
{
    ASSERT_EQ(table->insert(17, &one), 0);
    ASSERT_EQ(table->insert(18, &two), 0);
    table->remove(17);
    EXPECT_EQ(table->find(17), nullptr);
    EXPECT_EQ(table->find(18), &two);
    table->remove(18);
    EXPECT_EQ(table->find(18), nullptr);
    ASSERT_EQ(table->insert(18, &one), 0);
    EXPECT_EQ(table->find(18), &one);
}

TEST_F(QpTableTest, NumberOfMoreThan24BitsIsInsideTheTable)
{
    EXPECT_EQ(table->find(0xffffffff), nullptr); // what a program wrote into its own CQ
}

} // namespace
} // namespace rox::test
