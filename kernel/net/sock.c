// SPDX-License-Identifier: GPL-2.0
/*
 * The socket of a QP, for what it sends. It keeps the frames of the QP on one transmit queue of the
 * netdev, tells cgroup programs and the qdisc which QP sends, and owns the frames until they have
 * left this host (sock_wfree(), which UDP segmentation hands on to the segments; of a list, until
 * its first packet has). A QP stops when its frames fill QP_MOST bytes; all QPs of a device stop
 * when theirs fill DEVICE_MOST together. They go on, in turn, when frames have left.
 *
 * The socket is less than a UDP socket: only what IP output needs (struct inet_sock), and no
 * struct socket. Like all sockets, it lives until the last of its frames has gone. It does not hold
 * the module: the module waits for it when it is unloaded. It does not hold the network namespace
 * (kernel socket).
 */
#include <linux/interrupt.h>
#include <linux/random.h>
#include <linux/wait_bit.h>
#include <net/inet_sock.h>
#include <net/sock.h>

#include "internal.h"
#include "../compat/net.h"

/* A QP stops when its frames have this many bytes (two frames), and goes on at half of it. */
#define QP_MOST		(2 * (int)ROX_BURST_BYTES)
/*
 * The QPs of a device stop when their frames have this many bytes together: less than queues of the
 * default length hold, and more than netdevs need to stay busy.
 */
#define DEVICE_MOST	(32 * (int)ROX_BURST_BYTES)
/* The device counts the bytes of a socket in steps of this size, so short frames cost less. */
#define STEP		8192
/* So many sides go on before the room in the queues is checked again. */
#define BATCH		8
/* Jiffies before packets that a queue has refused are sent again. */
#define REFUSED_JIFFIES	1

/**
 * struct rox_egress - the frames of the QPs of a device that are on this host
 * @ref: one for the device, one for each socket
 * @bytes: memory of their frames, see STEP
 * @lock: protects @senders; taken with interrupts disabled
 * @senders: sides that wait, struct rox_sender by node
 * @tasklet: lets the sides go on
 * @again: lets sides go on whose packets were refused
 */
struct rox_egress {
	refcount_t ref;
	atomic_t bytes;
	spinlock_t lock;	/* @senders */
	struct list_head senders;
	struct tasklet_struct tasklet;
	struct delayed_work again;
};

/**
 * struct rox_sock - socket of a QP
 * @inet: must be first
 * @egress: the device's account
 * @counted: bytes of this socket in @egress
 */
struct rox_sock {
	struct inet_sock inet;
	struct rox_egress *egress;
	atomic_t counted;
};

/* The owner is not set: it would keep the module from being unloaded while devices exist. */
static struct proto rox_proto = {
	.name = "ROX",
	.obj_size = sizeof(struct rox_sock),
};

/* Number of sockets. */
static atomic_t rox_socks;

#if IS_ENABLED(CONFIG_IPV6)
/* The sockets' IPv6 options. Nobody changes them. */
static struct ipv6_pinfo rox_ipv6_options;
#endif

static struct rox_sock *to_rox_sock(const struct sock *sk)
{
	return container_of(inet_sk(sk), struct rox_sock, inet);
}

/* ---- accounts ---- */

static void rox_egress_put(struct rox_egress *egress)
{
	if (refcount_dec_and_test(&egress->ref))
		kfree(egress);
}

/* Memory of the frames of a socket, in bytes. */
static int rox_sock_bytes(const struct sock *sk)
{
	return refcount_read(&sk->sk_wmem_alloc);
}

/* What @egress should have counted for the socket. */
static int rox_sock_owed(const struct rox_sock *rs)
{
	int bytes = rox_sock_bytes(&rs->inet.sk);

	return bytes < STEP ? 0 : bytes;
}

static bool rox_sock_is_stale(const struct rox_sock *rs)
{
	int counted = atomic_read(&rs->counted), owed = rox_sock_owed(rs);

	return abs(owed - counted) >= STEP || (counted && !owed);
}

/*
 * Whoever has changed the bytes of a socket calls this, after a full barrier. If two contexts count
 * at the same time, the later one sees that the earlier one has stored an old value.
 */
static void rox_sock_count(struct rox_sock *rs)
{
	int old, owed;

	while (rox_sock_is_stale(rs)) {
		owed = rox_sock_owed(rs);
		old = atomic_xchg(&rs->counted, owed);
		atomic_add(owed - old, &rs->egress->bytes);
	}
}

/* ---- waiting ---- */

bool rox_tx_is_full(const struct rox_endpoint *ep)
{
	return rox_sock_bytes(ep->sk) > QP_MOST ||
	       atomic_read(&to_rox_sock(ep->sk)->egress->bytes) >= DEVICE_MOST;
}

bool rox_tx_lingers(const struct rox_endpoint *ep)
{
	return ep->sk && rox_sock_bytes(ep->sk) > 1;
}

/* Any context. The lock keeps the tasklet from being scheduled when nobody waits any more. */
static void rox_egress_wake(struct rox_egress *egress)
{
	unsigned long flags;

	spin_lock_irqsave(&egress->lock, flags);
	if (!list_empty(&egress->senders))
		tasklet_schedule(&egress->tasklet);
	spin_unlock_irqrestore(&egress->lock, flags);
}

/* Is it too early after a refusal? */
static bool rox_sender_is_early(const struct rox_sender *sender)
{
	return sender->refusals && time_before(jiffies, sender->until);
}

/*
 * Lets some sides go on, the one that has waited longest first. No frame that leaves need wake
 * those for which it is too early, so the work looks again.
 * Return: how many.
 */
static int rox_egress_pop(struct rox_egress *egress)
{
	struct rox_sender *sender, *next;
	unsigned long flags;
	bool later = false;
	int n = 0;

	spin_lock_irqsave(&egress->lock, flags);
	list_for_each_entry_safe(sender, next, &egress->senders, node) {
		if (n == BATCH || atomic_read(&egress->bytes) >= DEVICE_MOST)
			break;
		if (rox_sender_is_early(sender)) {
			later = true;
			continue;
		}
		if (rox_sock_bytes(sender->sk) > QP_MOST / 2)
			continue;
		list_del_init(&sender->node);
		rox_receiver->resume(sender);
		n++;
	}
	if (later)
		schedule_delayed_work(&egress->again, REFUSED_JIFFIES + 1);
	spin_unlock_irqrestore(&egress->lock, flags);
	return n;
}

/* Bottom halves disabled. */
static void rox_egress_turn(struct rox_egress *egress)
{
	int n;

	n = rox_egress_pop(egress);
	rox_receiver->run();
	/* They need not have sent anything: there may be room for more of them. */
	if (n)
		rox_egress_wake(egress);
}

static void rox_egress_tasklet(struct tasklet_struct *tasklet)
{
	rox_egress_turn(container_of(tasklet, struct rox_egress, tasklet));
}

static void rox_egress_again(struct work_struct *work)
{
	struct rox_egress *egress = container_of(to_delayed_work(work), struct rox_egress, again);

	local_bh_disable();
	rox_egress_turn(egress);
	local_bh_enable();
}

void rox_sender_init(struct rox_sender *sender)
{
	INIT_LIST_HEAD(&sender->node);
	sender->refused = false;
	sender->refusals = 0;
	sender->framed = false;
	sender->cut_wrong = 0;
}

void rox_tx_wait(const struct rox_endpoint *ep, struct rox_sender *sender)
{
	struct rox_egress *egress = to_rox_sock(ep->sk)->egress;
	bool refused = sender->refused;
	unsigned long flags;

	sender->refused = false;
	spin_lock_irqsave(&egress->lock, flags);
	sender->sk = ep->sk;
	sender->until = jiffies + REFUSED_JIFFIES;
	if (list_empty(&sender->node))
		list_add_tail(&sender->node, &egress->senders);
	spin_unlock_irqrestore(&egress->lock, flags);
	/* In the list before the bytes are read; rox_sock_write_space() does the reverse. */
	smp_mb();
	if (refused)
		schedule_delayed_work(&egress->again, REFUSED_JIFFIES + 1);
	else if (!rox_tx_is_full(ep))
		rox_egress_wake(egress);
}

void rox_tx_forget(const struct rox_endpoint *ep, struct rox_sender *sender)
{
	struct rox_egress *egress;
	unsigned long flags;

	if (!ep->sk)
		return;
	egress = to_rox_sock(ep->sk)->egress;
	spin_lock_irqsave(&egress->lock, flags);
	list_del_init(&sender->node);
	spin_unlock_irqrestore(&egress->lock, flags);
}

/*
 * sock_wfree() calls this after it has taken the bytes of a frame off. Softirqs, or any other
 * context but hard interrupts; the caller may have locks. So the tasklet does the work.
 */
static void rox_sock_write_space(struct sock *sk)
{
	struct rox_sock *rs = to_rox_sock(sk);
	struct rox_egress *egress = rs->egress;

	/* The bytes have changed before they are compared with what was counted. */
	smp_mb__after_atomic();
	rox_sock_count(rs);
	/* And before the list is read; pairs with the barrier in rox_tx_wait(). */
	smp_mb();
	if (unlikely(!list_empty(&egress->senders)) &&
	    atomic_read(&egress->bytes) < DEVICE_MOST)
		rox_egress_wake(egress);
}

int rox_egress_open(struct rox_net *net)
{
	struct rox_egress *egress = kzalloc(sizeof(*egress), GFP_KERNEL);

	if (!egress)
		return -ENOMEM;
	refcount_set(&egress->ref, 1);
	spin_lock_init(&egress->lock);
	INIT_LIST_HEAD(&egress->senders);
	tasklet_setup(&egress->tasklet, rox_egress_tasklet);
	INIT_DELAYED_WORK(&egress->again, rox_egress_again);
	net->egress = egress;
	return 0;
}

void rox_egress_close(struct rox_net *net)
{
	struct rox_egress *egress = net->egress;

	net->egress = NULL;
	if (!egress)
		return;
	/* Nobody waits any more. Whoever has seen somebody wait has the lock, or sees nobody. */
	cancel_delayed_work_sync(&egress->again);
	spin_lock_irq(&egress->lock);
	WARN_ON_ONCE(!list_empty(&egress->senders));
	spin_unlock_irq(&egress->lock);
	tasklet_kill(&egress->tasklet);
	rox_egress_put(egress);
}

/* ---- sockets ---- */

/* In an RCU callback (SOCK_RCU_FREE), for which the module's exit waits. */
static void rox_sock_destruct(struct sock *sk)
{
	struct rox_sock *rs = to_rox_sock(sk);

	atomic_sub(atomic_read(&rs->counted), &rs->egress->bytes);
	rox_egress_put(rs->egress);
	if (atomic_dec_and_test(&rox_socks))
		wake_up_var(&rox_socks);
}

static void rox_sock_init(struct sock *sk, struct rox_net *net, bool connected)
{
	struct rox_sock *rs = to_rox_sock(sk);

	sock_init_data(NULL, sk);
	sock_set_flag(sk, SOCK_RCU_FREE);
	sk->sk_type = SOCK_RAW;
	sk->sk_protocol = IPPROTO_UDP;
	sk->sk_state = connected ? TCP_ESTABLISHED : TCP_CLOSE;
	/* The qdisc fq tells the sockets apart that have had the same address. */
	sk->sk_hash = get_random_u32();
	sk->sk_write_space = rox_sock_write_space;
	sk->sk_destruct = rox_sock_destruct;
#if IS_ENABLED(CONFIG_IPV6)
	rs->inet.pinet6 = &rox_ipv6_options;
#endif
	/* See rox_route_mtu(). */
	rs->inet.pmtudisc = IP_PMTUDISC_INTERFACE;
	rox_sock_set_mc_loop(sk);
	refcount_inc(&net->egress->ref);
	rs->egress = net->egress;
	atomic_inc(&rox_socks);
}

int rox_ep_open(struct rox_endpoint *ep, struct rox_net *net, bool connected)
{
	int family = IS_ENABLED(CONFIG_IPV6) ? AF_INET6 : AF_INET;
	struct sock *sk = NULL;
	bool sends;

	if (ep->sk)
		return 0;
	mutex_lock(&rox_net_lock);
	/*
	 * A device without a namespace sends nothing. The socket is in the device's namespace, even
	 * if paths are in others, because that one usually lives as long as the device.
	 */
	sends = net->ns && !net->ns->dead;
	if (sends)
		sk = sk_alloc(net->ns->net, family, GFP_KERNEL, &rox_proto, 1);
	if (sk) {
		rox_sock_init(sk, net, connected);
		__sk_add_node(sk, &net->socks);
		WRITE_ONCE(ep->sk, sk);
	}
	mutex_unlock(&rox_net_lock);
	return sends && !sk ? -ENOMEM : 0;
}

void rox_ep_close(struct rox_endpoint *ep)
{
	struct sock *sk = ep->sk;

	if (!sk)
		return;
	mutex_lock(&rox_net_lock);
	__sk_del_node_init(sk);
	mutex_unlock(&rox_net_lock);
	sk_dst_reset(sk);
	ep->sk = NULL;
	sock_put(sk);
}

void rox_socks_forget(struct rox_net *net)
{
	struct sock *sk;

	sk_for_each(sk, &net->socks)
		sk_dst_reset(sk);
}

/*
 * The first packet of a list, or all of it. Some kernels take the others' part of truesize away
 * when they separate them, but all of it was charged to the socket.
 */
static void rox_sock_free_list(struct sk_buff *skb)
{
	skb->truesize = (uintptr_t)skb_shinfo(skb)->destructor_arg;
	sock_wfree(skb);
}

void rox_sock_own(struct sock *sk, struct sk_buff *skb, struct dst_entry *dst, bool idle)
{
	skb_set_owner_w(skb, sk);
	if (unlikely(skb_has_frag_list(skb))) {
		skb_shinfo(skb)->destructor_arg = (void *)(uintptr_t)skb->truesize;
		skb->destructor = rox_sock_free_list;
	}
	/* The bytes have changed before they are compared with what was counted. */
	smp_mb__after_atomic();
	rox_sock_count(to_rox_sock(sk));
	/* Nothing of the QP can be overtaken: netdev_pick_tx() may choose another queue. */
	skb->ooo_okay = idle && rox_sock_bytes(sk) <= skb->truesize + 1;
	/* netdev_pick_tx() remembers the queue only of sockets that have a route: any will do. */
	if (unlikely(!rcu_access_pointer(sk->sk_dst_cache)))
		sk_dst_set(sk, dst_clone(dst));
}

int rox_socks_init(void)
{
#if IS_ENABLED(CONFIG_IPV6)
	rox_pinfo_set_mc_loop(&rox_ipv6_options);
	rox_ipv6_options.pmtudisc = IPV6_PMTUDISC_INTERFACE;
#endif
	return proto_register(&rox_proto, 1);
}

/* Waits for frames that are still in a queue of a qdisc or netdev. */
void rox_socks_exit(void)
{
	wait_var_event(&rox_socks, !atomic_read(&rox_socks));
	rcu_barrier();
	proto_unregister(&rox_proto);
}
