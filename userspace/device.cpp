/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * Registration with libibverbs, recognition of our devices, contexts, and the
 * queries that concern the device as a whole.
 */
#include "message.hpp"
#include "objects.hpp"
#include "verbs.hpp"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <ctime>

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

/* The clock of completion timestamps, see struct rox_cqe. */
int query_rt_values(ibv_context *, ibv_values_ex *values)
{
    const uint32_t wanted = values->comp_mask;

    values->comp_mask = 0;
    if ((wanted & IBV_VALUES_MASK_RAW_CLOCK) != 0) {
        if (clock_gettime(CLOCK_MONOTONIC_RAW, &values->raw_clock) != 0) {
            return errno;
        }
        values->comp_mask |= IBV_VALUES_MASK_RAW_CLOCK;
    }
    return 0;
}

void free_context(ibv_context *ibctx)
{
    Context *context = Context::of(ibctx);

    rdmacore::verbs_uninit_context(&context->vctx);
    delete context->qps;
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
    ops.query_port = query_port;
    ops.query_qp = query_qp;
    ops.query_rt_values = query_rt_values;
    ops.query_srq = query_srq;
    ops.reg_dmabuf_mr = reg_dmabuf_mr;
    ops.reg_mr = reg_mr;
    ops.req_notify_cq = req_notify_cq;
    ops.rereg_mr = rereg_mr;
    ops.resize_cq = resize_cq;
    return ops;
}

constexpr rdmacore::verbs_context_ops context_ops = make_context_ops();

/* 0 or a value of errno. */
int get_context(Context *context)
{
    rdmacore::get_context_cmd cmd = {};
    Message<ib_uverbs_get_context_resp, rox_alloc_ucontext_resp> resp;
    const int error = rdmacore::ibv_cmd_get_context(&context->vctx, &cmd, sizeof(cmd), resp.core(),
                                                    resp.size());

    if (error != 0) {
        return error;
    }
    if (resp.driver.abi_version != ROX_ABI_VERSION) {
        rdmacore::__verbs_log(&context->vctx, rdmacore::LOG_ERR,
                              "rox: the kernel module has ABI %u, this provider %u\n",
                              resp.driver.abi_version, ROX_ABI_VERSION);
        return EPROTONOSUPPORT;
    }
    context->max_inline = resp.driver.max_inline;
    context->qps = make_object<QpTable>().release();
    return context->qps != nullptr ? 0 : ENOMEM;
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *)
{
    static_assert(offsetof(Context, vctx) == 0);
    auto *context = static_cast<Context *>(rdmacore::_verbs_init_and_alloc_context(
        device, cmd_fd, sizeof(Context), nullptr, ROX_DRIVER_ID));

    if (context == nullptr) {
        return nullptr;
    }
    if (const int error = get_context(context); error != 0) {
        rdmacore::verbs_uninit_context(&context->vctx);
        std::free(context);
        errno = error;
        return nullptr;
    }
    rdmacore::verbs_set_ops(&context->vctx, &context_ops);
    return &context->vctx;
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
 * Netlink tells the driver of a device, and its number is ours alone. A name
 * says nothing: ours can be renamed to anything, and others to "rox0".
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
    .match_min_abi_version = ROX_ABI_VERSION,
    .match_max_abi_version = ROX_ABI_VERSION,
    .match_table = match_table.data(),
    .static_providers = nullptr,
    .match_device = match_device,
    .alloc_context = alloc_context,
    .import_context = nullptr,
    .alloc_device = alloc_device,
    .uninit_device = uninit_device,
};

/* libibverbs finds us by file name and expects us to register when we are loaded. */
__attribute__((constructor)) void register_provider()
{
    rdmacore::register_driver(&device_ops);
}

} // namespace
} // namespace rox
