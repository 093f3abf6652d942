/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "doctor/real.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <stdexcept>

#include <fmt/format.h>
#include <infiniband/verbs.h>

namespace rox::doctor {

namespace {

using namespace std::chrono_literals;

/* Fails with the name of a step and the error. */
[[noreturn]] void fail(const char *step, int error)
{
    throw std::runtime_error(fmt::format("{}: {}", step, std::strerror(error)));
}

void must(int error, const char *step)
{
    if (error != 0)
        fail(step, error);
}

/* Verbs that return NULL and set errno. */
template <typename Object>
Object *must_have(Object *object, const char *step)
{
    if (object == nullptr)
        fail(step, errno);
    return object;
}

template <auto destroy>
struct Destroy {
    template <typename Object>
    void operator()(Object *object) const
    {
        destroy(object);
    }
};

using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Cq = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using Qp = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;

ibv_context *open_device(const std::string &name)
{
    int count = 0;
    ibv_device **list = must_have(ibv_get_device_list(&count), "ibv_get_device_list");
    ibv_device **end = list + count;
    ibv_device **found = std::find_if(list, end,
                                      [&](ibv_device *device) { return name == device->name; });
    ibv_context *context = found != end ? ibv_open_device(*found) : nullptr;
    const int error = found != end ? errno : ENODEV;

    ibv_free_device_list(list);
    if (context == nullptr)
        throw std::runtime_error(fmt::format(
            "{}", found != end ? fmt::format("ibv_open_device: {}", std::strerror(error))
                               : "libibverbs does not know the device: is its provider missing?"));
    return context;
}

/* Two RC QPs that are connected to each other, and memory of which one half is sent to the other.
 */
class Loop {
public:
    Loop(const std::string &device, unsigned gid_index)
        : context_(open_device(device)),
          pd_(must_have(ibv_alloc_pd(context_.get()), "ibv_alloc_pd")),
          mr_(must_have(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(),
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE),
                        "ibv_reg_mr")),
          cq_(must_have(ibv_create_cq(context_.get(), 16, nullptr, nullptr, 0), "ibv_create_cq"))
    {
        ibv_qp_init_attr init{};

        init.send_cq = init.recv_cq = cq_.get();
        init.cap = {.max_send_wr = 4,
                    .max_recv_wr = 4,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        init.qp_type = IBV_QPT_RC;
        for (Qp &qp : qps_)
            qp.reset(must_have(ibv_create_qp(pd_.get(), &init), "ibv_create_qp"));
        for (size_t i = 0; i < qps_.size(); i++)
            connect(qps_[i].get(), qps_[1 - i]->qp_num, gid_index);
    }

    /// Sends the first half to the second.
    void transfer(ibv_wr_opcode opcode)
    {
        for (size_t i = 0; i < half; i++)
            memory_[i] = static_cast<uint8_t>(i * 7 + opcode);
        std::fill(memory_.begin() + half, memory_.end(), uint8_t{0});
        if (opcode == IBV_WR_SEND)
            post_receive();
        post_send(opcode);
        wait(opcode == IBV_WR_SEND ? 2 : 1);
        if (!std::equal(memory_.begin(), memory_.begin() + half, memory_.begin() + half))
            throw std::runtime_error("the data that arrived is not what was sent");
    }

private:
    static constexpr size_t half = 8192;

    static void connect(ibv_qp *qp, uint32_t peer, unsigned gid_index)
    {
        ibv_qp_attr attr{};

        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        must(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
             "ibv_modify_qp to INIT");
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = peer;
        attr.min_rnr_timer = 12;
        attr.ah_attr.is_global = 1;
        attr.ah_attr.port_num = 1;
        attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid_index);
        attr.ah_attr.grh.hop_limit = 64;
        must(ibv_query_gid(qp->context, 1, static_cast<int>(gid_index), &attr.ah_attr.grh.dgid),
             "ibv_query_gid");
        must(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
             "ibv_modify_qp to RTR");
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = 14;
        attr.retry_cnt = 3;
        attr.rnr_retry = 3;
        must(ibv_modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                               IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC),
             "ibv_modify_qp to RTS");
    }

    ibv_sge part(size_t from) const
    {
        return {
            .addr = reinterpret_cast<uintptr_t>(&memory_[from]), .length = half, .lkey = mr_->lkey};
    }

    void post_receive()
    {
        ibv_sge sge = part(half);
        ibv_recv_wr wr{};
        ibv_recv_wr *bad = nullptr;

        wr.sg_list = &sge;
        wr.num_sge = 1;
        must(ibv_post_recv(qps_[1].get(), &wr, &bad), "ibv_post_recv");
    }

    void post_send(ibv_wr_opcode opcode)
    {
        ibv_sge sge = part(0);
        ibv_send_wr wr{};
        ibv_send_wr *bad = nullptr;

        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = opcode;
        wr.send_flags = IBV_SEND_SIGNALED;
        wr.wr.rdma.remote_addr = part(half).addr;
        wr.wr.rdma.rkey = mr_->rkey;
        must(ibv_post_send(qps_[0].get(), &wr, &bad), "ibv_post_send");
    }

    /// Waits for successful completions.
    void wait(int count)
    {
        const auto until = std::chrono::steady_clock::now() + 1s;

        while (count > 0) {
            ibv_wc wc{};
            const int got = ibv_poll_cq(cq_.get(), 1, &wc);

            if (got < 0)
                fail("ibv_poll_cq", EIO);
            if (got > 0 && wc.status != IBV_WC_SUCCESS)
                throw std::runtime_error(
                    fmt::format("a work request failed: {}", ibv_wc_status_str(wc.status)));
            if (got == 0 && std::chrono::steady_clock::now() > until)
                throw std::runtime_error("no completion within a second");
            count -= got;
        }
    }

    std::array<uint8_t, 2 * half> memory_{};
    Context context_;
    Pd pd_;
    Mr mr_;
    Cq cq_;
    std::array<Qp, 2> qps_;
};

} // namespace

std::string VerbsSelfTest::run(const std::string &device, unsigned gid_index)
{
    try {
        const auto loop = std::make_unique<Loop>(device, gid_index);

        loop->transfer(IBV_WR_SEND);
        loop->transfer(IBV_WR_RDMA_WRITE);
    } catch (const std::runtime_error &error) {
        return error.what();
    }
    return "";
}

} // namespace rox::doctor
