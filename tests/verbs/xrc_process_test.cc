// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// XRC domains that processes share, and what remains of them when one ends.
#include <array>
#include <cstdlib>

#include <unistd.h>

#include "lib/pair.h"
#include "lib/process.h"
#include "lib/xrc.h"

using namespace vt;

namespace {

/// Two processes and a file that names the domain.
class XrcProcessCore : public ProcessTest {
protected:
    void SetUp() override
    {
        std::array<char, 32> name{"/tmp/rox-xrcd-XXXXXX"};
        fd = mkstemp(name.data());
        ASSERT_GE(fd, 0);
        unlink(name.data());
        ASSERT_EQ(pipe(to_child), 0);
        ASSERT_EQ(pipe(to_parent), 0);
    }
    void TearDown() override
    {
        for (int each : {fd, to_child[0], to_child[1], to_parent[0], to_parent[1]})
            close(each);
        ProcessTest::TearDown();
    }
    /// What the other process has put; zeros if it is gone.
    template <typename T = std::uint32_t>
    static T get(int from)
    {
        T value{};
        return read(from, &value, sizeof(value)) == sizeof(value) ? value : T{};
    }
    template <typename T = std::uint32_t>
    static void put(int to, T value)
    {
        if (write(to, &value, sizeof(value)) != sizeof(value))
            fail("write to a pipe", errno);
    }

    /* A parent that has the connection, and a child that has the SRQ, the CQ and the memory. */

    static constexpr std::size_t kMessages = 20, kSlot = 20000, kWritten = 50000;

    /// Where the child takes messages, and where the parent may write.
    struct Place {
        std::uint32_t srqn;
        std::uint32_t rkey;
        std::uint64_t address;
    };
    static std::size_t size(std::uint64_t message) { return 15000 + message; }

    /// The child's part of ReceivesReachTheProcessThatHasTheSrq, and what it ends with: 7 if all
    /// came as it should.
    int receive() const
    {
        End me(device_b());
        Xrcd xrcd = open_xrcd(me.context.get(), fd);
        XrcSrq srq(me.pd.get(), xrcd.get(), me.recv_cq.get());
        Buffer messages = me.buffer(kMessages * kSlot);
        Buffer written = me.buffer(kWritten);
        for (std::uint64_t i = 0; i < kMessages; i++)
            srq.post(i, {messages.sge(i * kSlot, kSlot)});
        put(to_parent[1], Place{srq.number(), written.rkey(), written.address()});
        const auto target = get(to_child[0]);
        for (std::uint64_t i = 0; i < kMessages; i++) {
            ibv_wc wc = me.recv_cq.one();
            if (!is(wc, i, IBV_WC_RECV) || wc.qp_num != target || wc.byte_len != size(i) ||
                !filled(messages.bytes(i * kSlot, size(i)), i))
                return 1;
        }
        get(to_child[0]); // the WRITE is complete
        return filled(written.bytes(), 500) ? 7 : 2;
    }

    int fd = -1;
    int to_child[2]{};
    int to_parent[2]{};
};

TEST_F(XrcProcessCore, ReceivesReachTheProcessThatHasTheSrq)
{
    pid_t child = in_child([this] { return receive(); });
    End a(device_a());
    End b(device_b());
    Xrcd xrcd = open_xrcd(b.context.get(), fd);
    XrcSrq own(b.pd.get(), xrcd.get(), b.recv_cq.get());
    Qp initiator(xrc_initiator(a.pd.get(), a.send_cq.get()));
    Qp target(xrc_target(b.context.get(), xrcd.get()));
    Buffer near = a.buffer(kWritten);
    Buffer mine = b.buffer(kSlot);
    vt::connect(a.context, initiator, b.context, target);
    const auto there = get<Place>(to_parent[0]);
    ASSERT_NE(there.srqn, 0u);
    put(to_child[1], target.number());
    /* One for the child, one for ourselves. */
    for (std::uint64_t i = 0; i < kMessages; i++) {
        const ibv_sge message = near.sge(0, size(i));
        fill(near.bytes(0, size(i)), i);
        own.post(i, {mine.sge(0, kSlot)});
        initiator.post({to_srq(SendWr::send({message}).id(1), there.srqn),
                        to_srq(SendWr::send({message}).id(2), own.number())});
        ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_SEND)) << i;
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_SEND)) << i;
        ASSERT_TRUE(is(b.recv_cq.one(), i, IBV_WC_RECV));
        ASSERT_TRUE(filled(mine.bytes(0, size(i)), i));
    }
    EXPECT_TRUE(b.recv_cq.quiet(Millis(1)));
    fill(near.bytes(), 500);
    initiator.post(to_srq(SendWr::write({near.sge(0, kWritten)}, {there.address, there.rkey}).id(3),
                          there.srqn));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_WRITE));
    put(to_child[1], 1u);
    EXPECT_TRUE(ends_with(child, 7));
    /* With the process its SRQ is gone, and the connection with whoever uses it still. */
    initiator.post(to_srq(SendWr::send({}).id(4), there.srqn));
    EXPECT_TRUE(is_error(a.send_cq.one(), 4, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(XrcProcessCore, TargetOutlivesItsCreatorIfItIsOpen)
{
    {
        End a(device_a());
        End b(device_b());
        Xrcd xrcd = open_xrcd(b.context.get(), fd);
        XrcSrq srq(b.pd.get(), xrcd.get(), b.recv_cq.get());
        Qp initiator(xrc_initiator(a.pd.get(), a.send_cq.get()));
        Buffer near = a.buffer(1 << 16);
        Buffer far = b.buffer(1 << 16);
        const std::uint32_t peer = initiator.number();
        pid_t child = in_child([this, peer] {
            auto *there = new Context(device_b());
            auto *back = new Context(device_a());
            auto *domain = new Xrcd(open_xrcd(there->get(), fd));
            auto *target = new Qp(xrc_target(there->get(), domain->get()));
            target->to_init();
            target->to_rtr(Params{}.mirrored(), address_of(*there, *back), peer);
            put(to_parent[1], target->number());
            pause();
            return 1;
        });
        const std::uint32_t number = get(to_parent[0]);
        ASSERT_NE(number, 0u);
        Qp target(need(try_open_target(b.context.get(), xrcd.get(), number), "ibv_open_qp"));
        initiator.to_init();
        initiator.to_rtr({}, address_of(a.context, b.context), number);
        initiator.to_rts();
        for (std::uint64_t i = 0; i < 10; i++) {
            if (i == 5)
                kill_child(child);
            fill(near.bytes(0, 9000), i);
            srq.post(i, {far.sge(0, 9000)});
            initiator.post(to_srq(SendWr::send({near.sge(0, 9000)}).id(i), srq.number()));
            ASSERT_TRUE(is(a.send_cq.one(), i, IBV_WC_SEND)) << i;
            ibv_wc wc = b.recv_cq.one();
            ASSERT_TRUE(is(wc, i, IBV_WC_RECV));
            EXPECT_EQ(wc.qp_num, number);
            ASSERT_TRUE(filled(far.bytes(0, 9000), i));
        }
    }
}

TEST_F(XrcProcessCore, KilledProcessesLeaveNothing)
{
    for (int round = 0; round < 6; round++) {
        pid_t child = in_child([this] {
            auto *a = new End(device_a());
            auto *b = new End(device_b());
            auto *domain = new Xrcd(open_xrcd(b->context.get(), fd));
            auto *srq = new XrcSrq(b->pd.get(), domain->get(), b->recv_cq.get());
            auto *initiator = new Qp(xrc_initiator(a->pd.get(), a->send_cq.get()));
            auto *target = new Qp(xrc_target(b->context.get(), domain->get()));
            auto *near = new Buffer(a->buffer(4 << 20));
            auto *far = new Buffer(b->buffer(4 << 20));
            vt::connect(a->context, *initiator, b->context, *target);
            new Qp(try_open_target(b->context.get(), domain->get(), target->number()));
            srq->post(1, {far->sge(0, 4 << 20)});
            for (std::uint64_t i = 0; i < 20; i++) {
                initiator->post(
                    to_srq(SendWr::write({near->sge(0, 4 << 20)}, remote(*far)), srq->number()));
                initiator->post(
                    to_srq(SendWr::read({near->sge(0, 4 << 20)}, remote(*far)), srq->number()));
            }
            initiator->post(to_srq(SendWr::send({near->sge(0, 4 << 20)}), srq->number()));
            put(to_parent[1], 1u);
            pause();
            return 1;
        });
        ASSERT_EQ(get(to_parent[0]), 1u);
        std::this_thread::sleep_for(Millis(13 * round));
        kill_child(child);
    }
}

} // namespace
