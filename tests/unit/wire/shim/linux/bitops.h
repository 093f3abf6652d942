/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
#ifndef ROX_SHIM_LINUX_BITOPS_H
#define ROX_SHIM_LINUX_BITOPS_H

/* Number of the highest bit that is set, from 1 on; 0 if none is. */
static inline int fls(unsigned int x)
{
    return x ? 32 - __builtin_clz(x) : 0;
}

/* Turns the bits of @x to the left. @n: 1 to 63 */
static inline unsigned long long rol64(unsigned long long x, unsigned int n)
{
    return x << n | x >> (64 - n);
}

#endif
