// SPDX-License-Identifier: GPL-2.0
/*
 * Delivery: finds the QP of received packets, checks whether it may receive them, and queues them
 * or, on loopback, processes them at once.
 */
#include <linux/skbuff.h>
#include <net/ipv6.h>
#include "internal.h"

/* ---- may a QP have the packets? ---- */

static bool rox_service_ok(const struct rox_qp *qp, const struct rox_run *run)
{
	u8 service = run->service;

	switch (qp->ibqp.qp_type) {
	case IB_QPT_RC:
		return service == ROX_SERVICE_RC || service == ROX_SERVICE_CNP ||
		       service == ROX_SERVICE_OWN;
	case IB_QPT_UC:
		return service == ROX_SERVICE_UC || service == ROX_SERVICE_CNP;
	case IB_QPT_UD:
	case IB_QPT_GSI:
		return service == ROX_SERVICE_UD || service == ROX_SERVICE_CNP;
	/* Each XRC QP has one half of a connection. */
	case IB_QPT_XRC_INI:
		return (service == ROX_SERVICE_XRC && !run->request) ||
		       service == ROX_SERVICE_CNP;
	case IB_QPT_XRC_TGT:
		return (service == ROX_SERVICE_XRC && run->request) ||
		       service == ROX_SERVICE_CNP;
	default:
		return false;
	}
}

static bool rox_is_connected(const struct rox_qp *qp)
{
	return qp->service != ROX_SERVICE_UD;
}

/* Are these the addresses of the connection of the QP? */
static bool rox_is_peer(const struct rox_qp *qp, const struct in6_addr *saddr,
			const struct in6_addr *daddr)
{
	/*
	 * Packets that arrive while modify_qp replaces the path count as from the old or the new
	 * peer, or are lost. The side checks the state and the PSN again.
	 */
	return data_race(ipv6_addr_equal(saddr, &qp->path.daddr) &&
			 ipv6_addr_equal(daddr, &qp->path.saddr));
}

/*
 * A connected QP receives from its peer only, a UD QP whatever is sent to an address that its
 * device has in the namespace.
 */
static bool rox_addrs_ok(const struct rox_qp *qp, const struct rox_rx_frame *f)
{
	if (rox_is_connected(qp))
		return rox_is_peer(qp, &f->saddr, &f->daddr) &&
		       rox_path_hears(&qp->path, &qp->dev->net, &f->daddr, f->ns, f->iif);
	return qp->ibqp.qp_type == IB_QPT_GSI ||
	       rox_net_has_addr_in(&qp->dev->net, &f->daddr, f->ns);
}

static bool rox_state_hears(const struct rox_qp *qp)
{
	enum ib_qp_state state = rox_qp_state(qp);

	return state != IB_QPS_RESET && state != IB_QPS_INIT;
}

/* The key must match the QP's own, for QP 1 any of the table. */
static bool rox_pkey_ok(const struct rox_qp *qp, u16 pkey)
{
	if (rox_pkey_match(rox_qp_pkey(qp), pkey))
		return true;
	return qp->ibqp.qp_type == IB_QPT_GSI && rox_pkey_find(qp->dev, pkey) >= 0;
}

/*
 * Checks whether the QP may receive the packets, and counts them if not. @addressed: their
 * addresses are right for the QP.
 */
static bool rox_may_accept(struct rox_qp *qp, const struct rox_run *run, bool addressed)
{
	struct rox_dev *dev = qp->dev;

	if (!rox_service_ok(qp, run) || !rox_state_hears(qp) || !addressed) {
		rox_count_add(&dev->stats, ROX_CNT_RX_NO_QP, run->count);
		return false;
	}
	if (run->service != ROX_SERVICE_CNP && !rox_pkey_ok(qp, run->pkey)) {
		rox_count_add(&dev->stats, ROX_CNT_RX_PKEY, run->count);
		atomic_add(run->count, &dev->pkey_bad);
		return false;
	}
	return true;
}

/* ---- frames ---- */

/* A CNP has no content, so several at a time count as one. */
static void rox_take_cnp(struct rox_qp *qp, struct sk_buff *skb)
{
	struct rox_pkt pkt;
	struct rox_rx rx;
	u32 n = 0;

	rox_rx_begin(&rx, skb);
	while (rox_rx_next(&rx, &pkt))
		n++;
	kfree_skb(skb);
	if (n && rox_cnp_came(qp, n))
		rox_transport_cnp(qp);
}

/* The only packet of this service: frames that the QP sends come to the peer as they are made. */
static noinline void rox_take_uncut(struct rox_qp *qp, struct sk_buff *skb)
{
	struct rox_pkt pkt;
	struct rox_rx rx;

	rox_rx_begin(&rx, skb);
	if (rox_rx_next(&rx, &pkt))
		rox_ep_told_uncut(&qp->ep);
	kfree_skb(skb);
}

static noinline void rox_count_congestion(struct rox_qp *qp, const struct rox_rx_frame *f,
					  const struct rox_run *run)
{
	if (rox_frame_is_marked(f))
		rox_qp_count_add(qp, ROX_CNT_RX_CE, run->count);
}

/* Gives a run of packets to a QP. Takes over @skb, the frame or a clone of it. */
static void rox_accept_run(struct rox_qp *qp, const struct rox_rx_frame *f,
			   const struct rox_run *run, struct sk_buff *skb)
{
	if (rox_optional(&qp->dev->stats, ROX_CNT_RX_CE))
		rox_count_congestion(qp, f, run);
	rox_skb_claim(skb, &qp->ep, run);
	if (!rox_is_connected(qp))
		rox_skb_cb(skb)->gid = rox_frame_gid(f, &qp->dev->net);
	if (run->service == ROX_SERVICE_CNP)
		rox_take_cnp(qp, skb);
	else if (unlikely(run->service == ROX_SERVICE_OWN))
		rox_take_uncut(qp, skb);
	else
		rox_transport_queue(qp, skb, run->request, run->goes_on);
}

static bool rox_has_gsi(const struct rox_net *net)
{
	return rcu_access_pointer(rox_net_dev(net)->gsi_qp);
}

/* Return: the QP of a run of packets, with a reference, or NULL if this namespace has none. */
static struct rox_qp *rox_find_qp(const struct rox_rx_frame *f, const struct rox_run *run)
{
	struct rox_net *net = NULL;
	struct rox_qp *qp;

	if (run->dqpn == ROX_QPN_GSI) {
		net = rox_frame_net(f, rox_has_gsi);
		if (!net)
			return NULL;
	}
	qp = rox_qp_get(net ? rox_net_dev(net) : NULL, run->dqpn);
	if (qp && READ_ONCE(qp->dev->net.ns) != f->ns &&
	    !rox_net_has_addr_in(&qp->dev->net, &f->daddr, f->ns)) {
		rox_qp_put(qp);
		return NULL;
	}
	return qp;
}

/* Gives a clone of the packets to each QP of a group. Return: number of QPs in the group. */
static u32 rox_spread(const struct rox_rx_frame *f, const struct rox_run *run, struct rox_dev *dev,
		      const struct rox_mcg *mcg)
{
	const struct rox_mcg_member *member;
	struct sk_buff *skb;
	struct rox_qp *qp;
	u32 n = 0, copies = 0;

	hlist_for_each_entry_rcu(member, &mcg->members, node) {
		qp = rox_mcg_member_get(member);
		if (!qp)
			continue;
		n++;
		if (rox_may_accept(qp, run, true)) {
			skb = skb_clone(f->skb, GFP_ATOMIC | __GFP_NOWARN);
			if (skb)
				rox_accept_run(qp, f, run, skb);
			else
				rox_count_add(&qp->dev->stats, ROX_CNT_RX_DROP, run->count);
			copies += !!skb;
		}
		rox_qp_put(qp);
	}
	/* The port counters count it as one packet. */
	if (copies) {
		rox_count_add(&dev->stats, ROX_CNT_RX_MULTICAST, run->count);
		rox_count_add(&dev->stats, ROX_CNT_RX_COPIES, run->count * (copies - 1));
		rox_count_add(&dev->stats, ROX_CNT_RX_OCTETS, run->octets);
	}
	return n;
}

/*
 * Delivers packets to the multicast QPN to the QPs attached to the destination address, on
 * devices whose group has joined on the receiving netdev.
 */
static noinline void rox_receive_multicast(const struct rox_rx_frame *f, const struct rox_run *run,
					   bool last)
{
	struct net_device *ndev = rox_frame_dev(f);
	struct rox_site *site = NULL;
	const struct rox_mcg *mcg;
	struct rox_dev *dev;
	u32 n = 0;

	while (rox_frame_is_multicast(f) && (site = rox_frame_next_site(f, site))) {
		dev = rox_net_dev(site->net);
		mcg = rox_mcg_find(dev, &f->daddr, f->ns);
		if (mcg && rox_net_joined(&mcg->net, ndev))
			n += rox_spread(f, run, dev, mcg);
	}
	if (!n)
		rox_frame_count_drop(f, ROX_CNT_RX_NO_QP, run->count);
	if (last)
		kfree_skb(f->skb);
}

static void rox_receive(const struct rox_rx_frame *f, const struct rox_run *run, bool last)
{
	struct sk_buff *skb;
	struct rox_qp *qp;

	if (unlikely(run->dqpn == ROX_QPN_MULTICAST)) {
		rox_receive_multicast(f, run, last);
		return;
	}
	qp = rox_find_qp(f, run);
	if (!qp) {
		rox_frame_count_drop(f, ROX_CNT_RX_NO_QP, run->count);
		goto drop;
	}
	if (!rox_may_accept(qp, run, rox_addrs_ok(qp, f))) {
		rox_qp_put(qp);
		goto drop;
	}

	rox_qp_count_add(qp, ROX_CNT_RX_OCTETS, run->octets);
	skb = last ? f->skb : skb_clone(f->skb, GFP_ATOMIC | __GFP_NOWARN);
	if (skb)
		rox_accept_run(qp, f, run, skb);
	else
		rox_count_add(&qp->dev->stats, ROX_CNT_RX_DROP, run->count);
	rox_qp_put(qp);
	return;

drop:
	if (last)
		kfree_skb(f->skb);
}

/* ---- loopback ---- */

/*
 * Queues a copy of the burst. It is lost if there is no memory. If the QP waits for pages on
 * demand, which may take for ever, its owner is charged and the queue is small.
 */
static noinline int rox_leave_copy(struct rox_qp *qp, struct rox_burst *b,
				   const struct rox_run *run)
{
	struct sk_buff *skb;

	if (!rox_transport_has_room(qp, run->request)) {
		rox_qp_count(qp, ROX_CNT_RX_DROP);
		return 0;
	}
	skb = rox_local_frame(b, &qp->ep, rox_transport_waits(qp, run->request), qp->memcg,
			      !rox_is_connected(qp));
	if (!skb) {
		if (!b->err)
			rox_ep_count_add(b->from, ROX_CNT_TX_DROP, b->npkts);
		return b->err;
	}
	rox_qp_count_add(qp, ROX_CNT_RX_OCTETS, run->octets);
	rox_transport_rx(qp, skb, run->request);
	return 0;
}

static int rox_hand_over(struct rox_qp *qp, struct rox_burst *b, const struct rox_run *run)
{
	u32 cur = b->src ? b->src->cur : 0, off = b->src ? b->src->off : 0;
	struct rox_pkt pkt = rox_local_join(b, 0, b->npkts);

	if (rox_transport_direct(qp, &pkt, run))
		return 0;
	if (b->err)
		return b->err;
	if (b->src)
		rox_iter_return(b->src, cur, off);
	b->read = 0;
	b->again = false;
	/* Release the peer's MR, which the peer may invalidate before this run ends. */
	if (run->request)
		rox_mr_keep_drop(&rox_ep_qp(b->from)->send.kept.dst);
	return rox_leave_copy(qp, b, run);
}

/* Loopback marks no packet, but earlier ones may have come from a network. */
static noinline int rox_take_local_cnp(struct rox_qp *qp)
{
	if (rox_cnp_came(qp, 1))
		rox_side_kick(&qp->send.side, ROX_WORK_CNP);
	return 0;
}

bool rox_hears_local(const struct rox_qp *qp, const struct rox_path *path)
{
	return !rox_is_connected(qp) ||
	       (rox_is_peer(qp, &path->saddr, &path->daddr) &&
		rox_path_hears(&qp->path, &qp->dev->net, &path->daddr, path->ns, path->oif));
}

static int rox_receive_local(struct rox_burst *b, const struct rox_run *run)
{
	struct rox_qp *sender = rox_ep_qp(b->from), *qp;
	bool keeps = run->request && rox_is_connected(sender);
	int err = 0;

	/* All requests of a connected QP go to the same peer. */
	qp = keeps ? rox_send_peer(sender) : rox_qp_get(sender->dev, b->dqpn);
	if (!qp)
		return -ENOLINK;
	if (rox_mirrors())
		rox_mirror(b);
	if (!rox_may_accept(qp, run, rox_hears_local(qp, b->path)))
		err = 0;
	else if (unlikely(run->service == ROX_SERVICE_CNP))
		err = rox_take_local_cnp(qp);
	/* What loopback carries has no ICRC. */
	else if (likely(run->service != ROX_SERVICE_OWN))
		err = rox_hand_over(qp, b, run);
	if (!keeps)
		rox_qp_put(qp);
	return err;
}

const struct rox_net_ops rox_transport_ops = {
	.receive = rox_receive,
	.receive_local = rox_receive_local,
	.resume = rox_sender_resume,
	.run = rox_transport_run,
};
