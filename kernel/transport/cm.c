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
 * A REP counts if it names the communication ID of a REQ, which is random, and only once. The CM
 * lets any program name any QP in its REQ. So a QP may have several, each with what its REP said,
 * and the one counts that came from the peer which the QP gets.
 */
#include <rdma/ib_cm.h>
#include <rdma/ib_mad.h>
#include <rdma/ibta_vol1_c12.h>

#include "internal.h"

/* The mark: these bits, and the MTU of a REP (enum ib_mtu; 0: unknown). */
#define ROX_CM_MARK		0x5250
#define ROX_CM_MARK_MTU		0x0007

/* How many REQs of a QP are remembered; then the oldest is forgotten. */
#define ROX_CM_REQS		16

/**
 * struct rox_cm_req - a REQ that was sent, and the REP to it
 * @node: in rox_qp.cm_reqs, newest first
 * @id: its communication ID
 * @addr: where the REP came from
 * @qpn: the QP that the REP names
 * @mtu: its MTU (enum ib_mtu); 0: there was no REP yet
 */
struct rox_cm_req {
	struct list_head node;
	u32 id;
	struct in6_addr addr;
	u32 qpn;
	u8 mtu;
};

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

/* Frees what is known of a REQ. Under the lock of dev->cm_asked. */
static void rox_cm_drop(struct xarray *asked, struct rox_cm_req *req)
{
	__xa_erase(asked, req->id);
	list_del(&req->node);
	kfree(req);
}

/* Notes that the QP has sent a REQ with this ID. Return: false without memory. Any context. */
static bool rox_cm_ask(struct rox_qp *qp, u32 id)
{
	struct rox_cm_req *req = kzalloc(sizeof(*req), GFP_ATOMIC | __GFP_NOWARN), *old;
	struct xarray *asked = &qp->dev->cm_asked;
	unsigned long flags;
	u32 n = 0;

	if (!req)
		return false;
	req->id = id;
	xa_lock_irqsave(asked, flags);
	old = xa_load(asked, id);
	if (old)
		rox_cm_drop(asked, old);
	if (xa_err(__xa_store(asked, id, req, GFP_ATOMIC | __GFP_NOWARN))) {
		xa_unlock_irqrestore(asked, flags);
		kfree(req);
		return false;
	}
	list_add(&req->node, &qp->cm_reqs);
	list_for_each_entry(old, &qp->cm_reqs, node)
		n++;
	if (n > ROX_CM_REQS)
		rox_cm_drop(asked, list_last_entry(&qp->cm_reqs, struct rox_cm_req, node));
	xa_unlock_irqrestore(asked, flags);
	return true;
}

void rox_cm_forget(struct rox_qp *qp)
{
	struct xarray *asked = &qp->dev->cm_asked;
	struct rox_cm_req *req, *next;
	unsigned long flags;

	xa_lock_irqsave(asked, flags);
	list_for_each_entry_safe(req, next, &qp->cm_reqs, node)
		rox_cm_drop(asked, req);
	xa_unlock_irqrestore(asked, flags);
}

/* Notes the REP from @addr to the REQ with this ID: the MTU of the QP @qpn there. */
static void rox_cm_answered(struct rox_dev *dev, u32 id, const struct in6_addr *addr, u32 qpn,
			    u32 mtu)
{
	struct rox_cm_req *req;
	unsigned long flags;

	xa_lock_irqsave(&dev->cm_asked, flags);
	req = xa_load(&dev->cm_asked, id);
	if (req && !req->mtu && rox_cm_mtu_ok(mtu)) {
		req->addr = *addr;
		req->qpn = qpn;
		req->mtu = mtu;
	}
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

/* Return: the QPN of the server in a REP; for XRC that of the target QP. */
static u32 rox_cm_rep_qpn(union rox_cm_mad *mad)
{
	return IBA_GET(CM_REP_LOCAL_QPN, &mad->rep) ?:
	       IBA_GET(CM_REP_LOCAL_EE_CONTEXT_NUMBER, &mad->rep);
}

void rox_cm_sending(struct rox_qp *gsi, const struct rox_path *path, void *data)
{
	union rox_cm_mad *mad = data;

	if (rox_cm_is(&mad->hdr, CM_REQ_ATTR_ID)) {
		rox_cm_mark_req(gsi->dev, mad);
	} else if (rox_cm_is(&mad->hdr, CM_REP_ATTR_ID)) {
		mad->hdr.resv = cpu_to_be16(ROX_CM_MARK |
					    rox_cm_mtu_of(gsi->dev, rox_cm_rep_qpn(mad),
							  &path->saddr));
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

static void rox_cm_read_rep(struct rox_dev *dev, const struct rox_pkt *pkt,
			    union rox_cm_mad *mad)
{
	struct in6_addr saddr, daddr;

	rox_pkt_addrs(pkt, &saddr, &daddr);
	rox_cm_answered(dev, IBA_GET(CM_REP_REMOTE_COMM_ID, &mad->rep), &saddr,
			rox_cm_rep_qpn(mad), be16_to_cpu(mad->hdr.resv) & ROX_CM_MARK_MTU);
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
			rox_cm_read_rep(gsi->dev, pkt, &mad);
	}
	return rox_iter_write(dst, &mad, sizeof(mad));
}

enum ib_mtu rox_cm_mtu(struct rox_qp *qp, const union ib_gid *dgid, u32 qpn, enum ib_mtu mtu)
{
	struct xarray *asked = &qp->dev->cm_asked;
	struct rox_cm_req *req;
	unsigned long flags;

	xa_lock_irqsave(asked, flags);
	list_for_each_entry(req, &qp->cm_reqs, node)
		if (req->mtu && req->qpn == qpn && !memcmp(&req->addr, dgid, sizeof(*dgid)))
			mtu = min_t(u32, mtu, req->mtu);
	xa_unlock_irqrestore(asked, flags);
	return mtu;
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
