// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// All that a program says to the kernel itself: commands, mappings, the order in which objects
/// end. Whatever it says, it harms its own objects only, and nothing is left when it has ended.
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <linux/if_packet.h>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl_cmds.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "lib/chance.h"
#include "lib/mutator.h"
#include "lib/rings.h"

using namespace hostile;

namespace {

// ---- commands ----

/// A life with every command that rox has, which takes no notice of what fails: its objects
/// may be gone, or be others.
class AnyLife {
public:
    AnyLife(ibv_context *context, const ibv_ah_attr &address, Chance &chance)
        : context_(context), address_(address), chance_(chance), memory_(1 << 16)
    {}

    void live()
    {
        queries();
        ibv_pd *pd = ibv_alloc_pd(context_);
        if (!pd)
            return;
        memory(pd);
        ibv_comp_channel *channel = ibv_create_comp_channel(context_);
        ibv_cq *cq = ibv_create_cq(context_, 64, nullptr, channel, 0);
        if (cq) {
            ibv_modify_cq_attr moderation{IBV_CQ_ATTR_MODERATE, {8, 100}};
            ibv_modify_cq(cq, &moderation);
            queues(pd, cq);
            ibv_resize_cq(cq, 200);
            ibv_destroy_cq(cq);
        }
        if (channel)
            ibv_destroy_comp_channel(channel);
        ibv_dealloc_pd(pd);
    }

private:
    void queries()
    {
        ibv_device_attr_ex device{};
        ibv_query_device_ex(context_, nullptr, &device);
        ibv_port_attr port{};
        ibv_query_port(context_, 1, &port);
        ibv_gid_entry gid{};
        ibv_query_gid_ex(context_, 1, 0, &gid, 0);
    }

    void memory(ibv_pd *pd)
    {
        for (int access : {vt::kAllAccess | IBV_ACCESS_MW_BIND, vt::kOnDemand}) {
            ibv_mr *mr = ibv_reg_mr(pd, memory_.data(), memory_.size(), access);
            if (!mr)
                continue;
            ibv_sge range{reinterpret_cast<std::uintptr_t>(memory_.data()), 8192, mr->lkey};
            ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1);
            ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, vt::kAllAccess);
            ibv_dereg_mr(mr);
        }
        if (ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2))
            ibv_dealloc_mw(mw);
        if (ibv_ah *ah = ibv_create_ah(pd, &address_))
            ibv_destroy_ah(ah);
    }

    void queues(ibv_pd *pd, ibv_cq *cq)
    {
        ibv_srq_init_attr srq_init{nullptr, {32, 2, 0}};
        ibv_srq *srq = ibv_create_srq(pd, &srq_init);
        if (srq) {
            ibv_srq_attr attr{64, 2, 8};
            ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT);
            ibv_query_srq(srq, &attr);
        }
        for (ibv_qp_type type : {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD})
            queue_pair(pd, cq, type == IBV_QPT_RC ? srq : nullptr, type);
        if (srq)
            ibv_destroy_srq(srq);
        xrc(pd, cq);
    }

    void queue_pair(ibv_pd *pd, ibv_cq *cq, ibv_srq *srq, ibv_qp_type type)
    {
        ibv_qp_init_attr init = vt::QpConfig{.type = type, .srq = srq}.attr(cq, cq);
        ibv_qp *qp = ibv_create_qp(pd, &init);
        if (!qp)
            return;
        vt::Params params;
        params.timeout = 8;
        params.retry_cnt = 1;
        for (vt::Transition step : {vt::init_transition(type, params),
                                    vt::rtr_transition(type, params, address_, qp->qp_num),
                                    vt::rts_transition(type, params)})
            ibv_modify_qp(qp, &step.attr, step.mask);
        ibv_qp_attr attr{};
        ibv_query_qp(qp, &attr, IBV_QP_STATE, &init);
        if (type == IBV_QPT_UD) {
            ibv_gid group{};
            group.raw[10] = group.raw[11] = 0xff;
            group.raw[12] = 239;
            ibv_attach_mcast(qp, &group, 0);
            ibv_detach_mcast(qp, &group, 0);
        } else {
            vt::SendWr wr = vt::SendWr::write({}, {0, 0});
            ibv_send_wr *bad = nullptr;
            ibv_post_send(qp, wr.raw(), &bad);
        }
        if (chance_.once_in(2)) {
            attr.qp_state = chance_.once_in(2) ? IBV_QPS_ERR : IBV_QPS_RESET;
            ibv_modify_qp(qp, &attr, IBV_QP_STATE);
        }
        ibv_destroy_qp(qp);
    }

    void xrc(ibv_pd *pd, ibv_cq *cq)
    {
        ibv_xrcd_init_attr domain_init{};
        domain_init.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
        domain_init.fd = -1;
        domain_init.oflags = O_CREAT;
        ibv_xrcd *domain = ibv_open_xrcd(context_, &domain_init);
        if (!domain)
            return;
        ibv_srq_init_attr_ex srq_init{};
        srq_init.attr = {32, 2, 0};
        srq_init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                             IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
        srq_init.srq_type = IBV_SRQT_XRC;
        srq_init.pd = pd;
        srq_init.xrcd = domain;
        srq_init.cq = cq;
        ibv_srq *srq = ibv_create_srq_ex(context_, &srq_init);
        ibv_qp_init_attr_ex target_init{};
        target_init.qp_type = IBV_QPT_XRC_RECV;
        target_init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        target_init.xrcd = domain;
        ibv_qp *target = ibv_create_qp_ex(context_, &target_init);
        if (target)
            ibv_destroy_qp(target);
        if (srq)
            ibv_destroy_srq(srq);
        ibv_close_xrcd(domain);
    }

    ibv_context *context_;
    ibv_ah_attr address_;
    Chance &chance_;
    vt::Memory memory_;
};

/// Has @p child ended? Leaves it to be waited for.
bool has_ended(pid_t child)
{
    siginfo_t what{};
    return waitid(P_PID, child, &what, WEXITED | WNOHANG | WNOWAIT) == 0 && what.si_pid == child;
}

class UverbsTest : public vt::ProcessTest {
protected:
    static bool enough(const MutatorCounts &counts)
    {
        return counts.seen > 100 && counts.mutated > 300 && counts.accepted > 5 &&
               counts.refused.size() > 3;
    }

    /// @param ended  is it over, with these counts?
    static void says_wrong_things(std::uint64_t stream,
                                  const std::function<bool(const MutatorCounts &)> &ended,
                                  MutatorCounts *total)
    {
        Chance chance(stream);
        vt::Context context(vt::device_a());
        ibv_ah_attr address = vt::address_of(context, context);
        mutate_commands(chance, 3);
        while (!ended(commands_so_far())) {
            AnyLife life(context.get(), address, chance);
            life.live();
        }
        *total = commands_as_they_are();
        context.close(); // also with objects that nobody knows of
    }
};

TEST_F(UverbsTest, CommandsThatAreWrongInAnyWay)
{
    pid_t child = vt::in_child([] {
        MutatorCounts counts;
        AttackTime time;
        says_wrong_things(
            20, [&](const MutatorCounts &so_far) { return time.over(enough(so_far)); }, &counts);
        std::printf("# seed %llu: %llu commands, %llu mutated, of which %llu were carried out;",
                    static_cast<unsigned long long>(seed()),
                    static_cast<unsigned long long>(counts.seen),
                    static_cast<unsigned long long>(counts.mutated),
                    static_cast<unsigned long long>(counts.accepted));
        for (auto [error, times] : counts.refused)
            std::printf(" %s %llu", strerrorname_np(error), static_cast<unsigned long long>(times));
        std::printf("\n");
        std::fflush(stdout);
        return enough(counts) ? 0 : 1;
    });
    vt::eventually([&] { return has_ended(child); }, AttackTime::longest());
    int status = vt::wait_for(child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(UverbsTest, KilledAmongTheCommandsOfSeveralThreads)
{
    Chance chance(21);
    for (int i = 0; i < 4; i++) {
        pid_t child = vt::in_child([i] {
            std::array<MutatorCounts, 2> counts;
            vt::Deadline end(vt::Millis(60000));
            auto ended = [&](const MutatorCounts &) { return end.passed(); };
            std::jthread other([&] { says_wrong_things(200 + i, ended, &counts[0]); });
            says_wrong_things(100 + i, ended, &counts[1]);
            return 1;
        });
        std::this_thread::sleep_for(vt::Millis(100 + chance.below(300)));
        vt::kill_child(child);
    }
}

/// Asks for a context as no library does: what the driver answers goes to @p response.
bool get_context(int fd, std::uint64_t response)
{
    constexpr std::size_t kSize = sizeof(ib_uverbs_ioctl_hdr) + 2 * sizeof(ib_uverbs_attr);
    alignas(ib_uverbs_ioctl_hdr) std::array<std::byte, kSize> request{};
    auto *header = reinterpret_cast<ib_uverbs_ioctl_hdr *>(request.data());
    header->length = kSize;
    header->object_id = UVERBS_OBJECT_DEVICE;
    header->method_id = UVERBS_METHOD_GET_CONTEXT;
    header->num_attrs = 2;
    header->driver_id = ROX_DRIVER_ID;
    std::uint32_t comp_vectors = 0;
    header->attrs[0].attr_id = UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS;
    header->attrs[0].len = sizeof(comp_vectors);
    header->attrs[0].data = reinterpret_cast<std::uintptr_t>(&comp_vectors);
    header->attrs[1].attr_id = UVERBS_ATTR_UHW_OUT;
    header->attrs[1].len = sizeof(rox_alloc_ucontext_resp);
    header->attrs[1].data = response;
    return ioctl(fd, RDMA_VERBS_IOCTL, header) == 0;
}

/// Those that the kernel keeps, also of processes that have ended.
long task_structs()
{
    std::ofstream("/sys/kernel/slab/task_struct/shrink") << 1 << std::flush; // KASAN keeps some
    std::ifstream caches("/proc/slabinfo");
    for (std::string line; std::getline(caches, line);) {
        long active = 0;
        if (std::sscanf(line.c_str(), "task_struct %ld", &active) == 1)
            return active;
    }
    vt::fail("no task_struct in /proc/slabinfo");
}

TEST_F(UverbsTest, RefusedContextKeepsNoTask)
{
    constexpr int kTries = 60;
    vt::Context context(vt::device_a());
    std::string path = std::string("/dev/infiniband/") + context.get()->device->dev_name;
    context.close();

    auto ask = [&](std::uint64_t response) {
        return vt::wait_for(vt::in_child([&] {
            int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
            if (fd < 0)
                return 3;
            return get_context(fd, response) ? 0 : errno == EFAULT ? 1 : 2;
        }));
    };
    rox_alloc_ucontext_resp response{};
    ASSERT_EQ(ask(reinterpret_cast<std::uintptr_t>(&response)), 0);
    long before = task_structs();
    for (int i = 0; i < kTries; i++)
        ASSERT_EQ(WEXITSTATUS(ask(8)), 1);
    EXPECT_TRUE(vt::eventually([&] { return task_structs() < before + kTries / 2; }))
        << before << " before, " << task_structs() << " now";
}

// ---- mappings ----

class MmapTest : public vt::ProcessTest {
protected:
    /// The mapping at @p base as /proc has it.
    static off_t offset_of(const Mapping &mapping)
    {
        std::ifstream maps("/proc/self/maps");
        for (std::string line; std::getline(maps, line);) {
            unsigned long start = 0, end = 0, offset = 0;
            char rights[5];
            if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx", &start, &end, rights, &offset) == 4 &&
                start == reinterpret_cast<std::uintptr_t>(mapping.base))
                return static_cast<off_t>(offset);
        }
        vt::fail("no such mapping");
    }

    void *map(std::size_t size, off_t offset, int rights = PROT_READ | PROT_WRITE,
              int flags = MAP_SHARED) const
    {
        return mmap(nullptr, size, rights, flags, end_->context.get()->cmd_fd, offset);
    }
    /// Are children to have that memory as well? As for other memory of the kernel's: Linux 7.3
    /// refuses it.
    static bool kept_for_children(void *memory, std::size_t size)
    {
        const bool kept = madvise(memory, size, MADV_DOFORK) == 0;
        EXPECT_EQ(kept ? 0 : errno, error_for_packets());
        return kept;
    }
    /// What MADV_DOFORK says to a mapped ring of a packet socket.
    static int error_for_packets()
    {
        const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
        const auto size = static_cast<unsigned>(vt::page_size());
        const tpacket_req ring{size, 1, size, 1};
        if (fd < 0 || setsockopt(fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof(ring)))
            vt::fail("ring of packets", errno);
        void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (memory == MAP_FAILED)
            vt::fail("mmap of packets", errno);
        const int error = madvise(memory, size, MADV_DOFORK) ? errno : 0;
        munmap(memory, size);
        close(fd);
        return error;
    }
    /// Is it refused? What is mapped all the same is unmapped.
    testing::AssertionResult refused(std::size_t size, off_t offset,
                                     int rights = PROT_READ | PROT_WRITE,
                                     int flags = MAP_SHARED) const
    {
        void *at = map(size, offset, rights, flags);
        if (at == MAP_FAILED)
            return testing::AssertionSuccess();
        munmap(at, size);
        return testing::AssertionFailure() << size << " bytes at " << offset << " were mapped";
    }
    void TearDown() override
    {
        cq_.reset();
        end_.reset();
        ProcessTest::TearDown();
    }

    /// So large that the CQ has a mapping of its own.
    static constexpr int kEntries = 8000;

    std::unique_ptr<vt::End> end_ = std::make_unique<vt::End>(vt::device_a());
    std::unique_ptr<vt::Cq> cq_;
    Mapping mapping_ = mapped_by(
        [this] { cq_ = std::make_unique<vt::Cq>(end_->context.get(), kEntries); });
    off_t offset_ = offset_of(mapping_);
};

TEST_F(MmapTest, OnlyWhatWasOffered)
{
    const std::size_t size = mapping_.size;
    void *again = map(size, offset_);
    ASSERT_NE(again, MAP_FAILED);
    munmap(again, size);
    for (std::size_t wrong :
         {size - 4096, size + 4096, 2 * size, std::size_t{4096}, std::size_t{1} << 32})
        EXPECT_TRUE(refused(wrong, offset_));
    EXPECT_TRUE(refused(size, offset_, PROT_READ | PROT_WRITE, MAP_PRIVATE));
    EXPECT_TRUE(refused(size, offset_ + 1));
    EXPECT_TRUE(refused(size - 4096, offset_ + 4096));
    unsigned tried = 0, others = 0;
    for (off_t page = 0; page < 2048; page++, tried++)
        others += page * 4096 != offset_ && refused(size, page * 4096) == false;
    Chance chance(30);
    for (int i = 0; i < 2000; i++, tried++)
        EXPECT_TRUE(refused(1 + chance.below(1 << 20),
                            static_cast<off_t>(chance.bits() >> chance.below(64) & ~0xfffull) |
                                (off_t{1} << 40)));
    /* Others of the same size are this program's own. */
    EXPECT_LE(others, 4u);
    std::printf("# %u offsets\n", tried);
}

TEST_F(MmapTest, NobodyMapsWhatIsAnothers)
{
    pid_t child = vt::in_child([this] {
        vt::Context mine(vt::device_a());
        int bad = 0;
        for (off_t page = 0; page < 64; page++)
            bad += mmap(nullptr, mapping_.size, PROT_READ, MAP_SHARED, mine.get()->cmd_fd,
                        page * 4096) != MAP_FAILED;
        return bad;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

TEST_F(MmapTest, ChangesToAMapping)
{
    const std::size_t size = mapping_.size;
    auto *at = static_cast<std::uint8_t *>(map(size, offset_));
    ASSERT_NE(at, MAP_FAILED);
    EXPECT_EQ(mremap(at, size, 2 * size, MREMAP_MAYMOVE), MAP_FAILED);
    /* Moved, it is the same ring. */
    auto *moved = static_cast<std::uint8_t *>(
        mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    at = static_cast<std::uint8_t *>(mremap(at, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, moved));
    ASSERT_EQ(at, moved);
    at[size - 1] = 0x5a;
    EXPECT_EQ(mapping_.base[size - 1], 0x5a);
    /* In pieces, and read-only. */
    EXPECT_EQ(munmap(at, 4096), 0);
    EXPECT_EQ(mprotect(at + 4096, 4096, PROT_READ), 0);
    kept_for_children(at + 4096, size - 4096);
    EXPECT_EQ(munmap(at + 4096, size - 4096), 0);
    EXPECT_EQ(mapping_.base[size - 1], 0x5a) << "the first mapping is as it was";
    /* Given back and touched: the program's own end, whatever that is. */
    pid_t child = vt::in_child([&] {
        auto *mine = static_cast<volatile std::uint8_t *>(map(size, offset_));
        madvise(const_cast<std::uint8_t *>(mine), size, MADV_DONTNEED);
        return mine[0] == 1;
    });
    vt::wait_for(child);
}

TEST_F(MmapTest, MemoryOfADestroyedObjectIsNobodyElses)
{
    const std::size_t size = mapping_.size;
    auto *old = static_cast<std::uint8_t *>(map(size, offset_));
    ASSERT_NE(old, MAP_FAILED);
    ASSERT_EQ(cq_->destroy(), 0);
    EXPECT_TRUE(refused(size, offset_)) << "it is offered no more";
    std::memset(old, 0xee, size);
    std::vector<vt::Cq> others;
    for (int i = 0; i < 16; i++)
        others.emplace_back(end_->context.get(), kEntries);
    vt::Qp qp(end_->pd.get(), others[0].get(), others[1].get());
    std::memset(old, 0xdd, size);
    for (vt::Cq &cq : others)
        EXPECT_TRUE(cq.quiet(vt::Millis(1)));
    EXPECT_TRUE(vt::all({old, size}, 0xdd)) << "nobody else has it";
    /* No child has it, unless the program insists, and the kernel lets it. */
    const bool kept = kept_for_children(old, size);
    pid_t child = vt::in_child([&] {
        std::memset(old, 0x11, size);
        return 0;
    });
    if (kept) {
        EXPECT_TRUE(vt::ends_with(child, 0));
    } else {
        const int status = vt::wait_for(child);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
    }
    EXPECT_EQ(munmap(old, size), 0);
}

/// Objects of one program share memory, so it may spoil its own. What it gets later is empty
/// nevertheless, and nobody else ever gets it.
TEST_F(MmapTest, MemoryOfASlabIsOfOneProgram)
{
    constexpr std::size_t kMany = 40;
    std::vector<std::unique_ptr<vt::Cq>> cqs(kMany);
    std::vector<Mapping> places;
    for (auto &cq : cqs)
        places.push_back(
            mapped_by([&] { cq = std::make_unique<vt::Cq>(end_->context.get(), 40); }));
    const auto ring_size = static_cast<std::ptrdiff_t>(cq_ring_of(places[0], 64).size());
    for (std::size_t i = 0; i < kMany; i++)
        for (std::size_t k = 0; k < i; k++)
            ASSERT_GE(std::abs(places[i].base - places[k].base), ring_size);
    // The last ones are in one slab. The one between writes over all that is free.
    Mapping &place = places[kMany - 2];
    cqs[kMany - 2].reset();
    std::memset(place.base, 0xee, static_cast<std::size_t>(ring_size));
    Mapping again = mapped_by(
        [&] { cqs[kMany - 2] = std::make_unique<vt::Cq>(end_->context.get(), 40); });
    EXPECT_EQ(again.base, place.base) << "the place is used again";
    EXPECT_TRUE(vt::all({again.base, static_cast<std::size_t>(ring_size)}, 0));
    for (auto &cq : cqs)
        EXPECT_TRUE(cq->quiet(vt::Millis(0)));
    std::memset(place.base, 0xee, static_cast<std::size_t>(ring_size));
    pid_t child = vt::in_child([] {
        vt::End other(vt::device_a());
        int bad = 0;
        for (int i = 0; i < 40; i++) {
            std::unique_ptr<vt::Cq> cq;
            Mapping mine = mapped_by(
                [&] { cq = std::make_unique<vt::Cq>(other.context.get(), 40); });
            bad += !vt::all({mine.base, mine.size}, 0);
        }
        return bad;
    });
    EXPECT_TRUE(vt::ends_with(child, 0));
}

// ---- the order in which objects end ----

/// Objects of one connection, which any thread takes and destroys or puts back.
class Shared {
public:
    explicit Shared(vt::End &end) : end_(end), memory_(65536) {}

    void create(Chance &chance)
    {
        ibv_cq *cq = ibv_create_cq(end_.context.get(), 64, nullptr, nullptr, 0);
        if (!cq)
            return;
        ibv_qp_init_attr init = vt::QpConfig{.type = IBV_QPT_RC}.attr(cq, cq);
        ibv_qp *qp = ibv_create_qp(end_.pd.get(), &init);
        ibv_mr *mr = ibv_reg_mr(end_.pd.get(), memory_.data(), memory_.size(), vt::kAllAccess);
        if (qp && mr)
            send(qp, mr, chance);
        put(cqs_, cq, [](ibv_cq *one) { return ibv_destroy_cq(one); });
        put(qps_, qp, [](ibv_qp *one) { return ibv_destroy_qp(one); });
        put(mrs_, mr, [](ibv_mr *one) { return ibv_dereg_mr(one); });
    }

    /// One of them ends, if nobody needs it any more.
    void destroy_any(Chance &chance)
    {
        switch (chance.below(3)) {
        case 0:
            end_one(cqs_[chance.below(kSlots)], [](ibv_cq *one) { return ibv_destroy_cq(one); });
            break;
        case 1:
            end_one(qps_[chance.below(kSlots)], [](ibv_qp *one) { return ibv_destroy_qp(one); });
            break;
        default: end_one(mrs_[chance.below(kSlots)], [](ibv_mr *one) { return ibv_dereg_mr(one); });
        }
    }

    /// All that are left, as they must be able to.
    void finish()
    {
        for (auto &slot : qps_)
            end_one(slot, [](ibv_qp *one) { return ibv_destroy_qp(one); });
        for (auto &slot : cqs_)
            end_one(slot, [](ibv_cq *one) { return ibv_destroy_cq(one); });
        for (auto &slot : mrs_)
            end_one(slot, [](ibv_mr *one) { return ibv_dereg_mr(one); });
        EXPECT_EQ(busy_at_the_end_, 0u);
    }

    std::atomic<std::uint64_t> ended{0}, busy{0}, odd{0};

private:
    static constexpr std::size_t kSlots = 8;
    template <typename T>
    using Slots = std::array<std::atomic<T *>, kSlots>;

    /// To itself, with much under way.
    void send(ibv_qp *qp, ibv_mr *mr, Chance &chance)
    {
        vt::Params params;
        params.peer_psn = params.psn;
        for (vt::Transition step : {vt::init_transition(IBV_QPT_RC, params),
                                    vt::rtr_transition(IBV_QPT_RC, params, address_, qp->qp_num),
                                    vt::rts_transition(IBV_QPT_RC, params)})
            vt::check(ibv_modify_qp(qp, &step.attr, step.mask), "modify");
        auto at = reinterpret_cast<std::uintptr_t>(memory_.data());
        ibv_sge sge{at, 30000, mr->lkey};
        for (std::uint64_t n = 1 + chance.below(8); n; n--) {
            vt::SendWr wr = chance.once_in(2) ? vt::SendWr::write({sge}, {at + 30000, mr->rkey})
                                              : vt::SendWr::read({sge}, {at + 30000, mr->rkey});
            ibv_send_wr *bad = nullptr;
            ibv_post_send(qp, wr.raw(), &bad);
        }
    }

    template <typename T, typename Destroy>
    void put(Slots<T> &slots, T *object, Destroy destroy)
    {
        std::size_t at = next_++ % kSlots;
        T *old = slots[at].exchange(object);
        std::atomic<T *> alone{old};
        end_one(alone, destroy);
        if (T *left = alone.load())
            keep(left);
    }
    void keep(ibv_cq *cq)
    {
        /* It is in use: with its QP it ends at another time. */
        for (auto &slot : cqs_) {
            ibv_cq *none = nullptr;
            if (slot.compare_exchange_strong(none, cq))
                return;
        }
        std::lock_guard guard(left_lock_);
        left_.push_back(cq);
    }
    void keep(ibv_qp *) { busy_at_the_end_++; }
    void keep(ibv_mr *) { busy_at_the_end_++; }

    /* A program must not end a CQ while it is in ibv_destroy_qp() for one of its QPs. */
    template <typename Destroy>
    int destroy_alone(ibv_cq *cq, Destroy destroy)
    {
        std::unique_lock guard(cq_lock_);
        return destroy(cq);
    }
    template <typename T, typename Destroy>
    int destroy_alone(T *object, Destroy destroy)
    {
        std::shared_lock guard(cq_lock_);
        return destroy(object);
    }

    template <typename T, typename Destroy>
    void end_one(std::atomic<T *> &slot, Destroy destroy)
    {
        T *object = slot.exchange(nullptr);
        if (!object)
            return;
        int error = destroy_alone(object, destroy);
        if (!error) {
            ended++;
            return;
        }
        (error == EBUSY ? busy : odd)++;
        T *none = nullptr;
        if (!slot.compare_exchange_strong(none, object))
            keep(object);
    }

public:
    /// CQs for which there was no place.
    void finish_left()
    {
        for (ibv_cq *cq : left_)
            EXPECT_EQ(ibv_destroy_cq(cq), 0);
    }

private:
    vt::End &end_;
    ibv_ah_attr address_ = vt::address_of(end_.context, end_.context);
    vt::Memory memory_;
    Slots<ibv_cq> cqs_{};
    Slots<ibv_qp> qps_{};
    Slots<ibv_mr> mrs_{};
    std::atomic<std::size_t> next_{0};
    std::atomic<unsigned> busy_at_the_end_{0};
    std::mutex left_lock_;
    std::shared_mutex cq_lock_;
    std::vector<ibv_cq *> left_;
};

using OrderTest = vt::ProcessTest;

TEST_F(OrderTest, AnyOrderFromSeveralThreadsWithTrafficOn)
{
    vt::End end(vt::device_a());
    Shared shared(end);
    {
        std::vector<std::jthread> threads;
        for (std::uint64_t n = 0; n < 4; n++)
            threads.emplace_back([&, n] {
                Chance chance(40 + n);
                AttackTime time;
                while (!time.over(shared.ended > 50 && shared.busy > 5)) {
                    if (chance.once_in(4))
                        shared.create(chance);
                    else
                        shared.destroy_any(chance);
                }
            });
    }
    shared.finish();
    shared.finish_left();
    std::printf("# seed %llu: %llu objects ended, %llu times too early\n",
                static_cast<unsigned long long>(seed()),
                static_cast<unsigned long long>(shared.ended),
                static_cast<unsigned long long>(shared.busy));
    EXPECT_EQ(shared.odd, 0u) << "an error other than EBUSY";
    EXPECT_GT(shared.ended, 50u);
    EXPECT_GT(shared.busy, 5u);
}

TEST_F(OrderTest, ProgramThatStartsAnotherOneWithItsDevice)
{
    pid_t child = vt::in_child([] {
        auto *end = new vt::End(vt::device_a());
        new vt::Qp(end->pd.get(), end->send_cq.get(), end->recv_cq.get());
        int fd = end->context.get()->cmd_fd;
        fcntl(fd, F_SETFD, 0); // goes to the next program
        execl("/bin/sh", "sh", "-c", "sleep 0.2; exit 7", nullptr);
        return 1;
    });
    EXPECT_TRUE(vt::ends_with(child, 7));
}

} // namespace
