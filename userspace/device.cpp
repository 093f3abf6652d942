/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Registration with libibverbs, matching of devices, contexts, and queries of
 * device and port.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include <dlfcn.h>
#include <unistd.h>

namespace rox {
namespace {

int query_device_ex(ibv_context *context, const ibv_query_device_ex_input *input,
                    ibv_device_attr_ex *attr, size_t attr_size)
{
    ib_uverbs_ex_query_device_resp resp = {};
    size_t resp_size = sizeof(resp);
    const int error = rdmacore::ibv_cmd_query_device_any(context, input, attr, attr_size, &resp,
                                                         &resp_size);

    if (error != 0) {
        return error;
    }

    const uint64_t version = resp.base.fw_ver;

    (void)std::snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver), "%u.%u.%u",
                        static_cast<unsigned int>(version >> 32 & 0xffff),
                        static_cast<unsigned int>(version >> 16 & 0xffff),
                        static_cast<unsigned int>(version & 0xffff));
    return 0;
}

int query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr)
{
    rdmacore::query_port_cmd cmd = {};

    return rdmacore::ibv_cmd_query_port(context, port_num, attr, &cmd, sizeof(cmd));
}

/*
 * The clock of completion timestamps, see struct rox_cqe. As with adapters, tv_nsec
 * has the whole time, seconds included: programs compare it with timestamps.
 */
int query_rt_values(ibv_context *, ibv_values_ex *values)
{
    constexpr int64_t ns_per_s = 1'000'000'000;
    const uint32_t wanted = values->comp_mask;
    timespec time = {};

    values->comp_mask = 0;
    if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
        if (clock_gettime(CLOCK_MONOTONIC_RAW, &time) != 0) {
            return errno;
        }
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = static_cast<decltype(time.tv_nsec)>(time.tv_sec * ns_per_s +
                                                                        time.tv_nsec);
        values->comp_mask |= IBV_VALUES_MASK_RAW_CLOCK;
    }
    return 0;
}

void free_context(ibv_context *ibctx)
{
    Context *context = Context::of(ibctx);

    if (context->doorbell_fd >= 0) {
        close(context->doorbell_fd);
    }
    rdmacore::verbs_uninit_context(context->vctx());
    delete context->qps;
    delete context->slabs;
    delete context->late;
    std::free(context);
}

constexpr rdmacore::verbs_context_ops make_context_ops()
{
    rdmacore::verbs_context_ops ops = {};

    ops.advise_mr = rdmacore::ibv_cmd_advise_mr;
    ops.alloc_mw = alloc_mw;
    ops.alloc_parent_domain = alloc_parent_domain;
    ops.alloc_pd = alloc_pd;
    ops.alloc_td = alloc_td;
    ops.attach_mcast = rdmacore::ibv_cmd_attach_mcast;
    ops.bind_mw = bind_mw;
    ops.close_xrcd = close_xrcd;
    ops.create_ah = create_ah;
    ops.create_cq = create_cq;
    ops.create_cq_ex = create_cq_ex;
    ops.create_qp = create_qp;
    ops.create_qp_ex = create_qp_ex;
    ops.create_srq = create_srq;
    ops.create_srq_ex = create_srq_ex;
    ops.dealloc_mw = dealloc_mw;
    ops.dealloc_pd = dealloc_pd;
    ops.dealloc_td = dealloc_td;
    ops.dereg_mr = dereg_mr;
    ops.destroy_ah = destroy_ah;
    ops.destroy_cq = destroy_cq;
    ops.destroy_qp = destroy_qp;
    ops.destroy_srq = destroy_srq;
    ops.detach_mcast = rdmacore::ibv_cmd_detach_mcast;
    ops.free_context = free_context;
    ops.get_srq_num = get_srq_num;
    ops.modify_cq = modify_cq;
    ops.modify_qp = modify_qp;
    ops.modify_srq = modify_srq;
    ops.open_qp = open_qp;
    ops.open_xrcd = open_xrcd;
    ops.poll_cq = poll_cq;
    ops.post_recv = post_recv;
    ops.post_send = post_send;
    ops.post_srq_recv = post_srq_recv;
    ops.query_device_ex = query_device_ex;
    ops.query_ece = query_ece;
    ops.query_port = query_port;
    ops.query_qp = query_qp;
    ops.query_rt_values = query_rt_values;
    ops.query_srq = query_srq;
    ops.reg_dmabuf_mr = reg_dmabuf_mr;
    ops.reg_mr = reg_mr;
    ops.req_notify_cq = req_notify_cq;
    ops.rereg_mr = rereg_mr;
    ops.resize_cq = resize_cq;
    ops.set_ece = set_ece;
    return ops;
}

constexpr rdmacore::verbs_context_ops context_ops = make_context_ops();

/* ABI versions of the modules that this provider works with, see Documentation/abi.md. */
constexpr uint32_t min_abi_version = 1;
constexpr uint32_t max_abi_version = ROX_ABI_VERSION;

/* ROX_ENGINE=0 in the environment: no thread of the kernel polls the program's send queues. */
bool wants_engine()
{
    const char *value = std::getenv("ROX_ENGINE");

    return value == nullptr || std::strcmp(value, "0") != 0;
}

using ContextCmd = Message<rdmacore::get_context_cmd, rox_alloc_ucontext_req>;
using ContextResp = Message<ib_uverbs_get_context_resp, rox_alloc_ucontext_resp>;

int get_context_by(verbs_context *vctx, ContextCmd &cmd, ContextResp &resp)
{
#if ROX_PABI >= 57
    return rdmacore::ibv_cmd_get_context(vctx, cmd.core(), cmd.size(), nullptr, resp.core(),
                                         resp.size());
#else
    return rdmacore::ibv_cmd_get_context(vctx, cmd.core(), cmd.size(), resp.core(), resp.size());
#endif
}

/*
 * Opens the context and checks the module's ABI version. Members that the response of
 * an older module lacks are 0. 0 or an errno value.
 */
int get_context(Context *context)
{
    ContextCmd cmd;
    ContextResp resp;

    cmd.driver.features = ROX_FEATURE_SLABS | ROX_FEATURE_LATE_DOORBELL;
    if (!wants_engine()) {
        cmd.driver.features |= ROX_FEATURE_NO_ENGINE;
    }

    int error = get_context_by(context->vctx(), cmd, resp);

    if (error == EOPNOTSUPP) {
        /* The first modules take no request that is not 0. */
        cmd.driver.features = 0;
        error = get_context_by(context->vctx(), cmd, resp);
    }
    if (error != 0) {
        return error;
    }
    if (resp.driver.abi_version < min_abi_version || resp.driver.abi_version > max_abi_version) {
        rdmacore::__verbs_log(context->vctx(), rdmacore::LOG_ERR,
                              "rox: the kernel module has ABI %u, this provider %u to %u\n",
                              resp.driver.abi_version, min_abi_version, max_abi_version);
        return EPROTONOSUPPORT;
    }
    context->max_inline = resp.driver.max_inline;
    context->cpus = sysconf(_SC_NPROCESSORS_ONLN);
    context->idle_ns = (resp.driver.features & ROX_FEATURE_CQ_WAIT) != 0 ? wanted_idle_ns() : 0;
    context->qps = make_object<QpTable>().release();
    context->slabs = make_object<Slabs>().release();
    if (context->qps == nullptr || context->slabs == nullptr) {
        return ENOMEM;
    }
    if ((resp.driver.features & ROX_FEATURE_LATE_DOORBELL) != 0) {
        /* Without memory for it all doorbells are on time. */
        context->late = make_object<LateDoorbells>(context->cpus == 1).release();
    }
    context->doorbell_fd = (resp.driver.features & ROX_FEATURE_DOORBELL) != 0
                               ? open_doorbell(context->ibctx()->cmd_fd)
                               : -1;
    return 0;
}

/*
 * True if libibverbs has made the verbs_context as large as it was expected to be. Its size is in
 * the member before the ibv_context.
 */
bool has_expected_size(Context *context)
{
    const auto *size = reinterpret_cast<const size_t *>(context->ibctx()) - 1;

    return *size == layout->context_size;
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *)
{
    /* A larger verbs_context than the known one fits in, too, to be refused. */
    constexpr size_t reserve = 1024;
    auto *context = static_cast<Context *>(rdmacore::_verbs_init_and_alloc_context(
        device, cmd_fd, sizeof(Context) + layout->context_size + reserve,
        reinterpret_cast<verbs_context *>(sizeof(Context)), ROX_DRIVER_ID));

    if (context == nullptr) {
        return nullptr;
    }
    if (const int error = has_expected_size(context) ? get_context(context) : EPROTONOSUPPORT;
        error != 0) {
        rdmacore::verbs_uninit_context(context->vctx());
        delete context->qps;
        delete context->slabs;
        delete context->late;
        std::free(context);
        errno = error;
        return nullptr;
    }

    const OpsTable table = arrange_ops(context_ops, *layout);

    rdmacore::verbs_set_ops(context->vctx(),
                            reinterpret_cast<const rdmacore::verbs_context_ops *>(table.data()));
    return context->vctx();
}

rdmacore::verbs_device *alloc_device(rdmacore::verbs_sysfs_dev *)
{
    std::unique_ptr<Device> device = make_object<Device>();

    return device ? &device.release()->vdev : nullptr;
}

void uninit_device(rdmacore::verbs_device *vdev)
{
    delete object_of<Device>(vdev);
}

/*
 * Matches by the driver ID that netlink reports, which is unique. A name does not
 * identify a driver: any device can be renamed to "rox0", and a rox device to anything.
 */
bool match_device(rdmacore::verbs_sysfs_dev *device)
{
    return device->driver_id == ROX_DRIVER_ID;
}

constexpr std::array<rdmacore::verbs_match_ent, 2> match_table = {{
    {.driver_data = nullptr,
     .u = {.driver_id = ROX_DRIVER_ID},
     .vendor = 0,
     .device = 0,
     .kind = rdmacore::MATCH_DRIVER_ID},
    {.driver_data = nullptr,
     .u = {.driver_id = 0},
     .vendor = 0,
     .device = 0,
     .kind = rdmacore::MATCH_SENTINEL},
}};

constexpr rdmacore::verbs_device_ops device_ops = {
    .name = "rox",
    .match_min_abi_version = min_abi_version,
    .match_max_abi_version = max_abi_version,
    .match_table = match_table.data(),
    .static_providers = nullptr,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

/* One line, for whoever has to install something. */
void refuse(const Library &library)
{
    Dl_info own = {};

    (void)dladdr(reinterpret_cast<const void *>(&device_ops), &own);
    (void)std::fprintf(stderr,
                       "rox: %s (IBVERBS_PRIVATE_%u, IBVERBS_1.%u) is not of an rdma-core that %s "
                       "knows: install the package ibverbs-provider-rox that was built for this "
                       "rdma-core\n",
                       library.path, library.number, library.minor,
                       own.dli_fname != nullptr ? own.dli_fname : "this provider");
}

/*
 * libibverbs loads the provider by its file name and expects it to register then. If it does not,
 * libibverbs goes on without it.
 */
__attribute__((constructor)) void register_provider()
{
    const Library library = loaded_library();

    layout = find_layout(library);
    if (layout == nullptr) {
        refuse(library);
        return;
    }
    rdmacore::ROX_REGISTER_DRIVER(&device_ops);
}

} // namespace
} // namespace rox
