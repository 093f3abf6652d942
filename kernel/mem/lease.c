// SPDX-License-Identifier: GPL-2.0
/*
 * Leases. A send side that uses the same region and the same peer in each run looks them up once.
 * So CPUs do not write the object's reference count, one cache line for all of them, for each
 * message.
 */
#include "lease.h"

bool rox_lease_take(struct rox_leases *leases, struct rox_lease *lease)
{
	spin_lock_bh(&leases->lock);
	if (!leases->recalled) {
		list_add_tail(&lease->node, &leases->list);
		lease->taken = true;
	}
	spin_unlock_bh(&leases->lock);
	return lease->taken;
}

void rox_lease_end(struct rox_leases *leases, struct rox_lease *lease)
{
	if (!lease->taken)
		return;
	spin_lock_bh(&leases->lock);
	list_del_init(&lease->node);
	spin_unlock_bh(&leases->lock);
	lease->taken = false;
}

void rox_leases_recall(struct rox_leases *leases)
{
	struct rox_leaseholder *holder;
	struct rox_lease *lease;

	spin_lock_bh(&leases->lock);
	WRITE_ONCE(leases->recalled, true);
	while ((lease = list_first_entry_or_null(&leases->list, struct rox_lease, node))) {
		/* If it ends before the lock is taken again, its node is in no list. */
		list_del_init(&lease->node);
		holder = lease->holder;
		if (!holder->get(holder))
			continue;
		spin_unlock_bh(&leases->lock);
		holder->recall(holder);
		spin_lock_bh(&leases->lock);
	}
	spin_unlock_bh(&leases->lock);
}
