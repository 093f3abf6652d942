// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// What a program gets at that is not its own: nothing. Here is what needs numbers, another
/// process or another user; Documentation/security.md names the tests of the rest.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unordered_set>
#include <vector>

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "../verbs/lib/rdmatool.h"
#include "lib/bystander.h"
#include "lib/chance.h"
#include "lib/command.h"

using namespace hostile;

namespace {

constexpr uid_t kNobody = 65534;

// ---- keys ----

/// Windows have keys from where regions have theirs, and cost less.
class KeyTest : public vt::ProcessTest {
protected:
    /// Fewer on the debug kernel, where each takes a millisecond.
    static inline const std::size_t kKeys = vt::patience_factor() > 3 ? 20000 : 100000;

    /// Those of so many windows, all of them there at once; they end with their context.
    static std::vector<std::uint32_t> draw()
    {
        vt::Context context(vt::device_a());
        vt::Pd pd = vt::alloc_pd(context.get());
        std::vector<std::uint32_t> keys;
        keys.reserve(kKeys);
        while (keys.size() < kKeys) {
            ib_uverbs_alloc_mw command{};
            command.pd_handle = pd->handle;
            command.mw_type = IBV_MW_TYPE_1;
            ib_uverbs_alloc_mw_resp response{};
            if (!write_command(context.get()->cmd_fd, IB_USER_VERBS_CMD_ALLOC_MW, command,
                               response))
                vt::fail("ALLOC_MW", errno);
            keys.push_back(response.rkey);
        }
        context.close();
        pd.release();
        return keys;
    }

    /// Of a uniform distribution over @p bins, in standard deviations.
    static double deviation(const std::vector<std::size_t> &bins, std::size_t total)
    {
        double expected = static_cast<double>(total) / static_cast<double>(bins.size()), sum = 0;
        for (std::size_t count : bins) {
            double off = static_cast<double>(count) - expected;
            sum += off * off / expected;
        }
        auto freedom = static_cast<double>(bins.size() - 1);
        return (sum - freedom) / std::sqrt(2 * freedom);
    }

    /// How far from uniform each byte of @p words is; the worst of the four.
    static double worst_byte(const std::vector<std::uint32_t> &words)
    {
        double worst = 0;
        for (unsigned shift = 0; shift < 32; shift += 8) {
            std::vector<std::size_t> bins(256);
            for (std::uint32_t word : words)
                bins[word >> shift & 0xff]++;
            worst = std::max(worst, std::abs(deviation(bins, words.size())));
        }
        return worst;
    }
};

TEST_F(KeyTest, TellNothingOfTheNext)
{
    std::vector<std::uint32_t> keys = draw();
    std::unordered_set<std::uint32_t> indices;
    for (std::uint32_t key : keys)
        EXPECT_TRUE(indices.insert(key >> 8).second) << "two at once with one index";
    /* Six standard deviations: by chance once in 500 million. */
    EXPECT_LT(worst_byte(keys), 6) << "of the keys";
    std::vector<std::uint32_t> steps, differences;
    for (std::size_t i = 1; i < keys.size(); i++) {
        steps.push_back(keys[i] - keys[i - 1]);
        differences.push_back(keys[i] ^ keys[i - 1]);
    }
    EXPECT_LT(worst_byte(steps), 6) << "of the steps from key to key";
    EXPECT_LT(worst_byte(differences), 6) << "of the bits that change";
    for (unsigned bit = 0; bit < 32; bit++) {
        auto ones = static_cast<double>(std::count_if(
            keys.begin(), keys.end(), [&](std::uint32_t key) { return key >> bit & 1; }));
        auto flips = static_cast<double>(
            std::count_if(differences.begin(), differences.end(),
                          [&](std::uint32_t word) { return word >> bit & 1; }));
        const auto total = static_cast<double>(kKeys);
        const double deviation = std::sqrt(total) / 2;
        EXPECT_LT(std::abs(ones - total / 2), 6 * deviation) << "bit " << bit;
        EXPECT_LT(std::abs(flips - total / 2), 6 * deviation) << "bit " << bit << " after itself";
    }
    std::printf("# %zu keys\n", keys.size());
}

// ---- guessing ----

class GuessTest : public vt::PairTest {
protected:
    void TearDown() override
    {
        PairTest::TearDown();
        EXPECT_TRUE(bystander_.goes_on());
    }
    /// The one who asks is of this process; so is the one who answers, whose PD is not the owner's.
    ibv_wc ask(std::uint32_t rkey, std::uint64_t address)
    {
        start();
        a.qp->post(vt::SendWr::read({local_.sge(0, 8)}, {address, rkey}).id(1));
        ibv_wc wc = a.send_cq.one();
        a.qp.reset();
        b.qp.reset();
        return wc;
    }

    Bystander bystander_;
    vt::Buffer local_ = a.buffer(4096);
};

TEST_F(GuessTest, KeysOfAnotherProcessAreRefusedAndCounted)
{
    const Known &known = bystander_.known();
    Chance chance(50);
    vt::Buffer near = b.buffer(4096);
    std::memset(local_.data(), 0x77, 4096);
    std::uint64_t before = vt::port_counter(vt::device_a(), "resp_remote_access_errors");
    std::uint64_t tried = 0;
    auto refused = [&](std::uint32_t rkey, std::uint64_t address) {
        tried++;
        return vt::is_error(ask(rkey, address), 1, IBV_WC_REM_ACCESS_ERR);
    };
    EXPECT_TRUE(refused(known.key, known.address)) << "as it is";
    for (std::uint32_t low = 1; low < 16; low++)
        EXPECT_TRUE(refused(near.rkey() ^ low, near.address())) << "another variant";
    for (int i = 0; i < 16; i++) {
        std::uint32_t guess = chance.once_in(2) ? chance.wrong(near.rkey())
                                                : static_cast<std::uint32_t>(chance.bits());
        if (guess != near.rkey()) {
            EXPECT_TRUE(refused(guess, near.address())) << guess;
        }
    }
    EXPECT_TRUE(refused(0, near.address()));
    EXPECT_TRUE(vt::all(local_.bytes(0, 8), 0x77)) << "nothing came";
    EXPECT_EQ(vt::port_counter(vt::device_a(), "resp_remote_access_errors"), before + tried);
    std::printf("# %llu guesses\n", static_cast<unsigned long long>(tried));
}

// ---- users ----

class NobodyTest : public vt::ProcessTest {
protected:
    /// 0 or the errno of creating a QP of that type, by the number that the kernel has for it.
    static int create(ibv_context *context, ibv_pd *pd, ibv_cq *cq, unsigned type)
    {
        ib_uverbs_create_qp command{};
        command.pd_handle = pd->handle;
        command.send_cq_handle = cq->handle;
        command.recv_cq_handle = cq->handle;
        command.max_send_wr = 4;
        command.max_recv_wr = 4;
        command.max_send_sge = 1;
        command.max_recv_sge = 1;
        command.qp_type = static_cast<__u8>(type);
        alignas(8) std::array<std::uint8_t, 512> response{};
        if (!write_command(context->cmd_fd, IB_USER_VERBS_CMD_CREATE_QP, command, response))
            return errno;
        destroy(context,
                reinterpret_cast<const ib_uverbs_create_qp_resp *>(response.data())->qp_handle);
        return 0;
    }
    static void destroy(ibv_context *context, std::uint32_t handle)
    {
        ib_uverbs_destroy_qp command{};
        command.qp_handle = handle;
        ib_uverbs_destroy_qp_resp response{};
        if (!write_command(context->cmd_fd, IB_USER_VERBS_CMD_DESTROY_QP, command, response))
            vt::fail("DESTROY_QP", errno);
    }
};

TEST_F(NobodyTest, ManagementQueuePairsAreNotForPrograms)
{
    pid_t child = vt::in_child([] {
        if (setgid(kNobody) || setuid(kNobody))
            return 90;
        vt::Context context(vt::device_a());
        vt::Pd pd = vt::alloc_pd(context.get());
        vt::Cq cq(context.get(), 16);
        int bad = 0;
        for (unsigned type = 0; type < 256; type++) {
            int error = create(context.get(), pd.get(), cq.get(), type);
            bool ours = type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
                        type == IBV_QPT_XRC_SEND;
            if (ours ? error : error != EINVAL && error != EOPNOTSUPP && error != EPERM) {
                std::fprintf(stderr, "QP type %u: %s\n", type, std::strerror(error));
                bad++;
            }
        }
        /* Nor do they reach the device's own: 0 and 1 are numbers like others for the rest. */
        vt::Qp ud(pd.get(), cq.get(), cq.get(), {.type = IBV_QPT_UD});
        bad += ud.number() < 2;
        return bad;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

TEST_F(NobodyTest, DoesAllThatVerbsNeed)
{
    pid_t child = vt::in_child([] {
        if (setgid(kNobody) || setuid(kNobody))
            return 90;
        vt::End a(vt::device_a()), b(vt::device_b());
        vt::Qp qa(a.pd.get(), a.send_cq.get(), a.recv_cq.get());
        vt::Qp qb(b.pd.get(), b.send_cq.get(), b.recv_cq.get());
        vt::connect(a.context, qa, b.context, qb);
        vt::Buffer source = a.buffer(4096), target = b.buffer(4096);
        vt::fill(source.bytes(), 3);
        qa.post(vt::SendWr::write({source.sge(0, 4096)}, vt::remote(target)).id(1));
        return vt::is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE) && vt::filled(target.bytes(), 3) ? 0
                                                                                              : 1;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

} // namespace
