// SPDX-License-Identifier: GPL-2.0
/*
 * Attributes of the device and its port, and the table of verbs.
 */
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>
#include <linux/sizes.h>
#include <rdma/ib_mad.h>

#include "internal.h"
#include "../compat/ops.h"

#define ROX_VENDOR_ID	0x726f78
#define ROX_HW_VER	1
#define ROX_FW_MAJOR	1
#define ROX_FW_MINOR	0
#define ROX_FW_SUB	0

/* 4.096 us * 2^15 = 134 ms: the time that a busy host may take for an ACK. */
#define ROX_CA_ACK_DELAY	15

/* ---- device ---- */

static void rox_device_limits(const struct rox_dev *dev, struct ib_device_attr *attr)
{
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = U32_MAX & ~(u64)(SZ_4K - 1);
	attr->max_qp = ROX_MAX_QP;
	attr->max_qp_wr = ROX_MAX_QP_WR;
	attr->max_send_sge = ROX_MAX_SGE;
	attr->max_recv_sge = ROX_MAX_SGE;
	attr->max_sge_rd = ROX_MAX_SGE;
	attr->max_cq = ROX_MAX_CQ;
	attr->max_cqe = ROX_MAX_CQE;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	attr->max_mr = ROX_MAX_MR;
	attr->max_mw = ROX_MAX_MW;
	attr->max_pd = ROX_MAX_PD;
	attr->max_ah = ROX_MAX_AH;
	attr->max_srq = ROX_MAX_SRQ;
	attr->max_srq_wr = ROX_MAX_SRQ_WR;
	attr->max_srq_sge = ROX_MAX_SGE;
	attr->max_qp_rd_atom = ROX_MAX_RD_ATOM;
	attr->max_qp_init_rd_atom = ROX_MAX_RD_ATOM;
	attr->max_res_rd_atom = ROX_MAX_RD_ATOM * ROX_MAX_QP;
	attr->max_pkeys = dev->num_pkeys;
	attr->max_fast_reg_page_list_len = ROX_MAX_FRWR_PAGES;
	attr->max_mcast_grp = ROX_MAX_MCG;
	attr->max_mcast_qp_attach = ROX_MAX_MCG_QP;
	attr->max_total_mcast_qp_attach = ROX_MAX_MCG * ROX_MAX_MCG_QP;
}

/* All operations that take SGEs or an rkey support pages on demand. */
static void rox_device_odp_caps(struct ib_odp_caps *caps)
{
	const u32 send_recv = IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_SRQ_RECV;

	if (!ROX_HAS_ODP)
		return;
	caps->general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.rc_odp_caps = send_recv | IB_ODP_SUPPORT_WRITE |
					       IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC;
	caps->per_transport_caps.uc_odp_caps = send_recv | IB_ODP_SUPPORT_WRITE;
	caps->per_transport_caps.ud_odp_caps = send_recv;
	caps->per_transport_caps.xrc_odp_caps = caps->per_transport_caps.rc_odp_caps;
}

static int rox_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			    struct ib_udata *udata)
{
	int err;

	err = rox_udata_none(udata);
	if (err)
		return err;
	memset(attr, 0, sizeof(*attr));
	rox_device_limits(to_rox_dev(ibdev), attr);
	attr->fw_ver = ((u64)ROX_FW_MAJOR << 32) | (ROX_FW_MINOR << 16) | ROX_FW_SUB;
	attr->sys_image_guid = ibdev->node_guid;
	attr->vendor_id = ROX_VENDOR_ID;
	attr->vendor_part_id = 1;
	attr->hw_ver = ROX_HW_VER;
	attr->device_cap_flags = IB_DEVICE_BAD_PKEY_CNTR | IB_DEVICE_BAD_QKEY_CNTR |
				 IB_DEVICE_CURR_QP_STATE_MOD | IB_DEVICE_PORT_ACTIVE_EVENT |
				 IB_DEVICE_SYS_IMAGE_GUID | IB_DEVICE_RC_RNR_NAK_GEN |
				 IB_DEVICE_SRQ_RESIZE | IB_DEVICE_MEM_MGT_EXTENSIONS |
				 IB_DEVICE_XRC | IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B | IB_DEVICE_ATOMIC_WRITE;
	attr->kernel_cap_flags = IBK_ALLOW_USER_UNREG | IBK_BLOCK_MULTICAST_LOOPBACK;
	if (ROX_HAS_ODP)
		attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	rox_device_odp_caps(&attr->odp_caps);
	/*
	 * The CPU executes atomics on the program's pages, so IB_ATOMIC_GLOB would be true,
	 * too. But adapters report IB_ATOMIC_HCA, and UCX uses atomics only with that.
	 */
	attr->atomic_cap = IB_ATOMIC_HCA;
	attr->masked_atomic_cap = IB_ATOMIC_NONE;
	attr->local_ca_ack_delay = ROX_CA_ACK_DELAY;
	/* Completion timestamps are nanoseconds. */
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = 1000000;
	return 0;
}

static int rox_modify_device(struct ib_device *ibdev, int mask, struct ib_device_modify *modify)
{
	if (mask & ~IB_DEVICE_MODIFY_NODE_DESC)
		return -EOPNOTSUPP;
	if (mask & IB_DEVICE_MODIFY_NODE_DESC)
		memcpy(ibdev->node_desc, modify->node_desc, sizeof(ibdev->node_desc));
	return 0;
}

static void rox_get_dev_fw_str(struct ib_device *ibdev, char *str)
{
	snprintf(str, IB_FW_VERSION_NAME_MAX, "%d.%d.%d", ROX_FW_MAJOR, ROX_FW_MINOR,
		 ROX_FW_SUB);
}

/* ---- sysfs ---- */

static ssize_t hca_type_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "rox\n");
}
static DEVICE_ATTR_RO(hca_type);

static ssize_t board_id_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "rox\n");
}
static DEVICE_ATTR_RO(board_id);

static ssize_t hw_rev_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%x\n", ROX_HW_VER);
}
static DEVICE_ATTR_RO(hw_rev);

/* The name of the netdev. */
static ssize_t parent_show(struct device *device, struct device_attribute *attr, char *buf)
{
	struct rox_dev *dev = rdma_device_to_drv_device(device, struct rox_dev, ibdev);
	const struct net_device *ndev;
	ssize_t len;

	rtnl_lock();
	ndev = rtnl_dereference(dev->net.ndev);
	len = sysfs_emit(buf, "%s\n", ndev ? netdev_name(ndev) : "");
	rtnl_unlock();
	return len;
}
static DEVICE_ATTR_RO(parent);

/* The module's parameter of this name for one device. Anything negative: as the parameter. */
static ssize_t spin_us_show(struct device *device, struct device_attribute *attr, char *buf)
{
	const struct rox_dev *dev = rdma_device_to_drv_device(device, struct rox_dev, ibdev);

	return sysfs_emit(buf, "%u\n", rox_spin_us(dev));
}

static ssize_t spin_us_store(struct device *device, struct device_attribute *attr,
			     const char *buf, size_t len)
{
	struct rox_dev *dev = rdma_device_to_drv_device(device, struct rox_dev, ibdev);
	int err, us;

	err = kstrtoint(buf, 10, &us);
	if (err)
		return err;
	WRITE_ONCE(dev->spin_us, us);
	return len;
}
static DEVICE_ATTR_RW(spin_us);

/* The module's parameter of this name for one device: 0, 1, or -1: as the parameter. */
static ssize_t loopback_show(struct device *device, struct device_attribute *attr, char *buf)
{
	const struct rox_dev *dev = rdma_device_to_drv_device(device, struct rox_dev, ibdev);

	return sysfs_emit(buf, "%d\n", rox_net_loops_back(&dev->net));
}

static ssize_t loopback_store(struct device *device, struct device_attribute *attr,
			      const char *buf, size_t len)
{
	struct rox_dev *dev = rdma_device_to_drv_device(device, struct rox_dev, ibdev);
	int err, on;

	err = kstrtoint(buf, 10, &on);
	if (err)
		return err;
	if (on < -1 || on > 1)
		return -EINVAL;
	WRITE_ONCE(dev->net.loopback, on);
	return len;
}
static DEVICE_ATTR_RW(loopback);

static struct attribute *rox_device_attrs[] = {
	&dev_attr_hca_type.attr,
	&dev_attr_board_id.attr,
	&dev_attr_hw_rev.attr,
	&dev_attr_parent.attr,
	&dev_attr_spin_us.attr,
	&dev_attr_loopback.attr,
	NULL
};

static const struct attribute_group rox_device_group = {
	.attrs = rox_device_attrs,
};

/* ---- port ---- */

/* Sets speed and width of the port for @mbps, rounded down to a rate that verbs can express. */
static void rox_speed(u32 mbps, struct ib_port_attr *attr)
{
	static const struct {
		u32 mbps;
		u16 speed;
		u8 width;
	} rates[] = {
		{ 800000, 256, IB_WIDTH_4X },	/* XDR */
		{ 400000, IB_SPEED_NDR, IB_WIDTH_4X },
		{ 200000, IB_SPEED_HDR, IB_WIDTH_4X },
		{ 100000, IB_SPEED_EDR, IB_WIDTH_4X },
		{ 50000, IB_SPEED_HDR, IB_WIDTH_1X },
		{ 40000, IB_SPEED_FDR10, IB_WIDTH_4X },
		{ 25000, IB_SPEED_EDR, IB_WIDTH_1X },
		{ 10000, IB_SPEED_FDR10, IB_WIDTH_1X },
		{ 5000, IB_SPEED_DDR, IB_WIDTH_1X },
		{ 0, IB_SPEED_SDR, IB_WIDTH_1X },
	};
	const typeof(rates[0]) *rate = rates;

	while (rate->mbps > mbps)
		rate++;
	attr->active_speed = rate->speed;
	attr->active_width = rate->width;
}

/* The speed that is reported for a netdev without one (dummy, lo, a bridge). */
#define ROX_DEFAULT_MBPS 10000

static u32 rox_netdev_mbps(const struct rox_dev *dev)
{
	struct ethtool_link_ksettings settings = {};
	struct net_device *ndev;
	int err = -ENODEV;

	rtnl_lock();
	ndev = rtnl_dereference(dev->net.ndev);
	if (ndev && ndev->reg_state == NETREG_REGISTERED)
		err = __ethtool_get_link_ksettings(ndev, &settings);
	rtnl_unlock();
	if (err || !settings.base.speed || settings.base.speed == (u32)SPEED_UNKNOWN)
		return ROX_DEFAULT_MBPS;
	return settings.base.speed;
}

static int rox_query_port(struct ib_device *ibdev, u32 port, struct ib_port_attr *attr)
{
	struct rox_dev *dev = to_rox_dev(ibdev);
	const struct net_device *ndev;

	rox_speed(rox_netdev_mbps(dev), attr);

	spin_lock_bh(&dev->port_lock);
	attr->state = dev->port_up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->active_mtu = dev->mtu;
	spin_unlock_bh(&dev->port_lock);

	rcu_read_lock();
	ndev = rcu_dereference(dev->net.ndev);
	if (attr->state == IB_PORT_ACTIVE)
		attr->phys_state = IB_PORT_PHYS_STATE_LINK_UP;
	else if (ndev && netif_running(ndev))
		attr->phys_state = IB_PORT_PHYS_STATE_POLLING;
	else
		attr->phys_state = IB_PORT_PHYS_STATE_DISABLED;

	attr->max_mtu = IB_MTU_4096;
	attr->phys_mtu = ndev ? READ_ONCE(ndev->mtu) : 0;
	rcu_read_unlock();
	attr->gid_tbl_len = ROX_GID_TABLE_LEN;
	attr->pkey_tbl_len = dev->num_pkeys;
	attr->ip_gids = 1;
	attr->port_cap_flags = IB_PORT_CM_SUP;
	attr->max_msg_sz = ROX_MAX_MSG_SIZE;
	attr->bad_pkey_cntr = atomic_read(&dev->pkey_bad);
	attr->qkey_viol_cntr = atomic_read(&dev->qkey_bad);
	attr->max_vl_num = 1;
	return 0;
}

static int rox_modify_port(struct ib_device *ibdev, u32 port, int mask,
			   struct ib_port_modify *modify)
{
	struct rox_dev *dev = to_rox_dev(ibdev);

	/* Changes of IB_PORT_CM_SUP are accepted, but have no effect. */
	if ((modify->set_port_cap_mask | modify->clr_port_cap_mask) & ~IB_PORT_CM_SUP)
		return -EOPNOTSUPP;
	if (mask & ~IB_PORT_RESET_QKEY_CNTR)
		return -EOPNOTSUPP;
	if (mask & IB_PORT_RESET_QKEY_CNTR)
		atomic_set(&dev->qkey_bad, 0);
	return 0;
}

static int rox_get_port_immutable(struct ib_device *ibdev, u32 port,
				  struct ib_port_immutable *immutable)
{
	immutable->gid_tbl_len = ROX_GID_TABLE_LEN;
	immutable->pkey_tbl_len = to_rox_dev(ibdev)->num_pkeys;
	immutable->core_cap_flags = RDMA_CORE_PORT_IBA_ROCE_UDP_ENCAP;
	immutable->max_mad_size = IB_MGMT_MAD_SIZE;
	return 0;
}

static enum rdma_link_layer rox_get_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

ROX_OP_CREATE_CQ(rox_create_cq)
ROX_OP_RESIZE_CQ(rox_resize_cq)
ROX_OP_REG_USER_MR(rox_reg_user_mr)
ROX_OP_REG_USER_MR_DMABUF(rox_reg_user_mr_dmabuf)

const struct ib_device_ops rox_verbs_ops = {
	.query_device = rox_query_device,
	.modify_device = rox_modify_device,
	.get_dev_fw_str = rox_get_dev_fw_str,
	.query_port = rox_query_port,
	.modify_port = rox_modify_port,
	.get_port_immutable = rox_get_port_immutable,
	.get_link_layer = rox_get_link_layer,
	.query_pkey = rox_query_pkey,
	.device_group = &rox_device_group,
	.port_groups = rox_port_groups,

	.alloc_ucontext = rox_alloc_ucontext,
	.dealloc_ucontext = rox_dealloc_ucontext,
	.disassociate_ucontext = rox_disassociate_ucontext,
	.mmap = rox_mmap,
	.mmap_free = rox_mmap_free,

	.alloc_pd = rox_alloc_pd,
	.dealloc_pd = rox_dealloc_pd,

	.alloc_xrcd = rox_alloc_xrcd,
	.dealloc_xrcd = rox_dealloc_xrcd,

	.create_ah = rox_create_ah,
	.create_user_ah = rox_create_ah,
	.modify_ah = rox_modify_ah,
	.query_ah = rox_query_ah,
	.destroy_ah = rox_destroy_ah,

	ROX_OPS_REG_USER_MR(rox_reg_user_mr)
	ROX_OPS_REG_USER_MR_DMABUF(rox_reg_user_mr_dmabuf)
	.get_dma_mr = rox_get_dma_mr,
	.rereg_user_mr = rox_rereg_user_mr,
	.dereg_mr = rox_dereg_mr,
	.advise_mr = ROX_HAS_ODP ? rox_advise_mr : NULL,
	.alloc_mr = rox_alloc_mr,
	.map_mr_sg = rox_map_mr_sg,
	.alloc_mw = rox_alloc_mw,
	.dealloc_mw = rox_dealloc_mw,

	ROX_OPS_CREATE_CQ(rox_create_cq)
	ROX_OPS_RESIZE_CQ(rox_resize_cq)
	.modify_cq = rox_modify_cq,
	.destroy_cq = rox_destroy_cq,
	.poll_cq = rox_poll_cq,
	.req_notify_cq = rox_req_notify_cq,

	.create_srq = rox_create_srq,
	.modify_srq = rox_modify_srq,
	.query_srq = rox_query_srq,
	.destroy_srq = rox_destroy_srq,
	.post_srq_recv = rox_post_srq_recv,

	.create_qp = rox_create_qp,
	.modify_qp = rox_modify_qp,
	.query_qp = rox_query_qp,
	.destroy_qp = rox_destroy_qp,
	.post_send = rox_post_send,
	.post_recv = rox_post_recv,

	.attach_mcast = rox_attach_mcast,
	.detach_mcast = rox_detach_mcast,

	INIT_RDMA_OBJ_SIZE(ib_ucontext, rox_ucontext, ibuc),
	INIT_RDMA_OBJ_SIZE(ib_pd, rox_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_ah, rox_ib_ah, ibah),
	INIT_RDMA_OBJ_SIZE(ib_mw, rox_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_cq, rox_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_srq, rox_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_qp, rox_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_xrcd, rox_xrcd, ibxrcd),
};
