// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32 by the fastest code of this kernel.
 *
 * Before Linux 6.14 crc32_le() uses tables, and accelerated code is available only as "crc32" of
 * the crypto API. From 6.14 on crc32_le() is accelerated, and "crc32" of the crypto API, where it
 * exists, only calls it. Which of the two it is, the kernel tells by crc32_optimizations(), or else
 * by the name of the crypto driver. Where there is none, long pieces are for crc32_sparse.c.
 */
#include <linux/cache.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/string.h>
#include <crypto/hash.h>

#include "../compat/crc32.h"
#include "wire.h"

/* For fewer bytes the accelerated code is not faster, or uses the table itself. */
#define ACCEL_MIN_LEN	256

/* A small kernel may be without the crypto API. */
#define ROX_HAS_SHASH	IS_REACHABLE(CONFIG_CRYPTO_HASH)

/* crc32_sparse.c reads words of eight bytes at any address. */
#define ROX_HAS_SPARSE	(BITS_PER_LONG == 64 && \
			 (IS_ENABLED(CONFIG_HAVE_EFFICIENT_UNALIGNED_ACCESS) || \
			  IS_ENABLED(CONFIG_UML_X86)))

static struct crypto_shash *rox_crc32_tfm;

/* crc32_sparse.c is faster than crc32_le(). */
static bool rox_crc32_sparse_pays __ro_after_init;

static bool rox_crc32_is_accelerated(struct crypto_shash *tfm)
{
	const char *name = crypto_shash_driver_name(tfm);

	return strcmp(name, "crc32-generic") && strcmp(name, "crc32-lib");
}

static u32 rox_crc32_known_answer(u32 (*crc)(u32, const void *, size_t))
{
	u8 ones[ACCEL_MIN_LEN];

	memset(ones, 0xff, sizeof(ones));
	return crc(~0U, ones, sizeof(ones));
}

static u32 rox_crc32_table(u32 state, const void *data, size_t len)
{
	return crc32_le(state, data, len);
}

/*
 * The state of "crc32" is the CRC register. Import and export of the state set and read it, so
 * that neither a key nor a digest is needed.
 */
static u32 rox_crc32_accel(u32 state, const void *data, size_t len)
{
	SHASH_DESC_ON_STACK(desc, rox_crc32_tfm);
	u32 next;

	desc->tfm = rox_crc32_tfm;
	if (crypto_shash_import(desc, &state) || crypto_shash_update(desc, data, len) ||
	    crypto_shash_export(desc, &next))
		return crc32_le(state, data, len);
	return next;
}

/**
 * rox_crc32_init() - looks for accelerated code
 *
 * The code is used only if its result agrees with crc32_le(). May sleep.
 */
void rox_crc32_init(void)
{
	struct crypto_shash *tfm;

	rox_crc32_sparse_pays = ROX_HAS_SPARSE && rox_crc32_le_is_table();
	if (!ROX_HAS_SHASH || rox_crc32_le_is_fast())
		return;
	tfm = crypto_alloc_shash("crc32", 0, 0);
	if (IS_ERR(tfm))
		return;
	if (rox_crc32_is_accelerated(tfm) && crypto_shash_statesize(tfm) == sizeof(u32)) {
		rox_crc32_tfm = tfm;
		if (rox_crc32_known_answer(rox_crc32_accel) ==
		    rox_crc32_known_answer(rox_crc32_table))
			return;
		rox_crc32_tfm = NULL;
	}
	crypto_free_shash(tfm);
}

void rox_crc32_exit(void)
{
	if (ROX_HAS_SHASH && rox_crc32_tfm)
		crypto_free_shash(rox_crc32_tfm);
	rox_crc32_tfm = NULL;
}

/**
 * rox_crc32() - continues a CRC-32 over more bytes, without inversion
 * @state: register before
 * @data: bytes
 * @len: number of bytes
 *
 * Any context but hard interrupts.
 * Return: register afterwards.
 */
u32 rox_crc32(u32 state, const void *data, size_t len)
{
	if (ROX_HAS_SHASH && rox_crc32_tfm && len >= ACCEL_MIN_LEN)
		return rox_crc32_accel(state, data, len);
	if (rox_crc32_sparse_pays && len >= ROX_SPARSE_MIN)
		return rox_crc32_sparse(state, data, len);
	return rox_crc32_table(state, data, len);
}

MODULE_SOFTDEP("pre: crc32");
