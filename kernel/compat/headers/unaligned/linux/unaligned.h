/* SPDX-License-Identifier: GPL-2.0 */
/* For kernels that have this header in asm/ only. */
#ifndef ROX_COMPAT_LINUX_UNALIGNED_H
#define ROX_COMPAT_LINUX_UNALIGNED_H

#include <asm/unaligned.h>

#endif
