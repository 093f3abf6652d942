/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The private interface between libibverbs and a provider, of rdma-core v44 to v65, as far as
 * rox uses it. libibverbs-dev does not install its header, so it is declared here.
 *
 * The makefile finds the interface's number and defines ROX_PABI: 34 (v44 to v56), 57 (v57, v58),
 * 59 (v59 to v63), 64 or 65. The linker binds the provider to it by symbol versions. The number
 * alone does not say enough: 34 and 59 have two layouts each. So what differs within a number is
 * not declared here but looked up in layout.hpp, when the provider is loaded.
 *
 * The numbers in the static_asserts were printed by a C program that was compiled against the
 * headers of v44, v45, v50, v52, v54, v56 to v59 and v61 to v65 on x86-64. The asserts on function
 * tables count in pointers, so they also hold for other word sizes.
 *
 * Structures and functions have the names that they have in rdma-core, in namespace rdmacore.
 */
#ifndef ROX_ABI_PABI_HPP
#define ROX_ABI_PABI_HPP

#ifndef ROX_PABI
#error "ROX_PABI is not defined: build with userspace/Makefile"
#elif ROX_PABI != 34 && ROX_PABI != 57 && ROX_PABI != 59 && ROX_PABI != 64 && ROX_PABI != 65
#error "This number of libibverbs' private interface is not declared in userspace/abi"
#endif

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <ctime>

/// verbs_register_driver_34 and so on: the name has the number.
#define ROX_PASTE(name, number) name##number
#define ROX_NUMBERED(name, number) ROX_PASTE(name, number)
#define ROX_REGISTER_DRIVER ROX_NUMBERED(verbs_register_driver_, ROX_PABI)

namespace rdmacore {

/// A command for write(): a header, then the kernel's request structure.
template <typename Core>
struct Command {
    ib_uverbs_cmd_hdr hdr;
    Core core;
};

/// The same for the extended commands.
template <typename Core>
struct ExCommand {
    ib_uverbs_cmd_hdr hdr;
    ib_uverbs_ex_cmd_hdr ex_hdr;
    Core core;
};

/// A node of a linked list that only libibverbs uses.
struct list_node {
    list_node *next, *prev;
};

/// Values of verbs_match_ent::kind.
enum match_kind : uint8_t {
    MATCH_SENTINEL = 0,
    MATCH_DRIVER_ID = 3,
};

struct verbs_match_ent {
    void *driver_data;
    union {
        const char *modalias;
        uint64_t driver_id;
    } u;
    uint16_t vendor;
    uint16_t device;
    uint8_t kind;
};
static_assert(sizeof(verbs_match_ent) == 24);
static_assert(offsetof(verbs_match_ent, u) == 8);
static_assert(offsetof(verbs_match_ent, kind) == 20);

/// A device that libibverbs found by netlink or in sysfs.
struct verbs_sysfs_dev {
    list_node entry;
    void *provider_data;
    const verbs_match_ent *match;
    unsigned int flags;
    char sysfs_name[IBV_SYSFS_NAME_MAX];
    dev_t sysfs_cdev;
    char ibdev_name[IBV_SYSFS_NAME_MAX];
    char ibdev_path[IBV_SYSFS_PATH_MAX];
    char modalias[512];
    uint64_t node_guid;
    uint32_t driver_id;
    ibv_node_type node_type;
    int ibdev_idx;
    uint32_t num_ports;
    uint32_t abi_ver;
    timespec time_created;
};
static_assert(sizeof(verbs_sysfs_dev) == 992);
static_assert(offsetof(verbs_sysfs_dev, match) == 24);
static_assert(offsetof(verbs_sysfs_dev, sysfs_cdev) == 104);
static_assert(offsetof(verbs_sysfs_dev, ibdev_name) == 112);
static_assert(offsetof(verbs_sysfs_dev, node_guid) == 944);
static_assert(offsetof(verbs_sysfs_dev, driver_id) == 952);
static_assert(offsetof(verbs_sysfs_dev, abi_ver) == 968);
static_assert(offsetof(verbs_sysfs_dev, time_created) == 976);

struct verbs_device;

/// Registered by a provider: how to match its devices and to open them.
struct verbs_device_ops {
    const char *name;
    uint32_t match_min_abi_version;
    uint32_t match_max_abi_version;
    const verbs_match_ent *match_table;
    const verbs_device_ops **static_providers;
    bool (*match_device)(verbs_sysfs_dev *sysfs_dev);
    verbs_context *(*alloc_context)(ibv_device *device, int cmd_fd, void *private_data);
    verbs_context *(*import_context)(ibv_device *device, int cmd_fd);
    verbs_device *(*alloc_device)(verbs_sysfs_dev *sysfs_dev);
    void (*uninit_device)(verbs_device *device);
};
static_assert(sizeof(verbs_device_ops) == 72);
static_assert(offsetof(verbs_device_ops, match_table) == 16);
static_assert(offsetof(verbs_device_ops, match_device) == 32);
static_assert(offsetof(verbs_device_ops, alloc_context) == 40);
static_assert(offsetof(verbs_device_ops, uninit_device) == 64);

struct verbs_device {
    ibv_device device;
    const verbs_device_ops *ops;
    int refcount; // atomic in C; only libibverbs touches it
    list_node entry;
    verbs_sysfs_dev *sysfs;
    uint64_t core_support;
};
static_assert(sizeof(verbs_device) == 712);
static_assert(offsetof(verbs_device, ops) == 664);
static_assert(offsetof(verbs_device, refcount) == 672);
static_assert(offsetof(verbs_device, sysfs) == 696);

struct verbs_xrcd {
    ibv_xrcd xrcd;
    uint32_t comp_mask;
    uint32_t handle;
};
static_assert(sizeof(verbs_xrcd) == 16);
static_assert(offsetof(verbs_xrcd, handle) == 12);

/// A mutex has 40 bytes on x86-64, for which the numbers here and in layout.cpp are, and 48 on
/// arm64. Contexts, CQs, SRQs and QPs have one each.
constexpr size_t mutex_more = sizeof(pthread_mutex_t) - 40;
static_assert(mutex_more % alignof(void *) == 0 && sizeof(pthread_cond_t) == 48);

struct verbs_srq {
    ibv_srq srq;
    ibv_srq_type srq_type;
    verbs_xrcd *xrcd;
    ibv_cq *cq;
    uint32_t srq_num;
};
static_assert(sizeof(verbs_srq) == 160 + mutex_more);
static_assert(offsetof(verbs_srq, srq_type) == 128 + mutex_more);
static_assert(offsetof(verbs_srq, srq_num) == 152 + mutex_more);

struct verbs_mr {
    ibv_mr mr;
    int mr_type;
    int access;
};
static_assert(sizeof(verbs_mr) == 56);
static_assert(offsetof(verbs_mr, mr_type) == 48);
static_assert(offsetof(verbs_mr, access) == 52);

/// Bits of verbs_qp::comp_mask.
enum verbs_qp_mask : uint32_t {
    QP_MASK_EX = 1U << 1,
};

/// What differs between the layouts of verbs_qp lies behind these members: see Layout::qp_mask.
struct verbs_qp {
    static constexpr size_t largest = 376 + mutex_more;

    union {
        ibv_qp qp;
        ibv_qp_ex qp_ex;
        std::byte all[largest];
    };
};
static_assert(sizeof(verbs_qp) == verbs_qp::largest);
static_assert(offsetof(ibv_qp_ex, qp_base) == 0 && sizeof(ibv_qp) == 160 + mutex_more);
static_assert(offsetof(ibv_qp_ex, wr_start) == 320 + mutex_more &&
              offsetof(ibv_qp_ex, wr_atomic_write) == 344 + mutex_more);

struct verbs_cq {
    union {
        ibv_cq cq;
        ibv_cq_ex cq_ex;
    };
};
static_assert(sizeof(verbs_cq) == 288 + mutex_more);

/// An operation that rox leaves to libibverbs' default.
using unused_op = void (*)();

/// The operations of a provider. For a null pointer libibverbs keeps its default. This is the
/// newest layout of the number, see late_ops.
struct verbs_context_ops {
    int (*advise_mr)(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *sg_list,
                     uint32_t num_sge);
#if ROX_PABI >= 64
    unused_op alloc_buf;
#endif
    unused_op alloc_dm;
#if ROX_PABI >= 59
    unused_op alloc_dmah;
#endif
    ibv_mw *(*alloc_mw)(ibv_pd *pd, ibv_mw_type type);
    unused_op alloc_null_mr;
    ibv_pd *(*alloc_parent_domain)(ibv_context *context, ibv_parent_domain_init_attr *attr);
    ibv_pd *(*alloc_pd)(ibv_context *context);
    ibv_td *(*alloc_td)(ibv_context *context, ibv_td_init_attr *init_attr);
    unused_op async_event;
    unused_op attach_counters_point_flow;
    int (*attach_mcast)(ibv_qp *qp, const ibv_gid *gid, uint16_t lid);
    int (*bind_mw)(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *mw_bind);
    int (*close_xrcd)(ibv_xrcd *xrcd);
    unused_op cq_event;
    ibv_ah *(*create_ah)(ibv_pd *pd, ibv_ah_attr *attr);
#if ROX_PABI >= 65
    unused_op create_comp_cntr;
#endif
    unused_op create_counters;
    ibv_cq *(*create_cq)(ibv_context *context, int cqe, ibv_comp_channel *channel, int comp_vector);
    ibv_cq_ex *(*create_cq_ex)(ibv_context *context, ibv_cq_init_attr_ex *init_attr);
    unused_op create_flow;
    unused_op create_flow_action_esp;
    ibv_qp *(*create_qp)(ibv_pd *pd, ibv_qp_init_attr *attr);
    ibv_qp *(*create_qp_ex)(ibv_context *context, ibv_qp_init_attr_ex *attr);
    unused_op create_rwq_ind_table;
    ibv_srq *(*create_srq)(ibv_pd *pd, ibv_srq_init_attr *attr);
    ibv_srq *(*create_srq_ex)(ibv_context *context, ibv_srq_init_attr_ex *attr);
    unused_op create_wq;
#if ROX_PABI >= 59
    unused_op dealloc_dmah;
#endif
    int (*dealloc_mw)(ibv_mw *mw);
    int (*dealloc_pd)(ibv_pd *pd);
    int (*dealloc_td)(ibv_td *td);
    int (*dereg_mr)(verbs_mr *vmr);
    int (*destroy_ah)(ibv_ah *ah);
#if ROX_PABI >= 65
    unused_op destroy_comp_cntr;
#endif
    unused_op destroy_counters;
    int (*destroy_cq)(ibv_cq *cq);
    unused_op destroy_flow;
    unused_op destroy_flow_action;
    int (*destroy_qp)(ibv_qp *qp);
    unused_op destroy_rwq_ind_table;
    int (*destroy_srq)(ibv_srq *srq);
    unused_op destroy_wq;
    int (*detach_mcast)(ibv_qp *qp, const ibv_gid *gid, uint16_t lid);
#if ROX_PABI >= 59
    unused_op dm_export_dmabuf_fd; // from v62 on, see late_ops
#endif
#if ROX_PABI >= 64
    unused_op free_buf;
#endif
    void (*free_context)(ibv_context *context);
    unused_op free_dm;
    int (*get_srq_num)(ibv_srq *srq, uint32_t *srq_num);
    unused_op import_dm;
    unused_op import_mr;
    unused_op import_pd;
#if ROX_PABI >= 65
    unused_op inc_comp_cntr;
    unused_op inc_err_comp_cntr;
#endif
    int (*modify_cq)(ibv_cq *cq, ibv_modify_cq_attr *attr);
    unused_op modify_flow_action_esp;
    int (*modify_qp)(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask);
    unused_op modify_qp_rate_limit;
    int (*modify_srq)(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask);
    unused_op modify_wq;
    ibv_qp *(*open_qp)(ibv_context *context, ibv_qp_open_attr *attr);
    ibv_xrcd *(*open_xrcd)(ibv_context *context, ibv_xrcd_init_attr *init_attr);
    int (*poll_cq)(ibv_cq *cq, int num_entries, ibv_wc *wc);
    int (*post_recv)(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);
    int (*post_send)(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr);
    unused_op post_srq_ops;
    int (*post_srq_recv)(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);
#if ROX_PABI >= 65
    unused_op qp_attach_comp_cntr;
    unused_op query_comp_cntr_caps;
#endif
    int (*query_device_ex)(ibv_context *context, const ibv_query_device_ex_input *input,
                           ibv_device_attr_ex *attr, size_t attr_size);
    int (*query_ece)(ibv_qp *qp, ibv_ece *ece);
    int (*query_port)(ibv_context *context, uint8_t port_num, ibv_port_attr *attr);
#if ROX_PABI >= 59
    unused_op query_port_speed; // from v62 on, see late_ops
#endif
    int (*query_qp)(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr);
    unused_op query_qp_data_in_order;
    int (*query_rt_values)(ibv_context *context, ibv_values_ex *values);
    int (*query_srq)(ibv_srq *srq, ibv_srq_attr *attr);
#if ROX_PABI >= 65
    unused_op read_comp_cntr;
#endif
    unused_op read_counters;
#if ROX_PABI >= 65
    unused_op read_err_comp_cntr;
#endif
    unused_op reg_dm_mr;
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                             int access);
    ibv_mr *(*reg_mr)(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
#if ROX_PABI >= 59
    unused_op reg_mr_ex;
#endif
    int (*req_notify_cq)(ibv_cq *cq, int solicited_only);
    int (*rereg_mr)(verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length, int access);
    int (*resize_cq)(ibv_cq *cq, int cqe);
#if ROX_PABI >= 65
    unused_op set_comp_cntr;
#endif
    int (*set_ece)(ibv_qp *qp, ibv_ece *ece);
#if ROX_PABI >= 65
    unused_op set_err_comp_cntr;
#endif
    unused_op unimport_dm;
    unused_op unimport_mr;
    unused_op unimport_pd;
};

/// Of numbers for the interfaces 34, 57, 59 (v62), 64 and 65, the one for this interface.
constexpr size_t by_number(size_t v34, size_t v57, size_t v59, size_t v64, size_t v65)
{
    return ROX_PABI == 34   ? v34
           : ROX_PABI == 57 ? v57
           : ROX_PABI == 59 ? v59
           : ROX_PABI == 64 ? v64
                            : v65;
}

constexpr size_t op_index(size_t offset)
{
    return offset / sizeof(unused_op);
}

static_assert(sizeof(verbs_context_ops) == by_number(76, 76, 81, 83, 93) * sizeof(unused_op));
static_assert(op_index(offsetof(verbs_context_ops, advise_mr)) == by_number(0, 0, 0, 0, 0));
static_assert(op_index(offsetof(verbs_context_ops, alloc_mw)) == by_number(2, 2, 3, 4, 4));
static_assert(op_index(offsetof(verbs_context_ops, alloc_parent_domain)) ==
              by_number(4, 4, 5, 6, 6));
static_assert(op_index(offsetof(verbs_context_ops, alloc_pd)) == by_number(5, 5, 6, 7, 7));
static_assert(op_index(offsetof(verbs_context_ops, alloc_td)) == by_number(6, 6, 7, 8, 8));
static_assert(op_index(offsetof(verbs_context_ops, attach_mcast)) == by_number(9, 9, 10, 11, 11));
static_assert(op_index(offsetof(verbs_context_ops, bind_mw)) == by_number(10, 10, 11, 12, 12));
static_assert(op_index(offsetof(verbs_context_ops, close_xrcd)) == by_number(11, 11, 12, 13, 13));
static_assert(op_index(offsetof(verbs_context_ops, create_ah)) == by_number(13, 13, 14, 15, 15));
static_assert(op_index(offsetof(verbs_context_ops, create_cq)) == by_number(15, 15, 16, 17, 18));
static_assert(op_index(offsetof(verbs_context_ops, create_cq_ex)) == by_number(16, 16, 17, 18, 19));
static_assert(op_index(offsetof(verbs_context_ops, create_qp)) == by_number(19, 19, 20, 21, 22));
static_assert(op_index(offsetof(verbs_context_ops, create_qp_ex)) == by_number(20, 20, 21, 22, 23));
static_assert(op_index(offsetof(verbs_context_ops, create_srq)) == by_number(22, 22, 23, 24, 25));
static_assert(op_index(offsetof(verbs_context_ops, create_srq_ex)) ==
              by_number(23, 23, 24, 25, 26));
static_assert(op_index(offsetof(verbs_context_ops, dealloc_mw)) == by_number(25, 25, 27, 28, 29));
static_assert(op_index(offsetof(verbs_context_ops, dealloc_pd)) == by_number(26, 26, 28, 29, 30));
static_assert(op_index(offsetof(verbs_context_ops, dealloc_td)) == by_number(27, 27, 29, 30, 31));
static_assert(op_index(offsetof(verbs_context_ops, dereg_mr)) == by_number(28, 28, 30, 31, 32));
static_assert(op_index(offsetof(verbs_context_ops, destroy_ah)) == by_number(29, 29, 31, 32, 33));
static_assert(op_index(offsetof(verbs_context_ops, destroy_cq)) == by_number(31, 31, 33, 34, 36));
static_assert(op_index(offsetof(verbs_context_ops, destroy_qp)) == by_number(34, 34, 36, 37, 39));
static_assert(op_index(offsetof(verbs_context_ops, destroy_srq)) == by_number(36, 36, 38, 39, 41));
static_assert(op_index(offsetof(verbs_context_ops, detach_mcast)) == by_number(38, 38, 40, 41, 43));
static_assert(op_index(offsetof(verbs_context_ops, free_context)) == by_number(39, 39, 42, 44, 46));
static_assert(op_index(offsetof(verbs_context_ops, get_srq_num)) == by_number(41, 41, 44, 46, 48));
static_assert(op_index(offsetof(verbs_context_ops, modify_cq)) == by_number(45, 45, 48, 50, 54));
static_assert(op_index(offsetof(verbs_context_ops, modify_qp)) == by_number(47, 47, 50, 52, 56));
static_assert(op_index(offsetof(verbs_context_ops, modify_srq)) == by_number(49, 49, 52, 54, 58));
static_assert(op_index(offsetof(verbs_context_ops, open_qp)) == by_number(51, 51, 54, 56, 60));
static_assert(op_index(offsetof(verbs_context_ops, open_xrcd)) == by_number(52, 52, 55, 57, 61));
static_assert(op_index(offsetof(verbs_context_ops, poll_cq)) == by_number(53, 53, 56, 58, 62));
static_assert(op_index(offsetof(verbs_context_ops, post_recv)) == by_number(54, 54, 57, 59, 63));
static_assert(op_index(offsetof(verbs_context_ops, post_send)) == by_number(55, 55, 58, 60, 64));
static_assert(op_index(offsetof(verbs_context_ops, post_srq_recv)) ==
              by_number(57, 57, 60, 62, 66));
static_assert(op_index(offsetof(verbs_context_ops, query_device_ex)) ==
              by_number(58, 58, 61, 63, 69));
static_assert(op_index(offsetof(verbs_context_ops, query_port)) == by_number(60, 60, 63, 65, 71));
static_assert(op_index(offsetof(verbs_context_ops, query_qp)) == by_number(61, 61, 65, 67, 73));
static_assert(op_index(offsetof(verbs_context_ops, query_rt_values)) ==
              by_number(63, 63, 67, 69, 75));
static_assert(op_index(offsetof(verbs_context_ops, query_srq)) == by_number(64, 64, 68, 70, 76));
static_assert(op_index(offsetof(verbs_context_ops, reg_dmabuf_mr)) ==
              by_number(67, 67, 71, 73, 81));
static_assert(op_index(offsetof(verbs_context_ops, reg_mr)) == by_number(68, 68, 72, 74, 82));
static_assert(op_index(offsetof(verbs_context_ops, req_notify_cq)) ==
              by_number(69, 69, 74, 76, 84));
static_assert(op_index(offsetof(verbs_context_ops, rereg_mr)) == by_number(70, 70, 75, 77, 85));
static_assert(op_index(offsetof(verbs_context_ops, resize_cq)) == by_number(71, 71, 76, 78, 86));

/// The operations that the oldest rdma-core of this number lacks.
#if ROX_PABI == 59
constexpr std::array<size_t, 2> late_ops = {
    op_index(offsetof(verbs_context_ops, dm_export_dmabuf_fd)),
    op_index(offsetof(verbs_context_ops, query_port_speed)),
};
#else
constexpr std::array<size_t, 0> late_ops = {};
#endif

using get_context_cmd = Command<ib_uverbs_get_context>;
using alloc_pd_cmd = Command<ib_uverbs_alloc_pd>;
using reg_mr_cmd = Command<ib_uverbs_reg_mr>;
using alloc_mw_cmd = Command<ib_uverbs_alloc_mw>;
using rereg_mr_cmd = Command<ib_uverbs_rereg_mr>;
using query_port_cmd = Command<ib_uverbs_query_port>;
using create_cq_ex_cmd = ExCommand<ib_uverbs_ex_create_cq>;
using modify_cq_cmd = ExCommand<ib_uverbs_ex_modify_cq>;
using resize_cq_cmd = Command<ib_uverbs_resize_cq>;
using open_xrcd_cmd = Command<ib_uverbs_open_xrcd>;
using create_xsrq_cmd = Command<ib_uverbs_create_xsrq>;
using open_qp_cmd = Command<ib_uverbs_open_qp>;
using create_srq_cmd = Command<ib_uverbs_create_srq>;
using modify_srq_cmd = Command<ib_uverbs_modify_srq>;
using query_srq_cmd = Command<ib_uverbs_query_srq>;
using create_qp_ex_cmd = ExCommand<ib_uverbs_ex_create_qp>;
using modify_qp_cmd = Command<ib_uverbs_modify_qp>;
using query_qp_cmd = Command<ib_uverbs_query_qp>;
using post_send_cmd = Command<ib_uverbs_post_send>;
using post_recv_cmd = Command<ib_uverbs_post_recv>;
static_assert(sizeof(get_context_cmd) == 16 && sizeof(alloc_pd_cmd) == 16);
static_assert(sizeof(reg_mr_cmd) == 48 && sizeof(query_port_cmd) == 24);
static_assert(sizeof(alloc_mw_cmd) == 24 && sizeof(ib_uverbs_alloc_mw_resp) == 8);
static_assert(sizeof(rereg_mr_cmd) == 56 && sizeof(ib_uverbs_rereg_mr_resp) == 8);
static_assert(sizeof(create_cq_ex_cmd) == 56 && sizeof(resize_cq_cmd) == 24);
static_assert(sizeof(modify_cq_cmd) == 40);
static_assert(sizeof(create_srq_cmd) == 40 && sizeof(modify_srq_cmd) == 24);
static_assert(sizeof(query_srq_cmd) == 24 && sizeof(create_qp_ex_cmd) == 88);
static_assert(sizeof(modify_qp_cmd) == 120 && sizeof(query_qp_cmd) == 24);
static_assert(sizeof(post_send_cmd) == 32 && sizeof(post_recv_cmd) == 32);
static_assert(sizeof(open_xrcd_cmd) == 24 && sizeof(create_xsrq_cmd) == 56);
static_assert(sizeof(open_qp_cmd) == 40 && sizeof(ib_uverbs_open_xrcd_resp) == 4);
static_assert(sizeof(ib_uverbs_create_qp_resp) == 32);
static_assert(sizeof(ib_uverbs_get_context_resp) == 8 && sizeof(ib_uverbs_alloc_pd_resp) == 4);
static_assert(sizeof(ib_uverbs_reg_mr_resp) == 12 && sizeof(ib_uverbs_create_ah_resp) == 4);
static_assert(sizeof(ib_uverbs_ex_create_cq_resp) == 16 && sizeof(ib_uverbs_resize_cq_resp) == 8);
static_assert(sizeof(ib_uverbs_create_srq_resp) == 16);
static_assert(sizeof(ib_uverbs_ex_create_qp_resp) == 40);
static_assert(sizeof(ib_uverbs_ex_query_device_resp) == 304);

/// A driver's own attributes for an ioctl; rox has none.
struct ibv_command_buffer;

/// A driver's own buffer for a completion queue; rox has none.
struct verbs_create_cq_prov_attr;

/// File descriptors for the kernel to use; rox has none.
struct fd_array;

/// Levels of __verbs_log().
enum log_level : uint32_t {
    LOG_ERR = 1,
    LOG_WARN = 2,
};

/*
 * Functions that libibverbs exports to providers under IBVERBS_PRIVATE_<ROX_PABI>.
 * Those that return int return 0 or a value of errno.
 */
extern "C" {

void ROX_REGISTER_DRIVER(const verbs_device_ops *ops);
void *_verbs_init_and_alloc_context(ibv_device *device, int cmd_fd, size_t alloc_size,
                                    verbs_context *context_offset, uint32_t driver_id);
void verbs_uninit_context(verbs_context *context);
void verbs_set_ops(verbs_context *context, const verbs_context_ops *ops);
void __verbs_log(verbs_context *context, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#if ROX_PABI >= 57
int ibv_cmd_get_context(verbs_context *context, get_context_cmd *cmd, size_t cmd_size,
                        fd_array *fds, ib_uverbs_get_context_resp *resp, size_t resp_size);
#else
int ibv_cmd_get_context(verbs_context *context, get_context_cmd *cmd, size_t cmd_size,
                        ib_uverbs_get_context_resp *resp, size_t resp_size);
#endif
int ibv_cmd_query_device_any(ibv_context *context, const ibv_query_device_ex_input *input,
                             ibv_device_attr_ex *attr, size_t attr_size,
                             ib_uverbs_ex_query_device_resp *resp, size_t *resp_size);
int ibv_cmd_query_port(ibv_context *context, uint8_t port_num, ibv_port_attr *attr,
                       query_port_cmd *cmd, size_t cmd_size);

int ibv_cmd_alloc_pd(ibv_context *context, ibv_pd *pd, alloc_pd_cmd *cmd, size_t cmd_size,
                     ib_uverbs_alloc_pd_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_pd(ibv_pd *pd);

int ibv_cmd_reg_mr(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access,
                   verbs_mr *vmr, reg_mr_cmd *cmd, size_t cmd_size, ib_uverbs_reg_mr_resp *resp,
                   size_t resp_size);
/*
 * @driver exists from v54 on. Older versions ignore it: in the C calling conventions
 * of the machines that rox runs on, the caller removes surplus arguments.
 */
int ibv_cmd_reg_dmabuf_mr(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                          int access, verbs_mr *vmr, ibv_command_buffer *driver);
int ibv_cmd_dereg_mr(verbs_mr *vmr);
int ibv_cmd_rereg_mr(verbs_mr *vmr, uint32_t flags, void *addr, size_t length, uint64_t hca_va,
                     int access, ibv_pd *pd, rereg_mr_cmd *cmd, size_t cmd_size,
                     ib_uverbs_rereg_mr_resp *resp, size_t resp_size);

int ibv_cmd_alloc_mw(ibv_pd *pd, ibv_mw_type type, ibv_mw *mw, alloc_mw_cmd *cmd, size_t cmd_size,
                     ib_uverbs_alloc_mw_resp *resp, size_t resp_size);
int ibv_cmd_dealloc_mw(ibv_mw *mw);
int ibv_cmd_advise_mr(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *sg_list,
                      uint32_t num_sge);

int ibv_cmd_create_ah(ibv_pd *pd, ibv_ah *ah, ibv_ah_attr *attr, ib_uverbs_create_ah_resp *resp,
                      size_t resp_size);
int ibv_cmd_destroy_ah(ibv_ah *ah);

#if ROX_PABI >= 59
int ibv_cmd_create_cq_ex(ibv_context *context, const ibv_cq_init_attr_ex *attr,
                         verbs_create_cq_prov_attr *prov_attr, verbs_cq *cq, create_cq_ex_cmd *cmd,
                         size_t cmd_size, ib_uverbs_ex_create_cq_resp *resp, size_t resp_size,
                         uint32_t cmd_flags);
#else
int ibv_cmd_create_cq_ex(ibv_context *context, const ibv_cq_init_attr_ex *attr, verbs_cq *cq,
                         create_cq_ex_cmd *cmd, size_t cmd_size, ib_uverbs_ex_create_cq_resp *resp,
                         size_t resp_size, uint32_t cmd_flags);
#endif
int ibv_cmd_resize_cq(ibv_cq *cq, int cqe, resize_cq_cmd *cmd, size_t cmd_size,
                      ib_uverbs_resize_cq_resp *resp, size_t resp_size);
int ibv_cmd_modify_cq(ibv_cq *cq, ibv_modify_cq_attr *attr, modify_cq_cmd *cmd, size_t cmd_size);
int ibv_cmd_destroy_cq(ibv_cq *cq);

int ibv_cmd_create_srq(ibv_pd *pd, ibv_srq *srq, ibv_srq_init_attr *attr, create_srq_cmd *cmd,
                       size_t cmd_size, ib_uverbs_create_srq_resp *resp, size_t resp_size);
int ibv_cmd_open_xrcd(ibv_context *context, verbs_xrcd *xrcd, int xrcd_size,
                      ibv_xrcd_init_attr *attr, open_xrcd_cmd *cmd, size_t cmd_size,
                      ib_uverbs_open_xrcd_resp *resp, size_t resp_size);
int ibv_cmd_close_xrcd(verbs_xrcd *xrcd);
int ibv_cmd_create_srq_ex(ibv_context *context, verbs_srq *srq, ibv_srq_init_attr_ex *attr,
                          create_xsrq_cmd *cmd, size_t cmd_size, ib_uverbs_create_srq_resp *resp,
                          size_t resp_size);
int ibv_cmd_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int attr_mask, modify_srq_cmd *cmd,
                       size_t cmd_size);
int ibv_cmd_query_srq(ibv_srq *srq, ibv_srq_attr *attr, query_srq_cmd *cmd, size_t cmd_size);
int ibv_cmd_destroy_srq(ibv_srq *srq);

/* @driver exists from v64 on; older versions ignore it as they do that above. */
int ibv_cmd_create_qp_ex2(ibv_context *context, verbs_qp *qp, ibv_qp_init_attr_ex *attr,
                          create_qp_ex_cmd *cmd, size_t cmd_size, ib_uverbs_ex_create_qp_resp *resp,
                          size_t resp_size, ibv_command_buffer *driver);
int ibv_cmd_open_qp(ibv_context *context, verbs_qp *qp, int qp_size, ibv_qp_open_attr *attr,
                    open_qp_cmd *cmd, size_t cmd_size, ib_uverbs_create_qp_resp *resp,
                    size_t resp_size);
int ibv_cmd_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, modify_qp_cmd *cmd,
                      size_t cmd_size);
int ibv_cmd_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr,
                     query_qp_cmd *cmd, size_t cmd_size);
int ibv_cmd_destroy_qp(ibv_qp *qp);
int ibv_cmd_post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad_wr);
int ibv_cmd_post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr);
int ibv_cmd_attach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid);
int ibv_cmd_detach_mcast(ibv_qp *qp, const ibv_gid *gid, uint16_t lid);

} // extern "C"

} // namespace rdmacore

#endif // ROX_ABI_PABI_HPP
