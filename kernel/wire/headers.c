// SPDX-License-Identifier: GPL-2.0
/*
 * Packing and parsing of the base and extended transport headers.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire.h"

#define BTH_SE		0x80
#define BTH_M		0x40
#define BTH_PAD_SHIFT	4
#define BTH_PAD		0x30
#define BTH_TVER	0x0f
#define BTH_FECN	0x80
#define BTH_BECN	0x40
#define BTH_A		0x80

static u8 *put16(u8 *p, u16 v)
{
	__be16 be = cpu_to_be16(v);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static u8 *put32(u8 *p, u32 v)
{
	__be32 be = cpu_to_be32(v);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static u8 *put64(u8 *p, u64 v)
{
	__be64 be = cpu_to_be64(v);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

/* One byte of its own above a 24-bit number: how half of all fields are laid out. */
static u8 *put8_24(u8 *p, u8 top, u32 low)
{
	return put32(p, (u32)top << 24 | (low & 0xffffff));
}

static u16 get16(const u8 *p)
{
	__be16 be;

	memcpy(&be, p, sizeof(be));
	return be16_to_cpu(be);
}

static u32 get32(const u8 *p)
{
	__be32 be;

	memcpy(&be, p, sizeof(be));
	return be32_to_cpu(be);
}

static u64 get64(const u8 *p)
{
	__be64 be;

	memcpy(&be, p, sizeof(be));
	return be64_to_cpu(be);
}

/**
 * rox_bth_pack() - writes a base transport header
 * @dst: ROX_BTH_LEN bytes
 * @bth: fields; bits beyond a field's width are cut off
 */
void rox_bth_pack(u8 *dst, const struct rox_bth *bth)
{
	*dst++ = bth->opcode;
	*dst++ = (bth->solicited ? BTH_SE : 0) | (bth->migreq ? BTH_M : 0) |
		 ((bth->pad << BTH_PAD_SHIFT) & BTH_PAD) | (bth->tver & BTH_TVER);
	dst = put16(dst, bth->pkey);
	dst = put8_24(dst, (bth->fecn ? BTH_FECN : 0) | (bth->becn ? BTH_BECN : 0), bth->dqpn);
	put8_24(dst, bth->ackreq ? BTH_A : 0, bth->psn);
}

/**
 * rox_bth_parse() - reads a base transport header
 * @bth: filled
 * @src: ROX_BTH_LEN bytes, of any alignment
 */
void rox_bth_parse(struct rox_bth *bth, const u8 *src)
{
	u32 word;

	bth->opcode = src[0];
	bth->solicited = src[1] & BTH_SE;
	bth->migreq = src[1] & BTH_M;
	bth->pad = (src[1] & BTH_PAD) >> BTH_PAD_SHIFT;
	bth->tver = src[1] & BTH_TVER;
	bth->pkey = get16(src + 2);
	bth->fecn = src[4] & BTH_FECN;
	bth->becn = src[4] & BTH_BECN;
	word = get32(src + 4);
	bth->dqpn = word & 0xffffff;
	bth->ackreq = src[8] & BTH_A;
	word = get32(src + 8);
	bth->psn = word & ROX_PSN_MASK;
}

static u8 *pack_atomic(u8 *p, const struct rox_ext_hdrs *ext)
{
	p = put64(p, ext->atomic.va);
	p = put32(p, ext->atomic.rkey);
	p = put64(p, ext->atomic.swap_add);
	return put64(p, ext->atomic.compare);
}

static const u8 *parse_atomic(struct rox_ext_hdrs *ext, const u8 *p)
{
	ext->atomic.va = get64(p);
	ext->atomic.rkey = get32(p + 8);
	ext->atomic.swap_add = get64(p + 12);
	ext->atomic.compare = get64(p + 20);
	return p + 28;
}

static u8 *pack_reth(u8 *p, const struct rox_ext_hdrs *ext)
{
	p = put64(p, ext->reth.va);
	p = put32(p, ext->reth.rkey);
	return put32(p, ext->reth.len);
}

static const u8 *parse_reth(struct rox_ext_hdrs *ext, const u8 *p)
{
	ext->reth.va = get64(p);
	ext->reth.rkey = get32(p + 8);
	ext->reth.len = get32(p + 12);
	return p + 16;
}

/**
 * rox_ext_pack() - writes the extended headers that an opcode has
 * @dst: up to ROX_EXT_MAX bytes
 * @opcode: any; nothing is written for an unknown one
 * @ext: their fields
 *
 * Return: bytes written, rox_opcodes[opcode].ext_len
 */
unsigned int rox_ext_pack(u8 *dst, u8 opcode, const struct rox_ext_hdrs *ext)
{
	const struct rox_opcode_info *info = &rox_opcodes[opcode];
	u8 *p = dst;

	if (info->ext & ROX_EXT_XRC)
		p = put8_24(p, 0, ext->xrc_srqn);
	if (info->ext & ROX_EXT_DETH) {
		p = put32(p, ext->deth.qkey);
		p = put8_24(p, 0, ext->deth.sqpn);
	}
	if (info->ext & ROX_EXT_RETH)
		p = pack_reth(p, ext);
	if (info->ext & ROX_EXT_ATOMIC)
		p = pack_atomic(p, ext);
	if (info->ext & ROX_EXT_AETH)
		p = put8_24(p, ext->aeth.syndrome, ext->aeth.msn);
	if (info->ext & ROX_EXT_ATOMIC_ACK)
		p = put64(p, ext->atomic_orig);
	if (info->ext & ROX_EXT_IMM) {
		memcpy(p, &ext->imm, sizeof(ext->imm));
		p += sizeof(ext->imm);
	}
	if (info->ext & ROX_EXT_IETH)
		p = put32(p, ext->ieth_rkey);
	if (info->kind == ROX_KIND_CNP)
		memset(p, 0, info->ext_len);
	return info->ext_len;
}

/**
 * rox_ext_parse() - reads the extended headers that an opcode has
 * @ext: the fields of those headers are filled, others are left alone
 * @opcode: any
 * @src: rox_opcodes[opcode].ext_len bytes, of any alignment
 *
 * Return: bytes read, rox_opcodes[opcode].ext_len
 */
unsigned int rox_ext_parse(struct rox_ext_hdrs *ext, u8 opcode, const u8 *src)
{
	const struct rox_opcode_info *info = &rox_opcodes[opcode];
	const u8 *p = src;

	if (info->ext & ROX_EXT_XRC) {
		ext->xrc_srqn = get32(p) & 0xffffff;
		p += 4;
	}
	if (info->ext & ROX_EXT_DETH) {
		ext->deth.qkey = get32(p);
		ext->deth.sqpn = get32(p + 4) & 0xffffff;
		p += 8;
	}
	if (info->ext & ROX_EXT_RETH)
		p = parse_reth(ext, p);
	if (info->ext & ROX_EXT_ATOMIC)
		p = parse_atomic(ext, p);
	if (info->ext & ROX_EXT_AETH) {
		ext->aeth.syndrome = p[0];
		ext->aeth.msn = get32(p) & 0xffffff;
		p += 4;
	}
	if (info->ext & ROX_EXT_ATOMIC_ACK) {
		ext->atomic_orig = get64(p);
		p += 8;
	}
	if (info->ext & ROX_EXT_IMM) {
		memcpy(&ext->imm, p, sizeof(ext->imm));
		p += sizeof(ext->imm);
	}
	if (info->ext & ROX_EXT_IETH)
		ext->ieth_rkey = get32(p);
	return info->ext_len;
}
