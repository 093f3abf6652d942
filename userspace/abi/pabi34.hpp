/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The private interface between libibverbs and a provider, generation 34, as
 * far as rox uses it: as rdma-core v44 to v56 have it.
 *
 * The number alone does not say it. v34 and v35 have other operations, before v44
 * ibv_qp_ex has no atomic write, from v45 on it has a flush, which moves what is
 * behind it in verbs_qp, and in v54 a function got one more argument. So the
 * makefile refuses what is older than 44, verbs_qp is laid out by the ibv_qp_ex
 * of the headers that we are built with, and a provider must be built again
 * when rdma-core goes from 44 to 45 or back.
 *
 * libibverbs-dev does not install it, so it is declared here. The numbers in
 * the static_asserts were printed by a C program that was compiled against
 * rdma-core 44's own header on x86-64; on another machine word size the
 * asserts on function tables still hold in multiples of the pointer size.
 *
 * Another generation is another header of this name pattern; abi/pabi.hpp
 * chooses. Everything is in namespace rdmacore and has the names of the
 * structures and functions it stands for.
 */
#ifndef ROX_ABI_PABI34_HPP
#define ROX_ABI_PABI34_HPP

#include <infiniband/verbs.h>
#include <rdma/ib_user_verbs.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <ctime>

namespace rdmacore {

/// A command as write() takes it: a header, then the kernel's request structure.
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

/// Two pointers of a linked list that is libibverbs' own business.
struct list_node {
    list_node *next, *prev;
};

/// What verbs_match_ent::kind says about the entry.
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

/// What a provider registers: how to recognise its devices and to open them.
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

struct verbs_srq {
    ibv_srq srq;
    ibv_srq_type srq_type;
    verbs_xrcd *xrcd;
    ibv_cq *cq;
    uint32_t srq_num;
};
static_assert(sizeof(verbs_srq) == 160);
static_assert(offsetof(verbs_srq, srq_type) == 128);
static_assert(offsetof(verbs_srq, srq_num) == 152);

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

struct verbs_qp {
    union {
        ibv_qp qp;
        ibv_qp_ex qp_ex;
    };
    uint32_t comp_mask;
    verbs_xrcd *xrcd;
};
static_assert(sizeof(verbs_qp) == sizeof(ibv_qp_ex) + 2 * sizeof(void *));
static_assert(offsetof(ibv_qp_ex, qp_base) == 0);
static_assert(offsetof(verbs_qp, comp_mask) == sizeof(ibv_qp_ex));

struct verbs_cq {
    union {
        ibv_cq cq;
        ibv_cq_ex cq_ex;
    };
};
static_assert(sizeof(verbs_cq) == 288);

/// An operation that rox leaves to libibverbs' default.
using unused_op = void (*)();

/// Every operation that a provider can supply, by name; a null one keeps the default.
struct verbs_context_ops {
    int (*advise_mr)(ibv_pd *pd, ibv_advise_mr_advice advice, uint32_t flags, ibv_sge *sg_list,
                     uint32_t num_sge);
    unused_op alloc_dm;
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
    int (*dealloc_mw)(ibv_mw *mw);
    int (*dealloc_pd)(ibv_pd *pd);
    int (*dealloc_td)(ibv_td *td);
    int (*dereg_mr)(verbs_mr *vmr);
    int (*destroy_ah)(ibv_ah *ah);
    unused_op destroy_counters;
    int (*destroy_cq)(ibv_cq *cq);
    unused_op destroy_flow;
    unused_op destroy_flow_action;
    int (*destroy_qp)(ibv_qp *qp);
    unused_op destroy_rwq_ind_table;
    int (*destroy_srq)(ibv_srq *srq);
    unused_op destroy_wq;
    int (*detach_mcast)(ibv_qp *qp, const ibv_gid *gid, uint16_t lid);
    void (*free_context)(ibv_context *context);
    unused_op free_dm;
    int (*get_srq_num)(ibv_srq *srq, uint32_t *srq_num);
    unused_op import_dm;
    unused_op import_mr;
    unused_op import_pd;
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
    int (*query_device_ex)(ibv_context *context, const ibv_query_device_ex_input *input,
                           ibv_device_attr_ex *attr, size_t attr_size);
    unused_op query_ece;
    int (*query_port)(ibv_context *context, uint8_t port_num, ibv_port_attr *attr);
    int (*query_qp)(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask, ibv_qp_init_attr *init_attr);
    unused_op query_qp_data_in_order;
    int (*query_rt_values)(ibv_context *context, ibv_values_ex *values);
    int (*query_srq)(ibv_srq *srq, ibv_srq_attr *attr);
    unused_op read_counters;
    unused_op reg_dm_mr;
    ibv_mr *(*reg_dmabuf_mr)(ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd,
                             int access);
    ibv_mr *(*reg_mr)(ibv_pd *pd, void *addr, size_t length, uint64_t hca_va, int access);
    int (*req_notify_cq)(ibv_cq *cq, int solicited_only);
    int (*rereg_mr)(verbs_mr *vmr, int flags, ibv_pd *pd, void *addr, size_t length, int access);
    int (*resize_cq)(ibv_cq *cq, int cqe);
    unused_op set_ece;
    unused_op unimport_dm;
    unused_op unimport_mr;
    unused_op unimport_pd;
};
static_assert(sizeof(verbs_context_ops) == 76 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, alloc_mw) == 2 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, advise_mr) == 0);
static_assert(offsetof(verbs_context_ops, alloc_parent_domain) == 4 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, attach_mcast) == 9 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, bind_mw) == 10 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, close_xrcd) == 11 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, create_ah) == 13 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, create_cq_ex) == 16 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, create_qp) == 19 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, create_srq) == 22 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, dealloc_mw) == 25 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, dealloc_pd) == 26 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, dereg_mr) == 28 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, destroy_cq) == 31 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, destroy_qp) == 34 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, destroy_srq) == 36 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, free_context) == 39 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, get_srq_num) == 41 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, modify_cq) == 45 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, modify_qp) == 47 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, modify_srq) == 49 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, open_qp) == 51 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, open_xrcd) == 52 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, poll_cq) == 53 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, post_send) == 55 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, post_srq_recv) == 57 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, query_device_ex) == 58 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, query_port) == 60 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, query_rt_values) == 63 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, reg_dmabuf_mr) == 67 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, reg_mr) == 68 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, req_notify_cq) == 69 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, rereg_mr) == 70 * sizeof(void *));
static_assert(offsetof(verbs_context_ops, resize_cq) == 71 * sizeof(void *));

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

/// Attributes of our own for an ioctl; rox has none.
struct ibv_command_buffer;

/// Levels of __verbs_log().
enum log_level : uint32_t {
    LOG_ERR = 1,
    LOG_WARN = 2,
};

/*
 * Functions that libibverbs exports to providers under IBVERBS_PRIVATE_34.
 * Those that return int return 0 or a value of errno.
 */
extern "C" {

void verbs_register_driver_34(const verbs_device_ops *ops);
void *_verbs_init_and_alloc_context(ibv_device *device, int cmd_fd, size_t alloc_size,
                                    verbs_context *context_offset, uint32_t driver_id);
void verbs_uninit_context(verbs_context *context);
void verbs_set_ops(verbs_context *context, const verbs_context_ops *ops);
void __verbs_log(verbs_context *context, uint32_t level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

int ibv_cmd_get_context(verbs_context *context, get_context_cmd *cmd, size_t cmd_size,
                        ib_uverbs_get_context_resp *resp, size_t resp_size);
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
 * @driver came with v54. Older ones do not look at it: in the calling conventions
 * of C that rox runs on, an argument too many is the caller's to clear away.
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

int ibv_cmd_create_cq_ex(ibv_context *context, const ibv_cq_init_attr_ex *attr, verbs_cq *cq,
                         create_cq_ex_cmd *cmd, size_t cmd_size, ib_uverbs_ex_create_cq_resp *resp,
                         size_t resp_size, uint32_t cmd_flags);
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

int ibv_cmd_create_qp_ex2(ibv_context *context, verbs_qp *qp, ibv_qp_init_attr_ex *attr,
                          create_qp_ex_cmd *cmd, size_t cmd_size, ib_uverbs_ex_create_qp_resp *resp,
                          size_t resp_size);
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

int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

} // extern "C"

/// Registers a provider with the libibverbs that loads it.
inline void register_driver(const verbs_device_ops *ops)
{
    verbs_register_driver_34(ops);
}

} // namespace rdmacore

#endif // ROX_ABI_PABI34_HPP
