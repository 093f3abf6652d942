// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Multicast and the netdevs beneath: what they join and leave, and that a listener goes on
/// listening whatever becomes of them; limits. Over devices of its own in two namespaces.
#include <cstring>
#include <memory>
#include <vector>

#include <unistd.h>

#include "lib/diagnose.h"
#include "lib/gid.h"
#include "lib/pair.h"
#include "lib/process.h"

using namespace vt;

namespace {

constexpr std::size_t kGrh = 40;
constexpr std::uint32_t kMulticastQpn = 0xffffff;
constexpr const char *kNearDevice = "roxmc0";
constexpr const char *kFarDevice = "roxmc1";

ibv_gid gid_of(const std::string &address)
{
    const auto gid = parse_gid(address);
    if (!gid)
        fail("not an address: " + address);
    return *gid;
}

/// Index of the GID that is @p address, or -1.
int index_of(const Context &context, const std::string &address)
{
    const ibv_gid wanted = gid_of(address);
    const auto entry = find_gid(context.get(),
                                [&](const ibv_gid &gid) { return same_gid(gid, wanted); });
    return entry ? static_cast<int>(entry->gid_index) : -1;
}

/// Has a netdev of the far namespace joined this group?
bool joined(const std::string &netdev, const std::string &group)
{
    std::string output;
    shell("ip -n roxmcfar maddress show dev " + netdev, &output);
    return output.find(" " + group + " ") != std::string::npos ||
           output.find(" " + group + "\n") != std::string::npos;
}

/// A QP that leaves the groups that it is still in when it goes.
class Listener {
public:
    explicit Listener(const End &end)
        : Listener(end.pd.get(), end.recv_cq.get(), {.type = IBV_QPT_UD, .send_wr = 1})
    {
        qp_.to_init();
        qp_.to_rtr({}, {}, 0);
    }
    Listener(ibv_pd *pd, ibv_cq *cq, const QpConfig &config) : qp_(pd, cq, cq, config) {}
    Listener(const Listener &) = delete;
    Listener &operator=(const Listener &) = delete;
    ~Listener()
    {
        while (!groups_.empty())
            EXPECT_EQ(detach(groups_.back()), 0);
    }
    int attach(const std::string &group)
    {
        const ibv_gid gid = gid_of(group);
        const int result = ibv_attach_mcast(qp_.get(), &gid, 0);
        if (!result)
            groups_.push_back(group);
        return result;
    }
    int detach(const std::string &group)
    {
        const ibv_gid gid = gid_of(group);
        std::erase(groups_, group);
        return ibv_detach_mcast(qp_.get(), &gid, 0);
    }
    const Qp &qp() const { return qp_; }
    /// The caller destroys the QP.
    ibv_qp *release()
    {
        groups_.clear();
        return qp_.release();
    }

private:
    Qp qp_;
    std::vector<std::string> groups_;
};

/// roxmc0 on a netdev here, roxmc1 on its peer in the namespace roxmcfar.
class McastNet : public testing::Test {
protected:
    static void SetUpTestSuite()
    {
        run("ip netns add roxmcfar");
        run("ip link add roxmcn0 mtu 9000 type veth peer name roxmcn1 netns roxmcfar mtu 9000");
        run("ip address add 10.66.0.1/24 dev roxmcn0; ip address add fd66::1/64 dev roxmcn0 nodad");
        run("ip link set roxmcn0 up");
        run("ip -n roxmcfar link set lo up; ip -n roxmcfar link set roxmcn1 up");
        far_addresses("roxmcn1");
        run("rdma link add roxmc0 type rox netdev roxmcn0");
        run("ip netns exec roxmcfar rdma link add roxmc1 type rox netdev roxmcn1");
    }
    static void TearDownTestSuite()
    {
        EXPECT_EQ(shell("rdma link delete roxmc1; rdma link delete roxmc0"), 0);
        EXPECT_EQ(shell("timeout 20 ip link delete roxmcn0"), 0) << "somebody holds the netdev";
        EXPECT_EQ(shell("ip netns delete roxmcfar"), 0);
    }
    static void far_addresses(const std::string &netdev)
    {
        run("ip -n roxmcfar address add 10.66.0.2/24 dev " + netdev);
        run("ip -n roxmcfar address add fd66::2/64 dev " + netdev + " nodad");
    }

    void SetUp() override
    {
        near = std::make_unique<End>(kNearDevice);
        far = std::make_unique<End>(kFarDevice);
        wait_for_gids({"10.66.0.1", "fd66::1"}, *near);
        wait_for_gids({"10.66.0.2", "fd66::2"}, *far);
        source = std::make_unique<Buffer>(near->pd.get(), 4096);
        sink = std::make_unique<Buffer>(far->pd.get(), 1 << 20);
        sender = std::make_unique<Qp>(near->pd.get(), near->send_cq.get(), near->recv_cq.get(),
                                      QpConfig{.type = IBV_QPT_UD});
        sender->to_init();
        sender->to_rtr({}, {}, 0);
        sender->to_rts();
    }
    void TearDown() override
    {
        sender.reset();
        source.reset();
        sink.reset();
        near.reset();
        far.reset();
    }
    static void wait_for_gids(const std::vector<std::string> &addresses, const End &end)
    {
        for (const std::string &address : addresses)
            ASSERT_TRUE(eventually([&] { return index_of(end.context, address) >= 0; })) << address;
    }

    void send(const std::string &from, const std::string &group, std::uint64_t id)
    {
        ibv_ah_attr attr{};
        attr.is_global = 1;
        attr.port_num = 1;
        attr.grh.dgid = gid_of(group);
        attr.grh.hop_limit = 64;
        attr.grh.sgid_index = static_cast<std::uint8_t>(index_of(near->context, from));
        Ah ah(need(ibv_create_ah(near->pd.get(), &attr), "ibv_create_ah"));
        fill(source->bytes(0, 500), id);
        sender->post(
            SendWr::send({source->sge(0, 500)}).id(id).to(ah.get(), kMulticastQpn, Params{}.qkey));
        EXPECT_TRUE(is(near->send_cq.one(), id, IBV_WC_SEND));
    }
    /// One message to a group, which a QP that is attached gets.
    void expect_heard(const Listener &on, const std::string &from, const std::string &group)
    {
        on.qp().post_recv(1, {sink->sge(0, 1024)});
        send(from, group, ++messages);
        EXPECT_TRUE(is(far->recv_cq.one(), 1, IBV_WC_RECV));
        EXPECT_TRUE(filled(sink->bytes(kGrh, 500), messages));
    }

    std::unique_ptr<End> near, far;
    std::unique_ptr<Buffer> source, sink;
    std::unique_ptr<Qp> sender;
    std::uint64_t messages = 0;
};

const char *const kGroups[] = {"239.66.0.1", "ff15::66"};

const char *sender_of(const std::string &group)
{
    return group.find(':') == std::string::npos ? "10.66.0.1" : "fd66::1";
}

TEST_F(McastNet, FirstJoinsLastLeaves)
{
    for (const char *group : kGroups) {
        Listener one(*far), two(*far);
        EXPECT_FALSE(joined("roxmcn1", group));
        ASSERT_EQ(one.attach(group), 0);
        ASSERT_EQ(two.attach(group), 0);
        EXPECT_TRUE(joined("roxmcn1", group));
        EXPECT_EQ(one.detach(group), 0);
        EXPECT_TRUE(joined("roxmcn1", group));
        expect_heard(two, sender_of(group), group);
        EXPECT_EQ(two.detach(group), 0);
        EXPECT_FALSE(joined("roxmcn1", group));
    }
}

TEST_F(McastNet, NetdevDownAndUp)
{
    for (const char *group : kGroups) {
        Listener qp(*far);
        ASSERT_EQ(qp.attach(group), 0);
        run("ip -n roxmcfar link set roxmcn1 down");
        run("ip -n roxmcfar link set roxmcn1 up");
        shell("ip -n roxmcfar address add fd66::2/64 dev roxmcn1 nodad");
        wait_for_gids({"10.66.0.2", "fd66::2"}, *far);
        expect_heard(qp, sender_of(group), group);
        EXPECT_EQ(qp.detach(group), 0);
        EXPECT_FALSE(joined("roxmcn1", group));
    }
}

class McastVlan : public McastNet {
protected:
    static void add_vlans()
    {
        run("ip link add link roxmcn0 name roxmcv0 type vlan id 66");
        run("ip address add 10.67.0.1/24 dev roxmcv0; ip address add fd67::1/64 dev roxmcv0 nodad");
        run("ip link set roxmcv0 up");
        run("ip -n roxmcfar link add link roxmcn1 name roxmcv1 type vlan id 66");
        run("ip -n roxmcfar address add 10.67.0.2/24 dev roxmcv1");
        run("ip -n roxmcfar address add fd67::2/64 dev roxmcv1 nodad");
        run("ip -n roxmcfar link set roxmcv1 up");
    }
    static void delete_vlans()
    {
        run("timeout 20 ip link delete roxmcv0");
        run("timeout 20 ip -n roxmcfar link delete roxmcv1");
    }
    /// Until @p end has the VLAN's addresses: the device on it, or, without one, that below.
    void ip_again(const End &end)
    {
        run("ip -n roxmcfar link set roxmcv1 mtu 9000");
        run("ip -n roxmcfar address add 10.67.0.2/24 dev roxmcv1");
        run("ip -n roxmcfar address add fd67::2/64 dev roxmcv1 nodad");
        wait_for_gids({"10.67.0.2", "fd67::2"}, end);
    }
    static const char *vlan_sender_of(const std::string &group)
    {
        return group.find(':') == std::string::npos ? "10.67.0.1" : "fd67::1";
    }
};

TEST_F(McastVlan, ListenerHearsTheVlansOfItsNetdev)
{
    for (const char *group : kGroups) {
        Listener qp(*far);
        ASSERT_EQ(qp.attach(group), 0);
        add_vlans(); // a VLAN that comes after the listener
        wait_for_gids({"10.67.0.1", "fd67::1"}, *near);
        wait_for_gids({"10.67.0.2", "fd67::2"}, *far);
        EXPECT_TRUE(joined("roxmcv1", group));
        expect_heard(qp, vlan_sender_of(group), group);
        expect_heard(qp, sender_of(group), group);
        EXPECT_EQ(qp.detach(group), 0);
        EXPECT_FALSE(joined("roxmcv1", group));
        ASSERT_EQ(qp.attach(group), 0); // and one that was there before
        expect_heard(qp, vlan_sender_of(group), group);
        delete_vlans();
        expect_heard(qp, sender_of(group), group);
        EXPECT_EQ(qp.detach(group), 0);
    }
}

TEST_F(McastVlan, DeviceOnAVlanHearsThatVlanOnly)
{
    add_vlans();
    run("ip netns exec roxmcfar rdma link add roxmc2 type rox netdev roxmcv1");
    wait_for_gids({"10.67.0.1", "fd67::1"}, *near);
    {
        End end("roxmc2");
        wait_for_gids({"10.67.0.2", "fd67::2"}, end);
        Buffer place(end.pd.get(), 4096);
        for (const char *group : kGroups) {
            Listener qp(end);
            ASSERT_EQ(qp.attach(group), 0);
            EXPECT_TRUE(joined("roxmcv1", group));
            EXPECT_FALSE(joined("roxmcn1", group));
            qp.qp().post_recv(1, {place.sge(0, 1024)});
            send(sender_of(group), group, 2);
            EXPECT_TRUE(end.recv_cq.quiet()) << "not of its VLAN";
            send(vlan_sender_of(group), group, 3);
            EXPECT_TRUE(is(end.recv_cq.one(), 1, IBV_WC_RECV));
            EXPECT_TRUE(filled(place.bytes(kGrh, 500), 3));
            EXPECT_EQ(qp.detach(group), 0);
        }
    }
    run("rdma link delete roxmc2");
    delete_vlans();
}

/// The IP layer throws its memberships away when the MTU becomes too small for it.
TEST_F(McastVlan, MtuThatIsTooSmallForIpAndBack)
{
    add_vlans();
    wait_for_gids({"10.67.0.1", "fd67::1"}, *near);
    for (const char *group : kGroups) {
        Listener qp(*far);
        ASSERT_EQ(qp.attach(group), 0);
        expect_heard(qp, vlan_sender_of(group), group);
        run("ip -n roxmcfar link set roxmcv1 mtu 67");
        EXPECT_FALSE(joined("roxmcv1", group));
        expect_heard(qp, sender_of(group), group);
        ip_again(*far);
        EXPECT_TRUE(joined("roxmcv1", group));
        expect_heard(qp, vlan_sender_of(group), group);
        EXPECT_EQ(qp.detach(group), 0);
        EXPECT_FALSE(joined("roxmcv1", group));
    }
    delete_vlans();
}

/// What others have joined since then is not ours to leave.
TEST_F(McastVlan, DetachedWhileThereIsNoIp)
{
    add_vlans();
    wait_for_gids({"10.67.0.1", "fd67::1"}, *near);
    run("ip netns exec roxmcfar rdma link add roxmc2 type rox netdev roxmcv1");
    {
        End end("roxmc2");
        for (const char *group : kGroups) {
            Listener gone(end), kept(end), other(*far);
            ASSERT_EQ(gone.attach(group), 0);
            run("ip -n roxmcfar link set roxmcv1 mtu 67");
            EXPECT_EQ(kept.attach("239.66.0.2"), ENODEV) << "nothing can be joined now";
            EXPECT_EQ(gone.detach(group), 0);
            EXPECT_EQ(gone.attach(group), ENODEV);
            ip_again(end);
            EXPECT_FALSE(joined("roxmcv1", group));
            ASSERT_EQ(kept.attach(group), 0);
            ASSERT_EQ(other.attach(group), 0);
            EXPECT_TRUE(joined("roxmcv1", group));
            expect_heard(other, vlan_sender_of(group), group);
            EXPECT_EQ(kept.detach(group), 0);
            expect_heard(other, vlan_sender_of(group), group);
        }
    }
    run("rdma link delete roxmc2");
    delete_vlans();
}

/// The addresses of a bridge are those of the devices on its ports.
TEST_F(McastNet, DeviceOnThePortOfABridge)
{
    Listener qp(*far);
    for (const char *group : kGroups)
        ASSERT_EQ(qp.attach(group), 0);
    run("ip -n roxmcfar address flush dev roxmcn1");
    run("ip -n roxmcfar link add roxmcbr mtu 9000 type bridge mcast_snooping 0");
    run("ip -n roxmcfar link set roxmcn1 master roxmcbr");
    run("ip -n roxmcfar link set roxmcbr up");
    far_addresses("roxmcbr");
    wait_for_gids({"10.66.0.2", "fd66::2"}, *far);
    for (const char *group : kGroups) {
        EXPECT_TRUE(joined("roxmcbr", group));
        expect_heard(qp, sender_of(group), group);
    }
    run("timeout 20 ip -n roxmcfar link delete roxmcbr");
    far_addresses("roxmcn1");
    wait_for_gids({"10.66.0.2", "fd66::2"}, *far);
    for (const char *group : kGroups) {
        expect_heard(qp, sender_of(group), group);
        EXPECT_EQ(qp.detach(group), 0);
    }
}

TEST_F(McastNet, NetdevGoesBeneathAListener)
{
    run("ip -n roxmcfar link add roxmcd type dummy");
    run("ip -n roxmcfar address add 10.68.0.2/24 dev roxmcd");
    run("ip -n roxmcfar link set roxmcd up");
    run("ip netns exec roxmcfar rdma link add roxmc2 type rox netdev roxmcd");
    auto *end = new End("roxmc2");
    auto qp = std::make_unique<Listener>(*end);
    ASSERT_EQ(qp->attach(kGroups[0]), 0);
    ASSERT_EQ(qp->attach(kGroups[1]), 0);
    run("timeout 20 ip -n roxmcfar link delete roxmcd");
    end->context.wait_event(IBV_EVENT_DEVICE_FATAL);
    // The device is gone: what these return is of no matter, that they return is.
    qp->detach(kGroups[0]);
    ibv_destroy_qp(qp->release());
    ibv_destroy_cq(end->send_cq.release());
    ibv_destroy_cq(end->recv_cq.release());
    ibv_dealloc_pd(end->pd.release());
    EXPECT_EQ(end->context.close(), 0);
    delete end;
    EXPECT_TRUE(eventually([] { return access("/sys/class/infiniband/roxmc2", F_OK) != 0; }));
}

TEST_F(McastNet, KilledListenerLeaves)
{
    int gate[2];
    ASSERT_EQ(pipe(gate), 0);
    pid_t child = in_child([&] {
        End end(kFarDevice);
        Listener qp(end);
        const bool ok = !qp.attach(kGroups[0]) && !qp.attach(kGroups[1]);
        return write(gate[1], ok ? "y" : "n", 1) == 1 ? pause() : 1;
    });
    char byte = 0;
    ASSERT_EQ(read(gate[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    EXPECT_TRUE(joined("roxmcn1", kGroups[0]) && joined("roxmcn1", kGroups[1]));
    kill_child(child);
    EXPECT_TRUE(eventually(
        [] { return !joined("roxmcn1", kGroups[0]) && !joined("roxmcn1", kGroups[1]); }));
}

TEST_F(McastNet, ManyListenersGetEveryMessage)
{
    constexpr std::size_t kListeners = 200;
    constexpr std::uint64_t kMessages = 5;
    Cq cq(far->context.get(), static_cast<int>(kListeners * kMessages));
    std::vector<std::unique_ptr<Listener>> listeners;
    for (std::size_t i = 0; i < kListeners; i++) {
        auto &one = listeners.emplace_back(std::make_unique<Listener>(
            far->pd.get(), cq.get(), QpConfig{.type = IBV_QPT_UD, .send_wr = 1, .recv_wr = 8}));
        one->qp().to_init();
        one->qp().to_rtr({}, {}, 0);
        ASSERT_EQ(one->attach(kGroups[0]), 0);
        for (std::uint64_t m = 0; m < kMessages; m++) {
            const std::size_t slot = i * kMessages + m;
            one->qp().post_recv(slot, {sink->sge(slot * 1000, 1000)});
        }
    }
    for (std::uint64_t m = 0; m < kMessages; m++) {
        send("10.66.0.1", kGroups[0], 100 + m);
        for (const ibv_wc &wc : cq.wait(kListeners)) {
            EXPECT_TRUE(is(wc, wc.wr_id, IBV_WC_RECV));
            EXPECT_EQ(wc.wr_id % kMessages, m);
            EXPECT_TRUE(filled(sink->bytes(wc.wr_id * 1000 + kGrh, 500), 100 + m));
        }
    }
}

std::string numbered_group(int number)
{
    return "239.67." + std::to_string(number >> 8) + "." + std::to_string(number & 255);
}

TEST_F(McastNet, AsManyGroupsAsTheDeviceSays)
{
    const int limit = far->context.attr().max_mcast_grp;
    alarm(kLongCaseSeconds);
    auto many = std::make_unique<Listener>(*far);
    Listener &qp = *many;
    for (int i = 0; i < limit; i++)
        ASSERT_EQ(qp.attach(numbered_group(i)), 0) << i;
    EXPECT_EQ(qp.attach(numbered_group(limit)), ENOMEM);
    expect_heard(qp, "10.66.0.1", numbered_group(limit / 2));
    EXPECT_EQ(qp.detach(numbered_group(1)), 0);
    EXPECT_EQ(qp.attach(numbered_group(limit)), 0);
    expect_heard(qp, "10.66.0.1", numbered_group(limit));
    EXPECT_EQ(qp.attach(numbered_group(1)), ENOMEM);
    many.reset();
    EXPECT_FALSE(joined("roxmcn1", numbered_group(limit)));
}

TEST_F(McastNet, AsManyQpsInAGroupAsTheDeviceSays)
{
    const int limit = far->context.attr().max_mcast_qp_attach;
    alarm(kLongCaseSeconds);
    std::vector<std::unique_ptr<Listener>> listeners;
    for (int i = 0; i <= limit; i++) {
        auto &one = listeners.emplace_back(std::make_unique<Listener>(
            far->pd.get(), far->recv_cq.get(), QpConfig{IBV_QPT_UD, 1, 1, 1, 1}));
        ASSERT_EQ(one->attach(kGroups[0]), i < limit ? 0 : ENOMEM) << i;
    }
    EXPECT_EQ(listeners.front()->detach(kGroups[0]), 0);
    EXPECT_EQ(listeners.back()->attach(kGroups[0]), 0);
    listeners.clear();
    EXPECT_FALSE(joined("roxmcn1", kGroups[0]));
}

} // namespace
