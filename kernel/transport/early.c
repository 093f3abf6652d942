// SPDX-License-Identifier: GPL-2.0
/*
 * Packets that come early are stored until those before them have arrived and been processed:
 * requests at the responder, responses at the requester.
 *
 * For requests the requester gets a NAK for the missing packet (IBTA volume 1, 9.7.5.2.4). When
 * that packet arrives, the ACK covers all PSNs up to the next gap, so that the requester need not
 * retransmit what has arrived. Missing responses are requested again, see holes.c.
 *
 * What is stored are clones of frames, each for a run of consecutive packets, in a tree by PSN.
 * So many small packets out of order cause no long searches. No packet is stored twice, and each
 * has been checked.
 */
#include <linux/rbtree.h>
#include "internal.h"

/* Removes @skb from the tree and uncharges its memory. */
static void rox_early_remove(struct rox_qp *qp, struct rox_early *early, struct sk_buff *skb)
{
	rb_erase(&skb->rbnode, &early->tree);
	/* The rbnode shares memory with the list links and the device of an skb. */
	memset(&skb->rbnode, 0, sizeof(skb->rbnode));
	early->bytes -= skb->truesize;
	atomic_sub(skb->truesize, &qp->dev->early_bytes);
}

static bool rox_early_charge(struct rox_qp *qp, struct rox_early *early, const struct sk_buff *skb)
{
	if (skb->truesize > ROX_EARLY_QP_BYTES - min(early->bytes, ROX_EARLY_QP_BYTES))
		return false;
	if (atomic_add_return(skb->truesize, &qp->dev->early_bytes) > ROX_EARLY_DEV_BYTES) {
		atomic_sub(skb->truesize, &qp->dev->early_bytes);
		return false;
	}
	early->bytes += skb->truesize;
	return true;
}

/*
 * Return: the stored clone whose first PSN is @psn or the closest one before @psn; NULL if there
 * is none. @parent and @link say where in the tree a clone that begins at @psn would go.
 */
static struct sk_buff *rox_early_find(struct rox_early *early, u32 psn, struct rb_node **parent,
				      struct rb_node ***link)
{
	struct sk_buff *skb, *found = NULL;

	*parent = NULL;
	*link = &early->tree.rb_node;
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

/* Does packet @index of the frame @skb, with @psn, follow the packets of @kept? */
static bool rox_early_continues(const struct sk_buff *kept, const struct sk_buff *skb, u32 index,
				u32 psn)
{
	const struct rox_skb_cb *cb = rox_skb_cb(kept);

	/* Only clones of one frame share a head. */
	return kept->head == skb->head && cb->first + cb->count == index &&
	       rox_psn_add(cb->psn, cb->count) == psn;
}

enum rox_early_is rox_early_keep(struct rox_qp *qp, struct rox_early *early, u32 expected,
				 const struct rox_pkt *pkt, u32 index)
{
	struct rb_node *parent, **link;
	struct sk_buff *before, *skb;
	u32 psn = pkt->bth.psn;

	/* Loopback loses packets only for want of memory. */
	if (pkt->burst || rox_psn_diff(psn, expected) > ROX_EARLY_PSNS)
		return ROX_EARLY_LOST;
	before = rox_early_find(early, psn, &parent, &link);
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
	if (!rox_early_charge(qp, early, skb)) {
		kfree_skb(skb);
		return ROX_EARLY_LOST;
	}
	rox_skb_cb(skb)->first = index;
	rox_skb_cb(skb)->count = 1;
	rox_skb_cb(skb)->psn = psn;
	rox_skb_cb(skb)->checked = true;
	rb_link_node(&skb->rbnode, parent, link);
	rb_insert_color(&skb->rbnode, &early->tree);
	rox_qp_count(qp, ROX_CNT_RX_EARLY);
	return ROX_EARLY_KEPT;
}

u32 rox_early_next_gap(struct rox_early *early, u32 psn)
{
	struct rb_node *parent, **link;
	struct sk_buff *skb;
	u32 end;

	while ((skb = rox_early_find(early, psn, &parent, &link))) {
		end = rox_psn_add(rox_skb_cb(skb)->psn, rox_skb_cb(skb)->count);
		if (rox_psn_diff(psn, end) >= 0)
			break;
		psn = end;
	}
	return psn;
}

/* Drops stored packets that arrived again and were processed. */
bool rox_early_first_due(struct rox_qp *qp, struct rox_early *early, u32 expected)
{
	struct rox_skb_cb *cb;
	struct sk_buff *skb;
	s32 behind;

	while ((skb = skb_rb_first(&early->tree))) {
		cb = rox_skb_cb(skb);
		behind = rox_psn_diff(expected, cb->psn);
		if (behind < 0)
			return false;
		if (behind < cb->count) {
			cb->first += behind;
			cb->count -= behind;
			cb->psn = expected;
			return true;
		}
		rox_early_remove(qp, early, skb);
		consume_skb(skb);
	}
	return false;
}

struct sk_buff *rox_early_take(struct rox_qp *qp, struct rox_early *early)
{
	struct sk_buff *skb = skb_rb_first(&early->tree);

	rox_early_remove(qp, early, skb);
	return skb;
}

void rox_early_purge(struct rox_qp *qp, struct rox_early *early)
{
	struct sk_buff *skb;

	while ((skb = skb_rb_first(&early->tree))) {
		rox_early_remove(qp, early, skb);
		kfree_skb(skb);
	}
}
