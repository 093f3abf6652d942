// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/fuse.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fcntl.h>
#include <linux/fuse.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "../../verbs/lib/diagnose.h"
#include "../../verbs/lib/error.h"
#include "../../verbs/lib/process.h"

namespace hostile {

namespace {

constexpr std::uint64_t kFile = 2; // the node; the folder is FUSE_ROOT_ID
constexpr int kServed = 3;         // what the server has /dev/fuse as

template <typename T>
void answer(const fuse_in_header &in, const T &what)
{
    fuse_out_header out{sizeof(out) + sizeof(what), 0, in.unique};
    std::array<iovec, 2> parts{iovec{&out, sizeof(out)},
                               iovec{const_cast<T *>(&what), sizeof(what)}};
    if (writev(kServed, parts.data(), parts.size()) < 0 && errno == ENODEV)
        _exit(0);
}

void refuse(const fuse_in_header &in, int error)
{
    fuse_out_header out{sizeof(out), -error, in.unique};
    if (write(kServed, &out, sizeof(out)) < 0 && errno == ENODEV)
        _exit(0);
}

fuse_attr attr_of(std::uint64_t node)
{
    fuse_attr attr{};
    attr.ino = node;
    attr.nlink = 1;
    attr.blksize = 4096;
    attr.mode = node == kFile ? S_IFREG | 0666 : S_IFDIR | 0755;
    attr.size = node == kFile ? HangingFile::kSize : 0;
    return attr;
}

} // namespace

bool HangingFile::possible()
{
    vt::shell("modprobe -q fuse");
    return access("/dev/fuse", R_OK | W_OK) == 0;
}

void HangingFile::serve(int fuse) const
{
    alignas(8) static std::array<char, 1 << 17> request;
    /* Nothing else of the test lives on here. */
    if (fuse != kServed && dup2(fuse, kServed) < 0)
        _exit(1);
    close_range(kServed + 1, ~0U, 0);
    for (;;) {
        ssize_t n = read(kServed, request.data(), request.size());
        if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == ENOENT))
            continue;
        if (n < static_cast<ssize_t>(sizeof(fuse_in_header)))
            _exit(0);
        const auto &in = *reinterpret_cast<const fuse_in_header *>(request.data());
        switch (in.opcode) {
        case FUSE_INIT: {
            const auto &asked = *reinterpret_cast<const fuse_init_in *>(&in + 1);
            fuse_init_out init{};
            init.major = FUSE_KERNEL_VERSION;
            init.minor = 31;
            init.max_readahead = asked.max_readahead;
            init.max_write = 4096;
            answer(in, init);
            break;
        }
        case FUSE_LOOKUP: {
            fuse_entry_out entry{};
            entry.nodeid = kFile;
            entry.entry_valid = entry.attr_valid = 3600;
            entry.attr = attr_of(kFile);
            answer(in, entry);
            break;
        }
        case FUSE_GETATTR: {
            fuse_attr_out attr{};
            attr.attr_valid = 3600;
            attr.attr = attr_of(in.nodeid);
            answer(in, attr);
            break;
        }
        case FUSE_OPEN: {
            fuse_open_out opened{};
            // Without it, who opens the file again waits for the pages that hang.
            opened.open_flags = FOPEN_KEEP_CACHE;
            answer(in, opened);
            break;
        }
        case FUSE_READ: ++*reads_; break;
        case FUSE_FORGET:
        case FUSE_BATCH_FORGET:
        case FUSE_INTERRUPT: break;
        default: refuse(in, ENOSYS); break;
        }
    }
}

HangingFile::HangingFile()
{
    char folder[] = "/tmp/rox-fuse.XXXXXX";
    folder_ = vt::need(mkdtemp(folder), "mkdtemp");
    void *shared = mmap(nullptr, sizeof(*reads_), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        vt::fail("mmap", errno);
    reads_ = new (shared) std::atomic<unsigned>(0);
    int fuse = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fuse < 0)
        vt::fail("/dev/fuse", errno);
    std::string options = "fd=" + std::to_string(fuse) + ",rootmode=40755,user_id=0,group_id=0";
    vt::check(mount("rox", folder_.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()),
              "mount of a FUSE file system");
    server_ = fork();
    if (server_ < 0)
        vt::fail("fork", errno);
    if (!server_)
        serve(fuse);
    close(fuse);
}

void *HangingFile::map() const
{
    int fd = open((folder_ + "/file").c_str(), O_RDWR | O_CLOEXEC);
    if (fd < 0)
        vt::fail("the file that hangs", errno);
    void *memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        vt::fail("mmap of the file that hangs", errno);
    close(fd);
    return memory;
}

void HangingFile::stop()
{
    if (server_ > 0)
        vt::kill_child(server_);
    server_ = -1;
}

HangingFile::~HangingFile()
{
    stop();
    umount2(folder_.c_str(), MNT_DETACH);
    rmdir(folder_.c_str());
    munmap(reads_, sizeof(*reads_));
}

} // namespace hostile
