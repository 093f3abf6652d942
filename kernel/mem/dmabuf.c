// SPDX-License-Identifier: GPL-2.0
/*
 * Memory regions over a dma-buf.
 *
 * The CPU copies payload, so a region needs the kernel address of the buffer (vmap). An exporter
 * promises not to move a buffer only while an importer is attached and has mapped it for its
 * device. Some exporters move buffers that are mapped for the CPU only. rox does not support
 * moves. So it attaches the buffer and maps it for the device as long as the region exists.
 */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/module.h>
#include <linux/swiotlb.h>
#include "../compat/dmabuf.h"
#include "internal.h"

/* log2 of a block size that is larger than any buffer: a buffer is one block. */
#define ROX_DMABUF_BLOCK_SHIFT 62

/**
 * struct rox_dmabuf - a mapped dma-buf
 * @buf: the buffer, with a reference
 * @attach: our attachment
 * @sgt: the mapping for the device, which prevents moves; its DMA addresses are not used
 * @map: kernel address of the buffer
 */
struct rox_dmabuf {
	struct dma_buf *buf;
	struct dma_buf_attachment *attach;
	struct sg_table *sgt;
	struct iosys_map map;
};

/*
 * Attaches the RDMA device and maps the buffer for it. The device does no DMA. With bounce
 * buffers, unmapping would copy the bounce buffer over data that peers have written, so that is
 * refused.
 */
static int rox_dmabuf_attach(struct rox_dmabuf *db, struct device *dev)
{
	int err;

	if (is_swiotlb_force_bounce(dev))
		return -EOPNOTSUPP;
	db->attach = dma_buf_attach(db->buf, dev);
	if (IS_ERR(db->attach))
		return PTR_ERR(db->attach);
	db->sgt = dma_buf_map_attachment_unlocked(db->attach, DMA_BIDIRECTIONAL);
	if (!IS_ERR(db->sgt))
		return 0;
	err = PTR_ERR(db->sgt);
	dma_buf_detach(db->buf, db->attach);
	return err;
}

static void rox_dmabuf_detach(struct rox_dmabuf *db)
{
	dma_buf_unmap_attachment_unlocked(db->attach, db->sgt, DMA_BIDIRECTIONAL);
	dma_buf_detach(db->buf, db->attach);
}

/*
 * Maps the buffer for the CPU. I/O memory is refused: it cannot be copied with memcpy(). Peers may
 * read and write at any time, so the CPU access lasts as long as the region.
 */
static int rox_dmabuf_map(struct rox_dmabuf *db)
{
	int err;

	err = dma_buf_vmap_unlocked(db->buf, &db->map);
	if (err)
		return err;
	err = -EOPNOTSUPP;
	if (!db->map.is_iomem)
		err = dma_buf_begin_cpu_access(db->buf, DMA_BIDIRECTIONAL);
	if (err)
		dma_buf_vunmap_unlocked(db->buf, &db->map);
	return err;
}

static int rox_dmabuf_import(struct rox_dmabuf *db, struct device *dev)
{
	int err;

	if (!db->buf->ops->vmap)
		return -EOPNOTSUPP;
	err = rox_dmabuf_attach(db, dev);
	if (err)
		return err;
	err = rox_dmabuf_map(db);
	if (err)
		rox_dmabuf_detach(db);
	return err;
}

static bool rox_dmabuf_has(const struct rox_dmabuf *db, u64 offset, u64 length)
{
	return length && offset <= db->buf->size && length <= db->buf->size - offset;
}

static struct rox_dmabuf *rox_dmabuf_open(struct device *dev, u64 offset, u64 length, int fd)
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
	err = rox_dmabuf_has(db, offset, length) ? rox_dmabuf_import(db, dev) : -EINVAL;
	if (!err)
		return db;
	dma_buf_put(db->buf);
free:
	kfree(db);
	return ERR_PTR(err);
}

/**
 * rox_dmabuf_release() - unmaps and detaches a buffer
 * @db: buffer of a region that nobody uses, or NULL
 *
 * Process context, may sleep.
 */
void rox_dmabuf_release(struct rox_dmabuf *db)
{
	if (!db)
		return;
	dma_buf_end_cpu_access(db->buf, DMA_BIDIRECTIONAL);
	dma_buf_vunmap_unlocked(db->buf, &db->map);
	rox_dmabuf_detach(db);
	dma_buf_put(db->buf);
	kfree(db);
}

/* Imports the buffer into @mr, which is not published yet. */
static int rox_dmabuf_fill(struct rox_mr *mr, u64 offset, int fd)
{
	struct rox_dmabuf *db;

	mr->nblocks = 1;
	mr->page_shift = ROX_DMABUF_BLOCK_SHIFT;
	mr->ibmr.page_size = PAGE_SIZE;
	mr->blocks = &mr->block;
	db = rox_dmabuf_open(&mr->ibmr.device->dev, offset, mr->length, fd);
	if (IS_ERR(db))
		return PTR_ERR(db);
	mr->dmabuf = db;
	mr->block = (unsigned long)db->map.vaddr + offset;
	return 0;
}

/**
 * rox_mem_register_dmabuf() - registers a part of a dma-buf
 * @mem: the device's regions
 * @ibpd: PD
 * @offset: offset of byte 0 in the buffer
 * @length: bytes
 * @iova: address of byte 0 in work requests
 * @fd: file descriptor of the buffer; may be closed afterwards
 * @access: enum ib_access_flags
 *
 * Process context, may sleep.
 * Return: the MR or ERR_PTR: -EBADF or -EINVAL if @fd is no dma-buf; -EINVAL for an empty range or
 * one outside of the buffer; -EINVAL or -EOPNOTSUPP for access flags; -EOPNOTSUPP if the CPU cannot
 * access the buffer, if it is in I/O memory, or if DMA uses bounce buffers; -ENOMEM; or the
 * exporter's error.
 */
struct ib_mr *rox_mem_register_dmabuf(struct rox_mem *mem, struct ib_pd *ibpd, u64 offset,
				      u64 length, u64 iova, int fd, int access)
{
	struct rox_mr *mr;
	int err;

	access &= ~IB_ACCESS_OPTIONAL;
	err = rox_check_access(access);
	if (err)
		return ERR_PTR(err);
	if (iova + length < iova)
		return ERR_PTR(-EINVAL);

	mr = rox_mr_alloc(mem, ibpd, ROX_MR_USER, access);
	if (!mr)
		return ERR_PTR(-ENOMEM);
	mr->iova = iova;
	mr->length = length;
	/* The RDMA core reports these. It sets them for other types of regions only. */
	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	err = rox_dmabuf_fill(mr, offset, fd);
	if (!err)
		err = rox_mr_publish(mr);
	if (!err)
		return &mr->ibmr;
	rox_mr_free(mr);
	return ERR_PTR(err);
}

ROX_IMPORT_DMA_BUF;
