// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/**
 * @file
 * A library to preload into programs that address their peer by LID alone, as InfiniBand allows
 * and RoCE does not (qperf without the RDMA CM): every path gets the global route that it lacks.
 *
 *   ROX_PEER_GID    the peer's GID, as an IPv6 address
 *   ROX_GID_INDEX   our GID's index
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace {

/// The function that would have been called without us.
template <typename Function>
Function *next(const char *name)
{
    auto *found = reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
    if (found == nullptr) {
        std::fprintf(stderr, "add_grh: no %s\n", name);
        std::abort();
    }
    return found;
}

void add_route(ibv_ah_attr &attr)
{
    const char *peer = std::getenv("ROX_PEER_GID");
    const char *index = std::getenv("ROX_GID_INDEX");
    if (attr.is_global != 0 || peer == nullptr || index == nullptr)
        return;
    if (inet_pton(AF_INET6, peer, &attr.grh.dgid) != 1)
        std::abort();
    attr.is_global = 1;
    attr.grh.sgid_index = static_cast<std::uint8_t>(std::atoi(index));
    attr.grh.hop_limit = 64;
}

} // namespace

extern "C" int ibv_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    static auto *const real = next<int(ibv_qp *, ibv_qp_attr *, int)>("ibv_modify_qp");
    if ((mask & IBV_QP_AV) != 0)
        add_route(attr->ah_attr);
    return real(qp, attr, mask);
}

extern "C" ibv_ah *ibv_create_ah(ibv_pd *pd, ibv_ah_attr *attr)
{
    static auto *const real = next<ibv_ah *(ibv_pd *, ibv_ah_attr *)>("ibv_create_ah");
    add_route(*attr);
    return real(pd, attr);
}
