// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// A child of a program with rings: it has none of them, whether the program asked for that by
/// ibv_fork_init() or not, and the program goes on.
#include <array>
#include <csignal>
#include <memory>
#include <string>

#include <unistd.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/rings.h"

using namespace hostile;

namespace {

constexpr int kFault = 42;

/// In a child: reads and writes @p address, and ends with kFault if there is nothing.
int touch(std::uint8_t *address, bool writes)
{
    struct sigaction action {};
    action.sa_handler = [](int) { _exit(kFault); };
    sigaction(SIGSEGV, &action, nullptr);
    volatile std::uint8_t *byte = address;
    if (writes)
        *byte = 0x5a;
    return *byte == 0x5a ? 1 : 2;
}

class ForkTest : public vt::ProcessTest, public testing::WithParamInterface<bool> {
protected:
    /// A program of its own, so that it can choose about ibv_fork_init() before all else.
    static int run(bool protects)
    {
        if (protects && ibv_fork_init())
            return 90;
        vt::End end(vt::device_a());
        ibv_srq_init_attr srq_attr{nullptr, {16, 1, 0}};
        ibv_srq *srq = nullptr;
        std::unique_ptr<vt::Qp> one, two;
        std::unique_ptr<vt::Cq> cq;
        std::array<Mapping, 3> mappings{
            mapped_by([&] { cq = std::make_unique<vt::Cq>(end.context.get(), 16); }),
            mapped_by([&] { srq = ibv_create_srq(end.pd.get(), &srq_attr); }), mapped_by([&] {
                one = std::make_unique<vt::Qp>(end.pd.get(), end.send_cq.get(), end.recv_cq.get());
            })};
        two = std::make_unique<vt::Qp>(end.pd.get(), end.send_cq.get(), cq->get());
        vt::connect(end.context, *one, end.context, *two);
        if (!works(end, *one, *two, *cq, 1))
            return 91;
        for (const Mapping &mapping : mappings)
            for (std::uint8_t *at : {mapping.base, mapping.base + mapping.size - 1})
                for (bool writes : {false, true})
                    if (!vt::ends_with(vt::in_child([&] { return touch(at, writes); }), kFault))
                        return writes ? 93 : 92;
        if (!works(end, *one, *two, *cq, 2))
            return 94;
        /* With a child alive that goes on for itself, too. */
        pid_t child = vt::in_child([] {
            pause();
            return 0;
        });
        bool good = works(end, *one, *two, *cq, 3);
        vt::kill_child(child);
        one.reset();
        two.reset();
        return good && ibv_destroy_srq(srq) == 0 ? 0 : 95;
    }

    static bool works(vt::End &end, vt::Qp &one, vt::Qp &two, vt::Cq &cq, std::uint64_t round)
    {
        vt::Buffer near = end.buffer(4096), far = end.buffer(4096);
        for (std::uint64_t i = 0; i < 20; i++) {
            vt::fill(near.bytes(), round * 100 + i);
            two.post_recv(i, {far.sge(0, 4096)});
            one.post(vt::SendWr::send({near.sge(0, 4096)}).id(i));
            if (!vt::is(end.send_cq.one(), i, IBV_WC_SEND) || !vt::is(cq.one(), i, IBV_WC_RECV) ||
                !vt::filled(far.bytes(), round * 100 + i))
                return false;
        }
        return true;
    }
};

INSTANTIATE_TEST_SUITE_P(Init, ForkTest, testing::Bool(), [](const auto &info) {
    return std::string(info.param ? "WithForkInit" : "WithoutForkInit");
});

TEST_P(ForkTest, ChildHasNoRingsAndTheParentGoesOn)
{
    EXPECT_TRUE(vt::ends_with(vt::in_child([] { return run(GetParam()); }), 0));
}

} // namespace
