/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#include "fake_kernel.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdlib>

namespace rox::test {

FakeKernel *FakeKernel::now = nullptr;

namespace {

const rdmacore::verbs_device_ops *registered = nullptr;

/*
 * The driver's part of a request, as a kernel of the version that is played takes it:
 * what the kernel does not know must be 0, what the provider does not send is.
 */
template <typename T, typename Core>
int take_request(const Core *cmd, size_t cmd_size, T &request)
{
    const size_t given = cmd_size - sizeof(*cmd);
    const size_t known = std::min(sizeof(T), FakeKernel::now->knows_of_requests);
    std::vector<std::byte> bytes(std::max(given, sizeof(T)));

    if (cmd_size < sizeof(*cmd)) {
        return EINVAL;
    }
    std::memcpy(bytes.data(), reinterpret_cast<const std::byte *>(cmd) + sizeof(*cmd), given);
    if (std::any_of(bytes.begin() + static_cast<ptrdiff_t>(known), bytes.end(),
                    [](std::byte byte) { return byte != std::byte{0}; })) {
        return EOPNOTSUPP;
    }
    std::memcpy(&request, bytes.data(), sizeof(T));
    return 0;
}

/* What that kernel answers where there is room for @p room bytes. */
template <typename T>
void answer(void *to, size_t room, const T &response)
{
    const FakeKernel &kernel = *FakeKernel::now;
    std::vector<std::byte> bytes(sizeof(T) + kernel.answers_more, std::byte{0xee});

    std::memcpy(bytes.data(), &response, sizeof(T));
    bytes.resize(std::min(bytes.size(), kernel.answers_only));
    std::memcpy(to, bytes.data(), std::min(bytes.size(), room));
}

/* The place in a response, if there is room for it and the kernel is not older. */
template <typename T>
rox_place *place_of(T &response, size_t room)
{
    constexpr size_t end = offsetof(T, place) + sizeof(response.place);

    return room >= end && FakeKernel::now->answers_only >= end ? &response.place : nullptr;
}

template <typename T, typename Core>
void put_response(Core *resp, size_t resp_size, const T &response)
{
    answer(reinterpret_cast<std::byte *>(resp) + sizeof(*resp), resp_size - sizeof(*resp),
           response);
}

} // namespace

FakeKernel::FakeKernel() : fd_(memfd_create("rox", MFD_CLOEXEC))
{
    now = this;
}

FakeKernel::~FakeKernel()
{
    close();
    for (auto [base, size] : views_) {
        munmap(base, size);
    }
    ::close(fd_);
    now = nullptr;
}

const rdmacore::verbs_device_ops *FakeKernel::driver()
{
    return registered;
}

ibv_context *FakeKernel::open()
{
    static rdmacore::verbs_sysfs_dev sysfs;

    if (device_ == nullptr) {
        device_ = registered->alloc_device(&sysfs);
    }
    verbs_context *vctx = registered->alloc_context(&device_->device, fd_, nullptr);

    context_ = vctx != nullptr ? &vctx->context : nullptr;
    return context_;
}

void FakeKernel::close()
{
    if (context_ != nullptr) {
        ops_.free_context(context_);
        context_ = nullptr;
    }
    if (device_ != nullptr) {
        registered->uninit_device(device_);
        device_ = nullptr;
    }
}

int FakeKernel::fail(const char *function)
{
    const auto it = failures_.find(function);

    if (it == failures_.end()) {
        return 0;
    }
    const int error = it->second;

    failures_.erase(it);
    return error;
}

} // namespace rox::test

/* ---- libibverbs' private functions ---- */

using rox::test::FakeKernel;
using rox::test::FakeQp;
using rox::test::KernelRing;
using rox::test::place_of;
using rox::test::put_response;
using rox::test::take_request;

/* The newest libibverbs of the provider's interface. */
rox::Library rox::loaded_library()
{
    const auto known = all_layouts();
    const auto newest = std::find_if(known.rbegin(), known.rend(), [](const Layout &layout) {
        return layout.number == ROX_PABI;
    });

    return {.path = "fake",
            .number = newest->number,
            .minor = newest->minor,
            .qp_mask = newest->qp_mask};
}

namespace rdmacore {

namespace {

/* Destroys an object without a ring, unless the call is to fail. 0 or an errno value. */
int destroy_plain(const char *call, uint32_t handle)
{
    if (const int error = FakeKernel::now->fail(call); error != 0) {
        return error;
    }
    FakeKernel::now->others.erase(handle);
    return 0;
}

} // namespace

extern "C" {

void ROX_REGISTER_DRIVER(const verbs_device_ops *ops)
{
    rox::test::registered = ops;
}

void *_verbs_init_and_alloc_context(ibv_device *device, int cmd_fd, size_t alloc_size,
                                    verbs_context *context_offset, uint32_t driver_id)
{
    auto *memory = static_cast<std::byte *>(std::calloc(1, alloc_size));
    auto *vctx = reinterpret_cast<verbs_context *>(memory +
                                                   reinterpret_cast<uintptr_t>(context_offset));

    if (driver_id != ROX_DRIVER_ID) {
        std::abort();
    }
    vctx->sz = sizeof(*vctx);
    vctx->context.device = device;
    vctx->context.cmd_fd = cmd_fd;
    return memory;
}

void verbs_uninit_context(verbs_context *) {}

void verbs_set_ops(verbs_context *, const verbs_context_ops *ops)
{
    FakeKernel::now->ops_ = *ops;
}

void __verbs_log(verbs_context *, uint32_t, const char *, ...) {}

int ibv_cmd_get_context(verbs_context *, get_context_cmd *cmd, size_t cmd_size,
#if ROX_PABI >= 57
                        fd_array *,
#endif
                        ib_uverbs_get_context_resp *resp, size_t resp_size)
{
    FakeKernel &kernel = *FakeKernel::now;
    rox_alloc_ucontext_req request = {};

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    if (request.flags != 0 || request.reserved != 0) {
        return EINVAL;
    }
    kernel.asked_features = request.features;
    put_response(resp, resp_size,
                 rox_alloc_ucontext_resp{.abi_version = kernel.abi_version,
                                         .max_inline = 512,
                                         .features = kernel.features});
    return 0;
}

int ibv_cmd_query_device_any(ibv_context *, const ibv_query_device_ex_input *,
                             ibv_device_attr_ex *attr, size_t attr_size,
                             ib_uverbs_ex_query_device_resp *resp, size_t *)
{
    std::memset(static_cast<void *>(attr), 0, attr_size);
    resp->base.fw_ver = 0x0001'0002'0003;
    return FakeKernel::now->fail(__func__);
}

int ibv_cmd_query_port(ibv_context *, uint8_t port_num, ibv_port_attr *, query_port_cmd *, size_t)
{
    return port_num == 1 ? 0 : EINVAL;
}

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, alloc_pd_cmd *, size_t,
                     ib_uverbs_alloc_pd_resp *, size_t)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    pd->context = context;
    pd->handle = FakeKernel::now->new_handle();
    FakeKernel::now->others.insert(pd->handle);
    return 0;
}

int ibv_cmd_dealloc_pd(ibv_pd *pd)
{
    return destroy_plain(__func__, pd->handle);
}

int ibv_cmd_reg_mr(ibv_pd *pd, void *, size_t, uint64_t, int access, verbs_mr *vmr, reg_mr_cmd *,
                   size_t, ib_uverbs_reg_mr_resp *, size_t)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    vmr->mr.context = pd->context;
    vmr->mr.handle = FakeKernel::now->new_handle();
    vmr->access = access;
    FakeKernel::now->others.insert(vmr->mr.handle);
    return 0;
}

int ibv_cmd_reg_dmabuf_mr(ibv_pd *pd, uint64_t, size_t, uint64_t, int fd, int access, verbs_mr *vmr,
                          ibv_command_buffer *driver)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    if (fd < 0) {
        return EBADF;
    }
    if (driver != nullptr) {
        return EINVAL;
    }
    vmr->mr.context = pd->context;
    vmr->mr.handle = FakeKernel::now->new_handle();
    vmr->access = access;
    FakeKernel::now->others.insert(vmr->mr.handle);
    return 0;
}

int ibv_cmd_advise_mr(ibv_pd *, ibv_advise_mr_advice, uint32_t, ibv_sge *, uint32_t num_sge)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    return num_sge != 0 ? 0 : EINVAL;
}

int ibv_cmd_dereg_mr(verbs_mr *vmr)
{
    return destroy_plain(__func__, vmr->mr.handle);
}

int ibv_cmd_rereg_mr(verbs_mr *, uint32_t, void *addr, size_t, uint64_t hca_va, int, ibv_pd *,
                     rereg_mr_cmd *, size_t cmd_size, ib_uverbs_rereg_mr_resp *, size_t resp_size)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    return hca_va == reinterpret_cast<uintptr_t>(addr) && cmd_size == sizeof(rereg_mr_cmd) &&
                   resp_size == sizeof(ib_uverbs_rereg_mr_resp)
               ? 0
               : EINVAL;
}

int ibv_cmd_alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, alloc_mw_cmd *, size_t cmd_size,
                     ib_uverbs_alloc_mw_resp *, size_t resp_size)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    if (cmd_size != sizeof(alloc_mw_cmd) || resp_size != sizeof(ib_uverbs_alloc_mw_resp)) {
        return EINVAL;
    }
    mw->context = pd->context;
    mw->pd = pd;
    mw->type = type;
    mw->rkey = 0x5500ff;
    mw->handle = FakeKernel::now->new_handle();
    FakeKernel::now->others.insert(mw->handle);
    return 0;
}

int ibv_cmd_dealloc_mw(ibv_mw *mw)
{
    return destroy_plain(__func__, mw->handle);
}

/* Entries 2 and 5 of the table have the same address, all others one of their own. */
int ibv_query_gid(ibv_context *, uint8_t, int index, ibv_gid *gid)
{
    *gid = {};
    gid->raw[15] = static_cast<uint8_t>(index == 5 ? 2 : index);
    return 0;
}

int ibv_cmd_create_ah(ibv_pd *, ibv_ah *ah, ibv_ah_attr *attr, ib_uverbs_create_ah_resp *resp,
                      size_t resp_size)
{
    FakeKernel::now->last_sgid_index = attr->grh.sgid_index;
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    ah->handle = FakeKernel::now->new_handle();
    FakeKernel::now->others.insert(ah->handle);
    put_response(resp, resp_size,
                 rox_create_ah_resp{.ah = FakeKernel::now->next_ah++, .reserved = 0});
    return 0;
}

int ibv_cmd_destroy_ah(ibv_ah *ah)
{
    return destroy_plain(__func__, ah->handle);
}

int ibv_cmd_create_cq_ex(ibv_context *context, const ibv_cq_init_attr_ex *attr,
#if ROX_PABI >= 59
                         verbs_create_cq_prov_attr *,
#endif
                         verbs_cq *cq, create_cq_ex_cmd *cmd, size_t cmd_size,
                         ib_uverbs_ex_create_cq_resp *resp, size_t resp_size, uint32_t)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    rox_create_cq_req request = {};

    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    KernelRing ring = FakeKernel::sized(attr->cqe, sizeof(rox_cqe) + kernel.longer_entries);
    rox_create_cq_resp offer = {};

    kernel.cq_request_flags = request.flags;
    kernel.cq_wc_flags = attr->wc_flags;
    offer.map = kernel.offer({&ring}, place_of(offer, resp_size - sizeof(*resp)));
    offer.cq = ring.desc;
    offer.cq.entries *= kernel.spoil_offer ? 1U << 20 : 1;
    put_response(resp, resp_size, offer);
    cq->cq.context = context;
    cq->cq.handle = kernel.new_handle();
    cq->cq.cqe = static_cast<int>(ring.desc.entries);
    kernel.cqs[cq->cq.handle] = ring;
    return 0;
}

int ibv_cmd_resize_cq(ibv_cq *cq, int cqe, resize_cq_cmd *, size_t cmd_size,
                      ib_uverbs_resize_cq_resp *resp, size_t resp_size)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (cmd_size != sizeof(resize_cq_cmd)) {
        return EINVAL;
    }
    KernelRing &old = kernel.cqs.at(cq->handle);
    KernelRing ring = FakeKernel::sized(static_cast<uint32_t>(cqe),
                                        sizeof(rox_cqe) + kernel.longer_entries);
    rox_create_cq_resp offer = {};

    offer.map = kernel.offer({&ring}, place_of(offer, resp_size - sizeof(*resp)));
    offer.cq = ring.desc;
    put_response(resp, resp_size, offer);
    ring.ctrl().producer = old.ctrl().consumer;
    ring.ctrl().consumer = old.ctrl().consumer;
    ring.ctrl().flags = old.ctrl().flags;
    while (old.waiting() != 0) {
        ring.add(old.take<rox_cqe>());
    }
    kernel.withdraw(old);
    old = ring;
    cq->cqe = static_cast<int>(ring.desc.entries);
    return 0;
}

int ibv_cmd_modify_cq(ibv_cq *, ibv_modify_cq_attr *, modify_cq_cmd *, size_t cmd_size)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    return cmd_size == sizeof(modify_cq_cmd) ? 0 : EINVAL;
}

int ibv_cmd_destroy_cq(ibv_cq *cq)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    FakeKernel::now->withdraw(FakeKernel::now->cqs.at(cq->handle));
    FakeKernel::now->cqs.erase(cq->handle);
    return 0;
}

/* Both ways to create one. */
static int create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_attr &attr,
                      const rox_create_srq_req &request, ib_uverbs_create_srq_resp *resp,
                      size_t resp_size)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (request.flags != 0 || request.reserved != 0) {
        return EINVAL;
    }
    KernelRing ring = FakeKernel::sized(attr.max_wr,
                                        16 + attr.max_sge * 16 + kernel.longer_entries);
    rox_create_srq_resp offer = {};

    offer.map = kernel.offer({&ring}, place_of(offer, resp_size - sizeof(*resp)));
    offer.rq = ring.desc;
    offer.rq.stride = kernel.spoil_offer ? 8 : ring.desc.stride;
    offer.srq_num = 77;
    put_response(resp, resp_size, offer);
    attr.max_wr = ring.desc.entries;
    srq->context = pd->context;
    srq->handle = kernel.new_handle();
    kernel.srqs[srq->handle] = ring;
    return 0;
}

int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, create_srq_cmd *cmd,
                       size_t cmd_size, ib_uverbs_create_srq_resp *resp, size_t resp_size)
{
    rox_create_srq_req request = {};

    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    return create_srq(pd, srq, attr->attr, request, resp, resp_size);
}

int ibv_cmd_create_srq_ex(ibv_context *context, verbs_srq *srq, ibv_srq_init_attr_ex *attr,
                          create_xsrq_cmd *cmd, size_t cmd_size, ib_uverbs_create_srq_resp *resp,
                          size_t resp_size)
{
    rox_create_srq_req request = {};

    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    if (context != attr->pd->context) {
        return EINVAL;
    }
    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    if (const int error = create_srq(attr->pd, &srq->srq, attr->attr, request, resp, resp_size);
        error != 0) {
        return error;
    }
    srq->srq_type = attr->srq_type;
    srq->srq_num = 78;
    srq->cq = attr->cq;
    return 0;
}

int ibv_cmd_open_xrcd(ibv_context *context, verbs_xrcd *xrcd, int xrcd_size,
                      ibv_xrcd_init_attr *attr, open_xrcd_cmd *, size_t cmd_size,
                      ib_uverbs_open_xrcd_resp *, size_t resp_size)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (xrcd_size != sizeof(*xrcd) || cmd_size != sizeof(open_xrcd_cmd) ||
        resp_size != sizeof(ib_uverbs_open_xrcd_resp) ||
        attr->comp_mask != (IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS)) {
        return EINVAL;
    }
    xrcd->xrcd.context = context;
    xrcd->handle = kernel.new_handle();
    kernel.others.insert(xrcd->handle);
    return 0;
}

int ibv_cmd_close_xrcd(verbs_xrcd *xrcd)
{
    return destroy_plain(__func__, xrcd->handle);
}

int ibv_cmd_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask, modify_srq_cmd *cmd,
                       size_t cmd_size)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    kernel.srq_masks.push_back(attr_mask);
    if ((attr_mask & IBV_SRQ_MAX_WR) == 0) {
        return 0;
    }
    rox_modify_srq_req request = {};

    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    KernelRing &old = kernel.srqs.at(srq->handle);
    KernelRing ring = FakeKernel::sized(attr->max_wr, old.desc.stride);
    rox_create_srq_resp offer = {};

    const size_t room = request.resp_len != 0 ? request.resp_len : 40;

    offer.map = kernel.offer({&ring}, place_of(offer, room));
    offer.rq = ring.desc;
    rox::test::answer(reinterpret_cast<void *>(request.resp_addr), room, offer);
    ring.ctrl().producer = old.ctrl().consumer;
    ring.ctrl().consumer = old.ctrl().consumer;
    for (; old.waiting() != 0; old.ctrl().consumer++) {
        std::memcpy(ring.at(ring.ctrl().producer++), old.at(old.ctrl().consumer), old.desc.stride);
    }
    kernel.withdraw(old);
    old = ring;
    return 0;
}

int ibv_cmd_query_srq(ibv_srq *srq, ibv_srq_attr *attr, query_srq_cmd *, size_t)
{
    attr->max_wr = FakeKernel::now->srqs.at(srq->handle).desc.entries;
    return 0;
}

int ibv_cmd_destroy_srq(ibv_srq *srq)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    FakeKernel::now->withdraw(FakeKernel::now->srqs.at(srq->handle));
    FakeKernel::now->srqs.erase(srq->handle);
    return 0;
}

int ibv_cmd_create_qp_ex2(ibv_context *context, verbs_qp *vqp, ibv_qp_init_attr_ex *attr,
                          create_qp_ex_cmd *cmd, size_t cmd_size, ib_uverbs_ex_create_qp_resp *resp,
                          size_t resp_size, ibv_command_buffer *)
{
    FakeKernel &kernel = *FakeKernel::now;
    rox_create_qp_req request = {};

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (const int error = take_request(cmd, cmd_size, request); error != 0) {
        return error;
    }
    if (request.flags != 0 || request.reserved != 0) {
        return EINVAL;
    }
    ibv_qp_cap &cap = attr->cap;
    FakeQp fake;
    rox_create_qp_resp offer = {};

    if (attr->srq != nullptr) {
        cap.max_recv_wr = 0;
        cap.max_recv_sge = 0;
    }
    /* An XRC target's queues are nobody's: the driver is not even asked for its response. */
    if (attr->qp_type == IBV_QPT_XRC_RECV) {
        cap = {};
    }
    fake.sq = FakeKernel::sized(cap.max_send_wr,
                                64 + std::max(cap.max_send_sge * 16, cap.max_inline_data) +
                                    kernel.longer_entries);
    fake.rq = FakeKernel::sized(cap.max_recv_wr,
                                16 + cap.max_recv_sge * 16 + kernel.longer_entries);
    if (attr->qp_type != IBV_QPT_XRC_RECV) {
        offer.map = kernel.offer({&fake.sq, &fake.rq}, place_of(offer, resp_size - sizeof(*resp)));
        offer.sq = fake.sq.desc;
        offer.rq = fake.rq.desc;
        offer.sq.ctrl_offset += kernel.spoil_offer ? 1U << 24 : 0;
        put_response(resp, resp_size, offer);
    }
    cap.max_send_wr = fake.sq.desc.entries;
    cap.max_recv_wr = fake.rq.desc.entries;

    vqp->qp.context = context;
    vqp->qp.pd = attr->pd;
    vqp->qp.send_cq = attr->send_cq;
    vqp->qp.recv_cq = attr->recv_cq;
    vqp->qp.srq = attr->srq;
    vqp->qp.qp_type = attr->qp_type;
    vqp->qp.handle = kernel.new_handle();
    vqp->qp.qp_num = 0x1000 + vqp->qp.handle;
    rox::qp_mask(*vqp) = 0;
    kernel.qps[vqp->qp.handle] = fake;
    return 0;
}

int ibv_cmd_open_qp(ibv_context *context, verbs_qp *vqp, int qp_size, ibv_qp_open_attr *attr,
                    open_qp_cmd *, size_t cmd_size, ib_uverbs_create_qp_resp *, size_t resp_size)
{
    FakeKernel &kernel = *FakeKernel::now;

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (qp_size != sizeof(*vqp) || cmd_size != sizeof(open_qp_cmd) ||
        resp_size != sizeof(ib_uverbs_create_qp_resp)) {
        return EINVAL;
    }
    vqp->qp.context = context;
    vqp->qp.qp_type = attr->qp_type;
    vqp->qp.qp_num = attr->qp_num;
    vqp->qp.handle = kernel.new_handle();
    kernel.qps[vqp->qp.handle] = {};
    return 0;
}

int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, modify_qp_cmd *, size_t)
{
    FakeKernel &kernel = *FakeKernel::now;
    FakeQp &fake = kernel.qps.at(qp->handle);

    if (const int error = kernel.fail(__func__); error != 0) {
        return error;
    }
    if (kernel.during_modify_qp) {
        kernel.during_modify_qp();
    }
    fake.masks.push_back(attr_mask);
    if ((attr_mask & IBV_QP_STATE) == 0) {
        return 0;
    }
    fake.state = attr->qp_state;
    if (fake.state == IBV_QPS_RESET) {
        for (KernelRing *ring : {&fake.sq, &fake.rq}) {
            if (ring->base == nullptr) {
                continue;
            }
            ring->ctrl().producer = 0;
            ring->ctrl().consumer = 0;
        }
    }
    if (kernel.after_modify_qp) {
        kernel.after_modify_qp();
    }
    return 0;
}

int ibv_cmd_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int, ibv_qp_init_attr *, query_qp_cmd *, size_t)
{
    attr->qp_state = FakeKernel::now->qps.at(qp->handle).state;
    return 0;
}

int ibv_cmd_destroy_qp(ibv_qp *qp)
{
    if (const int error = FakeKernel::now->fail(__func__); error != 0) {
        return error;
    }
    FakeKernel::now->withdraw(FakeKernel::now->qps.at(qp->handle).sq);
    FakeKernel::now->qps.erase(qp->handle);
    return 0;
}

int ibv_cmd_post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **)
{
    FakeKernel::now->ioctl_doorbells.push_back(qp->handle);
    return wr == nullptr ? FakeKernel::now->fail(__func__) : EINVAL;
}

int ibv_cmd_post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **)
{
    FakeKernel::now->ioctl_doorbells.push_back(qp->handle);
    return wr == nullptr ? FakeKernel::now->fail(__func__) : EINVAL;
}

int ibv_cmd_attach_mcast(ibv_qp *, const ibv_gid *, uint16_t)
{
    return 0;
}

int ibv_cmd_detach_mcast(ibv_qp *, const ibv_gid *, uint16_t)
{
    return 0;
}

} // extern "C"

} // namespace rdmacore
