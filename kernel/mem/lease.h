/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Leases: references on an object that last from one run of a send side to the next. When the
 * object is destroyed, it asks for them back.
 */
#ifndef ROX_LEASE_H
#define ROX_LEASE_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

/**
 * struct rox_leases - the leases on an object
 * @lock: protects the list and the nodes; taken with bottom halves disabled
 * @list: struct rox_lease
 * @recalled: the object is being destroyed: no lease is taken any more, and none is valid
 */
struct rox_leases {
	spinlock_t lock;	/* see above */
	struct list_head list;
	bool recalled;
};

/**
 * struct rox_leaseholder - who takes leases
 * @get: takes a reference on the holder; false if the holder is being destroyed, which ends its
 *	leases anyway. Any context
 * @recall: puts that reference, and makes sure that the holder soon checks its leases. Process
 *	context
 */
struct rox_leaseholder {
	bool (*get)(struct rox_leaseholder *holder);
	void (*recall)(struct rox_leaseholder *holder);
};

/**
 * struct rox_lease - a lease, or room for one. One context at a time uses it
 * @holder: whose it is
 * @node: in rox_leases.list
 * @last: of the object that was in use when the last run ended; only compared, it may be freed
 * @taken: the holder has it
 */
struct rox_lease {
	struct rox_leaseholder *holder;
	struct list_head node;
	const struct rox_leases *last;
	bool taken;
};

static inline void rox_leases_init(struct rox_leases *leases)
{
	spin_lock_init(&leases->lock);
	INIT_LIST_HEAD(&leases->list);
	leases->recalled = false;
}

/* Has the holder a lease that was not recalled? */
static inline bool rox_lease_stands(const struct rox_leases *leases, const struct rox_lease *lease)
{
	return lease->taken && likely(!READ_ONCE(leases->recalled));
}

/*
 * Called when a run ends without a valid lease. Return: true if it has used the same object as the
 * run before: time to take a lease. So programs that use another object for each message do not
 * pay for leases.
 */
static inline bool rox_lease_due(const struct rox_leases *leases, struct rox_lease *lease)
{
	bool again = lease->last == leases;

	lease->last = leases;
	return again && !lease->taken;
}

/*
 * Makes the caller's reference on the object a lease. Any context but hard interrupts. Return:
 * false if the object is being destroyed.
 */
bool rox_lease_take(struct rox_leases *leases, struct rox_lease *lease);
/* Ends the lease, if it was taken. The caller then puts the reference. Context: the same. */
void rox_lease_end(struct rox_leases *leases, struct rox_lease *lease);
/*
 * The object is being destroyed: asks each holder once to end its lease. The caller then waits
 * until all references are put. Process context.
 */
void rox_leases_recall(struct rox_leases *leases);

#endif /* ROX_LEASE_H */
