// SPDX-License-Identifier: GPL-2.0
/*
 * The P_Key table. IBTA volume 1, 10.9.1 (table, invalid keys), 10.9.3
 * (membership).
 *
 * On an InfiniBand fabric the subnet manager writes the table. Here the administrator
 * writes it, one entry at a time:
 *
 *	echo "INDEX PKEY" > /sys/class/infiniband/rox0/ports/1/rox/set_pkey
 *
 * QPs do not copy their key, they point to its entry. So a change applies to their
 * next packets.
 */
#include <linux/capability.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <rdma/ib_sysfs.h>

#include "internal.h"

#define ROX_DEFAULT_PKEY	0xffff
#define ROX_PKEYS_DEFAULT	128
#define ROX_PKEYS_MAX		4096

static unsigned int pkey_table_len = ROX_PKEYS_DEFAULT;

static int rox_set_table_len(const char *val, const struct kernel_param *kp)
{
	return param_set_uint_minmax(val, kp, 1, ROX_PKEYS_MAX);
}

static const struct kernel_param_ops rox_table_len_ops = {
	.set = rox_set_table_len,
	.get = param_get_uint,
};

module_param_cb(pkey_table_len, &rox_table_len_ops, &pkey_table_len, 0644);
MODULE_PARM_DESC(pkey_table_len, "Entries in the P_Key table of devices that are added from now on (1 to 4096)");

/* Serialises changes of tables. */
static DEFINE_MUTEX(rox_pkey_mutex);

/**
 * rox_pkeys_init() - allocates the table of a device, with the default key in entry 0
 * @dev: device before its registration
 *
 * The RDMA core copies the length when the device is registered, so it is constant.
 * Process context. Return: 0 or -ENOMEM.
 */
int rox_pkeys_init(struct rox_dev *dev)
{
	dev->num_pkeys = READ_ONCE(pkey_table_len);
	dev->pkeys = kcalloc(dev->num_pkeys, sizeof(*dev->pkeys), GFP_KERNEL);
	if (!dev->pkeys)
		return -ENOMEM;
	dev->pkeys[0] = ROX_DEFAULT_PKEY;
	return 0;
}

/**
 * rox_pkeys_exit() - frees the table
 * @dev: device without QPs
 */
void rox_pkeys_exit(struct rox_dev *dev)
{
	kfree(dev->pkeys);
}

int rox_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	const struct rox_dev *dev = to_rox_dev(ibdev);

	if (index >= dev->num_pkeys)
		return -EINVAL;
	*pkey = rox_pkey_at(dev, index);
	return 0;
}

/* The event also makes the RDMA core update its cache. */
static void rox_pkey_set(struct rox_dev *dev, u32 index, u16 pkey)
{
	struct ib_event event = {
		.device = &dev->ibdev,
		.event = IB_EVENT_PKEY_CHANGE,
		.element.port_num = 1,
	};

	mutex_lock(&rox_pkey_mutex);
	if (dev->pkeys[index] != pkey) {
		WRITE_ONCE(dev->pkeys[index], pkey);
		ib_dispatch_event(&event);
	}
	mutex_unlock(&rox_pkey_mutex);
}

/* "INDEX PKEY", each decimal or with 0x. */
static int rox_pkey_parse(const char *buf, u16 *index, u16 *pkey)
{
	char text[32], *second = text, *first;
	int err;

	if (strscpy(text, buf, sizeof(text)) < 0)
		return -EINVAL;
	first = strsep(&second, " \t");
	if (!second)
		return -EINVAL;
	err = kstrtou16(first, 0, index);
	return err ?: kstrtou16(strim(second), 0, pkey);
}

/*
 * sysfs delays unregistering of the device until this returns. The file exists only in
 * the namespace of the device.
 */
static ssize_t set_pkey_store(struct ib_device *ibdev, u32 port,
			      struct ib_port_attribute *attr, const char *buf, size_t count)
{
	struct rox_dev *dev = to_rox_dev(ibdev);
	u16 index, pkey;
	int err;

	if (!capable(CAP_NET_ADMIN))
		return -EPERM;
	err = rox_pkey_parse(buf, &index, &pkey);
	if (err)
		return err;
	if (index >= dev->num_pkeys)
		return -EINVAL;
	rox_pkey_set(dev, index, pkey);
	return count;
}

static IB_PORT_ATTR_WO(set_pkey);

static struct attribute *rox_port_attrs[] = {
	&ib_port_attr_set_pkey.attr,
	NULL,
};

static const struct attribute_group rox_port_group = {
	.name = "rox",
	.attrs = rox_port_attrs,
};

const struct attribute_group *rox_port_groups[] = {
	&rox_port_group,
	NULL,
};
