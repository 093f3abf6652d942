// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// P_Keys: the table, membership, what QPs do when their key changes. (The GSI
/// QP's are in cm_test.cc.)
#include <array>
#include <fstream>

#include <arpa/inet.h>
#include <linux/capability.h>

#include "lib/diagnose.h"
#include "lib/pair.h"
#include "lib/pkey.h"
#include "lib/rdmatool.h"
#include "lib/thread.h"

using namespace vt;

namespace {

// Over one device both ends have the same table: each uses an entry of its own.
constexpr std::uint16_t kNear = 1;
constexpr std::uint16_t kFar = 2;

class PkeyCore : public PairTest {
protected:
    /// A pair whose ends use these keys.
    void begin(ibv_qp_type type, std::uint16_t near_key, std::uint16_t far_key, Params params = {})
    {
        near_table.set(kNear, near_key);
        far_table.set(kFar, far_key);
        params.pkey_index = kNear;
        params.peer_pkey_index = kFar;
        start({.type = type}, params);
    }
    void send(std::uint64_t id)
    {
        b.qp->post_recv(id, {far.sge(0, 1000)});
        SendWr wr = SendWr::send({near.sge(0, 100)}).id(id);
        if (a.qp->get()->qp_type == IBV_QPT_UD)
            wr.to(to_b.get(), b.qp->number(), Params{}.qkey);
        a.qp->post(wr);
    }
    /// A message with a key that the receiver does not take: nothing comes, and it is counted.
    void expect_refused(bool rc)
    {
        auto port = b.context.port().bad_pkey_cntr;
        auto counter = port_counter(b.context.name(), "rx_pkey_mismatch");
        send(1);
        if (rc) {
            EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_RETRY_EXC_ERR));
        } else {
            EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
        }
        EXPECT_TRUE(eventually([&] { return b.context.port().bad_pkey_cntr > port; }));
        EXPECT_TRUE(eventually(
            [&] { return port_counter(b.context.name(), "rx_pkey_mismatch") > counter; }));
        EXPECT_TRUE(b.recv_cq.quiet());
    }
    void expect_taken()
    {
        send(1);
        EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
        EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    }

    PkeyTable near_table{a.context};
    PkeyTable far_table{b.context};
    Buffer near = a.buffer(4096);
    Buffer far = b.buffer(4096);
    Ah to_b = ah(a, b);
};

TEST_F(PkeyCore, TableHasTheDefaultKeyAndRoomForMore)
{
    int length = a.context.port().pkey_tbl_len;
    EXPECT_GE(length, 128);
    EXPECT_EQ(a.context.attr().max_pkeys, length);
    EXPECT_EQ(near_table.get(0), 0xffff);
    for (int i : {1, 2, length - 1})
        EXPECT_EQ(near_table.get(i), 0) << i;
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0xffff)), 0);
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0x8123)), -1);
}

TEST_F(PkeyCore, ChangesAreSeenAndRaiseAnEvent)
{
    int last = a.context.port().pkey_tbl_len - 1;
    near_table.set(3, 0x8123); // waits for the event
    near_table.set(last, 0x0124);
    EXPECT_EQ(near_table.get(3), 0x8123);
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0x8123)), 3);
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0x0124)), last);
    near_table.set(3, 0x8125);
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0x8123)), -1);
    EXPECT_EQ(write_pkey(a.context.name(), "3 0x8125"), 0);
    EXPECT_FALSE(a.context.has_event(IBV_EVENT_PKEY_CHANGE, nullptr)) << "it was so before";
}

TEST_F(PkeyCore, FirstEntryMayBeChangedToo)
{
    near_table.set(0, 0x8200);
    EXPECT_EQ(near_table.get(0), 0x8200);
    EXPECT_EQ(ibv_get_pkey_index(a.context.get(), 1, htons(0xffff)), -1);
    near_table.set(0, 0xffff);
    start();
    expect_works();
}

TEST_F(PkeyCore, WhatIsNoEntryIsRefused)
{
    std::string beyond = std::to_string(a.context.port().pkey_tbl_len) + " 1";
    for (const char *text : {"\n", "1", "1 ", " 1", "x 1", "1 x", "-1 1", "1 2 3", beyond.c_str()})
        EXPECT_EQ(write_pkey(a.context.name(), text), EINVAL) << "'" << text << "'";
    for (const char *text : {"1 0x10000", "65536 1"})
        EXPECT_EQ(write_pkey(a.context.name(), text), ERANGE) << "'" << text << "'";
    EXPECT_NE(write_pkey(a.context.name(), "1 0x000000000000000000000000000000000001"), 0);
    EXPECT_EQ(near_table.get(1), 0);
    without_capability(CAP_NET_ADMIN,
                       [&] { EXPECT_EQ(write_pkey(a.context.name(), "1 0x8001"), EPERM); });
    EXPECT_EQ(near_table.get(1), 0);
    EXPECT_FALSE(a.context.has_event(IBV_EVENT_PKEY_CHANGE, nullptr));
}

TEST_F(PkeyCore, QpsTakeEntriesWithAKeyOnly)
{
    near_table.set(4, 0x8000); // no key, as 0x0000
    for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD}) {
        make({.type = type}, {.type = type});
        for (int index : {3, 4, int(a.context.port().pkey_tbl_len), 0xffff}) {
            Transition t = init_transition(type);
            t.attr.pkey_index = static_cast<std::uint16_t>(index);
            EXPECT_EQ(a.qp->modify(t.attr, t.mask), EINVAL) << type << ", " << index;
        }
        EXPECT_EQ(a.qp->state(), IBV_QPS_RESET);
    }
    near_table.set(4, 0x0001);
    Transition t = init_transition(IBV_QPT_UD);
    t.attr.pkey_index = 4;
    EXPECT_EQ(a.qp->modify(t.attr, t.mask), 0);
    EXPECT_EQ(a.qp->query().pkey_index, 4);
}

struct Case {
    std::uint16_t near;
    std::uint16_t far;
    bool match;
};
// IBTA volume 1, 10.9.3: the same partition, and one of them a full member.
constexpr std::array kCases{
    Case{0x8001, 0x8001, true},  Case{0x8001, 0x0001, true},  Case{0x0001, 0x8001, true},
    Case{0x0001, 0x0001, false}, Case{0x8001, 0x8002, false}, Case{0x8001, 0x0002, false},
    Case{0xffff, 0x7fff, true},  Case{0x7fff, 0x7fff, false},
};

class PkeyMatchCore : public PkeyCore, public testing::WithParamInterface<ibv_qp_type> {};

TEST_P(PkeyMatchCore, MembersTalkAndLimitedOnesNotToEachOther)
{
    Params params;
    params.timeout = 6;
    params.retry_cnt = 1;
    for (Case c : kCases) {
        SCOPED_TRACE(testing::Message() << std::hex << c.near << " to " << c.far);
        // Refused is what takes its time; where it must work there may be a busy host.
        begin(GetParam(), c.near, c.far, c.match ? Params{} : params);
        if (c.match)
            expect_taken();
        else
            expect_refused(GetParam() == IBV_QPT_RC);
        a.qp.reset();
        b.qp.reset();
        ibv_wc wc{};
        while (ibv_poll_cq(b.recv_cq.get(), 1, &wc) > 0 || ibv_poll_cq(a.recv_cq.get(), 1, &wc) > 0)
            ;
    }
}

INSTANTIATE_TEST_SUITE_P(Types, PkeyMatchCore, testing::Values(IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD),
                         [](const testing::TestParamInfo<ibv_qp_type> &info) {
                             return info.param == IBV_QPT_RC   ? "Rc"
                                    : info.param == IBV_QPT_UC ? "Uc"
                                                               : "Ud";
                         });

TEST_F(PkeyCore, RunningQpSeesTheNewKey)
{
    begin(IBV_QPT_RC, 0x8001, 0x8001);
    expect_works();
    auto refused = b.context.port().bad_pkey_cntr;
    far_table.set(kFar, 0x8002);
    send(1);
    EXPECT_TRUE(eventually([&] { return b.context.port().bad_pkey_cntr > refused; }));
    EXPECT_TRUE(b.recv_cq.quiet());
    far_table.set(kFar, 0x0001);
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND)) << "a repeated packet matches";
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
    expect_works();
    EXPECT_EQ(b.qp->query().pkey_index, kFar);
}

TEST_F(PkeyCore, SenderSeesTheNewKey)
{
    begin(IBV_QPT_UD, 0x8001, 0x8001);
    expect_taken();
    near_table.set(kNear, 0x8002);
    expect_refused(false);
    ASSERT_EQ(b.qp->move(IBV_QPS_ERR), 0);
    EXPECT_TRUE(is_error(b.recv_cq.one(), 1, IBV_WC_WR_FLUSH_ERR));
}

TEST_F(PkeyCore, QpWhoseKeyWasTakenAwaySendsNothing)
{
    begin(IBV_QPT_RC, 0x8001, 0x8001);
    expect_works();
    near_table.set(kNear, 0);
    auto dropped = port_counter(a.context.name(), "tx_dropped");
    auto refused = b.context.port().bad_pkey_cntr;
    send(1);
    EXPECT_TRUE(b.recv_cq.quiet());
    EXPECT_TRUE(eventually([&] { return port_counter(a.context.name(), "tx_dropped") > dropped; }));
    EXPECT_EQ(b.context.port().bad_pkey_cntr, refused) << "it was on the wire";
    near_table.set(kNear, 0x8001);
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 1, IBV_WC_RECV));
}

TEST_F(PkeyCore, UdCompletionNamesTheEntry)
{
    begin(IBV_QPT_UD, 0x8001, 0x8001);
    send(1);
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 1, IBV_WC_RECV));
    EXPECT_EQ(wc.pkey_index, kFar);
}

TEST_F(PkeyCore, LengthOfTheTableIsAsked)
{
    auto set_length = [](const char *length) {
        std::ofstream file("/sys/module/rox/parameters/pkey_table_len");
        file << length << std::flush;
        return file.good();
    };
    for (const char *length : {"0", "4097", "-1", "x"})
        EXPECT_FALSE(set_length(length)) << length;
    run("ip link add roxpk0 type veth peer name roxpk1");
    for (int length : {1, 1000}) {
        ASSERT_TRUE(set_length(std::to_string(length).c_str()));
        run("rdma link add roxpkey type rox netdev roxpk0");
        {
            Context context("roxpkey");
            PkeyTable table(context);
            EXPECT_EQ(context.port().pkey_tbl_len, length);
            EXPECT_EQ(context.attr().max_pkeys, length);
            EXPECT_EQ(table.get(0), 0xffff);
            __be16 pkey = 0;
            EXPECT_NE(ibv_query_pkey(context.get(), 1, length, &pkey), 0);
            table.set(length - 1, 0x8009);
            EXPECT_EQ(table.get(length - 1), 0x8009);
        }
        run("rdma link delete roxpkey");
    }
    run("ip link delete roxpk0");
    EXPECT_TRUE(set_length("128"));
    EXPECT_EQ(a.context.port().pkey_tbl_len, 128) << "devices that are there keep theirs";
}

} // namespace
