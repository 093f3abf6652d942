/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Doorbells: the kernel's doorbell object, or, with a module that lacks it, the uverbs
 * commands POST_SEND and POST_RECV without work requests. The work requests are
 * already in the rings.
 */
#include "method.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rox {
namespace {

/*
 * write() is the shortest way into the kernel. It fails with EACCES in a process that
 * changed its credentials after it had opened the device. The ioctl that libibverbs
 * uses does not.
 */
template <typename Cmd, typename Resp>
int write_command(const ibv_qp *qp, uint32_t number, uint32_t wqe_size)
{
    Resp resp = {};
    Cmd cmd = {};

    cmd.hdr.command = number;
    cmd.hdr.in_words = sizeof(cmd) / 4;
    cmd.hdr.out_words = sizeof(resp) / 4;
    cmd.core.response = reinterpret_cast<uintptr_t>(&resp);
    cmd.core.qp_handle = qp->handle;
    cmd.core.wqe_size = wqe_size;
    return write(qp->context->cmd_fd, &cmd, sizeof(cmd)) == sizeof(cmd) ? 0 : errno;
}

/*
 * True if the doorbell object has rung, or @p error says that the device is gone. Otherwise
 * the uverbs command is tried: the program may have closed a file descriptor that it did not
 * open, or a filter of system calls may refuse the ioctl.
 */
bool ring_object(const ibv_qp *qp, unsigned long what, int &error)
{
    const int fd = Context::of(qp->context)->doorbell_fd;

    if (fd < 0) {
        return false;
    }
    error = ioctl(fd, ROX_DOORBELL_RING, what | qp->qp_num) == 0 ? 0 : errno;
    return error == 0 || error == EIO;
}

int try_send_doorbell(ibv_qp *qp)
{
    int error = 0;

    if (ring_object(qp, 0, error)) {
        return error;
    }

    ibv_send_wr *bad_wr = nullptr;
    error = write_command<rdmacore::post_send_cmd, ib_uverbs_post_send_resp>(
        qp, IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));

    return error == EACCES ? rdmacore::ibv_cmd_post_send(qp, nullptr, &bad_wr) : error;
}

int try_recv_doorbell(ibv_qp *qp)
{
    int error = 0;

    if (ring_object(qp, ROX_DOORBELL_RECV, error)) {
        return error;
    }

    ibv_recv_wr *bad_wr = nullptr;
    error = write_command<rdmacore::post_recv_cmd, ib_uverbs_post_recv_resp>(
        qp, IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));

    return error == EACCES ? rdmacore::ibv_cmd_post_recv(qp, nullptr, &bad_wr) : error;
}

/*
 * Repeats the command for up to a second while the kernel has no memory for it. The work
 * request is already in the ring and will be executed: if posting returned an error, the
 * program would post it again.
 */
int retry_without_memory(ibv_qp *qp, int (*ring)(ibv_qp *))
{
    constexpr timespec pause = {.tv_sec = 0, .tv_nsec = 1'000'000};
    int error = ring(qp);

    for (int tries = 0; error == ENOMEM && tries < 1000; tries++) {
        nanosleep(&pause, nullptr);
        error = ring(qp);
    }
    return error;
}

} // namespace

int open_doorbell(int cmd_fd)
{
    Method<1> method(ROX_OBJECT_DOORBELL, ROX_METHOD_DOORBELL_ALLOC);

    method.set(0, ROX_ATTR_DOORBELL_FD, 0);
    return method.call(cmd_fd) == 0 ? static_cast<int>(method.result(0)) : -1;
}

int ring_send_doorbell(ibv_qp *qp)
{
    return retry_without_memory(qp, try_send_doorbell);
}

int ring_recv_doorbell(ibv_qp *qp)
{
    return retry_without_memory(qp, try_recv_doorbell);
}

} // namespace rox
