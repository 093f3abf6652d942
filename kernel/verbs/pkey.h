/* SPDX-License-Identifier: GPL-2.0 */
/*
 * P_Keys: the table of a device, and who may talk to whom.
 */
#ifndef ROX_PKEY_H
#define ROX_PKEY_H

#include "../rox.h"

#define ROX_PKEY_FULL	0x8000
#define ROX_PKEY_BASE	0x7fff

/* 0x0000 and 0x8000 are no keys: an entry that holds one is free. */
static inline bool rox_pkey_valid(u16 pkey)
{
	return pkey & ROX_PKEY_BASE;
}

/* The same partition, and not both of them limited members. */
static inline bool rox_pkey_match(u16 a, u16 b)
{
	return rox_pkey_valid(a) && !((a ^ b) & ROX_PKEY_BASE) && ((a | b) & ROX_PKEY_FULL);
}

/* Any context; @index is below dev->num_pkeys. */
static inline u16 rox_pkey_at(const struct rox_dev *dev, u32 index)
{
	return READ_ONCE(dev->pkeys[index]);
}

int rox_pkeys_init(struct rox_dev *dev);
void rox_pkeys_exit(struct rox_dev *dev);
int rox_pkey_find(const struct rox_dev *dev, u16 pkey);
int rox_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey);

/* For the table of verbs: the file in the port's folder of sysfs. */
extern const struct attribute_group *rox_port_groups[];

#endif /* ROX_PKEY_H */
