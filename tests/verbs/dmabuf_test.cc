// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory regions over a dma-buf: data in every direction, bounds, rights, and lifetimes.
/// The buffers are udmabuf's where the kernel has it, else dumb buffers of vgem; and what an
/// exporter is asked for is tested with each that there is.
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <fcntl.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/pair.h"
#include "lib/rdmatool.h"

using namespace vt;

namespace {

class File {
public:
    explicit File(int fd) : fd_(fd) {}
    File(File &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
    File &operator=(File &&) = delete;
    ~File() { close(); }
    int get() const { return fd_; }
    void close()
    {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = -1;
    }

private:
    int fd_;
};

/// From DRM's uapi, whose headers are another package's.
struct DrmCreateDumb {
    std::uint32_t height, width, bpp, flags, handle, pitch;
    std::uint64_t size;
};
struct DrmPrimeHandle {
    std::uint32_t handle, flags;
    std::int32_t fd;
};
constexpr unsigned long kDrmCreateDumb = _IOWR('d', 0xb2, DrmCreateDumb);
constexpr unsigned long kDrmPrimeHandleToFd = _IOWR('d', 0x2d, DrmPrimeHandle);

int from_udmabuf(std::size_t size)
{
    File device(::open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
    File memory(::memfd_create("rox", MFD_ALLOW_SEALING));
    udmabuf_create create = {};

    if (device.get() < 0 || memory.get() < 0 || ::ftruncate(memory.get(), size) != 0 ||
        ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
        return -1;
    }
    create.memfd = memory.get();
    create.flags = UDMABUF_FLAGS_CLOEXEC;
    create.size = size;
    return ::ioctl(device.get(), UDMABUF_CREATE, &create);
}

/// The first graphics device that has dumb buffers.
int from_drm(std::size_t size)
{
    for (int number = 0; number < 8; number++) {
        const std::string path = "/dev/dri/card" + std::to_string(number);
        File device(::open(path.c_str(), O_RDWR | O_CLOEXEC));
        DrmCreateDumb create = {};
        DrmPrimeHandle prime = {};

        create.width = 1024;
        create.height = size / 4096;
        create.bpp = 32;
        if (device.get() < 0 || ::ioctl(device.get(), kDrmCreateDumb, &create) != 0) {
            continue;
        }
        prime.handle = create.handle;
        prime.flags = O_RDWR | O_CLOEXEC;
        if (::ioctl(device.get(), kDrmPrimeHandleToFd, &prime) == 0) {
            return prime.fd;
        }
    }
    return -1;
}

/// The system heap: pages that are nobody's but the buffer's.
int from_heap(std::size_t size)
{
    File device(::open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC));
    dma_heap_allocation_data data = {};

    data.len = size;
    data.fd_flags = O_RDWR | O_CLOEXEC;
    if (device.get() < 0 || ::ioctl(device.get(), DMA_HEAP_IOCTL_ALLOC, &data) != 0) {
        return -1;
    }
    return static_cast<int>(data.fd);
}

/// A dma-buf, mapped.
class DmaBuf {
public:
    explicit DmaBuf(std::size_t size) : DmaBuf(make(size), size) {}
    DmaBuf(int fd, std::size_t size) : file(fd), size_(size)
    {
        void *p = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
        if (p == MAP_FAILED) {
            fail("mmap of a dma-buf", errno);
        }
        data_ = static_cast<std::uint8_t *>(p);
        std::memset(data_, 0, size);
    }
    DmaBuf(const DmaBuf &) = delete;
    DmaBuf &operator=(const DmaBuf &) = delete;
    ~DmaBuf() { ::munmap(data_, size_); }
    Bytes bytes() const { return {data_, size_}; }

    File file;

private:
    static int make(std::size_t size)
    {
        int fd = from_udmabuf(size);
        if (fd < 0) {
            fd = from_drm(size);
        }
        if (fd < 0) {
            fail("neither udmabuf nor dumb buffers", errno);
        }
        return fd;
    }
    std::size_t size_;
    std::uint8_t *data_ = nullptr;
};

constexpr std::size_t kSize = 1 << 18;

class DmaBufCore : public PairTest {
protected:
    void SetUp() override
    {
        Params params;
        params.timeout = 12;
        start({}, params);
    }
    MrHandle reg(const End &end, std::uint64_t offset, std::size_t length, std::uint64_t iova,
                 int access = kAllAccess)
    {
        return MrHandle(
            ibv_reg_dmabuf_mr(end.pd.get(), offset, length, iova, buf.file.get(), access));
    }
    int reg_errno(std::uint64_t offset, std::size_t length, std::uint64_t iova, int fd,
                  int access = kAllAccess)
    {
        errno = 0;
        MrHandle mr(ibv_reg_dmabuf_mr(b.pd.get(), offset, length, iova, fd, access));
        return mr.get() == nullptr ? errno : 0;
    }

    DmaBuf buf{kSize};
    Buffer local = a.buffer(kSize);
};

TEST_F(DmaBufCore, WriteAndReadReachTheBuffer)
{
    MrHandle mr = reg(b, 0, kSize, 0x10000);
    ASSERT_NE(mr.get(), nullptr);
    fill(local.bytes(), 1);
    a.qp->post(SendWr::write({local.sge(0, kSize)}, {0x10000, mr->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(buf.bytes(), 1));
    fill(buf.bytes(), 2);
    a.qp->post(SendWr::read({local.sge(0, kSize)}, {0x10000, mr->rkey}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(), 2));
}

TEST_F(DmaBufCore, AsSourceOfAWrite)
{
    MrHandle mr = reg(a, 0, kSize, 0);
    Buffer target = b.buffer(kSize);
    ASSERT_NE(mr.get(), nullptr);
    fill(buf.bytes(), 3);
    ibv_sge sge = {0, static_cast<std::uint32_t>(kSize), mr->lkey};
    a.qp->post(SendWr::write({sge}, {target.address(), target.rkey()}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(target.bytes(), 3));
}

TEST_F(DmaBufCore, AtomicsWorkInTheBuffer)
{
    MrHandle mr = reg(b, 4096, 4096, 0x1000);
    ASSERT_NE(mr.get(), nullptr);
    buf.bytes()[4096 + 8] = 41;
    a.qp->post(SendWr::fetch_add(local.sge(0, 8), {0x1008, mr->rkey}, 1).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_FETCH_ADD));
    EXPECT_EQ(local.word(0), 41u);
    EXPECT_EQ(buf.bytes()[4096 + 8], 42);
}

TEST_F(DmaBufCore, APartIsThatPartOnly)
{
    // The core wants the address and the offset at the same place of a page, whose size may be 64
    // KiB.
    MrHandle mr = reg(b, 4096 + 100, 5000, 0x71064);
    ASSERT_NE(mr.get(), nullptr);
    fill(local.bytes(), 4);
    a.qp->post(SendWr::write({local.sge(0, 5000)}, {0x71064, mr->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(buf.bytes().subspan(4196, 5000), 4));
    EXPECT_TRUE(all(buf.bytes().first(4196), 0));
    EXPECT_TRUE(all(buf.bytes().subspan(9196), 0));
    a.qp->post(SendWr::write({local.sge(0, 5000)}, {0x7065, mr->rkey}).id(2));
    EXPECT_TRUE(is_error(a.send_cq.one(), 2, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(buf.bytes().subspan(9196), 0));
}

TEST_F(DmaBufCore, WriteNeedsRemoteWrite)
{
    MrHandle mr = reg(b, 0, kSize, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    ASSERT_NE(mr.get(), nullptr);
    fill(local.bytes(), 5);
    a.qp->post(SendWr::write({local.sge(0, 8)}, {0, mr->rkey}).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(buf.bytes(), 0));
}

TEST_F(DmaBufCore, TheRegionOutlivesTheFile)
{
    MrHandle mr = reg(b, 0, kSize, 0);
    ASSERT_NE(mr.get(), nullptr);
    buf.file.close();
    fill(local.bytes(), 6);
    a.qp->post(SendWr::write({local.sge(0, kSize)}, {0, mr->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(buf.bytes(), 6));
}

TEST_F(DmaBufCore, TheKeyEndsWithTheRegion)
{
    MrHandle mr = reg(b, 0, kSize, 0);
    ASSERT_NE(mr.get(), nullptr);
    const std::uint32_t rkey = mr->rkey;
    mr.reset();
    fill(local.bytes(), 7);
    a.qp->post(SendWr::write({local.sge(0, 8)}, {0, rkey}).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    EXPECT_TRUE(all(buf.bytes(), 0));
}

TEST_F(DmaBufCore, WhatIsNotInTheBufferIsRefused)
{
    EXPECT_EQ(reg_errno(0, kSize + 1, 0, buf.file.get()), EINVAL);
    EXPECT_EQ(reg_errno(kSize, 1, 0, buf.file.get()), EINVAL);
    EXPECT_EQ(reg_errno(~0ull - 4095, 8192, 0, buf.file.get()), EINVAL);
    EXPECT_EQ(reg_errno(0, 0, 0, buf.file.get()), EINVAL);
    EXPECT_EQ(reg_errno(0, 4096, 0, -1), EBADF);
    /* How NCCL asks whether there are dma-bufs. */
    EXPECT_EQ(reg_errno(0, 0, 0, -1, 0), EBADF);
    File other(::open("/dev/null", O_RDWR));
    EXPECT_EQ(reg_errno(0, 4096, 0, other.get()), EINVAL);
    /* Where in a page it begins must be the same for both. */
    EXPECT_EQ(reg_errno(1, 4096, 0, buf.file.get()), EINVAL);
}

TEST_F(DmaBufCore, IsShownAsThat)
{
    MrHandle mr = reg(b, 4096, 12288, 0x1000);
    ASSERT_NE(mr.get(), nullptr);
    Records shown = with(rdma_tool("resource show mr dev " + b.context.name()), "mrlen", 12288);
    ASSERT_EQ(shown.size(), 1u);
    EXPECT_EQ(shown.front().text("drv_type"), "dmabuf");
}

/// Kernels of which it is known what they have.
struct Kernel {
    bool debian = false, old = false, uml = false;
};

Kernel kernel()
{
    utsname name{};
    uname(&name);
    const std::string release = name.release;
    Kernel result;
    result.debian = std::string(name.version).find("Debian") != std::string::npos;
    result.old = release.starts_with("6.1.");
    result.uml = release.find("-rox-uml-") != std::string::npos;
    return result;
}

/// One that gives out buffers, and whether a kernel that is known must have it: Debian's 6.1 was
/// built without udmabuf and heaps, and User Mode Linux has the former only.
struct Exporter {
    const char *name;
    int (*make)(std::size_t size);
    bool (*needed)(const Kernel &kernel);
};

std::ostream &operator<<(std::ostream &out, const Exporter &exporter)
{
    return out << exporter.name;
}

const Exporter kExporters[] = {
    {"udmabuf", from_udmabuf, [](const Kernel &k) { return k.uml || (k.debian && !k.old); }},
    {"heap", from_heap, [](const Kernel &k) { return k.debian && !k.old; }},
    {"vgem", from_drm, [](const Kernel &k) { return k.debian; }},
};

/// Who is attached to the dma-buf @p fd, as debugfs lists them.
std::vector<std::string> attached(int fd)
{
    static const std::string root = [] {
        // `ip netns exec` gives a /sys of its own, without debugfs.
        const std::string path = "/sys/kernel/debug";
        if (!std::ifstream(path + "/dma_buf/bufinfo").good() &&
            ::mount("debugfs", path.c_str(), "debugfs", 0, nullptr) != 0) {
            fail("mount debugfs", errno);
        }
        return path;
    }();
    std::ifstream file(root + "/dma_buf/bufinfo");
    std::vector<std::string> found;
    struct stat status = {};
    bool mine = false, listed = false;

    if (!file.good() || ::fstat(fd, &status) != 0) {
        fail("bufinfo", errno);
    }
    // A line of each buffer, with its inode in the sixth column, and then one of each device.
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::vector<std::string> columns{std::istream_iterator<std::string>(words), {}};
        if (columns.size() >= 6 && std::isxdigit(line[0])) {
            mine = std::stoul(columns[5]) == status.st_ino;
            listed |= mine;
        } else if (mine && columns.size() == 1 && line[0] == '\t') {
            found.push_back(columns[0]);
        }
    }
    EXPECT_TRUE(listed) << "bufinfo does not have inode " << status.st_ino;
    return found;
}

class DmaBufExporter : public PairTest, public testing::WithParamInterface<Exporter> {
protected:
    void SetUp() override
    {
        int fd = GetParam().make(kSize);
        if (fd < 0 && !GetParam().needed(kernel())) {
            GTEST_SKIP() << "this kernel has no " << GetParam().name;
        }
        if (fd < 0) {
            fail(std::string(GetParam().name) + " gives no buffer", errno);
        }
        buf.emplace(fd, kSize);
        Params params;
        params.timeout = 12;
        start({}, params);
    }
    MrHandle reg(std::uint64_t offset, std::size_t length)
    {
        return MrHandle(
            need(ibv_reg_dmabuf_mr(b.pd.get(), offset, length, offset, buf->file.get(), kAllAccess),
                 "ibv_reg_dmabuf_mr"));
    }

    std::optional<DmaBuf> buf;
};

/// For as long as a region lives the exporter knows of it, and keeps the buffer where it is.
TEST_P(DmaBufExporter, IsAttachedAsLongAsTheRegion)
{
    const std::string device = b.context.name();
    using Names = std::vector<std::string>;
    EXPECT_EQ(attached(buf->file.get()), Names());
    MrHandle whole = reg(0, kSize);
    EXPECT_EQ(attached(buf->file.get()), Names({device}));
    MrHandle part = reg(4096, 4096);
    EXPECT_EQ(attached(buf->file.get()), Names({device, device}));
    whole.reset();
    EXPECT_EQ(attached(buf->file.get()), Names({device}));
    errno = 0;
    MrHandle beyond(ibv_reg_dmabuf_mr(b.pd.get(), 0, kSize + 1, 0, buf->file.get(), kAllAccess));
    EXPECT_EQ(beyond.get(), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(attached(buf->file.get()), Names({device}));
    part.reset();
    EXPECT_EQ(attached(buf->file.get()), Names());
}

TEST_P(DmaBufExporter, CarriesData)
{
    Buffer local = a.buffer(kSize);
    MrHandle mr = reg(0, kSize);
    fill(local.bytes(), 1);
    a.qp->post(SendWr::write({local.sge(0, kSize)}, {0, mr->rkey}).id(1));
    EXPECT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_WRITE));
    EXPECT_TRUE(filled(buf->bytes(), 1));
    fill(buf->bytes(), 2);
    a.qp->post(SendWr::read({local.sge(0, kSize)}, {0, mr->rkey}).id(2));
    EXPECT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_READ));
    EXPECT_TRUE(filled(local.bytes(), 2));
    /* What was written is in the buffer also when the region has ended. */
    fill(local.bytes(), 3);
    a.qp->post(SendWr::write({local.sge(0, kSize)}, {0, mr->rkey}).id(3));
    EXPECT_TRUE(is(a.send_cq.one(), 3, IBV_WC_RDMA_WRITE));
    mr.reset();
    EXPECT_TRUE(filled(buf->bytes(), 3));
}

INSTANTIATE_TEST_SUITE_P(All, DmaBufExporter, testing::ValuesIn(kExporters),
                         [](const auto &each) { return std::string(each.param.name); });

} // namespace
