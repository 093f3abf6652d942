// SPDX-License-Identifier: GPL-2.0
/*
 * Packing and parsing of the extended transport headers.
 */
#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "wire.h"

static u8 *rox_put32(u8 *p, u32 v)
{
	__be32 be = cpu_to_be32(v);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

static u8 *rox_put64(u8 *p, u64 v)
{
	__be64 be = cpu_to_be64(v);

	memcpy(p, &be, sizeof(be));
	return p + sizeof(be);
}

/* Many fields are a 24-bit number below a byte of another field. */
static u8 *rox_put8_24(u8 *p, u8 top, u32 low)
{
	return rox_put32(p, (u32)top << 24 | (low & 0xffffff));
}

static u32 rox_get32(const u8 *p)
{
	__be32 be;

	memcpy(&be, p, sizeof(be));
	return be32_to_cpu(be);
}

static u64 rox_get64(const u8 *p)
{
	__be64 be;

	memcpy(&be, p, sizeof(be));
	return be64_to_cpu(be);
}

static u8 *rox_pack_atomic(u8 *p, const struct rox_ext_hdrs *ext)
{
	p = rox_put64(p, ext->atomic.va);
	p = rox_put32(p, ext->atomic.rkey);
	p = rox_put64(p, ext->atomic.swap_add);
	return rox_put64(p, ext->atomic.compare);
}

static const u8 *rox_parse_atomic(struct rox_ext_hdrs *ext, const u8 *p)
{
	ext->atomic.va = rox_get64(p);
	ext->atomic.rkey = rox_get32(p + 8);
	ext->atomic.swap_add = rox_get64(p + 12);
	ext->atomic.compare = rox_get64(p + 20);
	return p + 28;
}

static u8 *rox_pack_reth(u8 *p, const struct rox_ext_hdrs *ext)
{
	p = rox_put64(p, ext->reth.va);
	p = rox_put32(p, ext->reth.rkey);
	return rox_put32(p, ext->reth.len);
}

static const u8 *rox_parse_reth(struct rox_ext_hdrs *ext, const u8 *p)
{
	ext->reth.va = rox_get64(p);
	ext->reth.rkey = rox_get32(p + 8);
	ext->reth.len = rox_get32(p + 12);
	return p + 16;
}

/**
 * rox_ext_pack() - writes the extended headers that an opcode has
 * @dst: up to ROX_EXT_MAX bytes
 * @opcode: any; nothing is written for an unknown one
 * @ext: the fields
 *
 * Return: bytes written, rox_opcodes[opcode].ext_len
 */
unsigned int rox_ext_pack(u8 *dst, u8 opcode, const struct rox_ext_hdrs *ext)
{
	const struct rox_opcode_info *info = &rox_opcodes[opcode];
	u8 *p = dst;

	if (info->ext & ROX_EXT_XRC)
		p = rox_put8_24(p, 0, ext->xrc_srqn);
	if (info->ext & ROX_EXT_DETH) {
		p = rox_put32(p, ext->deth.qkey);
		p = rox_put8_24(p, 0, ext->deth.sqpn);
	}
	if (info->ext & ROX_EXT_RETH)
		p = rox_pack_reth(p, ext);
	if (info->ext & ROX_EXT_ATOMIC)
		p = rox_pack_atomic(p, ext);
	if (info->ext & ROX_EXT_AETH)
		p = rox_put8_24(p, ext->aeth.syndrome, ext->aeth.msn);
	if (info->ext & ROX_EXT_ATOMIC_ACK)
		p = rox_put64(p, ext->atomic_orig);
	if (info->ext & ROX_EXT_IMM) {
		memcpy(p, &ext->imm, sizeof(ext->imm));
		p += sizeof(ext->imm);
	}
	if (info->ext & ROX_EXT_IETH)
		p = rox_put32(p, ext->ieth_rkey);
	if (info->kind == ROX_KIND_CNP)
		memset(p, 0, info->ext_len);
	return info->ext_len;
}

/**
 * rox_ext_parse() - reads the extended headers that an opcode has
 * @ext: the fields of those headers are filled, others do not change
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
		ext->xrc_srqn = rox_get32(p) & 0xffffff;
		p += 4;
	}
	if (info->ext & ROX_EXT_DETH) {
		ext->deth.qkey = rox_get32(p);
		ext->deth.sqpn = rox_get32(p + 4) & 0xffffff;
		p += 8;
	}
	if (info->ext & ROX_EXT_RETH)
		p = rox_parse_reth(ext, p);
	if (info->ext & ROX_EXT_ATOMIC)
		p = rox_parse_atomic(ext, p);
	if (info->ext & ROX_EXT_AETH) {
		ext->aeth.syndrome = p[0];
		ext->aeth.msn = rox_get32(p) & 0xffffff;
		p += 4;
	}
	if (info->ext & ROX_EXT_ATOMIC_ACK) {
		ext->atomic_orig = rox_get64(p);
		p += 8;
	}
	if (info->ext & ROX_EXT_IMM) {
		memcpy(&ext->imm, p, sizeof(ext->imm));
		p += sizeof(ext->imm);
	}
	if (info->ext & ROX_EXT_IETH)
		ext->ieth_rkey = rox_get32(p);
	return info->ext_len;
}
