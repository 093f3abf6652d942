// SPDX-License-Identifier: GPL-2.0
/*
 * The opcode table (IBTA volume 1, table 38, annex A14 for XRC, annex A17 for
 * the CNP, annex A19 for ATOMIC WRITE), and the code tables of credits and timers
 * (tables 45 and 46).
 */
#include <linux/bitops.h>
#include <linux/kernel.h>

#include "wire.h"
#include "../compat/opcodes.h"

/*
 * The kernel defines the names of opcodes (<rdma/ib_pack.h>). IB_OPCODE_SEND_FIRST and so on are
 * the lower five bits, which have the same meaning in RC, UC and XRC. A new opcode gets a row in
 * the table here. It may also need changes in:
 *
 * - wire/wire.h: enum rox_op_kind, if it does something new; compat/opcodes.h, if a kernel lacks it
 * - wire/headers.c: an extended header that no other opcode has
 * - transport/wqe.c: its work request; transport/internal.h: what kind of WQE that is
 *   (rox_wqe_is_answered() ...); transport/requester.c sends it, and transport/completer.c takes
 *   the response
 * - transport/responder.c: rox_execute(); transport/resp_exec.c or resp_read.c executes it, and
 *   rox_exec_duplicate() answers duplicates
 * - net/loopback.c: rox_only_opcode(), if its messages have several packets
 * - verbs/post.c: kernel users; verbs/device.c: the capability flag
 * - userspace/: the provider's work requests, and the opcode of their completions
 * - tests: wire/wire_test.c, tests/unit/wire/tables_test.cc, tests/wire, tests/verbs
 */
#define RC(op)	(ROX_SERVICE_RC | (op))
#define UC(op)	(ROX_SERVICE_UC | (op))
#define UD(op)	(ROX_SERVICE_UD | (op))
#define XRC(op)	(ROX_SERVICE_XRC | (op))

enum {
	DETH_LEN	= 8,
	RETH_LEN	= 16,
	ATOMIC_LEN	= 28,
	AETH_LEN	= 4,
	ATOMIC_ACK_LEN	= 8,
	IMM_LEN		= 4,
	IETH_LEN	= 4,
	XRC_LEN		= 4,
	CNP_LEN		= 16,	/* reserved bytes that every CNP has */
};

/* Macros for the rows of the table. */
#define FIRST	ROX_OP_FIRST
#define LAST	ROX_OP_LAST
#define ONLY	(ROX_OP_FIRST | ROX_OP_LAST)
#define RECV	ROX_OP_RECV

#define ROW(_kind, _flags, _ext, _len)	{		\
	.kind = (_kind),				\
	.flags = ROX_OP_VALID | (_flags),		\
	.ext = (_ext),					\
	.ext_len = (_len),				\
}

#define REQ(_kind, _flags, _ext, _len)			\
	ROW(_kind, ROX_OP_REQUEST | ROX_OP_PAYLOAD | (_flags), _ext, _len)
#define BARE_REQ(_kind, _ext, _len)			\
	ROW(_kind, ROX_OP_REQUEST | ONLY, _ext, _len)
#define BARE_RESP(_kind, _ext, _len)			\
	ROW(_kind, ONLY, _ext, _len)
/* A packet that arrives in order gets a NAK for an invalid request (IBTA 9.9.3). */
#define RESERVED_REQ(_ext, _len)				\
	REQ(ROX_KIND_NONE, ONLY, _ext, _len)
#define READ_RESP(_flags, _ext, _len)			\
	ROW(ROX_KIND_READ_RESP, ROX_OP_PAYLOAD | (_flags), _ext, _len)

/* @x, @n: the extended header that every request of the service has, and its length. */
#define SENDS(svc, x, n)								\
	[svc(IB_OPCODE_SEND_FIRST)] =							\
		REQ(ROX_KIND_SEND, FIRST, x, n),					\
	[svc(IB_OPCODE_SEND_MIDDLE)] =							\
		REQ(ROX_KIND_SEND, 0, x, n),						\
	[svc(IB_OPCODE_SEND_LAST)] =							\
		REQ(ROX_KIND_SEND, LAST | RECV, x, n),					\
	[svc(IB_OPCODE_SEND_LAST_WITH_IMMEDIATE)] =					\
		REQ(ROX_KIND_SEND, LAST | RECV, (x) | ROX_EXT_IMM, (n) + IMM_LEN),	\
	[svc(IB_OPCODE_SEND_ONLY)] =							\
		REQ(ROX_KIND_SEND, ONLY | RECV, x, n),					\
	[svc(IB_OPCODE_SEND_ONLY_WITH_IMMEDIATE)] =					\
		REQ(ROX_KIND_SEND, ONLY | RECV, (x) | ROX_EXT_IMM, (n) + IMM_LEN)

#define WRITES(svc, x, n)								\
	[svc(IB_OPCODE_RDMA_WRITE_FIRST)] =						\
		REQ(ROX_KIND_WRITE, FIRST, (x) | ROX_EXT_RETH, (n) + RETH_LEN),		\
	[svc(IB_OPCODE_RDMA_WRITE_MIDDLE)] =						\
		REQ(ROX_KIND_WRITE, 0, x, n),						\
	[svc(IB_OPCODE_RDMA_WRITE_LAST)] =						\
		REQ(ROX_KIND_WRITE, LAST, x, n),					\
	[svc(IB_OPCODE_RDMA_WRITE_LAST_WITH_IMMEDIATE)] =				\
		REQ(ROX_KIND_WRITE, LAST | RECV, (x) | ROX_EXT_IMM, (n) + IMM_LEN),	\
	[svc(IB_OPCODE_RDMA_WRITE_ONLY)] =						\
		REQ(ROX_KIND_WRITE, ONLY, (x) | ROX_EXT_RETH, (n) + RETH_LEN),		\
	[svc(IB_OPCODE_RDMA_WRITE_ONLY_WITH_IMMEDIATE)] =				\
		REQ(ROX_KIND_WRITE, ONLY | RECV, (x) | ROX_EXT_RETH | ROX_EXT_IMM,	\
		    (n) + RETH_LEN + IMM_LEN)

/* Opcodes of RC and XRC only. Responses have no XRCETH, as they name no SRQ. */
#define RELIABLES(svc, x, n)								\
	[svc(IB_OPCODE_SEND_LAST_WITH_INVALIDATE)] =					\
		REQ(ROX_KIND_SEND, LAST | RECV, (x) | ROX_EXT_IETH, (n) + IETH_LEN),	\
	[svc(IB_OPCODE_SEND_ONLY_WITH_INVALIDATE)] =					\
		REQ(ROX_KIND_SEND, ONLY | RECV, (x) | ROX_EXT_IETH, (n) + IETH_LEN),	\
	[svc(IB_OPCODE_RDMA_READ_REQUEST)] =						\
		BARE_REQ(ROX_KIND_READ_REQ, (x) | ROX_EXT_RETH, (n) + RETH_LEN),	\
	[svc(IB_OPCODE_COMPARE_SWAP)] =							\
		BARE_REQ(ROX_KIND_CMP_SWAP, (x) | ROX_EXT_ATOMIC, (n) + ATOMIC_LEN),	\
	[svc(IB_OPCODE_FETCH_ADD)] =							\
		BARE_REQ(ROX_KIND_FETCH_ADD, (x) | ROX_EXT_ATOMIC, (n) + ATOMIC_LEN),	\
	[svc(IB_OPCODE_RDMA_READ_RESPONSE_FIRST)] =					\
		READ_RESP(FIRST, ROX_EXT_AETH, AETH_LEN),				\
	[svc(IB_OPCODE_RDMA_READ_RESPONSE_MIDDLE)] =					\
		READ_RESP(0, 0, 0),							\
	[svc(IB_OPCODE_RDMA_READ_RESPONSE_LAST)] =					\
		READ_RESP(LAST, ROX_EXT_AETH, AETH_LEN),				\
	[svc(IB_OPCODE_RDMA_READ_RESPONSE_ONLY)] =					\
		READ_RESP(ONLY, ROX_EXT_AETH, AETH_LEN),				\
	[svc(IB_OPCODE_ACKNOWLEDGE)] =							\
		BARE_RESP(ROX_KIND_ACK, ROX_EXT_AETH, AETH_LEN),			\
	[svc(IB_OPCODE_ATOMIC_ACKNOWLEDGE)] =						\
		BARE_RESP(ROX_KIND_ATOMIC_ACK, ROX_EXT_AETH | ROX_EXT_ATOMIC_ACK,	\
			  AETH_LEN + ATOMIC_ACK_LEN),					\
	[svc(0x15)] =									\
		RESERVED_REQ(x, n),								\
	[svc(0x18) ... svc(0x1c)] =							\
		RESERVED_REQ(x, n),								\
	[svc(0x1e) ... svc(0x1f)] =							\
		RESERVED_REQ(x, n)

const struct rox_opcode_info rox_opcodes[256] = {
	SENDS(RC, 0, 0),
	WRITES(RC, 0, 0),
	RELIABLES(RC, 0, 0),
	[RC(IB_OPCODE_ATOMIC_WRITE)] = REQ(ROX_KIND_ATOMIC_WRITE, ONLY, ROX_EXT_RETH, RETH_LEN),
	SENDS(UC, 0, 0),
	WRITES(UC, 0, 0),
	SENDS(XRC, ROX_EXT_XRC, XRC_LEN),
	WRITES(XRC, ROX_EXT_XRC, XRC_LEN),
	RELIABLES(XRC, ROX_EXT_XRC, XRC_LEN),
	[XRC(IB_OPCODE_ATOMIC_WRITE)] = RESERVED_REQ(ROX_EXT_XRC, XRC_LEN),
	[UD(IB_OPCODE_SEND_ONLY)] = REQ(ROX_KIND_SEND, ONLY | RECV, ROX_EXT_DETH, DETH_LEN),
	[UD(IB_OPCODE_SEND_ONLY_WITH_IMMEDIATE)] =
		REQ(ROX_KIND_SEND, ONLY | RECV, ROX_EXT_DETH | ROX_EXT_IMM, DETH_LEN + IMM_LEN),
	/* Its reserved bytes are treated as an extended header without fields. */
	[ROX_OPCODE_CNP] = ROW(ROX_KIND_CNP, ONLY, 0, CNP_LEN),
	[ROX_OPCODE_UNCUT] = ROW(ROX_KIND_UNCUT, ONLY, 0, 0),
};

/*
 * Number of credits by code: 0, 1, then 2^n and 1.5 * 2^n for each n. Code 31 means that there is
 * no flow control (ROX_AETH_NO_CREDITS).
 */
static const u16 rox_credits[31] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

/* The code holds the position of the highest bit of @n, and the bit below it. */
u8 rox_credit_encode(u32 n)
{
	u32 high;

	if (n < 2)
		return n;
	if (n >= rox_credits[ARRAY_SIZE(rox_credits) - 1])
		return ARRAY_SIZE(rox_credits) - 1;
	high = fls(n) - 1;
	return 2 * high + (n >> (high - 1) & 1);
}

u32 rox_credit_decode(u8 code)
{
	return code < ARRAY_SIZE(rox_credits) ? rox_credits[code] : 0;
}

/* RNR NAK timer, in units of 10 microseconds. */
static const u32 rox_rnr_timer[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

u64 rox_rnr_timer_ns(u8 code)
{
	return rox_rnr_timer[code & 31] * 10000ULL;
}

u64 rox_ack_timeout_ns(u8 code)
{
	code &= 31;
	return code ? 4096ULL << code : 0;
}
