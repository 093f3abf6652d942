/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Which libibverbs the provider takes for one that it knows, and what follows from that.
 */
#include "fake_kernel.h"
#include "layout.hpp"

#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>

namespace rox::test {
namespace {

Library described_by(const Layout &layout)
{
    return {.path = "libibverbs.so.1",
            .number = layout.number,
            .minor = layout.minor,
            .qp_mask = layout.qp_mask};
}

/* Of the numbers that all providers know, this one takes its own. */
TEST(Library, EachLayoutOfThisInterfaceIsFound)
{
    size_t found = 0;

    for (const Layout &known : all_layouts()) {
        const Layout *const result = find_layout(described_by(known));

        EXPECT_EQ(result, known.number == ROX_PABI ? &known : nullptr)
            << known.number << " " << known.minor << " " << known.qp_mask;
        found += result != nullptr;
    }
    EXPECT_EQ(found, ROX_PABI == 34 || ROX_PABI == 59 ? 2U : 1U);
}

TEST(Library, WhatDiffersInAnythingIsRefused)
{
    for (const Layout &known : all_layouts()) {
        Library other = described_by(known);

        other.number++;
        EXPECT_EQ(find_layout(other), nullptr) << "another number";
        other = described_by(known);
        other.minor += 2;
        EXPECT_EQ(find_layout(other), nullptr) << "newer functions";
        other = described_by(known);
        other.minor = 13;
        EXPECT_EQ(find_layout(other), nullptr) << "fewer functions";
        other = described_by(known);
        other.qp_mask += 8;
        EXPECT_EQ(find_layout(other) != nullptr, known.number == ROX_PABI && known.qp_mask == 352)
            << "a larger ibv_qp_ex";
        other.qp_mask = 0;
        EXPECT_EQ(find_layout(other), nullptr) << "no comp_mask";
    }
    EXPECT_EQ(find_layout({.path = "", .number = 0, .minor = 0, .qp_mask = 0}), nullptr);
}

TEST(Library, OperationsLieWhereTheLayoutHasThem)
{
    constexpr auto place = [](size_t offset) { return offset / sizeof(rdmacore::unused_op); };
    rdmacore::verbs_context_ops ops = {};
    const auto function = [](uintptr_t value) {
        return reinterpret_cast<rdmacore::unused_op>(value);
    };
    size_t last = place(offsetof(rdmacore::verbs_context_ops, resize_cq));

    ops.advise_mr = reinterpret_cast<decltype(ops.advise_mr)>(function(1));
    ops.destroy_wq = function(2);
    ops.get_srq_num = reinterpret_cast<decltype(ops.get_srq_num)>(function(3));
    ops.resize_cq = reinterpret_cast<decltype(ops.resize_cq)>(function(4));
    for (const Layout &known : all_layouts()) {
        if (known.number != ROX_PABI) {
            continue;
        }
        const OpsTable table = arrange_ops(ops, known);
        const size_t less = known.late_ops ? 0 : 2;

        EXPECT_EQ(table[0], function(1));
        EXPECT_EQ(table[place(offsetof(rdmacore::verbs_context_ops, destroy_wq))], function(2));
        // Between them and the last one lie what v62 has added.
        EXPECT_EQ(table[place(offsetof(rdmacore::verbs_context_ops, get_srq_num)) - less / 2],
                  function(3));
        EXPECT_EQ(table[last - less], function(4));
    }
}

/* Puts the layout back. */
class LibraryLayout : public ::testing::Test {
protected:
    ~LibraryLayout() override { layout = before_; }

private:
    const Layout *before_ = layout;
};

/* libibverbs finds a QP's ibv_qp_ex by a bit that is elsewhere in rdma-core 44. */
TEST_F(LibraryLayout, ExtendedQpIsMarkedWhereTheLayoutHasTheMark)
{
    for (const Layout &known : all_layouts()) {
        rdmacore::verbs_qp qp = {};

        layout = &known;
        std::memset(qp.all, 0, sizeof(qp.all));
        qp_mask(qp) |= rdmacore::QP_MASK_EX;
        for (size_t i = 0; i < sizeof(qp.all); i++) {
            EXPECT_EQ(qp.all[i], i == known.qp_mask ? std::byte{2} : std::byte{0}) << i;
        }
    }
}

/* A verbs_context of another size than the layout's is not touched. */
TEST_F(LibraryLayout, ContextOfAnotherSizeIsRefused)
{
    FakeKernel kernel;
    Layout larger = *layout;

    larger.context_size += sizeof(void *);
    layout = &larger;
    errno = 0;
    EXPECT_EQ(kernel.open(), nullptr);
    EXPECT_EQ(errno, EPROTONOSUPPORT);
}

} // namespace
} // namespace rox::test
