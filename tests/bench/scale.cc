// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// What many objects cost on one device. Each verb prints one JSON object.
//
//   scale DEVICE qps N         opens N RC QPs with 16 WRs each way, connected in pairs; stays
//                              until it is ended by a signal
//   scale DEVICE reg MIB huge|plain     registers and deregisters one region several times
//   scale DEVICE mrs N         registers N regions of one page, then deregisters them

#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "../verbs/lib/gid.h"

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHugePage = 2 << 20;
constexpr int kRegisterTimes = 3;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

double now()
{
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
}

[[noreturn]] void fail(const std::string &what, int error = errno)
{
    throw std::system_error(error, std::generic_category(), what);
}

/// KiB that could still be given to somebody: what is gone is used by us or for us.
long available_kib()
{
    std::ifstream info("/proc/meminfo");
    std::string name;
    long value = 0;
    for (std::string unit; info >> name >> value >> unit;) {
        if (name == "MemAvailable:")
            return value;
    }
    throw std::runtime_error("no MemAvailable");
}

/// A device with a protection domain, and the GID entry of its IPv4 address.
class Device {
public:
    explicit Device(const std::string &name)
    {
        int count = 0;
        ibv_device **list = ibv_get_device_list(&count);
        if (!list)
            fail("ibv_get_device_list");
        for (int i = 0; i < count; ++i) {
            if (name == ibv_get_device_name(list[i]))
                context_ = ibv_open_device(list[i]);
        }
        ibv_free_device_list(list);
        if (!context_)
            fail("no device " + name, ENODEV);
        pd_ = ibv_alloc_pd(context_);
        if (!pd_)
            fail("ibv_alloc_pd");
    }

    [[nodiscard]] ibv_context *context() const { return context_; }
    [[nodiscard]] ibv_pd *pd() const { return pd_; }

    [[nodiscard]] ibv_gid_entry ipv4_gid() const
    {
        const auto entry = vt::find_gid(context_, vt::is_v4_mapped);
        if (!entry)
            fail("no GID for an IPv4 address", ENOENT);
        return *entry;
    }

private:
    ibv_context *context_ = nullptr;
    ibv_pd *pd_ = nullptr;
};

ibv_qp *create_qp(const Device &device, ibv_cq *cq)
{
    ibv_qp_init_attr init{};
    init.send_cq = cq;
    init.recv_cq = cq;
    init.cap = {.max_send_wr = 16,
                .max_recv_wr = 16,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    ibv_qp *qp = ibv_create_qp(device.pd(), &init);
    if (!qp)
        fail("ibv_create_qp");
    return qp;
}

void modify(ibv_qp *qp, ibv_qp_attr &attr, int mask, const char *state)
{
    if (const int error = ibv_modify_qp(qp, &attr, mask))
        fail(state, error);
}

void connect(ibv_qp *qp, uint32_t peer, const ibv_gid_entry &gid)
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kAccess;
    modify(qp, attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");

    attr = {};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = gid.gid;
    attr.ah_attr.grh.sgid_index = static_cast<uint8_t>(gid.gid_index);
    attr.ah_attr.grh.hop_limit = 64;
    modify(qp, attr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
           "RTR");

    attr = {};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    modify(qp, attr,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "RTS");
}

void open_qps(const Device &device, size_t count)
{
    const ibv_gid_entry gid = device.ipv4_gid();
    ibv_cq *cq = ibv_create_cq(device.context(), 256, nullptr, nullptr, 0);
    if (!cq)
        fail("ibv_create_cq");
    std::vector<ibv_qp *> qps(count);
    const long before = available_kib();
    const double start = now();
    std::generate(qps.begin(), qps.end(), [&] { return create_qp(device, cq); });
    const double created = now();
    for (size_t i = 0; i < count; ++i)
        connect(qps[i], qps[i ^ 1]->qp_num, gid);
    const double connected = now();
    const double each = static_cast<double>(before - available_kib()) / static_cast<double>(count);
    std::printf("{\"qp_kib\": %.3f, \"create_us\": %.2f, \"modify_us\": %.2f}\n", each,
                (created - start) * 1e6 / static_cast<double>(count),
                (connected - created) * 1e6 / static_cast<double>(count));
    std::fflush(stdout);
    pause();
}

void register_once(const Device &device, size_t size, bool huge)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | (huge ? MAP_HUGETLB : 0);
    void *memory = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, flags, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    if (!huge && madvise(memory, size + kHugePage, MADV_NOHUGEPAGE) != 0)
        fail("madvise");
    // The same offset in a huge page both times.
    const size_t start = reinterpret_cast<size_t>(memory) % kHugePage;
    char *buffer = static_cast<char *>(memory) + (start ? kHugePage - start : 0);
    for (size_t i = 0; i < size; i += kPage)
        buffer[i] = 1;
    std::vector<double> up, down;
    for (int i = 0; i < kRegisterTimes; ++i) {
        const double began = now();
        ibv_mr *mr = ibv_reg_mr(device.pd(), buffer, size, kAccess);
        if (!mr)
            fail("ibv_reg_mr");
        up.push_back(now() - began);
        const double registered = now();
        if (const int error = ibv_dereg_mr(mr))
            fail("ibv_dereg_mr", error);
        down.push_back(now() - registered);
    }
    std::sort(up.begin(), up.end());
    std::sort(down.begin(), down.end());
    std::printf("{\"reg_ms\": %.3f, \"dereg_ms\": %.3f}\n", up[kRegisterTimes / 2] * 1e3,
                down[kRegisterTimes / 2] * 1e3);
}

void register_many(const Device &device, size_t count)
{
    std::vector<char> buffer(kPage * 65, 1);
    const size_t start = kPage - reinterpret_cast<size_t>(buffer.data()) % kPage;
    std::vector<ibv_mr *> regions(count);
    const long before = available_kib();
    const double began = now();
    for (size_t i = 0; i < count; ++i) {
        regions[i] = ibv_reg_mr(device.pd(), buffer.data() + start + i % 64 * kPage, kPage,
                                kAccess);
        if (!regions[i])
            fail("ibv_reg_mr number " + std::to_string(i));
    }
    const double registered = now();
    const long after = available_kib();
    for (ibv_mr *mr : regions) {
        if (const int error = ibv_dereg_mr(mr))
            fail("ibv_dereg_mr", error);
    }
    const auto number = static_cast<double>(count);
    std::printf("{\"reg_us\": %.3f, \"dereg_us\": %.3f, \"kib\": %.3f}\n",
                (registered - began) * 1e6 / number, (now() - registered) * 1e6 / number,
                static_cast<double>(before - after) / number);
}

int run(int argc, char **argv)
{
    if (argc < 4) {
        std::fputs("usage: scale DEVICE qps|mrs N, scale DEVICE reg MIB huge|plain\n", stderr);
        return 2;
    }
    const Device device(argv[1]);
    const std::string verb = argv[2];
    const size_t count = std::strtoul(argv[3], nullptr, 10);
    if (verb == "qps" && count % 2 == 0) {
        open_qps(device, count);
    } else if (verb == "mrs") {
        register_many(device, count);
    } else if (verb == "reg" && argc > 4) {
        register_once(device, count << 20, std::string(argv[4]) == "huge");
    } else {
        return 2;
    }
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    try {
        return run(argc, argv);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "scale: %s\n", error.what());
        return 1;
    }
}
