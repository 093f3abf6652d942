// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "lib/rings.h"

#include <cstdio>
#include <fstream>
#include <map>
#include <string>

#include <rdma/ib_user_verbs.h>
#include <unistd.h>

#include "../../verbs/lib/error.h"
#include "lib/command.h"

namespace hostile {

namespace {

std::map<std::uintptr_t, std::size_t> device_mappings()
{
    std::map<std::uintptr_t, std::size_t> all;
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
        unsigned long start = 0, end = 0;
        if (line.find("/uverbs") != std::string::npos &&
            std::sscanf(line.c_str(), "%lx-%lx", &start, &end) == 2)
            all[start] = end - start;
    }
    return all;
}

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
    auto before = device_mappings();
    create();
    for (auto [start, size] : device_mappings()) {
        auto old = before.find(start);
        if (old == before.end())
            return {reinterpret_cast<std::uint8_t *>(start), size};
    }
    vt::fail("no new mapping of the device");
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
