/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* As in the kernel, arguments of min() and max() must have the same sign. */
#ifndef ROX_SHIM_LINUX_MINMAX_H
#define ROX_SHIM_LINUX_MINMAX_H

#define min(a, b)                                                                                  \
    ({                                                                                             \
        __auto_type a_ = (a);                                                                      \
        __auto_type b_ = (b);                                                                      \
        a_ < b_ ? a_ : b_;                                                                         \
    })
#define max(a, b)                                                                                  \
    ({                                                                                             \
        __auto_type a_ = (a);                                                                      \
        __auto_type b_ = (b);                                                                      \
        a_ > b_ ? a_ : b_;                                                                         \
    })
#define min_t(type, a, b) min((type)(a), (type)(b))
#define max_t(type, a, b) max((type)(a), (type)(b))
#define clamp(value, low, high) ((__typeof__(value))min(max(value, low), high))
#define clamp_t(type, value, low, high) clamp((type)(value), (type)(low), (type)(high))

#endif
