/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ROX_SHIM_CC_LINUX_KERNEL_H
#define ROX_SHIM_CC_LINUX_KERNEL_H

#include_next <linux/kernel.h>
#include <linux/types.h>
#include <stdint.h>

typedef __s64 s64;

#define U8_MAX UINT8_MAX
#define U16_MAX UINT16_MAX
#define U32_MAX UINT32_MAX
#define abs(value) ((value) < 0 ? -(value) : (value))

#endif
