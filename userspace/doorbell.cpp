/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Doorbells: the uverbs commands for posting, with nothing to post. The work
 * requests are in the rings already.
 */
#include "verbs.hpp"

#include <unistd.h>

#include <cerrno>
#include <ctime>

namespace rox {
namespace {

/*
 * The plain write() is the shortest way into the kernel. It is refused with
 * EACCES to a process that changed its credentials after it had opened the
 * device; the ioctl by which libibverbs posts is not.
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

int try_send_doorbell(ibv_qp *qp)
{
    ibv_send_wr *bad_wr = nullptr;
    const int error = write_command<rdmacore::post_send_cmd, ib_uverbs_post_send_resp>(
        qp, IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));

    return error == EACCES ? rdmacore::ibv_cmd_post_send(qp, nullptr, &bad_wr) : error;
}

int try_recv_doorbell(ibv_qp *qp)
{
    ibv_recv_wr *bad_wr = nullptr;
    const int error = write_command<rdmacore::post_recv_cmd, ib_uverbs_post_recv_resp>(
        qp, IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));

    return error == EACCES ? rdmacore::ibv_cmd_post_recv(qp, nullptr, &bad_wr) : error;
}

/*
 * The kernel may have no memory for the command at the moment. The work request is in the ring
 * by then and will be done: to say that posting has failed would have it posted twice.
 */
int until_heard(ibv_qp *qp, int (*ring)(ibv_qp *))
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

int ring_send_doorbell(ibv_qp *qp)
{
    return until_heard(qp, try_send_doorbell);
}

int ring_recv_doorbell(ibv_qp *qp)
{
    return until_heard(qp, try_recv_doorbell);
}

} // namespace rox
