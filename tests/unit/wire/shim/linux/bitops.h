/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ROX_SHIM_LINUX_BITOPS_H
#define ROX_SHIM_LINUX_BITOPS_H

/* Number of the highest bit that is set, from 1 on; 0 if none is. */
static inline int fls(unsigned int x)
{
    return x ? 32 - __builtin_clz(x) : 0;
}

#endif
