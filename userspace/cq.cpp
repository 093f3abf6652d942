/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Completion queues: creation, resize, polling and arming.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <cerrno>

namespace rox {
namespace {

constexpr uint64_t timestamp_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                                     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/* 0, or the error for attributes that are invalid or not supported. */
int check_attr(const ibv_cq_init_attr_ex &attr)
{
    constexpr uint32_t masks = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    constexpr uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
                               IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;

    if ((attr.comp_mask & ~masks) != 0 || (attr.wc_flags & ~supported_wc_flags) != 0) {
        return EOPNOTSUPP;
    }
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 && (attr.flags & ~flags) != 0) {
        return EOPNOTSUPP;
    }
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
        (attr.parent_domain == nullptr || Pd::of(attr.parent_domain)->parent_of == nullptr)) {
        return EINVAL;
    }
    return 0;
}

bool is_single_threaded(const ibv_cq_init_attr_ex &attr)
{
    return ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
            (attr.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0) ||
           ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
            rox::is_single_threaded(attr.parent_domain));
}

/* Maps the ring that the kernel offers and attaches the queue to it. 0 or an errno value. */
int map_ring(Cq &cq, ibv_context *context, const rox_create_cq_resp &offer)
{
    Mapping map;

    if (const int error = map.map(*Context::of(context)->slabs, context->cmd_fd, offer.map,
                                  offer.place);
        error != 0) {
        return error;
    }
    if (!map.holds(offer.cq, sizeof(rox_cqe))) {
        return EPROTO;
    }
    cq.queue.attach(RingView(map.base(), offer.cq));
    cq.map.swap(map);
    return 0;
}

using CreateCmd = Message<rdmacore::create_cq_ex_cmd, rox_create_cq_req>;
using CreateResp = Message<ib_uverbs_ex_create_cq_resp, rox_create_cq_resp>;

int create_cq_by(ibv_context *context, const ibv_cq_init_attr_ex &attr, Cq &cq, CreateCmd &cmd,
                 CreateResp &resp)
{
#if ROX_PABI >= 59
    return rdmacore::ibv_cmd_create_cq_ex(context, &attr, nullptr, &cq.vcq, cmd.core(), cmd.size(),
                                          resp.core(), resp.size(), 0);
#else
    return rdmacore::ibv_cmd_create_cq_ex(context, &attr, &cq.vcq, cmd.core(), cmd.size(),
                                          resp.core(), resp.size(), 0);
#endif
}

Cq *create(ibv_context *context, const ibv_cq_init_attr_ex &wanted)
{
    std::unique_ptr<Cq> cq = make_object<Cq>();
    CreateCmd cmd;
    CreateResp resp;
    ibv_cq_init_attr_ex attr = wanted;

    if (!cq) {
        return nullptr;
    }
    /* Timestamps are requested in the driver's part of the command. */
    if ((wanted.wc_flags & timestamp_flags) != 0) {
        cmd.driver.flags = ROX_CQ_TIMESTAMP;
        attr.wc_flags &= ~timestamp_flags;
    }

    int error = create_cq_by(context, attr, *cq, cmd, resp);

    if (error == 0) {
        error = map_ring(*cq, context, resp.driver);
        if (error != 0) {
            rdmacore::ibv_cmd_destroy_cq(&cq->vcq.cq);
        }
    }
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    cq->queue.set_qps(Context::of(context)->qps);
    cq->late = Context::of(context)->late;
    cq->vain_turn = vain_turn_for(Context::of(context)->cpus);
    if (is_single_threaded(wanted)) {
        cq->queue.elide_locks();
    }
    return cq.release();
}

} // namespace

ibv_cq *create_cq(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector)
{
    ibv_cq_init_attr_ex attr = {};

    if (cqe <= 0) {
        errno = EINVAL;
        return nullptr;
    }
    attr.cqe = static_cast<uint32_t>(cqe);
    attr.channel = channel;
    attr.comp_vector = static_cast<uint32_t>(comp_vector);

    Cq *cq = create(context, attr);

    return cq != nullptr ? &cq->vcq.cq : nullptr;
}

ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr)
{
    if (const int error = check_attr(*attr); error != 0) {
        errno = error;
        return nullptr;
    }

    Cq *cq = create(context, *attr);

    if (cq == nullptr) {
        return nullptr;
    }
    set_poll_functions(cq->vcq.cq_ex, attr->wc_flags);
    return &cq->vcq.cq_ex;
}

/*
 * The kernel moves the entries that were not polled into a new ring. If the provider
 * cannot map that ring, the completions are lost, and every later poll fails.
 */
int resize_cq(ibv_cq *ibcq, int cqe)
{
    Cq *cq = Cq::of(ibcq);
    rdmacore::resize_cq_cmd cmd = {};
    Message<ib_uverbs_resize_cq_resp, rox_create_cq_resp> resp;
    const std::lock_guard poll_guard(cq->queue.lock());
    const std::lock_guard arm_guard(cq->queue.arm_lock());

    if (cqe <= 0) {
        return EINVAL;
    }
    int error = rdmacore::ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), resp.core(), resp.size());

    if (error == 0) {
        error = map_ring(*cq, ibcq->context, resp.driver);
        if (error != 0) {
            cq->queue.set_broken();
        }
    }
    return error;
}

int modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr)
{
    rdmacore::modify_cq_cmd cmd = {};

    return rdmacore::ibv_cmd_modify_cq(cq, attr, &cmd, sizeof(cmd));
}

int destroy_cq(ibv_cq *cq)
{
    if (const int error = rdmacore::ibv_cmd_destroy_cq(cq); error != 0) {
        return error;
    }
    delete Cq::of(cq);
    return 0;
}

int poll_cq(ibv_cq *cq, int num_entries, ibv_wc *wc)
{
    if (num_entries < 0) {
        return -EINVAL;
    }

    const int taken = Cq::of(cq)->queue.poll({wc, static_cast<size_t>(num_entries)});

    if (taken == 0) {
        Cq::of(cq)->polled_in_vain();
    }
    return taken;
}

int req_notify_cq(ibv_cq *cq, int solicited_only)
{
    if (Cq::of(cq)->late != nullptr) {
        Cq::of(cq)->late->ring();
    }
    Cq::of(cq)->queue.arm(solicited_only != 0);
    return 0;
}

} // namespace rox
