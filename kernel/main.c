// SPDX-License-Identifier: GPL-2.0
/*
 * rox: soft RoCE v2 device. Module init and exit.
 */
#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "link.h"
#include "net/net.h"
#include "transport/transport.h"
#include "verbs/odp.h"
#include "verbs/verbs.h"

MODULE_DESCRIPTION("Software RoCE v2 device");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("rox");

struct workqueue_struct *rox_wq;
struct workqueue_struct *rox_retry_wq;

static void rox_wqs_free(void)
{
	destroy_workqueue(rox_retry_wq);
	destroy_workqueue(rox_wq);
}

/* Unbound: a burst that had to wait should not wait for a busy CPU as well. */
static int __init rox_wqs_alloc(void)
{
	rox_wq = alloc_workqueue("rox", WQ_UNBOUND | WQ_HIGHPRI | WQ_MEM_RECLAIM | WQ_SYSFS, 0);
	if (!rox_wq)
		return -ENOMEM;
	rox_retry_wq = alloc_ordered_workqueue("rox_retry", WQ_MEM_RECLAIM);
	if (!rox_retry_wq) {
		destroy_workqueue(rox_wq);
		return -ENOMEM;
	}
	return 0;
}

static int __init rox_init(void)
{
	int err;

	err = rox_wqs_alloc();
	if (err)
		return err;
	err = rox_engine_init();
	if (err)
		goto free_wqs;
	err = rox_odp_init();
	if (err)
		goto exit_engine;
	err = rox_qp_table_init();
	if (err)
		goto exit_odp;
	err = rox_net_init();
	if (err)
		goto free_qp_table;
	err = rox_link_init();
	if (err)
		goto exit_net;
	err = rox_netdev_init();
	if (err)
		goto exit_link;
	rdma_link_register(&rox_link_ops);
	return 0;

exit_link:
	rox_link_exit();
exit_net:
	rox_net_exit();
free_qp_table:
	rox_qp_table_exit();
exit_odp:
	rox_odp_exit();
exit_engine:
	rox_engine_exit();
free_wqs:
	rox_wqs_free();
	return err;
}

static void __exit rox_exit(void)
{
	rdma_link_unregister(&rox_link_ops);
	rox_netdev_exit();
	rox_link_exit();
	rox_net_exit();
	rox_qp_table_exit();
	rox_odp_exit();
	rox_engine_exit();
	rox_wqs_free();
	/* Callbacks of call_rcu() are code of this module. */
	rcu_barrier();
}

module_init(rox_init);
module_exit(rox_exit);
