// SPDX-License-Identifier: GPL-2.0
/*
 * The opcode table (IBTA volume 1, table 38, annex A14 for XRC, annex A17 for
 * the CNP, annex A19 for ATOMIC WRITE), and the code tables of credits and timers
 * (tables 45 and 46).
 */
#include <linux/bitops.h>
#include <linux/kernel.h>

#include "wire.h"

/* Lower five bits of an opcode; the same meaning in RC, UC and XRC. */
enum {
	OP_SEND_FIRST		= 0x00,
	OP_SEND_MIDDLE		= 0x01,
	OP_SEND_LAST		= 0x02,
	OP_SEND_LAST_IMM	= 0x03,
	OP_SEND_ONLY		= 0x04,
	OP_SEND_ONLY_IMM	= 0x05,
	OP_WRITE_FIRST		= 0x06,
	OP_WRITE_MIDDLE		= 0x07,
	OP_WRITE_LAST		= 0x08,
	OP_WRITE_LAST_IMM	= 0x09,
	OP_WRITE_ONLY		= 0x0a,
	OP_WRITE_ONLY_IMM	= 0x0b,
	OP_READ_REQ		= 0x0c,
	OP_READ_RESP_FIRST	= 0x0d,
	OP_READ_RESP_MIDDLE	= 0x0e,
	OP_READ_RESP_LAST	= 0x0f,
	OP_READ_RESP_ONLY	= 0x10,
	OP_ACK			= 0x11,
	OP_ATOMIC_ACK		= 0x12,
	OP_CMP_SWAP		= 0x13,
	OP_FETCH_ADD		= 0x14,
	OP_SEND_LAST_INV	= 0x16,
	OP_SEND_ONLY_INV	= 0x17,
	OP_ATOMIC_WRITE		= 0x1d,

	OP_CNP			= ROX_SERVICE_CNP | 0x01,
};

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

/* The parts from which rows are made. */
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
/* In order it is an invalid request, and the peer has to be told (IBTA 9.9.3). */
#define RESERVED(_ext, _len)				\
	REQ(ROX_KIND_NONE, ONLY, _ext, _len)
#define READ_RESP(_flags, _ext, _len)			\
	ROW(ROX_KIND_READ_RESP, ROX_OP_PAYLOAD | (_flags), _ext, _len)

/* @x, @n: the header, and its length, that every request of the service has. */
#define SENDS(svc, x, n)								\
	[svc(OP_SEND_FIRST)]	= REQ(ROX_KIND_SEND, FIRST, x, n),			\
	[svc(OP_SEND_MIDDLE)]	= REQ(ROX_KIND_SEND, 0, x, n),				\
	[svc(OP_SEND_LAST)]	= REQ(ROX_KIND_SEND, LAST | RECV, x, n),		\
	[svc(OP_SEND_LAST_IMM)]	= REQ(ROX_KIND_SEND, LAST | RECV,			\
				      (x) | ROX_EXT_IMM, (n) + IMM_LEN),		\
	[svc(OP_SEND_ONLY)]	= REQ(ROX_KIND_SEND, ONLY | RECV, x, n),		\
	[svc(OP_SEND_ONLY_IMM)]	= REQ(ROX_KIND_SEND, ONLY | RECV,			\
				      (x) | ROX_EXT_IMM, (n) + IMM_LEN)

#define WRITES(svc, x, n)								\
	[svc(OP_WRITE_FIRST)]	= REQ(ROX_KIND_WRITE, FIRST,				\
				      (x) | ROX_EXT_RETH, (n) + RETH_LEN),		\
	[svc(OP_WRITE_MIDDLE)]	= REQ(ROX_KIND_WRITE, 0, x, n),				\
	[svc(OP_WRITE_LAST)]	= REQ(ROX_KIND_WRITE, LAST, x, n),			\
	[svc(OP_WRITE_LAST_IMM)] = REQ(ROX_KIND_WRITE, LAST | RECV,			\
				       (x) | ROX_EXT_IMM, (n) + IMM_LEN),		\
	[svc(OP_WRITE_ONLY)]	= REQ(ROX_KIND_WRITE, ONLY,				\
				      (x) | ROX_EXT_RETH, (n) + RETH_LEN),		\
	[svc(OP_WRITE_ONLY_IMM)] = REQ(ROX_KIND_WRITE, ONLY | RECV,			\
				       (x) | ROX_EXT_RETH | ROX_EXT_IMM,		\
				       (n) + RETH_LEN + IMM_LEN)

/* What only reliable connected services have. Responses name no SRQ. */
#define RELIABLES(svc, x, n)								\
	[svc(OP_SEND_LAST_INV)]	= REQ(ROX_KIND_SEND, LAST | RECV,			\
				      (x) | ROX_EXT_IETH, (n) + IETH_LEN),		\
	[svc(OP_SEND_ONLY_INV)]	= REQ(ROX_KIND_SEND, ONLY | RECV,			\
				      (x) | ROX_EXT_IETH, (n) + IETH_LEN),		\
	[svc(OP_READ_REQ)]	= BARE_REQ(ROX_KIND_READ_REQ,				\
					   (x) | ROX_EXT_RETH, (n) + RETH_LEN),		\
	[svc(OP_CMP_SWAP)]	= BARE_REQ(ROX_KIND_CMP_SWAP,				\
					   (x) | ROX_EXT_ATOMIC, (n) + ATOMIC_LEN),	\
	[svc(OP_FETCH_ADD)]	= BARE_REQ(ROX_KIND_FETCH_ADD,				\
					   (x) | ROX_EXT_ATOMIC, (n) + ATOMIC_LEN),	\
	[svc(OP_READ_RESP_FIRST)]  = READ_RESP(FIRST, ROX_EXT_AETH, AETH_LEN),		\
	[svc(OP_READ_RESP_MIDDLE)] = READ_RESP(0, 0, 0),				\
	[svc(OP_READ_RESP_LAST)]   = READ_RESP(LAST, ROX_EXT_AETH, AETH_LEN),		\
	[svc(OP_READ_RESP_ONLY)]   = READ_RESP(ONLY, ROX_EXT_AETH, AETH_LEN),		\
	[svc(OP_ACK)]		= BARE_RESP(ROX_KIND_ACK, ROX_EXT_AETH, AETH_LEN),	\
	[svc(OP_ATOMIC_ACK)]	= BARE_RESP(ROX_KIND_ATOMIC_ACK,			\
					    ROX_EXT_AETH | ROX_EXT_ATOMIC_ACK,		\
					    AETH_LEN + ATOMIC_ACK_LEN),		\
	[svc(0x15)]		= RESERVED(x, n),					\
	[svc(0x18) ... svc(0x1c)] = RESERVED(x, n),					\
	[svc(0x1e) ... svc(0x1f)] = RESERVED(x, n)

const struct rox_opcode_info rox_opcodes[256] = {
	SENDS(RC, 0, 0),
	WRITES(RC, 0, 0),
	RELIABLES(RC, 0, 0),
	[RC(OP_ATOMIC_WRITE)]	= REQ(ROX_KIND_ATOMIC_WRITE, ONLY, ROX_EXT_RETH, RETH_LEN),
	SENDS(UC, 0, 0),
	WRITES(UC, 0, 0),
	SENDS(XRC, ROX_EXT_XRC, XRC_LEN),
	WRITES(XRC, ROX_EXT_XRC, XRC_LEN),
	RELIABLES(XRC, ROX_EXT_XRC, XRC_LEN),
	[XRC(OP_ATOMIC_WRITE)]	= RESERVED(ROX_EXT_XRC, XRC_LEN),
	[UD(OP_SEND_ONLY)]	= REQ(ROX_KIND_SEND, ONLY | RECV, ROX_EXT_DETH, DETH_LEN),
	[UD(OP_SEND_ONLY_IMM)]	= REQ(ROX_KIND_SEND, ONLY | RECV, ROX_EXT_DETH | ROX_EXT_IMM,
				      DETH_LEN + IMM_LEN),
	/* Its reserved bytes are counted as an extended header that says nothing. */
	[OP_CNP]		= ROW(ROX_KIND_CNP, ONLY, 0, CNP_LEN),
};

/*
 * End-to-end credits: 0, 1, then two codes for every doubling, 2^n and
 * 1.5 * 2^n. 31 is not a number (ROX_AETH_NO_CREDITS).
 */
static const u16 credits[31] = {
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

/* The code says where the highest bit of @n is, and what the one below it is. */
u8 rox_credit_encode(u32 n)
{
	u32 high;

	if (n < 2)
		return n;
	if (n >= credits[ARRAY_SIZE(credits) - 1])
		return ARRAY_SIZE(credits) - 1;
	high = fls(n) - 1;
	return 2 * high + (n >> (high - 1) & 1);
}

u32 rox_credit_decode(u8 code)
{
	return code < ARRAY_SIZE(credits) ? credits[code] : 0;
}

/* RNR NAK timer, in units of 10 microseconds. */
static const u32 rnr_timer[32] = {
	65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
	1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

u64 rox_rnr_timer_ns(u8 code)
{
	return rnr_timer[code & 31] * 10000ULL;
}

u64 rox_ack_timeout_ns(u8 code)
{
	code &= 31;
	return code ? 4096ULL << code : 0;
}
