/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RoCE v2 on the wire: base and extended transport headers, the opcode table,
 * PSN arithmetic, ICRC. Pure functions: no sk_buff, no ib_device, no locks.
 * Source: IBTA specification volume 1, chapter 9 and annexes A16, A17 and A19.
 */
#ifndef ROX_WIRE_H
#define ROX_WIRE_H

#include <linux/types.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#define ROX_PSN_MASK	0xffffffU
#define ROX_BTH_LEN	12U
#define ROX_ICRC_LEN	4U
#define ROX_GRH_LEN	40U
/* Longest run of extended headers: XRCETH and AtomicETH; RETH + ImmDt have 20. */
#define ROX_EXT_MAX	32U
/* The same for packets in the middle of a message: XRCETH. */
#define ROX_EXT_MIDDLE	4U

/* Extended transport headers, in the order in which they appear. */
enum rox_ext {
	ROX_EXT_RDETH	= 1 << 0,	/* not used by our services; kept for the table */
	ROX_EXT_DETH	= 1 << 1,
	ROX_EXT_RETH	= 1 << 2,
	ROX_EXT_ATOMIC	= 1 << 3,	/* AtomicETH */
	ROX_EXT_AETH	= 1 << 4,
	ROX_EXT_ATOMIC_ACK = 1 << 5,
	ROX_EXT_IMM	= 1 << 6,
	ROX_EXT_IETH	= 1 << 7,
	ROX_EXT_XRC	= 1 << 8,	/* directly behind the BTH */
};

enum rox_op_flags {
	ROX_OP_VALID	= 1 << 0,
	ROX_OP_REQUEST	= 1 << 1,	/* for the responder; else for the requester */
	ROX_OP_FIRST	= 1 << 2,	/* begins a message; an ONLY has FIRST and LAST */
	ROX_OP_LAST	= 1 << 3,	/* ends a message */
	ROX_OP_PAYLOAD	= 1 << 4,	/* may carry payload */
	ROX_OP_RECV	= 1 << 5,	/* ends what consumes a receive WQE */
};

/* What a packet does; the same for all services. */
enum rox_op_kind {
	ROX_KIND_NONE,
	ROX_KIND_SEND,
	ROX_KIND_WRITE,
	ROX_KIND_READ_REQ,
	ROX_KIND_READ_RESP,
	ROX_KIND_ACK,
	ROX_KIND_ATOMIC_ACK,
	ROX_KIND_CMP_SWAP,
	ROX_KIND_FETCH_ADD,
	ROX_KIND_ATOMIC_WRITE,
	ROX_KIND_CNP,
};

/**
 * struct rox_opcode_info - one row of the opcode table
 * @ext: enum rox_ext bits, the extended headers that are present
 * @flags: enum rox_op_flags
 * @kind: enum rox_op_kind
 * @ext_len: bytes of all extended headers together
 */
struct rox_opcode_info {
	u16 ext;
	u8 flags;
	u8 kind;
	u8 ext_len;
};

/*
 * Opcodes 0x00 to 0xff; rows of unknown opcodes have no flags. The reserved ones of RC and XRC are
 * known as requests of ROX_KIND_NONE.
 */
extern const struct rox_opcode_info rox_opcodes[256];

/*
 * The opcode byte is one of <rdma/ib_pack.h> (IB_OPCODE_RC_SEND_FIRST ...); its
 * upper bits name the service.
 */
enum rox_service {
	ROX_SERVICE_RC = 0x00,
	ROX_SERVICE_UC = 0x20,
	ROX_SERVICE_UD = 0x60,
	ROX_SERVICE_CNP = 0x80,
	ROX_SERVICE_XRC = 0xa0,
	ROX_SERVICE_MASK = 0xe0,
};

/**
 * struct rox_bth - base transport header, in host order
 * @opcode: wire opcode
 * @solicited: SE
 * @migreq: M
 * @ackreq: A
 * @pad: pad count, 0 to 3
 * @tver: header version, 0
 * @pkey: partition key
 * @fecn: FECN bit
 * @becn: BECN bit
 * @dqpn: destination QP number
 * @psn: packet sequence number
 */
struct rox_bth {
	u8 opcode;
	bool solicited;
	bool migreq;
	bool ackreq;
	u8 pad;
	u8 tver;
	bool fecn;
	bool becn;
	u16 pkey;
	u32 dqpn;
	u32 psn;
};

/* Extended headers in host order; which are meaningful says rox_opcodes[opcode].ext. */
struct rox_ext_hdrs {
	struct {
		u64 va;
		u32 rkey;
		u32 len;
	} reth;
	struct {
		u64 va;
		u64 swap_add;
		u64 compare;
		u32 rkey;
	} atomic;
	struct {
		u32 qkey;
		u32 sqpn;
	} deth;
	struct {
		u8 syndrome;
		u32 msn;
	} aeth;
	u64 atomic_orig;
	__be32 imm;
	u32 ieth_rkey;
	u32 xrc_srqn;
};

void rox_bth_pack(u8 *dst, const struct rox_bth *bth);
void rox_bth_parse(struct rox_bth *bth, const u8 *src);
/* Pack or parse the extended headers that the opcode has; return their length in bytes. */
unsigned int rox_ext_pack(u8 *dst, u8 opcode, const struct rox_ext_hdrs *ext);
unsigned int rox_ext_parse(struct rox_ext_hdrs *ext, u8 opcode, const u8 *src);

/* AETH syndrome (IBTA 9.7.5.2.1 table): bits 6:5 kind, 4:0 value. */
enum rox_aeth_kind {
	ROX_AETH_ACK	= 0x00,
	ROX_AETH_RNR	= 0x20,
	ROX_AETH_NAK	= 0x60,
	ROX_AETH_KIND	= 0x60,
	ROX_AETH_VALUE	= 0x1f,
};

#define ROX_AETH_NO_CREDITS	0x1f	/* "invalid": end-to-end flow control is not used */

enum rox_nak {
	ROX_NAK_PSN_SEQ		= 0,
	ROX_NAK_INV_REQ		= 1,
	ROX_NAK_REM_ACCESS	= 2,
	ROX_NAK_REM_OP		= 3,
	ROX_NAK_INV_RD		= 4,
};

u8 rox_credit_encode(u32 credits);	/* number of receive WQEs -> 5-bit code, rounded down */
u32 rox_credit_decode(u8 code);		/* code 0..30 -> number */
u64 rox_rnr_timer_ns(u8 code);		/* 5-bit RNR NAK timer code -> nanoseconds (table 45) */
u64 rox_ack_timeout_ns(u8 code);	/* local ACK timeout: 4.096 us * 2^code; 0 -> 0 (never) */

static inline u32 rox_psn_add(u32 psn, u32 n)
{
	return (psn + n) & ROX_PSN_MASK;
}

/* Signed distance a - b in the 24-bit circle: > 0 if a is after b. */
static inline s32 rox_psn_diff(u32 a, u32 b)
{
	return (s32)((a - b) << 8) >> 8;
}

/*
 * ICRC. Chain: state = rox_icrc_begin_v4() or _v6() over the IP and UDP headers
 * and the BTH, then rox_icrc_update() over everything after the BTH to the end
 * of the pad; rox_icrc_end() gives the four bytes as they stand in the packet.
 * The headers are read as they will be on the wire (per segment: total length
 * and ID included) and masked by the function.
 */
u32 rox_icrc_begin_v4(const struct iphdr *ip, const struct udphdr *udp, const u8 *bth);
u32 rox_icrc_begin_v6(const struct ipv6hdr *ip, const struct udphdr *udp, const u8 *bth);
u32 rox_icrc_update(u32 state, const void *data, size_t len);
__le32 rox_icrc_end(u32 state);

/*
 * CRC-32 register (reflected, no inversion) after @len more bytes, by the
 * fastest code of this kernel (wire/crc32.c; the host's unit tests have their own).
 */
u32 rox_crc32(u32 state, const void *data, size_t len);
void rox_crc32_init(void);
void rox_crc32_exit(void);

#endif /* ROX_WIRE_H */
