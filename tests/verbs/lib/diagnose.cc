// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "diagnose.h"

#include <array>
#include <cstdio>
#include <mutex>
#include <set>

#include <sys/wait.h>

#include "error.h"

namespace vt {

namespace {

std::mutex watched_lock;
std::set<ibv_qp *> watched;

std::string describe(ibv_qp *qp)
{
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    std::array<char, 400> line{};
    int result = ibv_query_qp(
        qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT,
        &init);
    if (result)
        std::snprintf(line.data(), line.size(), "\n  QP %#x: ibv_query_qp returned %d", qp->qp_num,
                      result);
    else
        std::snprintf(line.data(), line.size(),
                      "\n  QP %#x on %s: type %d %s, cur %s, dest %#x, sq_psn %#x, "
                      "rq_psn %#x, timeout %u, retry %u, rnr_retry %u, sq %u rq %u entries",
                      qp->qp_num, qp->context->device->name, qp->qp_type, name_of(attr.qp_state),
                      name_of(attr.cur_qp_state), attr.dest_qp_num, attr.sq_psn, attr.rq_psn,
                      attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.cap.max_send_wr,
                      attr.cap.max_recv_wr);
    return line.data();
}

} // namespace

void watch(ibv_qp *qp)
{
    std::lock_guard hold(watched_lock);
    watched.insert(qp);
}

void unwatch(ibv_qp *qp)
{
    std::lock_guard hold(watched_lock);
    watched.erase(qp);
}

std::string state_of_everything()
{
    std::string text;
    {
        std::lock_guard hold(watched_lock);
        for (ibv_qp *qp : watched)
            text += describe(qp);
    }
    std::string output;
    shell("timeout 10 rdma -dd resource show qp; timeout 10 rdma statistic show", &output);
    return text + "\n" + output;
}

int shell(const std::string &command, std::string *output)
{
    FILE *pipe = popen(("{ " + command + "\n} 2>&1").c_str(), "r");
    if (!pipe)
        return -1;
    std::string text;
    std::array<char, 512> piece{};
    while (fgets(piece.data(), piece.size(), pipe))
        text += piece.data();
    int status = pclose(pipe);
    if (output)
        *output = text;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void run(const std::string &command)
{
    std::string output;
    if (shell(command, &output))
        fail(command + ": " + output);
}

const char *name_of(ibv_qp_state state)
{
    switch (state) {
    case IBV_QPS_RESET: return "RESET";
    case IBV_QPS_INIT: return "INIT";
    case IBV_QPS_RTR: return "RTR";
    case IBV_QPS_RTS: return "RTS";
    case IBV_QPS_SQD: return "SQD";
    case IBV_QPS_SQE: return "SQE";
    case IBV_QPS_ERR: return "ERR";
    default: return "unknown";
    }
}

} // namespace vt
