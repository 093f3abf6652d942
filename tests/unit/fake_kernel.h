/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * The kernel and libibverbs as the provider meets them, played in the test's own
 * process: the private functions of libibverbs are defined here, rings lie in a
 * memfd that stands for the device, and doorbells are heard by a wrapped write() and ioctl().
 */
#ifndef ROX_TESTS_FAKE_KERNEL_H
#define ROX_TESTS_FAKE_KERNEL_H

#include "abi/pabi.hpp"
#include "layout.hpp"
#include "plain_ring.h"

#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace rox::test {

/// The kernel's end of one ring in the memfd.
struct KernelRing {
    rox_ring_desc desc{};
    std::byte *base = nullptr;
    uint64_t slab = 0; // that it lies in

    bool exists() const { return desc.entries != 0; }
    rox_ring_ctrl &ctrl() const
    {
        return *reinterpret_cast<rox_ring_ctrl *>(base + desc.ctrl_offset);
    }
    std::byte *at(uint32_t index) const
    {
        return base + desc.entries_offset + size_t{index & (desc.entries - 1)} * desc.stride;
    }
    uint32_t waiting() const { return ctrl().producer - ctrl().consumer; }

    template <typename T>
    T take()
    {
        T value;

        std::memcpy(&value, at(ctrl().consumer++), sizeof(value));
        return value;
    }
    template <typename T>
    void add(const T &value)
    {
        std::memcpy(at(ctrl().producer++), &value, sizeof(value));
    }
};

struct FakeQp {
    KernelRing sq;
    KernelRing rq;
    ibv_qp_state state = IBV_QPS_RESET;
    std::vector<int> masks; // of every modify
};

class FakeKernel {
public:
    /// The one that the functions of libibverbs talk to.
    static FakeKernel *now;

    FakeKernel();
    ~FakeKernel();
    FakeKernel(const FakeKernel &) = delete;
    FakeKernel &operator=(const FakeKernel &) = delete;

    /// Opens the device through what the provider has registered. May be nullptr.
    ibv_context *open();
    void close();

    static const rdmacore::verbs_device_ops *driver();
    const rdmacore::verbs_context_ops &ops() const { return ops_; }

    /// The next call of the function of this name fails with @p error.
    void fail_next(const std::string &function, int error) { failures_[function] = error; }

    /// Rings of objects by handle.
    std::map<uint32_t, KernelRing> cqs;
    std::map<uint32_t, KernelRing> srqs;
    std::map<uint32_t, FakeQp> qps;
    std::set<uint32_t> others; // PDs, MRs, AHs

    std::vector<uint32_t> send_doorbells; // QP handles
    size_t yields = 0;                    // how often the provider has let others run
    std::vector<int64_t> sleeps;          // in CQs, in ns
    int64_t clock_ns = 0;                 // CLOCK_MONOTONIC; 0: that of the machine
    int64_t reading_ns = 20;              // how long it takes to read it
    std::vector<uint32_t> recv_doorbells;
    std::vector<uint32_t> ioctl_doorbells; // by ibv_cmd_post_send() and ibv_cmd_post_recv()
    std::vector<unsigned long> bells;      // arguments of ROX_DOORBELL_RING
    int bell_error = 0;                    // what that fails with
    int doorbell_error = 0;
    int doorbell_failures = 0; // how often it is given; 0: always

    uint32_t abi_version = ROX_ABI_VERSION;
    uint32_t next_ah = 0x700;
    /// Of the AH that was created last.
    uint8_t last_sgid_index = 0;
    uint32_t cq_request_flags = 0;          // rox_create_cq_req of the last CQ
    uint64_t cq_wc_flags = 0;               // that libibverbs was told for it
    std::vector<int> srq_masks;             // of every modify
    bool spoil_offer = false;               // offers rings that lie outside of their mapping
    bool refuse_mmap = false;               // offers what cannot be mapped
    std::function<void()> during_modify_qp; // runs in each call, before anything is modified
    std::function<void()> after_modify_qp;  // the same at its end, if it changes the state

    /* A kernel that is older or newer than the provider. */
    size_t knows_of_requests = SIZE_MAX; // bytes of each driver's part; the rest must be 0
    size_t answers_only = SIZE_MAX;      // bytes of each driver's part
    size_t answers_more = 0;             // bytes behind it that the provider does not know
    size_t longer_entries = 0;           // bytes behind each entry of a ring
    uint64_t features = 0;               // of its context
    uint64_t asked_features = 0;         // of the provider
    bool shares = false;                 // lets objects share mappings, if the provider knows that

    int fd() const { return fd_; }

    /* For the functions of libibverbs. */
    int fail(const char *function);
    uint32_t new_handle() { return next_handle_++; }
    /// A mapping for rings of these entries and strides, or with @p place a part of one; their
    /// descriptions are filled in.
    rox_mapping offer(std::vector<KernelRing *> rings, rox_place *place);
    /// Ends the use of what was offered for @p ring.
    void withdraw(const KernelRing &ring);
    size_t slabs() const { return slabs_.size(); }
    static KernelRing sized(uint32_t entries, size_t stride);

    rdmacore::verbs_context_ops ops_ = {};
    bool doorbell(int fd, const void *command, size_t size);
    /// The uverbs ioctl and that of doorbell objects: 0 or an errno value.
    int ioctl(int fd, unsigned long request, void *arg);
    /// Is it the device, or its doorbell object?
    bool hears(int fd) const { return fd == fd_ || (bell_fd_ >= 0 && fd == bell_fd_); }
    int bell_fd() const { return bell_fd_; }

private:
    /* A mapping of several objects, whose places are given out once. */
    struct FakeSlab {
        rox_mapping map;
        std::byte *base;
        size_t used;      // bytes
        uint32_t objects; // that are left
    };

    int alloc_bell(ib_uverbs_ioctl_hdr &hdr);
    int wait_cq(ib_uverbs_ioctl_hdr &hdr);
    std::pair<rox_mapping, std::byte *> new_mapping(size_t size);
    FakeSlab &slab_for(size_t size);

    int fd_ = -1;
    int bell_fd_ = -1;
    size_t end_ = 0;
    std::map<uint64_t, FakeSlab> slabs_;
    uint64_t last_slab_ = 0;
    uint32_t next_handle_ = 100;
    std::map<std::string, int> failures_;
    std::vector<std::pair<void *, size_t>> views_;
    rdmacore::verbs_device *device_ = nullptr;
    ibv_context *context_ = nullptr;
};

} // namespace rox::test

#endif // ROX_TESTS_FAKE_KERNEL_H
