/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Provides interfaces of the newest kernel on older kernels. compat/Kbuild probes
 * the kernel's headers and defines ROX_HAVE_*. No other folder has an #if that
 * depends on the kernel.
 *
 * This header is for all folders. compat/net.h is for net/, compat/dmabuf.h for mem/dmabuf.c,
 * compat/crc32.h for wire/crc32.c, compat/opcodes.h for the opcodes, compat/gids.h for link.c, and
 * compat/ops.h for the tables of ib_device_ops in verbs/.
 */
#ifndef ROX_COMPAT_H
#define ROX_COMPAT_H

#include <linux/hrtimer.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
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

#ifndef ROX_HAVE_VM_FLAGS_SET
static inline void vm_flags_set(struct vm_area_struct *vma, vm_flags_t flags)
{
	vma->vm_flags |= flags;
}
#endif

/* Older kernels have no memory that the CPU alone writes return addresses to. */
#ifndef VM_SHADOW_STACK
#define VM_SHADOW_STACK VM_NONE
#endif

#ifndef ROX_HAVE_VIRT_DMA_TO_PTR
static inline void *ib_virt_dma_to_ptr(u64 dma_addr)
{
	return (void *)(uintptr_t)dma_addr;
}
#endif

#ifndef ROX_HAVE_UMEM_GET_VA
static inline struct ib_umem *ib_umem_get_va(struct ib_device *device, unsigned long addr,
					     size_t size, int access)
{
	return ib_umem_get(device, addr, size, access);
}
#endif

/* For a table of ib_device_ops. See rox_report_port_event(). */
#ifdef ROX_HAVE_REPORT_PORT_EVENT
#define ROX_OPS_REPORT_PORT_EVENT .report_port_event = rox_report_port_event,
#else
#define ROX_OPS_REPORT_PORT_EVENT
#endif

/* Values of the uverbs ABI for which old kernels have no names. */
#ifndef ROX_HAVE_IB_FLUSH
#define IB_WR_ATOMIC_WRITE	((enum ib_wr_opcode)15)
#define IB_WC_ATOMIC_WRITE	((enum ib_wc_opcode)9)
#define IB_DEVICE_ATOMIC_WRITE	BIT_ULL(40)
#endif

/*
 * Call this where alloc_ucontext fails. It works around a leak in Linux 6.12 and older: if the
 * context was requested by ioctl(), the core frees it without dropping its reference on the
 * program's task. So a program could leak a task with each failed request. A kernel without the
 * bug finds no task, and drops nothing.
 */
static inline void rox_ucontext_refused(struct ib_ucontext *uc)
{
	if (uc->res.task)
		put_task_struct(uc->res.task);
	uc->res.task = NULL;
}

/* Do the tasks differ in their cgroups, CPUs or nice values? */
static inline bool rox_task_moved(struct task_struct *a, struct task_struct *b)
{
#ifdef CONFIG_CGROUPS
	if (rcu_access_pointer(a->cgroups) != rcu_access_pointer(b->cgroups))
		return true;
#endif
	return !cpumask_equal(a->cpus_ptr, b->cpus_ptr) || task_nice(a) != task_nice(b);
}

#endif /* ROX_COMPAT_H */
