/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * What the program's handles point to. The first member of each is the part
 * that libibverbs and the program know.
 */
#ifndef ROX_OBJECTS_HPP
#define ROX_OBJECTS_HPP

#include "abi/pabi.hpp"
#include "memory.hpp"
#include "qp_table.hpp"
#include "queue.hpp"

#include <infiniband/verbs.h>

#include <atomic>
#include <cstdint>

namespace rox {

struct Device : HeapObject {
    rdmacore::verbs_device vdev;
};

/// libibverbs allocates and zeroes it (see verbs_init_and_alloc_context()).
struct Context {
    verbs_context vctx;
    uint32_t max_inline;
    QpTable *qps;

    static Context *of(ibv_context *context)
    {
        const size_t offset = offsetof(verbs_context, context);

        return reinterpret_cast<Context *>(reinterpret_cast<std::byte *>(context) - offset);
    }
};

/// A promise that everything made with it is used by one thread at a time.
struct Td : HeapObject {
    ibv_td td;
    std::atomic<uint32_t> users;
};

/// A protection domain, or a parent domain that stands for one.
struct Pd : HeapObject {
    ibv_pd pd;
    Pd *parent_of;               // what a parent domain stands for, else nullptr
    Td *td;                      // of a parent domain, or nullptr
    std::atomic<uint32_t> users; // parent domains, QPs and SRQs: the kernel knows no parent domains

    static Pd *of(ibv_pd *pd) { return object_of<Pd>(pd); }
};

struct Ah : HeapObject {
    ibv_ah ah;
    uint32_t number;
};

struct Mr : HeapObject {
    rdmacore::verbs_mr vmr;
};

struct Mw : HeapObject {
    ibv_mw mw;
};

struct Cq : HeapObject {
    rdmacore::verbs_cq vcq;
    CompletionQueue queue;
    Mapping map;

    static Cq *of(ibv_cq *cq) { return object_of<Cq>(cq); }
    static Cq *of(ibv_cq_ex *cq) { return object_of<Cq>(cq); }
};

struct Xrcd : HeapObject {
    rdmacore::verbs_xrcd vxrcd;
};

struct Srq : HeapObject {
    rdmacore::verbs_srq vsrq;
    RecvQueue queue;
    Mapping map;

    static Srq *of(ibv_srq *srq) { return object_of<Srq>(srq); }
};

struct Qp : HeapObject {
    rdmacore::verbs_qp vqp;
    SendQueue sq;
    RecvQueue rq;
    Mapping map;
    Mutex modifying; // one modify_qp() at a time, from the system call to the queues

    static Qp *of(ibv_qp *qp) { return object_of<Qp>(qp); }
    static Qp *of(ibv_qp_ex *qp) { return object_of<Qp>(qp); }
};

/// Has the program promised that objects of @p pd are used by one thread at a time?
inline bool is_single_threaded(ibv_pd *pd)
{
    return pd != nullptr && Pd::of(pd)->td != nullptr;
}

} // namespace rox

#endif // ROX_OBJECTS_HPP
