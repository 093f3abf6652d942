/* SPDX-License-Identifier: GPL-2.0 */
/* For kernels that have the functions of this header in netdevice.h. */
#ifndef ROX_COMPAT_NET_GSO_H
#define ROX_COMPAT_NET_GSO_H

#include <linux/netdevice.h>

#endif
