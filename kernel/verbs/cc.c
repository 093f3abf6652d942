// SPDX-License-Identifier: GPL-2.0
/*
 * The files of congestion control in the sysfs of a device, /sys/class/infiniband/DEVICE/cc:
 * the algorithm of new connections, that of single DSCPs, and a file for each parameter.
 */
#include <linux/string.h>

#include "internal.h"

#define ROX_CC_FILES (sizeof(struct rox_cc_params) / sizeof(u32))

static struct rox_dev *rox_cc_dev(struct device *device)
{
	return rdma_device_to_drv_device(device, struct rox_dev, ibdev);
}

/* ---- algorithms ---- */

static ssize_t algorithm_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", READ_ONCE(rox_cc_dev(device)->cc.ops)->name);
}

static ssize_t algorithm_store(struct device *device, struct device_attribute *attr,
			       const char *buf, size_t len)
{
	const struct rox_cc_ops *ops = rox_cc_named(buf, strcspn(buf, "\n"));

	if (!ops)
		return -EINVAL;
	WRITE_ONCE(rox_cc_dev(device)->cc.ops, ops);
	return len;
}
static DEVICE_ATTR_RW(algorithm);

static ssize_t available_algorithms_show(struct device *device, struct device_attribute *attr,
					 char *buf)
{
	const struct rox_cc_ops * const *ops;
	int len = 0;

	for (ops = rox_cc_algorithms; *ops; ops++)
		len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "", (*ops)->name);
	return len + sysfs_emit_at(buf, len, "\n");
}
static DEVICE_ATTR_RO(available_algorithms);

/* A line for each DSCP that has an algorithm of its own. */
static ssize_t algorithm_of_dscp_show(struct device *device, struct device_attribute *attr,
				      char *buf)
{
	const struct rox_dev *dev = rox_cc_dev(device);
	const struct rox_cc_ops *ops;
	int len = 0, dscp;

	for (dscp = 0; dscp < ROX_NUM_DSCP; dscp++) {
		ops = READ_ONCE(dev->cc_of_dscp[dscp]);
		if (ops)
			len += sysfs_emit_at(buf, len, "%d %s\n", dscp, ops->name);
	}
	return len;
}

/* A DSCP and an algorithm, or a DSCP alone: it has the device's algorithm again. */
static ssize_t algorithm_of_dscp_store(struct device *device, struct device_attribute *attr,
				       const char *buf, size_t len)
{
	const struct rox_cc_ops *ops = NULL;
	int dscp, end = 0;

	if (sscanf(buf, "%d %n", &dscp, &end) != 1 || dscp < 0 || dscp >= ROX_NUM_DSCP)
		return -EINVAL;
	if (end && buf[end]) {
		ops = rox_cc_named(buf + end, strcspn(buf + end, "\n"));
		if (!ops)
			return -EINVAL;
	}
	WRITE_ONCE(rox_cc_dev(device)->cc_of_dscp[dscp], ops);
	return len;
}
static DEVICE_ATTR_RW(algorithm_of_dscp);

/* ---- parameters ---- */

/* The files, in the order of rox_cc_param_infos[]. */
static struct device_attribute rox_cc_files[ROX_CC_FILES];

static ssize_t rox_cc_param_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", rox_cc_param_get(&rox_cc_dev(device)->cc,
							attr - rox_cc_files));
}

static ssize_t rox_cc_param_store(struct device *device, struct device_attribute *attr,
				  const char *buf, size_t len)
{
	u32 value;
	int err;

	err = kstrtou32(buf, 10, &value);
	if (err)
		return err == -ERANGE ? -EINVAL : err;
	if (!rox_cc_param_set(&rox_cc_dev(device)->cc, attr - rox_cc_files, value))
		return -EINVAL;
	return len;
}

static struct attribute *rox_cc_attrs[3 + ROX_CC_FILES + 1] = {
	&dev_attr_algorithm.attr,
	&dev_attr_available_algorithms.attr,
	&dev_attr_algorithm_of_dscp.attr,
};

const struct attribute_group rox_cc_group = {
	.name = "cc",
	.attrs = rox_cc_attrs,
};

/**
 * rox_cc_files_init() - makes the files from the table of parameters; at module load
 */
void rox_cc_files_init(void)
{
	u32 i;

	for (i = 0; i < ROX_CC_FILES; i++) {
		rox_cc_files[i] = (struct device_attribute) {
			.attr = { .name = rox_cc_param_infos[i].name, .mode = 0644 },
			.show = rox_cc_param_show,
			.store = rox_cc_param_store,
		};
		rox_cc_attrs[3 + i] = &rox_cc_files[i].attr;
	}
}
