/* SPDX-License-Identifier: GPL-2.0 */
/* <linux/crc32.h> for wire/crc32.c, in kernels without CONFIG_CRC32 as well. */
#ifndef ROX_COMPAT_CRC32_H
#define ROX_COMPAT_CRC32_H

#include <linux/crc32.h>
#include <linux/crc32poly.h>

#if !IS_ENABLED(CONFIG_CRC32)
/* Four bits at a time, as there is no table of the kernel: slow, but right. */
static inline u32 rox_crc32_le(u32 crc, const void *data, size_t len)
{
	const u8 *byte = data;
	u32 nibble;
	int half, bit;

	for (; len; len--, byte++) {
		crc ^= *byte;
		for (half = 0; half < 2; half++) {
			nibble = crc & 0xf;
			for (bit = 0; bit < 4; bit++)
				nibble = (nibble >> 1) ^ (nibble & 1 ? CRC32_POLY_LE : 0);
			crc = (crc >> 4) ^ nibble;
		}
	}
	return crc;
}

#define crc32_le rox_crc32_le
#endif

/* Is crc32_le() the fastest code of this kernel and processor? Older kernels cannot tell. */
static inline bool rox_crc32_le_is_fast(void)
{
#if IS_ENABLED(CONFIG_CRC32) && defined(ROX_HAVE_CRC32_OPTIMIZATIONS)
	return crc32_optimizations() & CRC32_LE_OPTIMIZATION;
#else
	return false;
#endif
}

/*
 * Does crc32_le() look up each byte in a table? Kernels that cannot tell have something better for
 * these processors.
 */
static inline bool rox_crc32_le_is_table(void)
{
#if IS_ENABLED(CONFIG_CRC32) && !defined(ROX_HAVE_CRC32_OPTIMIZATIONS)
	return !IS_ENABLED(CONFIG_ARM64) && !IS_ENABLED(CONFIG_RISCV);
#else
	return !rox_crc32_le_is_fast();
#endif
}

#endif /* ROX_COMPAT_CRC32_H */
