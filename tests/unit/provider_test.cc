/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The provider's objects without rings, over the fake kernel. */
#include "provider_fixture.h"

#include <cerrno>
#include <cstring>

namespace rox::test {
namespace {

TEST(Driver, MatchesByDriverIdWhateverTheName)
{
    rdmacore::verbs_sysfs_dev device = {};

    std::strcpy(device.ibdev_name, "mlx5_0");
    device.driver_id = ROX_DRIVER_ID;
    EXPECT_TRUE(FakeKernel::driver()->match_device(&device));
}

TEST(Driver, ClaimsNoOtherDeviceEvenIfItsNameIsOurs)
{
    rdmacore::verbs_sysfs_dev device = {};

    std::strcpy(device.ibdev_name, "rox0");
    for (uint32_t id : {0U, 16U, 18U, 0x726f77U, 0xffffffffU}) {
        device.driver_id = id;
        EXPECT_FALSE(FakeKernel::driver()->match_device(&device)) << id;
    }
}

TEST(Driver, MatchTableIsOurDriverIdAndItsEnd)
{
    const rdmacore::verbs_match_ent *table = FakeKernel::driver()->match_table;

    EXPECT_EQ(table[0].kind, 3);
    EXPECT_EQ(table[0].u.driver_id, uint64_t{ROX_DRIVER_ID});
    EXPECT_EQ(table[1].kind, 0);
}

TEST(Driver, AcceptsOnlyItsOwnAbiVersion)
{
    EXPECT_EQ(FakeKernel::driver()->match_min_abi_version, uint32_t{ROX_ABI_VERSION});
    EXPECT_EQ(FakeKernel::driver()->match_max_abi_version, uint32_t{ROX_ABI_VERSION});
}

TEST(ContextTest, ModuleWithAnotherAbiIsRefused)
{
    FakeKernel kernel;

    kernel.abi_version = ROX_ABI_VERSION + 1;
    errno = 0;
    EXPECT_EQ(kernel.open(), nullptr);
    EXPECT_EQ(errno, EPROTONOSUPPORT);
}

TEST(ContextTest, ErrorOfTheKernelIsTheProgramsErrno)
{
    FakeKernel kernel;

    kernel.fail_next("ibv_cmd_get_context", EIO);
    EXPECT_EQ(kernel.open(), nullptr);
    EXPECT_EQ(errno, EIO);
}

TEST(ContextTest, LearnsTheInlineLimit)
{
    FakeKernel kernel;

    EXPECT_EQ(Context::of(kernel.open())->max_inline, 512U);
}

class ObjectTest : public ProviderFixture {
protected:
    void TearDown() override
    {
        ProviderFixture::TearDown();
        EXPECT_TRUE(kernel.others.empty());
    }
};

TEST_F(ObjectTest, FirmwareVersionIsReadable)
{
    ibv_device_attr_ex attr;

    ASSERT_EQ(ops->query_device_ex(context, nullptr, &attr, sizeof(attr)), 0);
    EXPECT_STREQ(attr.orig_attr.fw_ver, "1.2.3");
    kernel.fail_next("ibv_cmd_query_device_any", EINVAL);
    EXPECT_EQ(ops->query_device_ex(context, nullptr, &attr, sizeof(attr)), EINVAL);
}

TEST_F(ObjectTest, RawClockRunsAndOtherValuesAreNotClaimed)
{
    const auto ns = [](const timespec &t) { return t.tv_sec * 1000000000LL + t.tv_nsec; };
    timespec before = {};
    timespec after = {};
    ibv_values_ex first = {.comp_mask = ~0U, .raw_clock = {}};
    ibv_values_ex second = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};

    clock_gettime(CLOCK_MONOTONIC_RAW, &before);
    ASSERT_EQ(ops->query_rt_values(context, &first), 0);
    ASSERT_EQ(ops->query_rt_values(context, &second), 0);
    clock_gettime(CLOCK_MONOTONIC_RAW, &after);
    EXPECT_EQ(first.comp_mask, static_cast<uint32_t>(IBV_VALUES_MASK_RAW_CLOCK));
    EXPECT_EQ(first.raw_clock.tv_sec, 0) << "all of it is in tv_nsec, as adapters have it";
    EXPECT_GE(first.raw_clock.tv_nsec, ns(before));
    EXPECT_GE(second.raw_clock.tv_nsec, first.raw_clock.tv_nsec);
    EXPECT_LE(second.raw_clock.tv_nsec, ns(after));
}

TEST_F(ObjectTest, PdComesAndGoes)
{
    ibv_pd *pd = ops->alloc_pd(context);

    ASSERT_NE(pd, nullptr);
    EXPECT_EQ(pd->context, context);
    EXPECT_EQ(kernel.others.count(pd->handle), 1U);
    kernel.fail_next("ibv_cmd_dealloc_pd", EBUSY);
    EXPECT_EQ(ops->dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, FailuresLeaveErrnoAndNothingElse)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_ah_attr attr = {};

    for (const char *function : {"ibv_cmd_alloc_pd", "ibv_cmd_reg_mr", "ibv_cmd_create_ah"}) {
        kernel.fail_next(function, ENOSPC);
    }
    errno = 0;
    EXPECT_EQ(ops->alloc_pd(context), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    errno = 0;
    EXPECT_EQ(ops->reg_mr(pd, pd, 1, 0, 0), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    errno = 0;
    EXPECT_EQ(ops->create_ah(pd, &attr), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, ParentDomainStandsForItsPdAndHoldsIt)
{
    ibv_td_init_attr td_attr = {};
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_td *td = ops->alloc_td(context, &td_attr);
    ibv_parent_domain_init_attr attr = {};

    attr.pd = pd;
    attr.td = td;
    attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    ibv_pd *parent = ops->alloc_parent_domain(context, &attr);

    ASSERT_NE(parent, nullptr);
    EXPECT_EQ(parent->handle, pd->handle);
    EXPECT_EQ(parent->context, context);
    EXPECT_TRUE(is_single_threaded(parent));
    EXPECT_FALSE(is_single_threaded(pd));
    EXPECT_EQ(ops->dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops->dealloc_td(td), EBUSY);
    EXPECT_EQ(ops->dealloc_pd(parent), 0);
    EXPECT_EQ(kernel.others.size(), 1U); // the kernel has one PD all the time
    EXPECT_EQ(ops->dealloc_td(td), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, ParentDomainWithoutPdOrWithUnknownAttributesIsRefused)
{
    ibv_parent_domain_init_attr attr = {};
    ibv_pd *pd = ops->alloc_pd(context);

    EXPECT_EQ(ops->alloc_parent_domain(context, &attr), nullptr);
    EXPECT_EQ(errno, EINVAL);
    attr.pd = pd;
    attr.comp_mask = 1U << 20;
    EXPECT_EQ(ops->alloc_parent_domain(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, ThreadDomainWithUnknownAttributesIsRefused)
{
    ibv_td_init_attr attr = {.comp_mask = 1};

    EXPECT_EQ(ops->alloc_td(context, &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(ObjectTest, MrComesAndGoes)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_mr *mr = ops->reg_mr(pd, pd, 8, 0x1000, IBV_ACCESS_LOCAL_WRITE);

    ASSERT_NE(mr, nullptr);
    auto *vmr = reinterpret_cast<rdmacore::verbs_mr *>(mr);

    EXPECT_EQ(vmr->access, IBV_ACCESS_LOCAL_WRITE);
    kernel.fail_next("ibv_cmd_dereg_mr", EBUSY);
    EXPECT_EQ(ops->dereg_mr(vmr), EBUSY);
    EXPECT_EQ(ops->dereg_mr(vmr), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, MrOverADmabufComesAndGoes)
{
    ibv_pd *pd = ops->alloc_pd(context);

    EXPECT_EQ(ops->reg_dmabuf_mr(pd, 0, 4096, 0, -1, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EBADF);
    kernel.fail_next("ibv_cmd_reg_dmabuf_mr", EOPNOTSUPP);
    EXPECT_EQ(ops->reg_dmabuf_mr(pd, 0, 4096, 0, 7, IBV_ACCESS_LOCAL_WRITE), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    auto *vmr = reinterpret_cast<rdmacore::verbs_mr *>(
        ops->reg_dmabuf_mr(pd, 0, 4096, 0, 7, IBV_ACCESS_LOCAL_WRITE));
    ASSERT_NE(vmr, nullptr);
    EXPECT_EQ(vmr->access, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(ops->dereg_mr(vmr), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, AdviceReachesTheKernel)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_sge sge = {};

    EXPECT_EQ(ops->advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), 0);
    EXPECT_EQ(ops->advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 0), EINVAL);
    kernel.fail_next("ibv_cmd_advise_mr", EOPNOTSUPP);
    EXPECT_EQ(ops->advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, MrChanges)
{
    ibv_pd *pd = ops->alloc_pd(context);
    auto *vmr = reinterpret_cast<rdmacore::verbs_mr *>(
        ops->reg_mr(pd, pd, 8, 0x1000, IBV_ACCESS_LOCAL_WRITE));

    EXPECT_EQ(ops->rereg_mr(vmr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pd, 4, 0), 0);
    EXPECT_EQ(vmr->access, IBV_ACCESS_LOCAL_WRITE);
    kernel.fail_next("ibv_cmd_rereg_mr", EBUSY);
    EXPECT_EQ(ops->rereg_mr(vmr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), EBUSY);
    EXPECT_EQ(vmr->access, IBV_ACCESS_LOCAL_WRITE);
    EXPECT_EQ(ops->rereg_mr(vmr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
    EXPECT_EQ(vmr->access, 0);
    EXPECT_EQ(ops->rereg_mr(vmr, IBV_REREG_MR_CHANGE_PD, nullptr, nullptr, 0, 0), EINVAL);
    EXPECT_EQ(ops->rereg_mr(vmr, IBV_REREG_MR_CHANGE_PD, pd, nullptr, 0, 0), 0);
    EXPECT_EQ(ops->dereg_mr(vmr), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, MwComesAndGoes)
{
    ibv_pd *pd = ops->alloc_pd(context);

    kernel.fail_next("ibv_cmd_alloc_mw", ENOSPC);
    EXPECT_EQ(ops->alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
    EXPECT_EQ(errno, ENOSPC);
    ibv_mw *mw = ops->alloc_mw(pd, IBV_MW_TYPE_2);

    ASSERT_NE(mw, nullptr);
    EXPECT_EQ(mw->type, IBV_MW_TYPE_2);
    kernel.fail_next("ibv_cmd_dealloc_mw", EBUSY);
    EXPECT_EQ(ops->dealloc_mw(mw), EBUSY);
    EXPECT_EQ(ops->dealloc_mw(mw), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

TEST_F(ObjectTest, AhKeepsTheKernelsNumber)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_ah_attr attr = {};
    ibv_ah *ah = ops->create_ah(pd, &attr);

    ASSERT_NE(ah, nullptr);
    EXPECT_EQ(ah_index(ah), 0x700U);
    kernel.fail_next("ibv_cmd_destroy_ah", EBUSY);
    EXPECT_EQ(ops->destroy_ah(ah), EBUSY);
    EXPECT_EQ(ops->destroy_ah(ah), 0);
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

/* A completion says which entry it means where several have the address that a datagram came to. */
TEST_F(ObjectTest, AhFromACompletionHasItsGid)
{
    ibv_pd *pd = ops->alloc_pd(context);
    ibv_ah_attr attr = {};
    const auto index_of = [&](uint8_t first, uint8_t meant) {
        attr.is_global = 1;
        attr.grh.sgid_index = first;
        attr.src_path_bits = meant;
        ibv_ah *ah = ops->create_ah(pd, &attr);
        EXPECT_NE(ah, nullptr);
        EXPECT_EQ(ops->destroy_ah(ah), 0);
        return kernel.last_sgid_index;
    };

    EXPECT_EQ(index_of(2, 0), 2);
    EXPECT_EQ(index_of(2, 5), 5);
    EXPECT_EQ(index_of(2, 4), 2) << "entry 4 has another address";
    EXPECT_EQ(ops->dealloc_pd(pd), 0);
}

/* What is null is libibverbs' own; these are needed by programs. */
TEST_F(ObjectTest, EveryOperationOfTheIssueIsThere)
{
    EXPECT_NE(ops->attach_mcast, nullptr);
    EXPECT_NE(ops->detach_mcast, nullptr);
    EXPECT_NE(ops->query_port, nullptr);
    EXPECT_NE(ops->create_srq_ex, nullptr);
    EXPECT_NE(ops->create_qp_ex, nullptr);
    EXPECT_NE(ops->create_cq_ex, nullptr);
    EXPECT_NE(ops->req_notify_cq, nullptr);
    ibv_port_attr attr = {};

    EXPECT_EQ(ops->query_port(context, 1, &attr), 0);
}

} // namespace
} // namespace rox::test
