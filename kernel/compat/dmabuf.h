/* SPDX-License-Identifier: GPL-2.0 */
/*
 * compat.h for mem/dmabuf.c: provides the newest interface of dma-buf.
 */
#ifndef ROX_COMPAT_DMABUF_H
#define ROX_COMPAT_DMABUF_H

#include <linux/dma-buf.h>
#include <linux/module.h>

/* In old kernels the functions that take the lock themselves have no suffix. */
#ifndef ROX_HAVE_DMABUF_VMAP_UNLOCKED
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#define dma_buf_map_attachment_unlocked dma_buf_map_attachment
#define dma_buf_unmap_attachment_unlocked dma_buf_unmap_attachment
#endif

#ifdef ROX_HAVE_IMPORT_NS_STRING
#define ROX_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#else
#define ROX_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#endif

#endif /* ROX_COMPAT_DMABUF_H */
