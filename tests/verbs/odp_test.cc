// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// On-demand paging: pages that the process has never touched, loses, gives away and gets
/// back, while both sides of every operation use them.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lib/pair.h"
#include "lib/process.h"

using namespace vt;

namespace {

const auto kPage = static_cast<std::uint32_t>(page_size());
/* Not a multiple of the 256 KiB that are fetched at once, nor of what a chunk covers. */
const std::uint32_t kSize = 150 * kPage;

/// What /proc/self/pagemap says of a page.
struct PageState {
    bool present;
    bool swapped;
};

PageState page_state(const void *address)
{
    std::uint64_t entry = 0;
    int fd = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    auto offset = static_cast<off_t>(reinterpret_cast<std::uintptr_t>(address) / kPage *
                                     sizeof(entry));

    if (fd < 0 || ::pread(fd, &entry, sizeof(entry), offset) != sizeof(entry))
        fail("/proc/self/pagemap", errno);
    ::close(fd);
    return {(entry >> 63 & 1) != 0, (entry >> 62 & 1) != 0};
}

std::size_t pages_present(ConstBytes bytes)
{
    std::size_t count = 0;
    for (std::size_t at = 0; at < bytes.size(); at += kPage)
        count += page_state(bytes.data() + at).present;
    return count;
}

bool has_swap()
{
    char line[256];
    int lines = 0;
    FILE *file = std::fopen("/proc/swaps", "r");
    while (file != nullptr && std::fgets(line, sizeof(line), file) != nullptr)
        lines++;
    if (file != nullptr)
        std::fclose(file);
    return lines > 1;
}

/// Memory that is not mapped, until the end of its life: others may not move in meanwhile, so
/// nothing is to be created then.
class Hole {
public:
    explicit Hole(Bytes bytes) : bytes_(bytes)
    {
        check(::munmap(bytes.data(), bytes.size()), "munmap");
    }
    Hole(const Hole &) = delete;
    Hole &operator=(const Hole &) = delete;
    ~Hole()
    {
        EXPECT_EQ(::mmap(bytes_.data(), bytes_.size(), PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
                  bytes_.data())
            << "somebody has moved in";
    }

private:
    Bytes bytes_;
};

class OdpCore : public PairTest {
protected:
    void SetUp() override { start({}, params()); }

    /// A page fault must not cost the peer a retry: there are none for RNR.
    static Params params()
    {
        Params params;
        params.rnr_retry = 0;
        return params;
    }

    ibv_wc do_write(const Buffer &source, const Buffer &target, std::size_t length,
                    std::size_t offset = 0)
    {
        a.qp->post(SendWr::write({source.sge(offset, length)}, vt::remote(target, offset)).id(1));
        return a.send_cq.one();
    }
    ibv_wc do_read(const Buffer &target, const Buffer &source, std::size_t length)
    {
        a.qp->post(SendWr::read({target.sge(0, length)}, vt::remote(source)).id(1));
        return a.send_cq.one();
    }
    void reconnect()
    {
        make();
        connect(params());
    }
    void expect_write(const Buffer &source, const Buffer &target, std::uint64_t seed)
    {
        fill(source.bytes(), seed);
        ASSERT_TRUE(is(do_write(source, target, source.size()), 1, IBV_WC_RDMA_WRITE));
        ASSERT_TRUE(filled(target.bytes().first(source.size()), seed));
    }

    Buffer pinned = a.buffer(kSize);
    Buffer on_demand = b.buffer(kSize, kOnDemand);
};

TEST_F(OdpCore, CapabilitiesAreThoseTestedHere)
{
    ibv_device_attr_ex attr = {};
    ASSERT_EQ(ibv_query_device_ex(a.context.get(), nullptr, &attr), 0);
    const std::uint32_t both = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV |
                               IBV_ODP_SUPPORT_SRQ_RECV;
    EXPECT_EQ(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.rc_odp_caps,
              both | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.uc_odp_caps, both | IBV_ODP_SUPPORT_WRITE);
    EXPECT_EQ(attr.odp_caps.per_transport_caps.ud_odp_caps, both);
    EXPECT_EQ(attr.xrc_odp_caps, attr.odp_caps.per_transport_caps.rc_odp_caps);
}

TEST_F(OdpCore, RegistrationTouchesNothing)
{
    EXPECT_EQ(pages_present(on_demand.bytes()), 0u);
}

TEST_F(OdpCore, WriteFillsPagesThatWereNeverTouched)
{
    expect_write(pinned, on_demand, 1);
    expect_write(pinned, on_demand, 2);
}

TEST_F(OdpCore, ReadOfPagesThatWereNeverTouchedGivesZeros)
{
    fill(pinned.bytes(), 1);
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(all(pinned.bytes(), 0));
}

TEST_F(OdpCore, WriteAfterReadDoesNotWriteToTheZeroPage)
{
    Buffer other = b.buffer(kSize, kOnDemand);
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    expect_write(pinned, on_demand, 3);
    EXPECT_TRUE(all(other.bytes(), 0));
}

TEST_F(OdpCore, LocalSourceAndTarget)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    Buffer back = a.buffer(kSize, kOnDemand);
    expect_write(local, on_demand, 4);
    EXPECT_TRUE(is(do_read(back, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(back.bytes(), 4));
}

TEST_F(OdpCore, SourceThatWasNeverTouchedSendsZeros)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    fill(on_demand.bytes(), 1);
    EXPECT_TRUE(is(do_write(local, on_demand, kSize), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(all(on_demand.bytes(), 0));
}

TEST_F(OdpCore, SendAndReceiveOverManyElements)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    fill(local.bytes(), 5);
    b.qp->post_recv(7, {on_demand.sge(10, 5000), on_demand.sge(200000, 300000)});
    a.qp->post(SendWr::send({local.sge(1, 100000), local.sge(300000, 200000)}).id(8));
    EXPECT_TRUE(is(a.send_cq.one(), 8, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 7, IBV_WC_RECV));
    EXPECT_TRUE(same(on_demand.bytes(10, 5000), local.bytes(1, 5000)));
    EXPECT_TRUE(same(on_demand.bytes(200000, 95000), local.bytes(5001, 95000)));
    EXPECT_TRUE(same(on_demand.bytes(295000, 200000), local.bytes(300000, 200000)));
    EXPECT_TRUE(all(on_demand.bytes(495000, kSize - 495000), 0));
}

TEST_F(OdpCore, AtomicsOnPagesThatWereNeverTouched)
{
    Buffer result = a.buffer(2 * kPage, kOnDemand);
    a.qp->post(SendWr::fetch_add(result.sge(0, 8), vt::remote(on_demand, 5 * kPage), 3).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_FETCH_ADD));
    a.qp->post(
        SendWr::compare_swap(result.sge(kPage, 8), vt::remote(on_demand, 5 * kPage), 3, 9).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_COMP_SWAP));
    EXPECT_EQ(result.word(0), 0u);
    EXPECT_EQ(result.word(kPage), 3u);
    EXPECT_EQ(on_demand.word(5 * kPage), 9u);
}

TEST_F(OdpCore, SharedReceiveQueue)
{
    Srq srq(b.pd.get());
    make({}, {.srq = srq.get()});
    connect(params());
    srq.post(7, {on_demand.sge(0, kSize)});
    fill(pinned.bytes(), 6);
    a.qp->post(SendWr::send({pinned.sge(0, kSize)}).id(8));
    EXPECT_TRUE(is(a.send_cq.one(), 8, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 7, IBV_WC_RECV));
    EXPECT_TRUE(filled(on_demand.bytes(), 6));
    b.qp.reset();
}

TEST_F(OdpCore, UnreliableConnection)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    start({.type = IBV_QPT_UC}, params());
    b.qp->post_recv(7, {on_demand.sge(0, kSize)});
    fill(local.bytes(), 7);
    a.qp->post(SendWr::send({local.sge(0, 100000)}).id(8));
    EXPECT_TRUE(is(a.send_cq.one(), 8, IBV_WC_SEND));
    EXPECT_TRUE(is(b.recv_cq.one(), 7, IBV_WC_RECV));
    EXPECT_TRUE(same(on_demand.bytes(0, 100000), local.bytes(0, 100000)));
}

TEST_F(OdpCore, Datagrams)
{
    Buffer local = a.buffer(kPage, kOnDemand);
    start({.type = IBV_QPT_UD}, params());
    Ah ah = PairTest::ah(a, b);
    fill(local.bytes(), 8);
    /* The GRH on one page, the payload on the next. */
    b.qp->post_recv(7, {on_demand.sge(kPage - 40, 40 + 1024)});
    a.qp->post(SendWr::send({local.sge(0, 1024)}).to(ah.get(), b.qp->number(), 0x11111111).id(8));
    EXPECT_TRUE(is(a.send_cq.one(), 8, IBV_WC_SEND));
    ibv_wc wc = b.recv_cq.one();
    EXPECT_TRUE(is(wc, 7, IBV_WC_RECV));
    EXPECT_EQ(wc.byte_len, 40u + 1024u);
    EXPECT_TRUE(same(on_demand.bytes(kPage, 1024), local.bytes(0, 1024)));
}

/* ---- what the process does to its memory ---- */

TEST_F(OdpCore, PagesThatAreGivenUpComeBackEmpty)
{
    expect_write(pinned, on_demand, 1);
    ASSERT_EQ(::madvise(on_demand.data(), kSize, MADV_DONTNEED), 0);
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(all(pinned.bytes(), 0));
    expect_write(pinned, on_demand, 2);
}

TEST_F(OdpCore, UnmappedTargetOfAWriteIsARemoteAccessError)
{
    expect_write(pinned, on_demand, 1);
    Hole hole(on_demand.bytes(50 * kPage, kPage));
    EXPECT_TRUE(is_error(do_write(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(OdpCore, UnmappedSourceOfAReadIsARemoteAccessError)
{
    Hole hole(on_demand.bytes(50 * kPage, kPage));
    EXPECT_TRUE(is(do_read(pinned, on_demand, 50 * kPage), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(is_error(do_read(pinned, on_demand, 50 * kPage + 1), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(OdpCore, UnmappedTargetOfAnAtomicIsARemoteAccessError)
{
    Hole hole(on_demand.bytes(50 * kPage, kPage));
    a.qp->post(SendWr::fetch_add(pinned.sge(0, 8), vt::remote(on_demand, 50 * kPage), 1).id(2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(OdpCore, UnmappedLocalMemoryIsALocalProtectionError)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    expect_write(local, on_demand, 1);
    {
        Hole hole(local.bytes());
        EXPECT_TRUE(is_error(do_write(local, on_demand, kSize), 1, IBV_WC_LOC_PROT_ERR));
    }
    reconnect();
    {
        Hole hole(local.bytes());
        EXPECT_TRUE(is_error(do_read(local, on_demand, kSize), 1, IBV_WC_LOC_PROT_ERR));
    }
    reconnect();
    {
        Hole hole(local.bytes());
        a.qp->post(SendWr::fetch_add(local.sge(0, 8), vt::remote(on_demand), 1).id(2));
        EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_LOC_PROT_ERR));
    }
    EXPECT_TRUE(filled(on_demand.bytes(), 1));
}

TEST_F(OdpCore, UnmappedReceiveBufferIsALocalProtectionError)
{
    Hole hole(on_demand.bytes());
    b.qp->post_recv(7, {on_demand.sge(0, kSize)});
    a.qp->post(SendWr::send({pinned.sge(0, 100)}).id(8));
    EXPECT_TRUE(is_error(a.send_cq.one(), 8, IBV_WC_REM_OP_ERR));
    EXPECT_TRUE(is_error(b.recv_cq.one(), 7, IBV_WC_LOC_PROT_ERR));
}

TEST_F(OdpCore, OtherMemoryAtTheSameAddressIsUsed)
{
    expect_write(pinned, on_demand, 1);
    ASSERT_EQ(::mmap(on_demand.data(), kSize, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
              on_demand.data());
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(all(pinned.bytes(), 0));
    expect_write(pinned, on_demand, 2);
}

TEST_F(OdpCore, MemoryThatMovesAwayIsNotFollowed)
{
    expect_write(pinned, on_demand, 1);
    Memory moved(kSize);
    ASSERT_EQ(::mremap(on_demand.data(), kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, moved.data()),
              moved.data());
    fill(pinned.bytes(), 2);
    EXPECT_TRUE(is_error(do_write(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(filled(moved.bytes(), 1));
    ASSERT_EQ(::mmap(on_demand.data(), kSize, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0),
              on_demand.data());
}

TEST_F(OdpCore, WriteProtectedPagesMayOnlyBeRead)
{
    expect_write(pinned, on_demand, 1);
    ASSERT_EQ(::mprotect(on_demand.data(), kSize, PROT_READ), 0);
    std::memset(pinned.data(), 0, kSize);
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(pinned.bytes(), 1));
    fill(pinned.bytes(), 2);
    EXPECT_TRUE(is_error(do_write(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(filled(on_demand.bytes(), 1));
}

TEST_F(OdpCore, TheChildOfAForkKeepsWhatItHad)
{
    int go[2];
    expect_write(pinned, on_demand, 1);
    ASSERT_EQ(::pipe(go), 0);
    pid_t child = in_child([&] {
        char c = 0;
        return ::read(go[0], &c, 1) == 1 && filled(on_demand.bytes(), 1) ? 0 : 1;
    });
    expect_write(pinned, on_demand, 2);
    ASSERT_EQ(::write(go[1], "x", 1), 1);
    EXPECT_TRUE(ends_with(child, 0)) << "the child's memory has changed";
    EXPECT_TRUE(filled(on_demand.bytes(), 2));
    ::close(go[0]);
    ::close(go[1]);
}

TEST_F(OdpCore, FilesThatShrinkAndGrow)
{
    int fd = ::memfd_create("rox", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    ASSERT_EQ(
        ::mmap(on_demand.data(), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        on_demand.data());
    expect_write(pinned, on_demand, 1);
    std::vector<std::uint8_t> file(kSize);
    ASSERT_EQ(::pread(fd, file.data(), kSize, 0), static_cast<ssize_t>(kSize));
    EXPECT_TRUE(filled(file, 1));
    ASSERT_EQ(::ftruncate(fd, 10 * kPage), 0);
    fill(pinned.bytes(), 2);
    EXPECT_TRUE(is_error(do_write(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
    reconnect();
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(all(pinned.bytes(10 * kPage, kSize - 10 * kPage), 0));
    expect_write(pinned, on_demand, 3);
    ::close(fd);
}

TEST_F(OdpCore, MemoryThatTheKernelMustNotTouchIsRefused)
{
    int fd = static_cast<int>(::syscall(SYS_memfd_secret, 0));
    if (fd < 0) {
        EXPECT_EQ(errno, ENOSYS) << "6.1 has it turned off";
        return;
    }
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    ASSERT_EQ(
        ::mmap(on_demand.data(), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        on_demand.data());
    on_demand.data()[0] = 1;
    EXPECT_TRUE(is_error(do_write(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
    reconnect();
    EXPECT_TRUE(is_error(do_read(pinned, on_demand, kSize), 1, IBV_WC_REM_ACCESS_ERR));
    ::close(fd);
}

TEST_F(OdpCore, WhatWasWrittenSurvivesSwapping)
{
    ASSERT_TRUE(has_swap()) << "tests/verbs/run makes some";
    for (std::uint64_t seed = 1; seed < 4; seed++) {
        expect_write(pinned, on_demand, seed);
        ASSERT_EQ(::madvise(on_demand.data(), kSize, MADV_PAGEOUT), 0);
        EXPECT_TRUE(page_state(on_demand.data() + 20 * kPage).swapped);
        std::memset(pinned.data(), 0, kSize);
        EXPECT_TRUE(is(do_read(pinned, on_demand, kSize), 1, IBV_WC_RDMA_READ));
        EXPECT_TRUE(filled(pinned.bytes(), seed));
        /* From swap, clean; written to by nobody but the device; and out again. */
        pinned.data()[0] ^= 1;
        EXPECT_TRUE(is(do_write(pinned, on_demand, kPage), 1, IBV_WC_RDMA_WRITE));
        ASSERT_EQ(::madvise(on_demand.data(), kSize, MADV_PAGEOUT), 0);
        EXPECT_TRUE(same(on_demand.bytes(0, kSize), pinned.bytes(0, kSize)));
    }
}

/* ---- under traffic ---- */

/// Calls @p harm again and again from a thread while @p traffic runs. Between two of them there is
/// time in which a page that was brought back can be used: else nothing need ever get through.
void with(const std::function<void(unsigned)> &harm, const std::function<void()> &traffic)
{
    std::jthread thread([&](const std::stop_token &stop) {
        for (unsigned i = 0; !stop.stop_requested(); i++) {
            harm(i);
            std::this_thread::sleep_for(50us);
        }
    });
    traffic();
}

TEST_F(OdpCore, TargetsThatAreTakenAwayUnderWrites)
{
    fill(pinned.bytes(), 1);
    with(
        [&](unsigned i) {
            ::madvise(on_demand.data() + i * 7 % 140 * kPage, 10 * kPage, MADV_DONTNEED);
        },
        [&] {
            for (int i = 0; i < 20; i++)
                ASSERT_TRUE(is(do_write(pinned, on_demand, kSize), 1, IBV_WC_RDMA_WRITE));
        });
    /* A page that was taken away has what was written after that: all, its end, or nothing. */
    for (std::size_t at = 0; at < kSize; at += kPage) {
        std::size_t gone = kPage;
        while (gone > 0 && on_demand.bytes()[at + gone - 1] == pinned.bytes()[at + gone - 1])
            gone--;
        ASSERT_TRUE(all(on_demand.bytes(at, gone), 0)) << "of the page at " << at;
    }
    expect_write(pinned, on_demand, 2);
}

TEST_F(OdpCore, PlacesThatAreTakenAwayUnderReads)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    Buffer source = b.buffer(kSize);
    fill(source.bytes(), 1);
    with(
        [&](unsigned i) {
            ::madvise(local.data() + i * 7 % 140 * kPage, 10 * kPage, MADV_DONTNEED);
        },
        [&] {
            for (int i = 0; i < 20; i++)
                ASSERT_TRUE(is(do_read(local, source, kSize), 1, IBV_WC_RDMA_READ));
        });
    EXPECT_TRUE(is(do_read(local, source, kSize), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(), 1));
}

/* A file's pages leave the page table and keep what is in them. */
TEST_F(OdpCore, DataIsWholeHoweverOftenPagesLeave)
{
    Buffer local = a.buffer(kSize, kOnDemand);
    int fd = ::memfd_create("rox", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, 2 * kSize), 0);
    ASSERT_EQ(
        ::mmap(on_demand.data(), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        on_demand.data());
    ASSERT_EQ(
        ::mmap(local.data(), kSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, kSize),
        local.data());
    with(
        [&](unsigned i) {
            ::madvise(on_demand.data() + i * 7 % 140 * kPage, 10 * kPage, MADV_DONTNEED);
            ::madvise(local.data() + i * 11 % 140 * kPage, 10 * kPage, MADV_DONTNEED);
        },
        [&] {
            for (std::uint64_t seed = 1; seed < 10; seed++) {
                ASSERT_NO_FATAL_FAILURE(expect_write(local, on_demand, seed));
                std::memset(local.data(), 0, kSize);
                ASSERT_TRUE(is(do_read(local, on_demand, kSize), 1, IBV_WC_RDMA_READ));
                ASSERT_TRUE(filled(local.bytes(), seed));
            }
        });
    ::close(fd);
}

TEST_F(OdpCore, AtomicsCountRightHoweverOftenThePageLeaves)
{
    Buffer result = a.buffer(kPage, kOnDemand);
    int fd = ::memfd_create("rox", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, kPage), 0);
    ASSERT_EQ(
        ::mmap(on_demand.data(), kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0),
        on_demand.data());
    with(
        [&](unsigned) {
            ::madvise(on_demand.data(), kPage, MADV_DONTNEED);
            ::madvise(result.data(), kPage, MADV_DONTNEED);
        },
        [&] {
            for (int i = 0; i < 300; i++) {
                a.qp->post(SendWr::fetch_add(result.sge(0, 8), vt::remote(on_demand), 1).id(1));
                ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_FETCH_ADD));
            }
        });
    EXPECT_EQ(on_demand.word(0), 300u);
    ::close(fd);
}

TEST_F(OdpCore, RegionsThatEndUnderTraffic)
{
    for (int i = 0; i < 10; i++) {
        Buffer target = b.buffer(kSize, kOnDemand);
        a.qp->post(SendWr::write({pinned.sge(0, kSize)}, vt::remote(target)).id(1));
        target.mr().reset();
        ibv_wc wc = a.send_cq.one();
        EXPECT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_REM_ACCESS_ERR);
        if (wc.status != IBV_WC_SUCCESS)
            reconnect();
    }
}

/* ---- all of the address space ---- */

class OdpImplicitCore : public OdpCore {
protected:
    ibv_wc write_to(std::uint64_t address, std::size_t length)
    {
        a.qp->post(SendWr::write({pinned.sge(0, length)}, {address, everything->rkey}).id(1));
        return a.send_cq.one();
    }
    static std::uint64_t number(const void *pointer)
    {
        return reinterpret_cast<std::uintptr_t>(pointer);
    }

    MrHandle everything = reg_mr(b.pd.get(), nullptr, SIZE_MAX, kOnDemand);
};

TEST_F(OdpImplicitCore, ReachesWhatIsMappedLater)
{
    fill(pinned.bytes(), 1);
    Memory later(kSize);
    EXPECT_TRUE(is(write_to(number(later.data()), kSize), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(later.bytes(), 1));
    std::uint8_t on_stack[100] = {};
    EXPECT_TRUE(is(write_to(number(on_stack), sizeof(on_stack)), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(same(on_stack, pinned.bytes(0, sizeof(on_stack))));
}

TEST_F(OdpImplicitCore, WorksAsALocalKey)
{
    MrHandle mine = reg_mr(a.pd.get(), nullptr, SIZE_MAX, kOnDemand);
    Memory memory(kSize);
    fill(memory.bytes(), 2);
    ibv_sge sge = {number(memory.data()), kSize, mine->lkey};
    a.qp->post(SendWr::write({sge}, vt::remote(on_demand)).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(on_demand.bytes(), 2));
}

TEST_F(OdpImplicitCore, WhatIsNotMappedIsARemoteAccessError)
{
    Memory gone(kSize);
    {
        Hole hole(gone.bytes());
        EXPECT_TRUE(is_error(write_to(number(gone.data()), 8), 1, IBV_WC_REM_ACCESS_ERR));
    }
    for (std::uint64_t address : {0ULL, 0x1000ULL, 0x00007ffffffff000ULL, 0x8000000000000000ULL,
                                  0xffff888000000000ULL, ~0ULL - 8192}) {
        reconnect();
        EXPECT_TRUE(is_error(write_to(address, 8), 1, IBV_WC_REM_ACCESS_ERR)) << address;
    }
}

TEST_F(OdpImplicitCore, CodeMayBeReadAndNotWritten)
{
    auto code = number(reinterpret_cast<const void *>(&ibv_get_device_list));
    EXPECT_TRUE(is_error(write_to(code, 8), 1, IBV_WC_REM_ACCESS_ERR));
    reconnect();
    a.qp->post(SendWr::read({pinned.sge(0, 64)}, {code, everything->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_READ));
    EXPECT_EQ(std::memcmp(pinned.data(), reinterpret_cast<const void *>(code), 64), 0);
}

TEST_F(OdpImplicitCore, RightsAreThoseOfTheRegion)
{
    everything = reg_mr(b.pd.get(), nullptr, SIZE_MAX,
                        IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    EXPECT_TRUE(is_error(write_to(number(on_demand.data()), 8), 1, IBV_WC_REM_ACCESS_ERR));
}

TEST_F(OdpImplicitCore, IsForOnDemandOnly)
{
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), nullptr, SIZE_MAX, kAllAccess), nullptr);
    EXPECT_NE(errno, 0);
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), on_demand.data(), SIZE_MAX, kOnDemand), nullptr);
    EXPECT_EQ(errno, EINVAL);
}

/* ---- advice ---- */

class OdpAdviceCore : public OdpCore {
protected:
    int advise(ibv_advise_mr_advice advice, ibv_sge sge,
               std::uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH)
    {
        return ibv_advise_mr(b.pd.get(), advice, flags, &sge, 1);
    }
    ibv_sge whole() const { return on_demand.sge(0, kSize); }
};

TEST_F(OdpAdviceCore, PrefetchForWritingBringsPages)
{
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, on_demand.sge(kPage, 9 * kPage)), 0);
    EXPECT_EQ(pages_present(on_demand.bytes(kPage, 9 * kPage)), 9u);
    EXPECT_EQ(pages_present(on_demand.bytes()), 9u);
    expect_write(pinned, on_demand, 1);
}

TEST_F(OdpAdviceCore, PrefetchForReadingIsGoodForWritingToo)
{
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, whole()), 0);
    expect_write(pinned, on_demand, 2);
}

TEST_F(OdpAdviceCore, WithoutFaultNothingIsBrought)
{
    on_demand.data()[0] = 1;
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, whole()), 0);
    EXPECT_EQ(pages_present(on_demand.bytes()), 1u);
    expect_write(pinned, on_demand, 3);
}

TEST_F(OdpAdviceCore, WithoutFlushItHappensSoon)
{
    EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, whole(), 0), 0);
    for (int i = 0; i < 500 && pages_present(on_demand.bytes()) < kSize / kPage; i++)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_EQ(pages_present(on_demand.bytes()), kSize / kPage);
}

TEST_F(OdpAdviceCore, SeveralRanges)
{
    Buffer other = b.buffer(kSize, kOnDemand);
    ibv_sge sges[] = {on_demand.sge(0, kPage), other.sge(2 * kPage, kPage)};
    EXPECT_EQ(ibv_advise_mr(b.pd.get(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
                            IBV_ADVISE_MR_FLAG_FLUSH, sges, 2),
              0);
    EXPECT_EQ(pages_present(on_demand.bytes()), 1u);
    EXPECT_EQ(pages_present(other.bytes()), 1u);
}

TEST_F(OdpAdviceCore, ErrorsAreThoseOfTheManualPage)
{
    const auto fetch = IBV_ADVISE_MR_ADVICE_PREFETCH;
    const auto fetch_write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    Buffer not_on_demand = b.buffer(kPage);
    Buffer of_another = a.buffer(kPage, kOnDemand);
    Pd other_pd = alloc_pd(b.context.get());
    Buffer of_another_pd(other_pd.get(), kPage, kOnDemand);
    Buffer read_only = b.buffer(kPage, IBV_ACCESS_ON_DEMAND);
    ibv_sge beyond = whole();
    ibv_sge no_key = whole();

    EXPECT_EQ(advise(static_cast<ibv_advise_mr_advice>(77), whole()), EOPNOTSUPP);
    EXPECT_EQ(advise(fetch, whole(), 1u << 7), EINVAL);
    EXPECT_EQ(advise(fetch, not_on_demand.sge(0, kPage)), EINVAL);
    no_key.lkey ^= 0x5a5a5a00;
    EXPECT_EQ(advise(fetch, no_key), ENOENT);
    EXPECT_EQ(advise(fetch, of_another_pd.sge(0, kPage)), EPERM);
    EXPECT_EQ(advise(fetch_write, read_only.sge(0, kPage)), EPERM);
    EXPECT_EQ(advise(fetch, read_only.sge(0, kPage)), 0);
    beyond.length++;
    EXPECT_EQ(advise(fetch, beyond), EFAULT);
    Hole hole(on_demand.bytes(kPage, kPage));
    EXPECT_EQ(advise(fetch, whole()), EFAULT);
}

} // namespace
