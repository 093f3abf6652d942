/* SPDX-License-Identifier: GPL-2.0 */
/* <rdma/ib_pack.h> with the opcodes that old kernels lack. */
#ifndef ROX_COMPAT_OPCODES_H
#define ROX_COMPAT_OPCODES_H

#include <rdma/ib_pack.h>

/* The kernel got these opcodes together with IB_WR_FLUSH. */
#ifndef ROX_HAVE_IB_FLUSH
#define IB_OPCODE_ATOMIC_WRITE		0x1d
#define IB_OPCODE_RC_ATOMIC_WRITE	0x1d
#endif

#endif /* ROX_COMPAT_OPCODES_H */
