/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * RDMA devices and their objects, as netlink tells of them.
 */
#ifndef ROX_TOOLS_RDMA_HPP
#define ROX_TOOLS_RDMA_HPP

#include "lib/netlink.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace rox {

/// A field of the driver (`rdma resource show -dd`).
using Field = std::variant<uint64_t, std::string>;
using Fields = std::map<std::string, Field, std::less<>>;

/// The number in a field; 0 if there is none.
uint64_t number_in(const Fields &fields, std::string_view name);
/// The text in a field; empty if there is none.
std::string text_in(const Fields &fields, std::string_view name);

struct RdmaPort {
    uint32_t index = 0;
    uint32_t device = 0; ///< index of the device
    std::string netdev;  ///< empty if it is in another network namespace
    bool active = false;
    std::map<std::string, uint64_t> counters;
};

struct RdmaDevice {
    uint32_t index = 0;
    std::string name;
    std::string protocol;
    std::vector<RdmaPort> ports;
};

/// What all objects have: number, owner, the driver's fields.
struct RdmaObject {
    uint64_t number = 0;
    uint64_t pid = 0; ///< 0: the kernel's, or a process of another PID namespace
    std::string kernel_user;
    Fields driver;
};

struct RdmaQp : RdmaObject {
    uint32_t type = 0, state = 0, peer = 0;
};

struct RdmaCq : RdmaObject {
    uint64_t entries = 0, users = 0;
};

struct RdmaMr : RdmaObject {
    uint64_t length = 0;
};

/// Counters of a QP or of some QPs (`rdma statistic qp show`).
struct RdmaQpCounters {
    uint32_t id = 0;
    std::vector<uint64_t> qps;
    std::map<std::string, uint64_t> counters;
};

const char *qp_type_name(uint32_t type);
const char *qp_state_name(uint32_t state);

/// All devices that the caller's network namespace sees, with their ports but without counters.
std::vector<RdmaDevice> rdma_devices(RdmaNetlink &netlink);
std::map<std::string, uint64_t> rdma_port_counters(RdmaNetlink &netlink, const RdmaPort &port);
std::vector<RdmaQp> rdma_qps(RdmaNetlink &netlink, uint32_t device);
std::vector<RdmaCq> rdma_cqs(RdmaNetlink &netlink, uint32_t device);
std::vector<RdmaMr> rdma_mrs(RdmaNetlink &netlink, uint32_t device);
std::vector<RdmaQpCounters> rdma_qp_counters(RdmaNetlink &netlink, uint32_t device);
/// True if RDMA devices are seen in the network namespace of their netdev only.
std::optional<bool> rdma_netns_exclusive(RdmaNetlink &netlink);

} // namespace rox

#endif // ROX_TOOLS_RDMA_HPP
