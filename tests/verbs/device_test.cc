// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What the device says about itself, its port and its addresses.
#include <array>
#include <cstring>
#include <fstream>

#include "lib/context.h"
#include "lib/qp.h"

using namespace vt;

namespace {

class DeviceCore : public testing::Test {
protected:
    Context context{device_a()};
};

// UCX takes every other value for a device without atomics.
TEST_F(DeviceCore, AtomicsAreThoseOfANic)
{
    EXPECT_EQ(context.attr().atomic_cap, IBV_ATOMIC_HCA);
}

TEST_F(DeviceCore, LimitsAreGenerous)
{
    ibv_device_attr attr = context.attr();
    EXPECT_GE(attr.max_qp, 64 << 10);
    EXPECT_GE(attr.max_cq, 64 << 10);
    EXPECT_GE(attr.max_mr, 512 << 10);
    EXPECT_GE(attr.max_qp_wr, 16 << 10);
    EXPECT_GE(attr.max_sge, 32);
    EXPECT_GE(attr.max_sge_rd, 1);
    EXPECT_GE(attr.max_cqe, 16 << 10);
    EXPECT_GE(attr.max_pd, 1 << 10);
    EXPECT_GE(attr.max_ah, 1 << 10);
    EXPECT_GE(attr.max_srq, 1 << 10);
    EXPECT_GE(attr.max_srq_wr, 16 << 10);
    EXPECT_GE(attr.max_srq_sge, 1);
    EXPECT_GE(attr.max_qp_rd_atom, 128);
    EXPECT_GE(attr.max_qp_init_rd_atom, 128);
    EXPECT_GE(attr.max_res_rd_atom, attr.max_qp_rd_atom);
    EXPECT_GE(attr.max_mr_size, std::uint64_t(1) << 31);
    EXPECT_GE(attr.max_pkeys, 1);
    EXPECT_EQ(attr.phys_port_cnt, 1);
    EXPECT_NE(attr.atomic_cap, IBV_ATOMIC_NONE);
}

TEST_F(DeviceCore, PageSizesIncludeFourKib)
{
    EXPECT_TRUE(context.attr().page_size_cap & 4096);
}

TEST_F(DeviceCore, GuidsAreNotZero)
{
    ibv_device_attr attr = context.attr();
    EXPECT_NE(attr.node_guid, 0u);
    EXPECT_NE(attr.sys_image_guid, 0u);
    EXPECT_EQ(ibv_get_device_guid(context.get()->device), attr.node_guid);
}

TEST_F(DeviceCore, SaysWhatItCanDo)
{
    unsigned caps = context.attr().device_cap_flags;
    EXPECT_TRUE(caps & IBV_DEVICE_RC_RNR_NAK_GEN);
    EXPECT_TRUE(caps & IBV_DEVICE_SRQ_RESIZE);
    EXPECT_TRUE(caps & IBV_DEVICE_SYS_IMAGE_GUID);
    EXPECT_TRUE(caps & IBV_DEVICE_PORT_ACTIVE_EVENT);
}

TEST_F(DeviceCore, ExtendedQueryAgreesWithThePlainOne)
{
    ibv_device_attr_ex ex{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &ex), 0);
    ibv_device_attr attr = context.attr();
    EXPECT_EQ(ex.orig_attr.max_qp, attr.max_qp);
    EXPECT_EQ(ex.orig_attr.max_cqe, attr.max_cqe);
    EXPECT_EQ(ex.orig_attr.max_mr_size, attr.max_mr_size);
    EXPECT_EQ(ex.orig_attr.node_guid, attr.node_guid);
    EXPECT_EQ(ex.orig_attr.device_cap_flags, attr.device_cap_flags);
    EXPECT_EQ(ex.phys_port_cnt_ex, 1u);
}

TEST_F(DeviceCore, ExtendedQueryHasTheClockOfTimestamps)
{
    ibv_device_attr_ex ex{};
    ASSERT_EQ(ibv_query_device_ex(context.get(), nullptr, &ex), 0);
    EXPECT_NE(ex.completion_timestamp_mask, 0u);
    EXPECT_NE(ex.hca_core_clock, 0u);
}

TEST_F(DeviceCore, IsAnInfinibandNodeOnEthernet)
{
    EXPECT_EQ(context.get()->device->node_type, IBV_NODE_CA);
    EXPECT_EQ(context.get()->device->transport_type, IBV_TRANSPORT_IB);
    EXPECT_EQ(context.port().link_layer, IBV_LINK_LAYER_ETHERNET);
}

TEST_F(DeviceCore, HasACompletionVectorAtLeast)
{
    EXPECT_GE(context.get()->num_comp_vectors, 1);
}

TEST_F(DeviceCore, PortIsActiveAndTrue)
{
    ibv_port_attr port = context.port();
    EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
    EXPECT_EQ(port.phys_state, 5) << "LinkUp";
    EXPECT_GE(port.max_msg_sz, 1u << 31);
    EXPECT_GE(port.gid_tbl_len, 2);
    EXPECT_GE(port.pkey_tbl_len, 1);
    EXPECT_NE(port.active_speed, 0);
    EXPECT_NE(port.active_width, 0);
    EXPECT_EQ(port.lid, 0);
    EXPECT_EQ(port.sm_lid, 0);
}

TEST_F(DeviceCore, ActiveMtuFitsTheNetdev)
{
    ibv_port_attr port = context.port();
    EXPECT_GE(port.max_mtu, port.active_mtu);
    EXPECT_EQ(port.max_mtu, IBV_MTU_4096);
    EXPECT_GE(port.active_mtu, IBV_MTU_256);
}

TEST_F(DeviceCore, PortsOtherThanOneDoNotExist)
{
    ibv_port_attr port{};
    EXPECT_NE(ibv_query_port(context.get(), 0, &port), 0);
    EXPECT_NE(ibv_query_port(context.get(), 2, &port), 0);
}

TEST_F(DeviceCore, GidTableHoldsTheAddressesOfTheNetdev)
{
    ibv_gid v4 = context.gid(Family::V4);
    ibv_gid v6 = context.gid(Family::V6);
    EXPECT_NE(v4.raw[15], 0);
    EXPECT_NE(v6.raw[0], 0);
}

TEST_F(DeviceCore, GidTableListsOnlyWhatSingleQueriesFind)
{
    std::array<ibv_gid_entry, 64> entries{};
    auto count = ibv_query_gid_table(context.get(), entries.data(), entries.size(), 0);
    ASSERT_GT(count, 1);
    for (int i = 0; i < count; i++) {
        ibv_gid gid{};
        ASSERT_EQ(ibv_query_gid(context.get(), 1, int(entries[std::size_t(i)].gid_index), &gid), 0);
        EXPECT_EQ(std::memcmp(gid.raw, entries[std::size_t(i)].gid.raw, 16), 0) << i;
        EXPECT_EQ(entries[std::size_t(i)].port_num, 1u);
        EXPECT_EQ(entries[std::size_t(i)].gid_type, std::uint32_t(IBV_GID_TYPE_ROCE_V2));
        EXPECT_NE(entries[std::size_t(i)].ndev_ifindex, 0u);
    }
}

TEST_F(DeviceCore, GidsBeyondTheTableDoNotExist)
{
    ibv_gid_entry entry{};
    int length = context.port().gid_tbl_len;
    EXPECT_NE(ibv_query_gid_ex(context.get(), 1, std::uint32_t(length), &entry, 0), 0);
    EXPECT_NE(ibv_query_gid_ex(context.get(), 2, 0, &entry, 0), 0);
}

TEST_F(DeviceCore, FirstPkeyIsTheDefaultOne)
{
    __be16 pkey = 0;
    ASSERT_EQ(ibv_query_pkey(context.get(), 1, 0, &pkey), 0);
    EXPECT_EQ(ntohs(pkey), 0xffff);
    EXPECT_EQ(ibv_get_pkey_index(context.get(), 1, pkey), 0);
}

TEST_F(DeviceCore, PkeysBeyondTheTableDoNotExist)
{
    __be16 pkey = 0;
    EXPECT_NE(ibv_query_pkey(context.get(), 1, context.port().pkey_tbl_len, &pkey), 0);
}

TEST_F(DeviceCore, RawClockRuns)
{
    ibv_values_ex first{IBV_VALUES_MASK_RAW_CLOCK, {}};
    ibv_values_ex second = first;
    ASSERT_EQ(ibv_query_rt_values_ex(context.get(), &first), 0);
    std::this_thread::sleep_for(20ms);
    ASSERT_EQ(ibv_query_rt_values_ex(context.get(), &second), 0);
    auto ns = [](const ibv_values_ex &v) {
        return v.raw_clock.tv_sec * 1'000'000'000LL + v.raw_clock.tv_nsec;
    };
    EXPECT_GE(ns(second) - ns(first), 20'000'000);
    EXPECT_LT(ns(second) - ns(first), 10'000'000'000);
}

TEST_F(DeviceCore, ManyContextsCanBeOpen)
{
    std::vector<Context> more;
    for (int i = 0; i < 16; i++)
        more.emplace_back(device_a());
    Pd pd = alloc_pd(more.back().get());
    EXPECT_TRUE(pd);
}

TEST_F(DeviceCore, PdsAreIndependent)
{
    Pd one = alloc_pd(context.get());
    Pd two = alloc_pd(context.get());
    EXPECT_NE(one->handle, two->handle);
    EXPECT_EQ(one.destroy(), 0);
    EXPECT_TRUE(alloc_pd(context.get()));
}

TEST_F(DeviceCore, PdInUseIsNotFreed)
{
    Pd pd = alloc_pd(context.get());
    {
        Buffer buffer(pd.get(), 4096);
        EXPECT_EQ(pd.destroy(), EBUSY);
    }
    EXPECT_EQ(pd.destroy(), 0);
}

TEST_F(DeviceCore, AhTakesEveryUsableAddress)
{
    Context peer(device_b());
    Pd pd = alloc_pd(context.get());
    for (Family family : {Family::V4, Family::V6}) {
        Params params;
        params.family = family;
        params.traffic_class = 0x20;
        params.hop_limit = 3;
        params.flow_label = 0xabcde;
        ibv_ah_attr attr = address_of(context, peer, params);
        Ah ah(ibv_create_ah(pd.get(), &attr));
        EXPECT_TRUE(ah) << errno;
    }
}

TEST_F(DeviceCore, AhWithoutGrhIsRefused)
{
    Pd pd = alloc_pd(context.get());
    ibv_ah_attr attr = address_of(context, context);
    attr.is_global = 0;
    Ah ah(ibv_create_ah(pd.get(), &attr));
    EXPECT_FALSE(ah);
}

TEST_F(DeviceCore, AhWithABadPortOrGidIndexIsRefused)
{
    Pd pd = alloc_pd(context.get());
    ibv_ah_attr attr = address_of(context, context);
    attr.port_num = 2;
    EXPECT_FALSE(Ah(ibv_create_ah(pd.get(), &attr)));
    attr = address_of(context, context);
    attr.grh.sgid_index = static_cast<std::uint8_t>(context.port().gid_tbl_len - 1);
    EXPECT_FALSE(Ah(ibv_create_ah(pd.get(), &attr))) << "an empty entry";
}

TEST_F(DeviceCore, AhWithAServiceLevelThatIsNoneIsRefused)
{
    Pd pd = alloc_pd(context.get());
    ibv_ah_attr attr = address_of(context, context);
    attr.sl = 15;
    EXPECT_TRUE(Ah(ibv_create_ah(pd.get(), &attr))) << errno;
    for (std::uint8_t sl : {16, 0xf7, 0xff}) {
        attr.sl = sl;
        EXPECT_FALSE(Ah(ibv_create_ah(pd.get(), &attr))) << static_cast<int>(sl);
        EXPECT_EQ(errno, EINVAL);
    }
}

TEST_F(DeviceCore, PdWithAnAhIsNotFreed)
{
    Pd pd = alloc_pd(context.get());
    ibv_ah_attr attr = address_of(context, context);
    Ah ah(need(ibv_create_ah(pd.get(), &attr), "ibv_create_ah"));
    EXPECT_EQ(pd.destroy(), EBUSY);
    ah.reset();
    EXPECT_EQ(pd.destroy(), 0);
}

TEST_F(DeviceCore, ThousandAhsComeAndGo)
{
    Pd pd = alloc_pd(context.get());
    ibv_ah_attr attr = address_of(context, context);
    std::vector<Ah> ahs;
    for (int i = 0; i < 1000; i++)
        ahs.emplace_back(need(ibv_create_ah(pd.get(), &attr), "ibv_create_ah"));
}

} // namespace
