/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel's names of integer types over those of its user-space headers. */
#ifndef ROX_SHIM_LINUX_TYPES_H
#define ROX_SHIM_LINUX_TYPES_H

#include_next <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;

#define __force

#endif
