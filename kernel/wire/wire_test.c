// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit: headers, opcode table, PSN arithmetic, ICRC, code tables.
 */
#include <kunit/test.h>
#include <linux/hex.h>
#include <rdma/ib_pack.h>

#include "wire.h"

/* ---- ICRC ---- */

/**
 * struct known_icrc - a packet of another implementation, with its ICRC
 * @name: name of the case
 * @ip: IP header, in hexadecimal
 * @udp: UDP header, in hexadecimal
 * @bth: BTH, in hexadecimal
 * @rest: extended headers and payload, in hexadecimal
 * @fill: number of payload bytes that follow: 0, 0, 0, ... or, with @counts, 0, 1, 2, ...
 * @counts: see @fill
 * @icrc: the ICRC as in the packet
 */
struct known_icrc {
	const char *name, *ip, *udp, *bth, *rest;
	unsigned int fill;
	bool counts;
	const char *icrc;
};

static const struct known_icrc known_icrcs[] = {
	{
		.name = "UC SEND_ONLY, pad 2",
		.ip = "45010040047840004011b4d5c0a80007c0a80007",
		.udp = "c00012b7002caca2",
		.bth = "2460ffff000000d300cf1710",
		.rest = "4630818be28935d90e9a95505401be885e500000",
		.icrc = "78f353f3",
	}, {
		.name = "CNP of a ConnectX-4 Lx",
		.ip = "45c2003c718c4000401191610a0011010a001201",
		.udp = "000012b700280000",
		.bth = "8100ffff4000011800000000",
		.fill = 16,
		.icrc = "82fd002a",
	}, {
		.name = "RC ACK",
		.ip = "450000301111400040110000c0a80102c0a80101",
		.udp = "12b712b7001c0000",
		.bth = "1100ffff00006ef680000000",
		.rest = "1f000001",
		.icrc = "64b5735f",
	}, {
		.name = "RC SEND_ONLY, 64 bytes",
		.ip = "4500006c1111400040110000c0a80101c0a80102",
		.udp = "12b712b700580000",
		.bth = "0400ffff0000223980000000",
		.fill = 64,
		.counts = true,
		.icrc = "196312ba",
	}, {
		.name = "RC WRITE_MIDDLE, 64 bytes",
		.ip = "4500006cd43100008011684d7f0000017f000001",
		.udp = "303912b7005809dc",
		.bth = "070000010000000300000000",
		.fill = 64,
		.icrc = "b9abf3bf",
	},
};

static void known_icrc_name(const struct known_icrc *known, char *name)
{
	strscpy(name, known->name, KUNIT_PARAM_DESC_SIZE);
}

KUNIT_ARRAY_PARAM(known_icrc, known_icrcs, known_icrc_name);

/* A second implementation, bit by bit as the definition, to compare with. */
static u32 slow_crc32(u32 state, const u8 *data, size_t len)
{
	int bit;

	while (len--) {
		state ^= *data++;
		for (bit = 0; bit < 8; bit++)
			state = state >> 1 ^ (state & 1 ? 0xedb88320 : 0);
	}
	return state;
}

/* Return: the bytes of @packet. */
static size_t known_packet(struct kunit *test, const struct known_icrc *known, u8 *packet)
{
	const char * const parts[] = { known->ip, known->udp, known->bth, known->rest ?: "" };
	size_t len = 0, bytes;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(parts); i++, len += bytes) {
		bytes = strlen(parts[i]) / 2;
		KUNIT_ASSERT_EQ(test, hex2bin(packet + len, parts[i], bytes), 0);
	}
	for (i = 0; i < known->fill; i++)
		packet[len++] = known->counts ? i : 0;
	return len;
}

static __le32 icrc_of_v4(const u8 *packet, size_t len, size_t step)
{
	const u8 *bth = packet + sizeof(struct iphdr) + sizeof(struct udphdr);
	const u8 *p = bth + ROX_BTH_LEN;
	struct rox_icrc_head head;
	u32 state;

	rox_icrc_head_v4(&head, (const struct iphdr *)packet,
			 (const struct udphdr *)(packet + sizeof(struct iphdr)));
	memcpy(head.bth, bth, ROX_BTH_LEN);
	state = rox_icrc_begin(&head);
	for (; p < packet + len; p += step)
		state = rox_icrc_update(state, p, min_t(size_t, step, packet + len - p));
	return rox_icrc_end(state);
}

static void icrc_known_answers(struct kunit *test)
{
	const struct known_icrc *known = test->param_value;
	u8 packet[160], wanted[4];
	size_t len = known_packet(test, known, packet);
	size_t step;
	__le32 icrc;

	KUNIT_ASSERT_EQ(test, hex2bin(wanted, known->icrc, sizeof(wanted)), 0);
	for (step = 1; step <= len; step++) {
		icrc = icrc_of_v4(packet, len, step);
		KUNIT_EXPECT_MEMEQ_MSG(test, &icrc, wanted, sizeof(wanted), "step %zu", step);
	}
}

/* The ICRC does not cover a VLAN tag, but the tag moves the packet in memory. */
static void icrc_of_a_vlan_frame(struct kunit *test)
{
	u8 frame[14 + 4 + 160], wanted[4];
	const struct known_icrc *known = &known_icrcs[3];
	size_t len = known_packet(test, known, frame + 18);
	__le32 icrc;

	memset(frame, 0xa5, 18);
	KUNIT_ASSERT_EQ(test, hex2bin(wanted, known->icrc, sizeof(wanted)), 0);
	icrc = icrc_of_v4(frame + 18, len, len);
	KUNIT_EXPECT_MEMEQ(test, &icrc, wanted, sizeof(wanted));
}

/* Each bit from @begin on counts, but for those that are masked. */
static void mark_counts_bits(struct kunit *test, struct rox_icrc_head *head, const void *begin)
{
	const u32 mark = rox_icrc_mark(head);
	u8 *byte, *end = head->bth + ROX_BTH_LEN;
	u8 bit;

	for (byte = (u8 *)begin; byte < end; byte++) {
		for (bit = 1; bit; bit <<= 1) {
			*byte ^= bit;
			KUNIT_EXPECT_EQ(test, rox_icrc_mark(head) == mark, byte == head->bth + 4);
			if (byte != head->bth + 4)
				*byte ^= bit;
		}
	}
	KUNIT_EXPECT_EQ(test, rox_icrc_mark(head), mark);
}

static void a_mark_tells_headers_apart(struct kunit *test)
{
	static struct rox_icrc_head head;

	memset(&head, 0x5a, sizeof(head));
	head.ip_len = sizeof(struct iphdr);
	mark_counts_bits(test, &head, &head.v4);
	head.ip_len = sizeof(struct ipv6hdr);
	mark_counts_bits(test, &head, &head.v6);
}

/* The memory before an IPv4 header is not part of it. */
static void a_mark_of_ipv4_begins_with_its_header(struct kunit *test)
{
	static struct rox_icrc_head head;
	u32 mark;

	memset(&head, 0x5a, sizeof(head));
	head.ip_len = sizeof(struct iphdr);
	mark = rox_icrc_mark(&head);
	memset(head.before_v4, 0, sizeof(head.before_v4));
	KUNIT_EXPECT_EQ(test, rox_icrc_mark(&head), mark);
}

struct v6_packet {
	struct ipv6hdr ip;
	struct udphdr udp;
	u8 bth[ROX_BTH_LEN];
	u8 payload[37];
} __packed;

static u32 icrc_of_v6(const struct v6_packet *p)
{
	struct rox_icrc_head head;
	u32 state;

	rox_icrc_head_v6(&head, &p->ip, &p->udp);
	memcpy(head.bth, p->bth, ROX_BTH_LEN);
	state = rox_icrc_begin(&head);
	return le32_to_cpu(rox_icrc_end(rox_icrc_update(state, p->payload, sizeof(p->payload))));
}

/* IPv6: traffic class, flow label and hop limit are masked, and the same UDP and BTH fields. */
static u32 slow_icrc_of_v6(const struct v6_packet *p)
{
	static const u8 ones[8] = { [0 ... 7] = 0xff };
	struct v6_packet masked = *p;
	u8 *bytes = (u8 *)&masked;

	bytes[0] |= 0x0f;
	memset(bytes + 1, 0xff, 3);
	bytes[offsetof(struct ipv6hdr, hop_limit)] = 0xff;
	memset(&masked.udp.check, 0xff, sizeof(masked.udp.check));
	masked.bth[4] = 0xff;
	return ~slow_crc32(slow_crc32(~0U, ones, sizeof(ones)), bytes, sizeof(masked));
}

static void icrc_of_ipv6(struct kunit *test)
{
	struct v6_packet p, changed;
	u8 *bytes = (u8 *)&changed;
	size_t i;

	for (i = 0; i < sizeof(p); i++)
		((u8 *)&p)[i] = 7 * i + 3;
	KUNIT_EXPECT_EQ(test, icrc_of_v6(&p), slow_icrc_of_v6(&p));
	/* A flip of any bit changes the ICRC, or is masked, just as in the definition. */
	for (i = 0; i < 8 * sizeof(p); i++) {
		changed = p;
		bytes[i / 8] ^= 1 << i % 8;
		KUNIT_EXPECT_EQ_MSG(test, icrc_of_v6(&changed), slow_icrc_of_v6(&changed),
				    "bit %zu", i);
	}
}

static void icrc_of_ones(struct kunit *test)
{
	static const u8 ones[8] = { [0 ... 7] = 0xff };

	KUNIT_EXPECT_EQ(test, rox_crc32(~0U, ones, sizeof(ones)), 0xdebb20e3);
	KUNIT_EXPECT_EQ(test, slow_crc32(~0U, ones, sizeof(ones)), 0xdebb20e3);
}

/* The accelerated CRC, at all alignments and at lengths around its block sizes. */
static void crc_of_any_length(struct kunit *test)
{
	u8 *data = kunit_kmalloc(test, 600, GFP_KERNEL);
	size_t len, at;

	KUNIT_ASSERT_NOT_NULL(test, data);
	for (at = 0; at < 600; at++)
		data[at] = at * at + (at >> 3);
	for (at = 0; at < 17; at++)
		for (len = 0; len < 560; len += 1 + len / 64)
			KUNIT_ASSERT_EQ_MSG(test, rox_crc32(~0U, data + at, len),
					    slow_crc32(~0U, data + at, len),
					    "%zu bytes at %zu", len, at);
}

/* Without tables: around its blocks and turns, at all alignments, and with any state. */
static void crc_without_tables(struct kunit *test)
{
	size_t size = 3000, len, at;
	u8 *data = kunit_kmalloc(test, size + 8, GFP_KERNEL);
	u32 state = 0x12345678;

	KUNIT_ASSERT_NOT_NULL(test, data);
	for (at = 0; at < size + 8; at++)
		data[at] = at * at + (at >> 3);
	for (len = ROX_SPARSE_MIN; len <= size; len += 1 + len % 29) {
		state = slow_crc32(state, data, 4);
		KUNIT_ASSERT_EQ_MSG(test, rox_crc32_sparse(state, data + len % 8, len),
				    slow_crc32(state, data + len % 8, len),
				    "%zu bytes at %zu", len, len % 8);
	}
}

/* ---- opcodes ---- */

/* An opcode according to IBTA volume 1, tables 38 and 39, annex A14. */
struct spec_op {
	u8 opcode;
	enum rox_op_kind kind;
	u16 ext;
	const char *flags;	/* q request, f first, l last, p payload, r consumes a receive */
};

#define SPEC(_op, _kind, _ext, _flags) \
	{ .opcode = IB_OPCODE_##_op, .kind = ROX_KIND_##_kind, .ext = (_ext), .flags = (_flags) }

/*
 * The kernel's headers do not define XRC opcodes: they are the bits of the service and the
 * numbers of RC. Requests have an XRCETH. (The names are pasted in one step, because WRITE is
 * another macro.)
 */
#define XRC_ROW(_opcode, _kind, _ext, _flags) \
	{ .opcode = 0xa0 | (_opcode), .kind = (_kind), .ext = (_ext), .flags = (_flags) }
#define XRC_SPEC(_op, _kind, _ext, _flags) \
	XRC_ROW(IB_OPCODE_##_op, ROX_KIND_##_kind, (_ext) | ROX_EXT_XRC, _flags)
#define XRC_ANSWER(_op, _kind, _ext, _flags) \
	XRC_ROW(IB_OPCODE_##_op, ROX_KIND_##_kind, _ext, _flags)

static const struct spec_op spec_ops[] = {
	SPEC(RC_SEND_FIRST,			SEND, 0, "qfp"),
	SPEC(RC_SEND_MIDDLE,			SEND, 0, "qp"),
	SPEC(RC_SEND_LAST,			SEND, 0, "qlpr"),
	SPEC(RC_SEND_LAST_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qlpr"),
	SPEC(RC_SEND_ONLY,			SEND, 0, "qflpr"),
	SPEC(RC_SEND_ONLY_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qflpr"),
	SPEC(RC_SEND_LAST_WITH_INVALIDATE,	SEND, ROX_EXT_IETH, "qlpr"),
	SPEC(RC_SEND_ONLY_WITH_INVALIDATE,	SEND, ROX_EXT_IETH, "qflpr"),
	SPEC(RC_RDMA_WRITE_FIRST,		WRITE, ROX_EXT_RETH, "qfp"),
	SPEC(RC_RDMA_WRITE_MIDDLE,		WRITE, 0, "qp"),
	SPEC(RC_RDMA_WRITE_LAST,		WRITE, 0, "qlp"),
	SPEC(RC_RDMA_WRITE_LAST_WITH_IMMEDIATE,	WRITE, ROX_EXT_IMM, "qlpr"),
	SPEC(RC_RDMA_WRITE_ONLY,		WRITE, ROX_EXT_RETH, "qflp"),
	SPEC(RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE,	WRITE, ROX_EXT_RETH | ROX_EXT_IMM, "qflpr"),
	SPEC(RC_RDMA_READ_REQUEST,		READ_REQ, ROX_EXT_RETH, "qfl"),
	SPEC(RC_RDMA_READ_RESPONSE_FIRST,	READ_RESP, ROX_EXT_AETH, "fp"),
	SPEC(RC_RDMA_READ_RESPONSE_MIDDLE,	READ_RESP, 0, "p"),
	SPEC(RC_RDMA_READ_RESPONSE_LAST,	READ_RESP, ROX_EXT_AETH, "lp"),
	SPEC(RC_RDMA_READ_RESPONSE_ONLY,	READ_RESP, ROX_EXT_AETH, "flp"),
	SPEC(RC_ACKNOWLEDGE,			ACK, ROX_EXT_AETH, "fl"),
	SPEC(RC_ATOMIC_ACKNOWLEDGE,	ATOMIC_ACK, ROX_EXT_AETH | ROX_EXT_ATOMIC_ACK, "fl"),
	SPEC(RC_COMPARE_SWAP,			CMP_SWAP, ROX_EXT_ATOMIC, "qfl"),
	SPEC(RC_FETCH_ADD,			FETCH_ADD, ROX_EXT_ATOMIC, "qfl"),
	SPEC(RC_ATOMIC_WRITE,			ATOMIC_WRITE, ROX_EXT_RETH, "qflp"),
	SPEC(UC_SEND_FIRST,			SEND, 0, "qfp"),
	SPEC(UC_SEND_MIDDLE,			SEND, 0, "qp"),
	SPEC(UC_SEND_LAST,			SEND, 0, "qlpr"),
	SPEC(UC_SEND_LAST_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qlpr"),
	SPEC(UC_SEND_ONLY,			SEND, 0, "qflpr"),
	SPEC(UC_SEND_ONLY_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qflpr"),
	SPEC(UC_RDMA_WRITE_FIRST,		WRITE, ROX_EXT_RETH, "qfp"),
	SPEC(UC_RDMA_WRITE_MIDDLE,		WRITE, 0, "qp"),
	SPEC(UC_RDMA_WRITE_LAST,		WRITE, 0, "qlp"),
	SPEC(UC_RDMA_WRITE_LAST_WITH_IMMEDIATE,	WRITE, ROX_EXT_IMM, "qlpr"),
	SPEC(UC_RDMA_WRITE_ONLY,		WRITE, ROX_EXT_RETH, "qflp"),
	SPEC(UC_RDMA_WRITE_ONLY_WITH_IMMEDIATE,	WRITE, ROX_EXT_RETH | ROX_EXT_IMM, "qflpr"),
	SPEC(UD_SEND_ONLY,			SEND, ROX_EXT_DETH, "qflpr"),
	SPEC(UD_SEND_ONLY_WITH_IMMEDIATE,	SEND, ROX_EXT_DETH | ROX_EXT_IMM, "qflpr"),
	XRC_SPEC(SEND_FIRST,			SEND, 0, "qfp"),
	XRC_SPEC(SEND_MIDDLE,			SEND, 0, "qp"),
	XRC_SPEC(SEND_LAST,			SEND, 0, "qlpr"),
	XRC_SPEC(SEND_LAST_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qlpr"),
	XRC_SPEC(SEND_ONLY,			SEND, 0, "qflpr"),
	XRC_SPEC(SEND_ONLY_WITH_IMMEDIATE,	SEND, ROX_EXT_IMM, "qflpr"),
	XRC_SPEC(SEND_LAST_WITH_INVALIDATE,	SEND, ROX_EXT_IETH, "qlpr"),
	XRC_SPEC(SEND_ONLY_WITH_INVALIDATE,	SEND, ROX_EXT_IETH, "qflpr"),
	XRC_SPEC(RDMA_WRITE_FIRST,		WRITE, ROX_EXT_RETH, "qfp"),
	XRC_SPEC(RDMA_WRITE_MIDDLE,		WRITE, 0, "qp"),
	XRC_SPEC(RDMA_WRITE_LAST,		WRITE, 0, "qlp"),
	XRC_SPEC(RDMA_WRITE_LAST_WITH_IMMEDIATE, WRITE, ROX_EXT_IMM, "qlpr"),
	XRC_SPEC(RDMA_WRITE_ONLY,		WRITE, ROX_EXT_RETH, "qflp"),
	XRC_SPEC(RDMA_WRITE_ONLY_WITH_IMMEDIATE, WRITE, ROX_EXT_RETH | ROX_EXT_IMM, "qflpr"),
	XRC_SPEC(RDMA_READ_REQUEST,		READ_REQ, ROX_EXT_RETH, "qfl"),
	XRC_SPEC(COMPARE_SWAP,			CMP_SWAP, ROX_EXT_ATOMIC, "qfl"),
	XRC_SPEC(FETCH_ADD,			FETCH_ADD, ROX_EXT_ATOMIC, "qfl"),
	XRC_ANSWER(RDMA_READ_RESPONSE_FIRST,	READ_RESP, ROX_EXT_AETH, "fp"),
	XRC_ANSWER(RDMA_READ_RESPONSE_MIDDLE,	READ_RESP, 0, "p"),
	XRC_ANSWER(RDMA_READ_RESPONSE_LAST,	READ_RESP, ROX_EXT_AETH, "lp"),
	XRC_ANSWER(RDMA_READ_RESPONSE_ONLY,	READ_RESP, ROX_EXT_AETH, "flp"),
	XRC_ANSWER(ACKNOWLEDGE,			ACK, ROX_EXT_AETH, "fl"),
	XRC_ANSWER(ATOMIC_ACKNOWLEDGE,	ATOMIC_ACK, ROX_EXT_AETH | ROX_EXT_ATOMIC_ACK, "fl"),
	{ .opcode = 0x81, .kind = ROX_KIND_CNP, .flags = "fl" },
	{ .opcode = 0xc1, .kind = ROX_KIND_UNCUT, .flags = "fl" },
};

static void spec_op_name(const struct spec_op *op, char *name)
{
	snprintf(name, KUNIT_PARAM_DESC_SIZE, "opcode 0x%02x", op->opcode);
}

KUNIT_ARRAY_PARAM(spec_op, spec_ops, spec_op_name);

static u8 spec_flags(const char *letters)
{
	u8 flags = ROX_OP_VALID;

	for (; *letters; letters++)
		flags |= *letters == 'q' ? ROX_OP_REQUEST : *letters == 'f' ? ROX_OP_FIRST :
			 *letters == 'l' ? ROX_OP_LAST : *letters == 'p' ? ROX_OP_PAYLOAD :
			 ROX_OP_RECV;
	return flags;
}

/* IBTA volume 1, 9.3: bytes of each extended header, in the order of enum rox_ext. */
static unsigned int spec_ext_len(u16 ext)
{
	static const u8 bytes[] = { 4, 8, 16, 28, 4, 8, 4, 4, 4 };
	unsigned int i, len = 0;

	for (i = 0; i < ARRAY_SIZE(bytes); i++)
		len += ext & BIT(i) ? bytes[i] : 0;
	return len;
}

static void opcode_as_specified(struct kunit *test)
{
	const struct spec_op *op = test->param_value;
	const struct rox_opcode_info *info = &rox_opcodes[op->opcode];

	KUNIT_EXPECT_EQ(test, info->kind, op->kind);
	KUNIT_EXPECT_EQ(test, info->ext, op->ext);
	KUNIT_EXPECT_EQ(test, info->flags, spec_flags(op->flags));
	KUNIT_EXPECT_EQ(test, info->ext_len,
			op->kind == ROX_KIND_CNP ? 16 : spec_ext_len(op->ext));
}

/* Reserved opcodes of RC and XRC are valid rows, as requests of no kind (IBTA 9.9.3). */
static void other_opcodes_are_unknown(struct kunit *test)
{
	const struct rox_opcode_info *info;
	bool known[256] = {};
	unsigned int i;
	u8 service;

	for (i = 0; i < ARRAY_SIZE(spec_ops); i++)
		known[spec_ops[i].opcode] = true;
	for (i = 0; i < 256; i++) {
		if (known[i])
			continue;
		info = &rox_opcodes[i];
		service = i & ROX_SERVICE_MASK;
		if (service == ROX_SERVICE_RC || service == ROX_SERVICE_XRC) {
			KUNIT_EXPECT_EQ(test, info->kind, ROX_KIND_NONE);
			KUNIT_EXPECT_EQ(test, info->flags, spec_flags("qflp"));
		} else {
			KUNIT_EXPECT_EQ_MSG(test, info->flags, 0, "opcode 0x%02x", i);
		}
	}
}

/* If a service has a FIRST of a kind, it also has a MIDDLE and a LAST of that kind. */
static void legal_sequences(struct kunit *test)
{
	unsigned int i, j, next;

	for (i = 0; i < 256; i++) {
		const struct rox_opcode_info *a = &rox_opcodes[i];
		bool goes_on = false, ends = false;

		if (!(a->flags & ROX_OP_FIRST) || a->flags & ROX_OP_LAST)
			continue;
		for (j = 0; j < 256; j++) {
			const struct rox_opcode_info *b = &rox_opcodes[j];

			next = b->flags & (ROX_OP_VALID | ROX_OP_FIRST | ROX_OP_LAST);
			if ((i ^ j) & ROX_SERVICE_MASK || b->kind != a->kind)
				continue;
			goes_on |= next == ROX_OP_VALID;
			ends |= next == (ROX_OP_VALID | ROX_OP_LAST);
		}
		KUNIT_EXPECT_TRUE_MSG(test, goes_on && ends, "opcode 0x%02x", i);
	}
}

/* ---- headers ---- */

static void headers_survive(struct kunit *test)
{
	const struct spec_op *op = test->param_value;
	struct rox_ext_hdrs in = {
		.reth = { 0x0102030405060708, 0x11121314, 0x21222324 },
		.atomic = {
			0x3132333435363738, 0x4142434445464748, 0x5152535455565758, 0x61626364,
		},
		.deth = { 0x71727374, 0x818283 },
		.aeth = { 0x91, 0xa1a2a3 },
		.atomic_orig = 0xb1b2b3b4b5b6b7b8,
		.imm = cpu_to_be32(0xc1c2c3c4),
		.ieth_rkey = 0xd1d2d3d4,
		.xrc_srqn = 0xe1e2e3,
	};
	struct rox_bth bth = {
		.opcode = op->opcode, .solicited = true, .ackreq = true, .pad = 3,
		.pkey = 0x8123, .dqpn = 0xabcdef, .psn = 0x123456,
	};
	u8 wire[ROX_BTH_LEN + ROX_EXT_MAX + 1], again[sizeof(wire)];
	struct rox_ext_hdrs out = {};
	struct rox_bth parsed = {};
	unsigned int len;

	memset(wire, 0xee, sizeof(wire));
	memset(again, 0xee, sizeof(again));
	rox_bth_pack(wire, &bth);
	len = rox_ext_pack(wire + ROX_BTH_LEN, op->opcode, &in);
	KUNIT_EXPECT_EQ(test, len, rox_opcodes[op->opcode].ext_len);
	KUNIT_EXPECT_EQ(test, wire[ROX_BTH_LEN + len], 0xee);

	rox_bth_parse(&parsed, wire);
	KUNIT_EXPECT_EQ(test, parsed.opcode, op->opcode);
	KUNIT_EXPECT_TRUE(test, parsed.solicited && parsed.ackreq && !parsed.migreq);
	KUNIT_EXPECT_EQ(test, parsed.pad, 3);
	KUNIT_EXPECT_EQ(test, parsed.pkey, 0x8123);
	KUNIT_EXPECT_EQ(test, parsed.dqpn, 0xabcdef);
	KUNIT_EXPECT_EQ(test, parsed.psn, 0x123456);
	KUNIT_EXPECT_EQ(test, rox_ext_parse(&out, op->opcode, wire + ROX_BTH_LEN), len);
	rox_bth_pack(again, &parsed);
	rox_ext_pack(again + ROX_BTH_LEN, op->opcode, &out);
	KUNIT_EXPECT_MEMEQ(test, again, wire, sizeof(wire));
}

/* ---- arithmetic and code tables ---- */

static void psn_arithmetic(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, rox_psn_add(0xffffff, 1), 0);
	KUNIT_EXPECT_EQ(test, rox_psn_add(0xfffffe, 0x800001), 0x7fffff);
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0, 0xffffff), 1);
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0xffffff, 0), -1);
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0x7fffff, 0), 0x7fffff);
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0x800000, 0), -0x800000);
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0x123456, 0x123456), 0);
	/* Bits above the lower 24 do not matter. */
	KUNIT_EXPECT_EQ(test, rox_psn_diff(0xff000005, 0x00000003), 2);
}

static void psn_difference_undoes_addition(struct kunit *test)
{
	static const u32 starts[] = { 0, 1, 0x7fffff, 0x800000, 0xfffffe, 0xffffff };
	unsigned int i;
	u32 n;

	for (i = 0; i < ARRAY_SIZE(starts); i++)
		for (n = 1; n < 0x800000; n = 3 * n + 1) {
			u32 end = rox_psn_add(starts[i], n);

			KUNIT_EXPECT_EQ(test, rox_psn_diff(end, starts[i]), (s32)n);
			KUNIT_EXPECT_EQ(test, rox_psn_diff(starts[i], end), -(s32)n);
		}
}

/* IBTA volume 1, table 45 */
static void rnr_timer_codes(struct kunit *test)
{
	static const struct { u8 code; u64 us; } codes[] = {
		{ 0, 655360 }, { 1, 10 }, { 2, 20 }, { 3, 30 }, { 4, 40 }, { 5, 60 },
		{ 10, 320 }, { 15, 1920 }, { 20, 10240 }, { 25, 61440 }, { 30, 327680 },
		{ 31, 491520 },
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(codes); i++)
		KUNIT_EXPECT_EQ(test, rox_rnr_timer_ns(codes[i].code), codes[i].us * 1000);
	for (i = 2; i < 32; i++)
		KUNIT_EXPECT_GT(test, rox_rnr_timer_ns(i), rox_rnr_timer_ns(i - 1));
}

/* IBTA volume 1, 9.7.6.1.3 */
static void ack_timeout_codes(struct kunit *test)
{
	unsigned int i;

	KUNIT_EXPECT_EQ(test, rox_ack_timeout_ns(0), 0);
	KUNIT_EXPECT_EQ(test, rox_ack_timeout_ns(1), 8192);
	KUNIT_EXPECT_EQ(test, rox_ack_timeout_ns(14), 67108864);
	KUNIT_EXPECT_EQ(test, rox_ack_timeout_ns(31), 4096ULL << 31);
	for (i = 2; i < 32; i++)
		KUNIT_EXPECT_EQ(test, rox_ack_timeout_ns(i), 2 * rox_ack_timeout_ns(i - 1));
}

/* IBTA volume 1, table 46 */
static void credit_codes(struct kunit *test)
{
	unsigned int i;
	u32 n;

	KUNIT_EXPECT_EQ(test, rox_credit_decode(0), 0);
	KUNIT_EXPECT_EQ(test, rox_credit_decode(1), 1);
	KUNIT_EXPECT_EQ(test, rox_credit_decode(2), 2);
	KUNIT_EXPECT_EQ(test, rox_credit_decode(30), 32768);
	for (i = 0; i < 31; i++)
		KUNIT_EXPECT_EQ(test, rox_credit_encode(rox_credit_decode(i)), i);
	/* The code gives at most n credits, and the next code gives more than n. */
	for (n = 0; n < 70000; n += 1 + n / 16) {
		u8 code = rox_credit_encode(n);

		KUNIT_EXPECT_LE(test, rox_credit_decode(code), n);
		if (code < 30)
			KUNIT_EXPECT_GT(test, rox_credit_decode(code + 1), n);
	}
}

static struct kunit_case rox_wire_cases[] = {
	KUNIT_CASE_PARAM(icrc_known_answers, known_icrc_gen_params),
	KUNIT_CASE(icrc_of_a_vlan_frame),
	KUNIT_CASE(icrc_of_ipv6),
	KUNIT_CASE(icrc_of_ones),
	KUNIT_CASE(a_mark_tells_headers_apart),
	KUNIT_CASE(a_mark_of_ipv4_begins_with_its_header),
	KUNIT_CASE(crc_of_any_length),
	KUNIT_CASE(crc_without_tables),
	KUNIT_CASE_PARAM(opcode_as_specified, spec_op_gen_params),
	KUNIT_CASE(other_opcodes_are_unknown),
	KUNIT_CASE(legal_sequences),
	KUNIT_CASE_PARAM(headers_survive, spec_op_gen_params),
	KUNIT_CASE(psn_arithmetic),
	KUNIT_CASE(psn_difference_undoes_addition),
	KUNIT_CASE(rnr_timer_codes),
	KUNIT_CASE(ack_timeout_codes),
	KUNIT_CASE(credit_codes),
	{}
};

static struct kunit_suite rox_wire_suite = {
	.name = "rox_wire",
	.test_cases = rox_wire_cases,
};

kunit_test_suite(rox_wire_suite);
