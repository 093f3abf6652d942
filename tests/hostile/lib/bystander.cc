// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/bystander.h"

#include <csignal>
#include <cstdio>
#include <thread>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "../../verbs/lib/pair.h"
#include "../../verbs/lib/process.h"

namespace hostile {

namespace {

constexpr std::size_t kSize = 20000;
constexpr std::size_t kHalf = 65536;

/// One pair, and a round of each kind of operation over it.
class Life {
public:
    explicit Life(Known &known) : known_(known)
    {
        vt::connect(a_.context, qa_, b_.context, qb_);
        known_.key = target_.rkey();
        known_.address = target_.address();
        known_.qpns[0] = qa_.number();
        known_.qpns[1] = qb_.number();
        known_.ud_qpn = ud_.number();
        ud_.to_init();
        known_.ready = 1;
    }

    bool round(std::uint64_t number)
    {
        vt::fill(source_.bytes(0, kSize), number);
        qb_.post_recv(1, {target_.sge(kHalf, kSize)});
        qa_.post(vt::SendWr::write({source_.sge(0, kSize)}, vt::remote(target_)).id(2));
        qa_.post(vt::SendWr::send({source_.sge(0, kSize)}).id(3));
        qa_.post(vt::SendWr::read({source_.sge(kHalf, kSize)}, vt::remote(target_)).id(4));
        bool good = good_as(vt::is(a_.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
        good &= good_as(vt::is(a_.send_cq.one(), 3, IBV_WC_SEND));
        good &= good_as(vt::is(a_.send_cq.one(), 4, IBV_WC_RDMA_READ));
        good &= good_as(vt::is(b_.recv_cq.one(), 1, IBV_WC_RECV));
        for (vt::Bytes bytes :
             {target_.bytes(0, kSize), target_.bytes(kHalf, kSize), source_.bytes(kHalf, kSize)})
            good &= good_as(vt::filled(bytes, number));
        return good;
    }

private:
    static bool good_as(const testing::AssertionResult &result)
    {
        if (!result)
            std::fprintf(stderr, "bystander: %s\n", result.message());
        return static_cast<bool>(result);
    }

    Known &known_;
    vt::End a_{vt::device_a()};
    vt::End b_{vt::device_b()};
    vt::Qp qa_{a_.pd.get(), a_.send_cq.get(), a_.recv_cq.get()};
    vt::Qp qb_{b_.pd.get(), b_.send_cq.get(), b_.recv_cq.get()};
    vt::Qp ud_{a_.pd.get(), a_.send_cq.get(), a_.recv_cq.get(), {.type = IBV_QPT_UD}};
    vt::Buffer source_ = a_.buffer(2 * kHalf);
    vt::Buffer target_ = b_.buffer(2 * kHalf);
};

int live(Known &known)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Life life(known);
    while (!known.stop) {
        if (!life.round(known.rounds)) {
            known.mismatches++;
            return 1;
        }
        known.rounds++;
        /* It is to be there all the time, not to have the CPU for itself. */
        std::this_thread::sleep_for(vt::Millis(2));
    }
    return 0;
}

} // namespace

Bystander::Bystander()
    : known_(static_cast<Known *>(
          mmap(nullptr, sizeof(Known), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)))
{
    child_ = vt::in_child([this] { return live(*known_); });
    if (!vt::eventually([this] { return known_->ready != 0; }))
        vt::fail("the bystander does not begin");
}

Bystander::~Bystander()
{
    if (child_ >= 0) {
        EXPECT_TRUE(ends_well());
    }
    munmap(known_, sizeof(Known));
}

testing::AssertionResult Bystander::goes_on()
{
    std::uint64_t wanted = seen_ + 10;
    if (!vt::eventually([&] { return known_->rounds >= wanted; }))
        return testing::AssertionFailure()
               << "the bystander stands still after " << rounds() << " rounds";
    seen_ = known_->rounds;
    return testing::AssertionSuccess();
}

testing::AssertionResult Bystander::ends_well()
{
    known_->stop = 1;
    auto ended = vt::ends_with(std::exchange(child_, -1), 0);
    if (ended && known_->mismatches)
        return testing::AssertionFailure() << "the bystander got wrong bytes";
    return ended;
}

} // namespace hostile
