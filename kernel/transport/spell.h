/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Spells of doorbells: are doorbells so frequent, or so slow, that an engine is worth its CPU?
 *
 * Those of a context on one CPU are counted. There is no lock: an inexact count only starts the
 * engine a little too early or too late.
 */
#ifndef ROX_TRANSPORT_SPELL_H
#define ROX_TRANSPORT_SPELL_H

#include <linux/compiler.h>
#include <linux/jiffies.h>
#include <linux/minmax.h>
#include <linux/time64.h>

/* One of this many doorbells is timed, and the first one of a spell. */
#define ROX_RINGS_TIMED 8
/* With fewer doorbells in a spell no engine starts, however long they take. */
#define ROX_RINGS_LEAST 4
#define ROX_JIFFY_NS (NSEC_PER_SEC / HZ)

/**
 * struct rox_spell - doorbells that are counted together
 * @rings: how many there were since the jiffy @since
 * @since: see @rings
 * @ring_ns: duration of a doorbell: of the last two that were timed the shorter one
 * @last_ns: duration of the last one
 */
struct rox_spell {
	u32 rings;
	unsigned long since;
	u32 ring_ns;
	u32 last_ns;
};

/*
 * Return: how many jiffies a spell has: one, or as many as ROX_RINGS_LEAST doorbells take. On slow
 * machines (emulation, debug kernels) a jiffy may have less than that.
 */
static inline unsigned long rox_spell_jiffies(const struct rox_spell *spell)
{
	return 1 + ROX_RINGS_LEAST * READ_ONCE(spell->ring_ns) / ROX_JIFFY_NS;
}

/* @now: in jiffies */
static inline bool rox_spell_lasts(const struct rox_spell *spell, unsigned long now)
{
	return now - READ_ONCE(spell->since) < rox_spell_jiffies(spell);
}

/* Is the next doorbell to be timed? */
static inline bool rox_spell_times(const struct rox_spell *spell, unsigned long now)
{
	return !(READ_ONCE(spell->rings) % ROX_RINGS_TIMED) || !rox_spell_lasts(spell, now);
}

/*
 * Is an engine that waits for @spin_us worth while? Doorbells are frequent if one comes at least
 * every half of that time. They are slow if they take more than half of the time of a spell.
 */
static inline bool rox_spell_wakes(const struct rox_spell *spell, u32 rings, u32 spin_us)
{
	unsigned long lasts = rox_spell_jiffies(spell);

	return rings * spin_us > 2 * lasts * (USEC_PER_SEC / HZ) ||
	       (rings >= ROX_RINGS_LEAST &&
		(u64)rings * READ_ONCE(spell->ring_ns) > lasts * ROX_JIFFY_NS / 2);
}

/*
 * Counts a doorbell. @now: in jiffies; @took: how long it took, in ns, or 0 if it was not timed.
 * Return: true if an engine that waits for @spin_us should start. The count then begins anew.
 */
static inline bool rox_spell_ring(struct rox_spell *spell, unsigned long now, u64 took, u32 spin_us)
{
	u32 rings = 0;

	if (rox_spell_lasts(spell, now))
		rings = READ_ONCE(spell->rings);
	else
		WRITE_ONCE(spell->since, now);
	WRITE_ONCE(spell->rings, ++rings);
	if (took) {
		took = min_t(u64, took, ROX_JIFFY_NS);
		/* The shorter of two, as one that was interrupted says nothing. */
		WRITE_ONCE(spell->ring_ns, min_t(u32, took, READ_ONCE(spell->last_ns)));
		WRITE_ONCE(spell->last_ns, took);
	}
	if (likely(!rox_spell_wakes(spell, rings, spin_us)))
		return false;
	WRITE_ONCE(spell->rings, 0);
	return true;
}

#endif
