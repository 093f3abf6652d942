// SPDX-License-Identifier: GPL-2.0
/*
 * Requests that come before their turn: kept until the packets before them are
 * there, and then executed as if they had come only now. The sender still gets its
 * NAK (IBTA volume 1, 9.7.5.2.4) and begins again at what is missing, but the ACK
 * says that all is there to the next gap: it need not repeat what has arrived.
 *
 * What is kept are frames, or runs of consecutive packets of a frame, in a tree by
 * PSN: a peer that sends many small packets out of order costs no long walks. The
 * packets of the tree are all different, and each has been checked.
 */
#include <linux/rbtree.h>
#include "internal.h"

/* @skb leaves the tree, and nobody pays for it any more. */
static void rox_early_remove(struct rox_qp *qp, struct sk_buff *skb)
{
	rb_erase(&skb->rbnode, &qp->recv.early);
	/* It lies where the links and the device of an skb are. */
	memset(&skb->rbnode, 0, sizeof(skb->rbnode));
	qp->recv.early_bytes -= skb->truesize;
	atomic_sub(skb->truesize, &qp->dev->early_bytes);
}

static bool rox_early_charge(struct rox_qp *qp, const struct sk_buff *skb)
{
	if (skb->truesize > ROX_EARLY_QP_BYTES - min(qp->recv.early_bytes, ROX_EARLY_QP_BYTES))
		return false;
	if (atomic_add_return(skb->truesize, &qp->dev->early_bytes) > ROX_EARLY_DEV_BYTES) {
		atomic_sub(skb->truesize, &qp->dev->early_bytes);
		return false;
	}
	qp->recv.early_bytes += skb->truesize;
	return true;
}

/*
 * Return: what is kept that begins at @psn or, closest to it, before; NULL if there is
 * nothing. @parent and @link: where in the tree something would go that begins at @psn.
 */
static struct sk_buff *rox_early_find(struct rox_resp *recv, u32 psn, struct rb_node **parent,
				      struct rb_node ***link)
{
	struct sk_buff *skb, *found = NULL;

	*parent = NULL;
	*link = &recv->early.rb_node;
	while (**link) {
		*parent = **link;
		skb = rb_to_skb(*parent);
		if (rox_psn_diff(psn, rox_skb_cb(skb)->psn) >= 0) {
			found = skb;
			*link = &(*parent)->rb_right;
		} else {
			*link = &(*parent)->rb_left;
		}
	}
	return found;
}

/* Is packet @index of the frame @skb, with @psn, the one behind those of @kept? */
static bool rox_early_continues(const struct sk_buff *kept, const struct sk_buff *skb, u32 index,
				u32 psn)
{
	const struct rox_skb_cb *cb = rox_skb_cb(kept);

	/* The clones of a frame have its memory in common, and nothing else has. */
	return kept->head == skb->head && cb->first + cb->count == index &&
	       rox_psn_add(cb->psn, cb->count) == psn;
}

enum rox_early rox_early_keep(struct rox_qp *qp, const struct rox_pkt *pkt)
{
	struct rox_resp *recv = &qp->recv;
	u32 index = recv->rx.index - 1, psn = pkt->bth.psn;
	struct rb_node *parent, **link;
	struct sk_buff *before, *skb;

	/* Without a wire nothing is lost but for want of memory. */
	if (pkt->burst || rox_psn_diff(psn, recv->epsn) > ROX_EARLY_PSNS)
		return ROX_EARLY_LOST;
	before = rox_early_find(recv, psn, &parent, &link);
	if (before && rox_psn_diff(psn, rox_skb_cb(before)->psn) < rox_skb_cb(before)->count)
		return ROX_EARLY_REPEATED;
	if (before && rox_early_continues(before, pkt->skb, index, psn)) {
		rox_skb_cb(before)->count++;
		rox_qp_count(qp, ROX_CNT_RX_EARLY);
		return ROX_EARLY_KEPT;
	}
	skb = skb_clone(pkt->skb, GFP_ATOMIC | __GFP_NOWARN);
	if (!skb)
		return ROX_EARLY_LOST;
	if (!rox_early_charge(qp, skb)) {
		kfree_skb(skb);
		return ROX_EARLY_LOST;
	}
	rox_skb_cb(skb)->first = index;
	rox_skb_cb(skb)->count = 1;
	rox_skb_cb(skb)->psn = psn;
	rox_skb_cb(skb)->checked = true;
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color(&skb->rbnode, &recv->early);
	rox_qp_count(qp, ROX_CNT_RX_EARLY);
	return ROX_EARLY_KEPT;
}

/* What has come again meanwhile, and was executed, is dropped on the way. */
bool rox_early_first_due(struct rox_qp *qp)
{
	struct rox_resp *recv = &qp->recv;
	struct rox_skb_cb *cb;
	struct sk_buff *skb;
	s32 behind;

	while ((skb = skb_rb_first(&recv->early))) {
		cb = rox_skb_cb(skb);
		behind = rox_psn_diff(recv->epsn, cb->psn);
		if (behind < 0)
			return false;
		if (behind < cb->count) {
			cb->first += behind;
			cb->count -= behind;
			cb->psn = recv->epsn;
			return true;
		}
		rox_early_remove(qp, skb);
		consume_skb(skb);
	}
	return false;
}

struct sk_buff *rox_early_take(struct rox_qp *qp)
{
	struct sk_buff *skb = skb_rb_first(&qp->recv.early);

	rox_early_remove(qp, skb);
	/* Whether the sender has asked for it or not: it is to learn how far we are. */
	qp->recv.ack_due = true;
	return skb;
}

void rox_early_purge(struct rox_qp *qp)
{
	struct sk_buff *skb;

	while ((skb = skb_rb_first(&qp->recv.early))) {
		rox_early_remove(qp, skb);
		kfree_skb(skb);
	}
}
