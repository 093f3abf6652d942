/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ROX_SHIM_LINUX_KERNEL_H
#define ROX_SHIM_LINUX_KERNEL_H

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

#endif
