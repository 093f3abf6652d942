/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* System calls of the provider that are no commands: doorbells, sleeps and the clock. */
#include "fake_kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

extern "C" ssize_t __real_write(int fd, const void *buffer, size_t size);

extern "C" ssize_t __wrap_write(int fd, const void *buffer, size_t size)
{
    auto *kernel = rox::test::FakeKernel::now;

    if (kernel == nullptr || fd != kernel->fd()) {
        return __real_write(fd, buffer, size);
    }
    if (kernel->doorbell_error != 0) {
        errno = kernel->doorbell_error;
        if (kernel->doorbell_failures > 0 && --kernel->doorbell_failures == 0) {
            kernel->doorbell_error = 0;
        }
        return -1;
    }
    if (!kernel->doorbell(fd, buffer, size)) {
        errno = EINVAL;
        return -1;
    }
    return static_cast<ssize_t>(size);
}

extern "C" int __real_ioctl(int fd, unsigned long request, void *arg);

extern "C" int __wrap_ioctl(int fd, unsigned long request, void *arg)
{
    auto *kernel = rox::test::FakeKernel::now;

    if (kernel == nullptr || !kernel->hears(fd)) {
        return __real_ioctl(fd, request, arg);
    }
    const int error = kernel->ioctl(fd, request, arg);

    errno = error != 0 ? error : errno;
    return error != 0 ? -1 : 0;
}

extern "C" int __real_sched_yield();

extern "C" int __wrap_sched_yield()
{
    if (auto *kernel = rox::test::FakeKernel::now; kernel != nullptr) {
        kernel->yields++;
    }
    return __real_sched_yield();
}

extern "C" int __real_clock_gettime(clockid_t clock, timespec *time);

extern "C" int __wrap_clock_gettime(clockid_t clock, timespec *time)
{
    auto *kernel = rox::test::FakeKernel::now;

    if (kernel == nullptr || kernel->clock_ns == 0 || clock != CLOCK_MONOTONIC) {
        return __real_clock_gettime(clock, time);
    }
    kernel->clock_ns += kernel->reading_ns;
    time->tv_sec = kernel->clock_ns / 1'000'000'000;
    time->tv_nsec = kernel->clock_ns % 1'000'000'000;
    return 0;
}

namespace rox::test {

bool FakeKernel::doorbell(int, const void *command, size_t size)
{
    rdmacore::post_send_cmd cmd;

    /* Both commands have the same layout. */
    static_assert(sizeof(rdmacore::post_recv_cmd) == sizeof(cmd));
    if (size != sizeof(cmd)) {
        return false;
    }
    std::memcpy(static_cast<void *>(&cmd), command, size);
    if (cmd.hdr.in_words * 4U != size || cmd.hdr.out_words * 4U != sizeof(uint32_t) ||
        cmd.core.response == 0 || cmd.core.wr_count != 0 || cmd.core.sge_count != 0) {
        return false;
    }
    if (cmd.hdr.command == IB_USER_VERBS_CMD_POST_SEND &&
        cmd.core.wqe_size >= sizeof(ib_uverbs_send_wr)) {
        send_doorbells.push_back(cmd.core.qp_handle);
        return true;
    }
    if (cmd.hdr.command == IB_USER_VERBS_CMD_POST_RECV &&
        cmd.core.wqe_size >= sizeof(ib_uverbs_recv_wr)) {
        recv_doorbells.push_back(cmd.core.qp_handle);
        return true;
    }
    return false;
}

int FakeKernel::alloc_bell(ib_uverbs_ioctl_hdr &hdr)
{
    if (hdr.length != sizeof(hdr) + sizeof(hdr.attrs[0]) || hdr.num_attrs != 1 ||
        hdr.driver_id != ROX_DRIVER_ID || hdr.object_id != ROX_OBJECT_DOORBELL ||
        hdr.method_id != ROX_METHOD_DOORBELL_ALLOC ||
        hdr.attrs[0].attr_id != ROX_ATTR_DOORBELL_FD || hdr.attrs[0].len != 0 ||
        hdr.attrs[0].flags != UVERBS_ATTR_F_MANDATORY) {
        return EINVAL;
    }
    if ((features & ROX_FEATURE_DOORBELL) == 0) {
        return EPROTONOSUPPORT;
    }
    if (const int error = fail(__func__); error != 0) {
        return error;
    }
    bell_fd_ = memfd_create("doorbell", MFD_CLOEXEC);
    hdr.attrs[0].data_s64 = bell_fd_;
    return 0;
}

int FakeKernel::wait_cq(ib_uverbs_ioctl_hdr &hdr)
{
    if (hdr.length != sizeof(hdr) + 2 * sizeof(hdr.attrs[0]) || hdr.num_attrs != 2 ||
        hdr.driver_id != ROX_DRIVER_ID || hdr.method_id != ROX_METHOD_CQ_WAIT ||
        hdr.attrs[0].attr_id != ROX_ATTR_CQ_WAIT_CQ || hdr.attrs[0].len != 0 ||
        hdr.attrs[0].flags != UVERBS_ATTR_F_MANDATORY ||
        hdr.attrs[1].attr_id != ROX_ATTR_CQ_WAIT_NS || hdr.attrs[1].len != sizeof(uint32_t) ||
        hdr.attrs[1].flags != UVERBS_ATTR_F_MANDATORY ||
        !cqs.contains(static_cast<uint32_t>(hdr.attrs[0].data))) {
        return EINVAL;
    }
    if (const int error = fail(__func__); error != 0) {
        return error;
    }
    sleeps.push_back(static_cast<int64_t>(hdr.attrs[1].data));
    clock_ns += sleeps.back();
    return 0;
}

int FakeKernel::ioctl(int fd, unsigned long request, void *arg)
{
    if (fd == fd_ && request == RDMA_VERBS_IOCTL) {
        auto &hdr = *static_cast<ib_uverbs_ioctl_hdr *>(arg);

        return hdr.object_id == UVERBS_OBJECT_CQ ? wait_cq(hdr) : alloc_bell(hdr);
    }
    if (fd == fd_ || request != ROX_DOORBELL_RING) {
        return ENOTTY;
    }
    if (bell_error == 0) {
        bells.push_back(reinterpret_cast<unsigned long>(arg));
    }
    return bell_error;
}

} // namespace rox::test
