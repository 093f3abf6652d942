// SPDX-License-Identifier: GPL-2.0
/*
 * CRC-32 by the fastest means that this kernel has.
 *
 * Before 6.14 crc32_le() is a table walk, and the accelerated code hides behind
 * the crypto API's "crc32". Later crc32_le() itself is accelerated, and the
 * crypto API, if it still has "crc32", only wraps it; the driver's name tells.
 */
#include <linux/crc32.h>
#include <linux/err.h>
#include <linux/module.h>
#include <linux/string.h>
#include <crypto/hash.h>

#include "wire.h"

/* Below this many bytes the accelerated code is not faster, or passes on to the table itself. */
#define ACCEL_MIN_LEN	256

static struct crypto_shash *accel;

static bool is_accelerated(struct crypto_shash *tfm)
{
	const char *name = crypto_shash_driver_name(tfm);

	return strcmp(name, "crc32-generic") && strcmp(name, "crc32-lib");
}

static u32 crc32_known_answer(u32 (*crc)(u32, const void *, size_t))
{
	u8 ones[ACCEL_MIN_LEN];

	memset(ones, 0xff, sizeof(ones));
	return crc(~0U, ones, sizeof(ones));
}

static u32 crc32_table(u32 state, const void *data, size_t len)
{
	return crc32_le(state, data, len);
}

/*
 * The state of "crc32" is the CRC register itself, so that import and export
 * set and read it in place of a key and a digest.
 */
static u32 crc32_accel(u32 state, const void *data, size_t len)
{
	SHASH_DESC_ON_STACK(desc, accel);
	u32 next;

	desc->tfm = accel;
	if (crypto_shash_import(desc, &state) || crypto_shash_update(desc, data, len) ||
	    crypto_shash_export(desc, &next))
		return crc32_le(state, data, len);
	return next;
}

/**
 * rox_crc32_init() - looks for accelerated code
 *
 * Whatever it finds is used only if it agrees with crc32_le().
 */
void rox_crc32_init(void)
{
	struct crypto_shash *tfm = crypto_alloc_shash("crc32", 0, 0);

	if (IS_ERR(tfm))
		return;
	if (is_accelerated(tfm) && crypto_shash_statesize(tfm) == sizeof(u32)) {
		accel = tfm;
		if (crc32_known_answer(crc32_accel) == crc32_known_answer(crc32_table))
			return;
		accel = NULL;
	}
	crypto_free_shash(tfm);
}

void rox_crc32_exit(void)
{
	if (accel)
		crypto_free_shash(accel);
	accel = NULL;
}

/**
 * rox_crc32() - CRC-32 register after more bytes; no inversion at either end
 * @state: register before
 * @data: bytes
 * @len: their number
 *
 * Any context but hard interrupts.
 */
u32 rox_crc32(u32 state, const void *data, size_t len)
{
	if (accel && len >= ACCEL_MIN_LEN)
		return crc32_accel(state, data, len);
	return crc32_table(state, data, len);
}

MODULE_SOFTDEP("pre: crc32");
