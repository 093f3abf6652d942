// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions over a dma-buf.
 *
 * Payload is copied by the processor, so what a region needs is where the
 * buffer is in kernel memory, and not a DMA mapping: the exporter is asked for
 * the former, and keeps the pages where they are until it is given back.
 */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include "../compat/dmabuf.h"
#include "internal.h"

/* One block is all of the buffer, however long. */
#define ROX_DMABUF_BLOCK_SHIFT 62

/**
 * struct rox_dmabuf - a dma-buf that is mapped
 * @buf: with a reference
 * @map: where it is in kernel memory
 */
struct rox_dmabuf {
	struct dma_buf *buf;
	struct iosys_map map;
};

/*
 * Exporters that move their buffers promise an address only to importers that
 * pin or listen, for which one has to be a device that does DMA. I/O memory
 * cannot be copied as if it was memory.
 */
static int rox_dmabuf_map(struct rox_dmabuf *db)
{
	int err;

	if (db->buf->ops->pin)
		return -EOPNOTSUPP;
	err = dma_buf_vmap_unlocked(db->buf, &db->map);
	if (err)
		return err;
	if (db->map.is_iomem) {
		dma_buf_vunmap_unlocked(db->buf, &db->map);
		return -EOPNOTSUPP;
	}
	return 0;
}

static struct rox_dmabuf *rox_dmabuf_open(u64 offset, u64 length, int fd)
{
	struct rox_dmabuf *db;
	int err;

	db = kzalloc(sizeof(*db), ROX_GFP_USER);
	if (!db)
		return ERR_PTR(-ENOMEM);
	db->buf = dma_buf_get(fd);
	if (IS_ERR(db->buf)) {
		err = PTR_ERR(db->buf);
		goto free;
	}
	err = -EINVAL;
	if (offset > db->buf->size || length > db->buf->size - offset)
		goto put;
	err = rox_dmabuf_map(db);
	if (err)
		goto put;
	return db;
put:
	dma_buf_put(db->buf);
free:
	kfree(db);
	return ERR_PTR(err);
}

/**
 * rox_dmabuf_release() - gives a buffer back to its exporter
 * @db: of a region that nobody uses any more, or NULL
 *
 * Process context, may sleep.
 */
void rox_dmabuf_release(struct rox_dmabuf *db)
{
	if (!db)
		return;
	dma_buf_vunmap_unlocked(db->buf, &db->map);
	dma_buf_put(db->buf);
	kfree(db);
}

/**
 * rox_reg_user_mr_dmabuf() - registers a part of a dma-buf
 * @ibpd: PD
 * @offset: of byte 0 in the buffer
 * @length: bytes
 * @iova: address of byte 0 for work requests
 * @fd: file descriptor of the buffer, not needed afterwards
 * @access: enum ib_access_flags
 * @dmah: DMA hints, which are not for a device without DMA
 * @attrs: not used
 *
 * Return: the MR or ERR_PTR: -EBADF or -EINVAL for an @fd that is no dma-buf,
 * -EINVAL for a range that is not in it or empty, -EOPNOTSUPP for a buffer that
 * moves or is in I/O memory, or the exporter's error.
 */
struct ib_mr *rox_reg_user_mr_dmabuf(struct ib_pd *ibpd, u64 offset, u64 length, u64 iova,
				     int fd, int access, struct ib_dmah *dmah,
				     struct uverbs_attr_bundle *attrs)
{
	struct rox_mr *mr;
	int err;

	if (dmah)
		return ERR_PTR(-EOPNOTSUPP);
	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	if (!length || iova + length < iova)
		return ERR_PTR(-EINVAL);

	mr = rox_mr_alloc(ibpd, ROX_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	mr->nblocks = 1;
	mr->page_shift = ROX_DMABUF_BLOCK_SHIFT;
	mr->ibmr.page_size = PAGE_SIZE;
	mr->blocks = kvmalloc_array(1, sizeof(*mr->blocks), ROX_GFP_USER);
	if (!mr->blocks) {
		err = -ENOMEM;
		goto free;
	}
	mr->dmabuf = rox_dmabuf_open(offset, length, fd);
	if (IS_ERR(mr->dmabuf)) {
		err = PTR_ERR(mr->dmabuf);
		mr->dmabuf = NULL;
		goto free;
	}
	mr->blocks[0] = (unsigned long)mr->dmabuf->map.vaddr + offset;
	err = rox_mr_publish(to_rox_dev(ibpd->device), mr);
	if (err)
		goto free;
	return &mr->ibmr;
free:
	rox_mr_free(mr);
	return ERR_PTR(err);
}

ROX_IMPORT_DMA_BUF;
