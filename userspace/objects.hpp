/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The objects behind a program's handles. The first member of each is the part
 * that libibverbs and the program know.
 */
#ifndef ROX_OBJECTS_HPP
#define ROX_OBJECTS_HPP

#include "abi/pabi.hpp"
#include "idle.hpp"
#include "late.hpp"
#include "layout.hpp"
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

/**
 * Allocated and zeroed by libibverbs (see verbs_init_and_alloc_context()), with the verbs_context
 * behind it, which is as large as the loaded libibverbs has it.
 */
struct alignas(std::max_align_t) Context {
    uint32_t max_inline;
    int doorbell_fd; // or -1
    long cpus;       // that are online
    QpTable *qps;
    Slabs *slabs;
    LateDoorbells *late; // nullptr: doorbells are always rung at once
    int64_t idle_ns;     // a thread that polls in vain for so long sleeps; 0: it never does

    verbs_context *vctx() { return reinterpret_cast<verbs_context *>(this + 1); }

    /// The end of the verbs_context.
    ibv_context *ibctx()
    {
        return reinterpret_cast<ibv_context *>(reinterpret_cast<std::byte *>(vctx()) +
                                               layout->context_size - sizeof(ibv_context));
    }

    static Context *of(ibv_context *context)
    {
        return reinterpret_cast<Context *>(reinterpret_cast<std::byte *>(context) +
                                           sizeof(ibv_context) - layout->context_size) -
               1;
    }
};
static_assert(sizeof(ibv_context) == 328 + rdmacore::mutex_more);

/// A thread domain: a promise to use the objects made with it from one thread at a time.
struct Td : HeapObject {
    ibv_td td;
    std::atomic<uint32_t> users;
};

/// A protection domain, or a parent domain of one.
struct Pd : HeapObject {
    ibv_pd pd;
    Pd *parent_of;               // a parent domain's protection domain; else nullptr
    Td *td;                      // a parent domain's thread domain, or nullptr
    std::atomic<uint32_t> users; // parent domains, QPs, SRQs: the kernel knows no parent domains

    static Pd *of(ibv_pd *pd) { return object_of<Pd>(pd); }
};

struct Ah : HeapObject {
    ibv_ah ah;
    uint32_t index; // by which WQEs name the address handle
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
    LateDoorbells *late; // those of the context
    uint32_t vain_turn;  // see vain_turn_for()

    /// The program has polled and found nothing.
    void polled_in_vain()
    {
        if (late != nullptr) {
            late->polled_in_vain();
        } else {
            idle_poll(*this);
        }
    }

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
    LateDoorbell late;
    Mutex modify_lock; // held by modify_qp(), from the system call to the update of the queues

    static Qp *of(ibv_qp *qp) { return object_of<Qp>(qp); }
    static Qp *of(ibv_qp_ex *qp) { return object_of<Qp>(qp); }
};

static_assert(offsetof(Qp, sq) % cache_line == 0 && offsetof(Qp, rq) % cache_line == 0);
static_assert(offsetof(Srq, queue) % cache_line == 0 && offsetof(Cq, queue) % cache_line == 0);

/// True if the program has promised to use the objects of @p pd from one thread at a time.
inline bool is_single_threaded(ibv_pd *pd)
{
    return pd != nullptr && Pd::of(pd)->td != nullptr;
}

} // namespace rox

#endif // ROX_OBJECTS_HPP
