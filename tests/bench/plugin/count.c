// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A plugin of QEMU that counts instructions of the guest, for scripts/count.
 *
 *   -plugin libcount.so,out=FILE
 *
 * Until a mark says ROX_MARK_ARM it only looks for marks (marks.h), which costs nothing. Then each
 * translated block has a counter for each CPU and side. Between START and STOP of a run blocks are
 * counted; at STOP the counters are written to FILE:
 *
 *   run NUMBER
 *   block ADDRESS INSTRUCTIONS LOCKED COUNT...      executions, for each side
 *   bytes ADDRESS CLASS CALLS... BYTES...           of a watched function, for each side
 *   end NUMBER
 */

#include <glib.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qemu-plugin.h>

#include "marks.h"

#define MAX_CPUS 4
#define BUCKETS (1 << 16)
#define TASKS (1 << 10)
#define WATCHES 64

/* A run of instructions without a branch, as QEMU translates it. */
struct block {
    struct block *next;
    uint64_t address;
    uint32_t instructions;
    uint32_t locked;
    uint64_t count[MAX_CPUS][ROX_SIDES];
};

struct watch {
    uint64_t address;
    unsigned int what;
    unsigned int reg;
    uint64_t calls[MAX_CPUS][ROX_SIDES];
    uint64_t bytes[MAX_CPUS][ROX_SIDES];
};

struct cpu {
    unsigned int side;
    unsigned int before_wait;
    bool told; /* the running task has said its side, and its address is not known yet */
    uint64_t task;
    struct qemu_plugin_register *regs[ROX_REGISTERS];
    GByteArray *value;
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static const uint8_t mark_bytes[] = {ROX_MARK_BYTES};
static const char *const register_names[ROX_REGISTERS] = {"rdi", "rsi", "rdx", "rcx"};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static qemu_plugin_id_t plugin;
static struct block *blocks[BUCKETS];
static struct watch watches[WATCHES];
static unsigned int watch_count;
static struct cpu cpus[MAX_CPUS];
/* The sides of tasks, by the address of the task; open addressing. */
static struct {
    uint64_t task;
    unsigned int side;
} tasks[TASKS];
static bool armed;
static bool counting;
static FILE *out;

/* -- sides ------------------------------------------------------------ */

static unsigned int *side_of(uint64_t task)
{
    for (unsigned int i = 0, at = task >> 6; i < TASKS; ++i, ++at) {
        if (tasks[at % TASKS].task == task)
            return &tasks[at % TASKS].side;
        if (!tasks[at % TASKS].task) {
            tasks[at % TASKS].task = task;
            tasks[at % TASKS].side = ROX_SIDE_OTHER;
            return &tasks[at % TASKS].side;
        }
    }
    /* So many tasks have come and gone that all are forgotten; those that count say their side
     * before a run. */
    memset(tasks, 0, sizeof(tasks));
    return side_of(task);
}

static void switch_task(struct cpu *cpu, uint64_t previous, uint64_t next)
{
    pthread_mutex_lock(&lock);
    if (cpu->told || cpu->task == previous)
        *side_of(previous) = cpu->side;
    cpu->told = false;
    cpu->task = next;
    cpu->side = *side_of(next);
    pthread_mutex_unlock(&lock);
}

static void mark_wait(struct cpu *cpu, bool begins)
{
    if (begins && cpu->side != ROX_SIDE_WAIT) {
        cpu->before_wait = cpu->side;
        cpu->side = ROX_SIDE_WAIT;
    } else if (!begins && cpu->side == ROX_SIDE_WAIT) {
        cpu->side = cpu->before_wait;
    }
}

/* -- registers -------------------------------------------------------- */

static void find_registers(struct cpu *cpu)
{
    GArray *all = qemu_plugin_get_registers();

    for (guint i = 0; i < all->len; ++i) {
        const qemu_plugin_reg_descriptor *reg = &g_array_index(all, qemu_plugin_reg_descriptor, i);

        for (unsigned int j = 0; j < ROX_REGISTERS; ++j) {
            if (!strcmp(reg->name, register_names[j]))
                cpu->regs[j] = reg->handle;
        }
    }
    g_array_free(all, TRUE);
    cpu->value = g_byte_array_new();
}

static uint64_t read_register(struct cpu *cpu, unsigned int number)
{
    uint64_t value = 0;

    if (!cpu->value)
        find_registers(cpu);
    g_byte_array_set_size(cpu->value, 0);
    if (cpu->regs[number] &&
        qemu_plugin_read_register(cpu->regs[number], cpu->value) >= (int)sizeof(value))
        memcpy(&value, cpu->value->data, sizeof(value));
    return value;
}

/* -- results ---------------------------------------------------------- */

static uint64_t sum(uint64_t count[MAX_CPUS][ROX_SIDES], unsigned int side)
{
    uint64_t total = 0;

    for (unsigned int i = 0; i < MAX_CPUS; ++i)
        total += count[i][side];
    return total;
}

static void print_sums(uint64_t count[MAX_CPUS][ROX_SIDES])
{
    for (unsigned int side = 0; side < ROX_SIDES; ++side)
        fprintf(out, " %" PRIu64, sum(count, side));
}

static void start_run(void)
{
    for (unsigned int i = 0; i < BUCKETS; ++i) {
        for (struct block *block = blocks[i]; block; block = block->next)
            memset(block->count, 0, sizeof(block->count));
    }
    for (unsigned int i = 0; i < watch_count; ++i) {
        memset(watches[i].calls, 0, sizeof(watches[i].calls));
        memset(watches[i].bytes, 0, sizeof(watches[i].bytes));
    }
    counting = true;
}

static void print_block(struct block *block)
{
    for (unsigned int side = 0; side < ROX_SIDES; ++side) {
        if (sum(block->count, side)) {
            fprintf(out, "block %" PRIx64 " %u %u", block->address, block->instructions,
                    block->locked);
            print_sums(block->count);
            fprintf(out, "\n");
            return;
        }
    }
}

static void stop_run(uint64_t number)
{
    counting = false;
    fprintf(out, "run %" PRIu64 "\n", number);
    for (unsigned int i = 0; i < BUCKETS; ++i) {
        for (struct block *block = blocks[i]; block; block = block->next)
            print_block(block);
    }
    for (unsigned int i = 0; i < watch_count; ++i) {
        if (watches[i].what >= ROX_WATCH_CLASSES)
            continue;
        fprintf(out, "bytes %" PRIx64 " %u", watches[i].address, watches[i].what);
        print_sums(watches[i].calls);
        print_sums(watches[i].bytes);
        fprintf(out, "\n");
    }
    fprintf(out, "end %" PRIu64 "\n", number);
    fflush(out);
}

/* -- marks and blocks ------------------------------------------------- */

static void see_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb);

static void begin(qemu_plugin_id_t id)
{
    qemu_plugin_register_vcpu_tb_trans_cb(id, see_block);
}

static void add_watch(uint64_t address, uint64_t how)
{
    struct watch *watch;

    if (watch_count == WATCHES) {
        fprintf(stderr, "count: more than %d functions to watch\n", WATCHES);
        abort();
    }
    watch = &watches[watch_count++];
    watch->address = address;
    watch->what = how & 0xff;
    watch->reg = how >> 8 & 0xff;
    if (watch->reg >= ROX_REGISTERS)
        abort();
}

static void mark(unsigned int number, void *unused)
{
    struct cpu *cpu = &cpus[number % MAX_CPUS];
    uint64_t first = read_register(cpu, ROX_REGISTER_RSI);

    (void)unused;
    switch (read_register(cpu, ROX_REGISTER_RDI)) {
    case ROX_MARK_WATCH: add_watch(first, read_register(cpu, ROX_REGISTER_RDX)); break;
    case ROX_MARK_ARM:
        if (!armed) {
            armed = true;
            /* All blocks are translated again, and see_block() sees them. */
            qemu_plugin_reset(plugin, begin);
        }
        break;
    case ROX_MARK_SIDE:
        cpu->side = first % ROX_SIDES;
        cpu->told = true;
        break;
    case ROX_MARK_START: start_run(); break;
    case ROX_MARK_STOP: stop_run(first); break;
    case ROX_MARK_WAIT: mark_wait(cpu, first); break;
    }
}

static void called(unsigned int number, void *data)
{
    struct cpu *cpu = &cpus[number % MAX_CPUS];
    struct watch *watch = data;

    switch (watch->what) {
    case ROX_WATCH_SWITCH:
        switch_task(cpu, read_register(cpu, ROX_REGISTER_RDI),
                    read_register(cpu, ROX_REGISTER_RSI));
        break;
    case ROX_WATCH_IDLE:
        if (cpu->side != ROX_SIDE_IDLE) {
            cpu->side = ROX_SIDE_IDLE;
            cpu->told = true;
        }
        break;
    default:
        if (counting) {
            watch->calls[number % MAX_CPUS][cpu->side]++;
            watch->bytes[number % MAX_CPUS][cpu->side] += read_register(cpu, watch->reg);
        }
    }
}

static void executed(unsigned int number, void *data)
{
    struct block *block = data;

    if (counting)
        block->count[number % MAX_CPUS][cpus[number % MAX_CPUS].side]++;
}

/* Skips prefixes: for segments, sizes of operand and address, repetition. */
static size_t skip_prefixes(const uint8_t *code, size_t size)
{
    size_t i = 0;

    while (i < size && memchr("\x26\x2e\x36\x3e\x64\x65\x66\x67\xf2\xf3", code[i], 10))
        ++i;
    return i;
}

/* True for a string instruction that is repeated. */
static bool is_repeated(const uint8_t *code, size_t size)
{
    size_t i = skip_prefixes(code, size);

    if (!i || (code[i - 1] & 0xfe) != 0xf2)
        return false;
    if (i < size && (code[i] & 0xf0) == 0x40)
        ++i;
    return i < size && memchr("\xa4\xa5\xa6\xa7\xaa\xab\xac\xad\xae\xaf", code[i], 10);
}

/* True if the instruction is locked: by a prefix, or an exchange with memory. */
static bool is_locked(const uint8_t *code, size_t size)
{
    size_t i = skip_prefixes(code, size);

    if (i < size && code[i] == 0xf0)
        return true;
    if (i < size && (code[i] & 0xf0) == 0x40)
        ++i;
    return i + 1 < size && (code[i] & 0xfe) == 0x86 && code[i + 1] >> 6 != 3;
}

static struct block *find_block(uint64_t address, uint32_t instructions, uint32_t locked)
{
    struct block **at = &blocks[(address ^ address >> 16) % BUCKETS];
    struct block *block;

    for (block = *at; block; block = block->next) {
        if (block->address == address && block->instructions == instructions &&
            block->locked == locked)
            return block;
    }
    block = calloc(1, sizeof(*block));
    if (!block)
        abort();
    block->address = address;
    block->instructions = instructions;
    block->locked = locked;
    block->next = *at;
    *at = block;
    return block;
}

/* Returns true if the instruction is repeated. */
static bool see_instruction(struct qemu_plugin_insn *insn, uint32_t *locked)
{
    uint8_t code[16];
    size_t size = qemu_plugin_insn_data(insn, code, sizeof(code));
    uint64_t address = qemu_plugin_insn_vaddr(insn);

    if (size == sizeof(mark_bytes) && !memcmp(code, mark_bytes, sizeof(mark_bytes)))
        qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, QEMU_PLUGIN_CB_R_REGS, NULL);
    if (!armed)
        return false;
    *locked += is_locked(code, size);
    for (unsigned int i = 0; i < watch_count; ++i) {
        if (watches[i].address == address)
            qemu_plugin_register_vcpu_insn_exec_cb(insn, called, QEMU_PLUGIN_CB_R_REGS,
                                                   &watches[i]);
    }
    return is_repeated(code, size);
}

static void see_block(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
    size_t count = qemu_plugin_tb_n_insns(tb);
    uint32_t locked = 0;
    bool again = false;

    (void)id;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < count; ++i) {
        bool repeated = see_instruction(qemu_plugin_tb_get_insn(tb, i), &locked);

        again |= repeated && !i;
    }
    /* QEMU executes a repetition as a block that begins with the instruction, again and again. */
    if (armed)
        qemu_plugin_register_vcpu_tb_exec_cb(
            tb, executed, QEMU_PLUGIN_CB_NO_REGS,
            find_block(qemu_plugin_tb_vaddr(tb), count - again, locked));
    pthread_mutex_unlock(&lock);
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
                                           char **argv)
{
    (void)info;
    plugin = id;
    for (int i = 0; i < argc; ++i) {
        if (!strncmp(argv[i], "out=", 4))
            out = fopen(argv[i] + 4, "w");
    }
    if (!out) {
        fprintf(stderr, "count: no file to write: out=FILE\n");
        return 1;
    }
    for (unsigned int i = 0; i < MAX_CPUS; ++i)
        cpus[i].side = ROX_SIDE_OTHER;
    begin(id);
    return 0;
}
