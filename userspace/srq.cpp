/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Shared receive queues.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <cerrno>

namespace rox {
namespace {

/* Maps the ring that the kernel offers and attaches the queue to it. 0 or an errno value. */
int map_ring(Srq &srq, ibv_context *context, const rox_create_srq_resp &offer, uint32_t max_wr,
             uint32_t max_sge)
{
    Mapping map;

    if (const int error = map.map(*Context::of(context)->slabs, context->cmd_fd, offer.map,
                                  offer.place);
        error != 0) {
        return error;
    }
    if (!map.holds(offer.rq, recv_header_size + max_sge * sizeof(rox_sge))) {
        return EPROTO;
    }
    srq.queue.attach(RingView(map.base(), offer.rq), max_wr, max_sge, RecvQueue::Kind::shared);
    srq.map.swap(map);
    return 0;
}

/*
 * Completes an SRQ that the kernel has created; destroys it again if its ring cannot be
 * mapped. 0 or an errno value.
 */
int complete(Srq &srq, ibv_pd *pd, const rox_create_srq_resp &offer, const ibv_srq_attr &attr)
{
    const int error = map_ring(srq, pd->context, offer, attr.max_wr, attr.max_sge);

    if (error != 0) {
        rdmacore::ibv_cmd_destroy_srq(&srq.vsrq.srq);
        return error;
    }
    srq.queue.set_accepting(true);
    srq.vsrq.srq.pd = pd;
    Pd::of(pd)->users++;
    if (is_single_threaded(pd)) {
        srq.queue.lock().elide();
    }
    return 0;
}

/* The SRQ's public part; nullptr, with errno set, after an error. */
ibv_srq *finish(std::unique_ptr<Srq> srq, int error)
{
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return &srq.release()->vsrq.srq;
}

ibv_srq *create_xrc_srq(ibv_context *context, ibv_srq_init_attr_ex *attr)
{
    constexpr uint32_t needed = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    std::unique_ptr<Srq> srq = make_object<Srq>();
    Message<rdmacore::create_xsrq_cmd, rox_create_srq_req> cmd;
    Message<ib_uverbs_create_srq_resp, rox_create_srq_resp> resp;

    if (!srq) {
        return nullptr;
    }
    if ((attr->comp_mask & needed) != needed || attr->xrcd == nullptr || attr->cq == nullptr) {
        return finish(nullptr, EINVAL);
    }
    Cq::of(attr->cq)->queue.expect_xrc_targets();
    int error = rdmacore::ibv_cmd_create_srq_ex(context, &srq->vsrq, attr, cmd.core(), cmd.size(),
                                                resp.core(), resp.size());

    if (error == 0) {
        error = complete(*srq, attr->pd, resp.driver, attr->attr);
    }
    return finish(std::move(srq), error);
}

} // namespace

ibv_srq *create_srq(ibv_pd *pd, ibv_srq_init_attr *attr)
{
    std::unique_ptr<Srq> srq = make_object<Srq>();
    Message<rdmacore::create_srq_cmd, rox_create_srq_req> cmd;
    Message<ib_uverbs_create_srq_resp, rox_create_srq_resp> resp;

    if (!srq) {
        return nullptr;
    }
    int error = rdmacore::ibv_cmd_create_srq(pd, &srq->vsrq.srq, attr, cmd.core(), cmd.size(),
                                             resp.core(), resp.size());

    if (error == 0) {
        error = complete(*srq, pd, resp.driver, attr->attr);
    }
    return finish(std::move(srq), error);
}

/* Basic and XRC SRQs. Fills in the public part as ibv_create_srq() does. */
ibv_srq *create_srq_ex(ibv_context *context, ibv_srq_init_attr_ex *attr)
{
    constexpr uint32_t supported = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                   IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    const ibv_srq_type type = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 ? attr->srq_type
                                                                              : IBV_SRQT_BASIC;

    if ((attr->comp_mask & ~supported) != 0 || (type != IBV_SRQT_BASIC && type != IBV_SRQT_XRC)) {
        errno = EOPNOTSUPP;
        return nullptr;
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
        errno = EINVAL;
        return nullptr;
    }

    ibv_srq_init_attr basic = {.srq_context = attr->srq_context, .attr = attr->attr};
    ibv_srq *srq = type == IBV_SRQT_XRC ? create_xrc_srq(context, attr)
                                        : create_srq(attr->pd, &basic);

    if (srq != nullptr) {
        srq->context = context;
        srq->srq_context = attr->srq_context;
        srq->pd = attr->pd;
        if (type == IBV_SRQT_BASIC) {
            attr->attr = basic.attr;
        }
    }
    return srq;
}

/* Only XRC SRQs have a number. */
int get_srq_num(ibv_srq *ibsrq, uint32_t *srq_num)
{
    const Srq *srq = Srq::of(ibsrq);

    if (srq->vsrq.srq_type != IBV_SRQT_XRC) {
        return EINVAL;
    }
    *srq_num = srq->vsrq.srq_num;
    return 0;
}

/*
 * Moves the queue into a new ring, which the kernel describes at resp_addr. The lock
 * excludes posts while the kernel copies the entries of the old ring.
 */
static int resize(Srq &srq, ibv_srq_attr *attr)
{
    rox_create_srq_resp offer = {};
    Message<rdmacore::modify_srq_cmd, rox_modify_srq_req> cmd;
    const std::lock_guard guard(srq.queue.lock());

    cmd.driver.resp_addr = reinterpret_cast<uintptr_t>(&offer);
    cmd.driver.resp_len = sizeof(offer);
    if (const int error = rdmacore::ibv_cmd_modify_srq(&srq.vsrq.srq, attr, IBV_SRQ_MAX_WR,
                                                       cmd.core(), cmd.size());
        error != 0) {
        return error;
    }

    const int error = map_ring(srq, srq.vsrq.srq.context, offer, offer.rq.entries,
                               srq.queue.max_sge());

    if (error != 0) {
        srq.queue.set_accepting(false); // the kernel reads a ring that is not mapped here
    }
    return error;
}

/* A resize is a command of its own: another attribute may be refused, a resize cannot be undone. */
int modify_srq(ibv_srq *ibsrq, ibv_srq_attr *attr, int attr_mask)
{
    Srq *srq = Srq::of(ibsrq);
    rdmacore::modify_srq_cmd cmd = {};

    if ((attr_mask & IBV_SRQ_MAX_WR) != 0) {
        const int error = resize(*srq, attr);

        attr_mask &= ~IBV_SRQ_MAX_WR;
        if (error != 0 || attr_mask == 0) {
            return error;
        }
    }
    return rdmacore::ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

int query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
    rdmacore::query_srq_cmd cmd = {};

    return rdmacore::ibv_cmd_query_srq(srq, attr, &cmd, sizeof(cmd));
}

int destroy_srq(ibv_srq *srq)
{
    if (const int error = rdmacore::ibv_cmd_destroy_srq(srq); error != 0) {
        return error;
    }
    Pd::of(srq->pd)->users--;
    delete Srq::of(srq);
    return 0;
}

int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr)
{
    return Srq::of(srq)->queue.post(wr, bad_wr).error;
}

} // namespace rox
