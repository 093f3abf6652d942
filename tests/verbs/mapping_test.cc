// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// Memory that the process may only read: each kind of mapping can be sent from and READ from,
/// pinned and on demand, and nobody writes to it. Files are on tmpfs and on ext4 (ROX_EXT4, a
/// folder that tests/verbs/run makes).
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <ostream>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "lib/environment.h"
#include "lib/pair.h"

using namespace vt;

namespace {

/// Bytes of each mapping: some pages, whatever their size.
constexpr std::size_t kSize = 1 << 18;
constexpr std::size_t kRodata = 1 << 15;

/// 32 KiB that are in the program's .rodata.
#define ROX_16(x) x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x
alignas(4096) constexpr std::uint64_t kConstants[kRodata / 8] = {ROX_16(ROX_16(ROX_16(0x1122)))};
#undef ROX_16

/// A mapping of the process, which nobody has touched.
class Mapping {
public:
    Mapping(std::size_t size, int protection, int flags, int fd) : size_(size)
    {
        void *at = ::mmap(nullptr, size, protection, flags, fd, 0);
        if (at == MAP_FAILED)
            fail("mmap", errno);
        data_ = static_cast<std::uint8_t *>(at);
    }
    explicit Mapping(std::span<const std::uint64_t> constants)
        : data_(reinterpret_cast<std::uint8_t *>(const_cast<std::uint64_t *>(constants.data()))),
          size_(constants.size_bytes()), mine_(false)
    {}
    Mapping(const Mapping &) = delete;
    Mapping &operator=(const Mapping &) = delete;
    ~Mapping()
    {
        if (mine_)
            ::munmap(data_, size_);
    }
    std::uint8_t *data() const { return data_; }
    std::size_t size() const { return size_; }
    Bytes bytes() const { return {data_, size_}; }
    ibv_sge sge(const MrHandle &mr, std::size_t length) const
    {
        return {reinterpret_cast<std::uintptr_t>(data_), static_cast<std::uint32_t>(length),
                mr->lkey};
    }
    Remote remote(const MrHandle &mr) const
    {
        return {reinterpret_cast<std::uintptr_t>(data_), mr->rkey};
    }

private:
    std::uint8_t *data_;
    std::size_t size_;
    bool mine_ = true;
};

/// A file that is deleted at the end.
class File {
public:
    explicit File(const std::string &folder) : path_(folder + "/mapping-test")
    {
        fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd_ < 0)
            fail(path_.c_str(), errno);
        write(1);
        check(::fsync(fd_), "fsync");
    }
    File(const File &) = delete;
    File &operator=(const File &) = delete;
    ~File()
    {
        ::close(fd_);
        ::unlink(path_.c_str());
    }
    /// As another process does, by a system call.
    void write(std::uint64_t seed) const
    {
        std::vector<std::uint8_t> bytes(kSize);
        fill(bytes, seed);
        if (::pwrite(fd_, bytes.data(), kSize, 0) != static_cast<ssize_t>(kSize))
            fail("pwrite", errno);
    }
    /// For reading only, so that the mapping can never be writable.
    int open_to_read() const { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); }
    int fd() const { return fd_; }
    const std::string &path() const { return path_; }

private:
    std::string path_;
    int fd_;
};

enum class Kind { Rodata, Anonymous, Zero, SharedZero, Sealed, Tmpfs, Ext4 };

struct Case {
    const char *name;
    Kind kind;
    int flags;
};

std::ostream &operator<<(std::ostream &out, const Case &one)
{
    return out << one.name;
}

std::string folder_of(Kind kind)
{
    return kind == Kind::Ext4 ? variable("ROX_EXT4") : std::string("/dev/shm");
}

class MappingTest : public PairTest, public testing::WithParamInterface<Case> {
protected:
    void SetUp() override
    {
        const Case &one = GetParam();
        switch (one.kind) {
        case Kind::Rodata: mapping = std::make_unique<Mapping>(kConstants); break;
        case Kind::Anonymous:
            mapping = std::make_unique<Mapping>(kSize, PROT_READ, one.flags | MAP_ANONYMOUS, -1);
            break;
        case Kind::Zero: map(::open("/dev/zero", O_RDONLY | O_CLOEXEC)); break;
        case Kind::SharedZero: map(::open("/dev/zero", O_RDWR | O_CLOEXEC)); break;
        case Kind::Sealed: map(sealed()); break;
        default:
            ASSERT_FALSE(folder_of(one.kind).empty()) << "tests/verbs/run makes it";
            file = std::make_unique<File>(folder_of(one.kind));
            map(file->open_to_read());
            break;
        }
        start();
    }
    void map(int fd)
    {
        ASSERT_GE(fd, 0) << std::strerror(errno);
        mapping = std::make_unique<Mapping>(kSize, PROT_READ, GetParam().flags, fd);
        ::close(fd);
    }
    static int sealed()
    {
        int fd = ::memfd_create("rox", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        std::vector<std::uint8_t> bytes(kSize);
        fill(bytes, 1);
        if (::write(fd, bytes.data(), kSize) != static_cast<ssize_t>(kSize))
            fail("write", errno);
        check(::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), "F_ADD_SEALS");
        return fd;
    }
    /// What the process sees there, in a copy: reading it brings the pages.
    std::vector<std::uint8_t> content() const
    {
        return {mapping->bytes().begin(), mapping->bytes().end()};
    }
    /// KiB of the mapping that are dirty, by /proc/self/smaps.
    std::size_t dirty_kib() const
    {
        std::ifstream smaps("/proc/self/smaps");
        char begin[32];
        std::snprintf(begin, sizeof(begin), "%zx-",
                      reinterpret_cast<std::uintptr_t>(mapping->data()));
        std::size_t sum = 0;
        bool ours = false;
        for (std::string line; std::getline(smaps, line);) {
            if (line.find('-') < line.find(' '))
                ours = line.starts_with(begin);
            if (ours && line.find("_Dirty:") != std::string::npos)
                sum += std::strtoull(line.c_str() + line.find(':') + 1, nullptr, 10);
        }
        return sum;
    }

    /// Before anybody has touched it the device sends it, and its peer reads it; then it is sent
    /// again with what is there by then.
    void sent_and_read(int more_access)
    {
        const std::size_t size = mapping->size();
        Buffer sink = a.buffer(size);
        Buffer target = b.buffer(size);
        {
            MrHandle mr = reg_mr(b.pd.get(), mapping->data(), size,
                                 IBV_ACCESS_REMOTE_READ | more_access);
            a.qp->post(SendWr::read({sink.sge(0, size)}, mapping->remote(mr)).id(1));
            ASSERT_TRUE(is(a.send_cq.one(), 1, IBV_WC_RDMA_READ));
            EXPECT_TRUE(same(sink.bytes(), content()));
        }
        MrHandle mr = reg_mr(a.pd.get(), mapping->data(), size, more_access);
        a.qp->post(SendWr::write({mapping->sge(mr, size)}, vt::remote(target)).id(2));
        ASSERT_TRUE(is(a.send_cq.one(), 2, IBV_WC_RDMA_WRITE));
        EXPECT_TRUE(same(target.bytes(), content()));
        if (GetParam().kind == Kind::Ext4 && GetParam().flags == MAP_SHARED) {
            EXPECT_EQ(dirty_kib(), 0U) << "nobody has written";
        }
        if (file)
            file->write(2);
        b.qp->post_recv(4, {target.sge(0, size)});
        a.qp->post(SendWr::send({mapping->sge(mr, size)}).id(3));
        ASSERT_TRUE(is(a.send_cq.one(), 3, IBV_WC_SEND));
        ASSERT_TRUE(is(b.recv_cq.one(), 4, IBV_WC_RECV));
        EXPECT_TRUE(same(target.bytes(), content()));
        if (file && GetParam().flags == MAP_SHARED) {
            EXPECT_TRUE(filled(target.bytes(), 2)) << "of the file";
        }
    }

    std::unique_ptr<File> file;
    std::unique_ptr<Mapping> mapping;
};

/// Before 6.2 the RDMA core asked for pages of a region as if to write to them, which Linux refuses
/// where the process cannot get a copy of its own.
bool core_asks_to_write()
{
    utsname names{};
    check(::uname(&names), "uname");
    int version = 0, release = 0;
    return std::sscanf(names.release, "%d.%d", &version, &release) == 2 &&
           (version < 6 || (version == 6 && release < 2));
}

TEST_P(MappingTest, Pinned)
{
    if (GetParam().flags == MAP_SHARED && core_asks_to_write()) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(b.pd.get(), mapping->data(), mapping->size(), 0), nullptr);
        EXPECT_EQ(errno, EFAULT);
        return;
    }
    sent_and_read(0);
}

TEST_P(MappingTest, OnDemand)
{
    sent_and_read(IBV_ACCESS_ON_DEMAND);
}

TEST_P(MappingTest, CannotBeRegisteredForWriting)
{
    const std::vector<std::uint8_t> before = content();
    for (int access : {int{IBV_ACCESS_LOCAL_WRITE}, kAllAccess}) {
        errno = 0;
        EXPECT_EQ(ibv_reg_mr(b.pd.get(), mapping->data(), mapping->size(), access), nullptr);
        EXPECT_EQ(errno, EFAULT);
    }
    EXPECT_TRUE(same(mapping->bytes(), before));
}

TEST_P(MappingTest, WriteOnDemandIsAnAccessError)
{
    const std::vector<std::uint8_t> before = content();
    Buffer source = a.buffer(100);
    fill(source.bytes(), 9);
    MrHandle mr = reg_mr(b.pd.get(), mapping->data(), mapping->size(), kOnDemand);
    a.qp->post(SendWr::write({source.sge(0, 100)}, mapping->remote(mr)).id(1));
    EXPECT_TRUE(is_error(a.send_cq.one(), 1, IBV_WC_REM_ACCESS_ERR));
    start();
    b.qp->post_recv(2, {mapping->sge(mr, 100)});
    a.qp->post(SendWr::send({source.sge(0, 100)}).id(3));
    EXPECT_TRUE(is_error(b.recv_cq.one(), 2, IBV_WC_LOC_PROT_ERR));
    EXPECT_TRUE(is_error(a.send_cq.one(), 3, IBV_WC_REM_OP_ERR));
    EXPECT_TRUE(same(mapping->bytes(), before));
}

INSTANTIATE_TEST_SUITE_P(ReadOnly, MappingTest,
                         testing::Values(Case{"rodata", Kind::Rodata, MAP_PRIVATE},
                                         Case{"anonymous", Kind::Anonymous, MAP_PRIVATE},
                                         Case{"anonymous_shared", Kind::Anonymous, MAP_SHARED},
                                         Case{"dev_zero", Kind::Zero, MAP_PRIVATE},
                                         Case{"dev_zero_shared", Kind::SharedZero, MAP_SHARED},
                                         Case{"sealed_memfd", Kind::Sealed, MAP_PRIVATE},
                                         Case{"tmpfs_shared", Kind::Tmpfs, MAP_SHARED},
                                         Case{"tmpfs_private", Kind::Tmpfs, MAP_PRIVATE},
                                         Case{"ext4_shared", Kind::Ext4, MAP_SHARED},
                                         Case{"ext4_private", Kind::Ext4, MAP_PRIVATE}),
                         [](const auto &info) { return std::string(info.param.name); });

/// Files that the process may write to.
class WritableFileTest : public PairTest {
protected:
    void SetUp() override { start(); }
    ibv_wc do_write(const Mapping &to, const MrHandle &mr, const Buffer &source)
    {
        a.qp->post(SendWr::write({source.sge(0, source.size())}, to.remote(mr)).id(1));
        return a.send_cq.one();
    }
    Buffer source = a.buffer(kSize);
};

// Since 6.5 Linux does not pin pages of a file for long that a filesystem has to write back.
TEST_F(WritableFileTest, SharedOnExt4)
{
    File file(folder_of(Kind::Ext4));
    Mapping mapping(kSize, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd());
    fill(source.bytes(), 5);
    {
        MrHandle mr(ibv_reg_mr(b.pd.get(), mapping.data(), kSize, kAllAccess));
        if (mr) {
            EXPECT_TRUE(is(do_write(mapping, mr, source), 1, IBV_WC_RDMA_WRITE));
            EXPECT_TRUE(filled(mapping.bytes(), 5));
        } else {
            EXPECT_EQ(errno, EFAULT);
        }
    }
    fill(source.bytes(), 6);
    MrHandle mr = reg_mr(b.pd.get(), mapping.data(), kSize, kOnDemand);
    EXPECT_TRUE(is(do_write(mapping, mr, source), 1, IBV_WC_RDMA_WRITE));
    std::vector<std::uint8_t> read(kSize);
    ASSERT_EQ(::pread(file.fd(), read.data(), kSize, 0), static_cast<ssize_t>(kSize));
    EXPECT_TRUE(filled(read, 6));
}

TEST_F(WritableFileTest, SharedOnTmpfsAndPrivateOnBoth)
{
    for (auto [kind, flags] : {std::pair{Kind::Tmpfs, MAP_SHARED},
                               {Kind::Tmpfs, MAP_PRIVATE},
                               {Kind::Ext4, MAP_PRIVATE}})
        for (int access : {kAllAccess, kOnDemand}) {
            File file(folder_of(kind));
            Mapping mapping(kSize, PROT_READ | PROT_WRITE, flags, file.fd());
            MrHandle mr = reg_mr(b.pd.get(), mapping.data(), kSize, access);
            fill(source.bytes(), 7);
            EXPECT_TRUE(is(do_write(mapping, mr, source), 1, IBV_WC_RDMA_WRITE));
            EXPECT_TRUE(filled(mapping.bytes(), 7));
            std::vector<std::uint8_t> read(kSize);
            ASSERT_EQ(::pread(file.fd(), read.data(), kSize, 0), static_cast<ssize_t>(kSize));
            EXPECT_TRUE(filled(read, flags == MAP_SHARED ? 7 : 1)) << "of the file";
        }
}

} // namespace
