// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/// @file
/// The doorbell object: who may ring which queue pair, for how long, and what an open one keeps.
#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../verbs/lib/pair.h"
#include "../verbs/lib/process.h"
#include "../verbs/lib/rdmatool.h"
#include "../verbs/lib/wr.h"
#include "lib/chance.h"
#include "lib/method.h"
#include "lib/spare.h"

using namespace hostile;

namespace {

/// A doorbell object beside that of the provider.
class Bell {
public:
    explicit Bell(const vt::Context &context) : fd_(alloc(context.get()->cmd_fd))
    {
        if (fd_ < 0)
            vt::fail("doorbell", errno);
    }
    ~Bell() { close(); }
    Bell(const Bell &) = delete;
    Bell &operator=(const Bell &) = delete;

    /// 0 or errno.
    int ring(unsigned long what) const { return ioctl(fd_, ROX_DOORBELL_RING, what) ? errno : 0; }
    int fd() const { return fd_; }
    void close()
    {
        if (fd_ >= 0)
            ::close(fd_);
        fd_ = -1;
    }

    static int alloc(int cmd_fd)
    {
        std::array<ib_uverbs_attr, 1> fd{};
        fd[0].attr_id = ROX_ATTR_DOORBELL_FD;
        errno = call_method(cmd_fd, ROX_OBJECT_DOORBELL, ROX_METHOD_DOORBELL_ALLOC, fd);
        return errno ? -1 : static_cast<int>(fd[0].data_s64);
    }

private:
    int fd_;
};

/// The doorbells that are open in this process.
std::vector<int> open_bells()
{
    std::vector<int> fds;
    for (const auto &entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code error;
        if (std::filesystem::read_symlink(entry.path(), error) == "anon_inode:[rox_doorbell]")
            fds.push_back(std::stoi(entry.path().filename()));
    }
    return fds;
}

/// What keeps the module from being unloaded.
long module_users()
{
    long users = -1;
    std::ifstream("/sys/module/rox/refcnt") >> users;
    return users;
}

class DoorbellTest : public vt::ProcessTest {
protected:
    /// A QP of @p end that is connected to itself.
    static std::unique_ptr<vt::Qp> qp(vt::End &end)
    {
        auto made = std::make_unique<vt::Qp>(end.pd.get(), end.send_cq.get(), end.recv_cq.get());
        vt::Params params;
        params.peer_psn = params.psn;
        made->to_init(params);
        made->to_rtr(params, vt::address_of(end.context, end.context), made->number());
        made->to_rts(params);
        return made;
    }

    static bool works(vt::End &end, vt::Qp &qp, std::uint64_t id)
    {
        vt::Buffer near = end.buffer(4096), far = end.buffer(4096);
        vt::fill(near.bytes(), id);
        qp.post(vt::SendWr::write({near.sge(0, 4096)}, vt::remote(far)).id(id));
        return vt::is(end.send_cq.one(), id, IBV_WC_RDMA_WRITE) && vt::filled(far.bytes(), id);
    }

    static std::uint64_t doorbells() { return vt::port_counter(vt::device_a(), "doorbells"); }
};

TEST_F(DoorbellTest, TakesOneIoctlWithKnownBits)
{
    vt::End end(vt::device_a());
    auto own = qp(end);
    Bell bell(end.context);
    EXPECT_NE(fcntl(bell.fd(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(bell.ring(own->number()), 0);
    EXPECT_EQ(bell.ring(own->number() | ROX_DOORBELL_RECV), 0);
    for (unsigned bit = 25; bit < 8 * sizeof(long); bit++)
        EXPECT_EQ(bell.ring(own->number() | 1UL << bit), EINVAL) << bit;
    for (unsigned long request : {0UL, 1UL, 0x5401UL, _IO(0x1b, 0x81) + 0UL})
        EXPECT_TRUE(ioctl(bell.fd(), request, own->number()) && errno == ENOTTY) << request;
    std::array<char, 16> bytes{};
    EXPECT_LT(read(bell.fd(), bytes.data(), bytes.size()), 0);
    EXPECT_LT(write(bell.fd(), bytes.data(), bytes.size()), 0);
    EXPECT_EQ(mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE, bell.fd(), 0), MAP_FAILED);
    EXPECT_TRUE(works(end, *own, 1));
}

TEST_F(DoorbellTest, RingsForQpsOfItsContextOnly)
{
    vt::End end(vt::device_a()), other(vt::device_a());
    auto own = qp(end), foreign = qp(other);
    Bell bell(end.context), bell_of_other(other.context);
    std::uint64_t before = doorbells();
    for (unsigned long qpn : {0UL, 1UL, 0xffffffUL, foreign->number() + 0UL})
        for (unsigned long which : {0UL, ROX_DOORBELL_RECV + 0UL})
            EXPECT_EQ(bell.ring(qpn | which), EINVAL) << qpn;
    EXPECT_EQ(bell_of_other.ring(own->number()), EINVAL);
    EXPECT_EQ(doorbells(), before);
    EXPECT_EQ(bell.ring(own->number()), 0);
    EXPECT_EQ(bell_of_other.ring(foreign->number()), 0);
    EXPECT_EQ(doorbells(), before + 2);
    std::uint32_t gone = own->number();
    ASSERT_EQ(own->destroy(), 0);
    EXPECT_EQ(bell.ring(gone), EINVAL);
}

TEST_F(DoorbellTest, AnotherProcessMayNotUseIt)
{
    vt::End end(vt::device_a());
    auto own = qp(end);
    Bell bell(end.context);
    std::uint64_t before = doorbells();
    EXPECT_TRUE(vt::ends_with(vt::in_child([&] { return bell.ring(own->number()); }), EPERM));
    EXPECT_EQ(doorbells(), before);
    EXPECT_EQ(bell.ring(own->number()), 0);
    EXPECT_TRUE(works(end, *own, 1));
}

TEST_F(DoorbellTest, ProviderHasOneAndDoesWithoutIt)
{
    vt::End end(vt::device_a());
    auto own = qp(end);
    auto fds = open_bells();
    ASSERT_EQ(fds.size(), 1u);
    EXPECT_TRUE(works(end, *own, 1));
    /* A program may close what it does not know (closefrom()), and open something else there. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    ASSERT_EQ(dup2(null, fds[0]), fds[0]);
    close(null);
    EXPECT_TRUE(works(end, *own, 2));
    ASSERT_EQ(close(fds[0]), 0);
    EXPECT_TRUE(works(end, *own, 3));
}

TEST_F(DoorbellTest, NoFileDescriptorIsLeftForIt)
{
    EXPECT_TRUE(
        vt::ends_with(vt::in_child([] {
                          vt::Context probe(vt::device_a());
                          int lowest = dup(0);
                          close(lowest);
                          rlimit limit{static_cast<rlim_t>(lowest), static_cast<rlim_t>(lowest)};
                          if (setrlimit(RLIMIT_NOFILE, &limit) ||
                              Bell::alloc(probe.get()->cmd_fd) >= 0 || errno != EMFILE)
                              return 1;
                          return 0;
                      }),
                      0));
}

TEST_F(DoorbellTest, KeepsTheModuleWhenItsContextHasGone)
{
    long before = module_users();
    auto end = std::make_unique<vt::End>(vt::device_a());
    auto own = qp(*end);
    std::uint32_t qpn = own->number();
    Bell bell(end->context);
    own.reset();
    EXPECT_EQ(bell.ring(qpn), EINVAL);
    end.reset();
    EXPECT_EQ(bell.ring(qpn), EIO);
    EXPECT_EQ(module_users(), before + 1);
    bell.close();
    EXPECT_EQ(module_users(), before);
}

TEST_F(DoorbellTest, DeviceGoesAway)
{
    long before = module_users();
    {
        const SpareDevice device("roxbell");
        vt::End end(device.name());
        vt::Qp own(end.pd.get(), end.send_cq.get(), end.recv_cq.get());
        Bell bell(end.context);
        EXPECT_EQ(bell.ring(own.number()), 0);
        std::atomic<bool> stop = false;
        std::jthread ringer([&] {
            while (!stop)
                bell.ring(own.number());
        });
        device.remove();
        EXPECT_EQ(bell.ring(own.number()), EIO);
        EXPECT_GE(module_users(), before + 2) << "the bells of the test and of the provider";
        stop = true;
    }
    EXPECT_TRUE(vt::eventually([&] { return module_users() <= before; })) << module_users();
}

/// Threads that ring for QPs which others make and destroy.
TEST_F(DoorbellTest, RungWhileQpsEnd)
{
    constexpr std::size_t kQps = 8;
    vt::End end(vt::device_a());
    Bell bell(end.context);
    std::array<std::atomic<std::uint32_t>, kQps> numbers{};
    std::atomic<std::uint64_t> rung{0}, missed{0}, odd{0}, ended{0};
    std::atomic<bool> stop = false;
    std::vector<std::jthread> threads;
    for (std::uint64_t n = 0; n < 4; n++)
        threads.emplace_back([&, n] {
            Chance chance(70 + n);
            while (!stop) {
                unsigned long what = numbers[chance.below(kQps)];
                int error = bell.ring(what | (chance.once_in(4) ? ROX_DOORBELL_RECV : 0));
                (error == 0 ? rung : error == EINVAL ? missed : odd)++;
            }
        });
    try {
        std::array<std::unique_ptr<vt::Qp>, kQps> qps;
        Chance chance(69);
        for (AttackTime time; !time.over(ended > 50 && rung > 100 && missed > 0); ended++) {
            std::size_t at = chance.below(kQps);
            qps[at].reset();
            qps[at] = qp(end);
            numbers[at] = qps[at]->number();
            EXPECT_TRUE(works(end, *qps[at], ended));
        }
    } catch (const std::exception &error) {
        ADD_FAILURE() << error.what();
    }
    stop = true;
    threads.clear();
    std::printf("# %llu rung, %llu too late, %llu ended\n", static_cast<unsigned long long>(rung),
                static_cast<unsigned long long>(missed), static_cast<unsigned long long>(ended));
    EXPECT_EQ(odd, 0u);
    EXPECT_GT(rung, 100u);
    EXPECT_GT(missed, 0u);
}

TEST_F(DoorbellTest, KilledWhileItRings)
{
    long before = module_users();
    for (int round = 0; round < 5; round++) {
        pid_t child = vt::in_child([] {
            vt::End end(vt::device_a());
            auto own = qp(end);
            Bell bell(end.context);
            std::jthread other([&] {
                for (;;)
                    bell.ring(own->number());
            });
            for (std::uint64_t id = 0; works(end, *own, id); id++)
                ;
            return 0;
        });
        std::this_thread::sleep_for(vt::Millis(200 + 13 * round));
        vt::kill_child(child);
    }
    EXPECT_TRUE(vt::eventually([&] { return module_users() == before; })) << module_users();
}

} // namespace
