// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell of a context: a file whose only ioctl() rings, by the number of a QP.
 *
 * The uverbs command POST_SEND does the same, but looks up and locks objects for work requests that
 * it never has. The file belongs to the uverbs core, which calls rox_doorbell_close() when the file
 * or the context is closed and when the device goes away. An open file keeps the module loaded by
 * the owner of its operations, even after that.
 */
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <rdma/uverbs_types.h>

#include "internal.h"

#define UVERBS_MODULE_NAME rox
#include <rdma/uverbs_named_ioctl.h>

/**
 * struct rox_doorbell - a doorbell
 * @uobj: the core's object; must be first
 * @owner: number of the context whose QPs it rings; 0: that is gone
 * @mm: the process that made it. A child of fork() has the file, but not the rings
 */
struct rox_doorbell {
	struct ib_uobject uobj;
	u64 owner;
	struct mm_struct *mm;
};

/*
 * Rings. A QP is rung with a reference, for which destroy_qp waits. So nothing waits for a ring
 * that has passed the check of @owner when the context ends.
 */
static int rox_doorbell_ring(const struct rox_doorbell *bell, unsigned long arg)
{
	u64 owner = READ_ONCE(bell->owner);
	struct rox_qp *qp;

	if (unlikely(arg & ~(unsigned long)(ROX_DOORBELL_QPN | ROX_DOORBELL_RECV)))
		return -EINVAL;
	if (unlikely(!owner))
		return -EIO;
	if (unlikely(bell->mm != current->mm))
		return -EPERM;
	qp = rox_qp_get_own(arg & ROX_DOORBELL_QPN, owner);
	if (unlikely(!qp))
		return -EINVAL;
	if (likely(!(arg & ROX_DOORBELL_RECV)))
		rox_send_doorbell(qp);
	else
		rox_recv_doorbell(qp);
	rox_qp_put(qp);
	return 0;
}

static long rox_doorbell_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	const struct ib_uobject *uobj = file->private_data;

	if (cmd != ROX_DOORBELL_RING)
		return -ENOTTY;
	return rox_doorbell_ring(container_of(uobj, struct rox_doorbell, uobj), arg);
}

static const struct file_operations rox_doorbell_fops = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = rox_doorbell_ioctl,
	.compat_ioctl = rox_doorbell_ioctl,
	.release = uverbs_uobject_fd_release,
	.llseek = noop_llseek,
};

/* The object ends; its memory stays until the file is closed. */
static void rox_doorbell_close(struct ib_uobject *uobj, enum rdma_remove_reason why)
{
	struct rox_doorbell *bell = container_of(uobj, struct rox_doorbell, uobj);

	WRITE_ONCE(bell->owner, 0);
	/* Only compared with; rings that are under way have done that, or find another process. */
	mmdrop(bell->mm);
}

static int UVERBS_HANDLER(ROX_METHOD_DOORBELL_ALLOC)(struct uverbs_attr_bundle *attrs)
{
	struct ib_uobject *uobj = uverbs_attr_get_uobject(attrs, ROX_ATTR_DOORBELL_FD);
	struct rox_doorbell *bell = container_of(uobj, struct rox_doorbell, uobj);

	if (!current->mm)
		return -EINVAL;
	mmgrab(current->mm);
	bell->mm = current->mm;
	bell->owner = to_rox_ucontext(uobj->context)->number;
	/* From here on the core calls rox_doorbell_close(), even if the command fails. */
	uverbs_finalize_uobj_create(attrs, ROX_ATTR_DOORBELL_FD);
	return 0;
}

DECLARE_UVERBS_NAMED_METHOD(ROX_METHOD_DOORBELL_ALLOC,
			    UVERBS_ATTR_FD(ROX_ATTR_DOORBELL_FD, ROX_OBJECT_DOORBELL,
					   UVERBS_ACCESS_NEW, UA_MANDATORY));

DECLARE_UVERBS_NAMED_OBJECT(ROX_OBJECT_DOORBELL,
			    UVERBS_TYPE_ALLOC_FD(sizeof(struct rox_doorbell), rox_doorbell_close,
						 &rox_doorbell_fops, "[rox_doorbell]", O_RDONLY),
			    &UVERBS_METHOD(ROX_METHOD_DOORBELL_ALLOC));

const struct uapi_definition rox_uverbs_objects[] = {
	UAPI_DEF_CHAIN_OBJ_TREE_NAMED(ROX_OBJECT_DOORBELL),
	UAPI_DEF_CHAIN(rox_cq_wait_def),
	{}
};
