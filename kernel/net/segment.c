// SPDX-License-Identifier: GPL-2.0
/*
 * Which packets may share a frame. The ICRC covers the IPv4 ID, so the sender must know the ID of
 * each packet that is cut from a frame. Linux counts them up from the ID of the frame, and netdevs
 * that segment UDP are expected to do the same. No standard demands it of them, and the frame may
 * be cut far from here, behind a bridge or by a hypervisor. Where other IDs come out, the receiver
 * drops each packet but the first of a frame. IPv6 has no ID.
 *
 * A sender that gets answers sees that: whatever it sends, the packet after the first of a frame is
 * missing. After ROX_CUT_WRONG such frames in a row, packets of this path go alone. Senders without
 * answers (UC, UD) join packets unless a netdev below them segments UDP itself.
 */
#include "internal.h"

/* Frames in a row of which the receiver got the first packet only. */
#define ROX_CUT_WRONG	3

/* Does this netdev segment UDP in hardware? A netdev without a parent has no hardware. */
static int rox_netdev_segments(struct net_device *ndev, struct netdev_nested_priv *priv)
{
	return ndev->dev.parent && ndev->features & NETIF_F_GSO_UDP_L4;
}

static bool rox_hardware_segments(struct net_device *ndev)
{
	struct netdev_nested_priv priv = {};

	if (!(ndev->features & NETIF_F_GSO_UDP_L4))
		return false;
	return rox_netdev_segments(ndev, &priv) ||
	       netdev_walk_all_lower_dev_rcu(ndev, rox_netdev_segments, &priv);
}

bool rox_may_share_frame(const struct rox_burst *b, const struct dst_entry *dst)
{
	if (b->path->v6)
		return true;
	if (unlikely(READ_ONCE(b->path->singly)))
		return false;
	return b->resends || !rox_hardware_segments(dst->dev);
}

void rox_frame_was_sent(struct rox_sender *sender, u32 psn)
{
	if (sender->framed)
		return;
	sender->framed = true;
	sender->frame_psn = psn;
}

void rox_tx_missing(const struct rox_endpoint *ep, struct rox_path *path,
		    struct rox_sender *sender, u32 psn, bool known)
{
	s32 got = rox_psn_diff(psn, sender->frame_psn);
	bool framed = sender->framed;

	sender->framed = false;
	if (rox_near_lost(path, known) || !framed || got <= 0 || path->v6)
		return;
	if (got > 1) {
		sender->cut_wrong = 0;
		return;
	}
	if (++sender->cut_wrong < ROX_CUT_WRONG || path->singly)
		return;
	WRITE_ONCE(path->singly, true);
	rox_ep_count_add(ep, ROX_CNT_TX_SINGLY, 1);
}
