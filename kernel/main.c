// SPDX-License-Identifier: GPL-2.0
/*
 * rox: soft RoCE v2 device. Module init and exit.
 */
#include <linux/module.h>
#include <rdma/rdma_netlink.h>

#include "link.h"
#include "mem/mem.h"
#include "net/net.h"
#include "transport/transport.h"

MODULE_DESCRIPTION("Software RoCE v2 device");
/* Without it there is no srcversion either, by which a build is told from another one. */
MODULE_VERSION("0.2.0");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("rox");

static int __init rox_init(void)
{
	int err;

	err = rox_sides_init();
	if (err)
		return err;
	err = rox_odp_init();
	if (err)
		goto exit_sides;
	err = rox_qp_table_init();
	if (err)
		goto exit_odp;
	err = rox_net_init(&rox_transport_ops);
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
exit_sides:
	rox_sides_exit();
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
	rox_sides_exit();
	/* Wait for callbacks of call_rcu(), which run code of this module. */
	rcu_barrier();
}

module_init(rox_init);
module_exit(rox_exit);
