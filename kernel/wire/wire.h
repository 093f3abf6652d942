/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The RoCE v2 packet format: base and extended transport headers, the opcode table, PSN
 * arithmetic, ICRC. All functions are pure: no sk_buff, no ib_device, no locks. They may be
 * called in any context, but rox_crc32() and the ICRC functions not in hard interrupts.
 * Source: IBTA specification volume 1, chapter 9 and annexes A16, A17 and A19.
 */
#ifndef ROX_WIRE_H
#define ROX_WIRE_H

#include <linux/build_bug.h>
#include <linux/string.h>
#include <linux/types.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <asm/byteorder.h>

#define ROX_UDP_PORT	4791
#define ROX_QPN_MASK	0xffffffU
#define ROX_QPN_GSI	1U
#define ROX_QPN_MULTICAST ROX_QPN_MASK
#define ROX_PSN_MASK	0xffffffU
#define ROX_BTH_LEN	12U
#define ROX_ICRC_LEN	4U
/* Length of an ACK packet from BTH to ICRC, with its AETH. */
#define ROX_ACK_LEN	(ROX_BTH_LEN + 4U + ROX_ICRC_LEN)
#define ROX_GRH_LEN	40U
/* The longest extended headers of an opcode are XRCETH and AtomicETH. */
#define ROX_EXT_MAX	32U

/* Extended transport headers, in the order in which they appear. */
enum rox_ext {
	ROX_EXT_DETH	= 1 << 1,
	ROX_EXT_RETH	= 1 << 2,
	ROX_EXT_ATOMIC	= 1 << 3,	/* AtomicETH */
	ROX_EXT_AETH	= 1 << 4,
	ROX_EXT_ATOMIC_ACK = 1 << 5,
	ROX_EXT_IMM	= 1 << 6,
	ROX_EXT_IETH	= 1 << 7,
	ROX_EXT_XRC	= 1 << 8,	/* XRCETH; directly after the BTH */
};

enum rox_op_flags {
	ROX_OP_VALID	= 1 << 0,
	ROX_OP_REQUEST	= 1 << 1,	/* a request; else a response, CNP or UNCUT */
	ROX_OP_FIRST	= 1 << 2,	/* begins a message; an ONLY has FIRST and LAST */
	ROX_OP_LAST	= 1 << 3,	/* ends a message */
	ROX_OP_PAYLOAD	= 1 << 4,	/* may carry payload */
	ROX_OP_RECV	= 1 << 5,	/* ends a message that consumes a receive WQE */
};

/* The operation of a packet; the same for all services. */
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
	ROX_KIND_UNCUT,
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
 * The rows of opcodes 0x00 to 0xff. Rows of unknown opcodes have no flags. Reserved opcodes of RC
 * and XRC have rows as requests of ROX_KIND_NONE.
 */
extern const struct rox_opcode_info rox_opcodes[256];

/* Congestion notification packet. The kernel's headers define its service, but not this opcode. */
#define ROX_OPCODE_CNP		0x81
/*
 * Tells the peer that its frames come as it has made them: see net/near.c. One of the opcodes that
 * are left to manufacturers. Without content.
 */
#define ROX_OPCODE_UNCUT	0xc1

/*
 * The opcode byte has a value of <rdma/ib_pack.h> (IB_OPCODE_RC_SEND_FIRST ...). Its upper three
 * bits are the service.
 */
enum rox_service {
	ROX_SERVICE_RC = 0x00,
	ROX_SERVICE_UC = 0x20,
	ROX_SERVICE_UD = 0x60,
	ROX_SERVICE_CNP = 0x80,
	ROX_SERVICE_XRC = 0xa0,
	ROX_SERVICE_OWN = 0xc0,	/* of the manufacturer */
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

/* Extended headers in host order, except @imm. rox_opcodes[opcode].ext says which are valid. */
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

/* Bits of the BTH, as three words in host order. */
enum rox_bth_bits {
	ROX_BTH_SE	= 1 << 23,
	ROX_BTH_M	= 1 << 22,
	ROX_BTH_PAD	= 3 << 20,
	ROX_BTH_TVER	= 15 << 16,
	ROX_BTH_BECN	= 1 << 30,
};

#define ROX_BTH_OPCODE_SHIFT	24
#define ROX_BTH_PAD_SHIFT	20
#define ROX_BTH_TVER_SHIFT	16
/* The uppermost bits of the second and the third word. */
#define ROX_BTH_FECN		0x80000000U
#define ROX_BTH_A		0x80000000U

/* Writes ROX_BTH_LEN bytes, at any alignment. Bits beyond the width of a field are ignored. */
static inline void rox_bth_pack(u8 *dst, const struct rox_bth *bth)
{
	__be32 words[3];

	words[0] = cpu_to_be32((u32)bth->opcode << ROX_BTH_OPCODE_SHIFT |
			       (bth->solicited ? ROX_BTH_SE : 0) | (bth->migreq ? ROX_BTH_M : 0) |
			       ((u32)bth->pad << ROX_BTH_PAD_SHIFT & ROX_BTH_PAD) |
			       ((u32)bth->tver << ROX_BTH_TVER_SHIFT & ROX_BTH_TVER) | bth->pkey);
	words[1] = cpu_to_be32((bth->fecn ? ROX_BTH_FECN : 0) | (bth->becn ? ROX_BTH_BECN : 0) |
			       (bth->dqpn & ROX_QPN_MASK));
	words[2] = cpu_to_be32((bth->ackreq ? ROX_BTH_A : 0) | (bth->psn & ROX_PSN_MASK));
	memcpy(dst, words, sizeof(words));
}

/* Reads ROX_BTH_LEN bytes, of any alignment. */
static inline void rox_bth_parse(struct rox_bth *bth, const u8 *src)
{
	__be32 words[3];
	u32 word;

	memcpy(words, src, sizeof(words));
	word = be32_to_cpu(words[0]);
	bth->opcode = word >> ROX_BTH_OPCODE_SHIFT;
	bth->solicited = word & ROX_BTH_SE;
	bth->migreq = word & ROX_BTH_M;
	bth->pad = (word & ROX_BTH_PAD) >> ROX_BTH_PAD_SHIFT;
	bth->tver = (word & ROX_BTH_TVER) >> ROX_BTH_TVER_SHIFT;
	bth->pkey = word & 0xffff;
	word = be32_to_cpu(words[1]);
	bth->fecn = word & ROX_BTH_FECN;
	bth->becn = word & ROX_BTH_BECN;
	bth->dqpn = word & ROX_QPN_MASK;
	word = be32_to_cpu(words[2]);
	bth->ackreq = word & ROX_BTH_A;
	bth->psn = word & ROX_PSN_MASK;
}

/* Sets the PSN in a packed BTH that was packed with a PSN of 0. */
static inline void rox_bth_set_psn(u8 *bth, u32 psn)
{
	__be32 word;

	memcpy(&word, bth + 8, sizeof(word));
	word |= cpu_to_be32(psn & ROX_PSN_MASK);
	memcpy(bth + 8, &word, sizeof(word));
}

/* The bits of the first eight bytes of a BTH that rox_bth_alike() compares. */
#define ROX_BTH_ALIKE	0xe00fffff00ffffffULL

/* Return: the first eight bytes of a BTH, for rox_bth_alike() and rox_bth_equal(). */
static inline __be64 rox_bth_key(const u8 *bth)
{
	__be64 key;

	memcpy(&key, bth, sizeof(key));
	return key;
}

/* Have two BTHs the same service, version, P_Key and destination QP? */
static inline bool rox_bth_alike(__be64 a, __be64 b)
{
	return !((a ^ b) & cpu_to_be64(ROX_BTH_ALIKE));
}

/* The bits of the first eight bytes that rox_bth_equal() compares: all but the reserved byte. */
#define ROX_BTH_EQUAL	0xffffffff00ffffffULL

/* Have two BTHs the same fields before their PSNs? */
static inline bool rox_bth_equal(__be64 a, __be64 b)
{
	return !((a ^ b) & cpu_to_be64(ROX_BTH_EQUAL));
}

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

/* P_Keys: the upper bit is set for full members of a partition. */
#define ROX_PKEY_FULL	0x8000
#define ROX_PKEY_BASE	0x7fff

/* 0x0000 and 0x8000 are invalid. A table entry with one of these values is free. */
static inline bool rox_pkey_valid(u16 pkey)
{
	return pkey & ROX_PKEY_BASE;
}

/* Both keys are of the same partition, and at least one is of a full member. */
static inline bool rox_pkey_match(u16 a, u16 b)
{
	return rox_pkey_valid(a) && !((a ^ b) & ROX_PKEY_BASE) && ((a | b) & ROX_PKEY_FULL);
}

static inline u32 rox_psn_add(u32 psn, u32 n)
{
	return (psn + n) & ROX_PSN_MASK;
}

/* Signed difference a - b modulo 2^24: > 0 if a is after b. */
static inline s32 rox_psn_diff(u32 a, u32 b)
{
	return (s32)((a - b) << 8) >> 8;
}

/**
 * struct rox_icrc_head - the headers of a packet as the ICRC covers them
 * @v6: IPv6 header
 * @before_v4: not used with IPv4, whose header is shorter
 * @v4: IPv4 header
 * @udp: UDP header
 * @bth: BTH, which the caller writes
 * @ip_len: length of the IP header
 *
 * Fields that may change on the way are masked.
 */
struct rox_icrc_head {
	union {
		struct ipv6hdr v6;
		struct {
			u8 before_v4[sizeof(struct ipv6hdr) - sizeof(struct iphdr)];
			struct iphdr v4;
		};
	};
	struct udphdr udp;
	u8 bth[ROX_BTH_LEN];
	u32 ip_len;
};

/* The headers follow each other without a gap. */
static_assert(offsetof(struct rox_icrc_head, v4) ==
	      sizeof(struct ipv6hdr) - sizeof(struct iphdr));
static_assert(offsetof(struct rox_icrc_head, udp) == sizeof(struct ipv6hdr));
static_assert(offsetof(struct rox_icrc_head, bth) ==
	      sizeof(struct ipv6hdr) + sizeof(struct udphdr));
/* rox_icrc_mark() takes five words from the IPv4 header on. */
static_assert(offsetof(struct rox_icrc_head, bth) + ROX_BTH_LEN -
	      offsetof(struct rox_icrc_head, v4) == 5 * sizeof(u64));

/*
 * Sets what differs between the packets of a frame: @len, the bytes from BTH to ICRC, and the IPv4
 * ID on the wire.
 */
static inline void rox_icrc_packet(struct rox_icrc_head *head, u32 len, u16 id)
{
	__be16 udp_len = cpu_to_be16(sizeof(struct udphdr) + len);

	head->udp.len = udp_len;
	if (head->ip_len == sizeof(struct iphdr)) {
		head->v4.tot_len = cpu_to_be16(sizeof(struct iphdr) + sizeof(struct udphdr) + len);
		head->v4.id = cpu_to_be16(id);
	} else {
		head->v6.payload_len = udp_len;
	}
}

/*
 * ICRC of packets: rox_icrc_head_v4() or rox_icrc_head_v6() takes the IP and UDP headers.
 * rox_icrc_packet() sets the fields that differ between the packets of a frame. The caller writes
 * the BTH. rox_icrc_begin() returns the state. rox_icrc_update() adds everything after the BTH to
 * the end of the pad. rox_icrc_end() returns the four bytes for the packet. rox_icrc_bare() follows
 * rox_icrc_begin().
 */
void rox_icrc_head_v4(struct rox_icrc_head *head, const struct iphdr *ip, const struct udphdr *udp);
void rox_icrc_head_v6(struct rox_icrc_head *head, const struct ipv6hdr *ip,
		      const struct udphdr *udp);
u32 rox_icrc_begin(struct rox_icrc_head *head);
u32 rox_icrc_mark(struct rox_icrc_head *head);

/*
 * Returns the CRC-32 register (reflected, not inverted) after @len more bytes. Uses the fastest
 * code of this kernel (wire/crc32.c). The unit tests on the host have their own implementation.
 * rox_crc32_init() and rox_crc32_exit() look for that code and free it; they may sleep.
 */
u32 rox_crc32(u32 state, const void *data, size_t len);

/**
 * rox_icrc_update() - continues the ICRC over bytes after the BTH
 * @state: state before
 * @data: next piece; pieces may have any length
 * @len: bytes
 *
 * Return: the new state
 */
static inline u32 rox_icrc_update(u32 state, const void *data, size_t len)
{
	return rox_crc32(state, data, len);
}

/**
 * rox_icrc_end() - ends the ICRC
 * @state: state after the whole packet up to the end of the pad
 *
 * Return: the last four bytes of the packet
 */
static inline __le32 rox_icrc_end(u32 state)
{
	return cpu_to_le32(~state);
}

/**
 * rox_icrc_bare() - ends a CRC of the headers alone
 * @state: state after rox_icrc_begin()
 *
 * It is for frames that go over no wire. No packet has it for its ICRC, but for one case in 2^32.
 *
 * Return: the last four bytes of the packet
 */
static inline __le32 rox_icrc_bare(u32 state)
{
	return cpu_to_le32(state);
}

void rox_crc32_init(void);
void rox_crc32_exit(void);

/* For fewer bytes a table is as fast. */
#define ROX_SPARSE_MIN		640

u32 rox_crc32_sparse(u32 state, const void *data, size_t len);

#endif /* ROX_WIRE_H */
