/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Send queues that need few doorbells: parts of a QP. Included by transport.h.
 */
#ifndef ROX_TRANSPORT_WATCH_H
#define ROX_TRANSPORT_WATCH_H

#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/llist.h>

struct rox_engine;

/**
 * struct rox_watch - the part of a send queue that belongs to an engine (engine.c)
 * @watched: an engine polls the producer index; the program need not ring the doorbell
 * @more: the last run has left work to do
 * @useful: there was work in this stint
 * @seen: producer index that the last run has taken into account; another value means new
 *	WQEs
 * @joined: bit 0: the queue belongs to @engine
 * @engine: valid if @joined
 * @join: in the engine's list of queues that join
 * @entry: in the engine's list of queues that it polls
 */
struct rox_watch {
	bool watched;
	bool more;
	bool useful;
	u32 seen;
	unsigned long joined;
	struct rox_engine *engine;
	struct llist_node join;
	struct list_head entry;
};

/**
 * struct rox_late - late doorbells of a send queue (late.c)
 * @on: bit 0: the program may ring late, and the timer runs
 * @rung: the program has rung since the timer last sent something in its place
 * @waiting: at the last look there were WQEs for which the program had not rung
 * @index: index of the oldest of these
 * @seen: producer index at the last look
 * @idle: number of looks in a row at which nothing was new
 * @vain: number of times that the program did not ring, less those that it was right to wait for it
 * @rest: earliest time to let it ring late again, in jiffies
 * @timer: the next look
 */
struct rox_late {
	unsigned long on;
	bool rung;
	bool waiting;
	u32 index;
	u32 seen;
	unsigned int idle;
	unsigned int vain;
	unsigned long rest;
	struct hrtimer timer;
};

#endif /* ROX_TRANSPORT_WATCH_H */
