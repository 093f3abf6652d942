// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Files on persistent memory without a page cache (ext4 with -o dax, the folder ROX_DAX that
/// tests/verbs/run makes). Linux pins no such page for long, because the filesystem must be able to
/// give its block to somebody else; programs use them on demand.
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lib/environment.h"
#include "lib/pair.h"

using namespace vt;

namespace {

constexpr std::size_t kSize = 3 << 20;

class DaxTest : public PairTest {
protected:
    void SetUp() override
    {
        const std::string path = variable("ROX_DAX", "/nonexistent") + "/file";
        fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        ASSERT_GE(fd, 0) << path << ": " << std::strerror(errno);
        ASSERT_EQ(::ftruncate(fd, kSize), 0);
        void *at = ::mmap(nullptr, kSize, PROT_READ | PROT_WRITE,
                          MAP_SHARED_VALIDATE | MAP_POPULATE, fd, 0);
        ASSERT_NE(at, MAP_FAILED) << std::strerror(errno);
        data = static_cast<std::uint8_t *>(at);
        start();
        fill(other.bytes(), 1);
    }
    void TearDown() override
    {
        PairTest::TearDown();
        ::munmap(data, kSize);
        ::close(fd);
    }

    Bytes bytes() const { return {data, kSize}; }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data); }
    ibv_sge sge(std::size_t length) const
    {
        return {address(), static_cast<std::uint32_t>(length), mr->lkey};
    }
    Remote remote() const { return {address(), mr->rkey}; }
    void on_demand(const End &end) { mr = reg_mr(end.pd.get(), data, kSize, kOnDemand); }
    std::vector<std::uint8_t> file() const
    {
        std::vector<std::uint8_t> read(kSize);
        EXPECT_EQ(::pread(fd, read.data(), kSize, 0), static_cast<ssize_t>(kSize));
        return read;
    }
    ibv_wc asked(SendWr wr)
    {
        a.qp->post(wr.id(1));
        return a.send_cq.one();
    }

    int fd = -1;
    std::uint8_t *data = nullptr;
    MrHandle mr;
    Buffer other = a.buffer(kSize);
};

TEST_F(DaxTest, PinnedIsNotSupported)
{
    for (int access : {0, int{IBV_ACCESS_REMOTE_READ}, kAllAccess}) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(b.pd.get(), data, kSize, access), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP);
    }
    void *copy = ::mmap(nullptr, kSize, PROT_READ, MAP_PRIVATE, fd, 0);
    ASSERT_NE(copy, MAP_FAILED);
    errno = 0;
    EXPECT_EQ(ibv_reg_mr(b.pd.get(), copy, kSize, IBV_ACCESS_REMOTE_READ), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ::munmap(copy, kSize);
}

TEST_F(DaxTest, WrittenAndReadByThePeer)
{
    on_demand(b);
    ASSERT_TRUE(is(asked(SendWr::write({other.sge(0, kSize)}, remote())), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(bytes(), 1));
    ASSERT_EQ(::msync(data, kSize, MS_SYNC), 0);
    EXPECT_TRUE(filled(file(), 1));
    fill(bytes(), 2);
    ASSERT_TRUE(is(asked(SendWr::read({other.sge(0, kSize)}, remote())), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(other.bytes(), 2));
    *reinterpret_cast<std::uint64_t *>(data) = 5;
    ASSERT_TRUE(is(asked(SendWr::fetch_add(other.sge(0, 8), remote(), 3)), 1, IBV_WC_FETCH_ADD));
    EXPECT_EQ(other.word(0), 5U);
    EXPECT_EQ(*reinterpret_cast<std::uint64_t *>(data), 8U);
}

TEST_F(DaxTest, SentFromAndReceivedInto)
{
    Buffer inbox = b.buffer(kSize);
    on_demand(a);
    fill(bytes(), 3);
    b.qp->post_recv(2, {inbox.sge(0, kSize)});
    ASSERT_TRUE(is(asked(SendWr::send({sge(kSize)})), 1, IBV_WC_SEND));
    ASSERT_TRUE(is(b.recv_cq.one(), 2, IBV_WC_RECV));
    EXPECT_TRUE(filled(inbox.bytes(), 3));
    fill(inbox.bytes(), 4);
    ASSERT_TRUE(is(asked(SendWr::read({sge(kSize)}, vt::remote(inbox))), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(bytes(), 4));
    on_demand(b);
    b.qp->post_recv(2, {sge(kSize)});
    ASSERT_TRUE(is(asked(SendWr::send({other.sge(0, kSize)})), 1, IBV_WC_SEND));
    ASSERT_TRUE(is(b.recv_cq.one(), 2, IBV_WC_RECV));
    EXPECT_TRUE(filled(file(), 1));
}

// The filesystem takes a block back while the region has its page.
TEST_F(DaxTest, FileThatShrinksAndGrows)
{
    on_demand(b);
    ASSERT_TRUE(is(asked(SendWr::write({other.sge(0, kSize)}, remote())), 1, IBV_WC_RDMA_WRITE));
    ASSERT_EQ(::ftruncate(fd, kSize / 2), 0);
    ASSERT_EQ(::ftruncate(fd, kSize), 0);
    ASSERT_TRUE(is(asked(SendWr::read({other.sge(0, kSize)}, remote())), 1, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(other.bytes(0, kSize / 2), 1));
    EXPECT_TRUE(all(other.bytes(kSize / 2, kSize / 2), 0));
    ASSERT_EQ(::ftruncate(fd, 0), 0);
    EXPECT_TRUE(
        is_error(asked(SendWr::read({other.sge(0, 8)}, remote())), 1, IBV_WC_REM_ACCESS_ERR));
}

} // namespace
