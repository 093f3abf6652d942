// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/rings.h"

#include <cstring>

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "../../verbs/lib/error.h"
#include "lib/command.h"
#include "lib/offers.h"

namespace hostile {

namespace {

std::size_t align(std::size_t value)
{
    return (value + ROX_CACHE_LINE - 1) & ~std::size_t{ROX_CACHE_LINE - 1};
}

template <typename Command>
void doorbell(const ibv_qp *qp, std::uint32_t number, std::uint32_t wqe_size)
{
    Command command{};
    command.qp_handle = qp->handle;
    command.wqe_size = wqe_size;
    ib_uverbs_post_send_resp response{};
    if (!write_command(qp->context->cmd_fd, number, command, response))
        vt::fail("a doorbell", errno);
}

} // namespace

Mapping mapped_by(const std::function<void()> &create)
{
    take_answer();
    create();
    Answer answer = take_answer();
    rox_mapping map{};
    rox_place place{};
    if (answer.bytes.size() < sizeof(map) + sizeof(place))
        vt::fail("the kernel offers no mapping");
    // All answers begin with the one and end with the other.
    std::memcpy(&map, answer.bytes.data(), sizeof(map));
    std::memcpy(&place, answer.bytes.data() + answer.bytes.size() - sizeof(place), sizeof(place));
    std::uint8_t *base = mapped_at(answer.fd, map.offset);
    if (!base || place.position >= map.size)
        vt::fail("it is not mapped");
    return {base + place.position, map.size - place.position};
}

QpRings rings_of(const Mapping &mapping, const ibv_qp_cap &cap, bool srq)
{
    QpRings rings;
    rings.sq.base = mapping.base;
    rings.sq.entries = cap.max_send_wr;
    rings.sq.stride = static_cast<std::uint32_t>(sizeof(rox_send_wqe)) +
                      cap.max_send_sge * static_cast<std::uint32_t>(sizeof(rox_sge));
    rings.rq.base = mapping.base + align(rings.sq.size());
    rings.rq.entries = srq ? 0 : cap.max_recv_wr;
    rings.rq.stride = static_cast<std::uint32_t>(sizeof(rox_recv_wqe)) +
                      cap.max_recv_sge * static_cast<std::uint32_t>(sizeof(rox_sge));
    if (align(rings.sq.size()) + rings.rq.size() > mapping.size)
        vt::fail("the rings are not where they should be");
    return rings;
}

Ring srq_ring_of(const Mapping &mapping, std::uint32_t entries, std::uint32_t max_sge)
{
    return {mapping.base, entries,
            static_cast<std::uint32_t>(sizeof(rox_recv_wqe) + max_sge * sizeof(rox_sge))};
}

Ring cq_ring_of(const Mapping &mapping, std::uint32_t entries)
{
    return {mapping.base, entries, sizeof(rox_cqe)};
}

void ring_send_doorbell(const ibv_qp *qp)
{
    doorbell<ib_uverbs_post_send>(qp, IB_USER_VERBS_CMD_POST_SEND, sizeof(ib_uverbs_send_wr));
}

void ring_recv_doorbell(const ibv_qp *qp)
{
    doorbell<ib_uverbs_post_recv>(qp, IB_USER_VERBS_CMD_POST_RECV, sizeof(ib_uverbs_recv_wr));
}

} // namespace hostile
