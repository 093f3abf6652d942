/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The newest interface of dma-buf given to older kernels; for verbs/dmabuf.c.
 */
#ifndef ROX_COMPAT_DMABUF_H
#define ROX_COMPAT_DMABUF_H

#include <linux/dma-buf.h>
#include <linux/module.h>

/* What took the lock by itself got another name when a variant without came. */
#ifndef ROX_HAVE_DMABUF_VMAP_UNLOCKED
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

#ifdef ROX_HAVE_IMPORT_NS_STRING
#define ROX_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define ROX_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

#endif /* ROX_COMPAT_DMABUF_H */
