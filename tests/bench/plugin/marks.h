/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What a program in the guest says to the plugin count.c: an instruction that does nothing, with
 * the command in the registers. Without the plugin, marks have no effect.
 */
#ifndef ROX_COUNT_MARKS_H
#define ROX_COUNT_MARKS_H

/* nopl 0x58304f52(%rax): a displacement that compilers do not use. */
#define ROX_MARK_BYTES 0x0f, 0x1f, 0x80, 0x52, 0x4f, 0x30, 0x58

/* Commands, with what is in the two other registers. */
enum rox_mark {
    ROX_MARK_WATCH = 1, /* address of a function, ROX_WATCH(class, register of its length) */
    ROX_MARK_ARM = 2,   /* from here on the plugin looks at each block */
    ROX_MARK_SIDE = 3,  /* the task that says it, and the kernel beneath it, is this side */
    ROX_MARK_START = 4, /* number of the run */
    ROX_MARK_STOP = 5,  /* number of the run */
    ROX_MARK_WAIT = 6,  /* 1 while a program polls in vain, else 0 */
};

/* What a watched function does. */
enum rox_watch {
    ROX_WATCH_COPY = 0,
    ROX_WATCH_SUM = 1,
    ROX_WATCH_CLASSES,
    ROX_WATCH_SWITCH = ROX_WATCH_CLASSES, /* __switch_to(previous, next) */
    ROX_WATCH_IDLE,                       /* the loop of an idle CPU */
};

/* Registers that hold arguments. */
enum rox_register {
    ROX_REGISTER_RDI,
    ROX_REGISTER_RSI,
    ROX_REGISTER_RDX,
    ROX_REGISTER_RCX,
    ROX_REGISTERS,
};

#define ROX_WATCH(what, reg) ((what) | (reg) << 8)

/* Whose instructions they are. */
enum rox_side {
    ROX_SIDE_CLIENT,
    ROX_SIDE_SERVER,
    ROX_SIDE_OTHER, /* other tasks: kernel threads */
    ROX_SIDE_IDLE,
    ROX_SIDE_WAIT, /* a program polls in vain */
    ROX_SIDES,
};

#endif
