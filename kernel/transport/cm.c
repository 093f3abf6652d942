// SPDX-License-Identifier: GPL-2.0
/*
 * The MTU of connections that are made by the CM. Its request (REQ) names the MTU of the client's
 * netdev; its reply (REP) names none, so a server with a smaller MTU can only refuse. Adapters do.
 *
 * Two rox devices agree, by a mark in the reserved field of the MAD header, which others send as 0
 * and ignore:
 *
 * 1. The client's device marks the REQ: it will take a smaller MTU.
 * 2. The server's device lowers the MTU in a marked REQ to what its own netdev carries, before the
 *    CM reads it. So the server's QP gets that.
 * 3. The server's device puts the MTU of its QP into the mark of the REP.
 * 4. The client's QP takes the smaller one of that and its own when it goes to RTR.
 *
 * Any REQ of a QP replaces the one before. A REP counts if it names the communication ID of the
 * REQ, which is random, and only once.
 */
#include <rdma/ib_cm.h>
#include <rdma/ib_mad.h>
#include <rdma/ibta_vol1_c12.h>

#include "internal.h"

/* The mark: these bits, and the MTU of a REP (enum ib_mtu; 0: unknown). */
#define ROX_CM_MARK		0x5250
#define ROX_CM_MARK_MTU		0x0007

/**
 * union rox_cm_mad - a MAD of the CM
 * @hdr: its header
 * @req: a REQ
 * @rep: a REP
 * @raw: all of it
 */
union rox_cm_mad {
	struct ib_mad_hdr hdr;
	struct cm_req_msg req;
	struct cm_rep_msg rep;
	u8 raw[IB_MGMT_MAD_SIZE];
};

static bool rox_cm_is(const struct ib_mad_hdr *hdr, __be16 attr_id)
{
	return hdr->mgmt_class == IB_MGMT_CLASS_CM && hdr->method == IB_MGMT_METHOD_SEND &&
	       hdr->attr_id == attr_id;
}

static bool rox_cm_is_marked(const struct ib_mad_hdr *hdr)
{
	return (be16_to_cpu(hdr->resv) & ~ROX_CM_MARK_MTU) == ROX_CM_MARK;
}

static bool rox_cm_mtu_ok(u32 mtu)
{
	return mtu >= IB_MTU_256 && mtu <= IB_MTU_4096;
}

/* Notes that the QP has sent a REQ with this ID. Return: false without memory. Any context. */
static bool rox_cm_ask(struct rox_qp *qp, u32 id)
{
	struct xarray *asked = &qp->dev->cm_asked;
	unsigned long flags;
	bool ok;

	rox_cm_forget(qp);
	xa_lock_irqsave(asked, flags);
	ok = !xa_err(__xa_store(asked, id, qp, GFP_ATOMIC));
	qp->cm_id = id;
	xa_unlock_irqrestore(asked, flags);
	return ok;
}

void rox_cm_forget(struct rox_qp *qp)
{
	struct xarray *asked = &qp->dev->cm_asked;
	unsigned long flags;

	xa_lock_irqsave(asked, flags);
	if (xa_load(asked, qp->cm_id) == qp)
		__xa_erase(asked, qp->cm_id);
	WRITE_ONCE(qp->cm_mtu, 0);
	xa_unlock_irqrestore(asked, flags);
}

/* The QP that has sent the REQ with this ID gets the MTU of the REP. */
static void rox_cm_answered(struct rox_dev *dev, u32 id, u32 mtu)
{
	unsigned long flags;
	struct rox_qp *qp;

	xa_lock_irqsave(&dev->cm_asked, flags);
	qp = __xa_erase(&dev->cm_asked, id);
	if (qp && rox_cm_mtu_ok(mtu))
		WRITE_ONCE(qp->cm_mtu, mtu);
	xa_unlock_irqrestore(&dev->cm_asked, flags);
}

static void rox_cm_mark_req(struct rox_dev *dev, union rox_cm_mad *mad)
{
	struct rox_qp *qp = rox_qp_get(dev, IBA_GET(CM_REQ_LOCAL_QPN, &mad->req));

	if (!qp)
		return;
	if (rox_cm_ask(qp, IBA_GET(CM_REQ_LOCAL_COMM_ID, &mad->req)))
		mad->hdr.resv = cpu_to_be16(ROX_CM_MARK);
	rox_qp_put(qp);
}

/* What packets to an address of the device may have. */
static u32 rox_cm_own_mtu(struct rox_dev *dev, const struct in6_addr *addr)
{
	return min(READ_ONCE(dev->mtu), rox_net_gid_mtu(&dev->net, addr));
}

/* The MTU of the connection, as this end knows it. @saddr: its address here. */
static u32 rox_cm_mtu_of(struct rox_dev *dev, u32 qpn, const struct in6_addr *saddr)
{
	struct rox_qp *qp = rox_qp_get(dev, qpn);
	u32 mtu = 0;

	if (qp) {
		if (rox_can_receive(qp))
			mtu = READ_ONCE(qp->attr.path_mtu);
		rox_qp_put(qp);
	}
	/* A program may send the REP before it modifies its QP. */
	return mtu ?: rox_cm_own_mtu(dev, saddr);
}

void rox_cm_sending(struct rox_qp *gsi, const struct rox_path *path, void *data)
{
	union rox_cm_mad *mad = data;
	u32 qpn;

	if (rox_cm_is(&mad->hdr, CM_REQ_ATTR_ID)) {
		rox_cm_mark_req(gsi->dev, mad);
	} else if (rox_cm_is(&mad->hdr, CM_REP_ATTR_ID)) {
		qpn = IBA_GET(CM_REP_LOCAL_QPN, &mad->rep) ?:
		      IBA_GET(CM_REP_LOCAL_EE_CONTEXT_NUMBER, &mad->rep);
		mad->hdr.resv = cpu_to_be16(ROX_CM_MARK |
					    rox_cm_mtu_of(gsi->dev, qpn, &path->saddr));
	}
}

static void rox_cm_lower_req(struct rox_dev *dev, const struct rox_pkt *pkt,
			     union rox_cm_mad *mad)
{
	struct in6_addr saddr, daddr;
	u32 mine;

	rox_pkt_addrs(pkt, &saddr, &daddr);
	mine = rox_cm_own_mtu(dev, &daddr);
	if (IBA_GET(CM_REQ_PATH_PACKET_PAYLOAD_MTU, &mad->req) > mine)
		IBA_SET(CM_REQ_PATH_PACKET_PAYLOAD_MTU, &mad->req, mine);
}

int rox_cm_receive(struct rox_qp *gsi, const struct rox_pkt *pkt, struct rox_iter *dst)
{
	union rox_cm_mad mad;
	int err;

	err = rox_pkt_read(pkt, &mad, sizeof(mad));
	if (err)
		return err;
	if (rox_cm_is_marked(&mad.hdr)) {
		if (rox_cm_is(&mad.hdr, CM_REQ_ATTR_ID))
			rox_cm_lower_req(gsi->dev, pkt, &mad);
		else if (rox_cm_is(&mad.hdr, CM_REP_ATTR_ID))
			rox_cm_answered(gsi->dev, IBA_GET(CM_REP_REMOTE_COMM_ID, &mad.rep),
					be16_to_cpu(mad.hdr.resv) & ROX_CM_MARK_MTU);
	}
	return rox_iter_write(dst, &mad, sizeof(mad));
}

enum ib_mtu rox_cm_mtu(const struct rox_qp *qp, enum ib_mtu mtu)
{
	u8 agreed = READ_ONCE(qp->cm_mtu);

	return agreed && agreed < mtu ? agreed : mtu;
}

void rox_cm_init(struct rox_dev *dev)
{
	xa_init_flags(&dev->cm_asked, XA_FLAGS_LOCK_IRQ);
}

void rox_cm_exit(struct rox_dev *dev)
{
	WARN_ON(!xa_empty(&dev->cm_asked));
	xa_destroy(&dev->cm_asked);
}
