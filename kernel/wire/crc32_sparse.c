// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32 without tables and vector instructions, for processors whose crc32_le() looks up each
 * byte.
 *
 * The CRC is the remainder of a polynomial, and that does not change if a multiple of the generator
 * is added. One of its multiples has only five terms, all of them whole bytes apart:
 *
 *	x^(8 * 300) + x^(8 * 155) + x^(8 * 117) + x^(8 * 89) + 1
 *
 * Added at the right place it takes a word of the data away, and adds it to the data 145, 183, 211
 * and 300 bytes later. That costs four exclusive ors for eight bytes, which do not wait for the
 * word before. What remains are the last ROX_FAR bytes, whose CRC is that of all.
 */
#include <linux/align.h>
#include <linux/build_bug.h>
#include <linux/kernel.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <asm/byteorder.h>

#include "../compat/crc32.h"
#include "wire.h"

/* The largest distance in whole words. */
#define ROX_FAR		304U

/* After so many bytes the last ROX_FAR ones move to the front of the buffer on the stack. */
#define ROX_BLOCK	768U

/* Bytes of a turn of the loop. */
#define ROX_TURN	32U

static_assert(ROX_BLOCK % ROX_TURN == 0);

/* A word at any address. */
struct rox_sparse_word {
	u64 word;
} __packed;

static __always_inline u64 rox_sparse_load(const u8 *p)
{
	return ((const struct rox_sparse_word *)p)->word;
}

/* The word at @data with what the words before have added to it. They are before @at. */
static __always_inline u64 rox_sparse_sum(const u8 *data, const u8 *at)
{
	return rox_sparse_load(data) ^ rox_sparse_load(at - 145) ^ rox_sparse_load(at - 183) ^
	       rox_sparse_load(at - 211) ^ rox_sparse_load(at - 300);
}

/* Takes away @len bytes, a multiple of ROX_TURN; @at gets the words that were taken away. */
static void rox_sparse_block(const u8 *data, u8 *at, size_t len)
{
	u64 *to = (u64 *)at;
	size_t i;

	for (i = 0; i < len; i += ROX_TURN, to += 4) {
		to[0] = rox_sparse_sum(data + i, at + i);
		to[1] = rox_sparse_sum(data + i + 8, at + i + 8);
		to[2] = rox_sparse_sum(data + i + 16, at + i + 16);
		to[3] = rox_sparse_sum(data + i + 24, at + i + 24);
	}
}

/* The last ROX_FAR bytes at @from become the first ones at @to. */
static void rox_sparse_next(u64 *to, const u64 *from)
{
	size_t i;

	for (i = 0; i < ROX_FAR / sizeof(u64); i += 2) {
		to[i] = from[i];
		to[i + 1] = from[i + 1];
	}
}

/**
 * rox_crc32_sparse() - continues a CRC-32, as crc32_le()
 * @state: register before
 * @data: bytes, at any address
 * @len: number of bytes; at least ROX_SPARSE_MIN
 *
 * Any context. Needs 1,072 bytes of the stack.
 * Return: register afterwards.
 */
u32 rox_crc32_sparse(u32 state, const void *data, size_t len)
{
	u64 words[(ROX_FAR + ROX_BLOCK) / sizeof(u64)];
	size_t left = ALIGN_DOWN(len - ROX_FAR, ROX_TURN), rest = len - left - ROX_FAR, n, i;
	u8 *before = (u8 *)words, *at = before + ROX_FAR;
	__le32 first = cpu_to_le32(state);
	const u8 *p = data;

	/* As if a word that was taken away 300 bytes earlier had added the state to the first. */
	memset(before, 0, ROX_FAR);
	memcpy(at - 300, &first, sizeof(first));
	for (; left; left -= n, p += n) {
		n = min_t(size_t, left, ROX_BLOCK);
		rox_sparse_block(p, at, n);
		rox_sparse_next(words, (const u64 *)(before + n));
	}
	/* Nothing is taken away any more. What is read no more gets the result. */
	memset(at, 0, ROX_FAR);
	for (i = 0; i < ROX_FAR; i += sizeof(u64), p += sizeof(u64))
		words[i / sizeof(u64)] = rox_sparse_sum(p, at + i);
	state = crc32_le(0, before, ROX_FAR);
	return crc32_le(state, p, rest);
}
