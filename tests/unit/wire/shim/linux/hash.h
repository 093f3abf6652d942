/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ROX_SHIM_LINUX_HASH_H
#define ROX_SHIM_LINUX_HASH_H

/* The factor of the kernel. */
#define GOLDEN_RATIO_64 0x61c8864680b583ebULL

#endif
