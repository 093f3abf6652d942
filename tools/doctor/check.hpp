/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/**
 * @file
 * A diagnosis: what it finds, and the commands that mend it.
 */
#ifndef ROX_DOCTOR_CHECK_HPP
#define ROX_DOCTOR_CHECK_HPP

#include "doctor/host.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace rox::doctor {

enum class Level {
    ok,      ///< looked at and in order
    note,    ///< good to know
    warning, ///< some programs will fail
    problem, ///< nothing will work before it is mended
};

struct Finding {
    Level level = Level::ok;
    std::string what;
    std::vector<std::string> commands; ///< that mend it
};

using Findings = std::vector<Finding>;

class Check {
public:
    virtual ~Check() = default;
    /// A word for the report and for --only.
    virtual std::string_view name() const = 0;
    virtual Findings look(const Host &host, const Options &options) const = 0;
};

/// Is there a module that this kernel can load, and is it the one that runs?
class ModuleCheck : public Check {
public:
    std::string_view name() const override { return "module"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Is the provider there for the private ABI that the installed libibverbs speaks?
class ProviderCheck : public Check {
public:
    std::string_view name() const override { return "provider"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Does another driver or program have UDP port 4791?
class PortCheck : public Check {
public:
    std::string_view name() const override { return "port"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Is there a device?
class LinkCheck : public Check {
public:
    std::string_view name() const override { return "link"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Do network namespaces hide a device or its netdev?
class NamespaceCheck : public Check {
public:
    std::string_view name() const override { return "netns"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Which GID shall programs use?
class GidCheck : public Check {
public:
    std::string_view name() const override { return "gid"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Does the RDMA CM choose another device?
class AddressCheck : public Check {
public:
    std::string_view name() const override { return "address"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Do packets of the path MTU get through, up to the peer?
class MtuCheck : public Check {
public:
    std::string_view name() const override { return "mtu"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Does a firewall drop UDP port 4791?
class FirewallCheck : public Check {
public:
    std::string_view name() const override { return "firewall"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// May the user register memory?
class MemlockCheck : public Check {
public:
    std::string_view name() const override { return "memlock"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// May the user open the devices of /dev/infiniband?
class DeviceFileCheck : public Check {
public:
    std::string_view name() const override { return "rights"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Does the netdev take UDP frames of many packets?
class OffloadCheck : public Check {
public:
    std::string_view name() const override { return "offload"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Do marks of the network slow senders, and could it mark?
class CongestionCheck : public Check {
public:
    std::string_view name() const override { return "congestion"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// Does a message get from one QP of a device to another?
class TrafficCheck : public Check {
public:
    std::string_view name() const override { return "traffic"; }
    Findings look(const Host &host, const Options &options) const override;
};

/// All checks, in the order in which a user would mend what they find.
std::vector<std::unique_ptr<Check>> all_checks();

/// The GID that programs shall use, of those whose netdevs are here: the first of IPv4, else of a
/// routable IPv6 address, else the first.
const Gid *best_gid(const Device &device);

} // namespace rox::doctor

#endif // ROX_DOCTOR_CHECK_HPP
