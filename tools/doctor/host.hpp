/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * All that the diagnoses look at. A test replaces each part.
 */
#ifndef ROX_DOCTOR_HOST_HPP
#define ROX_DOCTOR_HOST_HPP

#include "lib/netlink.hpp"
#include "lib/rdma.hpp"
#include "lib/tree.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rox::doctor {

/// The caller's process.
struct Process {
    std::string kernel;        ///< as `uname -r` prints it
    uint64_t memlock = 0;      ///< soft limit of locked memory in bytes; all ones: none
    bool may_lock_all = false; ///< has CAP_IPC_LOCK
};

/// What a command printed.
struct CommandResult {
    bool ran = false; ///< false if there is no such command, or it failed
    std::string output;
};

class Commands {
public:
    virtual ~Commands() = default;
    virtual CommandResult run(const std::vector<std::string> &command) = 0;
};

/// Whether packets of a size get to a peer.
enum class Reach { yes, no, unknown };

class Network {
public:
    virtual ~Network() = default;
    /// Whether an offload of a netdev is on; nothing if the netdev does not have it.
    virtual std::optional<bool> feature(const std::string &netdev, const std::string &name) = 0;
    /// Pings an address from a netdev with this many bytes of IP packet, which are not fragmented.
    virtual Reach ping(const std::string &netdev, const std::string &address, size_t size) = 0;
};

/// An entry of a GID table.
struct Gid {
    unsigned index = 0;
    std::array<uint8_t, 16> bytes{};
    std::string netdev; ///< that has the address; a VLAN, though the device's netdev is below it
    bool here = false;  ///< that netdev is in the caller's network namespace

    bool ipv4() const;
    bool link_local() const;
    std::string address() const;
};

/// A rox device.
struct Device {
    std::string name;
    std::string netdev;       ///< as the attribute `parent` says
    bool netdev_here = false; ///< the netdev is in the caller's network namespace
    bool active = false;
    std::vector<Gid> gids; ///< those of RoCE v2

    /// Programs of the caller's network namespace can use it there.
    bool usable_here() const;
};

class SelfTest {
public:
    virtual ~SelfTest() = default;
    /// Sends between two QPs of the device. Empty: it worked; else what failed.
    virtual std::string run(const std::string &device, unsigned gid_index) = 0;
};

struct Host {
    const Tree &files;
    RdmaNetlink &netlink;
    Commands &commands;
    Network &network;
    SelfTest &self_test;
    Process process;
};

/// What the user asked for.
struct Options {
    std::string device;                ///< empty: all
    std::optional<unsigned> gid_index; ///< the one that a program will use
    std::string peer;                  ///< an address, or empty
    bool self_test = true;
};

/// The GIDs of RoCE v2 of a device's port 1; of none it is known whether it is here.
std::vector<Gid> gids_of(const Tree &files, const std::string &device);
/// The rox devices that the caller sees: all, or the one of that name.
std::vector<Device> devices_of(const Host &host, const Options &options);
/// The names of all RDMA devices.
std::vector<std::string> all_rdma_devices(const Host &host);
bool is_rox(const Tree &files, const std::string &device);
bool is_rxe(const Tree &files, const std::string &device);

} // namespace rox::doctor

#endif // ROX_DOCTOR_HOST_HPP
