// SPDX-License-Identifier: GPL-2.0
/*
 * Pipes between programs inside of User Mode Linux and the host.
 *
 * hostpipe.fds=FD,FD,... on the kernel's command line names sockets that this kernel has inherited
 * from the program that started it. The first is /dev/hostpipe0, and so on. A read waits until the
 * socket has something and takes what there is, 0 at its end; a write waits until the socket has
 * room and takes a part. Serial lines, which are there for the same, are terminals: they have no
 * end, and take one byte of input at a time.
 */
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kernel.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include <irq_kern.h>
#include <irq_user.h>
#include <os.h>

enum {
	HOSTPIPE_MAX = 16,
	HOSTPIPE_CHUNK = 65536,	/* at most as much at a time */
};

/**
 * struct hostpipe - one pipe
 * @misc: its device
 * @name: the name of the device
 * @fd: the socket, a file descriptor of the host
 * @changed: who waits for data or room
 */
struct hostpipe {
	struct miscdevice misc;
	char name[16];
	int fd;
	wait_queue_head_t changed;
};

static struct hostpipe hostpipes[HOSTPIPE_MAX];
static int fds[HOSTPIPE_MAX];
static unsigned int fds_given;
module_param_array(fds, int, &fds_given, 0);
MODULE_PARM_DESC(fds, "Inherited sockets: file descriptors of the host");

static struct hostpipe *hostpipe_of(struct file *file)
{
	return container_of(file->private_data, struct hostpipe, misc);
}

static irqreturn_t hostpipe_interrupt(int irq, void *data)
{
	struct hostpipe *pipe = data;

	wake_up_interruptible(&pipe->changed);
	return IRQ_HANDLED;
}

static ssize_t hostpipe_read(struct file *file, char __user *to, size_t size, loff_t *pos)
{
	struct hostpipe *pipe = hostpipe_of(file);
	ssize_t got, status = 0;
	void *chunk;

	size = min_t(size_t, size, HOSTPIPE_CHUNK);
	chunk = kvmalloc(size, GFP_KERNEL);
	if (!chunk)
		return -ENOMEM;
	if (file->f_flags & O_NONBLOCK)
		got = os_read_file(pipe->fd, chunk, size);
	else
		status = wait_event_interruptible(pipe->changed,
						  (got = os_read_file(pipe->fd, chunk, size)) !=
							  -EAGAIN);
	if (status)
		got = status;
	else if (got > 0 && copy_to_user(to, chunk, got))
		got = -EFAULT;
	kvfree(chunk);
	return got;
}

static ssize_t hostpipe_write(struct file *file, const char __user *from, size_t size,
			      loff_t *pos)
{
	struct hostpipe *pipe = hostpipe_of(file);
	ssize_t sent, status = 0;
	void *chunk;

	size = min_t(size_t, size, HOSTPIPE_CHUNK);
	chunk = vmemdup_user(from, size);
	if (IS_ERR(chunk))
		return PTR_ERR(chunk);
	if (file->f_flags & O_NONBLOCK)
		sent = os_write_file(pipe->fd, chunk, size);
	else
		status = wait_event_interruptible(pipe->changed,
						  (sent = os_write_file(pipe->fd, chunk, size)) !=
							  -EAGAIN);
	kvfree(chunk);
	return status ? status : sent;
}

static const struct file_operations hostpipe_ops = {
	.owner = THIS_MODULE,
	.read = hostpipe_read,
	.write = hostpipe_write,
};

static int __init hostpipe_add(struct hostpipe *pipe, unsigned int number, int fd)
{
	int err;

	pipe->fd = fd;
	init_waitqueue_head(&pipe->changed);
	snprintf(pipe->name, sizeof(pipe->name), "hostpipe%u", number);
	pipe->misc.minor = MISC_DYNAMIC_MINOR;
	pipe->misc.name = pipe->name;
	pipe->misc.fops = &hostpipe_ops;
	pipe->misc.mode = 0600;
	err = um_request_irq(UM_IRQ_ALLOC, fd, IRQ_READ, hostpipe_interrupt, 0, pipe->name, pipe);
	if (err < 0)
		return err;
	err = um_request_irq(UM_IRQ_ALLOC, fd, IRQ_WRITE, hostpipe_interrupt, 0, pipe->name, pipe);
	if (err < 0)
		return err;
	return misc_register(&pipe->misc);
}

static int __init hostpipe_init(void)
{
	unsigned int i;
	int err;

	for (i = 0; i < fds_given; i++) {
		err = hostpipe_add(&hostpipes[i], i, fds[i]);
		if (err)
			pr_err("hostpipe%u: error %d\n", i, err);
	}
	return 0;
}
device_initcall(hostpipe_init);

MODULE_DESCRIPTION("Pipes from User Mode Linux to its host");
MODULE_LICENSE("GPL");
