/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The newest kernel interface given to older kernels. What a kernel has is
 * found out by compat/Kbuild, which defines ROX_HAVE_*. No other folder has an
 * #if on the kernel.
 *
 * This header is for everybody; compat/net.h has what only net/ needs, and
 * compat/ops.h what only the tables of ib_device_ops need.
 */
#ifndef ROX_COMPAT_H
#define ROX_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched/task.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>

struct ib_dmah;

#ifndef ROX_HAVE_HRTIMER_SETUP
static inline void hrtimer_setup(struct hrtimer *timer,
				 enum hrtimer_restart (*function)(struct hrtimer *),
				 clockid_t clock, enum hrtimer_mode mode)
{
	hrtimer_init(timer, clock, mode);
	timer->function = function;
}
#endif

#ifndef ROX_HAVE_TIMER_CONTAINER_OF
#define timer_container_of(var, timer, field) container_of(timer, typeof(*(var)), field)
#endif

#ifndef ROX_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

/* Per-CPU was what a workqueue without WQ_UNBOUND is before it had a name. */
#ifndef ROX_HAVE_WQ_PERCPU
#define WQ_PERCPU 0
#endif

#ifndef ROX_HAVE_VIRT_DMA_TO_PTR
static inline void *ib_virt_dma_to_ptr(u64 dma_addr)
{
	return (void *)(uintptr_t)dma_addr;
}

static inline struct page *ib_virt_dma_to_page(u64 dma_addr)
{
	return virt_to_page(ib_virt_dma_to_ptr(dma_addr));
}
#endif

#ifndef ROX_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* Values of the uverbs ABI that old kernels do not know by name. */
#ifndef ROX_HAVE_IB_FLUSH
#define IB_WR_FLUSH		((enum ib_wr_opcode)14)
#define IB_WR_ATOMIC_WRITE	((enum ib_wr_opcode)15)
#define IB_ACCESS_FLUSH_GLOBAL		BIT(8)
#define IB_ACCESS_FLUSH_PERSISTENT	BIT(9)
#define IB_WC_ATOMIC_WRITE	((enum ib_wc_opcode)9)
#define IB_DEVICE_ATOMIC_WRITE	BIT_ULL(40)
/* <rdma/ib_pack.h> has them together with the above. */
#define IB_OPCODE_RC_FLUSH		0x1c
#define IB_OPCODE_RC_ATOMIC_WRITE	0x1d
#endif

/*
 * To be called where alloc_ucontext refuses. Linux, 6.12 and before at least,
 * frees such a context with its reference on the program's task if the context
 * was asked for by ioctl(): as often as it asks, the program leaves a task that
 * is never freed. Without a task the core has nothing to give back, so that one
 * which does give it back is as right with this.
 */
static inline void rox_ucontext_refused(struct ib_ucontext *uc)
{
	if (uc->res.task)
		put_task_struct(uc->res.task);
	uc->res.task = NULL;
}

#endif /* ROX_COMPAT_H */
